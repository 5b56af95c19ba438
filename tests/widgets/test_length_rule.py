"""`LengthRule`: what the formulas say of a machine, a model and a drafter."""

import pytest

from strata_nb import theory
from strata_widgets import LengthRule
from strata_widgets.length_rule.setting import BOUNDS, LAYERS, Setting, answer


def used(rule: LengthRule, name: str, value: object) -> None:
    rule._used({"kind": "control", "name": name, "value": value, "values": {}})


def test_the_numbers_of_the_rule_come_out() -> None:
    rule = LengthRule()
    third, fourth = rule.lengths[2], rule.lengths[3]
    assert fourth.brings == pytest.approx(2.533)
    assert third.brings == pytest.approx(2.19)
    assert fourth.union == pytest.approx(38.8, abs=0.05)
    # 44 ms a token and 0.7: what four rows may take.
    assert fourth.even_ms == pytest.approx(44 * 2.533)
    assert [length.rows for length in rule.lengths] == [*range(1, 9)]
    assert rule.lengths[0][1:] == pytest.approx((1, 10, 44, 44, 1))


def test_what_it_costs_is_shared_drafted_and_not_shared() -> None:
    found = answer(Setting(dense_ms=10, experts_ms=8, row_ms=3, draft_ms=2))
    for length in found.lengths:
        union = theory.uniform_union(512, 10, length.rows)
        wanted = 10 + 8 * union / 10 + (3 + 2) * (length.rows - 1)
        assert length.cost_ms == pytest.approx(wanted)


def test_best_and_marginal_are_those_of_theory() -> None:
    for acceptance in range(0, 101, 10):
        for row_ms in (0, 5, 40):
            rule = LengthRule(acceptance=acceptance, row_ms=row_ms, fall=10)
            keeps = [length.brings for length in rule.lengths]
            costs = [length.cost_ms for length in rule.lengths]
            assert rule.best == theory.best_rows(keeps, costs)
            assert rule.marginal == theory.marginal_rows(keeps, costs)
    assert LengthRule(acceptance=0).best == 1
    assert "no draft pays" in repr(LengthRule(acceptance=0))


def test_where_the_two_rules_part_each_has_its_name() -> None:
    # A first draft that costs more than it brings, and later ones that share experts.
    rule = LengthRule(acceptance=100, dense_ms=1, experts_ms=20, row_ms=1, draft_ms=1)
    assert (rule.best, rule.marginal) == (8, 1)
    words = {row["rows"]: row["word"] for row in rule._live["gains"].rows}
    assert (words[8], words[1]) == ("best", "marginal rule")
    assert "stops at T = 1" in repr(rule)


def test_acceptance_falls_by_a_share() -> None:
    chances = Setting(acceptance=80, fall=25).chances()
    assert chances[:3] == pytest.approx([0.8, 0.6, 0.45])
    assert len(chances) == 7


def test_a_control_sets_its_number_and_reset_all() -> None:
    rule = LengthRule(acceptance=90)
    used(rule, "acceptance", 35)
    used(rule, "draft_ms", 7)
    used(rule, "layer", "8 experts, 2 a row")
    assert rule.setting == Setting(
        acceptance=35, draft_ms=7, layer="8 experts, 2 a row"
    )
    drawn = rule._live["brings"].rows
    assert [row["brings"] for row in drawn] == [
        round(length.brings, 4) for length in rule.lengths
    ]
    used(rule, "reset", None)
    assert rule.setting == Setting(acceptance=90)


@pytest.mark.parametrize("name", [*BOUNDS])
def test_a_number_out_of_bounds_changes_nothing(name: str) -> None:
    rule, most = LengthRule(), BOUNDS[name][1]
    with pytest.raises(ValueError, match=f"`{name}` is {most + 1}, wanted a whole num"):
        rule.set(**{name: most + 1})
    assert rule.setting == Setting()
    with pytest.raises(ValueError, match="wanted a whole number"):
        LengthRule(**{name: 1.5})


def test_an_unknown_layer_and_name_are_refused() -> None:
    with pytest.raises(ValueError, match="wanted one of 512 experts"):
        LengthRule(layer="7 experts")
    with pytest.raises(TypeError, match="width"):
        LengthRule(width=3)


def test_the_axis_of_gains_never_falls() -> None:
    rule = LengthRule(acceptance=100, experts_ms=0)
    high = rule._live["gains"].values["top_gain"]
    assert high == 16
    rule.set(acceptance=0)
    assert rule._live["gains"].values["top_gain"] == high


def test_a_price_above_the_axis_is_an_arrow() -> None:
    rule = LengthRule(dense_ms=1, experts_ms=0, draft_ms=50)
    beyond = [row["beyond"] for row in rule._live["brings"].rows]
    assert beyond == [False] + [True] * 7
    assert set(LAYERS) == {o for c in rule._controls() for o, _ in c.options}
