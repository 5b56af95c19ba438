"""Which of several candidate chains is verified."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from strata_nb import theory
from strata_nb.policies.acceptance import Acceptance
from strata_nb.policies.length import Offer, Paid, paid_for
from strata_nb.policies.routes import Routes
from strata_nb.trace import WindowRecord


class Select(Protocol):
    """Chooses one of several drafts; whichever it is, the text is the same."""

    @property
    def name(self) -> str:
        """For records and reports."""

    def choose(self, offers: Sequence[Offer], *, root: int) -> int:
        """The index of the draft to verify.

        Args:
            offers: two or more drafts, each with one token or more, the one that a
                drafter would propose by itself first.
            root: the token before them.
        """

    def learn(self, record: WindowRecord) -> None:
        """Take in a window that was committed, of a prompt or of a text."""


@dataclass(kw_only=True)
class Likeliest:
    """The draft of which most tokens are expected to be accepted; of equals the first.

    Attributes:
        acceptance: chances where the drafter says none.
    """

    acceptance: Acceptance = field(default_factory=Acceptance)

    @property
    def name(self) -> str:
        """For records and reports."""
        return "likeliest"

    def choose(self, offers: Sequence[Offer], *, root: int) -> int:
        """The largest sum of path products."""
        sums = [math.fsum(products(self.acceptance, offer)) for offer in offers]
        return max(range(len(sums)), key=lambda at: sums[at])

    def learn(self, record: WindowRecord) -> None:
        """Count what became of the drafts."""
        if not record.headless:
            self.acceptance.learn(_verified(record))


@dataclass(kw_only=True)
class EcoSpec:
    """The draft that brings most tokens for each expert that it adds.

    After EcoSpec (arXiv 2607.12696; papers, 9). There nodes of a tree are chosen one by
    one (`theory.economical_nodes`); the engine verifies chains, so that here whole
    chains compete: the sum of their path products over the experts that they add to
    those of the root, and `eps`. There a small model was trained to predict routes;
    here they are looked up: the experts that a token used before. A lookup does not
    know its routes beforehand, and what a token used in one place it may not use in
    another. Lossless: a wrong guess costs time alone.

    Attributes:
        eps: experts that a draft counts for beside those that it adds, above 0. Not
            published.
        layers: "mean" over the layers, or "sum". Not published.
        from_root: the root's experts are paid for already. Not published.
        price: what a new expert counts, by layer and number; None: 1 each.
        routes: the experts that tokens used before.
        acceptance: chances where the drafter says none.

    Raises:
        ValueError: `eps` or `layers` is out of range.
    """

    eps: float = 1.0
    layers: theory.Layers = "mean"
    from_root: bool = True
    price: theory.Price | None = None
    routes: Routes = field(default_factory=Routes)
    acceptance: Acceptance = field(default_factory=Acceptance)

    def __post_init__(self) -> None:
        theory.worth(0.0, 0.0, eps=self.eps)
        theory.new_experts((), (), layers=self.layers)

    @property
    def name(self) -> str:
        """For records and reports."""
        return "ecospec"

    def choose(self, offers: Sequence[Offer], *, root: int) -> int:
        """The largest score; of equals the first."""
        scores = [self.score(offer, root=root) for offer in offers]
        return max(range(len(scores)), key=lambda at: scores[at])

    def score(self, offer: Offer, *, root: int) -> float:
        """Tokens expected for each expert added, of one draft after `root`."""
        own: list[set[int]] = [set() for _ in range(self.routes.layers)]
        for token in offer.tokens:
            for layer, experts in enumerate(self.routes.predict(token)):
                own[layer] |= experts
        paid = (
            self.routes.predict(root)
            if self.from_root
            else [frozenset[int]()] * len(own)
        )
        added = theory.new_experts(own, paid, layers=self.layers, price=self.price)
        expected = math.fsum(products(self.acceptance, offer))
        return theory.worth(expected, added, eps=self.eps)

    def learn(self, record: WindowRecord) -> None:
        """Note which experts its tokens used, and what became of its drafts."""
        self.routes.learn(record)
        if not record.headless:
            self.acceptance.learn(_verified(record))


def _verified(record: WindowRecord) -> Paid:
    """What became of the drafts of a window: those that were chosen, no others."""
    return replace(paid_for(record), emitted=())


def products(acceptance: Acceptance, offer: Offer) -> list[float]:
    """Chance of each token of a draft and all before it."""
    chances = acceptance.chances(offer)
    return list(itertools.accumulate(chances, lambda all_, one: all_ * one))
