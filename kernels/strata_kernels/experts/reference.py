"""Experts by gathered matrix products, reduced once in rank order."""

import functools
from dataclasses import dataclass
from typing import TypeAlias

import mlx.core as mx

# Numbers in the copies of experts at one time.
_COPY_LIMIT = 1 << 24


@dataclass(frozen=True)
class Quantised:
    """One matrix for each expert, (out, in), as `mx.quantize` gives it.

    Attributes:
        weight: packed, uint32 [E, out, in * bits / 32].
        scales: [E, out, in / group].
        biases: as the scales; None for kinds that have none.
        bits: of one number.
        group: numbers that share a scale.
        mode: as MLX names it, "affine" or "mxfp4".
    """

    weight: mx.array
    scales: mx.array
    biases: mx.array | None
    bits: int
    group: int
    mode: str = "affine"


Matrices: TypeAlias = mx.array | Quantised
"""One matrix for each expert: dense ones stored (in, out), [E, in, out]."""


def swiglu(gate_up: mx.array) -> mx.array:
    """`silu(gate) * up` of [..., 2I], gate features first; [..., I]."""
    gate, up = mx.split(gate_up, 2, axis=-1)
    return gate * mx.sigmoid(gate) * up


def mix_experts(
    x: mx.array,
    chosen: mx.array,
    weights: mx.array,
    gate_up: Matrices,
    down: Matrices,
) -> mx.array:
    """`sum_j weights[:, j] * expert_{chosen[:, j]}(x)`.

    Args:
        x: rows, [T, H].
        chosen: expert numbers by rank, [T, K].
        weights: [T, K].
        gate_up: both first matrices, to 2I features, gate first.
        down: from I features.

    Returns:
        [T, H].
    """
    row, each = _numbers(*chosen.shape)
    if _gathers(x, gate_up):
        inner = _gathered(x[:, None, None, :], gate_up, row, chosen)
        outer = _gathered(swiglu(inner), down, each, chosen)
    else:
        outer = _by_copies(x[:, None, None, :], chosen, gate_up, down)
    return mix_outputs(outer.squeeze(2), weights)


def apply_experts(
    x: mx.array, row: mx.array, expert: mx.array, gate_up: Matrices, down: Matrices
) -> mx.array:
    """`expert_{expert[p]}(x[row[p]])` for P pairs, in any order.

    Args:
        x: rows, [T, H].
        row: of each pair, uint32 [P].
        expert: of each pair, uint32 [P].
        gate_up: as in `mix_experts`.
        down: as in `mix_experts`.

    Returns:
        [P, H], the bits that `mix_experts` would reduce.
    """
    if _gathers(x, gate_up):
        each = mx.arange(row.shape[0], dtype=mx.uint32)
        inner = _gathered(x[:, None, :], gate_up, row, expert)
        return _gathered(swiglu(inner), down, each, expert).squeeze(1)
    return _by_copies(x[row][:, None, :], expert, gate_up, down).squeeze(1)


def mix_outputs(outputs: mx.array, weights: mx.array) -> mx.array:
    """Outputs [T, K, H] reduced in rank order by weights [T, K]; [T, H]."""
    return (weights[:, None, :] @ outputs).squeeze(1)


def _gathers(x: mx.array, matrices: Matrices) -> bool:
    """Whether MLX gathers experts of this kind without a copy of each."""
    if isinstance(matrices, Quantised):
        return True
    same = matrices.dtype == x.dtype
    return same and (x.dtype == mx.float32 or mx.default_device() != mx.cpu)


def _gathered(
    x: mx.array, matrices: Matrices, row: mx.array, expert: mx.array
) -> mx.array:
    if isinstance(matrices, Quantised):
        return mx.gather_qmm(
            x,
            matrices.weight,
            matrices.scales,
            matrices.biases,
            lhs_indices=row,
            rhs_indices=expert,
            transpose=True,
            group_size=matrices.group,
            bits=matrices.bits,
            mode=matrices.mode,
        ).astype(x.dtype)
    return mx.gather_mm(x, matrices, lhs_indices=row, rhs_indices=expert)


def _by_copies(
    x: mx.array, chosen: mx.array, gate_up: Matrices, down: Matrices
) -> mx.array:
    """The chosen experts copied out: MLX gathers on a CPU in float32 alone.

    Rows are taken a few at a time, so that the copies stay small.
    """
    assert isinstance(gate_up, mx.array)
    assert isinstance(down, mx.array)
    per_row = max(1, chosen.size // chosen.shape[0]) * gate_up[0].size
    step = max(1, _COPY_LIMIT // per_row)
    pieces = [
        swiglu(x[i : i + step] @ gate_up[chosen[i : i + step]].astype(x.dtype))
        @ down[chosen[i : i + step]].astype(x.dtype)
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
