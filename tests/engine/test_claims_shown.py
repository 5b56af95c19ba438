"""Small exact counts behind claims of `notebooks/CLAIMS.md` that nothing else shows."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import cast

import pytest

from strata_nb import LayerRecord, Model, theory
from strata_nb.accept import accept
from strata_nb.gates.stage.places import threshold
from strata_nb.gates.tail.containment import price
from strata_nb.theory import uniform_union

# Measured by the audit on another machine, in ms a token: serial, and its GPU share.
SERIAL_MS, GPU_MS, EXPOSED_MS = 44.4, 38, 6


def mean_keep(chances: list[Fraction]) -> Fraction:
    """Rows kept on average, by trying every outcome of the drafts on `accept`.

    Args:
        chances: of each draft, that it is right when all before it were.
    """
    found = Fraction(0)
    for right in itertools.product((True, False), repeat=len(chances)):
        # Draft i is token i, and the target wants token i, or else token 99.
        inputs = list(range(len(chances) + 1))
        wanted = [i if yes else 99 for i, yes in enumerate(right, 1)]
        kept = accept(inputs, [*wanted, 100]).accepted + 1
        chance = Fraction(1)
        for yes, a in zip(right, chances, strict=True):
            chance *= a if yes else 1 - a
        found += chance * kept
    return found


def test_the_mean_keep_is_the_sum_of_products() -> None:
    chances = [Fraction(9, 10), Fraction(1, 2), Fraction(4, 5), Fraction(1, 3)]
    products = [math.prod(chances[:i], start=Fraction(1)) for i in range(5)]
    assert mean_keep(chances) == sum(products) == Fraction(283, 100)


@pytest.mark.parametrize(("rows", "kept"), [(1, "1"), (3, "2.19"), (4, "2.533")])
def test_the_mean_keep_at_an_acceptance_of_0_7(rows: int, kept: str) -> None:
    assert mean_keep([Fraction("0.7")] * (rows - 1)) == Fraction(kept)
    assert price(0.7, rows=rows).free == pytest.approx(float(kept), abs=1e-12)


def test_a_window_of_four_breaks_even_at_112_5_ms() -> None:
    rows = 4  # a root and three drafts
    acceptance = (0.7,) * (rows - 1)
    assert round(theory.break_even_ms(SERIAL_MS, acceptance), 1) == 112.5


def test_without_exposed_reads_a_token_is_1_17_times_as_fast() -> None:
    assert round(theory.cap_without_io(SERIAL_MS, rest_ms=GPU_MS), 2) == 1.17
    # The two figures that it comes from are rounded: by the other one it is less.
    rest_ms = SERIAL_MS - EXPOSED_MS
    assert round(theory.cap_without_io(SERIAL_MS, rest_ms=rest_ms), 2) == 1.16


@pytest.mark.parametrize(
    ("experts", "chosen", "rows"), [(5, 2, 3), (6, 1, 4), (4, 3, 3)]
)
def test_the_union_by_chance_by_trying_every_choice(
    experts: int, chosen: int, rows: int
) -> None:
    """Rows that pick at random by themselves: the mean over all they can pick."""
    picks = list(itertools.combinations(range(experts), chosen))
    sizes = [
        LayerRecord.from_decisions(0, [list(row) for row in ids], 1).union_size
        for ids in itertools.product(picks, repeat=rows)
    ]
    mean = sum(sizes) / len(sizes)
    assert uniform_union(experts, chosen, rows) == pytest.approx(mean)


def test_four_rows_of_10_of_512_need_38_8_experts_by_chance() -> None:
    assert round(uniform_union(512, 10, 4), 1) == 38.8
    assert uniform_union(512, 10, 1) == pytest.approx(10)
    assert round(uniform_union(512, 10, 4) / 40, 2) == 0.97


def test_a_released_model_reads_every_block_up_to_2051_cells(tiny: Model) -> None:
    released = replace(tiny.config, indexer_budget=2048, indexer_compress_ratio=4)
    assert threshold(released) == 2051


def paying(gains: list[Fraction], costs: list[Fraction]) -> list[int]:
    """Numbers of drafts whose last one pays more for its time than those before it."""
    return [
        n
        for n in range(1, len(costs))
        if gains[n - 1] * sum(costs[:n]) > (1 + sum(gains[: n - 1])) * costs[n]
    ]


def longest(gains: list[Fraction], costs: list[Fraction]) -> int:
    """The rule of the audit, to the letter: the largest number whose last one pays."""
    return max(paying(gains, costs), default=0)


def curves(
    gains: list[Fraction], costs: list[Fraction]
) -> tuple[list[float], list[float]]:
    """E[keep] and the cost of windows of 1, 2, ... rows, exact."""
    found = [list(itertools.accumulate(of)) for of in ([Fraction(1), *gains], costs)]
    # Fractions do all that the formulas ask of floats.
    keeps, sums = cast(list[list[float]], found)
    return keeps, sums


def first_stop(gains: list[Fraction], costs: list[Fraction]) -> int:
    """The same rule, draft by draft: go on for as long as the next one pays."""
    return theory.marginal_rows(*curves(gains, costs)) - 1


def best(gains: list[Fraction], costs: list[Fraction]) -> int:
    """Drafts with the most tokens for the time, of all numbers of drafts."""
    return theory.best_rows(*curves(gains, costs)) - 1


def test_the_marginal_rule_finds_the_best_length_where_gains_fall() -> None:
    """Chances that drafts are right fall with their number; each row costs as much."""
    lengths = set()
    for a, row in itertools.product(range(1, 20), range(1, 20)):
        gains = [Fraction(a, 20) ** n for n in range(1, 8)]
        costs = [Fraction(1), *[Fraction(row, 20)] * 7]
        found = best(gains, costs)
        assert longest(gains, costs) == first_stop(gains, costs) == found, (a, row)
        lengths.add(found)
    assert lengths == set(range(8))


def test_the_marginal_rule_misses_it_where_rows_have_uneven_costs() -> None:
    """A second row that is dear, and cheap ones behind it."""
    gains = [Fraction("0.9") ** n for n in range(1, 8)]
    dear = [Fraction(1), Fraction(1), *[Fraction(1, 20)] * 6]
    assert best(gains, dear) == longest(gains, dear) == 7
    assert first_stop(gains, dear) == 0
    dearer = [Fraction(1), Fraction(10), *[Fraction(1, 20)] * 6]
    assert (best(gains, dearer), longest(gains, dearer)) == (0, 7)
