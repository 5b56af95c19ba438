"""Raw index keys of the open block: what the next pooled key will be made of."""

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx

from strata_nb.parts.part import Part


@dataclass(frozen=True)
class QsaTail(Part[mx.array, mx.array]):
    """The open block's raw keys, [n mod R, D_I]: exactly its live slots.

    Pending is the snapshot of them followed by every row of the window, so a commit
    replays the kept rows, and a rejected row cannot take a kept one's slot.
    """

    head_dim: int
    ratio: int  # R, cells a block
    dtype: mx.Dtype
    name: str = "qsa_tail"

    def initial(self) -> mx.array:
        """An empty block."""
        return mx.zeros((0, self.head_dim), dtype=self.dtype)

    def run(self, committed: mx.array, raw: mx.array) -> tuple[mx.array, mx.array]:
        """The rows of the blocks that the window completes, and snapshot plus rows.

        Args:
            committed: raw keys of the open block, [n mod R, D_I].
            raw: raw keys of the window, [T, D_I].

        Returns:
            [blocks, R, D_I] of complete blocks; [n mod R + T, D_I].
        """
        rows = mx.concatenate([committed, raw]) if committed.shape[0] else raw
        complete = rows.shape[0] // self.ratio
        blocks = rows[: complete * self.ratio]
        return blocks.reshape(complete, self.ratio, self.head_dim), rows

    def commit(self, committed: mx.array, pending: mx.array, *, keep: int) -> mx.array:
        """The rows after the last complete block among the kept ones."""
        end = committed.shape[0] + keep
        return mx.contiguous(pending[end // self.ratio * self.ratio : end])

    def leaves(self, committed: mx.array) -> dict[str, mx.array]:
        """`rows`, [n mod R, D_I]."""
        return {"rows": committed}

    def shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        """One row per cell of the open block."""
        return {"rows": (n % self.ratio, self.head_dim)}

    def restore(self, leaves: Mapping[str, mx.array]) -> mx.array:
        """The open block from its rows."""
        return leaves["rows"].astype(self.dtype)
