"""Which expert gives its slot away: every order, and what happens on a tie."""

import pytest

from strata_nb.experts.slots import Layer
from strata_nb.policies.residency import Held, LeastStale, Lfu, Lru, Residency

POLICIES: list[Residency] = [Lru(), Lfu(), LeastStale()]


def held(
    expert: int, *, arrived: int = 0, touched: int = 0, uses: int = 0, window: int = 0
) -> Held:
    return Held(expert, arrived, touched, uses, window)


def order(policy: Residency, *experts: Held, window: int = 9) -> list[int]:
    """The experts in the order in which they would go."""
    ranked = sorted((policy.worth(e, window=window), e.expert) for e in experts)
    return [expert for _, expert in ranked]


def test_lru_looks_at_the_last_time_alone() -> None:
    a, b, c = held(1, touched=3, uses=1), held(2, touched=1, uses=9), held(3, touched=2)
    assert order(Lru(), a, b, c) == [2, 3, 1]


def test_lfu_looks_at_the_number_of_times_alone() -> None:
    a, b, c = held(1, touched=1, uses=3), held(2, touched=9, uses=1), held(3, uses=2)
    assert order(Lfu(), a, b, c) == [2, 3, 1]


def test_least_stale_gives_the_past_before_the_present_each_in_order_of_arrival() -> (
    None
):
    now = [held(1, arrived=1, window=9), held(2, arrived=0, window=9)]
    past = [held(3, arrived=8, window=8), held(4, arrived=5, window=2)]
    assert order(LeastStale(), *now, *past) == [4, 3, 2, 1]


def test_least_stale_is_not_lru() -> None:
    """What arrived first goes first, however recently it was wanted."""
    old = held(5, arrived=1, touched=7, window=8)
    new = held(6, arrived=2, touched=3, window=8)
    assert order(LeastStale(), old, new) == [5, 6]
    assert order(Lru(), old, new) == [6, 5]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_of_equals_the_lowest_expert_goes(policy: Residency) -> None:
    layer = Layer(3, policy)
    take(layer, 1, [7, 2, 5])
    assert layer.resident() == {2, 5, 7}
    take(layer, 2, [9])
    assert layer.resident() == {5, 7, 9}


@pytest.mark.parametrize(
    ("policy", "gone"),
    [(Lru(), 2), (Lfu(), 3), (LeastStale(), 1)],
    ids=lambda p: str(p),
)
def test_the_same_story_ends_differently(policy: Residency, gone: int) -> None:
    layer = Layer(3, policy)
    for ticket, wanted in enumerate([[1], [2], [2], [2], [3], [1], [1]]):
        take(layer, ticket, wanted, window=ticket)
    # 1 came first, 2 was wanted longest ago, 3 least often.
    take(layer, 99, [4], window=99)
    assert {1, 2, 3} - layer.resident() == {gone}


def test_a_hint_counts_as_fresh_and_is_no_use() -> None:
    layer = Layer(2, Lru())
    take(layer, 1, [1])
    layer.hint(2, [2], most=1, window=0)
    read_all(layer)
    layer.hint(3, [1], most=1, window=0)
    take(layer, 4, [3])
    assert layer.resident() == {1, 3}
    assert layer.uses == {1: 1, 3: 1}


def take(layer: Layer, ticket: int, wanted: list[int], *, window: int = 0) -> None:
    """Want, read and release, without a thread."""
    layer.want(ticket, wanted, thread=0, window=window)
    read_all(layer)
    assert layer.answer(ticket) == "ready"
    layer.release(ticket)


def read_all(layer: Layer) -> None:
    while queued := layer.urgent + layer.ahead:
        layer.start(queued[0].expert)
        layer.land(queued[0].expert, 1)
