"""What a draft costs is weighed: given prices, measured ones, and the rate of both."""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from strata_nb import Model
from strata_nb.draft import Draft, Given, Hybrid, MtpDrafter, SuffixLookup, Timed
from strata_nb.draft.prices import price_of


class Draws:
    """Right by luck, and says how long it takes to say so."""

    def __init__(
        self,
        name: str,
        chance: float,
        *,
        matches: bool = True,
        spend: Callable[[], None] = lambda: None,
    ) -> None:
        self.name, self._chance, self._matches = name, chance, matches
        self._luck, self._spend = random.Random(name), spend
        self.asked = 0
        self.coming: Sequence[int] = ()

    def assign(self, tokens: Sequence[int]) -> None:
        """Nothing."""

    def append(self, tokens: Sequence[int]) -> None:
        """Nothing."""

    def propose(self, most: int) -> Draft:
        """Of what comes, each token right by chance; sometimes nothing."""
        self.asked += 1
        self._spend()
        length = self._luck.randrange(4) if self._chance else 2
        right = [self._luck.random() < self._chance for _ in range(min(most, length))]
        tokens = zip(self.coming, right, strict=False)
        match = 4 if self._matches and self._luck.random() < 0.5 else None
        return Draft(tuple(t if r else t + 1 for t, r in tokens), match_length=match)


def windows(
    hybrid: Hybrid,
    drafters: Sequence[Draws],
    count: int,
    *,
    spend: Callable[[int], None] = lambda drafts: None,
) -> Iterator[Draft]:
    """Drafts of `count` windows of a text that nothing but luck foresees."""
    text = random.Random(3)
    hybrid.assign([text.randrange(100)])
    for _ in range(count):
        coming = [text.randrange(100) for _ in range(8)]
        for drafter in drafters:
            drafter.coming = coming
        draft = hybrid.propose(7)
        yield draft
        spend(len(draft.tokens))
        pairs = zip(draft.tokens, coming, strict=False)
        right = sum(1 for _ in itertools.takewhile(lambda p: p[0] == p[1], pairs))
        hybrid.append(coming[: right + 1])


def rate(hybrid: Hybrid, name: str, draft: Draft, length: int, cost: float) -> float:
    """As the counts say it, written a second time."""
    rates, whole, product = hybrid.rates(name), 1.0, 1.0
    for place in range(length):
        product *= rates.at(draft.match_length, place)
        whole += product
    return whole / (1 + 0.25 * length + cost)


@pytest.mark.parametrize("chances", [*itertools.product((0.2, 0.6, 0.9), repeat=2)])
@pytest.mark.parametrize("price", [0.02, 0.3, 1.0])
def test_nothing_that_was_asked_for_has_a_better_rate(
    chances: tuple[float, float], price: float
) -> None:
    drafters = [Draws("cheap", chances[0]), Draws("dear", chances[1])]
    costs = {"cheap": 0.01, "dear": price}
    hybrid = Hybrid(*drafters, prices=Given(costs, row=0.25))
    seen = set()
    for draft in windows(hybrid, drafters, 150):
        offers = hybrid._asked
        spent = sum(costs[name] for name in offers)
        every = {
            (name, length): rate(hybrid, name, offer, length, spent)
            for name, offer in offers.items()
            for length in range(len(offer.tokens) + 1)
        }
        best = max(every.values(), default=0.0)
        chosen = hybrid.chosen
        if chosen is None:
            assert draft.tokens == ()
            assert best <= 1 / (1 + spent) + 1e-12
        else:
            length = len(draft.tokens)
            assert draft.tokens == offers[chosen].tokens[:length] != ()
            assert every[chosen, length] == pytest.approx(best)
        seen.add(chosen)
        # One that is not asked is one of which the counts expect no better rate.
        if "dear" not in offers:
            least = max(best, 1 / (1 + spent))
            answers = [*hybrid.rates("dear").answers(7)]
            hoped = sum(
                share
                * max(
                    (1 + e) / (1 + 0.25 * n + spent + price)
                    for n, e in enumerate(reach)
                )
                for share, reach in answers
            )
            assert hoped <= least + 1e-12
    assert len(seen) > 1


@pytest.mark.parametrize(("price", "every"), [(0.25, 25), (0.5, 50), (0.01, 1)])
def test_one_that_does_not_pay_is_asked_at_the_promised_share(
    price: float, every: int
) -> None:
    drafters = [Draws("cheap", 0.9), Draws("dear", 0.0, matches=False)]
    hybrid = Hybrid(*drafters, prices=Given({"dear": price}), retry=0.01)
    asked = []
    for _ in windows(hybrid, drafters, 400):
        asked.append("dear" in hybrid._asked)
    places = [at for at, was in enumerate(asked) if was]
    # Whatever was hoped for at first, it is soon known better.
    late = [at for at in places if at >= 20]
    assert {b - a for a, b in itertools.pairwise(late)} == {every}
    assert len(places) - len(late) <= (20 if every == 1 else 4)
    assert price * len(late) <= 0.01 * 400 + price
    # Its counts went on, and nothing of it was taken.
    assert hybrid.rates("dear").at(None, 0) < 0.2
    assert drafters[1].asked == len(places)


def test_one_that_begins_to_be_right_is_found_out() -> None:
    drafters = [Draws("cheap", 0.1), Draws("dear", 0.0, matches=False)]
    hybrid = Hybrid(*drafters, prices=Given({"dear": 0.3}), retry=0.02)
    chosen = []
    for at, _ in enumerate(windows(hybrid, drafters, 600)):
        if at == 40:
            drafters[1]._chance = 0.95
        chosen.append(hybrid.chosen)
    # A draft that a retry has paid for may be taken.
    assert chosen[20:40].count("dear") <= 2
    assert chosen[-60:].count("dear") > 40


def test_a_draft_that_costs_more_than_it_brings_is_not_run() -> None:
    drafters = [Draws("one", 0.1), Draws("two", 0.1)]
    hybrid = Hybrid(*drafters, prices=Given(row=0.5))
    drafts = [len(draft.tokens) for draft in windows(hybrid, drafters, 200)]
    assert sum(drafts[100:]) < 20
    # Rows that cost nothing are all run.
    hybrid = Hybrid(*drafters, prices=Given(row=0.0))
    free = [len(draft.tokens) for draft in windows(hybrid, drafters, 200)]
    assert sum(free[100:]) > 150


def test_a_cut_draft_has_its_laws_and_chances_cut() -> None:
    class Lawful(Draws):
        def propose(self, most: int) -> Draft:
            return Draft((1, 2, 3), 4, np.eye(3), (0.9, 0.5, 0.1))

    hybrid = Hybrid(Lawful("one", 1), Draws("two", 0), prior=0.6, prices=Given(row=0.4))
    draft = hybrid.propose(7)
    assert draft == Draft((1, 2)[: len(draft.tokens)], 4, chances=(0.9, 0.5)[:1])
    assert draft.laws is not None
    assert draft.laws.tolist() == [[1, 0, 0]]


def test_the_same_prices_choose_the_same_and_others_do_not() -> None:
    def chosen(price: float) -> list[tuple[int, ...]]:
        drafters = [Draws("cheap", 0.4), Draws("dear", 0.9)]
        hybrid = Hybrid(*drafters, prices=Given({"dear": price}))
        return [draft.tokens for draft in windows(hybrid, drafters, 80)]

    assert chosen(0.5) == chosen(0.5)
    assert chosen(0.5) != chosen(5.0)


class Clock:
    """Goes on only when something is done."""

    def __init__(self) -> None:
        self.at = 7.0

    def __call__(self) -> float:
        return self.at

    def spend(self, seconds: float) -> None:
        """So long."""
        self.at += seconds


def test_measured_prices_are_those_of_the_clock() -> None:
    clock = Clock()
    drafters = [
        Draws("cheap", 0.7, spend=lambda: clock.spend(0.002)),
        Draws("dear", 0.9, spend=lambda: clock.spend(0.3)),
    ]
    prices = Timed(clock=clock)
    hybrid = Hybrid(*drafters, prices=prices)
    assert (prices.draft(drafters[1]), prices.window(3)) == (0.0, 1.6)
    for _ in windows(
        hybrid, drafters, 40, spend=lambda drafts: clock.spend(0.5 + 0.05 * drafts)
    ):
        pass
    assert prices.window(0) == 1.0
    assert prices.window(7) == pytest.approx(1.7)
    assert prices.draft(drafters[0]) == pytest.approx(0.004)
    assert prices.draft(drafters[1]) == pytest.approx(0.6)


def test_a_window_that_nobody_ran_is_not_timed() -> None:
    clock = Clock()
    prices = Timed(clock=clock)
    hybrid = Hybrid(Draws("one", 0), Draws("two", 0), prices=prices)
    hybrid.append([1])
    hybrid.propose(3)
    clock.spend(100.0)
    hybrid.assign([1, 2])
    hybrid.append([3])
    assert prices.window(3) == Timed().window(3)
    hybrid.propose(3)
    clock.spend(2.0)
    hybrid.append([4])
    assert prices._windows.keys() == {0}
    assert [*prices._windows[0]] == [2.0]


def test_times_that_make_no_sense_make_no_price_below_a_row() -> None:
    prices = Timed(clock=lambda: 0.0)
    # A wide window that looked quicker than a narrow one, on a busy machine.
    prices.ran(1, 3.0)
    prices.ran(3, 2.0)
    assert prices.window(7) == 1.0
    prices = Timed(clock=lambda: 0.0)
    prices.ran(1, 1.0)
    prices.ran(3, 9.0)
    assert prices.window(5) == pytest.approx(2.0)
    prices = Timed(clock=lambda: 0.0)
    prices.ran(0, 0.0)
    prices.drafted(SuffixLookup(), 1.0)
    assert (prices.window(5), prices.draft(SuffixLookup())) == (2.0, 0.0)


def test_what_drafters_say_is_taken_where_no_price_is_given(small: Model) -> None:
    head = MtpDrafter(depth=2)
    assert Given().draft(SuffixLookup()) == 0.0
    assert Given().draft(head) == price_of(head) == pytest.approx(0.6)
    assert Given({"mtp": 2.0}).draft(head) == 2.0
    assert MtpDrafter(depth=1).price == pytest.approx(0.3)
    # On a model of two layers the head is a greater part of a window.
    head.follow(small.engine())
    assert head.price == pytest.approx(0.6 * 9 / (small.config.num_hidden_layers + 1))


def test_misuse_is_refused_in_words() -> None:
    with pytest.raises(
        ValueError, match=r"`row` is -1, wanted windows of one row, 0 o"
    ):
        Given(row=-1)
    with pytest.raises(ValueError, match=r"the price of 'mtp' is nan, wanted windows"):
        Given({"mtp": float("nan")})
    wrong = Draws("wrong", 0)
    wrong.price = -2.0  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"the price of 'wrong' is -2.0, wanted"):
        Hybrid(SuffixLookup(), wrong).propose(3)
    with pytest.raises(ValueError, match=r"`retry` is 1.5, wanted 0 to 1"):
        Hybrid(SuffixLookup(), wrong, retry=1.5)
