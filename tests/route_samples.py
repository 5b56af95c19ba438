"""Windows of router logits, and where experts are when each begins."""

import mlx.core as mx
import numpy as np

from strata_kernels.route.launch import Slots


def logits_sample(
    rows: int, experts: int, *, seed: int = 0, ties: bool = False
) -> mx.array:
    """Router logits, float32 [T, E]; with `ties` most of them are equal to others."""
    drawn = np.random.default_rng(seed).normal(size=(rows, experts))
    return mx.array((np.round(drawn * 2) / 2 if ties else drawn).astype(np.float32))


def slots_sample(
    experts: int, slots: int, *, seed: int = 0, share: float = 0.8
) -> Slots:
    """Some experts in slots, and a `share` of them ready."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(min(slots, experts) // 2, min(slots, experts)))
    there, numbers = rng.permutation(experts)[:count], rng.permutation(slots)[:count]
    owner, places = np.full(slots, -1), np.full(experts, -1)
    owner[numbers], places[there] = there, numbers
    ready = (places >= 0) & (rng.random(experts) < share)
    order = rng.permutation(slots)
    return Slots(*(mx.array(a.astype(np.int32)) for a in (ready, places, order, owner)))
