"""`SlotsAndIO`: where experts were when they were wanted, and what reads cost."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import altair as alt

from strata_nb import WindowRecord
from strata_widgets.drawing import Row, nothing
from strata_widgets.layers import room
from strata_widgets.panel.control import Table
from strata_widgets.selection import Dimension
from strata_widgets.slots_io import words
from strata_widgets.slots_io.counts import counted
from strata_widgets.slots_io.drawings import overview, reads, shares, wanted
from strata_widgets.slots_io.totals import Totals
from strata_widgets.trace_view import TraceView

SHOWN: Final = 128
"""Windows drawn one by one, the newest; the whole run is drawn in pieces."""

_BY_WINDOW: Final = ("wanted", "reads", "shares")


class SlotsAndIO(TraceView):
    """Slots and reads of a run, window by window.

    Example:
        >>> model = strata_nb.load("strata-tiny", experts=Streaming(slots=32))
        >>> view = SlotsAndIO(model.engine())
    """

    TITLE = "Slots and I/O"
    SELECTS: ClassVar[tuple[Dimension, ...]] = ("window", "layer")

    def __init__(self, source: Any, *, model: Any = None, **traits: Any) -> None:
        """Look at `source`.

        Args:
            source: a trace, or what has one, or window records.
            model: the model whose slots they were, for what its counters alone know;
                None: that of `source`, if it has one.
            **traits: `selection`.

        Raises:
            TypeError: `source` has no trace.
        """
        model = getattr(source, "model", None) if model is None else model
        self._pool = getattr(model, "pool", None)
        super().__init__(source, **traits)
        for name in _BY_WINDOW:
            self._live[name].limit = SHOWN

    def __repr__(self) -> str:
        # Without times: a text is compared from run to run.
        return f"{type(self).__name__}({self._said()})"

    def _forget(self) -> None:
        self._totals = Totals()
        self._drawn: dict[str, tuple[int, int | None]] = {}

    def _take(self, records: Sequence[WindowRecord], *, first: int) -> None:
        for record in records:
            self._totals.add(record)

    def _specs(self) -> Mapping[str, alt.LayerChart]:
        return {
            "wanted": wanted(),
            "reads": reads(),
            "shares": shares(),
            "overview": overview(),
        }

    @property
    def _first(self) -> int:
        return max(0, self._seen - SHOWN)

    def _values(self) -> dict[str, Any]:
        wide = room(min(self._seen, SHOWN))
        return {
            **super()._values(),
            "first": self._first,
            "last": self._first + wide - 1,
            "windows": self._seen,
            "most": room(self._totals.most),
            "bytes": room(self._totals.most_bytes, least=1024),
            "late": bool(self._totals.late),
            "ahead": bool(self._totals.prefetched_bytes),
        }

    def _draw(self) -> None:
        if not self._totals.measured:
            note = nothing(words.RUN)
            if self._seen:
                note = [{"note": list(words.RESIDENT)}]
            for name in _BY_WINDOW:
                self._live[name].replace(note if name == "wanted" else [])
            self._live["overview"].replace([])
            self._drawn = {}
            return
        for name in _BY_WINDOW:
            # The lines of a layer are new when another is selected.
            layer = self.selection["layer"] if name == "shares" else None
            seen, had = self._drawn.get(name, (0, layer))
            begin = max(self._first, seen if had == layer else 0)
            rows = [self._row(name, n) for n in range(begin, self._seen)]
            if name not in self._drawn or had != layer:
                self._live[name].replace(rows)
            elif rows:
                self._live[name].append(*rows)
            self._drawn[name] = (self._seen, layer)
        self._draw_overview()

    def _draw_overview(self) -> None:
        """Add what pieces of the run are whole by now; all anew when they grow."""
        width = self._totals.width
        end = self._seen - self._seen % width
        seen, had = self._drawn.get("overview", (0, None))
        if had != width:
            self._live["overview"].replace(self._totals.pieces())
        elif end > seen:
            self._live["overview"].append(*self._totals.pieces(begin=seen))
        self._drawn["overview"] = (end, width)

    def _row(self, name: str, window: int) -> Row:
        record = self._trace[window]
        row = {
            "wanted": _wanted,
            "reads": _reads,
            "shares": self._shares,
        }[name](record)
        # What was not measured is left out, so that it is drawn as a gap.
        return {"window": window, **{k: v for k, v in row.items() if v is not None}}

    def _shares(self, record: WindowRecord) -> Row:
        chosen = self.selection["layer"]
        own = [one for one in record.layers if one.layer == chosen]
        rates = {
            "hits": counted(record.layers).hit_rate,
            "own": counted(own).hit_rate,
            "wait": _waited(record),
        }
        return {k: None if v is None else round(v, 3) for k, v in rates.items()}

    def _said(self) -> str:
        if not self._seen:
            return "no windows yet"
        said = [words.of_run(self._totals, self._pool)]
        if self._first and self._totals.measured:
            said.append(
                f"the newest {SHOWN} windows are drawn one by one, {self._first} "
                "left out there"
            )
        window, layer = self.selection["window"], self.selection["layer"]
        record = self._trace[self._window() or 0]
        lacking = self._lacking()
        said += lacking
        if window is not None and not lacking:
            said.append(words.of_window(window, record))
            if window < self._first:
                said.append("it lies before the windows drawn one by one")
        if layer is not None:
            which = "" if window is not None else "newest window, "
            said.append(which + words.of_layer(record, layer))
        return "; ".join(said)

    def _status(self) -> str:
        totals, said = self._totals, self._said()
        if totals.run_ms and totals.measured:
            said += f"; {words.of_time(totals.wait_ms, totals.run_ms)}"
        return said

    def _tables(self) -> Sequence[Table]:
        window = self.selection["window"]
        if window is None or window >= self._seen:
            return ()
        record = self._trace[window]
        return [words.table(window, record, self.selection["layer"])]


def _wanted(record: WindowRecord) -> Row:
    counts = counted(record.layers)
    if counts.wanted is None:
        return {"gone": counts.evicted}
    return {
        "here": counts.resident,
        "late": counts.late,
        "read": counts.miss,
        "gone": counts.evicted,
    }


def _reads(record: WindowRecord) -> Row:
    counts = counted(record.layers)
    if counts.wanted_bytes is None:
        return {}
    return {"wanted": counts.wanted_bytes, "ahead": counts.prefetched_bytes}


def _waited(record: WindowRecord) -> float | None:
    if record.expert_wait_ms is None or not record.run_ms:
        return None
    return record.expert_wait_ms / record.run_ms
