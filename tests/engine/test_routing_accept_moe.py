"""AcceptMoE: chances, demand, a set as wide as the demand, and what is pruned."""

import math

import mlx.core as mx
import numpy as np
import pytest

from routed import ROWS, ids, logits_of
from strata_nb.policies.accept_moe import (
    AcceptMoe,
    committed_shares,
    demand_of,
    effective_rank,
    eligible,
    importance,
    pruned,
)
from strata_nb.policies.choosing import mask_of
from strata_nb.policies.routing import NATURAL
from strata_nb.trace import WindowRecord

NATURAL_IDS = np.array([[0, 1], [2, 0], [1, 3], [5, 2]])


def set_of(mask: np.ndarray) -> list[int]:
    return [int(i) for i in np.flatnonzero(mask)]


def members(*experts: int, of: int = 6) -> np.ndarray:
    return np.isin(np.arange(of), experts)


def test_the_worked_example() -> None:
    """A tree with two rows at position 1, number for number."""
    alpha = importance((0, 1, 1, 2), (1, 0.64, 0.25), beta=0.5)
    np.testing.assert_allclose(alpha, [1, 0.5657, 0.5657, 0.5], atol=5e-5)
    natural = mask_of(NATURAL_IDS, experts=6)
    demand = demand_of(np.array(ROWS), natural, alpha)
    wanted = [0.598, 0.5263, 0.3763, 0.1697, 0, 0.225]
    np.testing.assert_allclose(demand, wanted, atol=5e-5)
    displaced = natural.sum(axis=0)
    assert displaced.tolist() == [2, 2, 2, 1, 0, 1]
    rest = np.where(members(0, 1), 0, demand)
    q = rest[2:] / rest.sum()
    np.testing.assert_allclose(q, [0.488, 0.220, 0, 0.292], atol=5e-4)
    there = q[q > 0]
    assert math.exp(-(there * np.log(there)).sum()) == pytest.approx(2.837, abs=5e-4)
    assert effective_rank(rest) == 3
    found = eligible(demand, members(0, 1))
    assert set_of(found) == [0, 1, 2, 3, 5]
    # Nothing is displaced yet, so nothing may be pruned.
    kept = members(0, 1)
    assert set_of(pruned(found, demand, displaced, kept=kept, top_k=2)) == set_of(found)


@pytest.mark.parametrize(
    ("budget", "wanted"), [(3, [0, 1]), (2, [0, 1, 2]), (0, [0, 1, 2, 3])]
)
def test_the_worked_example_of_pruning(budget: int, wanted: list[int]) -> None:
    """Demand 0.3 and 0.2, displacing 2 and 1: three allow both, two the last alone."""
    demand = np.array([0.9, 0.7, 0.3, 0.2, 0.0])
    displaced = np.array([5, 4, 2, 1, budget])
    found = pruned(
        members(0, 1, 2, 3, of=5),
        demand,
        displaced,
        kept=members(0, 1, of=5),
        top_k=2,
    )
    assert set_of(found) == wanted


def test_pruning_is_a_prefix() -> None:
    """v = 1, 2, 4 and a budget of 3: two go; then what would fit behind 4 does not."""
    demand = np.array([0.1, 0.2, 0.3, 0.4, 9, 0])
    for behind in (4, 0):
        displaced = np.array([1, 2, 4, behind, 9, 3])
        found = pruned(
            members(0, 1, 2, 3, 4), demand, displaced, kept=members(4), top_k=1
        )
        assert set_of(found) == [2, 3, 4]


def test_pruning_leaves_k_and_of_equals_the_lowest() -> None:
    demand, displaced = np.full(6, 0.5), np.array([1, 1, 1, 1, 1, 9])
    allowed, none = members(0, 1, 2, 3, 4), np.zeros(6, bool)
    found = pruned(allowed, demand, displaced, kept=none, top_k=3)
    assert set_of(found) == [0, 1, 2]


def test_importance_by_hand() -> None:
    found = importance((0, 1, 2), (1, 0.8, 0.2), beta=0.5)
    np.testing.assert_allclose(found, [1, 0.894, 0.447], atol=5e-4)
    assert importance((0, 1), (1, 0.3), beta=0).tolist() == [1, 1]
    assert importance((0, 1), (1, 0.0), beta=0.5).tolist() == [1, 0]


def test_the_effective_rank_by_hand() -> None:
    """exp(0.325) = 1.384; of m equals it is m, which rounding must not make m + 1."""
    assert effective_rank(np.array([0.9, 0.1])) == 2
    for count in range(1, 65):
        assert effective_rank(np.full(count, 0.3)) == count
        assert effective_rank(np.append(np.full(count, 1 / 7), [0.0, 0.0])) == count
    assert effective_rank(np.zeros(4)) == 0


def test_a_chain_from_logits_to_experts() -> None:
    """By hand, phat 1, 0.64, 0.25, 0.25: alpha 1, 0.8, 0.5, 0.5 on positions 0 to 3.

    u = .40 + .28, .30 + .20, .32 + .15, .15, 0, .225; the rest .47, .15, .225 is 2.68
    wide, so three join the anchors and only 4 stays out, which nobody wants.
    """
    phat = (1, 0.64, 0.25, 0.25)
    rows = logits_of(ROWS)
    assert ids(AcceptMoe(phat), rows, top_k=2) == NATURAL_IDS.tolist()
    # No chance of the last two rows: only 2 has demand, rows 2 and 3 choose again.
    found = ids(AcceptMoe((1, 0.64, 0, 0)), rows, top_k=2)
    assert found == [[0, 1], [2, 0], [1, 0], [2, 1]]
    # Nobody but the root counts: its anchors are all there is.
    found = ids(AcceptMoe((1, 0, 0, 0)), rows, top_k=2)
    assert found == [[0, 1], [0, 1], [1, 0], [1, 0]]


def test_cold_experts_of_little_demand_are_pruned() -> None:
    """The set is 0, 1, 2 and displaces 3 and 5: a budget of 2, and 2 displaces 2."""
    rows, some = logits_of(ROWS), AcceptMoe((1, 0.64, 0, 0))
    root_only = [[0, 1], [0, 1], [1, 0], [1, 0]]
    assert ids(some, rows, top_k=2, resident=(0, 1)) == root_only
    assert ids(some, rows, top_k=2, resident=()) == root_only
    with_two = [[0, 1], [2, 0], [1, 0], [2, 1]]
    assert ids(some, rows, top_k=2, resident=(2,)) == with_two


def test_anchors_may_be_pruned_where_that_is_allowed() -> None:
    """Beside the cold anchors 0 and 1, of demand 0.51 and 0.49, stands the ready 2."""
    rows = logits_of([(0.51, 0.49, 1e-9, 1e-9)] + [(1e-9, 1e-9, 0.6, 0.4)] * 2)
    bare = AcceptMoe((1, 0.5, 0.5), protect_anchors=False)
    safe = AcceptMoe((1, 0.5, 0.5))
    assert ids(safe, rows, top_k=2, resident=(2, 3)) == [[0, 1], [2, 3], [2, 3]]
    # Set 0 to 3 displaces nothing, so all stay, protected or not.
    assert ids(bare, rows, top_k=2, resident=(2, 3)) == [[0, 1], [2, 3], [2, 3]]
    few = AcceptMoe((1, 0.5, 0, 0), protect_anchors=False)
    found = ids(few, logits_of(ROWS), top_k=2, resident=(2,))
    # 1 (0.30) goes before 0; it displaces two, as many as the set has displaced.
    assert found == [[0, 2], [2, 0], [0, 2], [2, 0]]


def test_elsewhere_it_is_the_natural_choice() -> None:
    logits = mx.random.normal((8, 32), key=mx.random.key(3))
    natural = ids(NATURAL, logits, top_k=5)
    some = AcceptMoe((1, 0.5, 0.2, 0.1, 0, 0, 0, 0))
    assert ids(some, logits, top_k=5, resident=(1,), headless=True) == natural
    assert ids(some, logits[:1], top_k=5, resident=(1,)) == natural[:1]
    found = ids(some, logits, top_k=5)
    assert found != natural
    assert found[0] == natural[0]
    assert len(set(np.ravel(found))) < len(set(np.ravel(natural)))


def test_the_lowest_of_equals_wins() -> None:
    flat = mx.zeros((3, 8))
    assert ids(AcceptMoe((1, 1, 1)), flat, top_k=2) == [[0, 1]] * 3
    # Three join, 3 and two of the equals 2, 4, 5.
    skewed = np.array([0, 0, 0.1, 0.5, 0.1, 0.1])
    assert effective_rank(skewed) == 3
    assert set_of(eligible(skewed, members(0, 1))) == [0, 1, 2, 3, 4]


def record(offered: int, accepted: int, **more: object) -> WindowRecord:
    rows = (1,) * (offered + 1)
    return WindowRecord(
        position=0,
        inputs=rows,
        keep=accepted + 1,
        predictions=rows,
        offered=offered,
        accepted=accepted,
        **more,  # type: ignore[arg-type]
    )


def test_chances_are_measured_from_a_trace() -> None:
    trace = [
        record(3, 3),
        record(3, 1),
        record(2, 0),
        record(1, 1),
        record(0, 0),
        record(3, 3, forced=True),
        WindowRecord(position=0, inputs=(1, 2), keep=2, headless=True),
    ]
    assert committed_shares(trace) == (1, 3 / 4, 1 / 3, 1 / 2)
    assert AcceptMoe(committed_shares(trace)).phat == (1, 3 / 4, 1 / 3, 1 / 2)
    with pytest.raises(ValueError, match="no window of the trace offered a draft"):
        committed_shares(trace[4:])


@pytest.mark.parametrize("phat", [(), (0.9, 0.5), (1, 1.1), (1, -0.1), (1, math.nan)])
def test_chances_are_checked(phat: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="wanted chances from 0 to 1"):
        AcceptMoe(phat)


@pytest.mark.parametrize("beta", [-0.1, math.inf, math.nan])
def test_beta_is_checked(beta: float) -> None:
    with pytest.raises(ValueError, match="wanted a finite number from 0 on"):
        AcceptMoe((1,), beta=beta)


def test_anchors_are_protected_or_not() -> None:
    with pytest.raises(TypeError, match="must be True or False, got 1"):
        AcceptMoe((1,), protect_anchors=1)  # type: ignore[arg-type]


def test_a_position_of_which_nothing_is_known_is_refused() -> None:
    with pytest.raises(ValueError, match="4 rows, but `phat` ends with position 2"):
        ids(AcceptMoe((1, 0.5, 0.5)), logits_of(ROWS), top_k=2)


def test_its_name_says_what_it_is() -> None:
    assert AcceptMoe((1, 0.64)).name == "acceptmoe(beta 0.5; 1, 0.64), approximate"
    bare = AcceptMoe([1], beta=1, protect_anchors=False)  # type: ignore[arg-type]
    assert bare.name == "acceptmoe(beta 1; 1; anchors may go), approximate"
    assert hash(bare) == hash(AcceptMoe((1.0,), beta=1, protect_anchors=False))
    assert not bare.lossless
