"""AcceptMoE: rows count by their chance of being committed (approximate)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np

from strata_nb.policies.choosing import (
    Array,
    Ids,
    Mask,
    chosen_of,
    mask_of,
    order_of,
    scores_of,
    shares_of,
    strongest_of,
)
from strata_nb.policies.moe_spec import largest
from strata_nb.policies.routing import NATURAL, Chosen, Seen
from strata_nb.trace import WindowRecord


@dataclass(frozen=True)
class AcceptMoe:
    """The root's experts, and as many more as the demand of all rows is wide.

    After AcceptMoE (arXiv 2608.02989). Each row's natural experts are weighted by the
    chance that its position is committed; beside the root's anchors the set takes as
    many experts as the effective rank (the exponential of the entropy) of what is left
    of the demand. Where experts are in slots, cold ones of little demand are pruned,
    as long as no more natural choices are displaced than the set displaces already.
    Rows then take their K strongest of the set. Rows of a prompt choose naturally, and
    in windows of one row this is the natural choice.

    Attributes:
        phat: chance that a row at draft position d is committed; the root's, 1, comes
            first. Of one drafter and model: `committed_shares` measures it.
        beta: how much the chance counts, 0 or more.
        protect_anchors: anchors are never pruned; the paper does not say.
        whole_window: every row counts, so that those that are rejected change the
            experts of those that are kept.
        lossless: it is not.

    Raises:
        ValueError: a number out of range. `choose` raises it when a window has more
            rows than `phat` has positions.
    """

    phat: tuple[float, ...]
    beta: float = 0.5
    protect_anchors: bool = True
    whole_window: bool = field(default=True, init=False)
    lossless: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        phat = tuple(float(p) for p in self.phat)
        object.__setattr__(self, "phat", phat)
        if not phat or phat[0] != 1 or not all(0 <= p <= 1 for p in phat):
            raise ValueError(
                f"`phat` is {phat}, wanted chances from 0 to 1, the first of them 1: "
                "the root is always committed"
            )
        if not (math.isfinite(self.beta) and self.beta >= 0):
            raise ValueError(f"`beta` is {self.beta}, wanted a finite number from 0 on")
        if not isinstance(self.protect_anchors, bool):
            raise TypeError(
                f"`protect_anchors` must be True or False, got {self.protect_anchors!r}"
            )

    @property
    def name(self) -> str:
        """For records and reports."""
        chances = ", ".join(f"{p:.4g}" for p in self.phat)
        bare = "" if self.protect_anchors else "; anchors may go"
        return f"acceptmoe(beta {self.beta:g}; {chances}{bare}), approximate"

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        """K experts of each row, [T, K].

        Raises:
            ValueError: nothing is known of a row's position.
        """
        rows = len(logits)
        scores = None if seen.headless or rows == 1 else scores_of(logits)
        if scores is None:
            return NATURAL.choose(logits, top_k=top_k, seen=seen)
        if rows > len(self.phat):
            raise ValueError(
                f"the window has {rows} rows, but `phat` ends with position "
                f"{len(self.phat) - 1}; measure it with windows as wide"
            )
        # A chain has one row at each position.
        alpha = importance(range(rows), self.phat, beta=self.beta)
        natural = mask_of(order_of(scores)[:, :top_k], experts=scores.shape[1])
        demand = demand_of(shares_of(scores), natural, alpha)
        allowed = eligible(demand, natural[0])
        if seen.resident is not None:
            kept = seen.resident | natural[0] if self.protect_anchors else seen.resident
            displaced = natural.sum(axis=0)
            allowed = pruned(allowed, demand, displaced, kept=kept, top_k=top_k)
        return chosen_of(strongest_of(scores, allowed, top_k=top_k))


def importance(
    positions: Sequence[int], phat: Sequence[float], *, beta: float
) -> Array:
    """How much each row counts, `phat_d^beta / sqrt(rows at d)`, [T].

    Args:
        positions: of each row: 0 the root, d the d-th token of a draft.
        phat: chance of being committed, by position.
        beta: how much the chance counts.
    """
    at = np.asarray(positions)
    alpha: Array = np.asarray(phat)[at] ** beta / np.sqrt(np.bincount(at)[at])
    return alpha


def demand_of(shares: Array, natural: Mask, alpha: Array) -> Array:
    """What rows want of each expert, their natural experts alone, [E].

    Args:
        shares: the router's probabilities, [T, E].
        natural: natural experts of each row, [T, E].
        alpha: how much each row counts, [T].
    """
    demand: Array = np.where(natural, alpha[:, None] * shares, 0.0).sum(axis=0)
    return demand


def effective_rank(demand: Array) -> int:
    """The exponential of the entropy of a demand, rounded up; 0 of none."""
    there = demand[demand > 0]
    if not there.size:
        return 0
    q = there / there.sum()
    # Of m equals the sum may be a little above m, which is not one more.
    return math.ceil(math.exp(-float((q * np.log(q)).sum())) - 1e-9)


def eligible(demand: Array, anchors: Mask) -> Mask:
    """Anchors, and the largest of the others, as many as their effective rank, [E]."""
    rest = np.where(anchors, 0.0, demand)
    others = largest(np.where(anchors, -np.inf, demand), effective_rank(rest))
    return anchors | others


def pruned(
    allowed: Mask,
    demand: Array,
    displaced: Ids,
    *,
    kept: Mask,
    top_k: int,
) -> Mask:
    """`allowed` without cold experts of little demand, [E].

    One goes after the other, the least demand first and of equals the highest number,
    until the next would displace more than the set had displaced already.

    Args:
        allowed: the set, [E].
        demand: of each expert, [E].
        displaced: natural choices that each expert's absence turns away, [E].
        kept: experts that stay in any case, such as ready ones, [E].
        top_k: the set's least size, K.
    """
    budget = int(displaced[~allowed].sum())
    most = max(0, int(allowed.sum()) - top_k)
    from_least = order_of(demand)[::-1]
    going = [e for e in from_least if allowed[e] and not kept[e]][:most]
    fits = np.cumsum(displaced[going]) <= budget
    found = allowed.copy()
    found[np.array(going, int)[fits]] = False
    return found


def committed_shares(trace: Iterable[WindowRecord]) -> tuple[float, ...]:
    """Chance that a draft at each position was committed, the root's 1 first.

    Counted among windows that offered so many drafts, and not conditional on the
    draft before. Prompts and windows whose keep was forced say nothing and are left
    aside. It ends with the last position that any window offered.

    Args:
        trace: records of one drafter and model, naturally routed.

    Raises:
        ValueError: no window offered a draft.
    """
    windows = [r for r in trace if not r.headless and not r.forced and r.offered]
    if not windows:
        raise ValueError(
            "no window of the trace offered a draft that was not forced; record some "
            "with the drafter that is to be used"
        )
    deepest = max(r.offered for r in windows)
    found = [1.0]
    for position in range(1, deepest + 1):
        there = [r for r in windows if r.offered >= position]
        found.append(sum(r.accepted >= position for r in there) / len(there))
    return tuple(found)
