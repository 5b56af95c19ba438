"""Formulas of EVICT, MoE-SpeQ and SpecMoEOff: their worked numbers, all of them."""

import itertools
import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_nb import theory

CHAIN = [10, 11.5, 13, 14.5, 16, 17.5]
FALLING = [0.95, 0.82, 0.69, 0.56, 0.43, 0.30]


def products(chances: list[float]) -> list[float]:
    return theory.path_products(range(-1, len(chances) - 1), chances)


def sums(values: list[float]) -> list[float]:
    return list(itertools.accumulate(values))


def test_a_chain_that_is_equally_sure_throughout() -> None:
    scores = products([0.95] * 6)
    assert sums(scores) == pytest.approx(
        [0.95, 1.8525, 2.7099, 3.5244, 4.2982, 5.0333], abs=5e-5
    )
    assert theory.best_prefix(scores, CHAIN) == 6
    assert theory.best_prefix(scores, CHAIN, count_bonus=True) == 6


def test_a_chain_that_gets_less_sure() -> None:
    scores = products(FALLING)
    assert sums(scores) == pytest.approx(
        [0.95, 1.729, 2.2665, 2.5675, 2.6969, 2.7358], abs=5e-5
    )
    assert theory.best_prefix(scores, CHAIN) == 4
    assert theory.best_prefix(scores, CHAIN, count_bonus=True) == 3


def test_of_equal_ratios_the_smaller() -> None:
    scores = products([0.8] + [0.15] * 5)
    # 0.8 / 10 and 0.92 / 11.5 are both 0.08.
    assert sums(scores)[1] / 11.5 == pytest.approx(0.08)
    assert theory.best_prefix(scores, CHAIN) == 1
    assert theory.best_prefix(scores, CHAIN, count_bonus=True) == 1
    assert theory.best_prefix([], []) == 0


def test_a_tree() -> None:
    # a and b under the root; c and d under a; e under c; f under b.
    parents = [-1, -1, 0, 0, 2, 1]
    chances = [0.6, 0.3, 0.7, 0.2, 0.5, 0.5]
    costs = [10 + 2 * count for count in range(1, 7)]
    scores = theory.path_products(parents, chances)
    assert scores == pytest.approx([0.6, 0.3, 0.42, 0.12, 0.21, 0.15])
    best = sums(sorted(scores, reverse=True))
    assert [e / c for e, c in zip(best, costs, strict=True)] == pytest.approx(
        [0.05, 0.0729, 0.0825, 0.085, 0.084, 0.0818], abs=5e-5
    )
    whole = theory.kept_nodes(parents, chances, [1] * 5 + [1e-9])
    assert "".join("abcdef"[node] for node in whole) == "acbefd"
    kept = theory.kept_nodes(parents, chances, costs)
    assert "".join("abcdef"[node] for node in kept) == "acbe"
    assert len(theory.kept_nodes(parents, chances, costs, count_bonus=True)) == 3


trees = st.lists(
    st.tuples(st.integers(-1, 9), st.floats(0, 1), st.floats(0.1, 9)),
    min_size=1,
    max_size=9,
)


@given(trees, st.booleans())
def test_what_is_kept_of_a_tree_is_a_tree_and_no_prefix_is_better(
    drawn: list[tuple[int, float, float]], bonus: bool
) -> None:
    parents = [min(parent, node - 1) for node, (parent, _, _) in enumerate(drawn)]
    chances = [chance for _, chance, _ in drawn]
    costs = [cost for *_, cost in drawn]
    kept = theory.kept_nodes(parents, chances, costs, count_bonus=bonus)
    for place, node in enumerate(kept):
        assert parents[node] == -1 or parents[node] in kept[:place]
    best = sums(sorted(theory.path_products(parents, chances), reverse=True))
    ratios = [(e + bonus) / c for e, c in zip(best, costs, strict=True)]
    assert ratios[len(kept) - 1] >= max(ratios) * (1 - 1e-6)


def cycle(drafts: int) -> float:
    return theory.cycle_ms(
        draft_ms=1 + 2 * drafts,
        init_ms=5,
        new_ms=0.5 + 0.6 * drafts * 157.3e6 / 25e9 * 1e3,
        verify_ms=6 + 1.2 * (drafts + 1),
    )


@pytest.mark.parametrize(
    ("chance", "rates", "best"),
    [
        (0.95, [53.75, 81.79, 91.47, 96.29, 98.64, 99.57, 99.63, 99.15], 7),
        (0.80, [45.26, 63.58, 65.89, 64.52, 61.71, 58.38, 54.95, 51.61], 3),
        (0.60, [33.95, 42.38, 39.70, 35.67, 31.75, 28.29, 25.35, 22.86], 2),
    ],
)
def test_the_governors_table(chance: float, rates: list[float], best: int) -> None:
    accepted = theory.expected_accepted([chance] * 8)
    cycles = [cycle(drafts) for drafts in range(1, 9)]
    found = [1e3 * a / c for a, c in zip(accepted, cycles, strict=True)]
    assert found == pytest.approx(rates, abs=6e-3)
    assert theory.best_draft(accepted, cycles) == best


def test_one_cell_of_the_governors_table() -> None:
    assert theory.expected_accepted([0.8] * 3)[2] == pytest.approx(1.952)
    assert cycle(3) == pytest.approx(29.626, abs=5e-4)


@given(st.floats(0.01, 0.99), st.integers(1, 8), st.integers(1, 8))
def test_the_governor_keeps_to_its_bounds(chance: float, low: int, high: int) -> None:
    accepted = theory.expected_accepted([chance] * 8)
    cycles = [cycle(drafts) for drafts in range(1, 9)]
    found = theory.best_draft(accepted, cycles, least=low, most=high)
    assert found <= high
    assert found >= min(low, high)


@settings(max_examples=50)
@given(st.floats(0.05, 0.99), st.floats(1e9, 1e11), st.floats(1, 30))
def test_a_faster_link_never_shortens_the_draft(
    chance: float, link: float, factor: float
) -> None:
    accepted = theory.expected_accepted([chance] * 8)

    def best(bytes_per_s: float) -> int:
        return theory.best_draft(
            accepted, [13 + 3 * k + 0.6 * k * 157.3e9 / bytes_per_s for k in range(8)]
        )

    assert best(link * factor) >= best(link)


def test_tokens_for_each_byte_that_was_waited_for() -> None:
    assert theory.amortisation(2.0, 4e6) == pytest.approx(5e-7)
    # At 25 GB/s that is a roof of 12500 tokens a second.
    assert 25e9 * theory.amortisation(2.0, 4e6) == pytest.approx(12_500)
    assert theory.amortisation(2.0, 0) == math.inf


def test_the_ridges_of_two_cards() -> None:
    assert theory.ridge(165e12, 25e9) == pytest.approx(6600)
    assert theory.ridge(83e12, 23e9) == pytest.approx(3609, abs=0.5)
    assert 0.0313 * theory.ridge(165e12, 25e9) == pytest.approx(207, abs=0.5)
    tokens = theory.tokens_per_expert(826, drafts=0, chosen=2, experts=8)
    assert tokens == pytest.approx(207, abs=0.6)
    # Of the two CPUs, operations a byte.
    assert theory.ridge(2.43e12, 357e9) == pytest.approx(6.8, abs=0.05)
    assert theory.ridge(1.45e12, 197e9) == pytest.approx(7.4, abs=0.05)


def test_drafts_multiply_what_a_loaded_expert_does() -> None:
    serve = [
        theory.tokens_per_expert(64, drafts=k, chosen=2, experts=8) for k in (0, 4)
    ]
    assert serve == [16, 80]
    low, high = (theory.attainable(165e12, 25e9, intensity=each) for each in serve)
    assert high == pytest.approx(5 * low)
    assert theory.attainable(165e12, 25e9, intensity=9000) == 165e12


def test_the_longest_path_is_that_of_what_waits() -> None:
    ms = {"draft": 2.0, "copy": 5.0, "attend": 3.0, "experts": 4.0}
    after = {"attend": ["draft"], "experts": ["attend", "copy"]}
    # Both the copy and the attention have ended after 5 ms.
    assert theory.longest_path(ms, after) == pytest.approx(9)
    assert theory.longest_path({**ms, "copy": 9.0}, after) == pytest.approx(13)
    assert theory.longest_path({}, {}) == 0


@given(st.lists(st.floats(0, 9), min_size=1, max_size=8), st.data())
def test_the_longest_path_is_the_longest_of_all_chains(
    times: list[float], data: st.DataObject
) -> None:
    ms = {str(at): time for at, time in enumerate(times)}
    after = {
        str(at): [str(n) for n in range(at) if data.draw(st.booleans())]
        for at in range(len(times))
    }

    def ends(name: str) -> float:
        return ms[name] + max((ends(other) for other in after[name]), default=0.0)

    assert theory.longest_path(ms, after) == pytest.approx(max(map(ends, ms)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.path_products([0], [0.5]), "the parent of node 0 is 0, wanted"),
        (lambda: theory.path_products([-1], [2]), "of node 0 is 2, wanted 0 to 1"),
        (lambda: theory.path_products([-1], []), "1 entries and `chances` 0"),
        (lambda: theory.best_prefix([0.5], []), "1 entries and `costs` 0"),
        (lambda: theory.best_prefix([0.5], [0]), "1 nodes bring 0.5 and cost 0"),
        (lambda: theory.best_prefix([math.nan], [1]), "1 nodes bring nan and cost 1"),
        (lambda: theory.best_draft([], []), "0 entries and `cycles` 0, wanted one"),
        (lambda: theory.best_draft([1], [1], least=0), "`least` is 0 and `most` None"),
        (lambda: theory.best_draft([1], [0]), "1 drafts bring 1 and take 0 ms"),
        (lambda: theory.amortisation(-1, 1), "`accepted` is -1 and `read_bytes` 1"),
        (lambda: theory.ridge(0, 1), "`flops` is 0, wanted more than 0"),
        (lambda: theory.attainable(1, 1, intensity=0), "`intensity` is 0, wanted more"),
        (
            lambda: theory.tokens_per_expert(1, drafts=0, chosen=9, experts=8),
            "`drafts` is 0, `chosen` 9 and `experts` 8",
        ),
        (lambda: theory.longest_path({}, {"a": []}), "`ms` has no time of a; give all"),
        (lambda: theory.longest_path({"a": -1.0}, {}), "`ms` of a is -1.0, wanted 0"),
        (
            lambda: theory.longest_path({"a": 1, "b": 1}, {"a": ["b"], "b": ["a"]}),
            "a, b wait for each other in a circle; wanted an order",
        ),
        (
            lambda: theory.cycle_ms(draft_ms=0, init_ms=0, new_ms=0, verify_ms=0),
            "the times of a window are 0, 0, 0 and 0 ms, wanted 0 or more",
        ),
    ],
)
def test_misuse_is_told(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
