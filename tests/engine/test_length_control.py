"""Controllers of length: bounded, blind to the future, never far below no drafts."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_nb import Model, theory
from strata_nb.draft import Adversary, Perfect, SuffixLookup
from strata_nb.policies import (
    Acceptance,
    BestRatio,
    Costs,
    CostTable,
    Fixed,
    Length,
    Marginal,
    Offer,
    Paid,
    Purse,
)
from strata_nb.policies.length import cut_by
from strata_nb.session import Session

PROMPT = [5, 9, 3, 7, 5, 9, 3, 7]
MAKERS: dict[str, Callable[[], Length]] = {
    "fixed": Fixed,
    "best ratio": BestRatio,
    "marginal": Marginal,
    "throughput": lambda: Marginal(at="throughput"),
}
CHEAP = (10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0)
DEAR = (10.0, 16.0, 22.0, 28.0, 34.0, 40.0, 46.0, 52.0)


@dataclass
class World:
    """A text whose drafts are right by chance, and what its windows cost."""

    chance: float
    ms: tuple[float, ...]
    seed: int = 0
    offered: float = 1.0
    rows: list[int] = field(default_factory=list)
    spent: float = 0.0
    blind: bool = False
    """Windows do not tell what they emitted."""

    def run(self, policy: Length, *, tokens: int) -> float:
        """Milliseconds a token."""
        out = 0
        while out < tokens:
            out += self.window(policy, out, most=min(8, tokens - out))
        return self.spent / tokens

    def window(self, policy: Length, at: int, *, most: int) -> int:
        rows = policy.rows(at, most=most, ratio=4)
        there = random.Random(f"{self.seed} {at}").random() < self.offered
        tokens = tuple(map(self.drafted, range(at + 1, at + rows))) if there else ()
        match = 6 if tokens else None
        rows = cut_by(policy, Offer(position=at, tokens=tokens, match_length=match))
        keep = 1
        while keep < rows and self.drafted(at + keep) == at + keep:
            keep += 1
        ms, decided = self.ms[rows - 1], min(keep, rows - 1)
        emitted = () if self.blind else tuple(range(at + 1, at + keep + 1))
        paid = Paid(rows, keep, match, at, ms, decided=decided, emitted=emitted)
        if learn := getattr(policy, "learn", None):
            learn(paid)
        self.rows.append(rows)
        self.spent += ms
        return keep

    def drafted(self, place: int) -> int:
        """The text is its own numbers."""
        right = random.Random(f"{self.seed}, {place}").random() < self.chance
        return place if right else -1


@pytest.mark.parametrize("name", MAKERS)
def test_the_text_is_that_of_plain_decoding(tiny: Model, name: str) -> None:
    text = Session(tiny).reply(PROMPT, max_new=14, stop_ids=()).tokens
    whole = [*PROMPT, *text]
    for drafter in (
        Perfect(whole),
        Adversary(whole, tiny.config.vocab_size),
        SuffixLookup(minimum=2),
    ):
        session = Session(tiny, drafter=drafter, length=MAKERS[name]())
        assert session.reply(PROMPT, max_new=14, stop_ids=()).tokens == text


offers = st.builds(
    Offer,
    position=st.integers(0, 4000),
    tokens=st.lists(st.integers(0, 9), max_size=7).map(tuple),
    match_length=st.none() | st.integers(1, 80),
)
windows = st.lists(
    st.tuples(offers, st.integers(1, 8), st.floats(0.1, 900), st.integers(0, 60)),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(windows, st.sampled_from([*MAKERS]))
def test_never_more_rows_than_there_are_and_the_past_decides(
    given_windows: list[tuple[Offer, int, float, int]], name: str
) -> None:
    first, again = MAKERS[name](), MAKERS[name]()
    for offer, keep, ms, cold in given_windows:
        most = 1 + len(offer.tokens)
        answers = []
        for policy in (first, again):
            asked = policy.rows(offer.position, most=most, ratio=4)
            assert 1 <= asked <= most
            short = Offer(offer.position, offer.tokens[: asked - 1], offer.match_length)
            rows = cut_by(policy, short)
            answers.append((asked, rows))
            kept = min(keep, rows)
            decided = min(kept, rows - 1)
            if learn := getattr(policy, "learn", None):
                come = Paid(rows, kept, offer.match_length, offer.position, ms)
                learn(replace(come, cold=cold, wait_ms=ms / 2, decided=decided))
        assert answers[0] == answers[1]


@pytest.mark.parametrize("make", [BestRatio, Marginal, MAKERS["throughput"]])
@pytest.mark.parametrize("ms", [CHEAP, DEAR])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("blind", [False, True])
def test_drafts_that_are_always_wrong_cost_two_in_a_hundred(
    make: Callable[[], Length], ms: tuple[float, ...], seed: int, blind: bool
) -> None:
    spent = World(0.03, ms, seed, blind=blind).run(make(), tokens=128)
    plain = World(0.03, ms, seed).run(Fixed(1), tokens=128)
    assert spent <= 1.02 * plain


@pytest.mark.parametrize("make", [BestRatio, Marginal, MAKERS["throughput"]])
@pytest.mark.parametrize(
    ("chance", "ms"), [(0.95, CHEAP), (0.8, CHEAP), (0.6, CHEAP), (0.9, DEAR)]
)
def test_what_is_learned_comes_near_the_best_fixed_length(
    make: Callable[[], Length], chance: float, ms: tuple[float, ...]
) -> None:
    own, fixed = 0.0, [0.0] * 8
    for seed in range(4):
        own += World(chance, ms, seed).run(make(), tokens=256)
        for rows in range(8):
            fixed[rows] += World(chance, ms, seed).run(Fixed(rows + 1), tokens=256)
    assert own <= min(fixed) / 0.95


def test_a_long_draft_is_refused_before_the_drafter_is_asked() -> None:
    policy = BestRatio(costs=CostTable(DEAR), purse=Purse(trials=0))
    assert policy.rows(0, most=8, ratio=4) == 2
    for at in range(12):
        policy.cut(Offer(at, (9,), 6))
        policy.learn(Paid(1, 1, 6, at, 15.0, draft_ms=5.0, emitted=(1,)))
        policy.rows(at, most=8, ratio=4)
    assert policy.rows(40, most=8, ratio=4) == 1


def test_where_drafting_costs_nothing_drafts_are_asked_for_and_judged() -> None:
    policy = BestRatio(costs=CostTable(DEAR), purse=Purse(trials=0))
    for at in range(0, 60):
        asked = policy.rows(at, most=8, ratio=4)
        assert asked == (8 if at else 2)
        draft = tuple(range(at + 1, at + asked)) if at > 30 else (0,) * (asked - 1)
        rows = policy.cut(Offer(at, draft, 6))
        policy.learn(Paid(1, 1, 6, at, 10.0, emitted=(at + 1,)))
        # While the drafts were wrong, nothing was verified.
        assert rows == 1 or not 3 < at < 32
    # Nor ever since, but the text has shown that they are right by now.
    assert rows > 4


def test_what_drafting_takes_counts() -> None:
    def asked(draft_ms: float) -> int:
        policy = BestRatio(costs=CostTable(CHEAP), purse=Purse(trials=0))
        for at in range(0, 60, 3):
            policy.rows(at, most=4, ratio=4)
            policy.cut(Offer(position=at, tokens=(1, 2, 3)))
            ms = 13.0 + draft_ms
            policy.learn(Paid(4, 3, None, at, ms, decided=3, draft_ms=draft_ms))
        return policy.rows(100, most=8, ratio=4)

    assert asked(0.0) == 8
    assert asked(1.0) == 3
    assert asked(90.0) == 1


def test_without_a_draft_there_is_nothing_to_decide() -> None:
    policy = BestRatio()
    assert policy.cut(Offer(position=3, tokens=())) == 1


def test_the_purse_forbids_what_could_lose_more_than_it_holds() -> None:
    # By what the drafter says 1.8 rows for 1.6 windows; less one deviation, 1.57.
    offer = Offer(0, (1, 2), None, (0.8, 0.8))
    for grant, rows in ((0.0, 1), (0.02, 1), (0.04, 2), (9.0, 2)):
        purse = Purse(grant=grant, trials=0, most=9)
        assert BestRatio(costs=CostTable(DEAR), purse=purse).cut(offer) == rows, grant


def test_what_drafts_lose_empties_the_purse_and_time_fills_it() -> None:
    purse = Purse(grant=0.5, share=0.01, trials=0.02, most=2)
    purse.pass_by(3.0, gained=-1.0, tried=0.03)
    assert (purse.plain, purse.trial) == pytest.approx((-0.47, 0.03))
    purse.pass_by(10.0, gained=9.0, tried=0)
    assert (purse.plain, purse.trial) == pytest.approx((2.0, 0.23))


def test_a_length_is_tried_only_where_it_could_turn_out_best() -> None:
    def tried(chance: float, trials: float) -> int:
        policy = BestRatio(
            acceptance=Acceptance(calibrate=False),
            costs=Costs(price=0.6),
            purse=Purse(grant=1, trials=trials),
        )
        longest = 0
        for at in range(40):
            rows = policy.cut(Offer(at, (at,), None, (chance,)))
            policy.learn(Paid(1, 1, None, at, 10.0, emitted=(at,)))
            longest = max(longest, rows)
        return longest

    # Two rows are thought to cost 1.6, and might cost a fifth less: 1.28.
    assert tried(0.45, trials=0.02) == 2
    assert tried(0.45, trials=0.0) == 1
    assert tried(0.2, trials=0.02) == 1


def test_the_two_rules_differ_where_costs_are_not_convex() -> None:
    # The third row is dear, the fourth nearly free.
    table = CostTable((10.0, 11.0, 18.0, 18.1))
    offer = Offer(0, (1, 2, 3), None, (0.95, 0.95, 0.95))
    assert BestRatio(costs=table, purse=Purse(grant=9)).cut(offer) == 4
    assert Marginal(costs=table, purse=Purse(grant=9)).cut(offer) == 2


def test_at_the_throughput_a_row_is_held_against_other_windows_too() -> None:
    # By its own E / C a second row does not pay; half the windows have no draft.
    table = CostTable((10.0, 15.5, 21.0))
    policy = Marginal(costs=table, at="throughput", purse=Purse(grant=9, trials=0))
    own = Marginal(costs=table, purse=Purse(grant=9, trials=0))
    for at in range(30):
        for each in (policy, own):
            each.learn(Paid(1, 1, None, at, 20.0))
    offer = Offer(40, (1, 2), None, (0.5, 0.5))
    assert own.cut(offer) == 1
    assert policy.cut(offer) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fixed(0), "`most_rows` is 0, wanted 1 or more rows"),
        (lambda: Acceptance(prior=1.5), "`prior` is 1.5, wanted 0 to 1"),
        (lambda: Acceptance(weight=0), "`weight` 0, wanted numbers above 0"),
        (lambda: Costs(price=-1), "`price` is -1, wanted 0 or more"),
        (lambda: Costs(firm=0), "`firm` is 0, wanted more than 0"),
        (lambda: Costs(horizon=0), "`horizon` is 0, wanted 1 or more windows"),
        (lambda: CostTable(()), r"`ms` is \(\), wanted one or more, each above 0"),
        (lambda: CostTable((1.0,), load_ms=-1), "wanted numbers of 0 or more"),
        (lambda: CostTable((1.0,), colds=(1, 2)), "`colds` has 2 entries and `ms` 1"),
        (lambda: Purse(grant=-1), "`grant` is -1, wanted 0 or more windows"),
        (
            lambda: Marginal(at=cast(Any, "row")),
            "`at` is 'row', wanted 'window' or 'throughput'",
        ),
    ],
)
def test_misuse_is_told(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_rows_at_a_known_throughput() -> None:
    keeps, costs = (1.0, 1.5, 1.75), (10.0, 14.0, 18.0)
    assert theory.keeps([0.5, 0.5]) == pytest.approx(keeps)
    # 0.5 rows for 4 ms: pays below 0.125 a millisecond; 0.25 below 0.0625.
    assert theory.marginal_rows_at(keeps, costs, rate=0.13) == 1
    assert theory.marginal_rows_at(keeps, costs, rate=0.1) == 2
    assert theory.marginal_rows_at(keeps, costs, rate=0.06) == 3
    with pytest.raises(ValueError, match="`rate` is -1, wanted 0 or more"):
        theory.marginal_rows_at(keeps, costs, rate=-1)
