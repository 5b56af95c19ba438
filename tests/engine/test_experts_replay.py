"""A trace played again counts what a model with so many slots really did."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from helpers import prompt
from strata_nb import Model, Trace, load
from strata_nb.experts.replay import PlayedSlots, replay, union
from strata_nb.experts.streaming import Streaming
from strata_nb.policies.residency import Held, LeastStale, Lfu, Lru
from strata_nb.trace import LayerDecisions, window_record


def played(model: Model) -> Trace:
    engine = model.engine()
    for seed, rows in enumerate((3, 1, 4, 2, 5)):
        engine.prefill(prompt(model, rows, seed=seed))
    return engine.trace


@pytest.mark.parametrize("residency", [Lru(), Lfu(), LeastStale()])
@pytest.mark.parametrize("slots", [1, 4, 9, 16])
def test_it_counts_what_slots_of_a_model_count(
    tiny: Model, slots: int, residency: Any
) -> None:
    how = Streaming(slots=slots, residency=residency)
    model = load(tiny.checkpoint.path, experts=how)
    trace = played(model)
    assert model.pool is not None
    found = replay(
        played(tiny),
        slots=slots,
        residency=residency,
        record_bytes=model.pool.source.layout.record_bytes,
    )
    for layer, counted in enumerate(found.layers):
        records = [record.layers[layer] for record in trace]
        for name, count in (
            ("resident", counted.hits),
            ("miss", counted.misses),
            ("late", counted.late),
            ("evicted", counted.evicted),
            ("bytes_read", counted.bytes_read),
        ):
            assert sum(getattr(record, name) for record in records) == count


def test_the_least_recent_of_two_goes() -> None:
    ids = [[[0, 1]], [[0, -1]], [[2, 0]], [[1, 0]]]
    trace = [
        window_record(
            position=cell,
            inputs=[1],
            keep=1,
            headless=True,
            decisions=[LayerDecisions(np.array(row))],
        )
        for cell, row in enumerate(ids)
    ]
    total = replay(trace, slots=2, record_bytes=10).total
    assert (total.hits, total.misses, total.evicted) == (3, 4, 2)
    assert total.bytes_read == 40


def test_no_windows_cost_nothing_and_no_slots_are_refused() -> None:
    assert replay([], slots=1).total.misses == 0
    with pytest.raises(ValueError, match="`slots`"):
        replay([], slots=0)


def test_a_model_with_all_experts_in_memory_has_no_slots(tiny: Model) -> None:
    assert tiny.pool is None


@dataclass(frozen=True)
class Longest:
    """`Lru` in all but its type."""

    name: str = "longest ago"

    def worth(self, held: Held, *, window: int) -> tuple[float, ...]:
        return Lru().worth(held, window=window)


@pytest.mark.parametrize("slots", [1, 5, 12])
def test_the_short_way_of_lru_is_that_of_the_slots(slots: int) -> None:
    rng = np.random.default_rng(slots)
    short, whole = PlayedSlots(slots), PlayedSlots(slots, residency=Longest())
    for _ in range(200):
        ids = rng.integers(0, 20, (rng.integers(1, 5), 3)) ** 2 // 20
        asked = {layer: union(ids + layer) for layer in range(2)}
        assert short.window(asked) == whole.window(asked)
    assert short.counters == whole.counters
