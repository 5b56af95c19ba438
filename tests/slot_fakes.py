"""Experts that are nowhere, and a disk under the test's control."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from strata_nb.errors import ExpertReadError
from strata_nb.experts.pool import SlotPool, Taken
from strata_nb.experts.record import Field, RecordLayout
from strata_nb.experts.slots import Layer
from strata_nb.experts.source import Target

WAIT = 120.0
"""Seconds after which a test says that something hangs."""

LAYOUT = RecordLayout(
    "float32",
    0,
    (Field("gate_up", "float32", (2, 8), 0), Field("down", "float32", (4, 2), 64)),
    128,
)


def content(layer: int, expert: int) -> float:
    """What every number of an expert is."""
    return 1000.0 * layer + expert + 1


class Memory:
    """Slots as NumPy arrays; a test sees who writes where at the same time."""

    def __init__(
        self, layers: int, slots: int, *, layout: RecordLayout = LAYOUT
    ) -> None:
        self._arrays = [
            [
                [np.full(f.shape, np.nan, f.dtype) for f in layout.fields]
                for _ in range(slots)
            ]
            for _ in range(layers)
        ]

    def views(self, layer: int, slot: int) -> Sequence[npt.NDArray[Any]]:
        return self._arrays[layer][slot]


class Source:
    """Fills a slot with its expert's number, when and if the test lets it.

    Attributes:
        order: experts in the order in which their reads began.
        held: reads wait while it is clear.
        fault: called at each read; may raise.
    """

    name = "nowhere"

    def __init__(
        self,
        *,
        layers: int = 1,
        experts: int = 16,
        layout: RecordLayout = LAYOUT,
        fault: Callable[[int, int], None] | None = None,
    ) -> None:
        self.layers, self.experts, self.layout = layers, experts, layout
        self.fault = fault
        self.order: list[tuple[int, int]] = []
        self.held = threading.Event()
        self.held.set()
        self._began = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._writing: set[int] = set()
        self.collisions = 0

    def read(self, layer: int, expert: int, into: Sequence[Target]) -> int:
        with self._lock:
            self.order.append((layer, expert))
            self.collisions += id(into) in self._writing
            self._writing.add(id(into))
        self._began.release()
        try:
            assert self.held.wait(WAIT), "nobody let the read go on"
            if self.fault is not None:
                self.fault(layer, expert)
            for target in into:
                np.asarray(target)[...] = content(layer, expert)
        finally:
            with self._lock:
                self._writing.discard(id(into))
        return self.layout.record_bytes

    def began(self, count: int) -> None:
        """Wait until `count` more reads have begun."""
        for _ in range(count):
            assert self._began.acquire(timeout=WAIT), "a read does not begin"


def broken(layer: int, expert: int) -> None:
    """A fault: this read fails."""
    raise ExpertReadError(f"nowhere: layer {layer}, expert {expert}: unreadable")


class Later:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._box: list[Any] = []
        self._error: list[BaseException] = []

        def run() -> None:
            try:
                self._box.append(call())
            except BaseException as error:
                self._error.append(error)

        self._thread = threading.Thread(target=run)
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def result(self, *, within: float = WAIT) -> Any:
        """What the call returned or raised."""
        self._thread.join(within)
        assert self.done, "the call hangs"
        if self._error:
            raise self._error[0]
        return self._box[0]


def assert_holds(memory: Memory, taken: Taken) -> None:
    """Every expert is in its slot, whole."""
    for expert, slot in taken.slots.items():
        for array in memory.views(taken.layer, slot):
            assert (array == content(taken.layer, expert)).all(), (expert, slot)


def settled(pool: SlotPool) -> None:
    """Wait until nothing is in flight: what is read for nobody too."""
    until(lambda: not any(map(in_flight(pool), range(pool.source.layers))))


def in_flight(pool: SlotPool) -> Callable[[int], int]:
    """How many slots of a layer are in flight."""
    return lambda layer: pool.counts(layer).in_flight


def waiting(pool: SlotPool) -> int:
    """How many threads are inside `take`."""
    return len(pool._loader.waiting)


def inside(pool: SlotPool, *, layer: int = 0) -> Layer:
    """The bookkeeping of a layer as it is now."""
    return pool._loader.layers[layer]


def until(true: Callable[[], Any]) -> None:
    """Wait for what no event tells."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < WAIT, "it does not happen"
        time.sleep(0.001)
