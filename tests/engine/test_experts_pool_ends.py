"""How waiting for experts ends: failures, cancels, interrupts, and who is told."""

import contextlib
import linecache
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import Any

import pytest

from slot_fakes import (
    WAIT,
    Later,
    Memory,
    Source,
    assert_holds,
    broken,
    inside,
    settled,
    waiting,
)
from strata_nb.errors import ExpertReadError, SlotPoolError, TakeCancelledError
from strata_nb.experts.pool import SlotPool
from strata_nb.experts.slots import Counts


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


def test_failed_loads_leave_all_slots_usable() -> None:
    """Every third read fails, once; sixty experts through four slots."""
    count = 0
    lock = threading.Lock()

    def third(layer: int, expert: int) -> None:
        nonlocal count
        with lock:
            count += 1
            bad = count % 3 == 0
        if bad:
            broken(layer, expert)

    source, memory = Source(experts=64, fault=third), Memory(1, 4)
    with SlotPool(source, slots=4, memory=memory) as pool:
        for first in range(0, 60, 2):
            taken = pool.take(0, [first, first + 1])
            assert_holds(memory, taken)
            pool.release(taken)
        assert pool.counts(0) == Counts(free=0, in_flight=0, ready=4, pinned=0)
        assert pool.counters.total.failures == len(source.order) // 3
        source.fault = None
        assert_holds(memory, pool.take(0, [60, 61, 62, 63]))


def test_after_a_failure_nothing_stays_pinned(pool: SlotPool, source: Source) -> None:
    def seven(layer: int, expert: int) -> None:
        if expert == 7:
            broken(layer, expert)

    source.fault = seven
    with pytest.raises(ExpertReadError, match="expert 7"):
        pool.take(0, [1, 7, 2])
    settled(pool)
    counts = pool.counts(0)
    assert (counts.pinned, counts.in_flight) == (0, 0)
    source.fault = None
    assert pool.take(0, [3, 4, 5, 7]).slots.keys() == {3, 4, 5, 7}


def test_a_thread_that_waits_for_its_own_slots_is_told(pool: SlotPool) -> None:
    pool.take(0, [1, 2, 3])
    with pytest.raises(SlotPoolError, match=r"3 of 4 are pinned .* `release` them"):
        pool.take(0, [4, 5])
    assert pool.counts(0).pinned == 3
    pool.release_all()
    assert pool.counts(0).pinned == 0
    pool.take(0, [4, 5])


def test_two_threads_wait_for_each_other_in_turn(
    pool: SlotPool, memory: Memory
) -> None:
    """Each wants more than half of the slots, again and again."""

    def windows(first: int) -> None:
        for n in range(50):
            taken = pool.take(0, [(first + n + e) % 16 for e in range(3)])
            assert_holds(memory, taken)
            pool.release(taken)

    for call in [Later(partial(windows, first)) for first in (0, 5, 11)]:
        call.result()
    assert pool.counts(0).pinned == 0


def test_cancel_is_heard_when_somebody_wakes_the_wait(
    pool: SlotPool, source: Source
) -> None:
    source.held.clear()
    stop = threading.Event()
    waits = Later(lambda: pool.take(0, [1, 2], cancel=stop.is_set))
    source.began(2)
    stop.set()
    pool.wake()
    with pytest.raises(TakeCancelledError, match="layer 0 was cancelled"):
        waits.result()
    # The reads under way keep their slots until they are done.
    assert pool.counts(0) == Counts(free=2, in_flight=2, ready=0, pinned=0)
    source.held.set()
    settled(pool)
    assert pool.take(0, [3, 4, 5, 6]).misses == (3, 4, 5, 6)


def test_cancel_is_asked_before_waiting_and_whenever_a_read_ends(
    memory: Memory, source: Source
) -> None:
    allowed = threading.Semaphore(0)
    source.fault = lambda layer, expert: void(allowed.acquire(timeout=WAIT))
    asked = 0

    def third_time() -> bool:
        nonlocal asked
        asked += 1
        allowed.release()
        return asked == 3

    with SlotPool(source, slots=4, memory=memory, threads=1) as pool:
        with pytest.raises(TakeCancelledError):
            pool.take(0, [1, 2, 3, 4], cancel=third_time)
        settled(pool)
        counts = pool.counts(0)
        assert (counts.pinned, counts.in_flight) == (0, 0)
        # What had not begun was taken back.
        assert 1 <= counts.ready < 4
        assert pool.counters.total.wait_seconds > 0


def void(_: object) -> None:
    """An answer that nobody needs."""


class Interrupt:
    """Raises a KeyboardInterrupt at the n-th line run in the files of the slots.

    Not at a `with` or `try`: Python comes back to a `with` to leave it, enters a `try`
    by an instruction that no block protects, and looks for interrupts at neither.
    """

    def __init__(self, line: int) -> None:
        self.line = line
        self.seen: list[tuple[str, int]] = []

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        place = frame.f_code.co_filename, frame.f_lineno
        if "strata_nb/experts" not in place[0]:
            return None
        code = linecache.getline(*place).lstrip()
        if event == "line" and not code.startswith(("with ", "try:")):
            self.seen.append(place)
            if len(self.seen) == self.line:
                raise KeyboardInterrupt
        return self


def window(pool: SlotPool, trace: Interrupt) -> None:
    """A hint, a late one, misses, a hit, a victim; under `trace`."""
    sys.settrace(trace)
    try:
        pool.hint(0, [3])
        pool.release(pool.take(0, [1, 2]))
        pool.release(pool.take(0, [4, 5, 2]))
    finally:
        sys.settrace(None)


def test_an_interrupt_at_any_line_leaks_nothing() -> None:
    with SlotPool(Source(), slots=3, memory=Memory(1, 3), threads=1) as pool:
        whole = Interrupt(0)
        window(pool, whole)
    times: Counter[tuple[str, int]] = Counter()
    for number, place in enumerate(whole.seen, start=1):
        times[place] += 1
        # Lines of loops, and of what is called often: the first times do.
        if times[place] > 2:
            continue
        source, memory = Source(), Memory(1, 3)
        with SlotPool(source, slots=3, memory=memory, threads=1) as pool:
            # Other threads are as fast as they like: now and then it ends earlier.
            with contextlib.suppress(KeyboardInterrupt):
                window(pool, Interrupt(number))
            # What an engine does after an exception: an interrupt between the return
            # of `take` and an assignment leaves nothing to call `release` with.
            pool.release_all()
            settled(pool)
            assert pool.counts(0).pinned == 0, place
            assert not inside(pool).line, place
            call = Later(partial(pool.take, 0, [7, 8, 9]))
            assert_holds(memory, call.result())
            assert not waiting(pool), place
    assert len(times) > 100


def test_a_real_interrupt_ends_the_wait(pool: SlotPool, source: Source) -> None:
    main = threading.get_ident()

    def interrupt() -> None:
        source.began(2)
        # So that the wait has begun too, most of the time.
        time.sleep(0.05)
        signal.pthread_kill(main, signal.SIGINT)

    # A shell may have started this with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        source.held.clear()
        sends = Later(interrupt)
        with pytest.raises(KeyboardInterrupt):
            pool.take(0, [1, 2])
        sends.result()
    finally:
        signal.signal(signal.SIGINT, before)
    assert pool.counts(0) == Counts(free=2, in_flight=2, ready=0, pinned=0)
    assert not waiting(pool)
