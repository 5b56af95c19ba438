"""Where each case stands: families in lines, lines in pages."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from strata_widgets.gate_board.book import Book

_LOOSE: Final = (32, 13)  # cells in a line, pixels of a side
_DENSE: Final = (52, 8)
_MANY: Final = 600  # cases from which cells are small
_TALL: Final = 60  # lines of a page


@dataclass(frozen=True)
class _Line:
    first: int
    count: int
    label: str
    family: str


class Grid:
    """The places of a book's cases; they never change.

    A slot is a cell of a page, line by line from the top.
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        self.across, self.side = _DENSE if book.total > _MANY else _LOOSE
        self._lines = list(_lines(book, self.across))
        self._line_of: dict[int, int] = {}
        for index, line in enumerate(self._lines):
            self._line_of[line.first] = index
        self.lines = min(_TALL, len(self._lines))
        self.pages = -(-len(self._lines) // _TALL)

    @property
    def dense(self) -> bool:
        """Whether cells are small and many."""
        return (self.across, self.side) == _DENSE

    def place(self, number: int) -> tuple[int, int]:
        """The page and the slot of a case."""
        family = self._book.family(number)
        line = self._line_of[family.first] + (number - family.first) // self.across
        at = (number - family.first) % self.across
        return line // _TALL, line % _TALL * self.across + at

    def case(self, page: int, slot: int) -> int | None:
        """The case at a slot of a page; None where there is none."""
        index = page * _TALL + slot // self.across
        if not 0 <= slot < _TALL * self.across or index >= len(self._lines):
            return None
        line, at = self._lines[index], slot % self.across
        return line.first + at if at < line.count else None

    def row(self, page: int) -> dict[str, Any]:
        """All cells of a page in one row; a blank where no case is."""
        texts = (
            self._book.letters(line.first, line.first + line.count).ljust(self.across)
            for line in self._shown(page)
        )
        return {"at": 0, "v": "".join(texts).rstrip()}

    def rows(self, page: int, numbers: Iterable[int]) -> list[dict[str, Any]]:
        """Cells of these cases, as far as the page has them, neighbours in one row."""
        found: list[dict[str, Any]] = []
        for number in sorted(numbers):
            where, slot = self.place(number)
            if where != page:
                continue
            letter = self._book.letters(number, number + 1)
            if found and found[-1]["at"] + len(found[-1]["v"]) == slot:
                found[-1]["v"] += letter
            else:
                found.append({"at": slot, "v": letter})
        return found

    def values(self, page: int) -> dict[str, Any]:
        """What the chart must know of the lines of a page."""
        lines = self._shown(page)
        labels = [line.label for line in lines]
        # A family that began on the page before is named here as well.
        labels[0] = labels[0] or f"{lines[0].family} …"
        return {
            "labels": labels,
            "families": [line.family for line in lines],
            "firsts": [line.first for line in lines],
        }

    def _shown(self, page: int) -> list[_Line]:
        return self._lines[page * _TALL : (page + 1) * _TALL]


def _lines(book: Book, across: int) -> Iterator[_Line]:
    several = len({family.gate for family in book.families}) > 1
    for family in book.families:
        name = f"{family.gate} {family.name}" if several else family.name
        for at in range(0, family.count, across):
            label = f"{name} ({family.count:,})" if at == 0 else ""
            count = min(across, family.count - at)
            yield _Line(family.first + at, count, label, name)
