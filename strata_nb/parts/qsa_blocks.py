"""Pooled index keys: one per complete block of the sparse attention."""

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx

from strata_nb.parts.cells import Cells, join
from strata_nb.parts.part import Part


@dataclass(frozen=True)
class PendingBlocks:
    """Blocks that the window completed, were all its rows kept."""

    keys: mx.array  # [blocks, D_I]
    first_cells: int  # cells of the first of them that the window had to supply
    ratio: int

    def complete(self, keep: int) -> int:
        """How many are complete when `keep` rows are kept."""
        if keep < self.first_cells:
            return 0
        return 1 + (keep - self.first_cells) // self.ratio


@dataclass(frozen=True)
class QsaBlocks(Part[Cells, PendingBlocks]):
    """Normed and rotated block keys, [D_I] each."""

    head_dim: int
    ratio: int  # R, cells a block
    dtype: mx.Dtype
    page_rows: int
    name: str = "qsa_blocks"

    def initial(self) -> Cells:
        """No block."""
        like = (mx.zeros((1, self.head_dim), dtype=self.dtype),)
        return Cells.empty(like, page_rows=self.page_rows)

    def run(
        self, committed: Cells, new_keys: mx.array, *, start: int
    ) -> tuple[list[mx.array], PendingBlocks]:
        """Block keys in order, sealed and recent apart, and the new ones.

        Args:
            committed: blocks complete before the window.
            new_keys: keys of the blocks that the window completes, [blocks, D_I].
            start: the window's first cell.
        """
        pending = PendingBlocks(new_keys, self.ratio - start % self.ratio, self.ratio)
        recent = join(committed.page, (new_keys,))
        pieces = [*committed.sealed, *recent]
        return [p for p in pieces if p.shape[0]], pending

    def commit(self, committed: Cells, pending: PendingBlocks, *, keep: int) -> Cells:
        """Append the blocks that are complete under `keep`."""
        return committed.append((pending.keys[: pending.complete(keep)],))

    def leaves(self, committed: Cells) -> dict[str, mx.array]:
        """`keys`, [floor(n / R), D_I]."""
        return {"keys": committed.rows()[0]}

    def shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        """One key per complete block."""
        return {"keys": (n // self.ratio, self.head_dim)}

    def restore(self, leaves: Mapping[str, mx.array]) -> Cells:
        """Blocks from their keys."""
        return Cells.of((leaves["keys"].astype(self.dtype),), page_rows=self.page_rows)
