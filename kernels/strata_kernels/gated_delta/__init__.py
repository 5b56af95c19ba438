"""The gated delta rule: a memory that decays, is corrected, and is read."""

import mlx.core as mx

from strata_kernels.gated_delta.launch import gated_delta_fast
from strata_kernels.gated_delta.reference import (
    gated_delta_reference,
    replay_reference,
)

__all__ = [
    "gated_delta",
    "gated_delta_fast",
    "gated_delta_reference",
    "replay",
    "replay_reference",
]


def gated_delta(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    decay: mx.array,
    beta: mx.array,
    state: mx.array,
) -> tuple[mx.array, mx.array]:
    """`gated_delta_reference`, or MLX's kernel where there is a GPU to run it.

    On a CPU MLX falls back to plain operations, and needs more of them than the
    reference does.
    """
    on_cpu = mx.default_device() == mx.cpu
    advance = gated_delta_reference if on_cpu else gated_delta_fast
    return advance(q, k, v, decay, beta, state)


def replay(
    k: mx.array, v: mx.array, decay: mx.array, beta: mx.array, state: mx.array
) -> mx.array:
    """The state of `gated_delta` after row T, with the same bits; nothing is read."""
    if mx.default_device() == mx.cpu:
        return replay_reference(k, v, decay, beta, state)
    # The queries decide the outputs alone, and nobody reads those.
    return gated_delta_fast(k, k, v, decay, beta, state)[1]
