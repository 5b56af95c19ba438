"""How long a match is says nothing about what follows it: exact counts of a text.

A log of a traffic light: each line has a time that never comes again, the same four
words, and a colour. Whatever share of the colours repeats, every lookup rests on the
same four tokens.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from scripted import generated
from strata_nb.draft import Draft, SuffixLookup
from strata_nb.draft.tokens import alike
from strata_nb.sampling import GREEDY, Sampler

WORDS = (20, 21, 22, 23)  # "the light is now"
TIMES = 24  # and from there on, one for each line
LINE = 1 + len(WORDS) + 1


def log(colours: Sequence[int], lines: int) -> list[int]:
    return [
        token
        for n in range(lines)
        for token in (TIMES + n, *WORDS, colours[n % len(colours)])
    ]


def one_in(number: int) -> list[int]:
    """Colours in turn; one of `number` lines has the colour of the line before."""
    return [*range(number - 1), number - 2] if number > 1 else [0]


def drafted(
    text: Sequence[int], start: int, count: int, *, minimum: int = 4
) -> tuple[Counter[tuple[int, int]], dict[str, int]]:
    """Decode `count` tokens of `text` from `start` on, with three drafts at most.

    Returns:
        (match length, drafts accepted) of each window with drafts; windows, drafts
        offered and accepted in all.
    """
    found: Counter[tuple[int, int]] = Counter()
    drafter = SuffixLookup(minimum=minimum, most=3)
    wanted = list(text)

    def says(now: Sequence[int]) -> np.ndarray:
        logits = np.zeros(max(text) + 1)
        logits[wanted[len(now)]] = 1.0
        return logits

    def propose(text: Sequence[int], most: int) -> Draft:
        drafter.assign(text)
        draft = drafter.propose(most)
        if draft.tokens:
            right = alike(list(draft.tokens), wanted[len(text) :])
            found[draft.match_length or 0, right] += 1
        return draft

    tally: dict[str, int] = {}
    got = generated(
        says,
        Sampler(GREEDY),
        text[:start],
        count,
        width=4,
        propose=propose,
        tally=tally,
    )
    # Wrong drafts cost rows; the text is the target's.
    assert got == wanted[start : start + count]
    return found, tally


@pytest.mark.parametrize("number", [1, 3, 4, 8, 16])
def test_four_equal_tokens_may_mean_any_acceptance(number: int) -> None:
    """Of the windows that rest on just four tokens, one in `number` has a right draft.

    All that follows the colour is new, so one of three drafts is right at most.
    """
    known, cycles = 2 * number, 12
    text = log(one_in(number), known + (cycles + 1) * number)
    # From a time on, up to the next time's four words.
    found, _ = drafted(text, known * LINE + 1, cycles * number * LINE + 4)
    four = {right: times for (match, right), times in found.items() if match == 4}
    wanted = {1: cycles, 0: cycles * (number - 1)}
    assert four == {right: times for right, times in wanted.items() if times}


def test_of_three_colours_a_match_of_four_is_right_in_one_draft_of_twelve() -> None:
    """Green, amber, red, red; 48 lines: the numbers in the notebook on lookup."""
    text = log([0, 1, 2, 2], 60)
    found, tally = drafted(text, 8 * LINE + 1, 48 * LINE + 4)
    # A match of five ends with the colour itself, where that was drafted wrongly.
    assert found == {(4, 1): 12, (4, 0): 36, (5, 0): 36}
    assert tally["offered"] == 3 * (48 + 36)
    # Of what rests on four tokens: 12 of 144, and not 70 %.
    assert tally["accepted"] == 12


def test_longer_matches_promise_nothing_either() -> None:
    """A minimum of eight: matches of eight and of nine, and not one right draft."""
    phrase = tuple(range(20, 28))
    text = [token for n in range(80) for token in (40 + n, *phrase, n % 7)]
    found, tally = drafted(text, 200 + 1, 500 + 8, minimum=8)
    assert found == {(8, 0): 50, (9, 0): 50}
    assert (tally["accepted"], tally["offered"]) == (0, 300)
    assert tally["windows"] == 508
