"""Suffix lookup: against its definition, the public reports, and itself anew."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strata_nb
from helpers import after, greedy
from scripted import generated
from strata_nb import Model
from strata_nb.draft import NO_DRAFT, Draft, SuffixLookup
from strata_nb.sampling import GREEDY, Sampler
from strata_nb.session import Session


def looked_up(
    text: Sequence[int],
    *,
    minimum: int,
    most: int,
    occurrences: int = 4,
    extension: int = 64,
) -> Draft:
    """The definition, by trying every place."""
    order = min(minimum, 3)
    end = len(text)
    places = [
        at
        for at in range(order, end)
        if list(text[at - order : at]) == list(text[end - order :])
    ]
    best = (0, 0)
    for at in places[-occurrences:]:
        length = order
        while (
            length < min(extension, at)
            and text[at - length - 1] == text[end - length - 1]
        ):
            length += 1
        best = max(best, (length, at))
    if best[0] < minimum or most < 1:
        return Draft()
    return Draft(tuple(text[best[1] : best[1] + most]), match_length=best[0])


texts = st.lists(st.integers(0, 2), max_size=60)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(0, 2), max_size=4)),
        st.tuples(st.just("assign"), texts),
        st.tuples(st.just("cut"), st.integers(0, 60)),
    ),
    max_size=8,
)


@given(
    text=texts,
    changes=changes,
    minimum=st.integers(1, 6),
    most=st.integers(0, 5),
    occurrences=st.integers(1, 5),
    extension=st.sampled_from([6, 7, 64]),
)
def test_it_proposes_what_its_definition_says(
    text: list[int],
    changes: list[tuple[str, Any]],
    minimum: int,
    most: int,
    occurrences: int,
    extension: int,
) -> None:
    how = {"minimum": minimum, "occurrences": occurrences, "extension": extension}
    drafter = SuffixLookup(most=7, **how)
    now: list[int] = []
    for verb, given_ in [("assign", text), *changes]:
        if verb == "append":
            now = [*now, *given_]
            drafter.append(given_)
        else:
            # A cut and something else: a text that shares a prefix.
            now = [*now[:given_], 1] if verb == "cut" else list(given_)
            drafter.assign(now)
        wanted = looked_up(now, most=most, **how)
        assert drafter.propose(most) == drafter.propose(most) == wanted
        assert len(drafter) == len(now)
        fresh = SuffixLookup(most=7, **how)
        fresh.append(now)
        assert drafter._behind == fresh._behind


@pytest.mark.parametrize(
    ("text", "minimum", "most", "wanted"),
    [
        ([7, 8, 1, 2, 9, 9, 1, 2], 3, 3, []),
        ([7, 8, 1, 2, 9, 9, 1, 2], 2, 3, [9, 9, 1]),
        ([1, 2, 3, 4, 1, 2, 3], 3, 5, [4, 1, 2, 3]),
        ([1, 2, 3] * 3, 3, 7, [1, 2, 3]),
        ([5, 5, 5], 3, 3, []),
        ([5, 5, 5, 5], 3, 3, [5]),
        ([], 3, 3, []),
        ([5], 1, 3, []),
        ([5, 6, 5], 1, 3, [6, 5]),
    ],
)
def test_small_matches(
    text: list[int], minimum: int, most: int, wanted: list[int]
) -> None:
    drafter = SuffixLookup(minimum=minimum, most=most)
    drafter.assign(text)
    assert list(drafter.propose(7).tokens) == wanted


def test_equal_tokens_have_an_answer() -> None:
    drafter = SuffixLookup()
    drafter.assign([5] * 100_000)
    assert drafter.propose(3) == Draft((5,), match_length=64)


def test_the_longest_match_wins_and_of_equal_ones_the_newest() -> None:
    drafter = SuffixLookup(minimum=3, most=1)
    long, short = [9, 1, 2, 3, 4], [1, 2, 3, 5]
    drafter.assign([*long, *short, 9, 1, 2, 3])
    assert drafter.propose(1) == Draft((4,), match_length=4)
    drafter.assign([0, 1, 2, 3, 4, 0, 1, 2, 3, 5, 0, 1, 2, 3])
    assert drafter.propose(1).tokens == (5,)


def test_only_the_newest_places_are_looked_at() -> None:
    best = [8, 9, 1, 2, 3, 4]
    others = [7, 1, 2, 3, 5] * 3
    text = [*best, *others, 8, 9, 1, 2, 3]
    for occurrences, token in ((3, 5), (4, 4)):
        drafter = SuffixLookup(minimum=3, occurrences=occurrences)
        drafter.assign(text)
        assert drafter.propose(1).tokens == (token,)


def test_places_are_those_of_three_tokens_whatever_the_minimum() -> None:
    text = [8, 1, 2, 3, 7, *[9, 1, 2, 3, 5] * 4, 8, 1, 2, 3]
    for drafter, wanted in (
        (SuffixLookup(), NO_DRAFT),
        (SuffixLookup(occurrences=5, most=1), Draft((7,), match_length=4)),
    ):
        drafter.assign(text)
        assert drafter.propose(3) == wanted
    drafter = SuffixLookup(most=1)
    drafter.assign(text[:5] + text[10:])
    assert drafter.propose(3) == Draft((7,), match_length=4)


def test_another_text_costs_what_differs() -> None:
    class Counting(dict[bytes, list[int]]):
        looked = 0

        def get(self, *gram: Any) -> Any:
            self.looked += 1
            return super().get(*gram)

    text = list(range(5000))
    drafter = SuffixLookup()
    drafter.assign(text)
    index = drafter._behind = Counting(drafter._behind)
    for new, cost in (
        ([*text, 7], 1),
        (text, 0),
        ([*text[:-2], 1, 2, 3], 3),
        (text[:100], 0),
        *(([*text[:cut], 9, 9], 2) for cut in range(99, 60, -1)),
    ):
        index.looked = 0
        drafter.assign(new)
        assert index.looked == cost
        fresh = SuffixLookup()
        fresh.append(new)
        assert drafter._behind == fresh._behind


def test_a_match_is_long_enough_at_the_extension() -> None:
    """The newest place that reaches it wins, however long an older one would be."""
    line = list(range(10, 30))
    text = [*line, 1, *line[5:], 2, *line]
    for extension, wanted in ((16, (1, 20)), (15, (2, 15)), (64, (1, 20))):
        drafter = SuffixLookup(most=1, extension=extension)
        drafter.assign(text)
        token, length = wanted
        wanted_draft = Draft((token,), match_length=min(length, extension))
        assert drafter.propose(1) == wanted_draft, extension


@pytest.mark.parametrize("period", [1, 2, 3, 63, 64, 65])
def test_text_that_repeats_is_met_one_period_before_its_end(period: int) -> None:
    text = [at % period for at in range(500)]
    drafter = SuffixLookup(most=7)
    drafter.assign(text)
    follows = tuple(text[500 - period :][:7])
    assert drafter.propose(7) == Draft(follows, match_length=64)


def test_defaults_are_the_recommendation() -> None:
    drafter = SuffixLookup()
    drafter.assign([1, 2, 3, 4, 5, 6, 7, 1, 2, 3])
    assert drafter.propose(7) == NO_DRAFT
    drafter.append([4])
    assert drafter.propose(7) == Draft((5, 6, 7), match_length=4)
    assert drafter.propose(2).tokens == (5, 6)
    assert drafter.propose(0) == drafter.propose(-1) == NO_DRAFT


def test_tokens_of_any_kind_of_integer_come_back_as_int() -> None:
    drafter = SuffixLookup(minimum=1)
    drafter.assign(np.array([5, 6, 5], np.int32))  # type: ignore[arg-type]
    drafter.append(iter((np.uint16(7), 5)))  # type: ignore[arg-type]
    found = drafter.propose(3)
    assert found == Draft((7, 5), match_length=1)
    assert [type(token) for token in found.tokens] == [int, int]
    drafter.append([2**31 - 1])
    assert len(drafter) == 6


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ("1 2", TypeError, "wanted token ids, got text; use `model.encode"),
        (b"12", TypeError, "got text"),
        ({1, 2}, TypeError, "wanted token ids in order, got a set"),
        ([1, 2.0], TypeError, "float"),
        ([1, 2**31], ValueError, "token 2147483648 is outside any vocabulary; wanted"),
    ],
)
@pytest.mark.parametrize("verb", ["assign", "append"])
def test_what_is_no_token_is_refused_and_changes_nothing(
    verb: str, wrong: Any, error: type[Exception], message: str
) -> None:
    drafter = SuffixLookup(minimum=2)
    drafter.assign([1, 2, 3, 1, 2])
    with pytest.raises(error, match=message):
        getattr(drafter, verb)(wrong)
    assert len(drafter) == 5
    assert drafter.propose(1).tokens == (3,)


@pytest.mark.parametrize("verb", ["assign", "append"])
def test_an_interrupt_leaves_no_half_of_an_index(verb: str) -> None:
    class Interrupted(dict[bytes, list[int]]):
        def __setitem__(self, gram: bytes, places: list[int]) -> None:
            if len(self) == 7:
                raise KeyboardInterrupt
            super().__setitem__(gram, places)

    text, more = [1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]
    drafter = SuffixLookup()
    drafter.assign(text)
    drafter._behind = Interrupted(drafter._behind)
    with pytest.raises(KeyboardInterrupt):
        drafter.assign([*text, *more]) if verb == "assign" else drafter.append(more)
    assert len(drafter) == 0
    for now in ([*text, *more, *text], text):
        drafter.assign(now)
        fresh = SuffixLookup()
        fresh.assign(now)
        assert drafter.propose(3) == fresh.propose(3)
        assert drafter._behind == fresh._behind


def test_nothing_of_an_old_request_is_proposed() -> None:
    first, second = list(range(100, 150)) * 2, [1, 2, 3, 4, 1, 2, 3, 4]
    drafter = SuffixLookup()
    drafter.assign(first)
    assert drafter.propose(3) == Draft((100, 101, 102), match_length=50)
    drafter.assign(second)
    assert set(drafter.propose(3).tokens) <= set(second)
    drafter.assign([*range(200, 205)])
    assert drafter.propose(3) == Draft()
    drafter.append(first[:5])
    assert drafter.propose(3) == Draft()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"minimum": 0}, "`minimum` is 0, wanted 1 or more"),
        ({"most": 0}, "`most` is 0, wanted 1 or more"),
        ({"occurrences": 0}, "`occurrences` is 0, wanted 1 or more"),
        ({"minimum": 9, "extension": 8}, r"`minimum` \(9\) or more"),
    ],
)
def test_settings_are_refused(how: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SuffixLookup(**how)


def test_three_requests_of_different_lengths_are_as_fresh_ones(small: Model) -> None:
    texts = [[i % 5 for i in range(n)] for n in (50, 5, 50)]
    session = Session(small, drafter=SuffixLookup(minimum=3), checkpoints=0)
    for text in texts:
        fresh = Session(small, drafter=SuffixLookup(minimum=3))
        got, wanted = (s.reply(text, max_new=20) for s in (session, fresh))
        assert (got.tokens, got.offered, got.accepted) == (
            wanted.tokens,
            wanted.offered,
            wanted.accepted,
        )


def test_a_proposed_token_is_checked_like_any_other(small: Model) -> None:
    engine = after(small, [1, 1])
    right = greedy(engine.fork(), 1, 1)[0]
    wrong = (right + 1) % 17
    drafter = SuffixLookup(minimum=1, most=1)
    drafter.assign([1, wrong, 1])
    assert drafter.propose(3).tokens == (wrong,)
    window = engine.run([1, *drafter.propose(3).tokens])
    result = engine.finish(window, stop_ids=())
    assert (result.accepted, result.emitted) == (0, (right,))


def test_the_first_proposed_token_is_checked_too() -> None:
    """Prompt 1 1 1, lookup proposes 1, the target wants 2: 2 comes out."""
    drafter = SuffixLookup(minimum=1, most=1)
    drafter.assign([1, 1, 1])
    assert drafter.propose(1).tokens == (1,)

    def propose(text: Sequence[int], most: int) -> Draft:
        drafter.assign(text)
        return drafter.propose(most)

    tally: dict[str, int] = {}
    two = np.array([0.0, 0.5, 1.0])
    found = generated(
        lambda _: two,
        Sampler(GREEDY),
        [1, 1, 1],
        2,
        width=2,
        propose=propose,
        tally=tally,
    )
    assert found == [2, 2]
    assert (tally["windows"], tally["offered"], tally["accepted"]) == (2, 1, 0)


def test_the_text_is_the_same_with_lookup(small: Model) -> None:
    ids = [1, 2, 3, 4] * 6
    engine = after(small, ids[:-1])
    wanted = greedy(engine.fork(), ids[-1], 40)
    drafter = SuffixLookup(minimum=1, most=7)

    def drafts(text: Sequence[int]) -> tuple[int, ...]:
        drafter.assign([*ids[:-1], *text])
        return drafter.propose(7).tokens

    found = strata_nb.generate(engine, ids[-1], max_new=40, drafts=drafts, stop_ids=())
    assert found.tokens == tuple(wanted)
    assert 0 < found.accepted < found.offered


def test_a_match_of_four_promises_nothing() -> None:
    """A text in which four tokens come again and again, and never go on alike."""
    text = [token for i in range(200) for token in (1, 2, 3, 4, 100 + i)]

    def says(now: Sequence[int]) -> np.ndarray:
        logits = np.zeros(400)
        logits[text[len(now)]] = 1.0
        return logits

    def propose(text: Sequence[int], most: int) -> Draft:
        drafter.assign(text)
        draft = drafter.propose(most)
        if draft.tokens:
            matches.append(draft.match_length or 0)
        return draft

    matches: list[int] = []
    tally: dict[str, int] = {}
    drafter = SuffixLookup(minimum=4, most=3)
    got = generated(
        says, Sampler(GREEDY), text[:5], 990, width=4, propose=propose, tally=tally
    )
    assert got == text[5:995]
    # Every proposal rests on four tokens, and every one is wrong.
    assert set(matches) == {4}
    assert len(matches) > 190
    assert (tally["accepted"], tally["offered"]) == (0, 3 * len(matches))
