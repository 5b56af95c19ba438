"""Experts by gathered matrix products, reduced once in rank order."""

import functools

import mlx.core as mx

# Numbers in the copies of experts at one time.
_COPY_LIMIT = 1 << 24


def swiglu(gate_up: mx.array) -> mx.array:
    """`silu(gate) * up` of [..., 2I], gate features first; [..., I]."""
    gate, up = mx.split(gate_up, 2, axis=-1)
    return gate * mx.sigmoid(gate) * up


def mix_experts(
    x: mx.array,
    chosen: mx.array,
    weights: mx.array,
    gate_up: mx.array,
    down: mx.array,
) -> mx.array:
    """`sum_j weights[:, j] * expert_{chosen[:, j]}(x)`.

    Args:
        x: rows, [T, H].
        chosen: expert numbers by rank, [T, K].
        weights: [T, K].
        gate_up: both first matrices, stored (in, out): [E, H, 2I].
        down: stored (in, out): [E, I, H].

    Returns:
        [T, H].
    """
    spread = x[:, None, None, :]
    if x.dtype == mx.float32 or mx.default_device() != mx.cpu:
        row, each = _numbers(*chosen.shape)
        inner = mx.gather_mm(spread, gate_up, lhs_indices=row, rhs_indices=chosen)
        active = swiglu(inner)
        outer = mx.gather_mm(active, down, lhs_indices=each, rhs_indices=chosen)
    else:
        outer = _by_copies(spread, chosen, gate_up, down)
    return (weights[:, None, :] @ outer.squeeze(2)).squeeze(1)


def _by_copies(
    x: mx.array, chosen: mx.array, gate_up: mx.array, down: mx.array
) -> mx.array:
    """The chosen experts copied out: MLX gathers on a CPU in float32 alone.

    Rows are taken a few at a time, so that the copies stay small.
    """
    per_row = chosen.shape[1] * gate_up[0].size
    step = max(1, _COPY_LIMIT // per_row)
    pieces = [
        swiglu(x[i : i + step] @ gate_up[chosen[i : i + step]])
        @ down[chosen[i : i + step]]
        for i in range(0, x.shape[0], step)
    ]
    return mx.concatenate(pieces)


@functools.lru_cache(maxsize=64)
def _numbers(rows: int, ranks: int) -> tuple[mx.array, mx.array]:
    """The row of each (row, rank), and each one's own number; uint32 [T, K].

    Made once a shape: MLX would make them anew in every layer.
    """
    each = mx.arange(rows * ranks, dtype=mx.uint32).reshape(rows, ranks)
    row = mx.contiguous(mx.broadcast_to(each[:, :1] // ranks, each.shape))
    mx.eval(row, each)
    return row, each
