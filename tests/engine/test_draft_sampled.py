"""A drafter that draws: the law it draws from is the law that it reports."""

from collections.abc import Sequence

import numpy as np
import pytest

from scripted import generated
from strata_nb import Model, Sampling, Session
from strata_nb.draft import NO_DRAFT, Draft, Sampled
from strata_nb.sampling import Sampler, draw, law, uniform

THREE = np.array([0.25, 0.25, 0.5])
TABLE = np.random.default_rng(5).normal(0, 1.5, (4, 4))
HOT = Sampling(temperature=0.7)


def after_last(tokens: Sequence[int]) -> np.ndarray:
    return law(TABLE[tokens[-1]], HOT)


def test_each_token_is_drawn_after_those_before_it() -> None:
    def three(tokens: Sequence[int]) -> np.ndarray:
        seen.append(tuple(tokens))
        return THREE

    seen: list[tuple[int, ...]] = []
    drafter = Sampled(three, seed=3)
    drafter.assign([0, 1])
    drafter.append([2])
    draft = drafter.propose(3)
    numbers = [uniform(3, "draft", position) for position in (3, 4, 5)]
    assert draft.tokens == tuple(draw(THREE, number) for number in numbers)
    assert seen == [(0, 1, 2, *draft.tokens[:count]) for count in range(3)]
    assert draft.laws is not None
    assert draft.laws.dtype == np.float64
    np.testing.assert_array_equal(draft.laws, [THREE] * 3)
    assert drafter.propose(3) == draft
    assert drafter.propose(0) == drafter.propose(-1) == NO_DRAFT


def test_the_numbers_are_those_of_seed_stream_and_position() -> None:
    def drafts(seed: int, text: Sequence[int]) -> tuple[int, ...]:
        drafter = Sampled(lambda _: np.full(1000, 1e-3), seed=seed)
        drafter.assign(text)
        return drafter.propose(4).tokens

    one = drafts(1, [7, 7])
    assert one == drafts(1, [8, 9])
    # Whatever was emitted in between: a number belongs to its place.
    assert one[1:] == drafts(1, [7, 7, 7])[:-1]
    assert len({*one, *drafts(2, [7, 7])}) == 8
    other = tuple(draw(np.full(1000, 1e-3), uniform(1, "target", i)) for i in range(6))
    assert not set(one) & set(other)


def test_assign_puts_another_text_in_the_place_of_the_old_one() -> None:
    drafter = Sampled(after_last, seed=1)
    drafter.assign([0, 1, 2])
    drafter.append([3, 0])
    drafter.assign([2, 2])
    fresh = Sampled(after_last, seed=1)
    fresh.assign([2])
    fresh.append([2])
    assert drafter.propose(7) == fresh.propose(7)


def test_tokens_have_the_law() -> None:
    drafter = Sampled(after_last, seed=6)
    drafter.assign([1])
    tokens = drafter.propose(20_000).tokens
    pairs = np.zeros((4, 4))
    np.add.at(pairs, ((1, *tokens[:-1]), tokens), 1)
    for last, counts in enumerate(pairs):
        expected = after_last([last]) * counts.sum()
        chi = float(((counts - expected) ** 2 / expected).sum())
        assert chi < 16.3, last  # 3 degrees of freedom, one in a thousand


def test_the_reported_law_is_the_one_drawn_from() -> None:
    """Float32 does not add up to 1; the rule of acceptance must not see that."""
    raw = np.array([0.1, 0.2, 0.7004], np.float32)
    drafter = Sampled(lambda _: raw)
    laws = drafter.propose(1).laws
    assert laws is not None
    np.testing.assert_allclose(laws, [raw / raw.sum(dtype=np.float64)], rtol=1e-15)


def test_a_law_that_reuses_its_array_is_copied() -> None:
    room = np.zeros(3)

    def one_after_another(tokens: Sequence[int]) -> np.ndarray:
        room[:] = 0
        room[len(tokens)] = 1
        return room

    draft = Sampled(one_after_another).propose(3)
    assert draft.tokens == (0, 1, 2)
    np.testing.assert_array_equal(draft.laws, np.eye(3))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([[0.5, 0.5]], r"one number for each token, \[V\], got shape \(1, 2\)"),
        ([], r"got shape \(0,\)"),
        (0.5, r"got shape \(\)"),
        ([0.5, 0.4], "a sum of 1, got 0.4 and 0.9; make one of logits with"),
        ([1.5, -0.5], "no number below 0 and a sum of 1, got -0.5 and 1"),
        ([np.nan, 1.0], "got nan and nan"),
        ([np.inf, 0.0], "got 0 and inf"),
    ],
)
def test_what_is_no_law_is_refused(wrong: object, message: str) -> None:
    drafter = Sampled(lambda _: np.array(wrong))
    with pytest.raises(ValueError, match=message):
        drafter.propose(1)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_are_refused(seed: int) -> None:
    with pytest.raises(ValueError, match=f"`seed` is {seed}, wanted 0 to"):
        Sampled(after_last, seed=seed)
    assert Sampled(lambda _: THREE, seed=2**64 - 1).propose(1).tokens


def test_text_is_refused() -> None:
    drafter = Sampled(lambda tokens: THREE)
    drafter.assign([1])
    for verb in (drafter.assign, drafter.append):
        with pytest.raises(TypeError, match="wanted token ids, got text"):
            verb("2")  # type: ignore[arg-type]
    assert drafter._text == [1]


@pytest.mark.parametrize("rule", ["equality", "ratio"])
def test_who_knows_the_law_is_accepted_as_often_as_the_rule_says(rule: str) -> None:
    """At a temperature above 0 too: never nothing, as was reported."""
    drafter = Sampled(after_last, seed=9)

    def propose(text: Sequence[int], most: int) -> Draft:
        drafter.assign(text)
        return drafter.propose(most)

    tally: dict[str, int] = {}
    sampling = Sampling(temperature=0.7, rule=rule, seed=2)  # type: ignore[arg-type]
    text = generated(
        lambda tokens: np.asarray(TABLE[tokens[-1]]),
        Sampler(sampling),
        [0],
        4000,
        width=2,
        propose=propose,
        tally=tally,
    )
    acceptance = tally["accepted"] / tally["offered"]
    if rule == "ratio":
        assert acceptance == 1
    else:
        met = np.bincount(text, minlength=4) / len(text)
        squares = [float((after_last([last]) ** 2).sum()) for last in range(4)]
        assert abs(acceptance - met @ squares) < 0.04


def test_a_session_accepts_its_drafts_by_ratio(small: Model) -> None:
    sampling = Sampling(temperature=1.0, rule="ratio", seed=3)
    even = np.full(small.config.vocab_size, 1 / small.config.vocab_size)
    session = Session(small, drafter=Sampled(lambda _: even), sampling=sampling)
    reply = session.reply([1, 2, 3], max_new=60, stop_ids=())
    assert len(reply.tokens) == 60
    assert 0 < reply.accepted < reply.offered
    assert {(r.drafter, r.rule) for r in session.trace if not r.headless} == {
        ("sampled", "ratio")
    }
