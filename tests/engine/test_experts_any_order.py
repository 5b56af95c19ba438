"""The bookkeeping of slots, without threads: any events in any order."""

import itertools
from collections.abc import Callable
from dataclasses import replace

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from strata_nb.errors import ExpertReadError
from strata_nb.experts.slots import Layer
from strata_nb.policies.residency import LeastStale, Lfu, Lru, Residency

ME, OTHER = 1, 2
EXPERTS = st.integers(0, 9)
POLICIES = st.sampled_from([Lru(), Lfu(), LeastStale()])


class AnyOrder(RuleBasedStateMachine):
    """Any events in any order; what must hold is looked at between any two of them."""

    @initialize(slots=st.integers(1, 6), policy=POLICIES)
    def begin(self, slots: int, policy: Residency) -> None:
        self.layer = Layer(slots, policy)
        self.most = slots
        self.tickets = itertools.count(1)
        self.wanted: dict[int, int] = {}
        self.landed = self.failed = self.admitted = 0

    def event(self, change: Callable[[], None], *, may_go: frozenset[int]) -> None:
        """Apply `change`; of the slots, only what `may_go` and victims may go."""
        layer = self.layer
        before, wanted = dict(layer.slots), set(layer.groups)
        change()
        for expert, slot in before.items():
            now = layer.slots.get(expert)
            if expert in may_go or (now and now.number == slot.number):
                continue
            assert slot.state == "ready", "taken in flight"
            # A group that came out of the line just now may find a slot past the cap
            # emptied before.
            groups = [
                group
                for ticket, group in layer.groups.items()
                if ticket not in layer.errors
                and (ticket in wanted or slot.number < layer.cap)
            ]
            assert all(expert not in g.experts for g in groups), "taken while pinned"
        # Never past the cap; and where a cap was lowered, never more than before.
        assert len(layer.slots) <= max(layer.cap, len(before))
        new = [t for t in self.wanted if t in layer.groups and t not in wanted]
        self.admitted += sum(len(layer.groups[t].experts) for t in new)

    @rule(experts=st.sets(EXPERTS, max_size=6), thread=st.sampled_from([ME, OTHER]))
    def want(self, experts: set[int], thread: int) -> None:
        if len(experts) > self.layer.cap:
            return
        ticket = next(self.tickets)
        self.wanted[ticket] = len(experts)
        self.event(
            lambda: self.layer.want(ticket, sorted(experts), thread=thread, window=0),
            may_go=frozenset(),
        )

    @rule(experts=st.lists(EXPERTS, max_size=6), most=st.integers(0, 6))
    def hint(self, experts: list[int], most: int) -> None:
        ahead = len(self.layer.ahead)
        order = next(self.tickets)
        self.event(
            lambda: self.layer.hint(order, experts, most=most, window=1),
            may_go=frozenset(),
        )
        assert ahead <= len(self.layer.ahead) <= ahead + most

    @precondition(lambda self: self.layer.urgent or self.layer.ahead)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        ask = data.draw(st.sampled_from(self.layer.urgent or self.layer.ahead))
        self.event(lambda: void(self.layer.start(ask.expert)), may_go=frozenset())

    def reading(self) -> list[int]:
        return [e for e, slot in self.layer.slots.items() if slot.state == "reading"]

    @precondition(lambda self: self.reading())
    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        expert = data.draw(st.sampled_from(self.reading()))
        self.landed += 10
        # Past the cap and for nobody: it may go as it lands.
        self.event(lambda: self.layer.land(expert, 10), may_go=frozenset({expert}))

    @precondition(lambda self: self.reading())
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        expert = data.draw(st.sampled_from(self.reading()))
        error = ExpertReadError("unreadable")
        self.failed += 1
        self.event(lambda: self.layer.fail(expert, error), may_go=frozenset({expert}))

    @precondition(lambda self: self.layer.groups or self.layer.line)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from([*self.layer.groups, *self.layer.line]))
        group = self.layer.groups.get(ticket)
        mine = frozenset() if group is None else frozenset(group.experts)
        queued = {e for e, s in self.layer.slots.items() if s.state == "queued"}
        self.event(lambda: self.layer.release(ticket), may_go=mine & queued)
        assert not self.layer.knows(ticket)

    @rule(data=st.data())
    def resize(self, data: st.DataObject) -> None:
        slots = data.draw(st.integers(1, self.most))
        self.event(lambda: self.layer.resize(slots), may_go=frozenset())

    @invariant()
    def one_slot_one_owner(self) -> None:
        numbers = [slot.number for slot in self.layer.slots.values()]
        assert len(set(numbers)) == len(numbers)
        assert set(numbers) <= set(range(self.most))

    @invariant()
    def queues_are_the_queued_slots(self) -> None:
        layer = self.layer
        queued = [ask.expert for ask in layer.urgent + layer.ahead]
        assert sorted(queued) == sorted(
            e for e, slot in layer.slots.items() if slot.state == "queued"
        )
        assert all(not layer.slots[ask.expert].used for ask in layer.ahead)
        assert all(layer.slots[ask.expert].used for ask in layer.urgent)
        assert not {ask.expert for ask in layer.ahead} & layer.pinned()

    @invariant()
    def nothing_waits_that_could_go_on(self) -> None:
        """The line moves whenever it can; past the cap there is only what must be."""
        layer = self.layer
        pinned = layer.pinned()
        idle = {e for e in layer.resident() if e not in pinned}
        assert all(layer.slots[e].number < layer.cap for e in idle)
        lacking = [
            ticket
            for ticket, group in layer.groups.items()
            if ticket not in layer.errors and not layer.slots.keys() >= {*group.experts}
        ]
        assert len(lacking) <= 1
        if lacking:
            assert len(layer.slots) - len(idle) >= layer.cap
        elif layer.line:
            assert layer.errors.keys() >= layer.line.keys()

    @invariant()
    def the_counters_agree(self) -> None:
        counters = self.layer.counters
        assert counters.hits + counters.misses + counters.late == self.admitted
        assert counters.bytes_read == self.landed
        assert counters.bytes_prefetched == 10 * counters.prefetched
        assert counters.wasted <= min(counters.evicted, counters.prefetched)
        assert counters.failures == self.failed
        assert counters == replace(counters, wait_seconds=0.0)
        counts = self.layer.counts()
        held = counts.in_flight + counts.ready
        assert held == len(self.layer.slots)
        assert counts.free == max(0, self.layer.cap - held)

    def teardown(self) -> None:
        """If all reads come to an end and groups are released, nobody waits."""
        if not hasattr(self, "layer"):
            return
        layer = self.layer
        for _ in range(1000):
            if queued := layer.urgent + layer.ahead:
                layer.start(queued[0].expert)
            for expert in self.reading():
                layer.land(expert, 10)
            for ticket in [*layer.groups, *layer.line]:
                if layer.answer(ticket) in ("ready", "failed"):
                    layer.release(ticket)
            if not (layer.groups or layer.line or layer.urgent or layer.ahead):
                break
        assert not layer.groups
        assert not layer.line
        assert not layer.errors
        assert layer.counts().in_flight == layer.counts().pinned == 0
        assert len(layer.slots) <= layer.cap


def void(_: object) -> None:
    """An answer that nobody needs."""


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    # Making a failing story shorter takes minutes.
    phases=(Phase.explicit, Phase.generate),
)
