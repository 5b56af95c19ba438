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
        q: scaled queries of unit norm, float32 [T, Hk, Dk].
        k: keys of unit norm, float32 [T, Hk, Dk].
        v: values, float32 [T, Hv, Dv]; Hv is a multiple of Hk.
        decay: the factor of the memory, 0 to 1, float32 [T, Hv].
        beta: the step of the correction, 0 to 1, float32 [T, Hv].
        state: float32 [Hv, Dv, Dk].

    Returns:
        Outputs, float32 [T, Hv, Dv], read after the update; the state after row T.
    """
    outputs, last = _walk(q, k, v, decay, beta, state)
    read = outputs[0] if len(outputs) == 1 else mx.concatenate(outputs)
    return read.reshape(v.shape), last


def replay_reference(
    k: mx.array, v: mx.array, decay: mx.array, beta: mx.array, state: mx.array
) -> mx.array:
    """The state of `gated_delta_reference` after row T, to the bit; nothing is read."""
    return _walk(None, k, v, decay, beta, state)[1]


def _walk(
    q: mx.array | None,
    k: mx.array,
    v: mx.array,
    decay: mx.array,
    beta: mx.array,
    state: mx.array,
) -> tuple[list[mx.array], mx.array]:
    rows, heads, size = v.shape
    groups = k.shape[1]
    # Consecutive value heads share one key head: [T, Hk, Hv / Hk, ...].
    values = v.reshape(rows, groups, -1, size, 1)
    per_head = (rows, groups, heads // groups, 1, 1)
    inputs = [
        k[:, :, None, :, None],
        k[:, :, None, None, :],
        values,
        decay.reshape(per_head),
        beta.reshape(per_head),
        *([] if q is None else [q[:, :, None, :, None]]),
    ]
    shape = state.shape
    state = state.reshape(1, *values.shape[1:4], -1)
    outputs = []
    # One split of each input, none for a lone row: a window is bound by the number of
    # operations.
    split = [mx.split(a, rows) if rows > 1 else [a] for a in inputs]
    for key, key_row, value, alpha, step, *query in zip(*split, strict=True):
        state = state * alpha
        error = mx.addmm(value, state, key, alpha=-1.0)
        state = mx.addmm(state, step * error, key_row)
        outputs += [state @ one for one in query]
    return outputs, state.reshape(shape)
