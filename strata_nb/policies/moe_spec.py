"""MoE-Spec: all rows of a window share a budget of experts (approximate)."""

import operator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import mlx.core as mx
import numpy as np

from strata_nb.policies.choosing import (
    Array,
    Mask,
    chosen_of,
    order_of,
    scores_of,
    shares_of,
    strongest_of,
)
from strata_nb.policies.routing import NATURAL, Chosen, Seen

How: TypeAlias = Literal["substitute", "truncate"]


@dataclass(frozen=True)
class MoeSpec:
    """Each layer uses `budget` experts, those of the largest summed shares.

    After MoE-Spec (arXiv 2602.16052). Rows whose experts are left out choose again
    among the others, or do without; weights are normalised as the model does. All rows
    count alike, hopeless drafts as the root. Rows of a prompt choose naturally, and
    with a budget of all experts and in windows of one row this is the natural choice.

    Attributes:
        budget: experts of a layer and window, K or more.
        how: "substitute": a row takes its K strongest of these; "truncate": what a row
            loses adds nothing, and a row may lose all.
        keep_mass: under "truncate", whether what a row keeps carries the weight of all
            K, which the paper does not say; None: as the model's router does.
        whole_window: every row counts, so that those that are rejected change the
            experts of those that are kept.
        lossless: it is not.

    Raises:
        ValueError: `budget` is below 1, `how` is not one of these, or `keep_mass` goes
            with another. `choose` raises it when `budget` is below K.
    """

    budget: int
    how: How = "substitute"
    keep_mass: bool | None = None
    whole_window: bool = field(default=True, init=False)
    lossless: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if isinstance(self.budget, bool) or operator.index(self.budget) < 1:
            raise ValueError(f"`budget` is {self.budget}, wanted 1 or more experts")
        if self.how not in get_args(How):
            raise ValueError(
                f"`how` is {self.how!r}, wanted {' or '.join(map(repr, get_args(How)))}"
            )
        if self.keep_mass is not None and self.how != "truncate":
            raise ValueError(
                f"`keep_mass` is {self.keep_mass}, but with {self.how!r} no place is "
                "unused; leave it out, or truncate"
            )

    @property
    def name(self) -> str:
        """For records and reports."""
        mass = {None: "", True: ", mass kept", False: ", mass lost"}[self.keep_mass]
        return f"moe-spec({self.budget}, {self.how}{mass}), approximate"

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        """K experts of each row, [T, K]; with "truncate" some places are unused.

        Raises:
            ValueError: the budget is too small for one row.
        """
        if self.budget < top_k:
            raise ValueError(
                f"`budget` is {self.budget}, but a row of this model uses {top_k} "
                f"experts; wanted {top_k} or more"
            )
        free = seen.headless or len(logits) == 1
        scores = None if free else scores_of(logits)
        if scores is None:
            chosen = NATURAL.choose(logits, top_k=top_k, seen=seen)
            if seen.headless or self.how == "substitute":
                return chosen
            # A row alone loses nothing, but a record of it may say that it did.
            every = mx.ones(chosen.ids.shape, mx.bool_)
            return replace(chosen, used=every, keep_mass=self.keep_mass)
        allowed = largest(shares_of(scores).sum(axis=0), self.budget)
        if self.how == "substitute":
            return chosen_of(strongest_of(scores, allowed, top_k=top_k))
        natural = order_of(scores)[:, :top_k]
        record = np.where(allowed[natural], natural, -1)
        # Those that stay come first, by rank.
        first = np.argsort(record < 0, axis=1, kind="stable")
        chosen = Chosen.of_record(np.take_along_axis(record, first, axis=1))
        return replace(chosen, keep_mass=self.keep_mass)


def largest(demand: Array, count: int) -> Mask:
    """The `count` experts of the largest demand [E], the lower one of equals."""
    mask = np.zeros(len(demand), bool)
    mask[order_of(demand)[:count]] = True
    return mask
