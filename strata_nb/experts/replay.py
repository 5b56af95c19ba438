"""What slots would have cost a trace: its expert ids played again, nothing read."""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from strata_nb.experts.budget import at_least
from strata_nb.experts.counters import Counters, LayerCounters
from strata_nb.experts.groups import groups
from strata_nb.experts.slots import Layer
from strata_nb.policies.residency import Lru, Residency
from strata_nb.trace import WindowRecord


def replay(
    trace: Iterable[WindowRecord],
    *,
    slots: int,
    residency: Residency | None = None,
    record_bytes: int = 0,
) -> Counters:
    """Count what the windows of `trace` cost with so many slots, empty at first.

    Which experts a row uses does not depend on slots as long as routing is natural, so
    a trace of any model tells it, recorded with slots or without. Nothing is read
    ahead. Windows that were aborted are in no trace, and what they cost is not counted.

    Args:
        trace: windows, in order.
        slots: of each layer.
        residency: which expert gives its slot to another; `Lru()` when not given.
        record_bytes: of one expert; 0 leaves bytes out.

    Returns:
        One entry for each layer that has experts, in layer order.

    Raises:
        ValueError: no slots.
    """
    played = PlayedSlots(slots, residency=residency, record_bytes=record_bytes)
    for record in trace:
        played.window({one.layer: union(one.expert_ids) for one in record.layers})
    return played.counters


class PlayedSlots:
    """Slots of every layer, empty at first, that windows are played through.

    Args:
        slots: of each layer.
        residency: which expert gives its slot to another; `Lru()` when not given.
        record_bytes: of one expert; 0 leaves bytes out.

    Raises:
        ValueError: no slots.
    """

    def __init__(
        self, slots: int, *, residency: Residency | None = None, record_bytes: int = 0
    ) -> None:
        self._slots = at_least(1, slots=slots)
        policy = Lru() if residency is None else residency
        # By far the most frequent question, and a short way to its answer.
        quick = type(policy) is Lru
        self._new: Callable[[int], _Asked] = (
            partial(_Recent, slots) if quick else partial(_Judged, slots, policy)
        )
        self._bytes = record_bytes
        self._layers: dict[int, _Asked] = {}
        self._windows = itertools.count(1)

    def window(self, unions: Mapping[int, Sequence[int]]) -> int:
        """One window more.

        Args:
            unions: by layer, the experts of its rows, as `union` orders them.

        Returns:
            Experts that were in no slot, over all layers.
        """
        number, missed = next(self._windows), 0
        for index, wanted in unions.items():
            if index not in self._layers:
                self._layers[index] = self._new(index)
            layer = self._layers[index]
            for group in groups(wanted, self._slots, layer.resident()):
                missed += layer.take(group, window=number)
        return missed

    @property
    def counters(self) -> Counters:
        """One entry for each layer that had experts, in layer order."""
        counted = []
        for index in sorted(self._layers):
            hits, misses, evicted = self._layers[index].counts()
            counted.append(
                LayerCounters(
                    hits=hits,
                    misses=misses,
                    evicted=evicted,
                    bytes_read=misses * self._bytes,
                )
            )
        return Counters(tuple(counted) or (LayerCounters(),))


def union(expert_ids: npt.NDArray[np.integer[Any]]) -> tuple[int, ...]:
    """Distinct experts in the order in which a layer asks for them.

    Args:
        expert_ids: [T, K]; -1 is an unused choice.

    Returns:
        By rank, then by row.
    """
    ids = expert_ids.T.ravel().tolist()
    return tuple(dict.fromkeys(expert for expert in ids if expert >= 0))


class _Asked(Protocol):
    """The slots of one layer; what is missing is there at once."""

    def resident(self) -> Collection[int]:
        """Experts in slots."""

    def take(self, group: Sequence[int], *, window: int) -> int:
        """Want all of `group` together; how many were in no slot."""

    def counts(self) -> tuple[int, int, int]:
        """Hits, misses, and experts that lost their slot."""


class _Judged:
    """The engine's own slots, whatever their policy."""

    def __init__(self, slots: int, residency: Residency, index: int) -> None:
        self._layer = Layer(slots, residency, number=index)
        self._tickets = itertools.count(1)

    def resident(self) -> Collection[int]:
        return self._layer.resident()

    def take(self, group: Sequence[int], *, window: int) -> int:
        layer, ticket = self._layer, next(self._tickets)
        before = layer.tally["misses"]
        layer.want(ticket, group, thread=0, window=window)
        while layer.urgent:
            expert = layer.urgent[0].expert
            layer.start(expert)
            layer.land(expert, 0)
        layer.release(ticket)
        return layer.tally["misses"] - before

    def counts(self) -> tuple[int, int, int]:
        tally = self._layer.tally
        return tally["hits"], tally["misses"], tally["evicted"]


class _Recent:
    """The same with `Lru`, which needs no more than when each expert was wanted."""

    def __init__(self, slots: int, _: int) -> None:
        self._slots = slots
        self._wanted: dict[int, int] = {}  # by expert, the ask
        self._asks = itertools.count(1)
        self._hits = self._misses = self._evicted = 0

    def resident(self) -> Collection[int]:
        return self._wanted

    def take(self, group: Sequence[int], *, window: int) -> int:
        wanted = self._wanted
        lacking = [expert for expert in group if expert not in wanted]
        over = len(wanted) + len(lacking) - self._slots
        if over > 0:
            kept = set(group)
            old = sorted((at, e) for e, at in wanted.items() if e not in kept)
            for _, expert in old[:over]:
                del wanted[expert]
            self._evicted += over
        wanted.update(dict.fromkeys(group, next(self._asks)))
        self._hits += len(group) - len(lacking)
        self._misses += len(lacking)
        return len(lacking)

    def counts(self) -> tuple[int, int, int]:
        return self._hits, self._misses, self._evicted
