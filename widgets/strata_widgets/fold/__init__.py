"""`FoldView`: which rows the recurrent memory takes in, and when."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import altair as alt

from strata_nb import Engine, WindowRecord
from strata_nb.faults import FAULTS
from strata_nb.trace.folds import fold_of
from strata_nb.trace.text import counted
from strata_widgets.drawing import nothing
from strata_widgets.fold.drawings import labels, rows_of_the_window
from strata_widgets.fold.rows import (
    HEAD,
    MISSING,
    after_root,
    at_commit,
    begins_with,
    boxes,
    line_of,
    mode_of,
    next_begins,
)
from strata_widgets.panel.control import Table
from strata_widgets.selection import Dimension
from strata_widgets.trace_view import TraceView

_EMPTY: Final = "Run a window, and its fold appears here."
_LINES: Final = 8
_FOLDS: Final = "linear_attention"
_PARTS: Final = ("gdn_state", "gdn_conv")


class FoldView(TraceView):
    """The fold of each window: rows saved, the state after row 0, the replay.

    It says what a sound engine does with such a window; the record tells which. An
    engine tells more: its kinds of layers, a window that is open, a planted fault.

    Example:
        >>> folds = FoldView(engine)
        >>> folds.select(window=2)
    """

    TITLE = "Fold"
    SELECTS: ClassVar[tuple[Dimension, ...]] = ("window", "layer")

    def __init__(self, source: Any, **traits: Any) -> None:
        """Look at `source`: an engine, a session, a trace, or window records.

        Raises:
            TypeError: `source` has no trace.
        """
        self._engine = source if isinstance(source, Engine) else None
        # A session's own engine is not to be had: what it hands out is a copy.
        model = getattr(source, "model", None)
        self._kinds: tuple[str, ...] = ()
        if model is not None:
            self._kinds = tuple(model.config.layer_types)
        super().__init__(source, **traits)

    def _forget(self) -> None:
        self._replays = self._replayed = self._unknown = 0

    def _take(self, records: Sequence[WindowRecord], *, first: int) -> None:
        for record in records:
            fold = fold_of(record)
            self._unknown += fold.when is None
            self._replays += bool(fold.replayed)
            self._replayed += len(fold.replayed)

    def _bounds(self, dimension: Dimension) -> tuple[int, int] | None:
        if dimension == "layer" and self._kinds:
            return 0, len(self._kinds) - 1
        return super()._bounds(dimension)

    def _specs(self) -> Mapping[str, alt.LayerChart]:
        return {"rows": rows_of_the_window()}

    def _draw(self) -> None:
        window = self._window()
        rows = nothing(_EMPTY)
        if window is not None:
            rows = boxes(window, self._trace[window], self._before(window))
        self._live["rows"].replace([*labels(), *rows])

    def _before(self, window: int) -> WindowRecord | None:
        """The record of the window before, unless the state came from elsewhere."""
        if window == 0:
            return None
        before = self._trace[window - 1]
        follows = before.position + before.keep == self._trace[window].position
        return before if follows else None

    def _status(self) -> str:
        said = [*self._counts(), *self._of_the_window(), *self._of_the_engine()]
        return "; ".join(said)

    def _counts(self) -> list[str]:
        if not self._seen:
            return ["no windows yet"]
        windows, rows = counted(self._seen, "window"), counted(self._replayed, "row")
        verb = "replays" if self._replays == 1 else "replay"
        said = [f"{windows}, {self._replays} {verb} {rows}"]
        if self._unknown:
            said.append(f"of {self._unknown} the record does not say how")
        return [*said, *self._lacking()]

    def _of_the_window(self) -> list[str]:
        window = self._window()
        if window is None:
            return []
        record = self._trace[window]
        fold = fold_of(record)
        return [
            f"window {window}: T = {record.T}, keep {record.keep}, {mode_of(record)}",
            f"commit: {at_commit(fold)}",
            f"next run begins with {next_begins(fold)}",
        ]

    def _of_the_engine(self) -> list[str]:
        engine = self._engine
        if engine is None or engine.window is None:
            return []
        open_ = engine.window
        return [
            f"a window of {open_.T} rows is open ({open_.phase}): its rows are saved, "
            "S is as before it"
        ]

    def _tables(self) -> Sequence[Table]:
        window = self._window()
        if window is None:
            return ()
        first = max(0, min(window - _LINES // 2, self._seen - _LINES))
        shown = range(first, min(first + _LINES, self._seen))
        lines = [line_of(n, self._trace[n], self._before(n)) for n in shown]
        return [
            self._facts(window),
            Table(
                "Folds of the windows around it",
                HEAD,
                lines,
                marked=shown.index(window),
                hidden=self._seen - len(shown),
            ),
        ]

    def _facts(self, window: int) -> Table:
        record = self._trace[window]
        fold = fold_of(record)
        rows = [f"row {row}" for row in fold.replayed]
        time = MISSING if record.fold_ms is None else f"{record.fold_ms:.2f} ms"
        facts = [
            ("fold", mode_of(record)),
            ("run begins with", begins_with(window, self._before(window))),
            ("state after row 0", after_root(record, fold)),
            ("rows to replay", ", ".join(rows) or _none(fold.when)),
            ("commit", at_commit(fold)),
            ("next run begins with", next_begins(fold)),
            ("taken in earlier", _EARLIER),
            ("double buffer's parity", _parity(window)),
            ("time of the fold", time),
            ("layer", self._layer()),
        ]
        fault = self._fault()
        if fault:
            facts.append(("planted", fault))
        return Table(f"Window {window}", ("what", "here"), facts)

    def _layer(self) -> str:
        layer = self.selection["layer"]
        kinds = self._kinds
        if not kinds:
            return "all that have a memory S alike; a trace does not tell kinds"
        folding = [i for i, kind in enumerate(kinds) if kind == _FOLDS]
        if layer is None:
            return f"layers {', '.join(map(str, folding))} fold, all alike"
        if layer >= len(kinds):
            return f"the model has no layer {layer}"
        if layer in folding:
            return f"layer {layer} is {kinds[layer]}: its S folds like this"
        return f"layer {layer} is {kinds[layer]}: it has no S and no fold"

    def _fault(self) -> str:
        name = None if self._engine is None else self._engine.options.get("fault")
        fault = FAULTS.get(str(name))
        if fault is None or fault.part not in _PARTS:
            return ""
        return f"{name}: {fault.what}. A sound engine does what is said above"


# A still cuts a cell that is longer.
_EARLIER: Final = "not recorded: a fork takes in what is due, a digest or file not"


def _none(when: str | None) -> str:
    return MISSING if when is None else "none"


def _parity(window: int) -> str:
    return (
        f"not recorded: S is ever new; of two buffers, {(window + 1) % 2} would hold it"
    )
