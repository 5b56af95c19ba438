"""Length economics as tables: by length, and why drafts make it slower."""

from collections.abc import Sequence
from typing import Final

from strata_nb.slower import Diagnosis
from strata_nb.slower.lengths import Costs, Length
from strata_widgets.panel.control import Cell, Table

_HEADLINES: Final = {
    "faster": "Drafts pay: {times} as fast as without",
    "even": "Drafts change nothing: {times} as fast as without",
    "slower": "Drafts make it slower: {times} as fast as without",
    "unknown": "Whether drafts make it slower cannot be said",
}


_COUNTED: Final = ("T", "windows", "tokens", "tokens a window", "E[keep]")
_TIMED: Final = (
    "T",
    "median ms",
    "5 % to 95 %",
    "break-even ms",
    "a further row brings",
    "and costs ms",
    "tokens a second",
)
_WHY: Final = "Why am I slower?"
_CAUSES: Final = ("cause", "ms of each token", "evidence", "what to try")


def counted(costs: Costs) -> Table:
    """What is the same from run to run: windows and tokens by length."""
    rows: list[list[Cell]] = [
        [
            length,
            count,
            costs.tokens[length],
            _number(costs.tokens[length] / count, 2),
            _number(costs.drafts.expected(length - 1), 2),
        ]
        for length, count in sorted(costs.windows.items())
    ]
    return Table("Windows by their length", _COUNTED, rows)


def timed(lengths: Sequence[Length], best: int | None) -> Table:
    """What was measured, by length; `best` is marked."""
    lines: list[list[Cell]] = [[n.rows, *_measured(n)] for n in lengths]
    marked = next((at for at, n in enumerate(lengths) if n.rows == best), None)
    return Table("Time of a window by its length", _TIMED, lines, marked=marked)


def why(found: Diagnosis, windows: int) -> list[Table]:
    """Why drafts make it slower, as far as the trace tells.

    Args:
        found: the answer.
        windows: that the trace had when it was asked.
    """
    times = "" if found.speedup is None else f"{found.speedup:.2f} times"
    said = _HEADLINES[found.verdict].format(times=times)
    rows = [
        [
            cause.what,
            f"{cause.share_ms:.2f}",
            "; ".join(map(str, cause.numbers)),
            cause.advice,
        ]
        for cause in found.causes
    ]
    asked = f"({windows} windows)"
    if rows:
        tables = [Table(f"{_WHY} {said} {asked}", _CAUSES, rows)]
    else:
        # A caption is as wide as its table, so that a long one wants wide rows.
        more = ["No cause is large enough to be named."] if times else []
        answers = [[line] for line in (f"{said} {asked}.", *more)]
        tables = [Table(_WHY, ("answer",), answers)]
    if found.missing:
        missing = [[line] for line in found.missing]
        tables.append(Table("Not known", ("what is missing, and what to do",), missing))
    return tables


def _measured(length: Length) -> list[str]:
    times = length.times
    return [
        f"{times.at(0.5):.2f}",
        f"{times.at(0.05):.2f} to {times.at(0.95):.2f}",
        _number(length.even_ms, 2),
        _number(length.gain, 2),
        _number(length.cost_ms, 2),
        f"{length.observed:.1f}",
    ]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
