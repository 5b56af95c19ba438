"""`Economics`: what windows of each length cost, bring, and which length pays most."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import altair as alt

from strata_nb import WindowRecord
from strata_nb.refusals import MAX_ROWS
from strata_nb.slower import Diagnosis, why_slower
from strata_nb.slower.lengths import Choice, Costs, Length, choice, time_of
from strata_widgets.drawing import Row, nothing
from strata_widgets.economics import tables
from strata_widgets.economics.drawings import (
    TOP,
    further,
    speeds,
    times,
)
from strata_widgets.panel.control import Control, Table, button
from strata_widgets.selection import Dimension
from strata_widgets.trace_view import TraceView

_OFTEN: Final = 512
"""Windows up to which a run that grows is asked again each time it has doubled."""
_NO_TIME: Final = "Commit windows of several lengths T."
_NO_FURTHER: Final = "Commit windows with drafts, and without."


class Economics(TraceView):
    """Whether drafts pay: time and tokens of windows by their length, from one trace.

    Times differ from run to run, so `text()` has them only if you ask: do so where the
    trace is a recorded one.

    Example:
        >>> view = Economics(Trace.load("recorded.parquet"), times=True)
        >>> view.why().verdict
        'slower'
    """

    TITLE = "Length economics"
    SELECTS: ClassVar[tuple[Dimension, ...]] = ("window",)

    def __init__(
        self,
        source: Any,
        *,
        serial_ms: float | None = None,
        times: bool = False,
        **traits: Any,
    ) -> None:
        """Look at `source`: a trace, or what has one, or window records.

        Args:
            source: what is shown.
            serial_ms: of a token without drafts, ms, where you measured it; None: the
                windows of one row tell.
            times: whether `text()` has the times too.
            **traits: `selection`.

        Raises:
            TypeError: `source` has no trace.
            ValueError: `serial_ms` is not above 0.
        """
        if serial_ms is not None and not 0 < serial_ms < math.inf:
            raise ValueError(
                f"`serial_ms` is {serial_ms}, wanted more than 0; leave it out to take "
                "the windows of one row"
            )
        self._given, self._times = serial_ms, times
        super().__init__(source, **traits)

    def why(self) -> Diagnosis:
        """Ask why drafts make this slower, or whether; the answer is shown below."""
        found = self._ask()
        self.update()
        return found

    def text(self) -> str:
        """Return what is shown, in words; with times if they were asked for."""
        shown = self._tables() if self._times else [tables.counted(self._costs)]
        return "\n".join([repr(self), *(table.text() for table in shown)])

    def __repr__(self) -> str:
        if self._times or not self._seen:
            return f"{type(self).__name__}({self._status()})"
        said = [*self._counts(), *self._selected(times=False)]
        return f"{type(self).__name__}({'; '.join(said)})"

    def _forget(self) -> None:
        self._costs = Costs()
        # Tops of axes never fall while a run grows.
        self._tops = {"top_ms": 1.0, "top_price": TOP, "top_speed": 1.0}
        self._answer: Diagnosis | None = None
        self._asked_at = 0

    def _take(self, records: Sequence[WindowRecord], *, first: int) -> None:
        for record in records:
            self._costs.add(record)
        # The whole trace is looked at, so a long run that grows is asked by hand.
        if not self._asked_at or 2 * self._asked_at <= len(self._trace) <= _OFTEN:
            self._ask()

    def _ask(self) -> Diagnosis:
        found = why_slower(self._trace, serial_ms=self._given)
        self._answer, self._asked_at = found, len(self._trace)
        return found

    def _specs(self) -> Mapping[str, alt.LayerChart]:
        return {"times": times(), "further": further(), "speeds": speeds()}

    def _values(self) -> dict[str, Any]:
        self._found = self._measured()
        serial, chosen = self._serial_ms, self._chosen()
        ms = None if chosen is None or chosen.T > MAX_ROWS else time_of(chosen)
        values: dict[str, Any] = {
            **super()._values(),
            "plain_speed": -1 if serial is None else round(1e3 / serial, 4),
            "chosen_rows": -1 if chosen is None or ms is None else chosen.T,
            "chosen_ms": -1 if ms is None else round(ms, 4),
        }
        self._raise_tops(values)
        return {**values, **self._tops}

    def _measured(self) -> tuple[list[Length], Choice | None]:
        lengths = self._costs.lengths(self._serial_ms)
        return lengths, choice(lengths, self._serial_ms)

    def _raise_tops(self, values: Mapping[str, Any]) -> None:
        lengths = [length for length in self._found[0] if length.rows <= MAX_ROWS]
        wanted = {
            "top_ms": [
                values["chosen_ms"],
                *(length.times.at(0.95) for length in lengths),
                *(length.even_ms or 0 for length in lengths),
            ],
            "top_price": [length.price or 0 for length in lengths],
            "top_speed": [
                values["plain_speed"],
                *(length.observed for length in lengths),
                *(length.expected or 0 for length in lengths),
            ],
        }
        for name, numbers in wanted.items():
            # Twice as high when it is full, so that the axis seldom moves.
            while self._tops[name] < max(numbers, default=0):
                self._tops[name] *= 2

    def _draw(self) -> None:
        lengths, best = self._found
        shown = [length for length in lengths if length.rows <= MAX_ROWS]
        longer = [length for length in shown if length.cost_ms is not None]
        self._live["times"].replace(
            [_time_row(length) for length in shown] or nothing(_NO_TIME)
        )
        self._live["further"].replace(
            [_further_row(length) for length in longer] or nothing(_NO_FURTHER)
        )
        self._live["speeds"].replace(
            [_speed_row(length, best) for length in shown] or nothing(_NO_TIME)
        )

    def _controls(self) -> Sequence[Control]:
        return [
            button(
                "why",
                "Why am I slower?",
                enabled=bool(self._seen),
                why="there is no window yet",
            )
        ]

    def _act(self, name: str, value: Any, values: Mapping[str, Any]) -> None:
        if name == "why":
            self.why()

    def _tables(self) -> Sequence[Table]:
        if not self._costs.windows:
            return ()
        lengths, best = self._found
        shown = [tables.counted(self._costs)]
        if lengths:
            shown.append(tables.timed(lengths, best.best if best else None))
        if self._answer is not None:
            shown += tables.why(self._answer, self._asked_at)
        return shown

    @property
    def _serial_ms(self) -> float | None:
        return self._costs.serial_ms(self._given)

    def _chosen(self) -> WindowRecord | None:
        chosen: int | None = self.selection["window"]
        if chosen is None or chosen >= self._seen:
            return None
        return self._trace[chosen]

    def _counts(self) -> list[str]:
        """What is the same from run to run."""
        windows = self._costs.windows
        by_rows = ", ".join(f"{n}: {count}" for n, count in sorted(windows.items()))
        said = [
            f"{sum(windows.values())} windows, {sum(self._costs.tokens.values())} "
            f"tokens; windows by T: {by_rows or 'none'}"
        ]
        if not windows[1] and self._given is None:
            said.append(_NO_BASE)
        if any(rows > MAX_ROWS for rows in windows):
            said.append(f"T above {MAX_ROWS} is counted, not drawn")
        return said

    def _status(self) -> str:
        if not self._seen:
            return "no windows yet"
        said, costs = self._counts(), self._costs
        serial, best = self._serial_ms, self._found[1]
        if serial is not None:
            source = "given"
            if self._given is None:
                source = f"median of {len(costs.plain)} windows of one row"
            said.append(f"a token without drafts takes {serial:.2f} ms ({source})")
        if best is not None:
            speed = 1e3 * best.keep / best.cost_ms
            said.append(
                f"E[keep] / C is highest at T = {best.best}: {best.keep:.2f} tokens in "
                f"{best.cost_ms:.2f} ms, {speed:.1f} a second; who adds rows while one "
                f"pays stops at T = {best.marginal}"
            )
        if costs.cold or costs.untimed:
            said.append(
                f"{costs.cold} windows that were not warm and {costs.untimed} without "
                "a time are left out of all times"
            )
        return "; ".join([*said, *self._selected(times=True)])

    def _selected(self, *, times: bool) -> list[str]:
        chosen, record = self.selection["window"], self._chosen()
        if chosen is None:
            return []
        if record is None:
            return self._lacking()
        ms = time_of(record) if times else None
        took = "" if ms is None else f" in {ms:.2f} ms"
        return [f"window {chosen}: {_words(record)}{took}"]


_NO_BASE: Final = (
    "no window has one row, so nothing says what a token costs without drafts: decode "
    "some text without, or pass `serial_ms=`"
)


def _time_row(length: Length) -> Row:
    at = length.times.at
    row: Row = {
        "rows": length.rows,
        "windows": length.windows,
        "median": round(at(0.5), 4),
        "first": round(at(0.25), 4),
        "third": round(at(0.75), 4),
        "low": round(at(0.05), 4),
        "high": round(at(0.95), 4),
    }
    return row | _known(even=length.even_ms)


def _further_row(length: Length) -> Row:
    return {"rows": length.rows} | _known(
        gain=length.gain, price=length.price, cost=length.cost_ms
    )


def _speed_row(length: Length, best: Choice | None) -> Row:
    row: Row = {"rows": length.rows, "observed": round(length.observed, 4)}
    row["best"] = best is not None and best.best == length.rows
    return row | _known(expected=length.expected)


def _known(**numbers: float | None) -> Row:
    return {n: round(value, 4) for n, value in numbers.items() if value is not None}


def _words(record: WindowRecord) -> str:
    if record.headless:
        return f"{record.T} cells of a prompt"
    return f"T = {record.T}, {len(record.emitted)} tokens"
