"""What a person can set on a panel, as plain data for the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["range", "choice", "button"]
Cell: TypeAlias = str | int | float | dict[str, Any]


@dataclass(frozen=True)
class Control:
    """One control with its label; a keyboard reaches all of them.

    Attributes:
        kind: `range` (a slider of integers, None when nothing is set), `choice` (one
            of `options`), `button`.
        name: what the panel knows it by.
        label: what a person reads, and a screen reader says.
        value: of the moment; None for a button.
        least: of a range.
        most: of a range.
        options: of a choice, (value, label) each.
        enabled: whether it can be used now.
        why: why it can't; beside the control.
        clears: a range that can be set back to None.
    """

    kind: Kind
    name: str
    label: str
    value: Any = None
    least: int = 0
    most: int = 0
    options: tuple[tuple[str, str], ...] = ()
    enabled: bool = True
    why: str = ""
    clears: bool = False

    def for_page(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {**vars(self), "options": [list(pair) for pair in self.options]}


def button(name: str, label: str, *, enabled: bool = True, why: str = "") -> Control:
    """Return a button."""
    return Control("button", name, label, enabled=enabled, why=why)


def choice(name: str, label: str, value: str, options: Sequence[str]) -> Control:
    """Return a choice whose options are their own labels."""
    return Control("choice", name, label, value, options=tuple((o, o) for o in options))


@dataclass(frozen=True)
class Table:
    """Rows of text under a heading each; a cell may be a token's chip.

    Attributes:
        caption: one line above.
        head: name of each column.
        rows: as many cells each as `head`; a dict with `text` is drawn as a chip, with
            `role` in that role's colour.
        marked: index of the row that is selected.
        hidden: rows that were left out; the page says so.
    """

    caption: str
    head: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    marked: int | None = None
    hidden: int = 0

    def for_page(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {**vars(self), "rows": [list(row) for row in self.rows]}

    def text(self) -> str:
        """Return it as lines of text."""
        lines = [list(self.head), *([_plain(c) for c in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        drawn = [
            "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        more = [f"… {self.hidden} more"] if self.hidden else []
        return "\n".join([self.caption, *drawn, *more])


def _plain(cell: Cell) -> str:
    return str(cell["text"]) if isinstance(cell, dict) else str(cell)
