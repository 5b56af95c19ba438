"""Logits to probabilities."""

import numpy as np

from strata_nb.sampling.settings import Sampling


def law(logits: np.ndarray, sampling: Sampling) -> np.ndarray:
    """The distribution that a token is drawn from.

    Of equal logits the lowest indices are kept.

    Args:
        logits: [V]; minus infinity is a token that cannot come.
        sampling: temperature above 0, top-k, top-p, min-p, in this order.

    Returns:
        float64 [V], its sum 1.

    Raises:
        ValueError: no token is left, a logit is NaN or plus infinity, or the
            temperature is 0.
    """
    if sampling.temperature == 0:
        raise ValueError("at temperature 0 there is no law; take the best token")
    z = np.asarray(logits, np.float64)
    # The difference first: it is 0 for the best token, however low the temperature.
    with np.errstate(over="ignore"):
        p: np.ndarray = np.exp((z - best(z)) / sampling.temperature)
    if 0 < sampling.top_k < len(p):
        p[~_largest(p, sampling.top_k)] = 0
    p /= p.sum()
    if sampling.top_p < 1:
        p = _top_p(p, sampling.top_p)
        p /= p.sum()
    if sampling.min_p > 0:
        p[p < sampling.min_p * p.max()] = 0
        p /= p.sum()
    return p


def best(logits: np.ndarray) -> float:
    """The largest logit.

    Raises:
        ValueError: it is no number, or no token is left.
    """
    found = float(logits.max())
    if found == -np.inf:
        raise ValueError(
            "no token is left to choose from: bans and processors have set all logits "
            "to minus infinity; allow at least one"
        )
    if not np.isfinite(found):
        raise ValueError(
            f"a logit is {found} after bans, penalties and processors; wanted numbers, "
            "or minus infinity for a token that cannot come"
        )
    return found


def _largest(p: np.ndarray, count: int) -> np.ndarray:
    """Which are the `count` largest; of equal ones the first."""
    border = np.partition(p, len(p) - count)[len(p) - count]
    kept: np.ndarray = p > border
    kept[np.flatnonzero(p == border)[: count - int(kept.sum())]] = True
    return kept


def _top_p(p: np.ndarray, mass: float) -> np.ndarray:
    # All tokens below this together are less than what may be left out, so that none
    # of them is in; half of it, since sums are rounded. It saves most of the sorting.
    there = np.flatnonzero(p > (1 - mass) / len(p) / 2)
    order = there[np.argsort(-p[there], kind="stable")]
    before = np.cumsum(p[order]) - p[order]
    kept = order[before < mass]
    found = np.zeros_like(p)
    found[kept] = p[kept]
    return found
