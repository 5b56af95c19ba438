"""EVICT, MoE-SpeQ's governor and SpecMoEOff's choice, as length policies."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_nb import Model
from strata_nb.draft import Adversary, Perfect, SuffixLookup
from strata_nb.policies import (
    CostTable,
    Evict,
    Governor,
    Length,
    Offer,
    Operators,
    Paid,
    Profile,
    Roofline,
)
from strata_nb.policies.length import cut_by
from strata_nb.session import Session

PROMPT = [5, 9, 3, 7, 5, 9, 3, 7]
# The worked profile of MoE-SpeQ; 157.3 MB at 25 GB/s.
SPEQ = Profile(
    draft_ms=1,
    draft_token_ms=2,
    init_ms=5,
    verify_ms=6,
    verify_row_ms=1.2,
    read_ms=0.5,
    read_draft_ms=0.6 * 157.3e6 / 25e9 * 1e3,
)
MAKERS: dict[str, Callable[[], Length]] = {
    "evict": Evict,
    "evict, bonus": lambda: Evict(count_bonus=True),
    "evict, never plain": lambda: Evict(plain=False),
    "governor": Governor,
    "governor, profile": lambda: Governor(profile=SPEQ, plain=False),
    "roofline": Roofline,
    "roofline, operators": lambda: Roofline(iteration=Operators().iteration_ms),
}
# EVICT's worked costs, of k nodes beside the root; a root alone costs 8.5.
NODES = (8.5, 10.0, 11.5, 13.0, 14.5, 16.0, 17.5)


@pytest.mark.parametrize("name", MAKERS)
def test_the_text_is_that_of_plain_decoding(tiny: Model, name: str) -> None:
    text = Session(tiny).reply(PROMPT, max_new=12, stop_ids=()).tokens
    whole = [*PROMPT, *text]
    for drafter in (
        Perfect(whole),
        Adversary(whole, tiny.config.vocab_size),
        SuffixLookup(minimum=2),
    ):
        session = Session(tiny, drafter=drafter, length=MAKERS[name]())
        assert session.reply(PROMPT, max_new=12, stop_ids=()).tokens == text


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 8), st.floats(0.1, 99))),
    st.sampled_from([*MAKERS]),
)
def test_never_more_rows_than_there_are_and_the_past_decides(
    drawn: list[tuple[int, int, float]], name: str
) -> None:
    first, again = MAKERS[name](), MAKERS[name]()
    for at, (tokens, keep, ms) in enumerate(drawn):
        answers = []
        for policy in (first, again):
            rows = policy.rows(at, most=8, ratio=4)
            assert 1 <= rows <= 8
            offer = Offer(at, tuple(range(min(tokens, rows - 1))))
            rows = cut_by(policy, offer)
            answers.append(rows)
            kept = min(keep, rows)
            learn = getattr(policy, "learn", None)
            assert learn is not None
            learn(Paid(rows, kept, None, at, ms, decided=min(kept, rows - 1)))
        assert answers[0] == answers[1]


def offer(chances: tuple[float, ...]) -> Offer:
    return Offer(0, tuple(range(len(chances))), None, chances)


@pytest.mark.parametrize(
    ("chances", "drafts", "with_bonus"),
    [
        ((0.95,) * 6, 6, 6),
        ((0.95, 0.82, 0.69, 0.56, 0.43, 0.30), 4, 3),
        ((0.8, *(0.15,) * 5), 1, 1),
    ],
)
def test_evict_cuts_as_its_paper_does(
    chances: tuple[float, ...], drafts: int, with_bonus: int
) -> None:
    table = CostTable(NODES)
    assert Evict(costs=table).cut(offer(chances)) == 1 + drafts
    policy = Evict(costs=table, count_bonus=True)
    assert policy.cut(offer(chances)) == 1 + with_bonus
    assert policy.rows(0, most=8, ratio=4) == 8


def test_evict_may_verify_nothing_but_the_root() -> None:
    hopeless = offer((0.1, 0.1))
    table = CostTable(NODES)
    assert Evict(costs=table).cut(hopeless) == 1
    assert Evict(costs=table, plain=False).cut(hopeless) == 2
    assert Evict(costs=table, plain=False).cut(Offer(0, ())) == 1
    # Drafts of which nothing is expected: the paper's Ehat has no best one.
    assert Evict(costs=table).cut(offer((0.0, 0.0))) == 1


def test_evict_takes_counts_where_a_drafter_says_nothing() -> None:
    policy = Evict(costs=CostTable(NODES))
    for at in range(20):
        policy.learn(Paid(4, 1, 6, at, 1.0, decided=1))
    assert policy.cut(Offer(0, (1, 2, 3), 6)) == 1
    for at in range(60):
        policy.learn(Paid(4, 4, 6, at, 1.0, decided=3))
    assert policy.cut(Offer(0, (1, 2, 3), 6)) == 4


@pytest.mark.parametrize(("prior", "drafts"), [(0.95, 7), (0.8, 3), (0.6, 2)])
def test_the_governor_drafts_as_its_table_says(prior: float, drafts: int) -> None:
    policy = Governor(profile=SPEQ, prior=prior, plain=False, warm_up=0)
    assert policy.rows(0, most=9, ratio=4) == 1 + drafts
    bound = Governor(profile=SPEQ, prior=prior, plain=False, warm_up=0, k_slo=2)
    assert bound.rows(0, most=9, ratio=4) == 3
    least = Governor(profile=SPEQ, prior=prior, plain=False, warm_up=0, k_min=8)
    assert least.rows(0, most=9, ratio=4) == 9
    assert policy.rows(0, most=1, ratio=4) == 1


@pytest.mark.parametrize("make", [Governor, Roofline])
def test_the_first_windows_are_long_to_measure(
    make: Callable[..., Governor | Roofline],
) -> None:
    policy = make(costs=CostTable((10.0, 18.0, 26.0, 34.0)), warm_up=2)
    for at in range(2):
        assert policy.rows(at, most=4, ratio=4) == 4
        # Windows without a draft measure nothing.
        policy.learn(Paid(1, 1, None, at, 10.0))
    for at in range(2):
        assert policy.rows(at, most=4, ratio=4) == 4
        policy.learn(Paid(4, 1, None, at, 34.0, decided=1))
    for at in range(8):
        policy.learn(Paid(4, 1, None, at, 34.0, decided=1))
    assert policy.rows(9, most=4, ratio=4) == 1


def test_the_governors_average_moves() -> None:
    policy = Governor(rate=0.5, prior=0.8)
    policy.learn(Paid(4, 2, None, 0, 10.0, decided=2))
    # Place 0 accepted, place 1 not, place 2 not decided.
    assert policy.chances(3) == pytest.approx([0.9, 0.4, 0.8])


def test_the_governor_may_decode_without_drafts() -> None:
    assert SPEQ.cycle_ms(0) == pytest.approx(7.2)
    wrong, stubborn = (Governor(profile=SPEQ, plain=plain) for plain in (True, False))
    for policy in (wrong, stubborn):
        for at in range(40):
            policy.learn(Paid(4, 1, None, at, 30.0, decided=1))
    assert wrong.rows(0, most=8, ratio=4) == 1
    assert stubborn.rows(0, most=8, ratio=4) > 1


def test_the_governor_counts_what_drafting_takes() -> None:
    def drafts(draft_ms: float) -> int:
        policy = Governor(costs=CostTable((10.0, 11.0, 12.0, 13.0)), prior=0.9)
        for at in range(20):
            policy.cut(Offer(at, (1, 2, 3)))
            policy.learn(Paid(4, 4, None, at, 13.0, decided=3, draft_ms=draft_ms))
        return policy.rows(0, most=4, ratio=4)

    assert drafts(0.0) == 4
    assert drafts(60.0) == 1


def test_an_iteration_overlaps_what_it_can() -> None:
    alone = Operators(layers=1, attention=(2.0, 0.0), experts=(3.0, 0.0))
    # attend 0 2, attend 1 4; experts 0 2..5, experts 1 5..8.
    assert alone.iteration_ms(0) == pytest.approx(8)
    two = Operators(layers=2, attention=(2.0, 0.0), experts=(3.0, 0.0))
    # The CPU waits for nothing, the GPU runs through: 2 + 4 * 3.
    assert two.iteration_ms(0) == pytest.approx(14)
    link = Operators(layers=2, attention=(2.0, 0.0), experts=(3.0, 0.0), copy_ms=20.0)
    # The second copy ends at 40, then two batches' experts.
    assert link.iteration_ms(0) == pytest.approx(46)
    # Behind a slow link rows are nearly free: that is the paper's point.
    rows = Operators(layers=2, attention=(0.1, 0.1), experts=(0.1, 0.1), copy_ms=20.0)
    assert rows.iteration_ms(7) < 1.1 * rows.iteration_ms(0)


def test_the_roofline_takes_the_best_of_its_grid() -> None:
    times = {0: 10.0, 1: 11.0, 2: 12.0, 3: 18.0}
    policy = Roofline(iteration=lambda k: times[k], warm_up=0)
    # 1, 1.7, 2.19, 2.533 tokens: 0.1, 0.155, 0.182, 0.141 a millisecond.
    assert policy.gains(3) == pytest.approx([1, 1.7, 2.19, 2.533])
    assert policy.rows(0, most=4, ratio=4) == 3
    for at in range(8):
        policy.learn(Paid(3, 1, None, at, 12.0))
    assert policy.gains(2) == pytest.approx([1, 1, 1])
    assert policy.rows(0, most=4, ratio=4) == 1
    paper = Roofline(iteration=lambda k: times[k], plain=False)
    for at in range(8):
        paper.learn(Paid(3, 1, None, at, 12.0))
    assert paper.rows(0, most=4, ratio=4) == 2


def test_the_roofline_is_sought_anew_from_time_to_time() -> None:
    policy = Roofline(iteration=lambda k: 10.0 + k, every=3, warm_up=0)
    before = policy.rows(0, most=8, ratio=4)
    for at in range(2):
        policy.learn(Paid(8, 1, None, at, 17.0))
        assert policy.rows(0, most=8, ratio=4) == before
    policy.learn(Paid(8, 1, None, 9, 17.0))
    assert policy.rows(0, most=8, ratio=4) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Governor(k_min=0), "`k_min` is 0, wanted 1 or more drafts"),
        (lambda: Governor(k_slo=0), "`k_slo` is 0, wanted 1 or more drafts"),
        (lambda: Governor(rate=0), "`rate` is 0 and `prior` 0.8, wanted 0 to 1"),
        (lambda: Governor(warm_up=-1), "`warm_up` is -1, wanted 0 or more windows"),
        (lambda: Roofline(warm_up=-1), "`warm_up` is -1, wanted 0 or more windows"),
        (lambda: Profile(init_ms=-1), "`init_ms` is -1, wanted 0 or more"),
        (lambda: Profile(verify_row_ms=0), "a window takes no time; give `verify_row"),
        (lambda: Roofline(every=0), "`every` is 0, wanted 1 or more windows"),
        (lambda: Roofline(decay=0), "`decay` is 0 and `prior` 0.7, wanted 0 to 1"),
        (lambda: Operators(layers=0), "`layers` is 0, wanted 1 or more"),
        (lambda: Operators(copy_ms=-1), "times are .*-1.*, wanted 0 or more"),
    ],
)
def test_misuse_is_told(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
