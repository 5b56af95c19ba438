"""Attention over listed cells on the host, against the reference, and mistakes."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from helpers import assert_close
from strata_kernels._prelude import Kernel, KernelError
from strata_kernels._prelude.host import compiler
from strata_kernels.block_attention import attend
from strata_kernels.block_attention.launch import ATTEND, JOIN, STREAMS, attend_kernel

pytestmark = pytest.mark.skipif(
    compiler() is None, reason="no C++ compiler: the kernels' text cannot be built"
)

ROWS, HEADS, KV_HEADS, SIZE, CELLS = 2, 4, 2, 40, 300
# More than one turn of some streams.
LISTED = 2 * STREAMS + 18


def sample(seed: int = 0) -> list[mx.array]:
    """Queries, keys, values, and lists with some places that see no cell."""
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(ROWS, HEADS, SIZE)) * 3
    k, v = rng.normal(size=(2, CELLS, KV_HEADS, SIZE))
    cells = np.stack([np.sort(rng.permutation(CELLS)[:LISTED]) for _ in range(ROWS)])
    cells[rng.random(cells.shape) < 0.2] = -1
    floats = [mx.array(a.astype(np.float32)) for a in (q, k, v)]
    return [*floats, mx.array(cells.astype(np.int32))]


def wanted(q: mx.array, k: mx.array, v: mx.array, cells: mx.array) -> mx.array:
    there = mx.maximum(cells, 0)
    return attend(q, k[there], v[there], cells >= 0)


def hosted(
    inputs: list[mx.array], *, kernel: Kernel = ATTEND, join: Kernel = JOIN
) -> mx.array:
    run: Any = attend_kernel
    found: mx.array = run(*inputs, target="host", kernel=kernel, join=join)
    return found


def test_listed_cells_are_attended_to_as_by_the_reference() -> None:
    inputs = sample()
    run: Any = wanted
    assert_close("y", hosted(inputs), run(*inputs), rel=5e-6)


def test_one_cell_is_its_value() -> None:
    q, k, v, cells = sample()
    alone = mx.where(mx.arange(LISTED) == 17, mx.maximum(cells, 3), -1)
    got = hosted([q, k, v, alone])
    want = mx.repeat(v[alone[:, 17]], HEADS // KV_HEADS, axis=1)
    assert_close("y", got, want, rel=1e-6)


def test_places_at_the_end_that_see_nothing_change_no_bit() -> None:
    q, k, v, cells = sample()
    # An odd number: half of a pair of cells at the end.
    longer = mx.concatenate([cells, mx.full((ROWS, 5), -1, dtype=mx.int32)], axis=1)
    assert mx.array_equal(hosted([q, k, v, longer]), hosted([q, k, v, cells]))


def test_a_row_is_its_own_whatever_the_others_list() -> None:
    q, k, v, cells = sample()
    others = mx.concatenate([cells[:1], mx.maximum(cells[1:] - 1, 0)])
    assert mx.array_equal(hosted([q, k, v, others])[0], hosted([q, k, v, cells])[0])


def test_a_key_that_is_none_reaches_the_rows_that_see_it() -> None:
    q, k, v, cells = sample()
    seen = set(np.array(cells[0]).tolist()) - set(np.array(cells[1]).tolist()) - {-1}
    k[min(seen)] = float("nan")
    bad = np.isnan(np.array(hosted([q, k, v, cells]))).any(axis=(1, 2))
    assert bad.tolist() == [True, False]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("mixed[h * PARTS + i] * kept", "mixed[h * PARTS + i]", id="kept"),
        pytest.param("sees_two = two >= 0", "sees_two = two >= -1", id="no cell seen"),
        pytest.param("sees_one ? EXP(dot_one - above) : 0.0f", "0.0f", id="one alone"),
        pytest.param("/ STREAMS % HKV", "/ STREAMS % 1", id="head 0 for all"),
        pytest.param("j += 2 * STREAMS", "j += 4 * STREAMS", id="a turn left out"),
        pytest.param("j + 1 < listed ?", "j + 1 < listed - 1 ?", id="the last lost"),
        pytest.param("one = cells[row * listed", "one = cells[0 * listed", id="row 0"),
    ],
)
def test_a_mistake_shows(old: str, new: str) -> None:
    q, k, v, cells = sample()
    cells[:, -2:] = mx.array([[7, 9], [9, 7]])
    run: Any = wanted
    wrong = hosted([q, k, v, cells], kernel=ATTEND.changed(old, new))
    with pytest.raises(AssertionError, match="error"):
        assert_close("y", wrong, run(q, k, v, cells), rel=5e-6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("weight[s], sum)", "1.0f, sum)", id="streams not weighed"),
        pytest.param("int s = 1; s < STREAMS", "int s = 1; s < 1", id="one maximum"),
    ],
)
def test_a_mistake_in_the_join_shows(old: str, new: str) -> None:
    inputs = sample()
    inputs[0] = inputs[0] * 40
    run: Any = wanted
    wrong = hosted(inputs, join=JOIN.changed(old, new))
    with pytest.raises(AssertionError, match="error"):
        assert_close("y", wrong, run(*inputs), rel=5e-6)


def test_the_barrier_is_needed() -> None:
    without = JOIN.changed("BARRIER();  // every stream's weight is known", "")
    with pytest.raises(KernelError, match="depends on the order of threads"):
        hosted(sample(), join=without)
