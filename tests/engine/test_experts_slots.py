"""The bookkeeping of slots, without threads: every rule."""

import pytest

from strata_nb.errors import ExpertReadError, SlotPoolError
from strata_nb.experts.slots import Ask, Counts, Layer, Slot
from strata_nb.policies.residency import Lru, Residency

ME, OTHER = 1, 2


def layer_of(slots: int, *, residency: Residency | None = None) -> Layer:
    return Layer(slots, Lru() if residency is None else residency)


def want(layer: Layer, ticket: int, *experts: int, thread: int = ME) -> None:
    layer.want(ticket, experts, thread=thread, window=0)


def hint(layer: Layer, *experts: int, most: int = 99) -> None:
    layer.hint(1000, experts, most=most, window=0)


def read(layer: Layer, *experts: int) -> None:
    for expert in experts:
        layer.start(expert)
        layer.land(expert, 10)


def fail(layer: Layer, expert: int) -> None:
    layer.start(expert)
    layer.fail(expert, ExpertReadError("unreadable"))


def test_a_miss_is_queued_then_read_then_ready() -> None:
    layer = layer_of(3)
    want(layer, 1, 5, 6)
    assert layer.counts() == Counts(free=1, in_flight=2, ready=0, pinned=2)
    assert layer.urgent == (Ask(1, 5), Ask(1, 6))
    assert layer.answer(1) == "wait"
    read(layer, 5, 6)
    assert layer.answer(1) == "ready"
    assert layer.numbers([6, 5]) == {6: 1, 5: 0}
    layer.release(1)
    assert layer.counts() == Counts(free=1, in_flight=0, ready=2, pinned=0)
    assert layer.resident() == {5, 6}


def test_what_is_wanted_is_pinned_before_a_victim_is_chosen() -> None:
    """The oldest of two residents would be the victim; but it is wanted too."""
    layer = layer_of(2)
    for ticket, expert in enumerate([1, 2]):
        want(layer, ticket, expert)
        read(layer, expert)
        layer.release(ticket)
    want(layer, 9, 3, 1)
    assert layer.slots.keys() == {1, 3}
    assert layer.groups[9].hits == (1,)


def test_slots_in_flight_that_are_wanted_are_pinned_too() -> None:
    layer = layer_of(2)
    hint(layer, 1, 2)
    want(layer, 1, 2, 3)
    # 1 is in flight for nobody: it is waited for, not taken.
    assert layer.slots.keys() == {1, 2}
    read(layer, 2, 1)
    assert layer.slots.keys() == {2, 3}
    assert layer.groups[1].late == (2,)
    assert layer.counters.wasted == 1


def test_a_hint_that_is_wanted_before_it_landed_is_late_and_urgent() -> None:
    layer = layer_of(3)
    hint(layer, 7, 8)
    want(layer, 1, 8, 9)
    assert layer.urgent == (Ask(1, 8), Ask(1, 9))
    assert layer.ahead == (Ask(1000, 7),)
    assert (layer.groups[1].late, layer.groups[1].misses) == ((8,), (9,))
    read(layer, 8, 9, 7)
    counters = layer.counters
    assert (counters.hits, counters.misses, counters.late) == (0, 1, 1)
    assert (counters.prefetched, counters.bytes_prefetched) == (2, 20)
    assert counters.bytes_read == 30


def test_a_hint_never_takes_what_is_pinned_or_in_flight() -> None:
    layer = layer_of(3)
    want(layer, 1, 1)
    read(layer, 1)
    hint(layer, 2, 3)
    hint(layer, 4)
    assert layer.slots.keys() == {1, 2, 3}
    read(layer, 2)
    hint(layer, 4)
    assert layer.slots.keys() == {1, 3, 4}


def test_the_strongest_hints_come_first_and_make_no_room_for_each_other() -> None:
    layer = layer_of(3)
    hint(layer, 1, 2, 3, 4)
    assert layer.slots.keys() == {1, 2, 3}
    read(layer, 1, 2, 3)
    hint(layer, 9, 1, 2, 3)
    assert layer.slots.keys() == {1, 2, 3}
    hint(layer, 9, 8, 1, most=1)
    assert layer.slots.keys() == {1, 3, 9}


@pytest.mark.parametrize("most", [0, 1, 2])
def test_no_more_hints_than_allowed(most: int) -> None:
    layer = layer_of(4)
    hint(layer, 1, 1, 2, 3, most=most)
    assert len(layer.slots) == most


def test_one_group_at_a_time_waits_for_slots_and_the_next_stays_in_line() -> None:
    """Two that each had half would wait for each other for ever."""
    layer = layer_of(4)
    want(layer, 1, 1, 2)
    want(layer, 2, 3, 4, 5, thread=OTHER)
    want(layer, 3, 6, 7)
    read(layer, 1, 2, 3, 4)
    assert (layer.answer(1), layer.answer(2)) == ("ready", "wait")
    assert layer.line.keys() == {3}
    layer.release(1)
    read(layer, 5)
    assert layer.answer(2) == "ready"
    assert layer.groups.keys() == {2, 3}
    # Of the four slots group 2 has three; 3 waits for it.
    assert layer.slots.keys() == {3, 4, 5, 6}
    layer.release(2)
    read(layer, 6, 7)
    assert layer.answer(3) == "ready"


def test_first_come_first_served() -> None:
    layer = layer_of(2)
    want(layer, 1, 1, 2)
    for ticket, expert in [(2, 3), (4, 4), (3, 5)]:
        want(layer, ticket, expert, thread=OTHER)
    assert list(layer.line) == [4, 3]
    read(layer, 1, 2)
    layer.release(1)
    assert layer.slots.keys() == {3, 4}
    assert layer.groups.keys() == {2, 4, 3}
    # Both slots are in flight: the last of them waits.
    assert layer.answer(3) == "wait"
    read(layer, 3)
    layer.release(2)
    assert layer.slots.keys() == {4, 5}


def test_a_thread_that_waits_for_itself_is_stuck_and_another_is_not() -> None:
    layer = layer_of(2)
    want(layer, 1, 1, 2, thread=ME)
    want(layer, 2, 3, thread=ME)
    want(layer, 3, 4, thread=OTHER)
    assert layer.answer(2) == "wait"
    read(layer, 1, 2)
    assert layer.answer(2) == "stuck"
    assert layer.answer(3) == "wait"
    layer.release(2)
    layer.release(1)
    read(layer, 4)
    assert layer.answer(3) == "ready"


def test_nobody_is_stuck_while_another_has_yet_to_hear_of_its_failure() -> None:
    layer = layer_of(3)
    want(layer, 1, 1, thread=ME)
    want(layer, 2, 2, 3, thread=OTHER)
    read(layer, 1, 2)
    fail(layer, 3)
    fail(layer, 3)
    want(layer, 3, 4, 5, thread=ME)
    read(layer, 4)
    assert layer.answer(3) == "wait"
    layer.release(2)
    read(layer, 5)
    assert layer.answer(3) == "ready"


def test_a_failed_read_is_tried_once_more_in_its_slot() -> None:
    layer = layer_of(1)
    want(layer, 1, 5)
    fail(layer, 5)
    assert layer.answer(1) == "wait"
    read(layer, 5)
    assert layer.answer(1) == "ready"
    assert layer.counters.failures == 1


def test_a_read_that_failed_twice_gives_its_slot_back() -> None:
    layer = layer_of(2)
    want(layer, 1, 5, 6)
    want(layer, 2, 5, thread=OTHER)
    fail(layer, 5)
    fail(layer, 5)
    assert layer.counts() == Counts(free=1, in_flight=1, ready=0, pinned=1)
    assert (layer.answer(1), layer.answer(2)) == ("failed", "failed")
    layer.release(1)
    layer.release(2)
    assert layer.counts() == Counts(free=2, in_flight=0, ready=0, pinned=0)
    want(layer, 3, 5)
    read(layer, 5)
    assert layer.answer(3) == "ready"


def test_a_failed_hint_is_dropped() -> None:
    layer = layer_of(1)
    hint(layer, 5)
    fail(layer, 5)
    assert layer.counts() == Counts(free=1, in_flight=0, ready=0, pinned=0)


def test_giving_up_takes_back_what_was_not_begun() -> None:
    layer = layer_of(4)
    want(layer, 1, 1, 2, 3)
    layer.start(1)
    want(layer, 2, 3, thread=OTHER)
    layer.release(1)
    # 1 is being read, 3 is wanted by somebody else.
    assert layer.slots.keys() == {1, 3}
    assert [ask.expert for ask in layer.urgent] == [3]
    layer.land(1, 10)
    assert layer.counts() == Counts(free=2, in_flight=1, ready=1, pinned=1)


def test_leaving_the_line_leaves_nothing() -> None:
    layer = layer_of(1)
    want(layer, 1, 1)
    want(layer, 2, 2, thread=OTHER)
    layer.release(2)
    assert not layer.knows(2)
    read(layer, 1)
    layer.release(1)
    assert layer.slots.keys() == {1}


def test_a_lowered_cap_settles_as_pins_go_and_is_not_passed_again() -> None:
    layer = layer_of(4)
    want(layer, 1, 1, 2, 3)
    hint(layer, 4)
    read(layer, 1, 2, 3)
    layer.resize(2)
    assert layer.slots.keys() == {1, 2, 3, 4}
    want(layer, 2, 5, 6, thread=OTHER)
    layer.start(4)
    layer.land(4, 10)
    # What landed past the cap for nobody goes; what is pinned stays.
    assert layer.slots.keys() == {1, 2, 3}
    assert layer.counters.wasted == 1
    layer.release(1)
    assert layer.slots.keys() == {5, 6}
    assert layer.numbers([5, 6]) == {5: 0, 6: 1}


def test_pinned_slots_past_the_cap_count_even_when_others_are_free() -> None:
    layer = layer_of(4)
    hint(layer, 1, 2)
    want(layer, 1, 3, 4)
    read(layer, 3, 4)
    fail(layer, 1)
    fail(layer, 2)
    assert layer.numbers([3, 4]) == {3: 2, 4: 3}
    layer.resize(2)
    want(layer, 2, 5, thread=OTHER)
    hint(layer, 6)
    assert layer.slots.keys() == {3, 4}
    layer.release(1)
    assert layer.slots.keys() == {5}


def test_whoever_waits_for_more_than_the_new_cap_is_told() -> None:
    layer = layer_of(4)
    want(layer, 1, 1, 2)
    want(layer, 2, 3, 4, 5, thread=OTHER)
    want(layer, 3, 6, 7, 8, thread=OTHER)
    layer.resize(2)
    assert layer.answer(1) == "wait"
    assert (layer.answer(2), layer.answer(3)) == ("failed", "failed")
    assert isinstance(layer.errors[2], SlotPoolError)
    for ticket in (2, 3):
        layer.release(ticket)
    read(layer, 1, 2)
    assert layer.answer(1) == "ready"


def test_more_than_the_slots_is_refused_before_anything_changes() -> None:
    layer = layer_of(2)
    with pytest.raises(
        ValueError, match=r"3 experts are wanted .* has 2 slots.*groups"
    ):
        want(layer, 1, 1, 2, 3)
    assert not layer.knows(1)


def test_a_copy_is_another_one() -> None:
    layer = layer_of(2)
    want(layer, 1, 1)
    other = layer.copy()
    read(other, 1)
    want(other, 2, 2)
    other.resize(1)
    assert layer.counts() == Counts(free=1, in_flight=1, ready=0, pinned=1)
    assert layer.urgent == (Ask(1, 1),)
    assert layer.counters.bytes_read == 0
    assert layer.cap == 2


def test_a_slot_in_flight_for_nobody_is_ahead() -> None:
    slot = Slot(0, "reading", True, False, 0, 0, 0)
    assert slot.ahead
    assert not slot._replace(used=True).ahead
    assert not slot._replace(state="ready").ahead
