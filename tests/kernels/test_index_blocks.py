"""The indexer's kernels on the host against the reference, and mistakes planted."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from helpers import assert_close
from strata_kernels import index_blocks
from strata_kernels._prelude import KernelError
from strata_kernels._prelude.host import compiler
from strata_kernels.index_blocks import pool_blocks, pool_reference
from strata_kernels.index_blocks.launch import (
    CHOOSE,
    POOL,
    SCORE,
    choose_kernel,
    pool_kernel,
    score_kernel,
)
from strata_kernels.index_blocks.reference import choose_blocks, score_blocks
from strata_kernels.norms import RmsNorm
from strata_kernels.rope import Angles, angles

pytestmark = pytest.mark.skipif(
    compiler() is None, reason="no C++ compiler: the kernels' text cannot be built"
)

BUDGET = 5


def normal(*shape: int, seed: int = 0) -> mx.array:
    drawn = np.random.default_rng(seed).normal(size=shape)
    return mx.array(drawn.astype(np.float32))


def pool_sample() -> tuple[mx.array, RmsNorm, Angles]:
    """Three blocks of four cells, the first of them the 21st of its context."""
    norm = RmsNorm(normal(40, seed=2), eps=1e-6)
    return normal(3, 4, 40), norm, angles([80, 84, 88], dims=12, theta=1e4)


def test_keys_of_blocks_are_those_of_the_reference() -> None:
    raw, norm, at = pool_sample()
    got = pool_kernel(raw, norm, at, target="host")
    assert_close("keys", got, pool_reference(raw, norm, at), rel=2e-6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("c < R", "c < R - 1", id="a cell left out"),
        pytest.param("(block * R + c)", "(block + c)", id="another block's cells"),
        pytest.param("-other : other", "other : -other", id="turned backwards"),
        pytest.param("f < DIMS;", "f < DIMS / 2;", id="half of a pair"),
        pytest.param(
            "cosines[block * DIMS", "cosines[0 * DIMS", id="one place for all"
        ),
    ],
)
def test_a_mistake_in_the_keys_shows(old: str, new: str) -> None:
    raw, norm, at = pool_sample()
    got = pool_kernel(raw, norm, at, target="host", kernel=POOL.changed(old, new))
    with pytest.raises(AssertionError, match="error"):
        assert_close("keys", got, pool_reference(raw, norm, at), rel=2e-6)


def test_a_pair_s_other_half_is_waited_for() -> None:
    without = POOL.changed("BARRIER();  // a pair's other half is another lane's", "")
    with pytest.raises(KernelError, match="depends on the order of threads"):
        pool_kernel(*pool_sample(), target="host", kernel=without)


def test_the_engine_s_call_takes_the_kernel_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw, norm, at = pool_sample()
    half = raw.astype(mx.bfloat16)
    want, rounded = pool_blocks(raw, norm, at), pool_blocks(half, norm, at)
    monkeypatch.setenv("STRATA_KERNELS", "host")
    got = pool_blocks(raw, norm, at)
    assert_close("keys", got, want, rel=2e-6)
    assert mx.array_equal(got, pool_kernel(raw, norm, at, target="host"))
    assert mx.array_equal(pool_blocks(half, norm, at), rounded)


@pytest.mark.parametrize("blocks", [1, 7, 8])
def test_scores_are_those_of_the_reference(blocks: int) -> None:
    queries, keys = normal(3, 2, 40), normal(blocks, 40, seed=1)
    got = score_kernel(queries, keys, target="host")
    assert_close("scores", got, score_blocks(queries, keys), rel=2e-6)


def test_a_key_that_is_no_number_reaches_its_scores() -> None:
    queries, keys = normal(3, 2, 40), normal(7, 40, seed=1)
    keys[4, 2] = float("nan")
    bad = np.isnan(np.array(score_kernel(queries, keys, target="host")))
    assert bad.any(axis=0).tolist() == [i == 4 for i in range(7)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("dot < 0.0f ? 0.0f : dot", "dot", id="no relu"),
        pytest.param("(t * HEADS + h) * D", "(h * ROWS + t) * D", id="heads for rows"),
        pytest.param("i < PARTS; i++) {\n  int", "i < 1; i++) {\n  int", id="a lane"),
    ],
)
def test_a_mistake_in_the_scores_shows(old: str, new: str) -> None:
    queries, keys = normal(3, 2, 40), normal(7, 40, seed=1)
    got = score_kernel(queries, keys, target="host", kernel=SCORE.changed(old, new))
    with pytest.raises(AssertionError, match="error"):
        assert_close("scores", got, score_blocks(queries, keys), rel=2e-6)


def samples() -> list[tuple[mx.array, mx.array]]:
    """Many equal scores, zeros of both signs, and rows with few or no blocks."""
    halves = mx.round(normal(4, 300, seed=1) * 2) / 2
    signs = mx.where(mx.arange(300) % 2 == 0, 0.0, -0.0)
    relu = mx.maximum(normal(4, 300, seed=2), 0) * mx.where(signs == 0, 1, 1)
    counts = [[300, 261, 31, 6], [5, 4, 1, 0]]
    given = (halves, relu, mx.broadcast_to(signs, (4, 300)))
    return [
        (mx.contiguous(scores), mx.array(complete, dtype=mx.int32))
        for scores in given
        for complete in counts
    ]


def wrong_rows(kernel: Any) -> int:
    found = 0
    for scores, complete in samples():
        got, doubt = choose_kernel(
            scores, complete, budget=BUDGET, target="host", kernel=kernel
        )
        want, told = choose_blocks(scores, complete, budget=BUDGET)
        found += int(not mx.array_equal(doubt, told))
        found += int((np.array(got) != np.array(want)).any(axis=1).sum())
    return found


def test_chosen_blocks_are_those_of_the_reference() -> None:
    assert wrong_rows(CHOOSE) == 0


def test_fewer_blocks_than_the_budget() -> None:
    scores, complete = normal(2, 3), mx.array([3, 2], dtype=mx.int32)
    got, _ = choose_kernel(scores, complete, budget=BUDGET, target="host")
    assert np.array(got).tolist() == [[0, 1, 2], [0, 1, 3]]


def test_the_engine_s_choice_takes_the_kernel_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scores, complete = samples()[0]
    want, _ = index_blocks.choose_blocks(scores, complete, budget=BUDGET)
    monkeypatch.setenv("STRATA_KERNELS", "host")
    got, _ = index_blocks.choose_blocks(scores, complete, budget=BUDGET)
    assert mx.array_equal(got, want)
    monkeypatch.setattr(index_blocks, "choose_kernel", lambda *a, **b: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        index_blocks.choose_blocks(scores, complete, budget=BUDGET)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_score_that_is_none_is_told(bad: float) -> None:
    scores = normal(2, 40)
    scores[:, 35] = bad
    complete = mx.array([40, 35], dtype=mx.int32)
    _, doubt = choose_kernel(scores, complete, budget=BUDGET, target="host")
    # Row 1 cannot see block 35.
    assert np.isnan(np.array(doubt)).tolist() == [True, False]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("lane) < share;", "lane) < share - 1;", id="an equal too few"),
        pytest.param("total >= K", "total >= K - 1", id="the threshold one short"),
        pytest.param("int bit = 31", "int bit = 30", id="a bit forgotten"),
        pytest.param("int have = complete[row]", "int have = complete[0]", id="row 0"),
        pytest.param("seen = seen + ones(levels)", "seen = 0", id="equals not counted"),
        pytest.param("quota = quota - granted", "quota = quota", id="a quota for each"),
    ],
)
def test_a_mistake_in_the_choice_shows(old: str, new: str) -> None:
    try:
        wrong = wrong_rows(CHOOSE.changed(old, new))
    except KernelError:
        # Too many blocks of one row end up in the next one, or past the last.
        wrong = 1
    assert wrong > 0


@pytest.mark.parametrize(
    "barrier",
    [
        "BARRIER();  // counted",
        "BARRIER();  // read",
        "BARRIER();  // each stretch is known",
    ],
)
def test_each_barrier_is_needed(barrier: str) -> None:
    with pytest.raises(KernelError, match=r"order of threads|outside of `chosen`"):
        wrong_rows(CHOOSE.changed(barrier, ""))
