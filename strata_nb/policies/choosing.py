"""Choosing experts on the host: scores, ranks, and the strongest of those allowed.

What plans over all rows of a window is worked out in float64 in NumPy, so that it is
the same on every device. A stable sort takes the lowest expert of equals.
"""

from typing import Any, TypeAlias

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from strata_nb.policies.routing import Chosen

Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Ids: TypeAlias = npt.NDArray[np.integer[Any]]


def scores_of(logits: mx.array) -> Array | None:
    """Router logits as float64 [T, E]; None where one is not finite.

    Nothing can be planned then: the natural choice carries it to the logits, where
    the engine refuses the window.
    """
    scores = np.array(logits.astype(mx.float32)).astype(np.float64)
    return scores if np.isfinite(scores).all() else None


def order_of(scores: Array) -> Ids:
    """Experts of each row, the strongest first, [T, E]."""
    order: Ids = np.argsort(-scores, axis=-1, kind="stable")
    return order


def shares_of(scores: Array) -> Array:
    """The router's probabilities, [T, E]."""
    wide = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: Array = wide / wide.sum(axis=-1, keepdims=True)
    return shares


def mask_of(ids: Ids, *, experts: int) -> Mask:
    """Which experts each row names, bool [T, E]."""
    mask = np.zeros((len(ids), experts), bool)
    np.put_along_axis(mask, ids, True, axis=1)
    return mask


def strongest_of(scores: Array, allowed: Mask, *, top_k: int) -> Ids:
    """The `top_k` strongest of those allowed, by rank, [T, K].

    Args:
        scores: finite, [T, E].
        allowed: [E] for all rows or [T, E]; at least `top_k` in each row.
        top_k: experts a row.
    """
    assert allowed.sum(axis=-1).min() >= top_k
    return order_of(np.where(allowed, scores, -np.inf))[:, :top_k]


def chosen_of(ids: Ids) -> Chosen:
    """Experts [T, K] by rank, all of them in use."""
    return Chosen(mx.array(ids.astype(np.uint32)))
