"""The streams of the last committed cell, which the draft head has yet to read."""

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx

from strata_nb.parts.part import Part


@dataclass(frozen=True)
class WideRow(Part[mx.array, mx.array]):
    """One row of residual streams after the last layer, [1, C, H]; none at the start.

    The head pairs it with the token that follows, and that one nobody knows yet.
    """

    streams: int
    hidden: int
    dtype: mx.Dtype
    zero_first: bool = False  # a row of zeros stands before the first cell
    name: str = "mtp_row"

    def initial(self) -> mx.array:
        """No row, or the row of zeros."""
        rows = int(self.zero_first)
        return mx.zeros((rows, self.streams, self.hidden), dtype=self.dtype)

    def run(self, committed: mx.array, h: mx.array) -> tuple[mx.array, mx.array]:
        """The rows that the window's tokens follow, and its own.

        Args:
            committed: the row before the window, if there is one.
            h: streams of the window, [T, C, H].
        """
        rows = mx.concatenate([committed, h]) if committed.shape[0] else h
        return rows[:-1], h

    def commit(self, committed: mx.array, pending: mx.array, *, keep: int) -> mx.array:
        """The row of the last kept cell."""
        if pending.shape[0] == 1:
            return pending
        # A copy: a view would hold the whole window.
        return mx.contiguous(pending[keep - 1 : keep])

    def leaves(self, committed: mx.array) -> dict[str, mx.array]:
        """`h`, [1, C, H]; [0, C, H] at the start."""
        return {"h": committed}

    def shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        """One row as soon as there is a cell."""
        rows = 1 if self.zero_first else min(n, 1)
        return {"h": (rows, self.streams, self.hidden)}

    def restore(self, leaves: Mapping[str, mx.array]) -> mx.array:
        """The row itself."""
        return leaves["h"].astype(self.dtype)
