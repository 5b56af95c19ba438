"""Means over equal pieces of a run; as many pieces as fit, whatever its length."""

from collections.abc import Iterator
from typing import Final

MOST: Final = 160
"""Pieces at most: then each two become one."""


class Bins:
    """Sums of one number a window, in pieces of equal length."""

    def __init__(self) -> None:
        self.width, self.windows = 1, 0
        self._sums: list[float] = []

    def add(self, value: float) -> None:
        """Take the number of the next window."""
        if self.windows == self.width * len(self._sums):
            if len(self._sums) == MOST:
                pairs = zip(self._sums[::2], self._sums[1::2], strict=True)
                self._sums = [one + other for one, other in pairs]
                self.width *= 2
            self._sums.append(0.0)
        self._sums[-1] += value
        self.windows += 1

    def means(self) -> Iterator[tuple[int, int, float]]:
        """Each piece: its first window, the one after its last, its mean."""
        for index, total in enumerate(self._sums):
            first = index * self.width
            end = min(first + self.width, self.windows)
            yield first, end, total / (end - first)
