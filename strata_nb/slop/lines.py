"""Lines in a text that grows token by token, and which would come a second time."""

from collections.abc import Sequence

import numpy as np

from strata_nb.slop.pieces import PieceTable

INDENT = b" \t"


class Lines:
    r"""Which tokens would bring a line that the text has had lately.

    A line is compared without its indentation and without the end it has: `\n`, or
    `\r\n`. A carriage return elsewhere is a character like any other.

    Args:
        pieces: bytes by token.
        lines: completed lines looked back on; 0: none are.
        shortest: bytes of the shortest line that counts.
        longest: bytes of the longest.
    """

    def __init__(
        self, pieces: Sequence[bytes], *, lines: int, shortest: int, longest: int
    ) -> None:
        self._lines, self._shortest, self._longest = lines, shortest, longest
        self._pieces = PieceTable(pieces if lines else ())
        # Before the first character of a line a token may bring indentation too.
        bare = [p.lstrip(INDENT) for p in pieces] if lines else ()
        self._bare = PieceTable(bare)
        self._inside = self._lines_inside(pieces if lines else ())

    @property
    def cut(self) -> int:
        """Bytes kept of a line: one more than tells that it is too long."""
        return self._longest + 2

    def follow(
        self, line: bytes, recent: tuple[bytes, ...], piece: bytes
    ) -> tuple[bytes, tuple[bytes, ...]]:
        """The line and the completed lines, `piece` later.

        Args:
            line: bytes since the last newline, no indentation, at most `cut`.
            recent: completed lines that count, the oldest first.
            piece: what follows.
        """
        if not self._lines:
            return line, recent
        *ended, last = (line + piece).split(b"\n")
        for raw in ended:
            full = _content(raw)
            if self._counts(full):
                recent = (*recent, full)[-self._lines :]
        return last.lstrip(INDENT)[: self.cut], recent

    def completing(self, line: bytes, recent: tuple[bytes, ...]) -> list[np.ndarray]:
        """Tokens that would bring one of `recent` again: int64, in no order.

        Those that end the line as one of them, those that make it equal to one of them
        with its end still open, and those with such a line inside.
        """
        found: list[np.ndarray] = []
        table = self._pieces if line else self._bare
        for full in recent:
            if full.startswith(line):
                rest = full[len(line) :]
                if table.has(rest):
                    found += _ending(table, full, rest)
            elif line == full + b"\r":
                found.append(table.starting(b"\n"))
            if full in self._inside:
                found.append(self._inside[full])
        return found

    def can_be_recent(self, full: bytes) -> bool:
        """Whether a text can leave `full` as a completed line that counts."""
        return self._counts(full) and _is_bare(full)

    def can_be_open(self, line: bytes) -> bool:
        """Whether a text can leave `line` as the bytes since its last newline."""
        return len(line) <= (self.cut if self._lines else 0) and _is_bare(line)

    def _counts(self, full: bytes) -> bool:
        return self._shortest <= len(full) <= self._longest

    def _lines_inside(self, pieces: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        """Tokens by the lines that begin inside them."""
        found: dict[bytes, list[int]] = {}
        for token, piece in enumerate(pieces):
            _, *later = piece.split(b"\n")
            if later:
                lines = {*map(_content, later[:-1]), later[-1].lstrip(INDENT)}
                for full in filter(self._counts, lines):
                    found.setdefault(full, []).append(token)
        return {full: np.array(ids, np.int64) for full, ids in found.items()}


def _content(raw: bytes) -> bytes:
    """A completed line as it is compared."""
    return raw.removesuffix(b"\r").lstrip(INDENT)


def _is_bare(line: bytes) -> bool:
    return b"\n" not in line and line == line.lstrip(INDENT)


def _ending(table: PieceTable, full: bytes, rest: bytes) -> list[np.ndarray]:
    """Tokens that bring `rest` of the line `full`, up to its end or past it."""
    found = [table.starting(rest + b"\r\n")]
    if rest:
        found.append(table.equal(rest))
    if not full.endswith(b"\r"):
        # Else a newline would make the line end in \r\n, one character shorter.
        found.append(table.starting(rest + b"\n"))
    return found
