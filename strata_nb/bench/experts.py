"""`strata-nb bench experts`: what it costs to keep few experts in memory.

Ratios and shares of one process, the arms in turns. The bundled model's experts, packed
with 4 bits into a temporary file; its bytes come from the page cache, slowed down by a
throttle where a disk is meant.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from strata_nb.bench.expert_arms import (
    CONTEXT,
    WARM_UP,
    Arm,
    Watched,
    hidden,
    models,
    share,
    side_by_side,
    slots_of,
)
from strata_nb.bench.options import whole
from strata_nb.experts import ExpertFile, FileSource, RecordLayout, Streaming, Throttle
from strata_nb.experts.pack import pack
from strata_nb.experts.pool import SlotPool
from strata_nb.files import write_text
from strata_nb.model import Model, load
from strata_nb.policies import NO_PREFETCH, Ahead, LeastStale, Lfu, Lru
from strata_nb.prompts import KINDS, prompts

ROWS = (1, 4, 8)
QUARTER = 4
"""One slot for so many experts."""
MOST_RATIO = 1.5
"""Of a window with a quarter of the slots over one with all."""
LEAST_HIDDEN = 0.5
"""Of the wait for experts that were predicted."""
LEAST_RATE = 0.8
"""Of the throttle's rate, while reads are queued."""
LOAD = 0.5
"""What a window's misses take, of what its layers compute."""
LATENCY = 0.1
"""The share of that load in which the first byte is waited for."""
REPEATS = 5
"""Of the measurement of the rate."""
READ_MS = 0.5
"""A read in the measurement of the rate: that of 2.5 MB from a disk of 5 GB/s."""


@dataclass(frozen=True)
class Figure:
    """One number, and what it is held to.

    Attributes:
        name: of the number.
        value: it.
        bound: what it must not pass; None: nothing.
        least: whether the bound is the lowest allowed, instead of the highest.
    """

    name: str
    value: float
    bound: float | None = None
    least: bool = False

    @property
    def held(self) -> bool:
        """Whether the bound is kept."""
        if self.bound is None:
            return True
        return self.value >= self.bound if self.least else self.value <= self.bound

    def line(self) -> str:
        """Of the table."""
        text = f"{self.name:46}{self.value:12.3f}"
        if self.bound is None:
            return text
        sign = ">=" if self.least else "<="
        verdict = "" if self.held else "  missed"
        return f"{text}   {sign} {self.bound:g}{verdict}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "--rounds", type=whole(1, 60), default=20, help="windows per figure"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")


def main(args: argparse.Namespace) -> int:
    """Measure, print a table, return 0."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="strata-nb-") as folder:
        file = Path(folder) / "experts"
        plain = load("strata-tiny", dtype="float32")
        pack(plain.checkpoint, file, kind="q4")
        for figure in _all(plain, file, rounds=args.rounds):
            figures.append(figure)
            sys.stdout.write(figure.line() + "\n")
            sys.stdout.flush()
    if args.json:
        values = {figure.name: figure.value for figure in figures}
        write_text(args.json, json.dumps(values, indent=1) + "\n")
    return 0


def _all(plain: Model, file: Path, *, rounds: int) -> Iterator[Figure]:
    text = _text(plain, CONTEXT + (WARM_UP + rounds) * max(ROWS))
    slots = plain.config.num_experts // QUARTER
    alone: dict[int, Arm] = {}
    few: dict[int, Arm] = {}
    ways = {"all": _way(file), "few": _way(file, slots=slots)}
    with models(ways) as found:
        for layer in range(plain.config.num_hidden_layers):
            pool = slots_of(found["all"]).pool
            pool.release(pool.take(layer, range(plain.config.num_experts)))
        for rows in ROWS:
            arms = side_by_side(found, text, rows=rows, rounds=rounds)
            alone[rows], few[rows] = arms["all"], arms["few"]
            yield from _ratio(rows, alone[rows], few[rows], slots)
    rows = 4
    throttle = throttle_for(
        compute_ms=alone[rows].ms,
        reads=few[rows].a_window("misses"),
        layers=plain.config.num_hidden_layers,
        nbytes=alone[rows].slots.source.layout.record_bytes,
    )
    yield from _prefetches(file, text, throttle, slots=slots, rounds=rounds)
    yield _rate(file)
    yield from _memory(file, slots=slots)
    yield from _residencies(file, text, slots=slots, rounds=rounds)


def _text(model: Model, count: int) -> list[int]:
    """The package's own prompts, one after the other, as often as needed."""
    told = [i for kind in KINDS for ids in prompts(model, kind)[:6] for i in ids]
    return (told * (count // len(told) + 1))[:count]


def _way(file: Path, **how: Any) -> Streaming:
    # Digests are left out: they are a cost of first reads alone.
    within = how.pop("prefetch", NO_PREFETCH)
    return Streaming(file=file, check="never", prefetch=Watched(within), **how)


def _ratio(rows: int, alone: Arm, few: Arm, slots: int) -> Iterator[Figure]:
    yield Figure(f"T={rows} all slots, ms", alone.ms)
    yield Figure(f"T={rows} {slots} slots, ms", few.ms)
    yield Figure(f"T={rows} ratio", few.ms / alone.ms, MOST_RATIO)
    yield Figure(f"T={rows} misses a window", few.a_window("misses"))


def throttle_for(
    *, compute_ms: float, reads: float, layers: int, nbytes: int
) -> Throttle:
    """A disk that takes half of what the layers compute to read a window's misses.

    Args:
        compute_ms: of a window that reads nothing.
        reads: misses of a window.
        layers: of the model; each waits once for the first byte.
        nbytes: of one read.
    """
    load_ms = LOAD * compute_ms
    through = (1 - LATENCY) * load_ms / 1e3
    latency_ms = LATENCY * load_ms / layers
    return Throttle(max(reads, 1) * nbytes / through / 1e6, latency_ms=latency_ms)


def _prefetches(
    file: Path, text: Sequence[int], throttle: Throttle, *, slots: int, rounds: int
) -> Iterator[Figure]:
    """Wait, and what was right of the guesses, at four rows."""
    yield Figure("throttle, MB/s", throttle.mb_per_s)
    yield Figure("throttle, ms of latency", throttle.latency_ms)
    ways = {
        policy.name: _way(
            file,
            slots=slots,
            prefetch=policy,
            # Each its own line: the arms take turns, and none is to pay for another.
            throttle=Throttle(throttle.mb_per_s, latency_ms=throttle.latency_ms),
        )
        for policy in (NO_PREFETCH, Ahead(1), Ahead(2), Ahead(1, root_only=True))
    }
    with models(ways) as found:
        arms = side_by_side(found, text, rows=4, rounds=rounds)
    none = arms[NO_PREFETCH.name]
    yield Figure("none: wait a window, ms", none.wait_ms)
    yield Figure("none: window, ms", none.ms)
    for name, arm in arms.items():
        if arm is none:
            continue
        value = hidden(arm.wait_said_ms, none.wait_ms, arm.hits.coverage)
        bound = LEAST_HIDDEN if name == "ahead 1" else None
        yield Figure(f"{name}: wait a window, ms", arm.wait_ms)
        yield Figure(f"{name}: window, ms", arm.ms)
        yield Figure(f"{name}: hidden of predicted", value, bound, least=True)
        # Guesses push out what would have been there, and that is waited for too.
        saved = share(none.wait_ms - arm.wait_ms, none.wait_ms * arm.hits.coverage)
        yield Figure(f"{name}: hidden less waits it caused", saved)
        yield Figure(f"{name}: predicted of what is read", arm.hits.coverage)
        yield Figure(f"{name}: recall", arm.hits.recall)
        yield Figure(f"{name}: precision", arm.hits.precision)
        for counter in ("late", "misses", "wasted"):
            yield Figure(f"{name}: {counter} a window", arm.a_window(counter))
        more = share(arm.spent.bytes_read, none.spent.bytes_read)
        yield Figure(f"{name}: bytes over those of none", more)


class _Slots:
    """Slots as plain arrays."""

    def __init__(self, layout: RecordLayout, *, layers: int, slots: int) -> None:
        self._arrays = [
            [np.zeros((slots, *f.shape), f.dtype) for f in layout.fields]
            for _ in range(layers)
        ]

    def views(self, layer: int, slot: int) -> Sequence[npt.NDArray[Any]]:
        """As `SlotMemory.views`."""
        return [array[slot] for array in self._arrays[layer]]


def _rate(file: Path) -> Figure:
    """Bytes a second over the throttle's, with reads of every expert queued."""
    with ExpertFile.open(file) as opened:
        source = FileSource(opened, check="never")
        rate = source.layout.record_bytes / READ_MS / 1e3
        reached = [_all_queued(source, Throttle(rate)) for _ in range(REPEATS)]
    name = f"rate over {rate:.1f} MB/s, reads queued"
    return Figure(name, statistics.median(reached) / rate, LEAST_RATE, least=True)


def _all_queued(source: FileSource, throttle: Throttle) -> float:
    """Millions of bytes a second."""
    layers, experts = source.layers, source.experts
    memory = _Slots(source.layout, layers=layers, slots=experts)
    with SlotPool(source, memory=memory, slots=experts, throttle=throttle) as pool:
        began = time.perf_counter()
        for layer in range(layers):
            pool.hint(layer, range(experts))
        for layer in range(layers):
            pool.release(pool.take(layer, range(experts)))
        took = time.perf_counter() - began
        return pool.counters.total.bytes_read / took / 1e6


def _memory(file: Path, *, slots: int) -> Iterator[Figure]:
    """Bytes of slots over a budget that is no whole number of slots."""
    with ExpertFile.open(file) as opened:
        one_each = opened.header.layers * opened.layout.record_bytes
    budget = slots * one_each + one_each // 2
    with models({"budget": _way(file, budget_bytes=budget)}) as found:
        kept = slots_of(found["budget"])
        engine = found["budget"].engine()
        engine.prefill(range(4, 4 + CONTEXT))
        yield Figure("slots, bytes over the budget", kept.memory.nbytes / budget, 1)
        yield Figure("held, bytes over the budget", kept.pool.held_bytes / budget, 1)


def _residencies(
    file: Path, text: Sequence[int], *, slots: int, rounds: int
) -> Iterator[Figure]:
    """Misses of the same windows of four rows."""
    ways = {
        policy.name: _way(file, slots=slots, residency=policy)
        for policy in (Lru(), Lfu(), LeastStale())
    }
    with models(ways) as found:
        arms = side_by_side(found, text, rows=4, rounds=rounds)
    for name, arm in arms.items():
        yield Figure(f"{name}: misses a window", arm.a_window("misses"))
