"""The slots of a whole model: what an engine may ask, and what it is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slot_fakes import (
    LAYOUT,
    Later,
    Memory,
    Source,
    assert_holds,
    inside,
    settled,
    until,
    waiting,
)
from strata_nb.experts.budget import slots_per_layer
from strata_nb.experts.groups import groups
from strata_nb.experts.pool import SlotPool
from strata_nb.experts.slots import Counts, Layer
from strata_nb.policies.residency import LeastStale, Lru


@pytest.fixture
def source() -> Source:
    return Source(layers=2)


@pytest.fixture
def memory() -> Memory:
    return Memory(2, 4)


@pytest.fixture
def pool(source: Source, memory: Memory) -> Iterator[SlotPool]:
    with SlotPool(source, slots=4, memory=memory) as pool:
        yield pool
        source.held.set()


def test_experts_are_in_their_slots_when_take_returns(
    pool: SlotPool, memory: Memory
) -> None:
    taken = pool.take(1, [5, 9, 2])
    assert_holds(memory, taken)
    assert (taken.layer, taken.hits, taken.late) == (1, (), ())
    assert taken.misses == (5, 9, 2)
    assert list(taken.slots) == [5, 9, 2]
    assert pool.snapshot() == (frozenset(), frozenset({2, 5, 9}))
    assert pool.counts(1) == Counts(free=1, in_flight=0, ready=3, pinned=3)
    pool.release(taken)
    pool.release(taken)
    assert pool.counts(1).pinned == 0
    assert pool.take(1, [9, 5]).hits == (9, 5)


def test_nothing_wanted_is_nothing_taken(pool: SlotPool) -> None:
    assert pool.take(0, []).slots == {}


def test_one_read_serves_all_who_want_it(pool: SlotPool, source: Source) -> None:
    source.held.clear()
    calls = [Later(lambda: pool.take(0, [3])) for _ in range(4)]
    source.began(1)
    until(lambda: waiting(pool) == 4)
    source.held.set()
    takens = [call.result() for call in calls]
    assert source.order == [(0, 3)]
    assert sorted(len(taken.misses) for taken in takens) == [0, 0, 0, 1]
    assert sum(len(taken.late) for taken in takens) == 3
    for left, taken in reversed(list(enumerate(takens))):
        assert pool.counts(0).pinned == 1
        pool.release(taken)
        assert pool.counts(0).pinned == (1 if left else 0)


def test_no_victim_is_pinned_or_being_read(pool: SlotPool, source: Source) -> None:
    """Two are pinned, two are on their way: a fifth expert waits for one of these."""
    pinned = pool.take(0, [1, 2])
    source.began(2)
    source.held.clear()
    pool.hint(0, [3, 4])
    source.began(2)
    fifth = Later(lambda: pool.take(0, [5]))
    until(lambda: inside(pool).groups.keys() - {pinned.ticket})
    assert not fifth.done
    assert inside(pool).slots.keys() == {1, 2, 3, 4}
    assert len(source.order) == 4
    source.held.set()
    taken = fifth.result()
    assert not set(taken.slots.values()) & set(pinned.slots.values())
    assert pool.resident(0) >= {1, 2, 5}
    assert source.collisions == 0


def test_a_budget_of_no_prefetch_reads_nothing(memory: Memory, source: Source) -> None:
    with SlotPool(source, slots=4, memory=memory, prefetch=0) as pool:
        before = inside(pool)
        pool.hint(0, [1, 2, 3])
        assert inside(pool) is before
        pool.take(0, [7])
    assert source.order == [(0, 7)]


def test_a_prefetch_budget_counts_what_is_on_its_way(
    memory: Memory, source: Source
) -> None:
    source.held.clear()
    with SlotPool(source, slots=4, memory=memory, prefetch=2, threads=1) as pool:
        pool.hint(0, [1])
        source.began(1)
        pool.hint(1, [2, 3])
        assert (pool.counts(0).in_flight, pool.counts(1).in_flight) == (1, 1)
        pool.hint(0, [4])
        assert pool.counts(0).in_flight == 1
        # Once somebody waits for it, it is no prefetch any more.
        waits = Later(lambda: pool.take(0, [1]))
        until(lambda: waiting(pool))
        pool.hint(0, [5, 6])
        assert pool.counts(0).in_flight == 2
        source.held.set()
        waits.result()
        settled(pool)
        total = pool.counters.total
        assert total.bytes_prefetched == 3 * LAYOUT.record_bytes
        assert {expert for _, expert in source.order} == {1, 2, 5}


def test_a_hint_for_a_layer_after_the_last_is_refused(pool: SlotPool) -> None:
    with pytest.raises(ValueError, match="`layer` is 2, wanted 0 to 1"):
        pool.hint(2, [1])


def test_a_hint_is_a_hit_when_it_is_wanted(pool: SlotPool, source: Source) -> None:
    pool.hint(0, [1, 2, 3])
    settled(pool)
    assert pool.resident(0) == {1, 2, 3}
    pool.release(pool.take(0, [1, 2]))
    pool.release(pool.take(0, [4, 5, 6]))
    total = pool.counters.total
    assert (total.hits, total.misses, total.late) == (2, 3, 0)
    assert (total.prefetched, total.wasted, total.evicted) == (3, 1, 2)
    assert total.bytes_read == 6 * LAYOUT.record_bytes
    assert total.bytes_prefetched == 3 * LAYOUT.record_bytes


def test_counters_are_of_each_layer_and_can_be_subtracted(pool: SlotPool) -> None:
    pool.release(pool.take(0, [1, 2]))
    before = pool.counters
    pool.release(pool.take(1, [1, 2, 3]))
    since = pool.counters - before
    assert [layer.misses for layer in since.layers] == [0, 3]
    assert since.total.wait_seconds == since.layers[1].wait_seconds > 0
    assert since.total.bytes_read == 3 * LAYOUT.record_bytes


def test_a_lowered_cap_is_not_passed_again_and_changes_nothing_else() -> None:
    source, memory = Source(experts=32), Memory(1, 8)
    with SlotPool(source, slots=8, memory=memory) as pool:
        held = []
        for window in range(100):
            if window == 40:
                pool.resize(4)
            wanted = [(window * 5 + n * 3) % 32 for n in range(6)]
            for group in groups(wanted, pool.slots, pool.resident(0)):
                pool.hint(0, [(expert + 1) % 32 for expert in group])
                taken = pool.take(0, group)
                assert_holds(memory, taken)
                held.append(pool.held_bytes // LAYOUT.record_bytes)
                if window >= 40:
                    assert held[-1] <= 4
                    assert set(taken.slots.values()) <= set(range(4))
                pool.release(taken)
        assert max(held) == 8
        pool.resize(6)
        pool.take(0, range(6))
        assert pool.held_bytes == 6 * LAYOUT.record_bytes


def test_a_cap_below_what_is_pinned_settles_as_pins_go(
    pool: SlotPool, memory: Memory
) -> None:
    taken = pool.take(0, [1, 2, 3, 4])
    pool.resize(2)
    waits = Later(lambda: pool.take(0, [5]))
    until(lambda: waiting(pool))
    assert pool.counts(0) == Counts(free=0, in_flight=0, ready=4, pinned=4)
    assert_holds(memory, taken)
    pool.release(taken)
    assert_holds(memory, waits.result())
    assert pool.held_bytes <= 2 * LAYOUT.record_bytes


def test_slots_come_from_a_number_or_a_budget(source: Source) -> None:
    record = LAYOUT.record_bytes
    assert slots_per_layer(source, slots=3) == 3
    assert slots_per_layer(source, slots=99) == source.experts
    assert slots_per_layer(source, budget_bytes=2 * record) == 1
    assert slots_per_layer(source, budget_bytes=12 * record - 1) == 5
    message = r"`budget_bytes` is 255.*each of the 2 layers of nowhere takes 256 bytes"
    with pytest.raises(ValueError, match=message):
        slots_per_layer(source, budget_bytes=2 * record - 1)
    with pytest.raises(ValueError, match="`slots` is 0, wanted 1 or more"):
        slots_per_layer(source, slots=0)
    for both in ({}, {"slots": 1, "budget_bytes": 9999}):
        with pytest.raises(
            ValueError, match="wanted one of `slots` and `budget_bytes`"
        ):
            slots_per_layer(source, **both)


def test_a_budget_is_never_passed(source: Source, memory: Memory) -> None:
    budget = 7 * LAYOUT.record_bytes
    with SlotPool(source, budget_bytes=budget, memory=memory) as pool:
        assert pool.slots == 3
        for expert in range(0, 12, 3):
            for layer in (0, 1):
                pool.hint(layer, [15, 14, 13])
                pool.release(pool.take(layer, [expert, expert + 1, expert + 2]))
                assert pool.held_bytes <= budget


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.take(2, [1]), "`layer` is 2, wanted 0 to 1"),
        (lambda p: p.take(0, [16]), "layer 0 has experts 0 to 15, got 16"),
        (lambda p: p.take(0, [1, 1]), r"`wanted` names an expert twice: \[1, 1\]"),
        (lambda p: p.take(0, [1, 2, 3, 4, 5]), "5 experts are wanted together"),
        (lambda p: p.hint(0, [-1]), "got -1"),
        (lambda p: p.resident(-1), "`layer` is -1"),
        (lambda p: p.resize(0), "`slots` is 0, wanted 1 or more"),
        (lambda p: p.resize(5), "`slots` is 5, but there is memory for 4"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    pool: SlotPool, call: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        call(pool)
    assert pool.counts(0) == Counts(free=4, in_flight=0, ready=0, pinned=0)
    assert not waiting(pool)


@pytest.mark.parametrize("name", ["threads", "prefetch"])
def test_a_pool_refuses_numbers_out_of_range(
    source: Source, memory: Memory, name: str
) -> None:
    options: dict[str, Any] = {name: -1}
    with pytest.raises(ValueError, match=f"`{name}` is -1"):
        SlotPool(source, slots=1, memory=memory, **options)


def test_a_window_begun_is_what_least_stale_knows() -> None:
    source, memory = Source(), Memory(1, 3)
    with SlotPool(source, slots=3, memory=memory, residency=LeastStale()) as pool:
        for wanted in ([1, 2], [3]):
            pool.begin_window()
            pool.release(pool.take(0, wanted))
        pool.release(pool.take(0, [1]))
        # 1 came first but belongs to this window; 2 is stale.
        pool.release(pool.take(0, [4]))
        assert pool.resident(0) == {1, 3, 4}


@settings(deadline=None)
@given(
    wanted=st.sets(st.integers(0, 30), max_size=20).flatmap(
        lambda experts: st.permutations(sorted(experts))
    ),
    slots=st.integers(1, 8),
    held=st.sets(st.integers(0, 30), max_size=8),
)
def test_groups_are_a_partition_that_fits_and_uses_residents_before_they_go(
    wanted: list[int], slots: int, held: set[int]
) -> None:
    resident = sorted(held)[:slots]
    split = groups(wanted, slots, resident)
    assert sorted(e for group in split for e in group) == sorted(wanted)
    assert all(1 <= len(group) <= slots for group in split)
    assert len(split) == -(-len(wanted) // slots)
    # Play it: whatever else is thrown out, a resident is used while it is one.
    layer = Layer(slots, Lru())
    for ticket, experts in enumerate([resident, *split], start=1):
        layer.want(ticket, experts, thread=0, window=0)
        group = layer.groups[ticket]
        if ticket > 1:
            assert set(group.hits) == {e for e in experts if e in resident}
        for ask in layer.urgent:
            layer.start(ask.expert)
            layer.land(ask.expert, 1)
        assert layer.answer(ticket) == "ready"
        layer.release(ticket)


def test_groups_refuse_what_they_cannot_split() -> None:
    with pytest.raises(ValueError, match="`slots` is 0"):
        groups([1], 0, ())
    with pytest.raises(ValueError, match="twice"):
        groups([1, 1], 4, ())
