"""Pairs of a draft head that it has not read: it is shown them when a draft is due."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx

from strata_nb.parts.part import Part


@dataclass(frozen=True)
class Unread:
    """Streams of cells, and the tokens behind them, pair by pair.

    Attributes:
        h: one array a window, [rows, C, H].
        ids: the tokens, as many as there are rows in all.
    """

    h: tuple[mx.array, ...] = ()
    ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class PendingPairs:
    """Pairs of a window; the first window of a text may have one fewer than rows."""

    pairs: Unread
    fewer: int  # 0, or 1


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

    def run(self, before: mx.array, ids: Sequence[int]) -> PendingPairs:
        """The window's pairs.

        Args:
            before: streams of the cells before its tokens, [T or T - 1, C, H].
            ids: the tokens, T of them.
        """
        fewer = len(ids) - before.shape[0]
        return PendingPairs(Unread((before,), tuple(ids[fewer:])), fewer)

    def commit(self, committed: Unread, pending: PendingPairs, *, keep: int) -> Unread:
        """The pairs so far, and those of kept tokens."""
        count, pairs = keep - pending.fewer, pending.pairs
        if count == 0:
            return committed
        # A copy: a view would hold the whole window.
        kept = mx.contiguous(pairs.h[0][:count])
        return Unread((*committed.h, kept), (*committed.ids, *pairs.ids[:count]))

    def leaves(self, committed: Unread) -> dict[str, mx.array]:
        """None: those of a settled state are read."""
        return {}

    def shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        """None."""
        return {}

    def restore(self, leaves: Mapping[str, mx.array]) -> Unread:
        """None."""
        return Unread()
