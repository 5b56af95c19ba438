"""`TailView`: the open block's slots, cell by cell, and what is pooled from them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import altair as alt

from strata_nb import Engine, WindowRecord
from strata_nb.gates.tail import engine as tail_engine
from strata_nb.gates.tail.live import Held, History, held, indexed_layers, mend_of
from strata_nb.gates.tail.model import ROWS, STARTS, TailCase
from strata_nb.gates.tail.moments import (
    BEHAVIOURS,
    SOUND,
    Moment,
    moments,
    wrong_pools,
)
from strata_nb.model import Model
from strata_widgets.pace import Ticker
from strata_widgets.panel.control import Control, Table, button
from strata_widgets.qsa_tail.drawings import blocks, slots
from strata_widgets.qsa_tail.rows import (
    block_rows,
    block_table,
    held_table,
    slot_rows,
    slot_table,
)
from strata_widgets.selection import Dimension
from strata_widgets.trace_view import TraceView

_HZ: Final = 2
_HELD: Final = "The engine against the labels"


class TailView(TraceView):
    """The tail of the sparse attention's index, through one window.

    Without an engine it is the gates' model of labels alone. With one, its newest
    window is shown, after all windows before it, and `compare` holds the engine's own
    raw keys and pooled keys against the labels.

    Example:
        >>> tail = TailView(behaviour="qsa_ring", start=5, T=4, keep=1)
        >>> tail.go(0)
        >>> tail.play()  # or the button
        >>> TailView(engine)
    """

    TITLE = "QSA tail"
    SELECTS: ClassVar[tuple[Dimension, ...]] = ("layer", "cell")

    def __init__(
        self,
        engine: Any = None,
        *,
        behaviour: str | None = None,
        start: int | None = None,
        T: int | None = None,
        keep: int | None = None,
        **traits: Any,
    ) -> None:
        """Show a window: the engine's newest, or the one that is named.

        Args:
            engine: a real one; None for the model of labels alone.
            behaviour: what a commit does with the tail: "snapshot and replay", or the
                name of a fault; the engine's own when not given.
            start: cell of the window's first row; 5 when nothing is named.
            T: its rows, 1 to 8; 4 when nothing is named.
            keep: of them stay, 1 to T; 1 when nothing is named.
            **traits: `selection`.

        Raises:
            TypeError: `engine` is no engine.
            ValueError: there is no such behaviour, or no such window.
        """
        self._engine = _engine_of(engine)
        self._ratio = 4
        if self._engine is not None:
            self._ratio = self._engine.backend.config.indexer_compress_ratio
        self._layers = () if self._engine is None else indexed_layers(self._engine)
        own = SOUND if self._engine is None else _behaviour_of(self._engine)
        named = (behaviour, start, T, keep) != (None, None, None, None)
        self._follows = self._engine is not None and not named
        self._behaviour = _known(own if behaviour is None else behaviour)
        self._case = _case(
            5 if start is None else start,
            4 if T is None else T,
            1 if keep is None else keep,
            self._ratio,
        )
        self._found: list[Moment] = []
        self._at, self._playing = 0, False
        self._ticker = Ticker(self._tick, hz=_HZ)
        self._drawn: list[Moment] = []
        self._held: tuple[Held, ...] = ()
        self._held_at, self._tried = -1, ""
        super().__init__([] if self._engine is None else self._engine, **traits)

    @property
    def engine(self) -> Engine | None:
        """What is held against the labels."""
        return self._engine

    @property
    def behaviour(self) -> str:
        """What a commit does with the tail: "snapshot and replay", or a fault."""
        return self._behaviour

    @property
    def case(self) -> TailCase:
        """The window: start cell, T, keep, cells a block."""
        return self._case

    @property
    def moments(self) -> tuple[Moment, ...]:
        """What happens in the window, in order."""
        return tuple(self._found)

    @property
    def moment(self) -> int:
        """Index of the moment that is shown."""
        return self._at

    def set(
        self,
        *,
        behaviour: str | None = None,
        start: int | None = None,
        T: int | None = None,
        keep: int | None = None,
    ) -> None:
        """Show another window; what is not named stays, a keep above T becomes T.

        Raises:
            ValueError: there is no such behaviour, or no such window; nothing changes.
        """
        name = _known(self._behaviour if behaviour is None else behaviour)
        rows = self._case.T if T is None else T
        kept = min(self._case.keep, rows) if keep is None else keep
        first = self._case.start if start is None else start
        self._case = _case(first, rows, kept, self._ratio)
        self._behaviour, self._follows, self._tried = name, False, ""
        self._play_out()
        self.update()

    def follow(self) -> None:
        """Show the engine's newest window, from here on.

        Raises:
            ValueError: there is no engine.
        """
        if self._engine is None:
            raise ValueError("there is no engine to follow; make `TailView(engine)`")
        self._follows = True
        self._behaviour = _behaviour_of(self._engine)
        self._play_out()
        self.update()

    def go(self, moment: int) -> None:
        """Show moment 0, 1 … of the window.

        Raises:
            ValueError: the window has no such moment.
        """
        last = len(self._found) - 1
        if not 0 <= moment <= last:
            raise ValueError(f"`moment` must be 0 to {last}, got {moment}")
        self._at = moment
        self.update()

    def play(self) -> None:
        """Go on, two moments a second; from the start if the end is shown.

        Raises:
            RuntimeError: outside a notebook, where nothing could go on.
        """
        self._ticker.start(instead="`go`")
        self._playing = True
        if self._at == len(self._found) - 1:
            self._at = 0
        self.update()

    def pause(self) -> None:
        """Stay at this moment."""
        self._ticker.stop()
        self._playing = False
        self.update()

    def compare(self) -> None:
        """Hold the engine's state, or the window that was set, against the labels.

        Of the engine's own window its state now is read. A window that was set is run
        on other engines of its model, with the fault; the engine itself is never used.

        Raises:
            ValueError: there is no engine, or it cannot be compared.
        """
        if self._engine is None:
            raise ValueError("there is no engine to compare; make `TailView(engine)`")
        if self._follows:
            self._held = held(self._engine, self._history)
            self._held_at = self._engine.position
        else:
            self._tried = self._run_elsewhere(self._engine)
        self.update()

    def _run_elsewhere(self, engine: Engine) -> str:
        if not isinstance(engine.model, Model):
            raise ValueError(
                "this engine cannot be compared: it has no model; make it by "
                "`model.engine()`"
            )
        mend = BEHAVIOURS[self._behaviour]
        told = tail_engine.compare(engine.model, mend, of=[self._case])
        said = ["every pooled key is right", "a pooled key is wrong"]
        verdict = "NOT EQUAL" if told.disagreements else "equal"
        return (
            f"run on an engine of {engine.model.name}: {said[told.engine]}; by the "
            f"labels {said[told.model]}: {verdict}"
        )

    # What follows serves the panel.

    def _forget(self) -> None:
        mend = BEHAVIOURS[self._behaviour]
        if self._engine is not None:
            mend = mend_of(self._engine)
        self._history = History(self._ratio, mend)
        self._held_at = -1
        self._play_out()

    def _take(self, records: Sequence[WindowRecord], *, first: int) -> None:
        for record in records:
            self._history.take(record)
        if self._follows:
            self._play_out()

    def _play_out(self) -> None:
        """Find the moments of the window, and show the last."""
        tail = None
        if self._follows and self._history.window is not None:
            self._case, tail = self._history.window, self._history.before
        mend = BEHAVIOURS[self._behaviour]
        self._found = moments(self._case, mend, tail=tail)
        self._at = len(self._found) - 1
        if self._playing:
            self._ticker.stop()
            self._playing = False

    def _tick(self) -> bool:
        last = len(self._found) - 1
        self._at = min(self._at + 1, last)
        self._playing = self._at < last
        self.update()
        return self._playing

    def _bounds(self, dimension: Dimension) -> tuple[int, int] | None:
        if dimension == "layer":
            return (self._layers[0], self._layers[-1]) if self._layers else None
        end = self._case.start + self._case.T
        return 0, max(end, self._found[-1].position) - 1

    def _specs(self) -> Mapping[str, alt.LayerChart]:
        return {"slots": slots(self._ratio), "blocks": blocks(self._ratio)}

    def _values(self) -> dict[str, Any]:
        return {**super()._values(), "moment": self._at}

    def _draw(self) -> None:
        # The rows of all moments are there; which of them shows is a parameter.
        if self._drawn is not self._found:
            self._drawn = self._found
            rows = slot_rows(self._found, keep=self._case.keep)
            self._live["slots"].replace(rows)
            self._live["blocks"].replace(block_rows(self._found))

    def _controls(self) -> Sequence[Control]:
        case, last = self._case, len(self._found) - 1
        names = tuple((n, "correct: " + n if n == SOUND else n) for n in BEHAVIOURS)
        most = max(STARTS - 1, case.start)
        made = [
            Control("choice", "behaviour", "Tail", self._behaviour, options=names),
            Control("range", "start", "Start cell", case.start, most=most),
            Control("range", "T", "Rows (T)", case.T, least=1, most=ROWS),
            Control("range", "keep", "Rows kept", case.keep, least=1, most=case.T),
            Control("range", "moment", "Moment", self._at, most=last),
            button("play", "Play / pause"),
        ]
        if self._engine is not None:
            made.append(button("compare", "Compare with the engine"))
            shown = not self._follows
            made.append(button("follow", "The engine's window", enabled=shown))
        return made

    def _act(self, name: str, value: Any, values: Mapping[str, Any]) -> None:
        if name == "play":
            self.pause() if self._playing else self.play()
        elif name == "compare":
            self.compare()
        elif name == "follow":
            self.follow()
        elif name == "moment":
            self._ticker.stop()
            self._playing = False
            self.go(min(int(value), len(self._found) - 1))
        elif name == "behaviour":
            self.set(behaviour=str(value))
        elif name == "start":
            self.set(start=int(value))
        elif name == "T":
            self.set(T=int(value))
        elif name == "keep":
            self.set(keep=min(int(value), self._case.T))

    def _status(self) -> str:
        case, now = self._case, self._found[self._at]
        said = [
            f"{self._behaviour}; cell {case.start}, T = {case.T}, keep {case.keep}",
            f"moment {self._at} of {len(self._found) - 1}, {now.name}: {now.what}",
        ]
        if self._at == len(self._found) - 1:
            said.append(f"at the end {wrong_pools(self._found)}")
        if self._playing:
            said.append("playing")
        return "; ".join([*said, *self._of_the_engine(), *self._of_the_selection()])

    def _of_the_engine(self) -> list[str]:
        if self._engine is None or not self._follows:
            return []
        if self._history.window is None:
            return ["the engine has run no window yet; this is the one that is set"]
        return [f"the engine's newest window; it has {self._history.position} cells"]

    def _of_the_selection(self) -> list[str]:
        said, layer, cell = [], self.selection["layer"], self.selection["cell"]
        if layer is not None and self._engine is None:
            said.append(f"layer {layer}: the labels are the same for all layers")
        elif layer is not None and layer not in self._layers:
            layers = ", ".join(map(str, self._layers))
            said.append(f"layer {layer} has no tail; layers {layers} have")
        if cell is not None:
            said.append(self._where(cell))
        return said

    def _where(self, cell: int) -> str:
        now = self._found[self._at]
        found = [f"slot {i}" for i, slot in enumerate(now.slots) if slot.cell == cell]
        found += [f"block {b.block}" for b in now.blocks if cell in b.cells]
        return f"cell {cell}: its key is in {' and '.join(found) or 'no slot or block'}"

    def _tables(self) -> Sequence[Table]:
        now = self._found[self._at]
        made = [slot_table(now), block_table(now)]
        if self._engine is not None:
            made.append(self._held_table(self._engine))
        return made

    def _held_table(self, engine: Engine) -> Table:
        if not self._follows:
            said = self._tried or "not run yet; press Compare with the engine"
            return Table(_HELD, ("this window",), [(said,)])
        if self._held_at != self._history.position:
            said = "not compared at this position; press Compare with the engine"
            return Table(_HELD, ("state",), [(said,)])
        chosen = self.selection["layer"]
        layer = chosen if chosen in self._layers else self._layers[0]
        caption = f"{_HELD}, after {self._held_at} cells"
        return held_table(self._held, layer=layer, caption=caption)


def _engine_of(source: Any) -> Engine | None:
    if source is None or isinstance(source, Engine):
        return source
    raise TypeError(
        "an engine is wanted, or None for the model of labels alone, got "
        f"{type(source).__name__}; make one with `model.engine()`"
    )


def _behaviour_of(engine: Engine) -> str:
    mend = mend_of(engine)
    return next(name for name, its in BEHAVIOURS.items() if its == mend)


def _known(behaviour: str) -> str:
    if behaviour not in BEHAVIOURS:
        raise ValueError(
            f"`behaviour` must be one of {', '.join(BEHAVIOURS)}, got {behaviour!r}"
        )
    return behaviour


def _case(start: int, rows: int, keep: int, ratio: int) -> TailCase:
    if not 1 <= rows <= ROWS:
        raise ValueError(f"`T` must be 1 to {ROWS} rows, got {rows}")
    return TailCase(start, rows, keep, ratio)
