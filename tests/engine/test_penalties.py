"""What changes logits before the choice: penalties, processors, bans, budgets."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from scripted import Proposes, generated
from strata_nb.draft import Draft
from strata_nb.sampling import (
    GREEDY,
    Bans,
    History,
    Penalties,
    Processors,
    Sampler,
    Sampling,
    ThinkingBudget,
)

CONSTANT = np.array([2.0, 1.9, 0.0, 0.0])
FREQUENCY, PRESENCE = [0, 1] * 4, [0, 1, 0, 0, 0, 0]


def right(said: list[int]) -> Proposes:
    """Drafts of what is said after a prompt of one token."""
    return lambda text, most: Draft(tuple(said[len(text) - 1 :][:most]))


def wrong(said: list[int]) -> Proposes:
    return right([(token + 1) % 4 for token in said])


@pytest.mark.parametrize("width", range(1, 9))
@pytest.mark.parametrize("drafts", [right, wrong])
def test_penalties_count_each_row(
    width: int, drafts: Callable[[list[int]], Proposes]
) -> None:
    for penalties, wanted in (
        (Penalties(frequency=0.5), FREQUENCY),
        (Penalties(presence=0.5), PRESENCE),
    ):
        got = generated(
            lambda _: CONSTANT,
            Sampler(GREEDY, [penalties]),
            [3],
            len(wanted),
            width=width,
            propose=drafts(wanted),
        )
        assert got == wanted


def test_repetition_counts_the_prompt_and_the_others_do_not() -> None:
    logits = np.array([[4.0, -1.0, 1.0]])
    penalties = Penalties(repetition=2, presence=0.25, frequency=0.5)
    penalties.assign([0, 1], [])
    np.testing.assert_array_equal(penalties.adjust([1], logits), [[2.0, -2.0, 1.0]])
    penalties.append([0, 0])
    np.testing.assert_array_equal(penalties.adjust([0], logits), [[0.75, -2.0, 1.0]])
    two = penalties.adjust([0, 2], np.repeat(logits, 2, axis=0))
    np.testing.assert_array_equal(two, [[0.75, -2.0, 1.0], [0.75, -2.0, -0.25]])
    # Nothing of the rows is left.
    np.testing.assert_array_equal(penalties.adjust([0], logits), [[0.75, -2.0, 1.0]])
    np.testing.assert_array_equal(logits, [[4.0, -1.0, 1.0]])


def test_a_lookback_forgets() -> None:
    penalties = Penalties(frequency=1, lookback=2)
    penalties.assign([], [0, 0, 1])
    got = penalties.adjust([1], np.zeros((1, 3)))
    np.testing.assert_array_equal(got, [[-1, -1, 0]])
    got = penalties.adjust([1, 2], np.zeros((2, 3)))
    np.testing.assert_array_equal(got, [[-1, -1, 0], [0, -1, -1]])


def test_like_another_is_its_settings_and_no_history() -> None:
    how: dict[str, Any] = {"repetition": 1.5, "presence": 0.25, "frequency": 0.125}
    one = Penalties(**how, lookback=2)
    one.append([3, 3])
    other, fresh = Penalties.like(one), Penalties(**how, lookback=2)
    for penalties in (other, fresh):
        penalties.assign([0], [1, 1, 2])
    logits = np.array([[1.0, -1.0, 2.0, 3.0]])
    got, wanted = other.adjust([2], logits), fresh.adjust([2], logits)
    np.testing.assert_array_equal(got, wanted)
    # Without the lookback more would count.
    assert wanted[0, 0] == logits[0, 0]


@pytest.mark.parametrize("lookback", [None, 1, 2, 3, 5, 8, 20])
def test_rows_count_as_a_fresh_count_does(lookback: int | None) -> None:
    """Any history, any rows, any lookback: as counted anew from the tokens alone."""
    rng = np.random.default_rng(5)
    penalties = Penalties(
        repetition=1.5, presence=0.25, frequency=0.125, lookback=lookback
    )
    for given, said, rows in itertools.product((0, 1, 6), (0, 2, 7), (1, 2, 8)):
        prompt, emitted = rng.integers(0, 4, given), rng.integers(0, 4, said)
        inputs = rng.integers(0, 4, rows)
        logits = rng.normal(size=(rows, 4))
        penalties.assign(prompt.tolist(), emitted[:1].tolist())
        penalties.append(emitted[1:].tolist())
        wanted = logits.copy()
        for row in range(rows):
            seen = [(int(token), False) for token in prompt]
            seen += [(int(token), True) for token in (*emitted, *inputs[1 : row + 1])]
            for token in range(4):
                recent = seen if lookback is None else seen[-lookback:]
                out = recent.count((token, True))
                if out or (token, False) in recent:
                    z = wanted[row, token]
                    wanted[row, token] = z / 1.5 if z > 0 else z * 1.5
                if out:
                    wanted[row, token] -= 0.25 + 0.125 * out
        for _ in range(2):
            # Twice: the first time has left nothing behind.
            got = penalties.adjust(inputs.tolist(), logits)
            np.testing.assert_allclose(got, wanted, atol=1e-14)


@pytest.mark.parametrize("width", range(1, 9))
def test_a_processor_sees_the_right_last_token(width: int) -> None:
    def never_twice(tokens: History, logits: np.ndarray) -> np.ndarray:
        logits[tokens[-1]] = -np.inf
        return logits

    for sampling in (GREEDY, Sampling(temperature=1.0, rule="ratio", seed=width)):
        text = generated(
            lambda _: CONSTANT,
            Sampler(sampling, [Processors(never_twice)]),
            [0],
            60,
            width=width,
            propose=lambda text, most: Draft((0, 0, 1, 1, 0, 1, 2)[:most]),
        )
        assert all(a != b for a, b in itertools.pairwise([0, *text]))


def test_a_history_is_a_view_of_prompt_text_and_rows() -> None:
    history = History([5, 6, 7], (8, 9), 2)
    assert list(history) == [5, 6, 7, 8, 9]
    assert (len(history), history.prompt, history[-1], history[-5]) == (5, 2, 9, 5)
    assert history[1:4] == [6, 7, 8]
    with pytest.raises(IndexError, match="token 5 of a history of 5"):
        history[5]


def test_a_processor_must_keep_the_shape() -> None:
    sampler = Sampler(GREEDY, [Processors(lambda _, logits: logits[:2])])
    with pytest.raises(ValueError, match=r"shape \(2,\) for logits of shape \(4,\)"):
        sampler.choice()([0], CONSTANT[None], start=0)


@pytest.mark.parametrize("right_drafts", [True, False])
@pytest.mark.parametrize("start", [None, 2])
def test_a_thinking_budget_counts_what_was_emitted(
    right_drafts: bool, start: int | None
) -> None:
    end, limit = 3, 50
    thought = [0] * limit
    wanted = [*thought, end] if start is None else [start, *thought, end]
    logits = np.array([2.0, 1.0, 0.0, -1.0])
    opening = logits if start is None else np.array([0.0, 0.0, 9.0, 0.0])
    tally: dict[str, int] = {}
    got = generated(
        lambda text: opening if len(text) == 3 else logits,
        Sampler(GREEDY, [ThinkingBudget(end, limit, start=start)]),
        [0, 0, 1],
        len(wanted) + 3,
        width=4,
        propose=lambda text, most: Draft(
            tuple([*wanted, 0, 0, 0][len(text) - 3 :][:most])
            if right_drafts
            else (1,) * most
        ),
        tally=tally,
    )
    assert got == [*wanted, 0, 0, 0]
    assert tally["accepted"] == (tally["offered"] if right_drafts else 0)


def ended(budget: ThinkingBudget, inputs: Sequence[int]) -> list[bool]:
    """For each row, whether only the end of the thought is left."""
    logits = np.zeros((len(inputs), 5))
    rows = budget.adjust(inputs, logits)
    assert not logits.any()
    for row in rows[np.isinf(rows).any(axis=1)]:
        assert np.flatnonzero(np.isfinite(row)).tolist() == [END]
    return [bool(found) for found in np.isinf(rows).any(axis=1)]


START, END = 3, 4


def test_a_thought_may_begin_in_the_prompt() -> None:
    budget = ThinkingBudget(END, 2, start=START)
    for prompt, is_open in (
        ([], False),
        ([0, START, 0, 0, 0], True),
        ([START, 0, END, 0], False),
        ([START, END, 0, START], True),
    ):
        budget.assign(prompt, [0, 0])
        assert ended(budget, [0]) == [is_open]
        budget.assign(prompt, [0])
        assert ended(budget, [0, 0, 0]) == [False, is_open, is_open]


def test_without_a_start_the_prompt_does_not_matter() -> None:
    """A conversation so far has thoughts of its own, with ends."""
    budget = ThinkingBudget(END, 2)
    for prompt in ([], [0], [0, END], [0, 0, 0, END, 0]):
        budget.assign(prompt, [])
        assert ended(budget, [0, 0, 0, END, 0]) == [False, False, True, False, False]


def test_every_thought_has_its_own_budget() -> None:
    budget = ThinkingBudget(END, 2, start=START)
    budget.assign([], [0, 0, 0, START, 0])
    assert ended(budget, [0, 0, END, START, 0, 0]) == [
        *(False, True, False, False, False, True)
    ]
    # A start inside a thought is one more token of it.
    assert ended(budget, [0, START, 0]) == [False, True, True]
    budget.append([0])
    assert ended(budget, [0]) == [True]
    budget.append([END])
    assert ended(budget, [END, 0, 0, 0]) == [False] * 4
    # Without a start there is one thought.
    budget = ThinkingBudget(END, 1)
    budget.assign([], [END, 0, 0])
    assert ended(budget, [0]) == [False]


def test_a_thought_that_is_too_long_already_ends_at_once() -> None:
    budget = ThinkingBudget(END, 2)
    budget.assign([], [0] * 5)
    assert ended(budget, [0, 0]) == [True, True]
    assert ended(ThinkingBudget(END, 0), [0]) == [True]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ThinkingBudget(-1, 5), "`end` is -1, wanted 0 or more"),
        (lambda: ThinkingBudget(1, -5), "`limit` is -5, wanted 0 or more"),
        (lambda: ThinkingBudget(1, 5, start=-2), "`start` is -2, wanted 0 or more"),
        (lambda: ThinkingBudget(1, 5, start=1), "`start` and `end` are both 1"),
        (lambda: Bans([3, -1]), "a ban on token -1, wanted ids from 0 on"),
        (lambda: apply(Bans([3, 4])), "a ban on token 4, but the vocabulary has 4"),
        (lambda: apply(ThinkingBudget(4, 0)), "with token 4, but the vocabulary has 4"),
    ],
)
def test_tokens_that_cannot_be_are_refused(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def apply(adjustment: Bans | ThinkingBudget) -> np.ndarray:
    return adjustment.adjust([0], np.zeros((1, 4)))


def test_bans_are_for_every_row() -> None:
    logits = np.arange(8.0).reshape(2, 4)
    got = Bans([3, 1, 3]).adjust([0, 1], logits)
    np.testing.assert_array_equal(
        got, [[0, -np.inf, 2, -np.inf], [4, -np.inf, 6, -np.inf]]
    )
    np.testing.assert_array_equal(logits, np.arange(8.0).reshape(2, 4))
    np.testing.assert_array_equal(Bans([]).adjust([0, 1], logits), logits)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"repetition": 0}, "`repetition` is 0, wanted above 0"),
        ({"presence": float("nan")}, "`presence` is nan"),
        ({"frequency": float("inf")}, "`frequency` is inf"),
        ({"lookback": 0}, "`lookback` is 0, wanted 1"),
    ],
)
def test_penalties_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Penalties(**how)
