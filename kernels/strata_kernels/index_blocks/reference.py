"""Block scores and the choice of blocks."""

import mlx.core as mx

from strata_kernels.norms import RmsNorm
from strata_kernels.rope import Angles, rotate


def pool_blocks(raw: mx.array, norm: RmsNorm, at: Angles) -> mx.array:
    """Keys of complete blocks: the mean of their raw keys, normed, then rotated.

    Args:
        raw: [blocks, R, D].
        norm: over D.
        at: of the blocks' first cells.

    Returns:
        [blocks, D] in the dtype of `raw`; the mean is rounded to it before the norm.
    """
    pooled = raw.astype(mx.float32).mean(axis=1).astype(raw.dtype)
    return rotate(norm(pooled)[:, None], at)[:, 0]


def score_blocks(queries: mx.array, keys: mx.array) -> mx.array:
    """`sum_heads relu(query . key) / sqrt(D)`; float32 [T, blocks].

    Args:
        queries: index queries, [T, heads, D].
        keys: pooled, normed, rotated block keys, [blocks, D].
    """
    rows, heads, size = queries.shape
    flat = queries.reshape(rows * heads, size).astype(mx.float32)
    dots = mx.maximum(flat @ keys.astype(mx.float32).T, 0)
    summed: mx.array = dots.reshape(rows, heads, -1).sum(axis=1)
    return mx.multiply(summed, size**-0.5)


def choose_blocks(
    scores: mx.array, complete: mx.array, *, budget: int
) -> tuple[mx.array, mx.array]:
    """The best `budget` blocks of each row among those complete before its end.

    Args:
        scores: float32 [T, blocks]; the lower block wins a tie.
        complete: complete blocks of each row, int32 [T].
        budget: blocks a row may choose.

    Returns:
        Block numbers, ascending, int32 [T, min(budget, blocks)]; rows with fewer
        complete blocks than that end in numbers past every block. And a zero for each
        row, float32 [T], that is NaN where a score was none or infinite: a sort alone
        would hide it.
    """
    blocks = scores.shape[1]
    candidates = mx.arange(blocks)[None] < complete[:, None]
    masked = mx.where(candidates, scores, -mx.inf)
    order = mx.argsort(-masked, axis=-1)[:, :budget].astype(mx.int32)
    real = order < complete[:, None]
    doubt = mx.where(candidates, scores * 0, 0).sum(axis=-1)
    return mx.sort(mx.where(real, order, blocks), axis=-1), doubt
