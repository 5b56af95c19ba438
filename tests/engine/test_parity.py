"""Engine and oracle against what transformers' Qwen4-Exp answered (float32, CPU).

The answers are stored; `vectors/parity.py` made them and checks them anew.
"""

from pathlib import Path

import numpy as np
import pytest

import strata_nb
from strata_nb.trace import LayerDecisions
from vectors.answers import in_many_windows, in_one_window
from vectors.cases import ALL, EDIT, MISTAKES, RANDOM, Case
from vectors.golden import (
    NEAR_TIE,
    RANDOM_BOUND,
    Answer,
    Golden,
    collect,
    compare,
)

# The oracle takes one row at a time. Both lengths are past the point where a row
# must choose blocks: 20 cells in the random models, 131 in strata-tiny.
ORACLE_ROWS = 64
STRATA_TINY_ROWS = 160


def check(case: Case, golden: Golden, answer: Answer) -> None:
    comparison = compare(golden, answer)
    fault = comparison.fault(case.bound)
    assert fault is None, f"{case.name}: {fault}"


by_name = pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
by_random = pytest.mark.parametrize("case", RANDOM, ids=lambda case: case.name)


@by_name
def test_vectors_belong_to_these_weights_and_prompts(case: Case) -> None:
    golden = case.golden()
    remedy = "`make parity` compares anew; `vectors.parity --write` stores the answers"
    assert golden.weights == case.fingerprint(), f"other weights: {remedy}"
    assert np.array_equal(golden.ids, case.prompt()), f"another prompt: {remedy}"


@by_name
def test_engine_in_one_window(case: Case, tmp_path: Path) -> None:
    model = strata_nb.load(case.checkpoint(tmp_path), dtype="float32")
    golden = case.golden()
    check(case, golden, in_one_window(model, golden))


@by_random
def test_engine_in_windows_of_one_to_eight(case: Case, tmp_path: Path) -> None:
    model = strata_nb.load(case.checkpoint(tmp_path), dtype="float32")
    golden = case.golden()
    check(case, golden, in_many_windows(model, golden))


@by_random
def test_oracle(case: Case, tmp_path: Path) -> None:
    model = strata_nb.load(case.checkpoint(tmp_path), backend="oracle")
    golden = case.golden().first(ORACLE_ROWS)
    check(case, golden, in_one_window(model, golden))


def test_strata_tiny_in_windows_of_one_to_eight() -> None:
    model = strata_nb.load("strata-tiny", dtype="float32")
    golden = EDIT.golden().first(STRATA_TINY_ROWS)
    check(EDIT, golden, in_many_windows(model, golden))


def test_oracle_of_strata_tiny() -> None:
    model = strata_nb.load("strata-tiny", backend="oracle")
    golden = EDIT.golden().first(STRATA_TINY_ROWS)
    check(EDIT, golden, in_one_window(model, golden))


@pytest.fixture
def golden() -> Golden:
    return MISTAKES.golden()


def same(golden: Golden) -> Answer:
    return Answer(golden.logits.copy(), golden.experts.copy(), golden.blocks.copy())


def test_comparison_takes_the_same_answer(golden: Golden) -> None:
    comparison = compare(golden, same(golden))
    assert (comparison.error, comparison.rows) == (0, len(golden.ids))
    assert comparison.fault(RANDOM_BOUND) is None


@pytest.mark.parametrize("wrong", [1e-3, np.nan, np.inf])
def test_comparison_sees_one_wrong_logit(golden: Golden, wrong: float) -> None:
    answer = same(golden)
    answer.logits[-1, -1] += wrong
    fault = compare(golden, answer).fault(RANDOM_BOUND)
    assert fault is not None
    assert "logits differ" in fault


@pytest.mark.parametrize(
    ("gap", "allowed"), [(NEAR_TIE * 2, False), (NEAR_TIE / 2, True), (0.0, False)]
)
@pytest.mark.parametrize("kind", ["experts", "blocks"])
def test_comparison_allows_a_flip_only_near_a_tie(
    golden: Golden, kind: str, gap: float, allowed: bool
) -> None:
    answer = same(golden)
    chosen, gaps, layer = (
        (answer.experts, golden.expert_gaps, 3)
        if kind == "experts"
        else (answer.blocks, golden.block_gaps, 0)
    )
    chosen[layer, 50, 0] += 1
    gaps[layer, 50] = gap
    answer.logits[50:] += 1.0  # what follows a flip is not compared
    comparison = compare(golden, answer)
    assert comparison.flip is not None
    assert (comparison.flip.kind, comparison.flip.layer) == (kind, 3)
    assert (comparison.rows, comparison.error) == (50, 0)
    assert (comparison.fault(RANDOM_BOUND) is None) == allowed


def test_comparison_refuses_every_block_past_the_budget(golden: Golden) -> None:
    layers = [
        LayerDecisions(expert_ids=golden.experts[layer], blocks=None)
        for layer in range(len(golden.experts))
    ]
    answer = collect([(golden.logits, layers)], golden, 4)
    flip = compare(golden, answer).flip
    assert flip is not None
    # The first row with more complete blocks than the four it may choose.
    assert (flip.kind, flip.layer, flip.row) == ("blocks", 3, 19)
