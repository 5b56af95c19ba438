"""No length policy can bend the law of drawn drafts, whatever it would go by."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from scripted_model import constant
from strata_nb import Model, Sampling, Session
from strata_nb.draft import Draft, Sampled
from strata_nb.policies import Offer, Paid
from strata_nb.policies.length import UNKNOWN

LOGITS = (1.0, 0.4, 0.0, -0.3, -0.8)
OWN = np.array([0.1, 0.15, 0.2, 0.25, 0.3])
TOKENS = 3000


class Says(Sampled):
    """Says how likely its tokens were, and ends behind an even one."""

    def propose(self, most: int) -> Draft:
        whole = super().propose(min(most, 2))
        assert most < 1 or whole.laws is not None
        if whole.laws is None:
            return whole
        count = 1 if whole.tokens[0] % 2 == 0 else len(whole.tokens)
        chances = tuple(float(OWN[token]) for token in whole.tokens[:count])
        return Draft(
            whole.tokens[:count],
            laws=whole.laws[:count],
            chances=chances,
            planned=len(whole.tokens),
        )


class Peeks:
    """Verifies one draft where `wants` says so, none elsewhere."""

    name = "peeks"

    def __init__(self, wants: Callable[[Offer], bool]) -> None:
        self.wants = wants
        self.offers: list[Offer] = []
        self.paid: list[Paid] = []

    def rows(self, position: int, *, most: int, ratio: int) -> int:
        return most

    def cut(self, offer: Offer) -> int:
        self.offers.append(offer)
        return 1 + bool(offer.tokens and self.wants(offer))

    def learn(self, paid: Paid) -> None:
        self.paid.append(paid)


def by_token(offer: Offer) -> bool:
    return offer.tokens[0] < 2


def by_chance(offer: Offer) -> bool:
    return offer.chances is None or offer.chances[0] > 0.2


def by_count(offer: Offer) -> bool:
    return len(offer.tokens) == 2


def text(model: Model, policy: Peeks, *, rule: str, seed: int) -> Sequence[int]:
    sampling = Sampling(temperature=1.0, rule=rule, seed=seed)  # type: ignore[arg-type]
    drafter = Says(lambda _: OWN, seed=seed)
    session = Session(model, drafter=drafter, sampling=sampling, length=policy)
    return session.reply([0, 1], max_new=TOKENS, stop_ids=()).tokens


def surprise(tokens: Sequence[int]) -> float:
    """Chi-square against the model's law, 4 degrees of freedom."""
    law = np.exp(LOGITS) / np.exp(LOGITS).sum()
    seen = np.bincount(tokens, minlength=len(LOGITS))
    return float(((seen - law * len(tokens)) ** 2 / (law * len(tokens))).sum())


@pytest.mark.parametrize("wants", [by_token, by_chance, by_count])
def test_the_law_is_the_models_whatever_a_policy_goes_by(
    tiny: Model, wants: Callable[[Offer], bool]
) -> None:
    policy = Peeks(wants)
    tokens = text(constant(tiny, LOGITS), policy, rule="ratio", seed=3)
    # One in a thousand texts is further away.
    assert surprise(tokens) < 18.5
    assert len(policy.offers) > 100


def test_what_was_drawn_is_not_shown_nor_told(tiny: Model) -> None:
    policy = Peeks(lambda _: True)
    text(constant(tiny, LOGITS), policy, rule="ratio", seed=1)
    shown = [offer for offer in policy.offers[:-2] if offer.tokens]
    assert {offer.tokens for offer in shown} == {(UNKNOWN, UNKNOWN)}
    assert {offer.chances for offer in shown} == {None}
    # What the windows decided is told, so that acceptance can be learned.
    assert {paid.emitted for paid in policy.paid[:-2]} == {()}
    assert {paid.decided for paid in policy.paid[:-2]} == {1}


def test_by_equality_the_draft_may_be_looked_at(tiny: Model) -> None:
    """There the text is the one without drafts, whatever is verified."""
    model, policy = constant(tiny, LOGITS), Peeks(by_token)
    tokens = text(model, policy, rule="equality", seed=1)
    sampling = Sampling(temperature=1.0, seed=1)
    plain = Session(model, sampling=sampling)
    assert tokens == plain.reply([0, 1], max_new=TOKENS, stop_ids=()).tokens
    assert all(UNKNOWN not in offer.tokens for offer in policy.offers)
    assert any(paid.emitted for paid in policy.paid)
