"""Experts by gathered matrix products, reduced once in rank order."""

import mlx.core as mx


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
    inner = mx.gather_mm(x[:, None, None, :], gate_up, rhs_indices=chosen)
    outer = mx.gather_mm(swiglu(inner), down, rhs_indices=chosen).squeeze(2)
    return (weights[:, None, :] @ outer).squeeze(1)
