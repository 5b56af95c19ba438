"""What the tests of several routings need: one choice, from shares written by hand."""

from collections.abc import Collection, Sequence

import mlx.core as mx
import numpy as np

from strata_kernels.route import shares
from strata_nb.policies.routing import Routing, Seen

ROWS = (
    (0.40, 0.30, 0.10, 0.10, 0.05, 0.05),
    (0.35, 0.05, 0.40, 0.10, 0.05, 0.05),
    (0.10, 0.40, 0.05, 0.30, 0.10, 0.05),
    (0.05, 0.10, 0.30, 0.05, 0.05, 0.45),
)
"""Shares of four rows: two experts of six each."""


def logits_of(rows: Sequence[Sequence[float]]) -> mx.array:
    """Router logits with these shares, [T, E]."""
    return mx.log(mx.array([list(row) for row in rows]))


def seen(
    resident: Collection[int] | None, *, experts: int, headless: bool = False
) -> Seen:
    ready = None if resident is None else np.isin(np.arange(experts), list(resident))
    return Seen(0, ready, headless=headless)


def ids(
    routing: Routing,
    logits: mx.array,
    *,
    top_k: int,
    resident: Collection[int] | None = None,
    headless: bool = False,
) -> list[list[int]]:
    """The experts of each row, -1 for places that are not used."""
    view = seen(resident, experts=logits.shape[1], headless=headless)
    found: list[list[int]] = (
        routing.choose(logits, top_k=top_k, seen=view).recorded().tolist()
    )
    return found


def weights(
    routing: Routing,
    logits: mx.array,
    *,
    top_k: int,
    resident: Collection[int] | None = None,
    renormalise: bool = True,
) -> np.ndarray:
    """The weights that a model would give to what is chosen, [T, K]."""
    view = seen(resident, experts=logits.shape[1])
    chosen = routing.choose(logits, top_k=top_k, seen=view)
    return np.array(
        shares(logits, chosen.ids, renormalise=renormalise, used=chosen.used)
    )


def cold_by_rows(chosen: Sequence[Sequence[int]], resident: Collection[int]) -> int:
    """Distinct experts of some rows that were not ready."""
    return len({i for row in chosen for i in row} - {-1} - {*resident})
