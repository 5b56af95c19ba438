"""The draft that brings most for its price has the window, by counts and prices."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from strata_nb.draft import (
    NO_DRAFT,
    Constant,
    Draft,
    Drafter,
    Given,
    Hybrid,
    SuffixLookup,
    history_of,
)
from strata_nb.draft.rates import Rates


class Says:
    """Proposes what it is told to, and remembers when it was asked."""

    def __init__(self, name: str, *tokens: int, match: int | None = None) -> None:
        self.name = name
        self.next = Draft(tokens, match_length=match)
        self.asked: list[int] = []
        self.prior = 0.5

    def assign(self, tokens: Sequence[int]) -> None:
        """Nothing."""

    def append(self, tokens: Sequence[int]) -> None:
        """Nothing."""

    def propose(self, most: int) -> Draft:
        """The next one."""
        self.asked.append(most)
        return replace(self.next, tokens=self.next.tokens[:most])


def hybrid(
    *drafters: Drafter, row: float = 0.0, retry: float = 0.0, **costs: float
) -> Hybrid:
    """Of prior 0.5 and weight 2; what has no price costs nothing."""
    prices = Given(costs, row=row)
    made = Hybrid(*drafters, prior=0.5, weight=2.0, prices=prices, retry=retry)
    made.assign([1, 2, 3])
    return made


def test_rates_count_what_was_decided() -> None:
    rates = Rates(prior=0.5, weight=2)
    assert rates.at(None, 0) == 0.5
    assert rates.expected(None, 3) == 0.5 + 0.25 + 0.125
    # Accepted, accepted, rejected; the fourth was never decided on its own.
    rates.tell(None, (5, 6, 7, 8), (5, 6, 9))
    assert [rates.at(None, place) for place in range(4)] == [2 / 3, 2 / 3, 1 / 3, 0.5]
    # All that came agrees; what would have come next is not known.
    rates.tell(None, (5, 6, 7), (5,))
    assert [rates.at(None, place) for place in range(3)] == [3 / 4, 2 / 3, 1 / 3]
    assert rates.expected(None, 2) == pytest.approx(3 / 4 + 3 / 4 * 2 / 3)
    # The target went another way: what agrees behind that is chance.
    rates.tell(None, (5, 6, 7), (9, 6, 7))
    assert [rates.at(None, place) for place in range(3)] == [3 / 5, 2 / 3, 1 / 3]


def test_matches_of_other_lengths_count_apart() -> None:
    rates = Rates(prior=0.5, weight=2)
    rates.tell(5, (1,), (2,))
    assert rates.at(4, 0) == rates.at(7, 0) == 1 / 3
    assert rates.at(3, 0) == rates.at(8, 0) == rates.at(None, 0) == 0.5


def test_what_a_drafter_may_answer() -> None:
    rates = Rates(prior=0.5, weight=2)
    assert [*rates.answers(2)] == [(1.0, [0, 0.5, 0.75])]
    rates.tell(None, (1, 2), (9,))
    # One answer of two that are wanted: the other is assumed, no longer than that one.
    assert [*rates.answers(9)] == [
        (0.5, [0, 1 / 3, 1 / 3 + 1 / 6]),
        (0.5, [0, 0.5, 0.75]),
    ]
    rates.tell(5, (), (9,))
    rates.tell(None, (1, 2), (9,))
    assert [*rates.answers(1)] == [(2 / 3, [0, 0.25]), (1 / 3, [0])]


def test_the_longer_expected_draft_wins_and_the_first_of_equal_ones() -> None:
    one, two = Says("one", 7, match=4), Says("two", 8, 9)
    both = hybrid(one, two)
    assert both.propose(3).tokens == (8, 9)
    assert both.chosen == "two"
    two.next = Draft((8,))
    assert both.propose(3) == Draft((7,), match_length=4)
    assert both.chosen == "one"
    one.next = two.next = NO_DRAFT
    assert both.propose(3) == NO_DRAFT
    assert both.chosen is None


def test_a_dear_drafter_that_cannot_win_is_not_asked() -> None:
    cheap, dear = Says("cheap", 7, 8), Says("dear", 5, 6)
    both = hybrid(cheap, dear, dear=0.1)
    assert both.propose(2).tokens == (7, 8)
    # It may only be as good, and would have to be paid.
    assert dear.asked == []
    both.append([9])
    # The cheap one was wrong: now the other may be better.
    assert both.propose(2).tokens == (5, 6)
    both.append([5, 6, 4])
    assert both.rates("dear").at(None, 1) == 2 / 3
    assert both.rates("cheap").at(None, 0) == 1 / 4


def test_a_draft_that_was_not_taken_counts_as_well() -> None:
    cheap, dear = Says("cheap", 7), Says("dear", 5, 6)
    both = hybrid(cheap, dear)
    assert both.propose(2).tokens == (5, 6)
    both.append([7, 1])
    assert both.rates("cheap").at(None, 0) == 2 / 3
    assert both.rates("dear").at(None, 0) == 1 / 3
    # What was judged is not judged again.
    both.append([2])
    assert both.rates("cheap").at(None, 0) == 2 / 3


def test_chances_of_its_own_stand_for_what_was_not_counted_yet() -> None:
    rates = Rates(prior=0.5, weight=2)
    assert rates.reach(None, 2, (0.75, 0.25)) == [0, 0.75, 0.75 + 0.75 * 0.25]
    rates.tell(None, (1, 2), (1, 9))
    assert rates.reach(None, 2, (0.75, 0.25)) == [
        0,
        2.5 / 3,
        pytest.approx(2.5 / 3 + 2.5 / 3 * 0.5 / 3),
    ]


def test_rows_of_unsure_drafts_are_not_run() -> None:
    """At row 0.4, one more row wants more than 0.4 of what the window has so far."""
    head = Says("head", 5, 6)
    two = hybrid(Says("none"), head, row=0.4)
    head.next = Draft((5, 6), chances=(0.9, 0.9))
    assert two.propose(7).tokens == (5, 6)
    head.next = Draft((5, 6), chances=(0.9, 0.2))
    assert two.propose(7).tokens == (5,)
    head.next = Draft((5, 6), chances=(0.2, 0.9))
    assert two.propose(7).tokens == ()


def test_chances_of_a_drawn_draft_decide_nothing() -> None:
    """Were unlikely tokens cut, those that the rule "ratio" emits would be too few."""
    head, laws = Says("head", 5, 6), np.full((2, 8), 1 / 8)
    for chances in ((0.9, 0.9), (0.1, 0.1)):
        two = hybrid(Says("none"), head, row=0.1)
        head.next = Draft((5, 6), chances=chances, laws=laws)
        assert two.propose(7).tokens == (5, 6)


def test_where_a_draw_ended_a_draft_decides_nothing() -> None:
    """Which drafter has the window hangs on what was planned, not on what was drawn."""
    lookup, head = Says("lookup", 7), Says("head", 5, 6, 8)
    laws = np.full((3, 8), 1 / 8)
    for tokens in ((5,), (5, 6), (5, 6, 8)):
        two = hybrid(lookup, head, row=0.05)
        head.next = Draft(tokens, laws=laws[: len(tokens)], planned=3)
        assert two.propose(7).tokens == tokens
    # A draft of that length which nothing was drawn for loses to the first of equals.
    head.next = Draft((5,))
    assert hybrid(lookup, head, row=0.05).propose(7).tokens == (7,)


def test_what_a_drafter_says_of_itself_decides_whether_it_is_asked() -> None:
    """One token for 0.6 of a window: worth it from an acceptance of 0.6 on."""
    sure, unsure = Says("sure", 5), Says("unsure", 6)
    sure.prior, unsure.prior = 0.7, 0.5
    for drafter, asked in ((sure, [1]), (unsure, [])):
        two = hybrid(Says("none"), drafter, sure=0.6, unsure=0.6)
        two.propose(1)
        assert drafter.asked == asked


def test_another_text_begins_without_counts() -> None:
    one, two = Says("one", 7), Says("two", 5, 6)
    both = hybrid(one, two)
    both.propose(2)
    both.append([9])
    both.assign([1, 2, 3, 9, 4])
    assert both.rates("two").at(None, 0) == 1 / 3
    both.propose(2)
    both.assign([1, 2, 3, 9, 4])
    both.append([5])
    # Nothing was proposed since the text was assigned.
    assert both.rates("two").at(None, 0) == 1 / 3
    both.assign([1, 2, 3])
    assert both.rates("two").at(None, 0) == 0.5


def test_it_is_as_good_as_the_better_of_two_where_the_text_turns() -> None:
    """A text of phrases that come again, then of none: one drafter each."""
    draw = random.Random(1)
    phrase = [draw.randrange(100, 200) for _ in range(12)]
    text = phrase * 6 + [draw.randrange(50) for _ in range(60)]

    def windows(drafter: Drafter) -> int:
        drafter.assign(text[:24])
        at, count = 24, 0
        while at < len(text):
            draft = drafter.propose(3).tokens
            came = 1
            while came <= len(draft) and draft[came - 1 : came] == tuple(
                text[at + came - 1 : at + came]
            ):
                came += 1
            drafter.append(text[at : at + came])
            at, count = at + came, count + 1
        return count

    class Later:
        """Right in the second half alone."""

        name = "later"

        def assign(self, tokens: Sequence[int]) -> None:
            self.at = len(tokens)

        def append(self, tokens: Sequence[int]) -> None:
            self.at += len(tokens)

        def propose(self, most: int) -> Draft:
            right = text[self.at : self.at + most]
            return Draft(tuple(right if self.at >= 72 else [0] * most))

    alone = windows(SuffixLookup()), windows(Later())
    together = windows(Hybrid(SuffixLookup(), Later()))
    assert alone == (72, 63)
    assert together <= 12 + 15 + 3


def test_it_shows_the_history_of_the_one_that_has_it() -> None:
    both = hybrid(Constant([1]), SuffixLookup())
    both.append([4])
    assert both.name == "constant+suffix_lookup"
    assert [drafter.name for drafter in both.drafters] == ["constant", "suffix_lookup"]
    assert history_of(both) == (1, 2, 3, 4)
    assert history_of(hybrid(Says("one"), Says("two"))) is None


def test_misuse_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="got 1 drafters, wanted two or more"):
        Hybrid(Says("one"))
    with pytest.raises(ValueError, match=r"one name \(one, one\), wanted different"):
        Hybrid(Says("one"), Says("one"))
    with pytest.raises(ValueError, match=r"`prior` is 1.5, wanted 0 to 1"):
        Hybrid(Says("one"), Says("two"), prior=1.5)
    with pytest.raises(ValueError, match="`weight` is 0, wanted a number above 0"):
        Hybrid(Says("one"), Says("two"), weight=0)
    both = hybrid(Says("one"), Says("two"))
    with pytest.raises(TypeError, match="wanted token ids, got text"):
        both.append("text")  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        both.rates("three")
