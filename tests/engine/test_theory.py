"""The formulas: the rule's own numbers, enumeration of everything, and misuse."""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strata_nb import theory

chances = st.floats(0, 1, allow_nan=False)
counts = st.integers(0, 30)


def test_the_keep_at_0_7() -> None:
    assert theory.expected_keep([0.7] * 3) == pytest.approx(2.533)
    assert theory.expected_keep([0.7] * 2) == pytest.approx(2.19)
    assert theory.expected_keep([]) == 1


def test_the_keep_of_a_chain_that_falls() -> None:
    # 1 + .9 + .9*.5 + 0: what lies behind a draft never accepted counts nothing.
    assert theory.expected_keep([0.9, 0.5, 0, 1]) == pytest.approx(2.35)
    assert theory.survival([0.9, 0.5, 0, 1]) == pytest.approx((1, 0.9, 0.45, 0, 0))


def test_the_keep_of_always_and_never() -> None:
    assert theory.expected_keep([1] * 7) == 8
    assert theory.expected_keep([0] * 7) == 1


@given(st.lists(chances, max_size=7))
def test_the_keep_is_that_of_all_outcomes_counted(acceptance: list[float]) -> None:
    total = 0.0
    for fates in itertools.product((True, False), repeat=len(acceptance)):
        weights = [
            a if fate else 1 - a for a, fate in zip(acceptance, fates, strict=True)
        ]
        first = fates.index(False) if False in fates else len(fates)
        total += math.prod(weights) * (1 + first)
    assert theory.expected_keep(acceptance) == pytest.approx(total, abs=1e-9)


def test_the_keep_is_that_of_drawn_windows() -> None:
    rng = np.random.default_rng(7)
    acceptance = [0.8, 0.6, 0.9, 0.3]
    drawn = rng.random((40_000, 4)) < acceptance
    keeps = 1 + np.cumprod(drawn, axis=1).sum(axis=1)
    error = 5 * keeps.std() / math.sqrt(len(keeps))
    assert abs(theory.expected_keep(acceptance) - keeps.mean()) < error


@given(st.lists(chances, min_size=1, max_size=7))
def test_one_more_draft_never_brings_less_nor_more_than_the_last(
    acceptance: list[float],
) -> None:
    keeps = [
        theory.expected_keep(acceptance[:drafts])
        for drafts in range(len(acceptance) + 1)
    ]
    brought = np.diff(keeps)
    assert (brought >= 0).all()
    assert (np.diff(brought) <= 1e-12).all()


def test_the_window_that_breaks_even() -> None:
    assert theory.break_even_ms(44.4, [0.7] * 3) == pytest.approx(112.5, abs=0.05)


@given(st.floats(0.01, 0.99), st.integers(1, 7), st.floats(1, 100))
def test_the_acceptance_that_breaks_even_is_the_inverse(
    chance: float, drafts: int, serial_ms: float
) -> None:
    window_ms = theory.break_even_ms(serial_ms, [chance] * drafts)
    found = theory.break_even_acceptance(window_ms, serial_ms=serial_ms, drafts=drafts)
    assert found == pytest.approx(chance, abs=1e-9)


@pytest.mark.parametrize(
    ("window_ms", "wanted"), [(5, 0), (10, 0), (40, 1), (41, None)]
)
def test_the_acceptance_that_breaks_even_at_the_ends(
    window_ms: float, wanted: float | None
) -> None:
    found = theory.break_even_acceptance(window_ms, serial_ms=10, drafts=3)
    assert found == (None if wanted is None else pytest.approx(wanted))


def test_a_window_no_dearer_than_a_token_needs_no_draft_to_be_right() -> None:
    """Not nearly 0: halving alone would end a little above it."""
    for window_ms in (5, 10):
        found = theory.break_even_acceptance(window_ms, serial_ms=10, drafts=3)
        assert found == 0


def test_the_gain() -> None:
    assert theory.gain(2.5, 3, 0) == 2.5
    assert theory.gain(2.5, 3, 0.5) == 1
    assert theory.gain(1, 3, 1) == 0.25


@given(st.lists(chances, max_size=7), st.floats(0, 2), st.floats(1, 100))
def test_a_gain_of_one_is_breaking_even(
    acceptance: list[float], price: float, serial_ms: float
) -> None:
    tokens, drafts = theory.expected_keep(acceptance), len(acceptance)
    window_ms = theory.window_ms(
        drafts + 1, 0, dense_ms=serial_ms, expert_ms=0, row_ms=price * serial_ms
    )
    allowed = theory.break_even_ms(serial_ms, acceptance)
    assert theory.gain(tokens, drafts, price) == pytest.approx(allowed / window_ms)


def test_the_union_of_512_experts() -> None:
    assert theory.uniform_union(512, 10, 1) == pytest.approx(10)
    assert theory.uniform_union(512, 10, 4) == pytest.approx(38.8, abs=0.05)
    assert theory.largest_union(512, 10, 4) == 40


@pytest.mark.parametrize(
    ("layer", "wanted"),
    [
        ((64, 8, 31), 62.98),
        ((128, 8, 32), 111.77),
        ((128, 8, 63), 125.81),
        ((128, 8, 4), 29.12),
        ((256, 8, 4), 30.53),
        ((8, 2, 5), 6.10),
    ],
)
def test_the_unions_of_the_papers(layer: tuple[int, int, int], wanted: float) -> None:
    assert theory.uniform_union(*layer) == pytest.approx(wanted, abs=0.005)


@pytest.mark.parametrize(
    ("experts", "chosen", "rows"), [(4, 2, 3), (5, 1, 4), (3, 3, 2)]
)
def test_the_union_is_that_of_all_choices_counted(
    experts: int, chosen: int, rows: int
) -> None:
    choices = list(itertools.combinations(range(experts), chosen))
    sizes = [
        len(set().union(*drawn)) for drawn in itertools.product(choices, repeat=rows)
    ]
    mean = sum(sizes) / len(sizes)
    assert theory.uniform_union(experts, chosen, rows) == pytest.approx(mean)
    assert max(sizes) == theory.largest_union(experts, chosen, rows)


@given(st.integers(1, 600), st.integers(0, 600), counts)
def test_no_union_passes_its_bound(experts: int, chosen: int, rows: int) -> None:
    chosen = min(chosen, experts)
    found = theory.uniform_union(experts, chosen, rows)
    assert found <= theory.largest_union(experts, chosen, rows) + 1e-9
    assert found >= (chosen if rows else 0) - 1e-9


def test_the_cap_without_io() -> None:
    assert theory.cap_without_io(44.4, rest_ms=38) == pytest.approx(1.17, abs=0.005)
    assert theory.cap_without_io(44.4, rest_ms=44.4) == 1


def test_a_window_is_a_dense_part_and_a_union_part() -> None:
    assert theory.window_ms(1, 10, dense_ms=28, expert_ms=1) == 38
    union = theory.uniform_union(512, 10, 4)
    cost = theory.window_ms(4, union, dense_ms=28, expert_ms=1)
    # Almost nothing shared: 66.8 ms for four rows, and still less than 112.5.
    assert cost == pytest.approx(66.8, abs=0.05)
    assert theory.window_ms(4, 10, dense_ms=28, expert_ms=1, row_ms=2) == 44


# Papers, 8: a chain with the gains .95 .82 .69 .56 .43 .30, bonus counted or not.
EVICT = [0.95, 0.95 + 0.779, 2.2665, 2.5675, 2.6969, 2.7358]
COSTS = [10, 11.5, 13, 14.5, 16, 17.5]


def test_the_lengths_of_the_papers() -> None:
    assert theory.best_rows(EVICT, COSTS) == 4
    assert theory.best_rows([1 + keep for keep in EVICT], COSTS) == 3
    assert theory.rules_agree(EVICT, COSTS)
    assert theory.marginal_rows(EVICT, COSTS) == 4


def test_of_equal_lengths_the_fewest_rows() -> None:
    assert theory.best_rows([1, 2, 3], [10, 20, 30]) == 1
    assert theory.marginal_rows([1, 2, 3], [10, 20, 30]) == 1


curves = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=8
)


@given(curves)
def test_the_best_length_is_that_of_all_tried(curve: list[tuple[int, int]]) -> None:
    keeps, costs = zip(*curve, strict=True)
    ratios = [keep / cost for keep, cost in curve]
    found = theory.best_rows(keeps, costs)
    assert ratios[found - 1] == max(ratios)
    assert all(ratio < max(ratios) for ratio in ratios[: found - 1])


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=7),
    st.lists(st.integers(-20, 50), min_size=1, max_size=7),
    st.integers(0, 50),
    st.integers(1, 50),
)
@example(brought=[5, 0], prices=[0, 0], keep=5, cost=5)
def test_the_rules_agree_where_they_must(
    brought: list[int], prices: list[int], keep: int, cost: int
) -> None:
    rows = min(len(brought), len(prices))
    keeps = list(np.cumsum([keep, *sorted(brought, reverse=True)[:rows]]).tolist())
    costs = list(np.cumsum([cost, *sorted(prices)[:rows]]).tolist())
    costs = [value - min(0, min(costs) - 1) for value in costs]
    assert theory.rules_agree(keeps, costs)
    assert theory.marginal_rows(keeps, costs) == theory.best_rows(keeps, costs)


@given(curves)
@settings(max_examples=300)
def test_where_the_rules_part_a_curve_is_bent(curve: list[tuple[int, int]]) -> None:
    keeps, costs = zip(*curve, strict=True)
    if theory.marginal_rows(keeps, costs) != theory.best_rows(keeps, costs):
        assert not theory.rules_agree(keeps, costs)


def test_the_rules_part_where_a_row_is_dear_and_the_next_is_cheap() -> None:
    keeps = [theory.expected_keep([0.9] * drafts) for drafts in range(4)]
    costs = [10, 25, 26, 27]
    assert not theory.rules_agree(keeps, costs)
    assert theory.marginal_rows(keeps, costs) == 1
    assert theory.best_rows(keeps, costs) == 4


@given(st.lists(chances, max_size=7), st.floats(0.1, 50), st.floats(0, 50))
def test_a_keep_is_concave_and_a_line_convex(
    acceptance: list[float], first: float, further: float
) -> None:
    keeps = [
        theory.expected_keep(acceptance[:drafts])
        for drafts in range(len(acceptance) + 1)
    ]
    costs = [first + further * drafts for drafts in range(len(keeps))]
    assert theory.rules_agree(keeps, costs)


WRONG: list[tuple[str, Callable[[], object], str]] = [
    ("a chance above 1", lambda: theory.expected_keep([0.5, 1.1]), "of draft 2 is 1.1"),
    ("a chance below 0", lambda: theory.survival([-0.1]), "wanted 0 to 1; a chance is"),
    ("a chance NaN", lambda: theory.expected_keep([math.nan]), "of draft 1 is nan"),
    (
        "no time",
        lambda: theory.break_even_ms(0, [0.5]),
        "`serial_ms` is 0, wanted more",
    ),
    ("NaN", lambda: theory.break_even_ms(math.nan, []), "`serial_ms` is nan"),
    (
        "no drafts",
        lambda: theory.break_even_acceptance(9, serial_ms=9, drafts=0),
        "`drafts` is 0, wanted 1 or more",
    ),
    (
        "no window",
        lambda: theory.break_even_acceptance(-1, serial_ms=9, drafts=1),
        "`window_ms` is -1, wanted more than 0",
    ),
    ("a negative price", lambda: theory.gain(1, 1, -1), "`price` is -1, wanted 0 or"),
    ("no experts", lambda: theory.uniform_union(0, 0, 1), "`experts` is 0, wanted 1"),
    ("more than all", lambda: theory.uniform_union(8, 9, 1), "at most `experts` = 8"),
    ("rows below 0", lambda: theory.largest_union(8, 2, -1), "`rows` is -1, wanted 0"),
    (
        "a part above the whole",
        lambda: theory.cap_without_io(38, rest_ms=44),
        "wanted at most `serial_ms` = 38",
    ),
    (
        "no row",
        lambda: theory.window_ms(0, 1, dense_ms=1, expert_ms=1),
        "`rows` is 0, wanted 1 or more",
    ),
    ("no curve", lambda: theory.best_rows([], []), "one of each for T = 1, 2"),
    ("two lengths", lambda: theory.marginal_rows([1], [1, 2]), "1 entries and `costs`"),
    ("free", lambda: theory.rules_agree([1], [0]), "`costs` is 0, wanted more than 0"),
    ("a keep NaN", lambda: theory.best_rows([math.nan], [1]), "`keeps` is nan"),
]


@pytest.mark.parametrize(
    ("call", "words"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG]
)
def test_misuse_is_told(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_a_count_is_whole() -> None:
    wrong: Sequence[float] = (8, 2.5, 1)
    with pytest.raises(TypeError, match="integer"):
        theory.uniform_union(*wrong)  # type: ignore[arg-type]
