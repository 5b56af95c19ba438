"""Kernels: the router fused and not, and an engine with kernels and without."""

from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from strata_kernels._select import using, where_kernels_run
from strata_kernels.route.launch import (
    FUSED,
    Routed,
    Rules,
    Slots,
    fits,
    route_fused,
    route_unfused,
)
from strata_kernels.route.planned import route_reference
from strata_nb.faults import KERNEL_FAULTS
from strata_nb.gates.gate_2.pair import not_asked
from strata_nb.gates.records import Case, CaseResult, Finding, Profile, Scalar
from strata_nb.gates.stage.places import start_of
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.travel import Way, Windows, compare, travel
from strata_nb.models.qwen4_exp import NOTHING, Imposed
from strata_nb.packs import ModelConfig

TOUCHES = ("experts",)
WEIGHTS = 1e-6
"""Of the root mean square of a row's weights, between a kernel and float64."""

RULES = {
    "natural": Rules(),
    "bonus": Rules("bonus", 3, 0.25, 0.0, 0, 2.0, 0.0),
    "budget": Rules("budget"),
}
WINDOWS: Windows = (((5, 9, 2), 2),)
"""Tokens, as places in a text, and keep. The host runs a thread at a time."""

_NOWHERE = "no GPU runs the kernels here, and there is no C++ compiler for the host"


class _Rounding(Rig):
    """A rig whose ways may differ by rounding, as two texts do on any device."""

    exact = False


# ---------------------------------------------------------------- fused and unfused


def settings(
    config: ModelConfig, profile: Profile, context: int
) -> list[dict[str, Scalar]]:
    """Rows of the window, and how experts compete.

    Args:
        config: of the model.
        profile: "quick" takes a width, the others all.
        context: cells that the sequence may have.
    """
    widths = (4,) if profile == "quick" else range(1, 9)
    if not fits(config.num_experts, config.num_experts_per_tok):
        return []
    if start_of(config, "below", 2) + max(widths) > context:
        return []
    return [{"T": width, "rules": name} for width in widths for name in RULES]


def ask(case: Case, rig: Rig) -> CaseResult:
    """Route the logits of a window's rows, in every layer, three ways and once more.

    Fused and unfused are equal to the bit, and both are float64's choice. Of a twin,
    which has other logits in all rows but two, these two are equal to the bit.
    """
    target = where_kernels_run()
    if target is None:
        return not_asked(case, _NOWHERE)
    config, rules = rig.model.config, RULES[str(case["rules"])]
    fault = KERNEL_FAULTS.get(rig.fault or "")
    kernel = FUSED if fault is None else fault.fused()
    how: Any = {"top_k": config.num_experts_per_tok, "target": target}
    how["renormalise"] = config.norm_topk_prob
    width = int(case["T"])
    found: list[Finding] = []
    for layer, logits in enumerate(_logits(rig, width)):
        there = _slots(config, seed=layer)
        fused = route_fused(mx.array(logits), rules, there, kernel=kernel, **how)
        other = route_unfused(mx.array(logits), rules, there, **how)
        found += _unlike(fused, other, layer, by="rule")
        how_wanted = {k: v for k, v in how.items() if k != "target"}
        wanted = route_reference(mx.array(logits), rules, there, **how_wanted)
        found += _unlike(other, wanted, layer, by="serial")
        changed = np.concatenate([logits[:2], logits[2:][::-1] * 0.5])
        twin = route_fused(mx.array(changed), rules, there, kernel=kernel, **how)
        found += _unlike(_rows(fused), _rows(twin), layer, by="twin")
    return CaseResult(case, tuple(found), ("experts",))


def _logits(rig: Rig, width: int) -> Sequence[np.ndarray]:
    """Router logits of one window's rows, float32 [T, E], a layer each."""

    def made() -> Sequence[np.ndarray]:
        engine = rig.reference(rig.text(start_of(rig.model.config, "below", 2)))
        window = engine.run(rig.text(width, seed=60))
        return [np.array(one.router_logits, np.float32) for one in window.layers]

    return rig.known(f"gate_2 routers {width}", made)


def _slots(config: ModelConfig, *, seed: int) -> Slots:
    """Half of the experts are ready, each in a slot."""
    experts = config.num_experts
    order = np.random.default_rng(seed).permutation(experts).astype(np.int32)
    count = max(1, experts // 2)
    slots = np.full(experts, -1, np.int32)
    slots[order[:count]] = np.arange(count)
    ready = (slots >= 0).astype(np.int32)
    turn = np.random.default_rng(seed + 1).permutation(count).astype(np.int32)
    return Slots(*(mx.array(a) for a in (ready, slots, turn, order[:count])))


def _rows(routed: Routed) -> tuple[mx.array, mx.array]:
    """What rows 0 and 1 use: nothing of it hangs on the rows behind them."""
    return routed.ids[:2], routed.weights[:2]


def _unlike(
    got: Sequence[mx.array], wanted: Sequence[mx.array], layer: int, *, by: Any
) -> Iterator[Finding]:
    """The first output that differs: to the bit, or weights of float64 by rounding."""
    for name, one, other in zip(Routed._fields, got, wanted, strict=False):
        ours, theirs = np.array(one), np.array(other)
        size = float(np.abs(ours - theirs).max())
        allowed = 0.0
        if by == "serial" and name == "weights":
            allowed = WEIGHTS * float(np.sqrt((theirs**2).mean()))
        if not size <= allowed:
            note = f"`{name}` of the router: {_WORDS[by]}"
            yield Finding("fault", by, "commit", "experts", layer, size=size, note=note)
            return


_WORDS = {
    "rule": "fused and unfused differ",
    "serial": "it differs from float64",
    "twin": "rows 0 and 1 hang on the rows behind them",
}


# ---------------------------------------------------------------- kernels or references


def engine_settings(
    config: ModelConfig, profile: Profile, context: int
) -> list[dict[str, Scalar]]:
    """Where windows start, and the mode of the fold.

    Args:
        config: of the model.
        profile: "quick" takes one place, where every row has to choose its blocks.
        context: cells that the sequence may have.
    """
    places = ("above",) if profile == "quick" else ("below", "above")
    modes = (("lazy", False), ("eager", True))
    return [
        {"context": name, "fold": fold, "partial": partial}
        for name in places
        for fold, partial in (modes[1:] if profile == "quick" else modes)
        if start_of(config, name, 3) + 16 <= context
    ]


def ask_engine(case: Case, rig: Rig) -> CaseResult:
    """Go by kernels, by kernels once more with other rejected rows, by references."""
    target = where_kernels_run()
    if target is None:
        return not_asked(case, _NOWHERE)
    loose = _Rounding(rig.model, fault=rig.fault, floor=rig.floor)
    ids = rig.text(start_of(rig.model.config, str(case["context"]), 3))
    options = {"fold": case["fold"], "partial": case["partial"]}
    text, after = rig.text(12, seed=9), rig.text(2, seed=5)
    windows = [([text[i] for i in places], keep) for places, keep in WINDOWS]
    twin = [
        ([*rows[:keep], *after[: len(rows) - keep]], keep) for rows, keep in windows
    ]

    def go(kernels: str, windows: Windows, **more: Any) -> Way:
        # The start is the references': all ways begin with the same bits.
        with using("reference"):
            start = rig.subject if more.get("subject") else rig.reference
            engine = start(ids, **options, **more.get("imposed", {}))
        with using(kernels):
            return travel(engine, windows, after, rig=loose)

    way = go(target, windows, subject=True)

    def again(kernels: str, windows: Windows, imposed: Imposed) -> Way:
        return go(
            kernels,
            windows,
            imposed={} if imposed is NOTHING else {"imposed": imposed},
        )

    found = [
        *compare(way, lambda i: again(target, twin, i), by="twin", rig=loose),
        *compare(way, lambda i: again("reference", windows, i), by="replay", rig=loose),
    ]
    return CaseResult(case, tuple(found), way.changed)
