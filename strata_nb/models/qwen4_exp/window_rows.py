"""Where a window's rows stand, worked out once on the host for all layers."""

from dataclasses import dataclass
from functools import cached_property

import mlx.core as mx
import numpy as np

from strata_kernels.rope import Angles, angles
from strata_nb.packs import ModelConfig


@dataclass(frozen=True)
class SparseCells:
    """The cells that rows list when they must choose blocks; W slots a row."""

    complete: mx.array  # complete blocks of each row, int32 [T]
    fixed: mx.array  # the cell of a slot that is no chosen block's, int32 [T, W]
    from_block: mx.array  # slots filled by chosen blocks, bool [T, W]
    visible: mx.array  # bool [T, W]


class WindowRows:
    """Rows of T tokens from absolute cell `start` on, and what each may see.

    Args:
        start: the first row's cell.
        count: rows, T.
        config: gives the cells of a block, the budget, and the rotation.
    """

    def __init__(self, start: int, count: int, config: ModelConfig) -> None:
        self.start, self.count = start, count
        self.ratio = ratio = config.indexer_compress_ratio
        self.blocks = blocks = config.indexer_budget // ratio
        self._dims, self._theta = config.rotary_dim, config.rope_theta
        self.cells = start + np.arange(count)
        # A row's own block is complete, and so competes, when the row ends it.
        self.complete = (self.cells + 1) // ratio
        self.is_sparse = bool(self.complete[-1] > blocks)

    @cached_property
    def angles(self) -> Angles:
        """Rotation of the rows."""
        return angles(self.cells, dims=self._dims, theta=self._theta)

    @cached_property
    def block_angles(self) -> Angles:
        """Rotation of the blocks that the window completes, by their first cells."""
        first, end = self.start // self.ratio, self.complete[-1]
        return angles(
            np.arange(first, end) * self.ratio, dims=self._dims, theta=self._theta
        )

    @cached_property
    def causal(self) -> mx.array:
        """Cell c is visible to the row at p when c <= p; bool [T, start + T]."""
        everything = np.arange(self.start + self.count)
        return mx.array(everything <= self.cells[:, None])

    @cached_property
    def sparse(self) -> SparseCells:
        """Chosen blocks ascending, then the open block, then unused slots.

        The order is that of the cells, so a row's sums run in the order they would
        in dense attention, whatever the other rows of its window are.
        """
        slots = np.arange(self.blocks * self.ratio + self.ratio - 1)
        chosen = np.minimum(self.complete, self.blocks)[:, None] * self.ratio
        from_block = slots < chosen
        open_cell = self.complete[:, None] * self.ratio + slots - chosen
        in_open = ~from_block & (open_cell <= self.cells[:, None])
        return SparseCells(
            complete=mx.array(self.complete.astype(np.int32)),
            fixed=mx.array(np.where(in_open, open_cell, 0).astype(np.int32)),
            from_block=mx.array(from_block),
            visible=mx.array(from_block | in_open),
        )

    def listed(self, chosen: mx.array, rows: slice) -> mx.array:
        """The cells of every slot of some rows, int32 [rows, W].

        Args:
            chosen: their block numbers, ascending, int32 [rows, K_b].
            rows: which rows of the window.
        """
        inside = mx.arange(self.ratio, dtype=mx.int32)
        cells = (chosen[:, :, None] * self.ratio + inside).reshape(chosen.shape[0], -1)
        spare = mx.zeros((cells.shape[0], self.ratio - 1), dtype=mx.int32)
        filled = mx.concatenate([cells, spare], axis=1)
        return mx.where(self.sparse.from_block[rows], filled, self.sparse.fixed[rows])
