"""The kernels' text on the host against the reference, and mistakes planted in it."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from delta_samples import delta_sample
from helpers import assert_close
from strata_kernels._prelude.host import compiler
from strata_kernels.gated_delta import gated_delta, gated_delta_window, replay
from strata_kernels.gated_delta.launch import (
    REPLAY,
    WINDOW,
    Sizes,
    gated_delta_fast,
    replay_kernel,
    window_kernel,
)
from strata_kernels.gated_delta.reference import (
    gated_delta_reference,
    replay_reference,
)
from strata_nb.parts import DeltaRows, GdnState

pytestmark = pytest.mark.skipif(
    compiler() is None, reason="no C++ compiler: the kernels' text cannot be built"
)

# Of the root mean square; each sum has at most 40 terms.
TOLERANCE = 2e-6
SHAPES: Any = [
    pytest.param(4, (2, 4), (6, 33), id="one feature past a lane"),
    pytest.param(1, (3, 3), (1, 8), id="one row, fewer features than lanes"),
]


def reference(inputs: list[mx.array]) -> tuple[mx.array, mx.array, mx.array]:
    rows, state = inputs[:5], inputs[5]
    advance: Any = gated_delta_reference
    y, last = advance(*inputs)
    root = advance(*(a[:1] for a in rows), state)[1]
    return y, root, last


def assert_window(got: Any, want: Any) -> None:
    for name, one, other in zip(("y", "root", "last"), got, want, strict=True):
        assert_close(name, one, other, rel=TOLERANCE)


@pytest.mark.parametrize(("rows", "heads", "dims"), SHAPES)
def test_the_window_is_that_of_the_reference(
    rows: int, heads: tuple[int, int], dims: tuple[int, int]
) -> None:
    inputs = delta_sample(rows, heads=heads, dims=dims)
    kernel: Any = window_kernel
    assert_window(kernel(*inputs, target="host"), reference(inputs))


SAMPLE = {"heads": (2, 4), "dims": (6, 33)}


def window_of(rows: int) -> tuple[list[mx.array], Any]:
    inputs = delta_sample(rows, **SAMPLE)  # type: ignore[arg-type]
    kernel: Any = window_kernel
    return inputs, kernel(*inputs, target="host")


def test_a_replay_from_row_0_or_1_has_the_bits_of_the_window() -> None:
    inputs, (_, root, last) = window_of(4)
    rows, state = inputs[1:5], inputs[5]
    kernel: Any = replay_kernel
    assert mx.array_equal(kernel(*rows, state, target="host"), last)
    assert mx.array_equal(kernel(*rows, state, target="host", keep=1), root)
    assert mx.array_equal(kernel(*rows, root, target="host", first=1), last)
    assert mx.array_equal(kernel(*rows, root, target="host", first=1, keep=1), root)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("keep", [1, 2, 3, 4])
def test_a_replay_of_kept_rows_is_that_of_the_reference(first: int, keep: int) -> None:
    inputs, (_, root, _) = window_of(4)
    rows = inputs[1:5]
    state = root if first else inputs[5]
    kernel: Any = replay_kernel
    got = kernel(*rows, state, target="host", first=first, keep=keep)
    if first == keep:
        assert mx.array_equal(got, state)
        return
    replayed: Any = replay_reference
    want = replayed(*(a[first:keep] for a in rows), state)
    assert_close("state", got, want, rel=TOLERANCE)


def test_rejected_rows_change_no_bit_of_a_replay() -> None:
    inputs, _ = window_of(4)
    rows, state = inputs[1:5], inputs[5]
    others = [mx.concatenate([a[:2], a[2:] * float("nan")]) for a in rows]
    kernel: Any = replay_kernel
    want = kernel(*rows, state, target="host", keep=2)
    assert mx.array_equal(kernel(*others, state, target="host", keep=2), want)


def test_the_launch_depends_on_the_rows_alone() -> None:
    sizes = Sizes(2, 4, 6, 33)
    assert sizes.launch(rows=4) == sizes.launch(rows=4)
    assert sizes.launch(rows=4).constants["ROWS"] == 4
    assert "ROWS" not in sizes.launch(rows=None).constants
    groups = {sizes.launch(rows=n).groups for n in (1, 4, 8, None)}
    assert groups == {6}


WINDOW_MISTAKES = [
    pytest.param("int t = 0; t < ROWS", "int t = 1; t < ROWS", id="row 0 left out"),
    pytest.param("head / (HV / HK)", "head % HK", id="heads tiled, not consecutive"),
    pytest.param("if (t == 0)", "if (t == 1)", id="the root's state one row late"),
    pytest.param("decay[t * HV + head]", "decay[head]", id="row 0's decay for all"),
    pytest.param("q + (t * HK", "k + (t * HK", id="the key read for the query"),
    pytest.param("(DK + 31) / 32", "DK / 32", id="features past the lanes lost"),
]


@pytest.mark.parametrize(("old", "new"), WINDOW_MISTAKES)
def test_a_mistake_in_the_window_shows(old: str, new: str) -> None:
    inputs = delta_sample(4, **SAMPLE)  # type: ignore[arg-type]
    kernel: Any = window_kernel
    wrong = kernel(*inputs, target="host", kernel=WINDOW.changed(old, new))
    with pytest.raises(AssertionError, match="error"):
        assert_window(wrong, reference(inputs))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("int first = span[0]", "int first = 0", id="offset forgotten"),
        pytest.param("int end = span[1]", "int end = span[1] - 1", id="a row short"),
        pytest.param("int end = span[1]", "int end = 4", id="rejected rows replayed"),
    ],
)
def test_a_mistake_in_a_partial_replay_shows(old: str, new: str) -> None:
    inputs, (_, root, _) = window_of(4)
    rows = inputs[1:5]
    kernel: Any = replay_kernel
    span = {"target": "host", "first": 1, "keep": 3}
    wrong = kernel(*rows, root, kernel=REPLAY.changed(old, new), **span)
    replayed: Any = replay_reference
    want = replayed(*(a[1:3] for a in rows), root)
    with pytest.raises(AssertionError, match="error"):
        assert_close("state", wrong, want, rel=TOLERANCE)


def test_the_engine_s_calls_take_the_kernel_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = delta_sample(4, **SAMPLE)  # type: ignore[arg-type]
    advance: Any = gated_delta
    window: Any = gated_delta_window
    plain, plainly = advance(*inputs), window(*inputs)
    monkeypatch.setenv("STRATA_KERNELS", "host")
    hosted, hosting = advance(*inputs), window(*inputs)
    assert_close("y", hosted[0], plain[0], rel=TOLERANCE)
    assert_window(hosting, plainly)
    assert not mx.array_equal(hosted[0], plain[0]), "the reference ran"
    assert mx.array_equal(hosted[1], hosting[2])
    again: Any = replay
    assert mx.array_equal(again(*inputs[1:]), hosting[2])


def test_a_long_prompt_goes_in_pieces_of_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STRATA_KERNELS", "host")
    inputs = delta_sample(9, **SAMPLE)  # type: ignore[arg-type]
    advance: Any = gated_delta
    y, last = advance(*inputs)
    rows, state = inputs[:5], inputs[5]
    outputs = []
    for a, b in ((0, 1), (1, 5), (5, 9)):
        piece, state = advance(*(r[a:b] for r in rows), state)
        outputs.append(piece)
    assert mx.array_equal(mx.concatenate(outputs), y)
    assert mx.array_equal(state, last)


@pytest.mark.parametrize("partial", [True, False])
def test_a_commit_has_the_bits_of_serial_rows(
    partial: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_KERNELS", "host")
    q, *rows, _ = delta_sample(4, **SAMPLE)  # type: ignore[arg-type]
    part = GdnState(4, 6, 33, lazy=True, partial=partial)
    window = DeltaRows(*rows)
    _, pending = part.run(part.initial(), q, window, head=True)
    serial = part.initial()
    for keep in (1, 2, 3, 4):
        row = window.between(keep - 1, keep)
        _, one = part.run(serial, q[keep - 1 : keep], row, head=True)
        serial = part.commit(serial, one, keep=1)
        kept = part.settle(part.commit(part.initial(), pending, keep=keep))
        assert mx.array_equal(kept.state, serial.state)


def test_a_number_that_is_none_reaches_the_outputs() -> None:
    inputs = delta_sample(4, **SAMPLE)  # type: ignore[arg-type]
    inputs[2] = mx.where(mx.arange(4)[:, None, None] == 2, float("nan"), inputs[2])
    kernel: Any = window_kernel
    y, root, last = kernel(*inputs, target="host")
    bad = np.isnan(np.array(y)).all(axis=(1, 2))
    assert bad.tolist() == [False, False, True, True]
    assert not np.isnan(np.array(root)).any()
    assert np.isnan(np.array(last)).all()


def test_mlx_s_own_kernel_agrees() -> None:
    inputs = delta_sample(4, heads=(2, 4), dims=(32, 32))
    fast: Any = gated_delta_fast
    y, _, last = reference(inputs)
    for name, one, other in zip(("y", "last"), fast(*inputs), (y, last), strict=True):
        assert_close(name, one, other, rel=2e-5)
