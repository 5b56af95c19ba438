"""Threads that read experts: their order, their failures, their end, their speed."""

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from slot_fakes import (
    LAYOUT,
    WAIT,
    Later,
    Memory,
    Source,
    assert_holds,
    broken,
    settled,
    until,
    waiting,
)
from strata_nb.errors import ExpertReadError, SlotPoolError
from strata_nb.experts.pool import SlotPool
from strata_nb.experts.record import Field, RecordLayout
from strata_nb.experts.throttle import Throttle
from strata_nb.policies.residency import Held


@dataclass
class Clock:
    """Time that stands still."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


_BEFORE: set[threading.Thread] = set()
"""Threads that a test found: pools of other tests may not have been collected yet."""


def reading_threads() -> list[threading.Thread]:
    new = set(threading.enumerate()) - _BEFORE
    return [t for t in new if t.name.startswith("strata-expert")]


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    _BEFORE.clear()
    _BEFORE.update(threading.enumerate())
    yield
    for thread in reading_threads():
        thread.join(WAIT)
    assert reading_threads() == []


def test_a_line_is_shared_and_latencies_are_not() -> None:
    throttle = Throttle(1.0, latency_ms=100, slack_ms=0, clock=Clock())
    # Half a megabyte each: half a second each, one after the other; one latency.
    assert [throttle.due(500_000) for _ in range(3)] == pytest.approx([0.6, 1.1, 1.6])
    assert throttle.left(1.6) == pytest.approx(1.6)


def test_an_idle_line_saves_no_more_than_its_slack() -> None:
    clock = Clock()
    throttle = Throttle(1.0, slack_ms=100, clock=clock)
    clock.now = 50.0
    assert throttle.due(500_000) == pytest.approx(50.4)
    assert throttle.due(500_000) == pytest.approx(50.9)
    clock.now = 60.0
    assert throttle.due(1000) == pytest.approx(60.0)
    assert throttle.left(60.0) == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mb_per_s": 0}, "`mb_per_s` is 0, wanted more than 0"),
        ({"mb_per_s": float("nan")}, "`mb_per_s` is nan"),
        ({"mb_per_s": 1, "latency_ms": -1}, "`latency_ms` is -1, wanted 0 or more"),
        ({"mb_per_s": 1, "slack_ms": float("inf")}, "`slack_ms` is inf"),
    ],
)
def test_a_throttle_refuses_what_is_no_speed(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Throttle(**options)


BIG = RecordLayout("float32", 0, (Field("gate_up", "float32", (1 << 16,), 0),), 1 << 18)


class Waiting(Throttle):
    """Its clock goes on with what is waited for, and not with what the machine does."""

    def __init__(self, mb_per_s: float) -> None:
        self.time = Clock()
        super().__init__(mb_per_s, clock=self.time)

    def left(self, due: float) -> float:
        with self._lock:
            self.time.now = max(self.time.now, due)
        return 0.0


@pytest.mark.parametrize("threads", [1, 4])
def test_four_fifths_of_the_throttled_rate_are_reached(threads: int) -> None:
    throttle = Waiting(20.0)
    with SlotPool(
        Source(experts=40, layout=BIG),
        slots=40,
        memory=Memory(1, 40, layout=BIG),
        threads=threads,
        throttle=throttle,
    ) as pool:
        pool.take(0, range(40))
        rate = pool.counters.total.bytes_read / throttle.time.now / 1e6
    assert 0.8 * 20 <= rate <= 1.02 * 20


@pytest.mark.parametrize(("threads", "latency_ms"), [(1, 0.0), (4, 0.0), (4, 10.0)])
def test_no_more_than_the_throttled_rate_is_reached(
    threads: int, latency_ms: float
) -> None:
    source = Source(experts=40, layout=BIG)
    with SlotPool(
        source,
        slots=40,
        memory=Memory(1, 40, layout=BIG),
        threads=threads,
        throttle=Throttle(20.0, latency_ms=latency_ms),
    ) as pool:
        began = time.perf_counter()
        pool.take(0, range(40))
        seconds = time.perf_counter() - began
        total = pool.counters.total
    # A busy machine makes it less; how much less is no error.
    assert total.bytes_read / seconds / 1e6 <= 1.02 * 20
    assert 0 < total.wait_seconds <= seconds


def test_latencies_pass_at_the_same_time() -> None:
    class Meeting(Throttle):
        """Nobody's latency begins to pass before four wait for theirs."""

        met = threading.Barrier(4)

        def left(self, due: float) -> float:
            self.met.wait(WAIT)
            return super().left(due)

    throttle = Meeting(1000.0, latency_ms=100)
    with SlotPool(
        Source(), slots=8, memory=Memory(1, 8), threads=4, throttle=throttle
    ) as pool:
        began = time.perf_counter()
        assert len(pool.take(0, range(8)).slots) == 8
        assert time.perf_counter() - began >= 0.2


def test_what_somebody_waits_for_is_read_before_what_was_hinted() -> None:
    source = Source(layers=2)
    source.held.clear()
    with SlotPool(source, slots=8, memory=Memory(2, 8), threads=1) as pool:
        pool.hint(0, [1, 2, 3, 4])
        source.began(1)
        # 3 was hinted already, and overtakes 2; the other layer was asked before.
        other = Later(lambda: pool.take(1, [9]))
        until(lambda: pool.counts(1).in_flight)
        mine = Later(lambda: pool.take(0, [3, 5]))
        until(lambda: pool.counts(0).in_flight >= 5)
        source.held.set()
        assert mine.result().late == (3,)
        assert other.result().misses == (9,)
        source.began(5)
    assert source.order == [(0, 1), (1, 9), (0, 3), (0, 5), (0, 2), (0, 4)]


def test_a_read_that_fails_is_tried_once_more() -> None:
    tried: set[int] = set()

    def once(layer: int, expert: int) -> None:
        if expert not in tried:
            tried.add(expert)
            broken(layer, expert)

    memory = Memory(1, 4)
    with SlotPool(Source(fault=once), slots=4, memory=memory) as pool:
        assert_holds(memory, pool.take(0, [1, 2]))
        assert pool.counters.total.failures == 2


def test_a_read_that_fails_twice_is_told_to_all_who_wait() -> None:
    source = Source(fault=broken)
    source.held.clear()
    with SlotPool(source, slots=4, memory=Memory(1, 4), threads=1) as pool:
        calls = [Later(lambda: pool.take(0, [7])) for _ in range(2)]
        until(lambda: waiting(pool) == 2)
        source.held.set()
        errors = []
        for call in calls:
            with pytest.raises(
                ExpertReadError, match=r"layer 0, expert 7: unread"
            ) as e:
                call.result()
            errors.append(e.value)
        assert errors[0] is not errors[1]
        assert pool.counts(0) == (4, 0, 0, 0)
        assert len(source.order) in (2, 4)


def test_any_other_exception_is_told_with_its_cause() -> None:
    def fault(layer: int, expert: int) -> None:
        raise MemoryError("full")

    with (
        SlotPool(Source(fault=fault), slots=2, memory=Memory(1, 2)) as pool,
        pytest.raises(
            ExpertReadError, match="nowhere: layer 0, expert 1: MemoryError: full"
        ) as error,
    ):
        pool.take(0, [1])
    told = error.value.__cause__
    assert told is not None
    assert isinstance(told.__cause__, MemoryError)


def test_a_failed_hint_is_not_tried_again() -> None:
    source = Source(fault=broken)
    with SlotPool(source, slots=2, memory=Memory(1, 2)) as pool:
        pool.hint(0, [1])
        source.began(1)
        settled(pool)
        assert pool.counts(0) == (2, 0, 0, 0)
        assert pool.counters.total.failures == 1
    assert source.order == [(0, 1)]


def test_after_close_every_thread_has_ended_and_calls_are_refused() -> None:
    source = Source()
    source.held.clear()
    pool = SlotPool(source, slots=2, memory=Memory(1, 2), threads=3)
    assert len(reading_threads()) == 3
    waits = Later(lambda: pool.take(0, [1, 2]))
    source.began(2)
    closing = Later(pool.close)
    with pytest.raises(SlotPoolError, match="the slots of nowhere are closed"):
        waits.result()
    # A read under way is not torn off: its slot is memory that somebody may look at.
    assert not closing.done
    source.held.set()
    closing.result()
    assert reading_threads() == []
    for call in (
        lambda: pool.take(0, [1]),
        lambda: pool.hint(0, [1]),
        lambda: pool.resize(1),
    ):
        with pytest.raises(
            SlotPoolError, match="closed; load the model again, or make a new"
        ):
            call()
    pool.close()
    assert pool.counts(0).pinned == 0
    assert pool.counters.total.misses == 2


def test_a_throttled_read_does_not_hold_up_the_end() -> None:
    pool = SlotPool(
        Source(),
        slots=2,
        memory=Memory(1, 2),
        throttle=Throttle(1e-6, latency_ms=1e6),
    )
    pool.hint(0, [1, 2])
    began = time.perf_counter()
    pool.close()
    # The read would have taken a thousand seconds.
    assert time.perf_counter() - began < WAIT


def test_a_pool_that_nobody_holds_ends_its_threads() -> None:
    pool = SlotPool(Source(), slots=2, memory=Memory(1, 2))
    pool.take(0, [1])
    threads = reading_threads()
    assert threads
    del pool
    gc.collect()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()


def test_a_pool_that_nobody_closes_lets_the_interpreter_end() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from slot_fakes import Memory, Source\n"
        "from strata_nb.experts.pool import SlotPool\n"
        "pool = SlotPool(Source(), slots=2, memory=Memory(1, 2))\n"
        "print(sorted(pool.take(0, [1, 2]).slots))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1, 2]\n", "")


def test_a_residency_that_raises_ends_the_pool_and_whoever_waits_hears_why() -> None:
    class Wrong:
        name = "wrong"
        armed = False

        def worth(self, held: Held, *, window: int) -> tuple[float, ...]:
            if self.armed:
                raise ZeroDivisionError("by nothing")
            return (0,)

    residency, source = Wrong(), Source()
    pool = SlotPool(
        source, slots=2, memory=Memory(1, 2), threads=1, residency=residency
    )
    pool.release(pool.take(0, [1]))
    source.held.clear()
    pool.hint(0, [2])
    source.began(2)
    # 1 gives its slot to 3 at once; 4 needs that of 2, which is not there yet.
    waits = Later(lambda: pool.take(0, [3, 4]))
    until(lambda: pool.counts(0).pinned >= 1)
    residency.armed = True
    source.held.set()
    with pytest.raises(SlotPoolError, match="closed after ZeroDivisionError: by not"):
        waits.result()
    pool.close()


def test_memory_of_another_layout_is_refused() -> None:
    with pytest.raises(ValueError, match=r"2 arrays a slot, .* nowhere has 1 fie"):
        SlotPool(Source(layout=BIG), slots=1, memory=Memory(1, 1, layout=LAYOUT))


@pytest.mark.parametrize("answer", [None, "all of it", -5])
def test_a_source_that_counts_wrongly_is_a_failed_read(answer: Any) -> None:
    class Odd(Source):
        def read(self, layer: int, expert: int, into: Any) -> int:
            super().read(layer, expert, into)
            return answer  # type: ignore[no-any-return]

    with SlotPool(Odd(), memory=Memory(1, 2), slots=2) as pool:
        with pytest.raises(ExpertReadError, match=r"TypeError|0 or more"):
            pool.take(0, [1])
        assert pool.counters.total.bytes_read == 0
        assert pool.counts(0).pinned == 0
