"""MoE-Spec: a window uses a budget of experts, those of the largest summed shares."""

import mlx.core as mx
import numpy as np
import pytest

from routed import ROWS, ids, logits_of, weights
from strata_nb.policies.moe_spec import MoeSpec
from strata_nb.policies.routing import NATURAL


def test_the_worked_example() -> None:
    """Sums 0.90, 0.85, 0.85, 0.55, 0.25, 0.60: three are 0 to 2, the fourth is 5."""
    rows = logits_of(ROWS)
    assert ids(NATURAL, rows, top_k=2) == [[0, 1], [2, 0], [1, 3], [5, 2]]
    wanted = [[0, 1], [2, 0], [1, 0], [2, 1]]
    assert ids(MoeSpec(3), rows, top_k=2) == wanted
    wanted = [[0, 1], [2, 0], [1, -1], [2, -1]]
    assert ids(MoeSpec(3, "truncate"), rows, top_k=2) == wanted
    wanted = [[0, 1], [2, 0], [1, 0], [5, 2]]
    assert ids(MoeSpec(4), rows, top_k=2) == wanted
    wanted = [[0, 1], [2, 0], [1, -1], [5, 2]]
    assert ids(MoeSpec(4, "truncate"), rows, top_k=2) == wanted


def test_the_weights_of_the_worked_example() -> None:
    """Row 2 is 1 with 0.40 and 0 with 0.10; row 3 is 2 with 0.30 and 1 with 0.10."""
    rows = logits_of(ROWS)
    found = weights(MoeSpec(3), rows, top_k=2)
    np.testing.assert_allclose(found[2:], [[0.8, 0.2], [0.75, 0.25]], 1e-6)
    found = weights(MoeSpec(3, "truncate"), rows, top_k=2)
    np.testing.assert_allclose(found[2:], [[1, 0], [1, 0]], 1e-6)
    found = weights(MoeSpec(3, "truncate"), rows, top_k=2, renormalise=False)
    np.testing.assert_allclose(found[2:], [[0.40, 0], [0.30, 0]], 1e-6)


@pytest.mark.parametrize("how", ["substitute", "truncate"])
@pytest.mark.parametrize("budget", [4, 5, 9, 31])
def test_no_more_experts_than_the_budget(how: str, budget: int) -> None:
    for seed in range(5):
        logits = 5 * mx.random.normal((8, 32), key=mx.random.key(seed))
        routing = MoeSpec(budget, how)  # type: ignore[arg-type]
        union = {i for row in ids(routing, logits, top_k=4) for i in row} - {-1}
        assert len(union) <= budget


@pytest.mark.parametrize("how", ["substitute", "truncate"])
def test_with_all_experts_it_is_the_natural_choice(how: str) -> None:
    logits = mx.random.normal((8, 32), key=mx.random.key(3))
    natural = ids(NATURAL, logits, top_k=5)
    for budget in (32, 99):
        routing = MoeSpec(budget, how)  # type: ignore[arg-type]
        assert ids(routing, logits, top_k=5) == natural
    few = MoeSpec(6, how)  # type: ignore[arg-type]
    assert ids(few, logits, top_k=5) != natural
    assert ids(few, logits, top_k=5, headless=True) == natural
    assert ids(few, logits[:1], top_k=5) == natural[:1]


def test_it_does_not_look_at_residents() -> None:
    logits = mx.random.normal((8, 32), key=mx.random.key(4))
    found = [ids(MoeSpec(8), logits, top_k=4, resident=r) for r in ((), (3, 4), None)]
    assert found[0] == found[1] == found[2]


def test_a_row_may_lose_all() -> None:
    """Nobody's first choice is everybody's second: 2 has 0.70, the others 0.40."""
    rows = logits_of([(0.40, 1e-9, 0.35, 0.25), (1e-9, 0.40, 0.35, 0.25)])
    assert ids(MoeSpec(1, "truncate"), rows, top_k=1) == [[-1], [-1]]
    assert weights(MoeSpec(1, "truncate"), rows, top_k=1).tolist() == [[0], [0]]
    assert ids(MoeSpec(1), rows, top_k=1) == [[2], [2]]


def test_the_lowest_of_equals_wins() -> None:
    assert ids(MoeSpec(3), mx.zeros((2, 6)), top_k=2) == [[0, 1]] * 2
    # Rows want 5 and 4; of 0 to 3, equal in both, the budget's third is 0.
    rows = logits_of([(0.1, 0.1, 0.1, 0.1, 0.2, 0.4), (0.1, 0.1, 0.1, 0.1, 0.4, 0.2)])
    assert ids(MoeSpec(3), rows, top_k=3) == [[5, 4, 0], [4, 5, 0]]


@pytest.mark.parametrize("budget", [0, -1, True])
def test_a_budget_of_nothing_is_refused(budget: int) -> None:
    with pytest.raises(ValueError, match="wanted 1 or more experts"):
        MoeSpec(budget)


@pytest.mark.parametrize("headless", [False, True])
def test_a_budget_below_k_is_refused(headless: bool) -> None:
    with pytest.raises(ValueError, match="a row of this model uses 2 experts"):
        ids(MoeSpec(1), logits_of(ROWS), top_k=2, headless=headless)


def test_another_way_is_refused() -> None:
    with pytest.raises(ValueError, match="wanted 'substitute' or 'truncate'"):
        MoeSpec(3, "drop")  # type: ignore[arg-type]


def test_its_name_says_what_it_is() -> None:
    assert MoeSpec(8).name == "moe-spec(8, substitute), approximate"
    assert MoeSpec(8, "truncate").name == "moe-spec(8, truncate), approximate"
    assert not MoeSpec(8).lossless
