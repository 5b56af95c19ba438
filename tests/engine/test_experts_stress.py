"""Ten thousand windows of two engines: slow and failing reads, cancels, moving caps."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from slot_fakes import (
    LAYOUT,
    WAIT,
    Later,
    Memory,
    Source,
    assert_holds,
    broken,
    settled,
)
from strata_nb.errors import ExpertReadError, SlotPoolError, TakeCancelledError
from strata_nb.experts.groups import groups
from strata_nb.experts.pool import SlotPool
from strata_nb.experts.slots import Counts
from strata_nb.policies.residency import Lfu

LAYERS, EXPERTS, SLOTS, WINDOWS = 2, 16, 9, 10_000
BUDGET = LAYERS * SLOTS * LAYOUT.record_bytes


class Trouble:
    """A disk that is slow now and then, and fails now and then."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.pool: SlotPool | None = None
        self.most_held = 0

    def __call__(self, layer: int, expert: int) -> None:
        with self._lock:
            slow, fails = self._random.random() < 0.01, self._random.random() < 0.1
            assert self.pool is not None
            self.most_held = max(self.most_held, self.pool.held_bytes)
        if slow:
            time.sleep(0.002)
        if fails:
            broken(layer, expert)


class Engine:
    """What an engine does with its windows, and what happens to it."""

    def __init__(self, pool: SlotPool, memory: Memory, *, seed: int) -> None:
        self.pool, self.memory = pool, memory
        self.random = random.Random(seed)
        self.ends: Counter[str] = Counter()

    def run(self, windows: int) -> None:
        for _ in range(windows):
            self.pool.begin_window()
            end = "whole"
            try:
                for layer in range(LAYERS):
                    self.layer(layer)
            except (
                ExpertReadError,
                SlotPoolError,
                TakeCancelledError,
                ValueError,
                KeyboardInterrupt,
            ) as error:
                end = type(error).__name__
                self.pool.release_all()
            self.ends[end] += 1
            if self.random.random() < 0.002:
                self.pool.resize(self.random.randint(3, SLOTS))

    def layer(self, layer: int) -> None:
        """All groups of a layer, then a guess about the next one."""
        # A few experts are wanted much more often than the others.
        wanted = {int(EXPERTS * self.random.random() ** 2) for _ in range(4)}
        slots = self.pool.slots
        for group in groups(sorted(wanted), slots, self.pool.resident(layer)):
            taken = self.pool.take(layer, group, cancel=self.cancel())
            chance = self.random.random()
            if chance < 0.002:
                raise KeyboardInterrupt
            if chance < 0.1:
                # Others have the time to do harm.
                time.sleep(0)
            assert_holds(self.memory, taken)
            self.pool.release(taken)
        if layer + 1 < LAYERS:
            guess = [self.random.randrange(EXPERTS) for _ in range(2)]
            self.pool.hint(layer + 1, guess)

    def cancel(self) -> Callable[[], bool] | None:
        """Now and then one that says stop, at once or after being asked a few times."""
        if self.random.random() > 0.03:
            return None
        left = self.random.randint(0, 5)

        def stop() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        return stop


def test_ten_thousand_windows_leak_nothing_and_keep_the_budget() -> None:
    before = set(threading.enumerate())
    trouble = Trouble(seed=1)
    source = Source(layers=LAYERS, experts=EXPERTS, fault=trouble)
    memory = Memory(LAYERS, SLOTS)
    pool = trouble.pool = SlotPool(
        source, budget_bytes=BUDGET, memory=memory, residency=Lfu(), prefetch=4
    )
    engines = [Engine(pool, memory, seed=seed) for seed in (2, 3)]
    calls = [Later(partial(engine.run, WINDOWS // 2)) for engine in engines]
    for call in calls:
        call.result(within=10 * WAIT)

    settled(pool)
    assert trouble.most_held <= BUDGET
    assert source.collisions == 0
    ends = sum((engine.ends for engine in engines), Counter[str]())
    assert ends.total() == WINDOWS
    assert {"whole", "ExpertReadError", "TakeCancelledError"} <= ends.keys()
    source.fault = None
    pool.resize(SLOTS)
    for layer in range(LAYERS):
        assert pool.counts(layer).pinned == 0
        pool.release(pool.take(layer, range(SLOTS)))
        assert pool.counts(layer) == Counts(0, 0, SLOTS, 0)
    total = pool.counters.total
    assert total.bytes_read == LAYOUT.record_bytes * (
        len(source.order) - total.failures
    )
    assert total.wasted <= total.prefetched
    pool.close()
    # Readers of its own: pools of other tests may not have been collected yet.
    readers = set(threading.enumerate()) - before
    assert not [t for t in readers if t.name.startswith("strata-expert")]
