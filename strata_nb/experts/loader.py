"""Threads that read experts into slots; the one lock of all slots is here."""

import itertools
import operator
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy.typing as npt

from strata_nb.errors import ExpertReadError
from strata_nb.experts.slots import Layer
from strata_nb.experts.source import ExpertSource
from strata_nb.experts.throttle import Throttle

T = TypeVar("T")
Bell: TypeAlias = SimpleQueue[None]


class SlotMemory(Protocol):
    """The memory that experts are read into."""

    def views(self, layer: int, slot: int) -> Sequence[npt.NDArray[Any]]:
        """Writable arrays of one slot, one for each field of the record, in order."""


class Job(NamedTuple):
    """One read."""

    layer: int
    expert: int
    slot: int


class Waiter(NamedTuple):
    """Somebody who waits for a layer."""

    layer: int
    bell: Bell
    curious: bool
    """Wants to look at every change, not at the end of its wait alone."""


class Loader:
    """Reads what is queued in any layer, what somebody waits for before all else.

    A layer is never changed in place: a change is made on a copy, and one assignment
    puts it where the other was. So an interrupt, which may come between any two lines,
    finds a layer before a change or after it.

    Args:
        source: where experts come from.
        memory: where they go.
        layers: their slots.
        threads: reads at once.
        throttle: the speed of a slower disk.
    """

    def __init__(
        self,
        source: ExpertSource,
        memory: SlotMemory,
        layers: Sequence[Layer],
        *,
        threads: int,
        throttle: Throttle | None,
    ) -> None:
        self.source = source
        self.memory = memory
        self.layers = list(layers)
        self.throttle = throttle
        # Re-entrant: a pool that is collected while its own thread holds the lock stops
        # the threads from there. Taken itself, not through a condition, whose methods
        # are Python and can be interrupted between taking and holding it.
        self.lock = threading.RLock()
        self.closed = False
        self.error: BaseException | None = None
        self.waiting: dict[int, Waiter] = {}  # by ticket
        self._work = threading.Condition(self.lock)
        self._stop = threading.Event()
        self._reading: set[Job] = set()
        names = (f"strata-expert-{number}" for number in itertools.count())
        self._threads = [
            # A pool that nobody closes must not keep the interpreter from ending.
            threading.Thread(target=self._run, name=next(names), daemon=True)
            for _ in range(threads)
        ]
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:
            self.stop()
            raise

    def change(self, layer: int, change: Callable[[Layer], T]) -> T:
        """Apply `change` to a layer, then tell whom it concerns."""
        with self.lock:
            draft = self.layers[layer].copy()
            result = change(draft)
            try:
                self.layers[layer] = draft
            finally:
                self._tell(layer)
            return result

    def ahead(self) -> int:
        """Reads in flight that nobody has asked for yet."""
        with self.lock:
            return sum(len(layer.ahead) for layer in self.layers) + sum(
                self.layers[job.layer].slots[job.expert].ahead for job in self._reading
            )

    def ring(self) -> None:
        """Have everybody who waits look again, threads that read included."""
        with self.lock:
            self._work.notify_all()
            for waiter in self.waiting.values():
                waiter.bell.put(None)

    def stop(self) -> None:
        """No read begins any more; reads under way come to their end."""
        with self.lock:
            self.closed = True
            self._stop.set()
            self.ring()

    def join(self) -> None:
        """Wait for the threads to end."""
        for thread in self._threads:
            thread.join()

    def _tell(self, layer: int) -> None:
        """Wake threads that can read, and those whose wait is over."""
        now = self.layers[layer]
        if queued := len(now.urgent) + len(now.ahead):
            self._work.notify(queued)
        for ticket, waiter in list(self.waiting.items()):
            if waiter.layer != layer:
                continue
            if not now.knows(ticket):
                # An interrupt came before it could take itself off.
                del self.waiting[ticket]
            elif waiter.curious or now.answer(ticket) != "wait":
                waiter.bell.put(None)

    def _run(self) -> None:
        """One thread: read after read until the loader is stopped."""
        try:
            while (job := self._begin()) is not None:
                self._done(job, self._read(job))
        except BaseException as error:
            # A residency of the user's own may raise when a slot is needed here.
            self.error = error
            self.stop()

    def _begin(self) -> Job | None:
        """Wait for a read to do; None when the loader is stopped."""
        with self.lock:
            while not self.closed:
                if (job := self._next()) is not None:
                    self._reading.add(job)
                    return job
                self._work.wait()
            return None

    def _next(self) -> Job | None:
        """The queued read to do first, begun."""
        layers = list(enumerate(self.layers))
        heads = [(layer.urgent[0], n) for n, layer in layers if layer.urgent] or [
            (layer.ahead[0], n) for n, layer in layers if layer.ahead
        ]
        if not heads:
            return None
        ask, number = min(heads)
        slot = self.change(number, partial(Layer.start, expert=ask.expert))
        return Job(number, ask.expert, slot)

    def _read(self, job: Job) -> int | ExpertReadError:
        """Bytes read, as late as the imitated disk would have been done; or why not."""
        due = None
        if self.throttle is not None:
            due = self.throttle.due(self.source.layout.record_bytes)
        try:
            views = self.memory.views(job.layer, job.slot)
            nbytes = operator.index(self.source.read(job.layer, job.expert, views))
            if nbytes < 0:
                raise ValueError(f"`read` answered {nbytes} bytes, wanted 0 or more")
            return nbytes
        except ExpertReadError as error:
            return error
        # Whatever it was, somebody waits, and must hear of it instead of waiting on.
        except BaseException as error:
            wrapped = ExpertReadError(
                f"{self.source.name}: layer {job.layer}, expert {job.expert}: "
                f"{type(error).__name__}: {error}; see the error that led to this one"
            )
            wrapped.__cause__ = error
            return wrapped
        finally:
            if self.throttle is not None and due is not None:
                self._stop.wait(self.throttle.left(due))

    def _done(self, job: Job, outcome: int | ExpertReadError) -> None:
        with self.lock:
            self._reading.remove(job)
            if isinstance(outcome, ExpertReadError):
                change = partial(Layer.fail, expert=job.expert, error=outcome)
            else:
                change = partial(Layer.land, expert=job.expert, nbytes=outcome)
            self.change(job.layer, change)
