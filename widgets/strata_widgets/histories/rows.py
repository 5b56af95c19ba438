"""Cells as rows of charts and tables: pure functions."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from strata_widgets.drawing import Row
from strata_widgets.histories.told import OPEN, ROOT, UNKNOWN, Told
from strata_widgets.panel.control import Cell
from strata_widgets.tokens import Chip, visible

_LONG: Final = 24
"""Letters of an open line that are shown, the last."""


class Seen(NamedTuple):
    """A cell, and what differs beside it.

    Attributes:
        told: the cell.
        other: the same cell of the other source; None: no such cell, or no source.
        apart: what differs: "token", "PLE", "penalties"; empty for nothing.
    """

    told: Told
    other: Told | None = None
    apart: tuple[str, ...] = ()


class Shape(NamedTuple):
    """Which columns a table has.

    Attributes:
        back: tokens that the PLE part holds.
        penalties: whether there are any.
        beside: whether there is another source.
    """

    back: int
    penalties: bool
    beside: bool


def squares(seen: Seen, text: str) -> list[Row]:
    """The squares of a cell: one for what it is, one more where it differs."""
    told = seen.told
    lane = "open window" if told.what == OPEN else told.what
    row: Row = {"cell": told.cell, "end": told.cell + 1, "lane": lane}
    if told.window is not None:
        row["window"] = told.window
    where = "" if told.window is None else f", window {told.window}"
    row["says"] = f"cell {told.cell}: {text}, {told.what}{where}"
    if not seen.apart:
        return [row]
    says = f"cell {told.cell} differs: {', '.join(seen.apart)}"
    return [row, {**row, "lane": "differs", "says": says}]


def bar(told: Told, size: int, unit: str) -> Row:
    """A bar of a chart of penalties."""
    row: Row = {"cell": told.cell, "end": told.cell + 1, "size": size}
    if told.window is not None:
        row["window"] = told.window
    if told.what in (OPEN, ROOT):
        row["open"] = True
    return {**row, "says": f"cell {told.cell}: {size} {unit}"}


def head(shape: Shape) -> tuple[str, ...]:
    """Names of the columns."""
    names = ["cell", "token", "what", "window"]
    if shape.back:
        names += [f"PLE {back} back" for back in range(shape.back, 0, -1)]
        names += ["that count", "PLE from"]
    if shape.penalties:
        names += ["phrase begun", "bytes", "open line", "lines held", "penalised"]
    return tuple([*names, "beside"] if shape.beside else names)


def line(
    seen: Seen,
    shape: Shape,
    *,
    chip: Callable[[int], Chip],
    that_count: Callable[[Sequence[int]], int],
) -> list[Cell]:
    """A row of the table, as `head` names its columns."""
    told = seen.told
    row: list[Cell] = [
        told.cell,
        _token(told.token, chip, wrong="token" in seen.apart),
        told.what,
        "-" if told.window is None else told.window,
    ]
    if shape.back:
        row += _held(seen, shape.back, chip, that_count)
    if shape.penalties:
        row += _penalties(told, wrong="penalties" in seen.apart)
    return [*row, beside(seen, chip)] if shape.beside else row


def beside(seen: Seen, chip: Callable[[int], Chip]) -> str:
    """What the other source has, where that is something else."""
    other, said = seen.other, []
    if other is None:
        return "no such cell"
    for name in seen.apart:
        if name == "token":
            said.append(f"token {_plain(other.token, chip)}")
        elif name == "PLE":
            held = other.held or ()
            said.append("PLE " + (" ".join(_plain(t, chip) for t in held) or "unknown"))
        else:
            said.append(_state(other))
    return "; ".join(said) or "equal"


def _held(
    seen: Seen,
    back: int,
    chip: Callable[[int], Chip],
    that_count: Callable[[Sequence[int]], int],
) -> list[Cell]:
    told, held = seen.told, seen.told.held
    if held is None:
        return ["-"] * (back + 2)
    count = that_count(held)
    made: list[Cell] = []
    for place, token in enumerate(held):
        other = None if seen.other is None else seen.other.held
        wrong = told.is_stale and told.text is not None and told.text[place] != token
        wrong = wrong or (other is not None and other[place] != token)
        shown = _token(token, chip, wrong=wrong)
        # Behind an eos it is held, and read as eos.
        if isinstance(shown, dict) and not wrong and place < back - count:
            shown = {**shown, "role": "unreached"}
        made.append(shown)
    return [*made, f"{count} of {back}", "state" if told.is_read else "tokens"]


def _penalties(told: Told, *, wrong: bool) -> list[Cell]:
    state = told.penalties
    if state is None:
        return ["-"] * 5
    tail = _text(state.tail)
    begun: Cell = {"text": tail} if tail else ""
    if wrong:
        begun = {"text": tail or "none", "role": "mismatch"}
    opened = _text(state.line)
    opened = opened if len(opened) <= _LONG else f"…{opened[-_LONG:]}"
    counted = "-" if told.penalised is None else told.penalised
    return [begun, len(state.tail), opened, len(state.recent), counted]


def _state(told: Told) -> str:
    state = told.penalties
    if state is None:
        return "no penalties"
    tail = _text(state.tail)
    begun = f"phrase begun {tail}" if tail else "no phrase begun"
    return f"{begun}, {len(state.recent)} lines held, {told.penalised} penalised"


def _text(data: bytes) -> str:
    return visible(data.decode(errors="replace"))


def _token(token: int | None, chip: Callable[[int], Chip], *, wrong: bool) -> Cell:
    if token is None:
        return "-"
    return {**chip(token), "role": "mismatch"} if wrong else chip(token)


def _plain(token: int | None, chip: Callable[[int], Chip]) -> str:
    return UNKNOWN if token is None else str(chip(token)["text"])
