"""Public bug reports as small tests: drafters, their matches and their memory."""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from helpers import after, assert_same, greedy, prompt
from scripted_model import After, constant
from strata_nb import Model, Session
from strata_nb.draft import Drafter, SuffixLookup, SuffixTrees
from strata_nb.sampling import Penalties


def proposed(drafter: Drafter, text: Sequence[int], most: int) -> list[int]:
    drafter.assign(text)
    return list(drafter.propose(most).tokens)


def test_hand_07a_a_match_is_as_long_as_asked_for() -> None:
    """HAND-07 (a): two tokens are no match of three.

    https://github.com/vllm-project/vllm/issues/40875
    """
    text = [7, 8, 1, 2, 9, 9, 1, 2]
    assert proposed(SuffixLookup(minimum=3, most=7), text, 7) == []
    assert proposed(SuffixLookup(minimum=2, most=3), text, 7) == [9, 9, 1]
    assert proposed(SuffixLookup(minimum=2, most=7), text, 3) == [9, 9, 1]


def test_hand_07b_a_proposal_ends_with_the_history() -> None:
    """HAND-07 (b): five were asked for, four follow.

    https://github.com/vllm-project/vllm/issues/40875
    """
    text = [1, 2, 3, 4, 1, 2, 3]
    assert proposed(SuffixLookup(minimum=3, most=5), text, 5) == [4, 1, 2, 3]


def test_hand_07c_periodic_text_is_proposed_without_padding() -> None:
    """HAND-07 (c): three periods.

    https://github.com/ggml-org/llama.cpp/issues/19232
    """
    found = proposed(SuffixLookup(minimum=3, most=7), [1, 2, 3] * 3, 7)
    assert found
    assert found == [1, 2, 3, 1, 2, 3, 1][: len(found)]
    assert len(found) <= 6


def test_hand_07d_a_match_is_earlier_than_the_end_itself() -> None:
    """HAND-07 (d): the end of the history is no match of itself.

    https://github.com/ggml-org/llama.cpp/issues/19232
    """
    assert proposed(SuffixLookup(minimum=3, most=7), [5, 5, 5], 7) == []


@pytest.mark.parametrize("minimum", [1, 3, 64])
def test_hand_07e_a_hundred_thousand_equal_tokens(minimum: int) -> None:
    """HAND-07 (e): an answer within 0.1 s, and after each token emitted.

    https://github.com/ggml-org/llama.cpp/issues/19232
    """
    drafter = SuffixLookup(minimum=minimum, most=7, occurrences=1_000_000)
    drafter.assign([5] * 100_000)
    times = []
    for _ in range(3):
        began = time.process_time()
        drafter.append([5])
        found = drafter.propose(7).tokens
        times.append(time.process_time() - began)
        assert found
        assert set(found) == {5}
    # The fastest: somebody else's work on this machine is not the drafter's.
    assert min(times) < 0.1


LOOKUPS: dict[str, Callable[[], Any]] = {
    "suffix_lookup": lambda: SuffixLookup(minimum=1, most=7),
    "suffix_trees": lambda: SuffixTrees(min_probability=0.0),
}


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_hand_07f_a_request_sees_nothing_of_another(lookup: str) -> None:
    """HAND-07 (f): B's text shares nothing with A's, and comes to A's last token.

    https://github.com/vllm-project/vllm/issues/40875
    """
    drafter = LOOKUPS[lookup]()
    first, second = [1, 2, 3, 4] * 5, [11, 12, 13, 14]
    assert proposed(drafter, first, 7)
    assert proposed(drafter, second, 7) == []
    # What is emitted next is a token of A's: nothing of A comes behind it.
    drafter.append([4])
    assert drafter.propose(7).tokens == ()
    drafter.append(second)
    found = drafter.propose(7).tokens
    assert found
    assert set(found) <= {*second, 4}


def test_hand_07f_unless_sharing_was_asked_for() -> None:
    """HAND-07 (f): earlier answers are shared where `cached` says so, prompts never.

    https://github.com/vllm-project/vllm/issues/40875
    """
    drafter = SuffixTrees(cached=1, min_probability=0.0)
    drafter.assign([1, 2, 3, 4])
    drafter.append([5, 6, 7, 8])
    assert proposed(drafter, [11, 12, 5, 6], 7)[:2] == [7, 8]
    assert proposed(drafter, [11, 12, 2, 3], 7) == []


@pytest.mark.parametrize("lookup", LOOKUPS)
@pytest.mark.parametrize("third", ["another", "the first again"])
def test_s13_a_request_is_as_fresh_as_the_first(
    small: Model, third: str, lookup: str
) -> None:
    """S13: requests of 50, 5 and 50 tokens.

    https://github.com/ggml-org/llama.cpp/issues/22105
    """
    rng = np.random.default_rng(13)
    asked = [[int(token) for token in rng.integers(0, 6, n)] for n in (50, 5, 50)]
    if third == "the first again":
        asked[2] = asked[0]

    def session() -> Session:
        return Session(small, drafter=LOOKUPS[lookup](), adjustments=[Penalties()])

    long_lived = session()
    for ids in asked:
        fresh = session()
        got = long_lived.reply(ids, max_new=len(ids), stop_ids=())
        want = fresh.reply(ids, max_new=len(ids), stop_ids=())
        assert got.tokens == want.tokens
        assert len(got.tokens) == len(ids)
        assert got.offered == want.offered > 0
        assert (got.windows, got.accepted) == (want.windows, want.accepted)
        assert_same(long_lived.engine(), fresh.engine())
        leaves, others = long_lived.leaves(), fresh.leaves()
        assert leaves.keys() == others.keys()
        for leaf, array in others.items():
            if array.dtype.kind == "i":
                np.testing.assert_array_equal(leaves[leaf], array, err_msg=f"{leaf}")


@pytest.mark.parametrize("minimum", [1, 2])
def test_s14_the_first_draft_is_checked_too(tiny: Model, minimum: int) -> None:
    """S14: lookup proposes 1 after 1 1 1, and the target says 2.

    https://github.com/ohdearquant/lattice/issues/243
    """
    drafter = SuffixLookup(minimum=minimum, most=1)
    assert proposed(drafter, [1, 1, 1], 1) == [1]
    session = Session(constant(tiny, [0.0, 0.0, 4.0]), drafter=drafter)
    reply = session.reply([1, 1, 1], max_new=2)
    first = next(record for record in session.trace if not record.headless)
    assert (first.inputs, first.emitted) == ((1, 1), (2,))
    assert (first.offered, first.accepted) == (1, 0)
    assert (reply.tokens, reply.accepted) == ((2, 2), 0)


def test_s14_on_a_real_engine(tiny: Model) -> None:
    """S14: every first draft is wrong, and none of them comes out.

    https://github.com/ohdearquant/lattice/issues/243
    """
    ids = prompt(tiny, 20, seed=14)
    want = greedy(after(tiny, ids[:-1]), ids[-1], 12)
    wrong = {token: [token] for token in {ids[-1], *want}}
    assert all(a != b for a, b in pairwise([ids[-1], *want]))
    session = Session(tiny, drafter=After(wrong))
    reply = session.reply(ids, max_new=12, stop_ids=())
    assert (list(reply.tokens), reply.offered, reply.accepted) == (want, 11, 0)
    assert_same(session.engine(), after(tiny, session.tokens[:-1]))
