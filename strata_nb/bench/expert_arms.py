"""Models that keep their experts in slots, side by side on the same text."""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from strata_nb.engine import Engine
from strata_nb.experts import LayerCounters, Streaming
from strata_nb.experts.pool import SlotPool, Taken
from strata_nb.model import Model, load
from strata_nb.models.qwen4_exp import SlotExperts
from strata_nb.policies import Now, Prefetch, Task
from strata_nb.trace import LayerRecord

CONTEXT = 64
"""Cells before the windows that are measured."""
WARM_UP = 3
"""Windows that are not counted."""


@dataclass
class Hits:
    """Experts that were guessed, wanted and read, of one layer or several.

    Attributes:
        predicted: named by a prefetch.
        wanted: used by a row.
        both: predicted and wanted.
        absent: wanted and in no slot when the guess was made.
        absent_both: of these, predicted.
    """

    predicted: int = 0
    wanted: int = 0
    both: int = 0
    absent: int = 0
    absent_both: int = 0

    def count(self, predicted: Set[int], wanted: Set[int], there: Set[int]) -> None:
        """Add one layer of a window.

        Args:
            predicted: experts.
            wanted: experts.
            there: those that were in a slot when the guess was made.
        """
        absent = wanted - there
        self.predicted += len(predicted)
        self.wanted += len(wanted)
        self.both += len(predicted & wanted)
        self.absent += len(absent)
        self.absent_both += len(predicted & absent)

    @property
    def recall(self) -> float:
        """The share of what was wanted that was predicted."""
        return share(self.both, self.wanted)

    @property
    def precision(self) -> float:
        """The share of what was predicted that was wanted."""
        return share(self.both, self.predicted)

    @property
    def coverage(self) -> float:
        """The share of what had to be read that was predicted."""
        return share(self.absent_both, self.absent)


def share(part: float, whole: float) -> float:
    """`part` of `whole`; 0 of nothing."""
    return part / whole if whole else 0.0


def hidden(wait: float, wait_before: float, coverage: float) -> float:
    """The share of the wait for predicted experts that a prefetch took away.

    Args:
        wait: for experts that it predicted, and that were not there in time all the
            same: late, without room, or thrown out before they were wanted.
        wait_before: without it, for all experts, in the same unit.
        coverage: the share of what had to be read that it predicted.
    """
    before = coverage * wait_before
    return 1 - share(wait, before) if before else 0.0


class Watched:
    """Another prefetch; what it said in a window, and what was waited for.

    Waits are those of layers that can be guessed: all but the first.

    Attributes:
        within: the other.
        said: experts by layer.
        there: those in a slot when a layer was first guessed for.
        wait_ms: for experts.
        wait_said_ms: the share of those that had been said; of experts that were waited
            for together, each has the same.
    """

    def __init__(self, within: Prefetch) -> None:
        self.within = within
        self._pool: SlotPool | None = None
        self.clear()

    def clear(self) -> None:
        """A new window begins."""
        self.said: dict[int, set[int]] = {}
        self.there: dict[int, frozenset[int]] = {}
        self.wait_ms = self.wait_said_ms = 0.0

    def watch(self, pool: SlotPool) -> None:
        """See what is taken from now on."""
        self._pool, take = pool, pool.take

        def watched(layer: int, wanted: Sequence[int], **more: Any) -> Taken:
            began = time.perf_counter()
            taken = take(layer, wanted, **more)
            self._took(taken, (time.perf_counter() - began) * 1e3)
            return taken

        pool.take = watched  # type: ignore[method-assign]

    def _took(self, taken: Taken, ms: float) -> None:
        waited = {*taken.misses, *taken.late}
        if not waited or not taken.layer:
            return
        said = waited & self.said.get(taken.layer, set())
        self.wait_ms += ms
        self.wait_said_ms += ms * len(said) / len(waited)

    @property
    def name(self) -> str:
        """Of the other."""
        return self.within.name

    def asks(self, layer: int, *, layers: int) -> Sequence[int]:
        """As the other."""
        return self.within.asks(layer, layers=layers)

    def tasks(self, now: Now) -> Sequence[Task]:
        """As the other."""
        found = self.within.tasks(now)
        for layer, experts in found:
            if layer not in self.said and self._pool is not None:
                self.there[layer] = self._pool.resident(layer)
            self.said.setdefault(layer, set()).update(experts)
        return found


@dataclass
class Arm:
    """One way to keep experts.

    Attributes:
        slots: its experts.
        engine: after the context.
        watched: its prefetch.
        times: of counted windows, ms.
        waits: for experts of these, ms, and the share of those that were predicted.
        hits: of layers that were guessed for.
        spent: by counted windows, on all layers.
    """

    slots: SlotExperts
    engine: Engine
    watched: Watched
    times: list[float] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)
    hits: Hits = field(default_factory=Hits)
    spent: LayerCounters = field(default_factory=LayerCounters)

    def window(self, ids: Sequence[int], *, counted: bool) -> None:
        """Run and keep one window."""
        self.watched.clear()
        before = self.slots.counters
        began = time.perf_counter()
        window = self.engine.run(ids)
        self.engine.finish(window, stop_ids=())
        self.engine.commit(window, keep=window.T, force=True)
        took = (time.perf_counter() - began) * 1e3
        if counted:
            self.times.append(took)
            self.waits.append((self.watched.wait_ms, self.watched.wait_said_ms))
            self.spent += (self.slots.counters - before).total
            for layer in self.engine.trace[-1].layers:
                self._guessed(layer)

    def _guessed(self, layer: LayerRecord) -> None:
        said = self.watched.said.get(layer.layer)
        if said is not None:
            wanted = set(layer.expert_ids.ravel().tolist())
            self.hits.count(said, wanted, self.watched.there[layer.layer])

    @property
    def ms(self) -> float:
        """Of a window, the median."""
        return statistics.median(self.times)

    @property
    def wait_ms(self) -> float:
        """Of a window, for experts of all layers but the first, the median."""
        return statistics.median(wait for wait, _ in self.waits)

    @property
    def wait_said_ms(self) -> float:
        """The part of `wait_ms` that was for predicted experts, the median."""
        return statistics.median(said for _, said in self.waits)

    def a_window(self, name: str) -> float:
        """A counter, the mean of the windows."""
        return float(getattr(self.spent, name)) / len(self.times)


@contextmanager
def models(ways: Mapping[str, Streaming]) -> Iterator[dict[str, Model]]:
    """The bundled model once for each way; their threads end with the block.

    Args:
        ways: by name; the prefetch of each is a `Watched` of its own.
    """
    with ExitStack() as stack:
        found = {}
        for name, how in ways.items():
            model = load("strata-tiny", dtype="float32", experts=how)
            slots = slots_of(model)
            stack.callback(slots.pool.close)
            assert isinstance(how.prefetch, Watched)
            how.prefetch.watch(slots.pool)
            found[name] = model
        yield found


def slots_of(model: Model) -> SlotExperts:
    """The experts of a model that was loaded with slots."""
    assert model._weights is not None
    found = model._weights.streamed
    assert found is not None
    return found


def side_by_side(
    models: Mapping[str, Model], text: Sequence[int], *, rows: int, rounds: int
) -> dict[str, Arm]:
    """Windows of `text` by each model in turns, so that a busy machine slows all.

    Args:
        models: by name, from `models`.
        text: tokens of the context and of the windows.
        rows: of a window.
        rounds: windows that are counted.
    """
    arms = {}
    for name, model in models.items():
        slots = slots_of(model)
        watched = slots.prefetch
        assert isinstance(watched, Watched)
        engine = model.engine()
        engine.prefill(text[:CONTEXT])
        arms[name] = Arm(slots, engine, watched)
    for number in range(WARM_UP + rounds):
        at = CONTEXT + number * rows
        for arm in arms.values():
            arm.window(text[at : at + rows], counted=number >= WARM_UP)
    return arms
