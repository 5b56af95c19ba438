"""Each operation against the formula in NumPy float64, at odd sizes."""

from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest

from helpers import EXACT, assert_close
from strata_kernels.block_attention import attend
from strata_kernels.experts import mix_experts, swiglu
from strata_kernels.gated_delta import (
    gated_delta_fast,
    gated_delta_reference,
    replay_reference,
)
from strata_kernels.index_blocks import choose_blocks, score_blocks
from strata_kernels.norms import RmsNorm, gated_rms_norm, l2_norm
from strata_kernels.rope import angles, rotate
from strata_kernels.route import route
from strata_kernels.short_conv import short_conv

Array = npt.NDArray[np.float64]


def draw(*shape: int, seed: int = 0) -> tuple[Array, mx.array]:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return values.astype(np.float64), mx.array(values)


def logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 4, 33), (2, 63)])
def test_rms_norm(shape: tuple[int, ...]) -> None:
    x, mine = draw(*shape)
    w, scale = draw(shape[-1], seed=1)
    want = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * w
    assert_close("rms", RmsNorm(scale, eps=1e-6)(mine), want, rel=1e-5)


def test_rms_norm_multiplies_before_it_rounds() -> None:
    x = mx.random.normal((4, 64), key=mx.random.key(3)).astype(mx.bfloat16)
    scale = mx.random.normal((64,), key=mx.random.key(4))
    norm = RmsNorm(scale, eps=1e-6)
    assert mx.array_equal(norm(x), norm(x.astype(mx.float32)).astype(mx.bfloat16))


def test_l2_norm_has_its_epsilon_on_the_sum() -> None:
    x, _ = draw(3, 5, 8)
    small = x * 1e-3  # so small that the place of the epsilon shows
    want = small / np.sqrt((small**2).sum(-1, keepdims=True) + 1e-6)
    assert_close("l2", l2_norm(mx.array(small.astype(np.float32))), want, rel=1e-5)


def test_gated_norm_gates_after_the_norm() -> None:
    x, mine = draw(3, 5)
    w, scale = draw(5, seed=1)
    g, gate = draw(3, 5, seed=2)
    want = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * w * g
    got = gated_rms_norm(mine, scale, gate, eps=1e-6)
    assert_close("gated", got, want, rel=1e-5)


@pytest.mark.parametrize(("taps", "dilation"), [(4, 1), (4, 3), (2, 2), (1, 1), (3, 5)])
@pytest.mark.parametrize("rows", [1, 4, 9])
def test_short_conv(taps: int, dilation: int, rows: int) -> None:
    past = (taps - 1) * dilation
    x, mine = draw(past + rows, 6)
    w, weight = draw(taps, 6, seed=1)
    want = [sum(w[i] * x[t + i * dilation] for i in range(taps)) for t in range(rows)]
    got = short_conv(mine, weight, dilation=dilation)
    assert_close("conv", got, want, rel=1e-5)


def delta_inputs(rows: int, heads: tuple[int, int], dims: tuple[int, int]) -> Any:
    (hk, hv), (dv, dk) = heads, dims
    q, k = (draw(rows, hk, dk, seed=i)[0] for i in (1, 2))
    q, k = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (q, k))
    v, state = draw(rows, hv, dv, seed=3)[0], draw(hv, dv, dk, seed=4)[0]
    rng = np.random.default_rng(5)
    decay, beta = rng.uniform(0.5, 1, (rows, hv)), rng.uniform(0, 1, (rows, hv))
    return q, k, v, decay, beta, state


def delta_rule(q: Any, k: Any, v: Any, decay: Any, beta: Any, state: Any) -> Any:
    hv, share = v.shape[1], v.shape[1] // k.shape[1]
    outputs, state = np.zeros(v.shape), state.copy()
    for t, h in np.ndindex(v.shape[0], hv):
        key, query = k[t, h // share], q[t, h // share]
        memory = decay[t, h] * state[h]
        state[h] = memory + np.outer(beta[t, h] * (v[t, h] - memory @ key), key)
        outputs[t, h] = state[h] @ query
    return outputs, state


@pytest.mark.parametrize("advance", [gated_delta_reference, gated_delta_fast])
@pytest.mark.parametrize("rows", [1, 2, 8, 37])
@pytest.mark.parametrize("heads", [(2, 6), (3, 3), (1, 4)])
def test_gated_delta(advance: Any, rows: int, heads: tuple[int, int]) -> None:
    # MLX's kernel for GPUs wants dimensions that are multiples of 32.
    inputs = delta_inputs(rows, heads, (32, 32))
    wanted = delta_rule(*inputs)
    got = advance(*(mx.array(a.astype(np.float32)) for a in inputs))
    for name, one, want in zip(("outputs", "state"), got, wanted, strict=True):
        assert_close(name, one, want, rel=2e-5)


def test_a_replay_has_the_bits_of_the_run() -> None:
    inputs = [mx.array(a.astype(np.float32)) for a in delta_inputs(5, (2, 4), (5, 9))]
    q, *rest = inputs
    advance: Any = gated_delta_reference
    again: Any = replay_reference
    assert mx.array_equal(again(*rest), advance(q, *rest)[1])


def test_gated_delta_of_odd_sizes_splits_exactly() -> None:
    inputs = [mx.array(a.astype(np.float32)) for a in delta_inputs(7, (2, 4), (5, 9))]
    outputs, state = gated_delta_reference(*inputs)
    rows, memory = inputs[:5], inputs[5]
    advance: Any = gated_delta_reference
    pieces = []
    for a, b in ((0, 1), (1, 4), (4, 7)):
        piece, memory = advance(*(x[a:b] for x in rows), memory)
        pieces.append(piece)
    assert_close("state", memory, state, rel=0 if EXACT else 1e-5)
    assert_close("rows", mx.concatenate(pieces), outputs, rel=0 if EXACT else 1e-5)


def test_route_prefers_the_lower_expert_on_ties() -> None:
    logits = mx.array([[1.0, 3, 3, 3, 2], [0, 0, 0, 0, 0], [5, 4, 3, 2, 1]])
    chosen, weights = route(logits, top_k=2, renormalise=True)
    assert np.array(chosen).tolist() == [[1, 2], [0, 1], [0, 1]]
    np.testing.assert_allclose(np.array(weights).sum(-1), 1, rtol=1e-6)


@pytest.mark.parametrize("renormalise", [True, False])
def test_a_logit_that_is_no_number_reaches_the_weights(renormalise: bool) -> None:
    logits = mx.array([[3.0, float("nan"), 1], [3, 2, 1]])
    _, weights = route(logits, top_k=1, renormalise=renormalise)
    assert np.isnan(np.array(weights)[:, 0]).tolist() == [True, False]


def test_experts_are_summed_by_weight() -> None:
    x, mine = draw(3, 6)
    first, gate_up = draw(5, 6, 8, seed=1)
    second, down = draw(5, 4, 6, seed=2)
    chosen = np.array([[0, 4], [2, 1], [3, 3]])
    shares, weights = draw(3, 2, seed=3)
    want = np.zeros((3, 6))
    for t, j in np.ndindex(3, 2):
        inner = x[t] @ first[chosen[t, j]]
        gate, up = inner[:4], inner[4:]
        active = gate * logistic(gate) * up
        want[t] += shares[t, j] * (active @ second[chosen[t, j]])
    got = mix_experts(mine, mx.array(chosen), weights, gate_up, down)
    assert_close("experts", got, want, rel=1e-5)
    assert swiglu(mx.zeros((2, 8))).shape == (2, 4)


def test_blocks_are_scored_by_relu_then_heads() -> None:
    q, queries = draw(3, 2, 8)
    k, keys = draw(5, 8, seed=1)
    want = np.maximum(np.einsum("thd,bd->thb", q, k), 0).sum(1) / np.sqrt(8)
    assert_close("scores", score_blocks(queries, keys), want, rel=1e-5)


def test_chosen_blocks_are_the_best_complete_ones_in_order() -> None:
    scores = mx.array([[1.0, 5, 3, 5, 9], [0, 0, 0, 0, 0], [4, 3, 2, 1, 0]])
    complete = mx.array([4, 5, 1], dtype=mx.int32)
    chosen, doubt = choose_blocks(scores, complete, budget=2)
    # Block 4 is not complete for row 0; all tie for row 1; row 2 has only one block.
    assert np.array(chosen).tolist() == [[1, 3], [0, 1], [0, 5]]
    assert np.array(doubt).tolist() == [0, 0, 0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_told(bad: float) -> None:
    scores = mx.array([[1.0, bad, 3], [1, 2, bad]])
    _, doubt = choose_blocks(scores, mx.array([3, 2], dtype=mx.int32), budget=1)
    # Row 1 cannot see block 2, so it does not matter there.
    assert np.isnan(np.array(doubt)).tolist() == [True, False]


def test_attention_over_shared_and_listed_cells() -> None:
    q, queries = draw(3, 4, 8)
    k, keys = draw(7, 2, 8, seed=1)
    v, values = draw(7, 2, 8, seed=2)
    visible = np.tril(np.ones((3, 7), dtype=bool), 2)
    want = np.zeros((3, 4, 8))
    for t, h in np.ndindex(3, 4):
        seen = visible[t]
        scores = k[seen, h // 2] @ q[t, h] / np.sqrt(8)
        share = np.exp(scores - scores.max())
        want[t, h] = share @ v[seen, h // 2] / share.sum()
    got = attend(queries, keys, values, mx.array(visible))
    assert_close("shared", got, want, rel=1e-5)
    k3, v3 = (mx.broadcast_to(a, (3, *a.shape)) for a in (keys, values))
    assert_close("listed", attend(queries, k3, v3, mx.array(visible)), want, rel=1e-5)


@pytest.mark.parametrize("position", [0, 5, 4000, 250_000])
def test_rotation_is_that_of_mlx_with_explicit_periods(position: int) -> None:
    _, x = draw(3, 2, 16)
    cells = np.arange(position, position + 3)
    periods = mx.array((1e7 ** (np.arange(4) / 4)).astype(np.float32))
    want = mx.fast.rope(
        x.swapaxes(0, 1)[None],
        8,
        traditional=False,
        base=None,
        scale=1.0,
        offset=position,
        freqs=periods,
    )[0].swapaxes(0, 1)
    got = rotate(x, angles(cells, dims=8, theta=1e7))
    assert_close("rope", got, want, rel=1e-6)
    assert mx.array_equal(got[..., 8:], x[..., 8:])


@pytest.mark.skipif(not EXACT, reason="bits depend on the width on a GPU")
@pytest.mark.parametrize("length", [1, 5, 17, 33, 64, 100, 131])
def test_slots_masked_at_the_end_change_no_bit(length: int) -> None:
    _, q = draw(1, 4, 64)
    k, v = (draw(320, 1, 64, seed=seed)[1] for seed in (1, 2))

    def over(width: int) -> mx.array:
        visible = mx.arange(width)[None] < length
        return attend(q, k[:width], v[:width], visible)

    for width in (length + 1, length + 3, length + 7, 160, 288, 320):
        assert mx.array_equal(over(width), over(length))
