"""A hard budget on experts, and what drafts use under it."""

from collections.abc import Iterator

import numpy as np

from strata_nb.faults import ROUTING_FAULTS
from strata_nb.gates.gate_2.streamed import WINDOWS, opened
from strata_nb.gates.records import Case, CaseResult, Finding, Profile, Scalar
from strata_nb.gates.stage.places import start_of
from strata_nb.gates.stage.rig import Rig
from strata_nb.packs import ModelConfig
from strata_nb.policies import HardBudget
from strata_nb.window import Window

TOUCHES = ("experts",)


def settings(
    config: ModelConfig, profile: Profile, context: int
) -> list[dict[str, Scalar]]:
    """Slots a layer: as many as a row has experts, and twice as many.

    Args:
        config: gives the experts of a row, k.
        profile: the same for all.
        context: cells that the sequence may have.
    """
    k, every = config.num_experts_per_tok, config.num_experts
    longest = sum(keep for _, keep in WINDOWS)
    if start_of(config, "below", 2) + longest > context:
        return []
    counts = dict.fromkeys((min(k, every), min(2 * k, every)))
    return [{"context": "below", "slots": n, "ahead": False} for n in counts]


def ask(case: Case, rig: Rig) -> CaseResult:
    """Run windows, and look at the experts of every draft in every layer."""
    fault = ROUTING_FAULTS.get(rig.fault or "")
    routing = HardBudget() if fault is None else fault.routing()
    engine = opened(case, rig).engine(routing=routing)
    engine.prefill(rig.text(start_of(rig.model.config, "below", 2)))
    found: list[Finding] = []
    bound = False
    for number, (width, keep) in enumerate(WINDOWS):
        window = engine.run(rig.text(width, seed=60 + number))
        engine.finish(window, stop_ids=())
        found += _beyond(window)
        natural = width > 1 and any(
            _is_bound(layer.router_logits, layer.expert_ids) for layer in window.layers
        )
        bound = bound or natural
        engine.commit(window, keep=keep, force=True)
    return CaseResult(case, tuple(found), ("experts",) if bound else ())


def _beyond(window: Window) -> Iterator[Finding]:
    """Experts of drafts that neither the root uses nor were ready; once a layer."""
    for number, layer in enumerate(window.layers):
        assert layer.resident_ids is not None
        allowed = {*layer.expert_ids[0].tolist(), *layer.resident_ids}
        used = {int(i) for i in layer.expert_ids[1:].ravel()}
        beyond = sorted(used - allowed - {-1})
        if beyond:
            note = f"drafts use {beyond}, neither the root's nor ready"
            yield Finding(
                "fault",
                "rule",
                "commit",
                "experts",
                number,
                size=len(beyond),
                note=note,
            )


def _is_bound(logits: np.ndarray | None, ids: np.ndarray) -> bool:
    """Whether the budget has kept a row from an expert that it would have chosen."""
    assert logits is not None
    natural = np.argsort(-logits, axis=1, kind="stable")[:, : ids.shape[1]]
    return any(
        {*a} != {*b} for a, b in zip(natural.tolist(), ids.tolist(), strict=True)
    )
