"""Rows by absolute cell: sealed pages that never change, and one open page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import mlx.core as mx

Rows: TypeAlias = tuple[mx.array, ...]
"""One array per component (values, scales, ...), the same number of rows in each."""


@dataclass(frozen=True)
class Cells:
    """Committed cells of one layer; an immutable value, shared freely by forks.

    The open page holds exactly the live rows past the sealed ones. Growing makes a new
    page and leaves the old one alone, so two branches never write one page, and a
    rejected row has no cell in which to stay.
    """

    sealed: Rows  # each [pages * page_rows, ...]
    page: Rows  # each [fewer than page_rows, ...]
    page_rows: int

    @property
    def sealed_rows(self) -> int:
        """Cells in sealed pages."""
        return self.sealed[0].shape[0]

    @property
    def n(self) -> int:
        """Committed cells."""
        return self.sealed_rows + self.page[0].shape[0]

    @staticmethod
    def empty(like: Rows, *, page_rows: int) -> "Cells":
        """No cells yet; `like` gives each component's row shape and dtype."""
        none = tuple(a[:0] for a in like)
        return Cells(sealed=none, page=none, page_rows=page_rows)

    @staticmethod
    def of(rows: Rows, *, page_rows: int) -> "Cells":
        """The cells whose live rows are `rows`."""
        return Cells.empty(rows, page_rows=page_rows).append(rows)

    def append(self, rows: Rows) -> "Cells":
        """These cells followed by `rows`; full pages are sealed."""
        if rows[0].shape[0] == 0:
            return self
        page = join(self.page, rows)
        full = page[0].shape[0] // self.page_rows * self.page_rows
        if full == 0:
            return Cells(self.sealed, page, self.page_rows)
        sealed = join(self.sealed, tuple(a[:full] for a in page))
        # A slice may be a view of the long array; a copy lets that one go.
        rest = tuple(mx.contiguous(a[full:]) for a in page)
        return Cells(sealed, rest, self.page_rows)

    def rows(self) -> Rows:
        """All live rows in order."""
        return join(self.sealed, self.page)


def join(first: Rows, second: Rows) -> Rows:
    """The rows of `first`, then those of `second`, component by component."""
    return tuple(
        b if a.shape[0] == 0 else mx.concatenate([a, b])
        for a, b in zip(first, second, strict=True)
    )


def take(cells: Cells, window: Rows, index: mx.array) -> Rows:
    """Rows of `cells` followed by `window`, by absolute cell.

    The sealed pages are never copied for it: the cost depends on how many cells are
    asked for, not on how many there are.

    Args:
        cells: committed cells.
        window: the rows of the open window; the first is cell `cells.n`.
        index: absolute cells, int32 [...], each below `cells.n` + T.

    Returns:
        Per component [..., row shape].
    """
    recent = join(cells.page, window)
    border = cells.sealed_rows
    if border == 0:
        return tuple(a[index] for a in recent)
    old = mx.minimum(index, border - 1)
    new = mx.maximum(index - border, 0)
    is_old = index < border
    return tuple(
        mx.where(_expand(is_old, s.ndim - 1), s[old], r[new])
        for s, r in zip(cells.sealed, recent, strict=True)
    )


def _expand(flags: mx.array, extra: int) -> mx.array:
    return flags.reshape(*flags.shape, *([1] * extra))


def first_rows(rows: Sequence[mx.array], keep: int) -> Rows:
    """The first `keep` rows of each component."""
    return tuple(a[:keep] for a in rows)
