"""MLX's own kernel for the recurrence."""

import mlx.core as mx


def gated_delta_fast(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    decay: mx.array,
    beta: mx.array,
    state: mx.array,
) -> tuple[mx.array, mx.array]:
    """`gated_delta_reference` through `mx.fast`; the same shapes and meaning."""
    outputs, last = mx.fast.gated_delta_update(
        q[None], k[None], v[None], decay[None], beta[None], state[None]
    )
    return outputs[0], last[0]
