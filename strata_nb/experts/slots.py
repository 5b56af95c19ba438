"""Which expert has which slot of a layer, and who needs it: no threads, no memory.

A slot is free, or it belongs to one expert, whose read is queued, under way or done.
All that happens to a layer is one of the verbs below; each leaves the layer settled:
whoever waits has been given every slot that could be had.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from strata_nb.errors import SlotPoolError
from strata_nb.experts.counters import TALLIED, LayerCounters
from strata_nb.policies.residency import Held, Residency

State: TypeAlias = Literal["queued", "reading", "ready"]
Answer: TypeAlias = Literal["wait", "ready", "failed", "stuck"]


class Slot(NamedTuple):
    """A slot that belongs to an expert; in flight as long as it is not ready."""

    number: int
    state: State
    hinted: bool
    """Its read was asked for ahead of need."""
    used: bool
    """Somebody has wanted the expert since it has this slot."""
    arrived: int
    touched: int
    window: int
    tries: int = 0

    @property
    def ahead(self) -> bool:
        """In flight, and nobody has asked for it yet."""
        return self.state != "ready" and not self.used


class Want(NamedTuple):
    """Experts that one thread wants together, and still stands in line for."""

    experts: tuple[int, ...]
    thread: int


class Group(NamedTuple):
    """Experts that are pinned until their group was evaluated; as found when wanted."""

    experts: tuple[int, ...]
    members: frozenset[int]
    thread: int
    hits: tuple[int, ...]
    misses: tuple[int, ...]
    late: tuple[int, ...]


class Ask(NamedTuple):
    """A queued read; asks of lower order were made earlier, in whatever layer."""

    order: int
    expert: int


class Counts(NamedTuple):
    """Slots of a layer by what they are; the pinned ones are in flight or ready too."""

    free: int
    in_flight: int
    ready: int
    pinned: int


class Layer:
    """The slots of one layer.

    Args:
        slots: how many there are.
        residency: says what an expert is worth when a slot is needed.
        number: of the layer, 0-based.
    """

    def __init__(self, slots: int, residency: Residency, *, number: int = 0) -> None:
        self.cap = slots
        self.residency = residency
        self.number = number
        self.slots: dict[int, Slot] = {}  # by expert
        self.groups: dict[int, Group] = {}  # by ticket
        self.line: dict[int, Want] = {}  # by ticket, first come first served
        self.errors: dict[int, Exception] = {}  # by ticket
        self.urgent: tuple[Ask, ...] = ()
        self.ahead: tuple[Ask, ...] = ()
        self.uses: Mapping[int, int] = {}  # by expert; replaced, never changed
        self.shrunk = False  # there may be something in slots past the cap
        self.clock = 0
        self.window = 0
        self.tally = dict.fromkeys(TALLIED, 0)

    def copy(self) -> "Layer":
        """Another one with the same in it; a change of one is none of the other."""
        other = object.__new__(Layer)
        other.__dict__ = self.__dict__ | {
            "slots": self.slots.copy(),
            "groups": self.groups.copy(),
            "line": self.line.copy(),
            "errors": self.errors.copy(),
            "tally": self.tally.copy(),
        }
        return other

    def want(
        self, ticket: int, experts: Sequence[int], *, thread: int, window: int
    ) -> None:
        """Get in line for `experts`: pinned, then read, when those before have slots.

        Raises:
            ValueError: more experts than slots.
        """
        if len(experts) > self.cap:
            raise ValueError(_too_many(len(experts), self.cap))
        self.window = window
        self.line[ticket] = Want(tuple(experts), thread)
        self._settle()

    def hint(
        self, order: int, experts: Sequence[int], *, most: int, window: int
    ) -> None:
        """Queue reads of up to `most` of `experts`, the first ones, as slots allow."""
        self.window = window
        self.clock += 1
        self._touch(experts, used=False)
        new = [e for e in dict.fromkeys(experts) if e not in self.slots][:most]
        # None of the experts that were named makes room for another of them.
        room = self._room(len(new), spared=set(experts))
        for expert, number in zip(new, room, strict=False):
            self._own(expert, number, hinted=True)
            self.ahead += (Ask(order, expert),)

    def start(self, expert: int) -> int:
        """The queued read of `expert` begins; the number of its slot."""
        slot = self.slots[expert]
        assert slot.state == "queued"
        self._unqueue((expert,))
        self.slots[expert] = slot._replace(state="reading")
        return slot.number

    def land(self, expert: int, nbytes: int) -> None:
        """The read of `expert` is done."""
        slot = self.slots[expert]
        assert slot.state == "reading"
        self.slots[expert] = slot._replace(state="ready")
        self.tally["bytes_read"] += nbytes
        self.tally["prefetched"] += slot.hinted
        self.tally["bytes_prefetched"] += nbytes * slot.hinted
        self._settle()

    def fail(self, expert: int, error: Exception) -> None:
        """The read failed: once more if somebody waits, else the slot is free."""
        slot = self.slots[expert]
        assert slot.state == "reading"
        self.tally["failures"] += 1
        waiting = [
            ticket
            for ticket, group in self.groups.items()
            if expert in group.experts and ticket not in self.errors
        ]
        if waiting and slot.tries == 0:
            self.slots[expert] = slot._replace(state="queued", tries=1)
            self.urgent += (Ask(waiting[0], expert),)
        else:
            del self.slots[expert]
            self.errors.update(dict.fromkeys(waiting, error))
        self._settle()

    def release(self, ticket: int) -> None:
        """Nobody needs the experts of `ticket`: evaluated, failed or given up.

        Reads that have not begun and that nobody else wants are taken back.
        """
        self.line.pop(ticket, None)
        self.errors.pop(ticket, None)
        group = self.groups.pop(ticket, None)
        if group is not None:
            unwanted = {
                expert
                for expert in set(group.experts) - self.pinned()
                if expert in self.slots
                and self.slots[expert].state == "queued"
                and all(expert not in want.experts for want in self.line.values())
            }
            self._unqueue(unwanted)
            for expert in unwanted:
                del self.slots[expert]
        self._settle()

    def resize(self, slots: int) -> None:
        """Use the first `slots` slots alone; the others empty as their pins go."""
        self.cap = slots
        self.shrunk = True
        waiting = {ticket: want.experts for ticket, want in self.line.items()}
        lacking = self._lacking()
        if lacking is not None:
            waiting[lacking] = self.groups[lacking].experts
        for ticket, experts in waiting.items():
            if len(experts) > slots:
                self.errors[ticket] = SlotPoolError(_too_many(len(experts), slots))
        self._settle()

    def knows(self, ticket: int) -> bool:
        """Whether `ticket` is in line or has its group."""
        return ticket in self.line or ticket in self.groups

    def answer(self, ticket: int) -> Answer:
        """What whoever holds `ticket` is to do; "stuck": only it could go on."""
        if ticket in self.errors:
            return "failed"
        group = self.groups.get(ticket)
        if group is not None and all(
            expert in self.slots and self.slots[expert].state == "ready"
            for expert in group.experts
        ):
            return "ready"
        thread = self.line[ticket].thread if group is None else group.thread
        # What is in flight was asked for last.
        newest = reversed(self.slots.values())
        if any(slot.state != "ready" for slot in newest):
            return "wait"
        lacking = self._lacking()
        full = [g for other, g in self.groups.items() if other != lacking]
        return "stuck" if all(g.thread == thread for g in full) else "wait"

    def resident(self) -> frozenset[int]:
        """Experts that are ready in a slot."""
        return frozenset(e for e, slot in self.slots.items() if slot.state == "ready")

    def pinned(self, *, but: int | None = None) -> set[int]:
        """Experts that somebody waits for or computes with, `but` for one ticket."""
        groups = (g.members for ticket, g in self.groups.items() if ticket != but)
        return set().union(*groups)

    def numbers(self, experts: Sequence[int]) -> Mapping[int, int]:
        """The slots of `experts`."""
        return {expert: self.slots[expert].number for expert in experts}

    @property
    def counters(self) -> LayerCounters:
        """What happened, but for the time it took."""
        return LayerCounters(**self.tally)

    def counts(self) -> Counts:
        """Slots by what they are."""
        ready = len(self.resident())
        return Counts(
            free=max(0, self.cap - len(self.slots)),
            in_flight=len(self.slots) - ready,
            ready=ready,
            pinned=len(self.pinned() & self.slots.keys()),
        )

    def _settle(self) -> None:
        """Empty slots past the cap, and serve the line as far as slots go."""
        if self.shrunk:
            self._empty_past_cap()
        # One group at a time may have some of its slots and wait for others: two of
        # them could wait for each other for ever.
        while (lacking := self._lacking()) is None or self._fill(lacking):
            served = next((t for t in self.line if t not in self.errors), None)
            if served is None:
                return
            self._admit(served)

    def _empty_past_cap(self) -> None:
        pinned = self.pinned()
        past = {e: slot for e, slot in self.slots.items() if slot.number >= self.cap}
        for expert, slot in past.items():
            if slot.state == "ready" and expert not in pinned:
                self._evict(expert)
        self.shrunk = not past.keys().isdisjoint(self.slots)

    def _lacking(self) -> int | None:
        """The ticket of the group some of whose experts have no slot yet."""
        for ticket, group in self.groups.items():
            if not self.slots.keys() >= group.members and ticket not in self.errors:
                return ticket
        return None

    def _admit(self, ticket: int) -> None:
        """Pin all that is wanted before a slot is looked for, and count it."""
        experts, thread = self.line.pop(ticket)
        owned = [expert for expert in experts if expert in self.slots]
        hits = tuple(e for e in owned if self.slots[e].state == "ready")
        late = tuple(e for e in owned if self.slots[e].state != "ready")
        misses = tuple(e for e in experts if e not in self.slots)
        members = frozenset(experts)
        self.groups[ticket] = Group(experts, members, thread, hits, misses, late)
        early = {ask.expert for ask in self.ahead} & set(late)
        self._unqueue(early)
        self.urgent += tuple(Ask(ticket, expert) for expert in late if expert in early)
        self.clock += 1
        self._touch(owned, used=True)
        self.uses = {**self.uses, **{e: self.uses.get(e, 0) + 1 for e in experts}}
        self.tally["hits"] += len(hits)
        self.tally["misses"] += len(misses)
        self.tally["late"] += len(late)

    def _fill(self, ticket: int) -> bool:
        """Give slots to what a group lacks; whether there are enough."""
        lacks = [e for e in self.groups[ticket].experts if e not in self.slots]
        room = self._room(len(lacks))
        for expert, number in zip(lacks, room, strict=False):
            self._own(expert, number, hinted=False)
            self.urgent += (Ask(ticket, expert),)
        return len(room) == len(lacks)

    def _room(self, count: int, *, spared: Collection[int] = ()) -> list[int]:
        """Numbers of up to `count` free slots, after throwing out what is worth least.

        Only what is ready, unpinned and not spared can be thrown out.
        """
        kept = self.pinned().union(spared)
        victims = sorted(
            (self.residency.worth(self._held(expert), window=self.window), expert)
            for expert, slot in self.slots.items()
            if slot.state == "ready" and expert not in kept
        )
        # Slots past the cap that are still pinned count too, so that it is not passed.
        free = self.cap - len(self.slots)
        count = min(count, free + len(victims))
        if count <= 0:
            return []
        for _, expert in victims[: max(0, count - free)]:
            self._evict(expert)
        taken = {slot.number for slot in self.slots.values()}
        return [n for n in range(self.cap) if n not in taken][:count]

    def _held(self, expert: int) -> Held:
        slot = self.slots[expert]
        uses = self.uses.get(expert, 0)
        return Held(expert, slot.arrived, slot.touched, uses, slot.window, self.number)

    def _own(self, expert: int, number: int, *, hinted: bool) -> None:
        now = self.clock
        self.slots[expert] = Slot(
            number, "queued", hinted, not hinted, now, now, self.window
        )

    def _touch(self, experts: Sequence[int], *, used: bool) -> None:
        for expert in experts:
            if expert in self.slots:
                slot = self.slots[expert]
                self.slots[expert] = slot._replace(
                    touched=self.clock, window=self.window, used=used or slot.used
                )

    def _unqueue(self, experts: Collection[int]) -> None:
        if not experts:
            return
        self.urgent = tuple(ask for ask in self.urgent if ask.expert not in experts)
        self.ahead = tuple(ask for ask in self.ahead if ask.expert not in experts)

    def _evict(self, expert: int) -> None:
        slot = self.slots.pop(expert)
        self.tally["evicted"] += 1
        self.tally["wasted"] += slot.hinted and not slot.used


def _too_many(wanted: int, slots: int) -> str:
    return (
        f"{wanted} experts are wanted together, but the layer has {slots} slots; take "
        "them in the groups that `strata_nb.experts.groups` gives"
    )
