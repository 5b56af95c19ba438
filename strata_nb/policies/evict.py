"""EVICT: verify the part of a draft that brings most for what it costs."""

import itertools
from dataclasses import dataclass, field

from strata_nb import theory
from strata_nb.policies.acceptance import Acceptance
from strata_nb.policies.costs import Cost, Costs
from strata_nb.policies.length import Offer, Paid


@dataclass(kw_only=True)
class Evict:
    """A whole draft is made, and cut where Ehat / C is highest; of equals the shortest.

    After EVICT (arXiv 2605.00342; papers, 8), on chains, which is what the engine
    verifies; `theory.kept_nodes` is the form for trees. Ehat is the sum of the
    products of the drafter's chances, C the time of a window. There C was measured
    beforehand (`CostTable`); without a table it is learned. Lossless.

    Attributes:
        costs: time of windows by their rows; k drafts are k + 1 rows.
        count_bonus: the token that each window brings anyhow counts in Ehat; the paper
            leaves it open.
        plain: no draft at all is a candidate, by the tokens that a window emits. The
            paper always verifies one or more: False.
        acceptance: chances where the drafter says none, as lookups do. Where it says
            some they are taken as they are, uncalibrated, as the paper does.
    """

    costs: Cost = field(default_factory=Costs)
    count_bonus: bool = False
    plain: bool = True
    acceptance: Acceptance = field(default_factory=lambda: Acceptance(calibrate=False))

    @property
    def name(self) -> str:
        """For records and reports."""
        return f"evict{', with bonus' if self.count_bonus else ''}"

    def rows(self, position: int, *, most: int, ratio: int) -> int:
        """`most`: the draft is made before it is cut."""
        return most

    def cut(self, offer: Offer) -> int:
        """Rows of the best part of the draft."""
        self.acceptance.offer(offer)
        if not offer.tokens:
            return 1
        one, *costs = self.costs.curve(1 + len(offer.tokens), position=offer.position)
        chances = self.acceptance.chances(offer)
        scores = list(itertools.accumulate(chances, lambda q, p: q * p))
        drafts = theory.best_prefix(scores, costs, count_bonus=self.count_bonus)
        emitted = 1 + sum(scores[:drafts])
        if self.plain and emitted * one <= costs[drafts - 1]:
            return 1
        return 1 + drafts

    def learn(self, paid: Paid) -> None:
        """Take in what the window cost and kept."""
        self.costs.learn(paid)
        self.acceptance.learn(paid)
