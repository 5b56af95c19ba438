"""The gated delta rule: a memory that decays, is corrected, and is read."""

import mlx.core as mx

from strata_kernels._select import choice
from strata_kernels.gated_delta.launch import (
    MOST_ROWS,
    fits,
    gated_delta_fast,
    replay_kernel,
    window_kernel,
)
from strata_kernels.gated_delta.reference import (
    gated_delta_reference,
    replay_reference,
)

__all__ = [
    "gated_delta",
    "gated_delta_fast",
    "gated_delta_reference",
    "gated_delta_window",
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
    """`gated_delta_reference`, by the kernel that STRATA_KERNELS chooses.

    Without one, MLX's own where there is a GPU to run it: on a CPU that one falls back
    to plain operations, and needs more of them than the reference does.
    """
    where = choice()
    if where == "reference" or not fits(k):
        on_cpu = mx.default_device() == mx.cpu
        advance = gated_delta_reference if on_cpu else gated_delta_fast
        return advance(q, k, v, decay, beta, state)
    outputs = []
    # A row's arithmetic is the same whatever its launch, so pieces change no bit.
    for first in range(0, v.shape[0], MOST_ROWS):
        r = slice(first, first + MOST_ROWS)
        piece, _, state = window_kernel(
            q[r], k[r], v[r], decay[r], beta[r], state, target=where
        )
        outputs.append(piece)
    return outputs[0] if len(outputs) == 1 else mx.concatenate(outputs), state


def gated_delta_window(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    decay: mx.array,
    beta: mx.array,
    state: mx.array,
) -> tuple[mx.array, mx.array, mx.array]:
    """`gated_delta` of T rows, T at least 2, and the state after row 0.

    Returns:
        Outputs, float32 [T, Hv, Dv]; the state after row 0; the state after row T.
    """
    where = choice()
    if where != "reference" and v.shape[0] <= MOST_ROWS and fits(k):
        return window_kernel(q, k, v, decay, beta, state, target=where)
    first, root = gated_delta(q[:1], k[:1], v[:1], decay[:1], beta[:1], state)
    others, last = gated_delta(q[1:], k[1:], v[1:], decay[1:], beta[1:], root)
    return mx.concatenate([first, others]), root, last


def replay(
    k: mx.array, v: mx.array, decay: mx.array, beta: mx.array, state: mx.array
) -> mx.array:
    """The state of `gated_delta` after row T, with the same bits; nothing is read."""
    where = choice()
    if where != "reference" and fits(k):
        return replay_kernel(k, v, decay, beta, state, target=where)
    if mx.default_device() == mx.cpu:
        return replay_reference(k, v, decay, beta, state)
    # The queries decide the outputs alone, and nobody reads those.
    return gated_delta_fast(k, k, v, decay, beta, state)[1]
