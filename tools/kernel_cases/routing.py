"""The router: choice, weights, union and plan."""

from typing import Any

import mlx.core as mx
import numpy as np

from strata_kernels._prelude.kernel import Target
from strata_kernels.route.launch import Rules, Slots, route_fused, route_unfused
from strata_kernels.route.planned import route_reference
from strata_kernels.route.reference import route
from tools.kernel_cases.case import Arrays, Case, Sizes

_RULES = {
    "natural": Rules(),
    "bonus": Rules("bonus", 3, 0.75, 0.0, 1, 1.25, 0.0),
    "budget": Rules("budget"),
}


def routed(sizes: Sizes, rows: int, kind: str) -> Case:
    """The fused router, against NumPy in float64 and against three launches."""
    rng = np.random.default_rng(rows)
    logits = mx.array(rng.normal(size=(rows, sizes.experts)).astype(np.float32))
    there, rules = _slots(sizes, rng), _RULES[kind]
    settings: Any = {"top_k": sizes.top_k, "renormalise": True}

    def by_kernel(start: mx.array, target: Target) -> Arrays:
        ids, weights, *plan = route_fused(
            start, rules, there, target=target, **settings
        )
        return weights, ids, *plan

    def reference(start: mx.array) -> Arrays:
        ids, weights, *plan = route_reference(start, rules, there, **settings)
        return weights, ids, *plan

    def plain(start: mx.array) -> Arrays:
        # Without union and plan: those are made on the host.
        ids, weights = route(start, **settings)
        return weights, ids

    def unfused(target: Target) -> tuple[Arrays, Arrays]:
        one = route_fused(logits, rules, there, target=target, **settings)
        return one, route_unfused(logits, rules, there, target=target, **settings)

    return Case(
        name=f"route, {kind}, T = {rows}",
        rows=rows,
        start=logits,
        kernel=by_kernel,
        wanted=reference,
        rel=1e-5,
        exact=frozenset(range(1, 6)),
        plain={"reference": plain},
        bits={"one launch is three": unfused},
    )


def _slots(sizes: Sizes, rng: np.random.Generator) -> Slots:
    """Half of the slots hold experts, most of which are ready."""
    count = min(sizes.slots, sizes.experts) // 2
    experts = rng.permutation(sizes.experts)[:count]
    numbers = rng.permutation(sizes.slots)[:count]
    owner, slots = np.full(sizes.slots, -1), np.full(sizes.experts, -1)
    owner[numbers], slots[experts] = experts, numbers
    ready = (slots >= 0) & (rng.random(sizes.experts) < 0.8)
    order = rng.permutation(sizes.slots)
    return Slots(*(mx.array(a.astype(np.int32)) for a in (ready, slots, order, owner)))
