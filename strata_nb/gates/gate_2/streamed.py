"""Experts in slots, and all of them in memory: the same bits in every window."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from strata_nb.experts import CheckpointSource
from strata_nb.experts.streaming import Streaming
from strata_nb.faults import EXPERT_FAULTS
from strata_nb.gates.records import PARTS, Case, CaseResult, Finding, Profile, Scalar
from strata_nb.gates.stage.places import start_of
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.travel import Windows, compare, travel
from strata_nb.model import Model, load
from strata_nb.models.qwen4_exp import NOTHING, SlotExperts
from strata_nb.packs import ModelConfig
from strata_nb.policies.prefetch import NO_PREFETCH, Ahead

TOUCHES = (*PARTS, "experts")
WINDOWS = ((4, 2), (1, 1), (8, 8), (3, 1), (6, 2), (7, 7), (2, 1), (5, 3))
"""Rows and keep of windows in a row: every width."""

_SLOWEST_S = 1e-3


def settings(
    config: ModelConfig, profile: Profile, context: int
) -> list[dict[str, Scalar]]:
    """Slots a layer, and whether experts are read ahead.

    Args:
        config: gives the experts of a row, k, and of a layer, E.
        profile: "quick" takes one place, the others all.
        context: cells that the sequence may have.
    """
    k, every = config.num_experts_per_tok, config.num_experts
    # About as many as the rows of a window use together.
    union = min(every, 3 * k)
    counts = dict.fromkeys(n for n in (1, k - 1, k, union, every) if n > 0)
    places = ("below",) if profile == "quick" else ("below", "above")
    longest = sum(keep for _, keep in WINDOWS) + 16
    return [
        {"context": name, "slots": slots, "ahead": ahead}
        for name in places
        if start_of(config, name, 2) + longest <= context
        for slots in counts
        for ahead in ((slots % 2 == 0,) if profile == "quick" else (False, True))
    ]


def ask(case: Case, rig: Rig) -> CaseResult:
    """Take a model with slots along the windows, and one without."""
    model = opened(case, rig)
    # Engine faults stay where they are looked for; those of experts are in the model.
    engine_fault = None if rig.fault in EXPERT_FAULTS else rig.fault
    slots = Rig(model, fault=engine_fault, floor=rig.floor)
    windows = _windows(rig)
    ids = rig.text(start_of(rig.model.config, str(case["context"]), 2))
    after = rig.text(4, seed=5)
    with _watched(model) as seen, _reads_in_any_order(int(case["slots"])):
        way = travel(slots.subject(ids), windows, after, rig=rig)
    found = [*_unlike(seen, rig.model), *_pinned(model)]

    def again(imposed: Any) -> Any:
        more = {} if imposed is NOTHING else {"imposed": imposed}
        return travel(rig.reference(ids, **more), windows, after, rig=rig)

    found += compare(way, again, by="replay", rig=rig)
    changed = (*way.changed, *(["experts"] if seen else []))
    return CaseResult(case, tuple(found), changed)


def opened(case: Case, rig: Rig) -> Model:
    """The rig's model with slots, as the case says, and with a fault of experts.

    Args:
        case: has `slots` and `ahead`.
        rig: its own model has all experts in memory.
    """
    how = Streaming(
        slots=int(case["slots"]), prefetch=Ahead() if case["ahead"] else NO_PREFETCH
    )
    fault = rig.fault if rig.fault in EXPERT_FAULTS else None
    path, dtype = rig.model.checkpoint.path, rig.model.dtype
    return load(path, dtype=dtype, experts=how, fault=fault)  # type: ignore[arg-type]


def _windows(rig: Rig) -> Windows:
    return [
        (rig.text(width, seed=60 + number), keep)
        for number, (width, keep) in enumerate(WINDOWS)
    ]


@dataclass(frozen=True)
class _Mixed:
    """What the experts of a layer were given, and what came out."""

    layer: int
    x: mx.array
    chosen: mx.array
    weights: mx.array
    y: mx.array


@contextmanager
def _watched(model: Model) -> Iterator[list[_Mixed]]:
    """What the experts of `model` compute from here on."""
    experts = slots_of(model)
    seen: list[_Mixed] = []
    mix = experts.mix

    def watch(layer: int, x: mx.array, chosen: mx.array, weights: mx.array) -> mx.array:
        y = mix(layer, x, chosen, weights)
        seen.append(_Mixed(layer, x, chosen, weights, y))
        return y

    experts.mix = watch  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        experts.mix = mix  # type: ignore[method-assign]


def slots_of(model: Model) -> SlotExperts:
    """The experts of a model that was loaded with slots."""
    assert model._weights is not None
    found = model._weights.streamed
    assert found is not None
    return found


def _unlike(seen: Sequence[_Mixed], whole: Model) -> Iterator[Finding]:
    """Outputs that experts in memory would not have given; once a layer."""
    assert whole._weights is not None
    told: set[int] = set()
    for one in seen:
        want = whole._weights.routed.mix(one.layer, one.x, one.chosen, one.weights)
        size = float(np.abs(np.array((want - one.y).astype(mx.float32))).max())
        if size and one.layer not in told:
            told.add(one.layer)
            note = f"rows: {one.x.shape[0]}"
            yield Finding(
                "fault", "rule", "commit", "experts", one.layer, size=size, note=note
            )


def _pinned(model: Model) -> Iterator[Finding]:
    pool = slots_of(model).pool
    for layer in range(pool.source.layers):
        pinned = pool.counts(layer).pinned
        if pinned:
            note = f"{pinned} slots stay pinned after the last window"
            yield Finding("fault", "rule", "after", "experts", layer, note=note)


@contextmanager
def _reads_in_any_order(seed: int) -> Iterator[None]:
    """Reads that take a random time each; what lands first is anybody's guess."""
    rng, read = random.Random(seed), CheckpointSource.read

    def late(self: Any, layer: int, expert: int, into: Sequence[Any]) -> int:
        time.sleep(rng.random() * _SLOWEST_S)
        return read(self, layer, expert, into)

    CheckpointSource.read = late  # type: ignore[method-assign]
    try:
        yield
    finally:
        CheckpointSource.read = read  # type: ignore[method-assign]
