"""Drafts by counts: of the history, and of earlier answers only where asked."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plain_trie import defined, trie
from strata_nb import Model
from strata_nb.draft import NO_DRAFT, Draft, SuffixTree, SuffixTrees
from strata_nb.draft.speculation import Rules
from strata_nb.session import Session

TABLE = [1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3, 4, 1, 2, 3]
# Three tokens for the shortest match allowed, three more for each one longer.
MINIMUM_3 = {"factor": 3.0, "offset": -6.0}
MINIMUM_2 = {"factor": 3.0, "offset": -3.0}


def proposed(text: Sequence[int], most: int = 64, **how: Any) -> Draft:
    drafter = SuffixTrees(**how)
    drafter.assign(text)
    return drafter.propose(most)


def answered(drafter: SuffixTrees, prompt: Sequence[int], answer: list[int]) -> None:
    drafter.assign(prompt)
    drafter.append(answer)


@pytest.mark.parametrize(
    ("how", "tokens"),
    [
        ({}, [4, 1, 2]),
        ({"factor": 2.0}, [4, 1, 2, 3, 5, 1]),
        ({"factor": 2.0, "min_probability": 0.4}, [4, 1, 2, 3]),
        ({"offset": -1.0}, [4, 1]),
    ],
)
def test_settings_reach_both_trees(how: dict[str, Any], tokens: list[int]) -> None:
    # Of an answer, and then in a text that says nothing itself.
    drafter = SuffixTrees(cached=1, **how)
    answered(drafter, [8], TABLE)
    drafter.assign([9, 1, 2, 3])
    assert drafter.propose(64) == Draft(tuple(tokens), match_length=3)
    # Here the end of the text is a place like any other, and matches 7 tokens.
    own = SuffixTree()
    own.extend(0, TABLE)
    wanted = own.speculate(TABLE, most=64, **how)
    assert proposed(TABLE, **how) == Draft(
        wanted.tokens, match_length=wanted.match_length
    )
    assert wanted.match_length == 7


@pytest.mark.parametrize(
    ("text", "most", "how", "wanted"),
    [
        ([7, 8, 1, 2, 9, 9, 1, 2], 3, MINIMUM_3, []),
        ([7, 8, 1, 2, 9, 9, 1, 2], 3, MINIMUM_2, [9, 9, 1]),
        ([1, 2, 3, 4, 1, 2, 3], 5, {"factor": 2.0}, [4, 1, 2, 3]),
        ([5, 5, 5], 3, MINIMUM_3, []),
        ([5, 5, 5], 0, {}, []),
        ([5, 5, 5], -1, {}, []),
        ([], 3, {}, []),
        ([5], 3, {}, []),
        ([5, 6, 5], 3, {}, [6]),
    ],
)
def test_small_matches(
    text: list[int], most: int, how: dict[str, Any], wanted: list[int]
) -> None:
    assert list(proposed(text, most, **how).tokens) == wanted


def test_a_period_goes_on_and_no_further_than_it_went() -> None:
    found = proposed([1, 2, 3] * 3, 7, **MINIMUM_3).tokens
    assert found
    assert found == (1, 2, 3, 1, 2, 3, 1)[: len(found)]


def test_equal_tokens_have_an_answer() -> None:
    found = proposed([5] * 3000, 15)
    assert set(found.tokens) == {5}
    assert len(found.tokens) == 15


def test_nothing_of_an_old_request_is_proposed() -> None:
    first, second = list(range(100, 150)) * 2, [1, 2, 3, 4, 1, 2, 3, 4]
    drafter = SuffixTrees()
    answered(drafter, first[:50], first[50:])
    assert drafter.propose(3) == Draft((100, 101, 102), match_length=50)
    drafter.assign(second)
    assert set(drafter.propose(3).tokens) <= set(second)
    drafter.assign(first[:5])
    assert (drafter.propose(3), drafter.cached) == (NO_DRAFT, 0)


def test_shared_answers_are_drafted_from_and_prompts_are_not() -> None:
    prompt, answer = list(range(10, 20)), list(range(30, 40))
    drafter = SuffixTrees(cached=2)
    answered(drafter, prompt, answer)
    assert drafter.cached == 0
    drafter.assign([1, *answer[:4]])
    assert drafter.propose(3) == Draft(tuple(answer[4:7]), match_length=4)
    for hidden in (prompt[:4], [prompt[-1]]):
        drafter.assign([1, *hidden])
        assert drafter.propose(3) == NO_DRAFT
    # Not even what followed the prompt: the answer began with itself.
    drafter.assign([1, *prompt[-3:], answer[0]])
    assert drafter.propose(3).match_length == 1


def test_the_oldest_answers_make_room() -> None:
    answers = [[10 * n + i for i in range(5)] for n in range(1, 5)]
    for cached, known in ((0, []), (1, [3]), (2, [2, 3]), (None, [0, 1, 2, 3])):
        drafter = SuffixTrees(cached=cached)
        for answer in answers:
            answered(drafter, [1], answer)
            drafter.stop()
        assert drafter.cached == len(known)
        for number, answer in enumerate(answers):
            drafter.assign([2, *answer[:2]])
            wanted = tuple(answer[2:4]) if number in known else ()
            assert drafter.propose(3).tokens == wanted
        drafter.forget()
        assert (drafter.propose(3), drafter.cached) == (NO_DRAFT, 0)


def test_the_history_wins_where_both_promise_the_same() -> None:
    drafter = SuffixTrees(cached=1)
    answered(drafter, [9], [1, 2, 3, 7, 1, 2, 3])
    drafter.assign([1, 2, 3, 8, 1, 2, 3])
    assert (drafter.propose(1).tokens, drafter.speculate(1).score) == ((8,), 0.5)
    # Something else followed here too: the answer promises more now.
    drafter.assign([1, 2, 3, 8, 1, 2, 3, 6, 1, 2, 3])
    assert (drafter.propose(1).tokens, drafter.speculate(1).score) == ((7,), 0.5)


def test_the_same_text_goes_on_with_its_answer() -> None:
    drafter = SuffixTrees(cached=9)
    answered(drafter, [1], [10, 11])
    drafter.assign([1, 10, 11])
    drafter.append([12, 13])
    # More of a prompt, or less: the answer has ended.
    drafter.assign([1, 10, 11, 12, 13, 2])
    assert drafter.cached == 1
    drafter.append([20, 21])
    drafter.assign([1, 10, 11])
    assert drafter.cached == 2
    for context, wanted in (([0, 10, 11], (12, 13)), ([0, 13], ()), ([0, 13, 2], ())):
        drafter.assign(context)
        assert drafter.propose(9).tokens == wanted


def test_match_and_draft_share_the_depth() -> None:
    drafter = SuffixTrees(depth=3, cached=1)
    for _ in range(2):
        answered(drafter, [9], [1, 2, 3, 4, 5, 1, 2])
        assert drafter.propose(9).tokens == (3,)
        drafter.assign([8, 1, 2])
        assert drafter.propose(9).tokens == (3,)
        drafter.forget()


texts = st.lists(st.integers(0, 2), max_size=40)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(0, 2), max_size=4)),
        st.tuples(st.just("assign"), texts),
        st.tuples(st.just("cut"), st.integers(0, 40)),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(changes=changes, depth=st.integers(1, 9), most=st.integers(0, 5))
def test_it_is_as_a_fresh_one_after_any_changes(
    changes: list[tuple[str, Any]], depth: int, most: int
) -> None:
    drafter = SuffixTrees(depth=depth)
    now: list[int] = []
    for verb, what in changes:
        if verb == "append":
            now = [*now, *what]
            drafter.append(what)
        else:
            # A cut and something else: a text that shares a prefix.
            now = [*now[:what], 1] if verb == "cut" else list(what)
            drafter.assign(now)
        tree = SuffixTree(depth=depth)
        tree.extend(0, now)
        wanted = tree.speculate(now, most=most)
        assert drafter.speculate(most) == drafter.speculate(most) == wanted
        assert drafter.propose(most).tokens == wanted.tokens
        assert len(drafter) == len(now)


@settings(deadline=None)
@given(
    answers=st.lists(texts, min_size=1, max_size=3),
    windows=st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=8),
    depth=st.integers(1, 9),
    most=st.integers(1, 5),
)
def test_both_trees_go_along_with_the_history(
    answers: list[list[int]], windows: list[list[int]], depth: int, most: int
) -> None:
    drafter = SuffixTrees(depth=depth, cached=None)
    for answer in answers:
        answered(drafter, [3], answer)
        drafter.assign([])
    shared, now = trie([answer for answer in answers if answer], depth), [0, 1]

    drafter.assign(now)
    for window in windows:
        # `max` takes the first of equals: the history's own.
        wanted = max(
            (
                defined(root, now[-depth:], most, Rules())
                for root in (trie([now], depth), shared)
            ),
            key=lambda found: found.score,
        )
        assert drafter.speculate(most) == wanted
        drafter.append(window)
        now = [*now, *window]


@pytest.mark.parametrize(
    ("change", "least"), [("_follow", 1), ("_insert", 5), ("_drop", 5)]
)
def test_an_interrupt_leaves_no_half(
    change: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, points = [4, 4, 4, 4, 1, 2, 1, 5], 0
    wanted = proposed([*text, 1, 2])
    while True:
        drafter = SuffixTrees(cached=1)
        answered(drafter, [3], [1, 2] * 3)
        answered(drafter, [4, 4, 4, 4], [1, 2] * 2)
        with monkeypatch.context() as patch:
            patch.setattr(SuffixTree, change, after(points, change))
            try:
                drafter.assign(text)
                break
            except KeyboardInterrupt:
                points += 1
        assert (len(drafter), drafter.cached) == (0, 0)
        assert drafter.propose(3) == NO_DRAFT
        drafter.assign(text)
        drafter.append([1, 2])
        assert drafter.propose(64) == wanted
    # A change of the tree of answers, one of the history's, and more.
    assert points >= least


def after(calls: int, change: str) -> Callable[..., Any]:
    """The method of a tree, interrupted after some calls."""
    method, left = getattr(SuffixTree, change), iter(range(calls))

    def interrupted(*given: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return method(*given)

    return interrupted


def test_what_is_no_token_changes_nothing() -> None:
    drafter = SuffixTrees()
    drafter.assign([1, 2, 1])
    for verb in (drafter.assign, drafter.append):
        for wrong in ("12", [1, 2.5]):
            with pytest.raises(TypeError):
                verb(wrong)  # type: ignore[arg-type]
    assert (len(drafter), drafter.propose(3).tokens) == (3, (2,))


def test_settings_are_refused() -> None:
    for how, message in (
        ({"cached": -1}, "`cached` is -1, wanted 0 or more; None shares all"),
        ({"depth": 0}, "`depth` is 0, wanted 1 or more"),
        ({"factor": -1.0}, "`factor` is -1.0, wanted 0 or more"),
        ({"min_probability": 2.0}, "`min_probability` is 2.0, wanted 0 to 1"),
    ):
        with pytest.raises(ValueError, match=message):
            SuffixTrees(**how)


def test_sessions_answer_as_without_drafts(small: Model) -> None:
    texts = [[i % 5 for i in range(n)] for n in (50, 5, 50)]
    session = Session(small, drafter=SuffixTrees(cached=2), checkpoints=0)
    for number, text in enumerate(texts):
        wanted = Session(small).reply(text, max_new=20, stop_ids=())
        got = session.reply(text, max_new=20, stop_ids=())
        assert got.tokens == wanted.tokens
        fresh = Session(small, drafter=SuffixTrees()).reply(
            text, max_new=20, stop_ids=()
        )
        if number == 0:
            assert (got.offered, got.accepted) == (fresh.offered, fresh.accepted)
        if number == 2:
            # The same answer was there before.
            assert got.accepted > fresh.accepted
