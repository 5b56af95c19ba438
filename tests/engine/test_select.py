"""One of several drafts is chosen: EcoSpec's numbers, its history of routes, misuse."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_nb import LayerRecord, Model, WindowRecord, theory
from strata_nb.draft import Constant, Draft, Selecting, SuffixLookup, SuffixTrees
from strata_nb.policies import EcoSpec, Likeliest, Offer, Routes, Select
from strata_nb.session import Session

PROMPT = [5, 9, 3, 7, 5, 9, 3, 8, 5, 9, 3, 7, 5, 9, 3]


def window(
    tokens: Sequence[int], experts: Sequence[Sequence[Sequence[int]]], keep: int = 1
) -> WindowRecord:
    """Rows with the experts of each layer, [L][T][K]."""
    return WindowRecord(
        position=0,
        inputs=tuple(tokens),
        keep=keep,
        predictions=(0,) * len(tokens),
        offered=len(tokens) - 1,
        accepted=keep - 1,
        layers=tuple(
            LayerRecord.from_decisions(layer, np.array(ids), keep)
            for layer, ids in enumerate(experts)
        ),
    )


FLAT = [{0, 1}, {2, 3}, {0, 1}, {0, 4}]
CHANCES = [0.50, 0.45, 0.30, 0.25]


def test_the_order_of_four_candidates() -> None:
    picks = theory.economical_nodes(
        [-1] * 4, CHANCES, [[experts] for experts in FLAT], budget=3
    )
    assert "".join("abcd"[pick.node] for pick in picks) == "acb"
    assert [pick.score for pick in picks] == pytest.approx([1 / 6, 0.30, 0.15])


def test_the_scores_of_four_candidates_before_and_after_the_first() -> None:
    def scores(covered: set[int]) -> list[float]:
        return [
            theory.worth(chance, theory.new_experts([experts], [covered]))
            for chance, experts in zip(CHANCES, FLAT, strict=True)
        ]

    assert scores(set()) == pytest.approx([0.1667, 0.15, 0.10, 0.0833], abs=5e-5)
    assert scores({0, 1})[1:] == pytest.approx([0.15, 0.30, 0.125])


def test_with_a_large_eps_only_the_chance_counts() -> None:
    picks = theory.economical_nodes(
        [-1] * 4, CHANCES, [[experts] for experts in FLAT], budget=3, eps=1e9
    )
    assert [pick.node for pick in picks] == [0, 1, 2]


def test_what_the_root_uses_costs_nothing() -> None:
    picks = theory.economical_nodes(
        [-1] * 4, CHANCES, [[e] for e in FLAT], budget=4, covered=[{2, 3}]
    )
    assert picks[0].node == 1


def test_layers_are_taken_together_as_asked() -> None:
    wanted, covered = [{0, 1}, {5}], [{1}, {5}]
    assert theory.new_experts(wanted, covered) == 0.5
    assert theory.new_experts(wanted, covered, layers="sum") == 1
    # An expert in a slot counts little.
    dear = theory.new_experts([{0, 1}], [set()], price=lambda _, e: 1.0 if e else 0.1)
    assert dear == pytest.approx(1.1)
    assert theory.new_experts([], []) == 0


trees = st.lists(
    st.tuples(
        st.integers(-1, 9),
        st.floats(0, 1),
        st.lists(st.sets(st.integers(0, 5), max_size=3), min_size=2, max_size=2),
    ),
    min_size=1,
    max_size=9,
)


@given(trees, st.integers(0, 10))
def test_a_node_is_chosen_after_its_parent_and_the_budget_is_kept(
    drawn: list[tuple[int, float, list[set[int]]]], budget: int
) -> None:
    parents = [min(parent, node - 1) for node, (parent, *_) in enumerate(drawn)]
    picks = theory.economical_nodes(
        parents, [p for _, p, _ in drawn], [e for *_, e in drawn], budget=budget
    )
    order = [pick.node for pick in picks]
    assert len(order) == len({*order}) == min(budget, len(drawn))
    for place, node in enumerate(order):
        assert parents[node] == -1 or parents[node] in order[:place]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.sets(st.integers(0, 5), max_size=3)),
        min_size=1,
        max_size=6,
    )
)
def test_without_anything_new_the_likeliest_come_first(
    drawn: list[tuple[float, set[int]]],
) -> None:
    chances = [chance for chance, _ in drawn]
    picks = theory.economical_nodes(
        [-1] * len(drawn),
        chances,
        [[experts] for _, experts in drawn],
        budget=9,
        covered=[{*range(6)}],
    )
    assert [chances[pick.node] for pick in picks] == sorted(chances, reverse=True)


def test_a_token_is_expected_where_it_was_seen() -> None:
    routes = Routes()
    assert (routes.layers, routes.predict(5)) == (0, [])
    routes.learn(window([5, 9], [[[0, 1], [2, 3]], [[4, 5], [4, 6]]]))
    routes.learn(window([5], [[[0, 7]], [[4, 5]]]))
    assert routes.layers == 2
    # 0 twice, then 1 and 7 once each: the lower number.
    assert routes.predict(5) == [{0, 1}, {4, 5}]
    assert routes.predict(9) == [{2, 3}, {4, 6}]
    # Not seen: what is used most.
    assert routes.predict(77) == [{0, 1}, {4, 5}]


def test_places_that_are_not_used_do_not_count() -> None:
    routes = Routes()
    routes.learn(window([5, 6], [[[1, -1], [3, 2]]]))
    assert routes.predict(5) == [{1}]


def test_only_so_many_tokens_are_remembered() -> None:
    routes = Routes(tokens=2)
    for token in (1, 2, 1, 3):
        routes.learn(window([token], [[[token, 0]]]))
    assert len(routes) == 2
    # 2 was used longest ago: for it the most used ones of all.
    assert routes.predict(2) == [{0, 1}]
    assert routes.predict(3) == [{0, 3}]


def test_routes_are_of_one_model() -> None:
    routes = Routes()
    routes.learn(window([1], [[[0]]]))
    with pytest.raises(ValueError, match="a window has experts in 2 layers, those be"):
        routes.learn(window([1], [[[0]], [[1]]]))


def offers(*drafts: tuple[tuple[int, ...], tuple[float, ...]]) -> list[Offer]:
    return [Offer(0, tokens, None, chances) for tokens, chances in drafts]


def test_ecospec_prefers_a_draft_whose_experts_are_paid_for() -> None:
    policy = EcoSpec()
    policy.learn(window([1, 2, 3], [[[0, 1], [0, 1], [4, 5]]]))
    two = offers(((3,), (0.9,)), ((2,), (0.5,)))
    # After token 1 token 2 adds no expert: 0.5 / 1 against 0.9 / 3.
    assert policy.score(two[0], root=1) == pytest.approx(0.3)
    assert policy.score(two[1], root=1) == pytest.approx(0.5)
    assert policy.choose(two, root=1) == 1
    assert Likeliest().choose(two, root=1) == 0
    # From an empty buffer both add two.
    apart = EcoSpec(from_root=False, routes=policy.routes)
    assert apart.choose(two, root=1) == 0
    assert EcoSpec(eps=1e9, routes=policy.routes).choose(two, root=1) == 0
    dear = EcoSpec(routes=policy.routes, price=lambda layer, expert: 0.0)
    assert dear.choose(two, root=1) == 0


def test_without_a_history_it_is_the_likeliest() -> None:
    three = offers(((1,), (0.4,)), ((2, 3), (0.5, 0.5)), ((4,), (0.6,)))
    assert EcoSpec().choose(three, root=9) == Likeliest().choose(three, root=9) == 1


def test_of_equals_the_first() -> None:
    same = offers(((1,), (0.4,)), ((2,), (0.4,)))
    assert EcoSpec().choose(same, root=9) == Likeliest().choose(same, root=9) == 0


def test_the_matches_of_a_lookup_are_candidates() -> None:
    drafter = SuffixLookup(minimum=2, most=3)
    drafter.assign(PROMPT)
    found = drafter.candidates(2)
    assert found[0] == drafter.propose(2)
    assert [draft.tokens for draft in found] == [(8, 5), (7, 5)]
    assert [draft.match_length for draft in found] == [7, 3]
    assert drafter.candidates(0) == SuffixLookup().candidates(3) == []


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=60), st.integers(1, 5))
def test_a_drafters_first_candidate_is_its_own_draft(
    text: list[int], most: int
) -> None:
    for drafter in (
        SuffixLookup(minimum=2),
        SuffixLookup(minimum=5),
        SuffixTrees(factor=2),
    ):
        drafter.assign(text)
        found = drafter.candidates(most)
        draft = drafter.propose(most)
        assert (found[0] if found else Draft()) == draft
        assert len({each.tokens for each in found}) == len(found) <= 4
        assert all(1 <= len(each.tokens) <= most for each in found)


def test_the_paths_of_a_tree_are_candidates() -> None:
    drafter = SuffixTrees(factor=2)
    drafter.assign([1, 2, 3, 9, 1, 2, 4, 8, 1, 2, 3, 7, 1, 2])
    found = drafter.candidates(3)
    assert found[0] == drafter.propose(3)
    assert {draft.tokens[0] for draft in found} == {3, 4}
    assert found[0].chances is not None
    # Twice of four times; the history ends after the last.
    assert found[0].chances[0] == 0.5


def test_a_tree_says_the_chance_of_each_token_after_those_before() -> None:
    drafter = SuffixTrees(factor=2)
    drafter.assign([0, 1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3, 4, 1, 2, 3])
    draft = drafter.propose(7)
    found = drafter.speculate(7)
    assert draft.chances is not None
    assert len(draft.chances) == len(draft.tokens)
    grown = list(itertools.accumulate(draft.chances, lambda q, p: q * p))
    assert grown == pytest.approx(found.products)
    # Of three that were seen two ended elsewhere; what follows was certain.
    assert 1.0 in draft.chances
    assert min(draft.chances) < 1


@pytest.mark.parametrize("make", [EcoSpec, Likeliest])
@pytest.mark.parametrize("drafter", [SuffixLookup, SuffixTrees])
def test_the_text_is_that_of_plain_decoding(
    tiny: Model, make: Callable[[], Select], drafter: Callable[..., Any]
) -> None:
    text = Session(tiny).reply(PROMPT, max_new=12, stop_ids=()).tokens
    inner = drafter(minimum=2) if drafter is SuffixLookup else drafter()
    selecting = Selecting(inner, make())
    session = Session(tiny, drafter=selecting)
    assert session.reply(PROMPT, max_new=12, stop_ids=()).tokens == text
    assert any(record.offered for record in session.trace)
    assert selecting.history == (*PROMPT, *text)


def test_routes_are_learned_from_the_prompt_on(tiny: Model) -> None:
    select = EcoSpec()
    session = Session(tiny, drafter=Selecting(SuffixLookup(minimum=2), select))
    session.reply(PROMPT, max_new=4, stop_ids=())
    own = Routes()
    for record in session.trace:
        own.learn(record)
    assert select.routes.layers == own.layers > 0
    for token in {*PROMPT}:
        assert select.routes.predict(token) == own.predict(token)


class Last:
    """Chooses the last candidate, and writes down the root."""

    name = "last"

    def __init__(self) -> None:
        self.roots: list[int] = []

    def choose(self, offers: Sequence[Offer], *, root: int) -> int:
        self.roots.append(root)
        return len(offers) - 1

    def learn(self, record: WindowRecord) -> None:
        """Nothing."""


def test_the_choice_is_proposed() -> None:
    select = Last()
    drafter = Selecting(SuffixLookup(minimum=2), select)
    assert drafter.propose(3) == Draft()
    drafter.assign(PROMPT[:-1])
    drafter.append(PROMPT[-1:])
    assert drafter.propose(2).tokens == (7, 5)
    assert select.roots == [3]
    assert drafter.name == "suffix_lookup, last"
    # Where there is one draft nothing is chosen.
    drafter.assign([1, 2, 3, 4, 1, 2, 3])
    assert drafter.propose(2).tokens == (4, 1)
    assert select.roots == [3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EcoSpec(eps=0), "`eps` is 0, wanted a number above 0"),
        (lambda: EcoSpec(layers=cast(Any, "max")), "`layers` is 'max', wanted 'mean'"),
        (lambda: Routes(tokens=0), "`tokens` is 0, wanted 1 or more"),
        (lambda: theory.worth(-1, 0), "`probability` is -1 and `cost` 0"),
        (lambda: theory.new_experts([set()], []), "`wanted` has 1 layers and `cov"),
        (
            lambda: theory.economical_nodes([-1], [], [], budget=1),
            "there are 1 parents, 0 probabilities and 0 sets of experts",
        ),
        (
            lambda: theory.economical_nodes([], [], [], budget=-1),
            "`budget` is -1, wanted 0 or more nodes",
        ),
    ],
)
def test_misuse_is_told(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_drafter_with_one_draft_is_refused() -> None:
    with pytest.raises(TypeError, match="the drafter 'constant' has one draft, wanted"):
        Selecting(cast(Any, Constant([1])), Likeliest())
