"""The recurrence row by row, as it is written on paper."""

import mlx.core as mx


def gated_delta_reference(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    decay: mx.array,
    beta: mx.array,
    state: mx.array,
) -> tuple[mx.array, mx.array]:
    """Advance `state` over T rows: decay, correct, then read.

    Args:
        q, k: unit-norm queries (already scaled) and keys, float32 [T, Hk, Dk].
        v: values, float32 [T, Hv, Dv]; Hv is a multiple of Hk.
        decay: the factor of the memory, 0 to 1, float32 [T, Hv].
        beta: the step of the correction, 0 to 1, float32 [T, Hv].
        state: float32 [Hv, Dv, Dk].

    Returns:
        Outputs, float32 [T, Hv, Dv], read after the update; the state after row T.
    """
    repeats = v.shape[1] // k.shape[1]
    # Consecutive value heads share one key head.
    q, k = mx.repeat(q, repeats, axis=1), mx.repeat(k, repeats, axis=1)
    outputs = []
    for t in range(v.shape[0]):
        state = state * decay[t][:, None, None]
        error = v[t] - (state * k[t][:, None, :]).sum(-1)
        correction = beta[t][:, None] * error
        state = state + correction[:, :, None] * k[t][:, None, :]
        outputs.append((state * q[t][:, None, :]).sum(-1))
    return mx.stack(outputs), state
