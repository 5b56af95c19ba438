"""The cases of `strata-nb bench policies`, run as the cases of a gate are.

A case is one kind of prompts, one sampling and one place of the experts, with all arms
in turns: so its ratios are of one process, whoever else shares the work.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from strata_nb import prompts
from strata_nb.bench.approximate import compared
from strata_nb.bench.memory import LOADS, QUARTER, Memory
from strata_nb.bench.policy_arms import (
    ARMS,
    PLAIN,
    QUICK,
    ROUTINGS,
    SAMPLINGS,
    Arm,
    skip_tail,
)
from strata_nb.experts import CheckpointSource, Streaming, Throttle
from strata_nb.experts.record import Floats
from strata_nb.gates.records import Case, CaseResult
from strata_nb.gates.stage.rig import Rig
from strata_nb.model import Model, load
from strata_nb.policies.length import Length
from strata_nb.prompts import WRITTEN, Kind
from strata_nb.session import Session
from strata_nb.trace import (
    WindowRecord,
    acceptance,
    expert_totals,
    latency,
    mean_union,
    row_counts,
)

NAME = "policies"
_TIMED = 12
_CONTEXT = 32


@dataclass(frozen=True)
class Measured(CaseResult):
    """What became of a case: a row for each arm.

    Attributes:
        rows: of the table.
    """

    rows: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)


def cases(
    *, quick: bool, count: int, max_new: int, experts: int, rounds: int = 1
) -> list[Case]:
    """All cases, the lossless ones first.

    Args:
        quick: only what shows that all of it works.
        count: prompts of each kind, after one that warms up.
        max_new: tokens of each answer at most.
        experts: of a layer of the model.
        rounds: times that every prompt is answered by every arm.
    """
    kinds: Sequence[Kind] = ("agent",) if quick else WRITTEN
    loads = (0.0, 1.0) if quick else (0.0, *LOADS)
    samplings = ("greedy",) if quick else tuple(SAMPLINGS)
    size = {"slots": max(1, experts // QUARTER), "quick": quick}
    found = [
        _case(
            "lossless",
            kind=kind,
            sampling=sampling,
            load=load_,
            **size,
            prompts=count,
            max_new=max_new,
            rounds=rounds,
        )
        for kind in kinds
        for sampling in samplings
        for load_ in loads
    ]
    tokens = 16 if quick else 160
    return found + [
        _case("approximate", kind=kind, load=load_, **size, tokens=tokens)
        for kind in kinds
        for load_ in loads
    ]


def _case(family: str, **params: Any) -> Case:
    group = "/".join(
        str(params[n]) for n in ("kind", "sampling", "load") if n in params
    )
    return Case(
        NAME, family, tuple(params.items()), touches=(), group=f"{family}/{group}"
    )


def run(cases: Sequence[Case], rig: Rig) -> Iterator[CaseResult]:
    """Run cases, as a gate does.

    Args:
        cases: of one group.
        rig: gives the model.
    """
    for case in cases:
        family = _lossless if case.family == "lossless" else _approximate
        yield Measured(case, rows=tuple(family(case, rig.model)))


def _approximate(case: Case, model: Model) -> Iterator[dict[str, Any]]:
    memory, layer_ms = _memory(case), _layer_ms(model)
    routings = ROUTINGS[:1] + ROUTINGS[-1:] if case["quick"] else ROUTINGS
    if not case["quick"]:
        # The last prompt of a kind: what is compared on is a probe, or the first one.
        *_, other = prompts.prompts(model, _kind(case))
        routings = (*routings, skip_tail(model, other))
    with ExitStack() as stack:

        def begin() -> Model:
            return _placed(model, memory, layer_ms, stack)

        for row in compared(
            model,
            routings,
            kind=_kind(case),
            tokens=int(case["tokens"]),
            begin=begin,
        ):
            yield {"kind": case["kind"], "memory": memory.name, **row}


def _lossless(case: Case, model: Model) -> Iterator[dict[str, Any]]:
    memory, layer_ms = _memory(case), _layer_ms(model)
    sampling = str(case["sampling"])
    arms = [
        arm
        for arm in ARMS
        if not (arm.greedy_only and sampling != "greedy")
        and (arm.name in QUICK or not case["quick"])
    ]
    first, *others = prompts.prompts(model, _kind(case))[: int(case["prompts"]) + 1]
    with ExitStack() as stack:
        lanes = [
            _Lane(arm, _placed(model, memory, layer_ms, stack), sampling)
            for arm in arms
        ]
        for lane in lanes:
            lane.warm_up(first, max_new=int(case["max_new"]))
        for _ in range(int(case["rounds"])):
            for ids in others:
                for lane in lanes:
                    lane.answer(ids, max_new=int(case["max_new"]))
        plain = next(lane for lane in lanes if lane.arm.name == PLAIN)
        for lane in lanes:
            yield {
                "kind": case["kind"],
                "sampling": sampling,
                "memory": memory.name,
                "slots": memory.slots,
                "load": memory.load,
                "layer_ms": layer_ms,
                "seed": SAMPLINGS[sampling].seed,
                **lane.row(plain),
            }


class _Lane:
    """One arm on its own model, with what it learns from prompt to prompt."""

    def __init__(self, arm: Arm, model: Model, sampling: str) -> None:
        self.arm, self._model = arm, model
        self._sampling = SAMPLINGS[sampling]
        self._length: Length | None = arm.length() if arm.length else None
        self._kept = arm.drafter(self._sampling) if arm.drafter and arm.once else None
        self.records: list[WindowRecord] = []
        self.texts: list[tuple[int, ...]] = []
        self.warm_up_ms = 0.0

    def warm_up(self, ids: Sequence[int], *, max_new: int) -> None:
        """An answer that does not count, but fills slots and teaches as any other."""
        self.answer(ids, max_new=max_new)
        self.warm_up_ms = self.ms
        self.records.clear()

    def answer(self, ids: Sequence[int], *, max_new: int) -> None:
        """Answer a prompt in a session of its own."""
        make = self.arm.drafter
        session = Session(
            self._model,
            preset=self.arm.preset,
            drafter=self._kept or (make(self._sampling) if make else None),
            sampling=self._sampling,
            length=self._length,
        )
        self.texts.append(session.reply(ids, max_new=max_new).tokens)
        self.records += [record for record in session.trace if not record.headless]

    @property
    def ms(self) -> float:
        """Of all windows that count."""
        return sum(record.total_ms or 0.0 for record in self.records)

    def row(self, plain: "_Lane") -> dict[str, Any]:
        """What the seed wants logged of it, beside the arm without drafts."""
        records = self.records
        drafts, totals = acceptance(records), expert_totals(records)
        tokens = sum(len(record.emitted) for record in records)
        matches = [r.match_length for r in records if r.match_length is not None]
        time = latency(records, warm=True) or latency(records)
        assert time is not None
        counts = row_counts(records)
        layers = [layer for record in records for layer in record.layers]
        # Under the rule "ratio" it is the law that is the same.
        is_ratio = self._sampling.rule == "ratio" and self._sampling.temperature > 0
        ms_a_token = self.ms / tokens
        theirs = plain.ms / sum(len(record.emitted) for record in plain.records)
        return {
            "arm": self.arm.name,
            "what": self.arm.what,
            "same": None if is_ratio else self.texts == plain.texts,
            "tokens": tokens,
            "windows": len(records),
            "built": sum(record.warm is False for record in records),
            "warm_up_ms": self.warm_up_ms,
            "ms": self.ms,
            "tokens_per_s": 1e3 / ms_a_token,
            "speed": theirs / ms_a_token,
            "coverage": drafts.coverage or 0.0,
            "match_length": statistics.fmean(matches) if matches else None,
            "offered": drafts.total.offered,
            "accepted": drafts.total.accepted,
            "acceptance": drafts.total.rate,
            "rows": [counts.get(rows, 0) for rows in range(1, 9)],
            "mean_ms": time.mean_ms,
            "median_ms": time.median_ms,
            "p95_ms": time.p95_ms,
            "draft_ms": sum(record.draft_ms or 0.0 for record in records),
            "wait_ms": sum(record.expert_wait_ms or 0.0 for record in records),
            "union": mean_union(records),
            "cold_beyond_root": sum(layer.cold_beyond_root for layer in layers),
            "cold_beyond_kept": sum(layer.cold_beyond_kept for layer in layers),
            **{
                name: totals.get(name)
                for name in (
                    "miss",
                    "late",
                    "evicted",
                    "bytes_read",
                    "prefetched_bytes",
                )
            },
        }


def _kind(case: Case) -> Kind:
    return next(kind for kind in WRITTEN if kind == case["kind"])


def _memory(case: Case) -> Memory:
    load_ = float(case["load"])
    return Memory(slots=int(case["slots"]), load=load_) if load_ else Memory()


def _layer_ms(model: Model) -> float:
    """What a layer of a one-row window takes, the median of some, ms."""
    engine = model.engine()
    text = [i % model.config.vocab_size for i in range(_CONTEXT + _TIMED)]
    engine.prefill(text[:_CONTEXT])
    for root in text[_CONTEXT:]:
        window = engine.run([root])
        engine.finish(window, stop_ids=())
        engine.commit(window, keep=1)
    times = [r.total_ms or 0.0 for r in engine.trace if not r.headless]
    return statistics.median(times) / model.config.num_hidden_layers


def _placed(model: Model, memory: Memory, layer_ms: float, stack: ExitStack) -> Model:
    """The model with its experts where `memory` says; its slots are empty."""
    if memory.slots is None:
        return model
    floats: Floats = "bfloat16" if model.dtype == "bfloat16" else "float32"
    nbytes = CheckpointSource(model.checkpoint, kind=floats).layout.record_bytes
    throttle = Throttle(nbytes / (memory.load * layer_ms * 1e3))
    found = load(
        model.checkpoint.path,
        dtype=floats,
        experts=Streaming(slots=memory.slots, throttle=throttle),
    )
    assert found.pool is not None
    stack.callback(found.pool.close)
    return found
