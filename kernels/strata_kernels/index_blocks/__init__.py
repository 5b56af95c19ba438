"""The indexer: pooled keys of blocks, their scores, and which blocks a row sees."""

import mlx.core as mx

from strata_kernels._select import choice
from strata_kernels.index_blocks.launch import choose_kernel, pool_kernel
from strata_kernels.index_blocks.reference import choose_blocks as choose_reference
from strata_kernels.index_blocks.reference import pool_blocks as pool_reference
from strata_kernels.index_blocks.reference import score_blocks
from strata_kernels.norms import RmsNorm
from strata_kernels.rope import Angles

__all__ = [
    "choose_blocks",
    "choose_reference",
    "pool_blocks",
    "pool_reference",
    "score_blocks",
]


def pool_blocks(raw: mx.array, norm: RmsNorm, at: Angles) -> mx.array:
    """`pool_reference`, by the kernel that STRATA_KERNELS chooses; see there."""
    where = choice()
    if where == "reference" or raw.dtype != mx.float32:
        return pool_reference(raw, norm, at)
    return pool_kernel(raw, norm, at, target=where)


def choose_blocks(
    scores: mx.array, complete: mx.array, *, budget: int
) -> tuple[mx.array, mx.array]:
    """`choose_reference`, by the kernel that STRATA_KERNELS chooses; the same blocks.

    Args:
        scores: float32 [T, blocks]; the lower block wins a tie.
        complete: complete blocks of each row, int32 [T].
        budget: blocks a row may choose.
    """
    where = choice()
    if where == "reference":
        return choose_reference(scores, complete, budget=budget)
    return choose_kernel(scores, complete, budget=budget, target=where)
