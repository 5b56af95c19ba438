"""Drafters to study with."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import strata_nb
from helpers import after, greedy, prompt
from strata_nb import Model, Session
from strata_nb.draft import NO_DRAFT, Adversary, Constant, Drafter, Perfect, Typed

STOPS = ()


def test_typed_is_offered_until_something_is_emitted() -> None:
    drafter = Typed()
    assert drafter.propose(3) == NO_DRAFT
    drafter.type([4, 5, 6])
    drafter.assign([1, 2])
    assert drafter.propose(2).tokens == (4, 5)
    assert drafter.propose(0) == drafter.propose(-1) == NO_DRAFT
    assert drafter.propose(3).tokens == (4, 5, 6)
    drafter.append([4])
    assert drafter.propose(3) == NO_DRAFT
    drafter.type([7])
    drafter.type([8, 9])
    assert drafter.propose(3).tokens == (8, 9)


def test_perfect_replays_until_the_text_is_left() -> None:
    drafter = Perfect([1, 2, 3, 4, 5, 6])
    drafter.assign([1, 2])
    assert drafter.propose(2).tokens == (3, 4)
    drafter.append([3, 4, 5])
    assert drafter.propose(4).tokens == (6,)
    drafter.append([9])
    assert drafter.propose(4) == NO_DRAFT
    drafter.append([6])
    assert drafter.propose(4) == NO_DRAFT
    drafter.assign([1])
    assert drafter.propose(1).tokens == (2,)
    assert drafter.propose(0) == drafter.propose(-1) == NO_DRAFT
    drafter.assign([2])
    assert drafter.propose(1) == NO_DRAFT
    drafter.assign([1, 2, 3, 4, 5, 6])
    assert drafter.propose(1) == NO_DRAFT
    drafter.assign([])
    assert drafter.propose(1).tokens == (1,)
    assert drafter.propose(-1) == NO_DRAFT
    drafter.assign([1, 2, 3, 4, 5, 6])
    drafter.append([7])
    drafter.append([])
    assert drafter.propose(1) == NO_DRAFT


def test_the_adversary_is_never_right() -> None:
    drafter = Adversary([1, 2, 3, 6], vocabulary=7)
    drafter.assign([1])
    assert drafter.propose(9).tokens == (3, 4, 0)
    assert drafter.propose(2).tokens == (3, 4)
    assert drafter.propose(0) == drafter.propose(-1) == NO_DRAFT
    drafter.append([3])
    assert drafter.propose(9) == NO_DRAFT


def test_constant_stays_the_same() -> None:
    drafter = Constant([7, 8])
    drafter.assign([1])
    drafter.append([2])
    assert drafter.propose(1).tokens == (7,)
    assert drafter.propose(9).tokens == (7, 8)
    assert drafter.propose(-1).tokens == ()


@pytest.mark.parametrize(
    "drafter", [Typed(), Perfect([1]), Adversary([1], 2), Constant([1])]
)
def test_each_has_the_four_of_the_protocol(drafter: Drafter) -> None:
    assert drafter.name
    drafter.assign([])
    drafter.append([])
    assert drafter.propose(1).laws is None


@pytest.mark.parametrize("make", [Perfect, Constant, lambda text: Adversary(text, 9)])
def test_tokens_are_integers(make: Callable[[Sequence[int]], Drafter]) -> None:
    drafter = make(np.array([1, 2], np.int32))  # type: ignore[arg-type]
    drafter.assign([])
    tokens = drafter.propose(2).tokens
    assert [type(token) for token in tokens] == [int, int]
    with pytest.raises(TypeError, match="wanted token ids, got text"):
        make("of course")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="wanted token ids in order, got a set"):
        make({1, 2})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="float"):
        make([1.0])  # type: ignore[list-item]


def test_typed_takes_integers_alone() -> None:
    drafter = Typed()
    drafter.type([1])
    with pytest.raises(TypeError, match="got text"):
        drafter.type("2")  # type: ignore[arg-type]
    assert drafter.propose(2).tokens == (1,)


@pytest.mark.parametrize("vocabulary", [-1, 0, 1])
def test_with_one_token_nobody_is_wrong(vocabulary: int) -> None:
    message = f"`vocabulary` is {vocabulary}, wanted 2 or more"
    with pytest.raises(ValueError, match=message):
        Adversary([0], vocabulary)


def test_right_and_wrong_drafts_meet_the_model(small: Model) -> None:
    ids = prompt(small, 9)
    answer = greedy(after(small, ids[:-1]), ids[-1], 16)
    text = [*ids, *answer]

    def replied(drafter: Drafter) -> tuple[int, int, int]:
        session = Session(small, drafter=drafter)
        reply = session.reply(ids, max_new=16, stop_ids=STOPS)
        assert reply.tokens == tuple(answer)
        return reply.windows, reply.offered, reply.accepted

    # Two windows of eight rows; the last token of each is the model's own.
    assert replied(Perfect(text)) == (2, 14, 14)
    # 15 windows have room for a draft, and the last one for less than seven.
    assert replied(Adversary(text, small.config.vocab_size)) == (16, 84, 0)


def test_the_windows_of_an_engine_take_them_too(small: Model) -> None:
    ids = prompt(small, 9)
    engine = after(small, ids[:-1])
    answer = greedy(engine.fork(), ids[-1], 10)
    drafter = Perfect([*ids, *answer])

    def drafts(text: Sequence[int]) -> tuple[int, ...]:
        drafter.assign([*ids[:-1], *text])
        return drafter.propose(3).tokens

    found = strata_nb.generate(
        engine, ids[-1], max_new=10, drafts=drafts, stop_ids=STOPS
    )
    assert found.tokens == tuple(answer)
    assert (found.windows, found.offered, found.accepted) == (3, 7, 7)
