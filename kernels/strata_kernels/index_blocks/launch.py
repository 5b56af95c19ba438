"""The indexer's kernels: keys of blocks, their scores, and the choice among them."""

from functools import lru_cache

import mlx.core as mx

from strata_kernels._prelude import Kernel, Launch
from strata_kernels._prelude.kernel import Target
from strata_kernels.norms import RmsNorm
from strata_kernels.rope import Angles

POOL = Kernel.read(
    __file__,
    "pool",
    inputs=("raw", "scale", "eps", "cosines", "sines"),
    outputs=("keys",),
)
SCORE = Kernel.read(
    __file__,
    "score",
    inputs=("queries", "keys", "sizes", "scale"),
    outputs=("scores",),
)
CHOOSE = Kernel.read(
    __file__,
    "choose",
    inputs=("scores", "complete", "sizes"),
    outputs=("chosen", "doubt"),
)
_SCORE_SIMDGROUPS, _CHOOSE_SIMDGROUPS = 4, 8


def pool_kernel(
    raw: mx.array, norm: RmsNorm, at: Angles, *, target: Target, kernel: Kernel = POOL
) -> mx.array:
    """`pool_blocks` of float32 raw keys [blocks, R, D], one block or more.

    Returns:
        Float32 [blocks, D].
    """
    blocks, ratio, size = raw.shape
    scale, eps = norm.on_squares
    constants = {"D": size, "R": ratio, "DIMS": at.cos.shape[-1]}
    launch = Launch(blocks, 1, constants, [((blocks, size), mx.float32)])
    arrays = [raw, scale, _epsilon(eps), at.cos, at.sin]
    (keys,) = kernel(arrays, launch, target=target)
    return keys


def score_kernel(
    queries: mx.array, keys: mx.array, *, target: Target, kernel: Kernel = SCORE
) -> mx.array:
    """`score_blocks` of float32 queries [T, heads, D] and keys [blocks, D].

    Returns:
        Float32 [T, blocks].
    """
    rows, heads, size = queries.shape
    blocks, teams = keys.shape[0], _SCORE_SIMDGROUPS
    constants = {"ROWS": rows, "HEADS": heads, "D": size, "SIMDGROUPS": teams}
    outputs = [((rows, blocks), mx.float32)]
    launch = Launch(-(-blocks // teams), teams, constants, outputs)
    arrays = [queries, keys, _count(blocks), _scale(size)]
    (scores,) = kernel(arrays, launch, target=target)
    return scores


def choose_kernel(
    scores: mx.array,
    complete: mx.array,
    *,
    budget: int,
    target: Target,
    kernel: Kernel = CHOOSE,
) -> tuple[mx.array, mx.array]:
    """`choose_blocks` of float32 scores [T, blocks]; the same numbers.

    Returns:
        Int32 [T, min(budget, blocks)] and float32 [T]. Where a score is none, the row's
        blocks may be others than the reference's; its doubt is none in both.
    """
    rows, blocks = scores.shape
    # The number of blocks grows with the context: a value, or each would be a text.
    constants = {"K": budget, "TEAMS": _CHOOSE_SIMDGROUPS}
    outputs = [((rows, budget), mx.int32), ((rows,), mx.float32)]
    launch = Launch(rows, _CHOOSE_SIMDGROUPS, constants, outputs)
    arrays = [scores, complete, _count(blocks)]
    chosen, doubt = kernel(arrays, launch, target=target)
    return chosen[:, : min(budget, blocks)], doubt


@lru_cache(maxsize=256)
def _count(blocks: int) -> mx.array:
    return mx.array([blocks], dtype=mx.int32)


@lru_cache(maxsize=8)
def _epsilon(eps: float) -> mx.array:
    return mx.array([eps], dtype=mx.float32)


@lru_cache(maxsize=8)
def _scale(size: int) -> mx.array:
    return mx.array([size**-0.5], dtype=mx.float32)
