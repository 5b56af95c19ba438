"""Pairs of a draft head that it has not read: it is shown them when a draft is due."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from strata_nb.parts.part import Part

Ids = npt.NDArray[np.int32]


class _Older:
    """Arrays that earlier commits evaluated; nobody need look through them again."""

    def __init__(self, arrays: tuple[mx.array, ...] = ()) -> None:
        self.arrays = arrays


@dataclass(frozen=True, eq=False)
class Unread:
    """Streams of cells, and the tokens behind them, pair by pair.

    Attributes:
        newest: arrays [rows, C, H] of the last commit; `h` has all.
        ids: the tokens, one a row.
    """

    newest: tuple[mx.array, ...] = ()
    older: _Older = field(default_factory=_Older)
    ids: Ids = field(default_factory=lambda: np.empty(0, np.int32))

    @property
    def h(self) -> mx.array:
        """All streams, [N, C, H], of one pair or more."""
        return mx.concatenate([*self.older.arrays, *self.newest])


@dataclass(frozen=True, eq=False)
class PendingPairs:
    """The row that waited and the window's, whose first token follows that.

    Attributes:
        row: [1, C, H]; [0, C, H] where the window begins the text.
        h: [T, C, H].
        ids: the window's tokens.
    """

    row: mx.array
    h: mx.array
    ids: Ids


@dataclass(frozen=True)
class Pairs(Part[Unread, PendingPairs]):
    """What kept rows brought; a rejected one's pair is never shown to the head.

    A settled state has none: whoever owns the head settles it, so that there is
    nothing here to save.
    """

    name: str = "mtp_pairs"

    def initial(self) -> Unread:
        """None."""
        return Unread()

    def run(self, row: mx.array, h: mx.array, ids: Sequence[int]) -> PendingPairs:
        """The window's pairs; nothing is computed.

        Args:
            row: streams of the cell before the window, if there is one.
            h: streams of the window, [T, C, H].
            ids: its tokens.
        """
        return PendingPairs(row, h, np.asarray(ids, np.int32))

    def commit(self, committed: Unread, pending: PendingPairs, *, keep: int) -> Unread:
        """The pairs so far, and those of kept tokens."""
        row, h = pending.row, pending.h
        newest = (row,) if row.shape[0] else ()
        if keep > 1:
            # A copy: a view would hold the whole window.
            newest = (*newest, mx.contiguous(h[: keep - 1]))
        kept = pending.ids[1 - row.shape[0] : keep]
        older = _Older((*committed.older.arrays, *committed.newest))
        return Unread(newest, older, np.concatenate([committed.ids, kept]))

    def leaves(self, committed: Unread) -> dict[str, mx.array]:
        """None: those of a settled state are read."""
        return {}

    def shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        """None."""
        return {}

    def restore(self, leaves: Mapping[str, mx.array]) -> Unread:
        """None."""
        return Unread()
