"""The slots of a whole model: what a layer asks for the experts its rows use."""

import itertools
import operator
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue

from strata_nb.errors import ExpertReadError, SlotPoolError, TakeCancelledError
from strata_nb.experts.budget import at_least, slots_per_layer
from strata_nb.experts.counters import Counters
from strata_nb.experts.loader import Bell, Loader, SlotMemory, Waiter
from strata_nb.experts.slots import Counts, Layer
from strata_nb.experts.source import ExpertSource
from strata_nb.experts.throttle import Throttle
from strata_nb.policies.residency import Lru, Residency

# Of all pools, so that no group of one is taken for another's.
_tickets = itertools.count(1)


@dataclass(frozen=True)
class Taken:
    """Experts that are resident and pinned until they are released.

    Attributes:
        layer: theirs.
        slots: the slot of each expert.
        hits: those that were resident when wanted.
        misses: those that were not, and had to be read.
        late: those that were on their way already.
        ticket: what the pool knows them by.
    """

    layer: int
    slots: Mapping[int, int]
    hits: tuple[int, ...]
    misses: tuple[int, ...]
    late: tuple[int, ...]
    ticket: int


class SlotPool:
    """Expert slots of one model, shared by all its engines, from any thread.

    A group that was taken is released when it was evaluated, before the next is taken;
    by the thread that took it, if nobody else is to wait for it for ever.

    Args:
        source: where experts come from.
        slots: of each layer; or
        budget_bytes: for all layers together, split evenly.
        memory: what experts are read into.
        residency: which expert gives its slot to another.
        threads: reads at once.
        throttle: the speed of a slower disk.
        prefetch: experts that may be on their way ahead of need, of all layers
            together; 0 for none, None for as many as slots allow.

    Raises:
        ValueError: a number out of range, or memory that does not fit the source.
    """

    def __init__(
        self,
        source: ExpertSource,
        *,
        memory: SlotMemory,
        slots: int | None = None,
        budget_bytes: int | None = None,
        residency: Residency | None = None,
        threads: int = 4,
        throttle: Throttle | None = None,
        prefetch: int | None = None,
    ) -> None:
        self.source = source
        self.residency = residency = Lru() if residency is None else residency
        self.capacity = slots_per_layer(source, slots=slots, budget_bytes=budget_bytes)
        at_least(1, threads=threads)
        if prefetch is not None:
            at_least(0, prefetch=prefetch)
        fields, got = len(source.layout.fields), len(memory.views(0, 0))
        if fields != got:
            raise ValueError(
                f"`memory` has {got} arrays a slot, but a record of {source.name} has "
                f"{fields} fields"
            )
        self.prefetch = prefetch
        self._window = 0
        self._waited = [0.0] * source.layers
        layers = [
            Layer(self.capacity, residency, number=number)
            for number in range(source.layers)
        ]
        self._loader = Loader(
            source, memory, layers, threads=threads, throttle=throttle
        )
        # Threads know the loader alone, so that a pool nobody holds is collected.
        self._finalizer = weakref.finalize(self, self._loader.stop)

    def take(
        self,
        layer: int,
        wanted: Sequence[int],
        *,
        cancel: Callable[[], bool] | None = None,
    ) -> Taken:
        """Wait until all of `wanted` are resident; they are pinned until `release`.

        Args:
            layer: 0-based.
            wanted: distinct experts of one group, at most as many as the layer's slots.
            cancel: asked before waiting, whenever a read of the layer ends, and when
                `wake` is called; True ends the wait.

        Raises:
            ExpertReadError: one could not be read, twice in a row.
            TakeCancelledError: `cancel` said so.
            SlotPoolError: the pool is closed, or this thread waits for slots that only
                its own unreleased groups could free.
            ValueError: no such layer or expert, one twice, or too many.
                After any of these, or an interrupt, nothing of `wanted` is pinned.
        """
        experts = self._numbers(layer, wanted)
        if len(set(experts)) < len(experts):
            raise ValueError(f"`wanted` names an expert twice: {list(wanted)}")
        ticket = next(_tickets)
        bell: Bell = SimpleQueue()
        try:
            with self._loader.lock:
                self._open()
                self._loader.waiting[ticket] = Waiter(layer, bell, cancel is not None)
                self._loader.change(
                    layer,
                    lambda now: now.want(
                        ticket,
                        experts,
                        thread=threading.get_ident(),
                        window=self._window,
                    ),
                )
            if not self._is_ready(layer, ticket):
                self._wait(layer, ticket, bell, cancel)
            with self._loader.lock:
                now = self._loader.layers[layer]
                group = now.groups[ticket]
                return Taken(
                    layer,
                    now.numbers(experts),
                    group.hits,
                    group.misses,
                    group.late,
                    ticket,
                )
        except BaseException:
            self._loader.change(layer, lambda now: now.release(ticket))
            raise
        finally:
            with self._loader.lock:
                self._loader.waiting.pop(ticket, None)

    def release(self, taken: Taken) -> None:
        """The group was evaluated; done twice, it is done."""
        self._loader.change(taken.layer, lambda now: now.release(taken.ticket))

    def release_all(self) -> None:
        """Release whatever the calling thread took: what to do after an interrupt.

        One that came where `take` returned leaves nothing to call `release` with; one
        that came after a change may have kept others from hearing of it.
        """
        me = threading.get_ident()
        for layer in range(self.source.layers):
            for ticket, group in list(self._loader.layers[layer].groups.items()):
                if group.thread == me:
                    self._loader.change(layer, partial(Layer.release, ticket=ticket))
        self._loader.ring()

    def hint(self, layer: int, experts: Sequence[int]) -> None:
        """Read `experts` ahead, the strongest first, as far as there is room; at once.

        Nothing that is pinned or in flight makes room, nor one hinted expert for
        another; what finds none is dropped.

        Raises:
            SlotPoolError: the pool is closed.
            ValueError: no such layer or expert.
        """
        named = self._numbers(layer, experts)
        with self._loader.lock:
            self._open()
            if self.prefetch == 0:
                return
            most = len(named)
            if self.prefetch is not None:
                most = max(0, self.prefetch - self._loader.ahead())
            self._loader.change(
                layer,
                lambda now: now.hint(
                    next(_tickets), named, most=most, window=self._window
                ),
            )

    def begin_window(self) -> None:
        """A new window begins: what it does not want is stale."""
        self._window += 1

    def wake(self) -> None:
        """Have every `take` that waits ask its `cancel` now."""
        self._loader.ring()

    def resident(self, layer: int) -> frozenset[int]:
        """Experts that are ready in a slot, not those in flight."""
        return self._loader.layers[self._layer(layer)].resident()

    def snapshot(self) -> tuple[frozenset[int], ...]:
        """`resident` of every layer, all at one moment."""
        with self._loader.lock:
            return tuple(layer.resident() for layer in self._loader.layers)

    def counts(self, layer: int) -> Counts:
        """How many slots of a layer are free, in flight, ready, and pinned."""
        return self._loader.layers[self._layer(layer)].counts()

    @property
    def slots(self) -> int:
        """Slots a layer may use."""
        return self._loader.layers[0].cap

    @property
    def held_bytes(self) -> int:
        """Bytes of all slots that belong to an expert, those in flight included."""
        with self._loader.lock:
            held = sum(len(layer.slots) for layer in self._loader.layers)
        return held * self.source.layout.record_bytes

    @property
    def counters(self) -> Counters:
        """What happened so far."""
        with self._loader.lock:
            return Counters(
                tuple(
                    replace(layer.counters, wait_seconds=waited)
                    for layer, waited in zip(
                        self._loader.layers, self._waited, strict=True
                    )
                )
            )

    def resize(self, slots: int) -> None:
        """Use the first `slots` slots of each layer; the others empty as pins go.

        Until then no layer grows, and afterwards it never has more. A take that waits
        for more experts than that is told so.

        Raises:
            SlotPoolError: the pool is closed.
            ValueError: below 1, or more slots than the pool was made with.
        """
        slots = at_least(1, slots=slots)
        if slots > self.capacity:
            raise ValueError(
                f"`slots` is {slots}, but there is memory for {self.capacity}; make a "
                "pool with more"
            )
        with self._loader.lock:
            self._open()
            for layer in range(self.source.layers):
                self._loader.change(layer, lambda now: now.resize(slots))

    def close(self) -> None:
        """End all threads; whoever waits is told. Counters can still be read."""
        self._loader.stop()
        self._loader.join()

    def __enter__(self) -> "SlotPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(
        self,
        layer: int,
        ticket: int,
        bell: Bell,
        cancel: Callable[[], bool] | None,
    ) -> None:
        began = time.perf_counter()
        try:
            while True:
                if cancel is not None and cancel():
                    raise TakeCancelledError(
                        f"waiting for experts of layer {layer} was cancelled; nothing "
                        "of them stays pinned"
                    )
                bell.get()
                if self._is_ready(layer, ticket):
                    return
        finally:
            self._waited[layer] += time.perf_counter() - began

    def _is_ready(self, layer: int, ticket: int) -> bool:
        """Whether the wait is over; raises when it would never be."""
        with self._loader.lock:
            self._open()
            now = self._loader.layers[layer]
            answer = now.answer(ticket)
            if answer == "failed":
                error = now.errors[ticket]
                # Several threads may wait for one read: each raises its own.
                kind = ExpertReadError if isinstance(error, ExpertReadError) else None
                raise (kind or SlotPoolError)(str(error)) from error
            if answer == "stuck":
                raise SlotPoolError(
                    f"layer {layer} has no slot left that anybody else could free: "
                    f"{len(now.pinned(but=ticket))} of {now.cap} are pinned by groups "
                    "that this thread took; `release` them before the next is taken"
                )
            return answer == "ready"

    def _open(self) -> None:
        if self._loader.closed:
            error = self._loader.error
            why = "" if error is None else f" after {type(error).__name__}: {error}"
            raise SlotPoolError(
                f"the slots of {self.source.name} are closed{why}; load the "
                "model again, or make a new pool"
            ) from error

    def _layer(self, layer: int) -> int:
        layer = operator.index(layer)
        if not 0 <= layer < self.source.layers:
            raise ValueError(
                f"`layer` is {layer}, wanted 0 to {self.source.layers - 1}"
            )
        return layer

    def _numbers(self, layer: int, experts: Sequence[int]) -> list[int]:
        self._layer(layer)
        numbers = [operator.index(expert) for expert in experts]
        for number in numbers:
            if not 0 <= number < self.source.experts:
                raise ValueError(
                    f"layer {layer} has experts 0 to {self.source.experts - 1}, got "
                    f"{number}"
                )
        return numbers
