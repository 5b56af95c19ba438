"""MoCE: protected first, then a bonus for ready experts, which enters no weight."""

import math

import mlx.core as mx
import numpy as np
import pytest

from routed import cold_by_rows, ids, logits_of, weights
from strata_nb.policies.hard_budget import HardBudget
from strata_nb.policies.moce import Moce
from strata_nb.policies.routing import NATURAL

ROW = (0.40, 0.20, 0.15, 0.12, 0.08, 0.05)
READY = (3, 5)


def test_a_bonus_doubles_shares_and_enters_no_weight() -> None:
    """By hand: 3 competes with 0.24, 5 with 0.10; 1 has 0.20, 2 has 0.15."""
    moce = Moce(protect=1, bonus=math.log(2))
    row = logits_of([ROW])
    assert ids(moce, row, top_k=3, resident=READY) == [[0, 1, 3]]
    found = weights(moce, row, top_k=3, resident=READY)
    np.testing.assert_allclose(found, [[0.40 / 0.72, 0.20 / 0.72, 0.12 / 0.72]], 1e-6)
    found = weights(moce, row, top_k=3, resident=READY, renormalise=False)
    np.testing.assert_allclose(found, [[0.40, 0.20, 0.12]], 1e-6)


@pytest.mark.parametrize(
    ("protect", "wanted"),
    [(0, [3, 4, 5]), (1, [0, 3, 4]), (2, [0, 1, 3]), (3, [0, 1, 2]), (9, [0, 1, 2])],
)
def test_what_is_protected_is_so_before_any_bonus(
    protect: int, wanted: list[int]
) -> None:
    moce = Moce(protect=protect, bonus=20)
    assert ids(moce, logits_of([ROW]), top_k=3, resident=(3, 4, 5)) == [wanted]
    # Turned round: what is protected are the strongest, not the first.
    back, turned = logits_of([ROW[::-1]]), [5 - i for i in wanted]
    assert ids(moce, back, top_k=3, resident=(0, 1, 2)) == [turned]


def test_the_lowest_of_equals_wins() -> None:
    flat = mx.zeros((2, 6))
    assert ids(Moce(), flat, top_k=4, resident=(1, 4)) == [[0, 1, 2, 4]] * 2
    # A bonus of 1 makes expert 3 the equal of 1, and expert 0 that of 2.
    rows = mx.array([[0.0, 1.0, 5.0, 0.0], [0.0, 5.0, 1.0, -9.0]])
    even = Moce(protect=1, bonus=1)
    assert ids(even, rows[:1], top_k=2, resident=(3,)) == [[2, 1]]
    assert ids(even, rows[1:], top_k=2, resident=(0,)) == [[1, 0]]


def test_with_all_experts_ready_it_is_the_natural_choice() -> None:
    logits = mx.random.normal((8, 32), key=mx.random.key(1))
    natural = ids(NATURAL, logits, top_k=5)
    knobs = Moce(2, 1.5, draft_protect=1, draft_bonus=3, rank_1_bonus=0.5)
    for moce in (Moce(), knobs):
        assert ids(moce, logits, top_k=5, resident=range(32)) == natural
        assert ids(moce, logits, top_k=5, resident=None) == natural
        assert ids(moce, logits, top_k=5, resident=()) == natural
    assert ids(Moce(), logits, top_k=5, resident=range(0, 32, 3)) != natural


def test_draft_rows_have_their_own_numbers_and_the_root_has_not() -> None:
    rows = logits_of([ROW] * 3)
    ready = (3, 4, 5)
    moce = Moce(protect=3, bonus=20, draft_protect=1, draft_bonus=20)
    found = ids(moce, rows, top_k=3, resident=ready)
    assert found == [[0, 1, 2], [0, 3, 4], [0, 3, 4]]
    # In a prompt no row is a draft.
    found = ids(moce, rows, top_k=3, resident=ready, headless=True)
    assert found == [[0, 1, 2]] * 3
    # Each number alone: 0.15 and 0.12 * 1.2 = 0.144, or 0.12 * 2 = 0.24.
    bonus = Moce(2, math.log(1.2), draft_bonus=math.log(2))
    assert ids(bonus, rows, top_k=3, resident=(3,)) == [
        [0, 1, 2],
        [0, 1, 3],
        [0, 1, 3],
    ]
    protect = Moce(3, math.log(2), draft_protect=1)
    assert ids(protect, rows, top_k=3, resident=(3, 4)) == [
        [0, 1, 2],
        [0, 1, 3],
        [0, 1, 3],
    ]


def test_equal_numbers_are_one_number() -> None:
    logits = mx.random.normal((8, 32), key=mx.random.key(2))
    one, same = Moce(3, 0.85), Moce(3, 0.85, draft_protect=3, draft_bonus=0.85)
    for ready in (range(0, 32, 2), range(5), (31,)):
        found = ids(one, logits, top_k=6, resident=ready)
        assert ids(same, logits, top_k=6, resident=ready) == found


def test_numbers_for_drafts_need_the_base() -> None:
    rows = logits_of([ROW] * 2)
    off = Moce(bonus=0, draft_protect=0, draft_bonus=20)
    assert ids(off, rows, top_k=3, resident=(3, 4, 5)) == [[0, 1, 2]] * 2


def test_an_intermediate_bonus_of_rank_1_is_off_on_draft_rows() -> None:
    """By hand, factor 4 for 2 to 5: 0.60, 0.48, 0.32, 0.20; rank 1 has 0.20 * 5 = 1."""
    rows, ready = logits_of([ROW] * 2), (2, 3, 4, 5)
    four, five = math.log(4), math.log(5)

    def found(**more: float) -> list[list[int]]:
        moce = Moce(1, four, rank_1_bonus=five, **more)  # type: ignore[arg-type]
        return ids(moce, rows, top_k=3, resident=ready)

    assert ids(Moce(1, four), rows, top_k=3, resident=ready) == [[0, 2, 3]] * 2
    assert found() == [[0, 1, 2]] * 2
    assert found(draft_protect=1) == [[0, 1, 2], [0, 2, 3]]
    assert found(draft_bonus=four) == [[0, 1, 2], [0, 2, 3]]
    # Where rank 1 is protected there is nothing to add; ready ones have the larger.
    protected = Moce(2, four, rank_1_bonus=five)
    assert ids(protected, rows, top_k=2, resident=ready) == [[0, 1]] * 2
    both = Moce(1, four, rank_1_bonus=0.1)
    assert ids(both, rows, top_k=2, resident=(1, 2)) == [[0, 1]] * 2


def test_a_finite_bonus_bounds_no_misses_and_a_hard_budget_does() -> None:
    """Eight rows that want four experts each that nobody else wants, 21 above all."""
    count, top_k = 40, 4
    logits = np.zeros((8, count))
    for row in range(8):
        logits[row, 4 * row : 4 * row + top_k] = 21
    ready = range(32, 40)
    largest = Moce(protect=0, bonus=20, draft_protect=0, draft_bonus=20)
    found = ids(largest, mx.array(logits), top_k=top_k, resident=ready)
    assert found == ids(NATURAL, mx.array(logits), top_k=top_k)
    assert cold_by_rows(found[1:], ready) == 7 * top_k
    # What is protected is read even where the bonus would win.
    found = ids(Moce(3, 20), mx.array(logits / 30), top_k=top_k, resident=ready)
    assert cold_by_rows(found[1:], ready) == 7 * 3
    found = ids(HardBudget(), mx.array(logits), top_k=top_k, resident=ready)
    assert cold_by_rows(found[1:], [*ready, *found[0]]) == 0
    assert cold_by_rows(found[1:], ready) <= top_k


def test_what_is_not_finite_is_left_to_the_engine() -> None:
    logits = mx.array([[float("nan"), 1.0, 2.0], [0.0, 1.0, 2.0]])
    assert ids(Moce(), logits, top_k=2, resident=(0,))[1] == [2, 1]


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, Moce(bonus=0)),
        ({"PATH": "/bin", "STRATA_METAL_SPEC_ROOT_PREFETCH": "1"}, Moce(bonus=0)),
        ({"STRATA_METAL_MOCE_BONUS": "0.85"}, Moce()),
        (
            {
                "STRATA_METAL_MOCE_PROTECT": "2",
                "STRATA_METAL_MOCE_BONUS": "1",
                "STRATA_METAL_SPEC_MOCE_PROTECT": "1",
                "STRATA_METAL_SPEC_MOCE_BONUS": "1.2",
            },
            Moce(2, 1.0, draft_protect=1, draft_bonus=1.2),
        ),
        (
            {"STRATA_METAL_MOCE_BONUS": ".5", "STRATA_METAL_SPEC_MOCE_BONUS": "2e1"},
            Moce(3, 0.5, draft_bonus=20),
        ),
    ],
)
def test_the_variables_of_strata_are_understood(
    environ: dict[str, str], wanted: Moce
) -> None:
    assert Moce.from_environment(environ) == wanted


@pytest.mark.parametrize("kind", ["", "SPEC_"])
@pytest.mark.parametrize(
    ("what", "text"),
    [
        *(("PROTECT", t) for t in ("", "-1", "1.0", "three", "1_0", " 1", "9" * 5000)),
        *(("BONUS", t) for t in ("", "-0.1", "20.1", "nan", "inf", "1e999", "1,2")),
        ("BONUSS", "1"),
    ],
)
def test_a_malformed_variable_is_refused_by_name(
    kind: str, what: str, text: str
) -> None:
    name = f"STRATA_METAL_{kind}MOCE_{what}"
    with pytest.raises(ValueError, match=rf"^{name} is "):
        Moce.from_environment({"STRATA_METAL_MOCE_BONUS": "1", name: text})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"protect": -1}, "`protect` is -1, wanted 0 or more experts"),
        ({"draft_protect": -2}, "`draft_protect` is -2"),
        ({"bonus": -0.1}, "`bonus` is -0.1, wanted a finite number from 0 to 20"),
        ({"bonus": math.inf}, "`bonus` is inf"),
        ({"draft_bonus": 20.5}, "`draft_bonus` is 20.5"),
        ({"draft_bonus": math.nan}, "`draft_bonus` is nan"),
        ({"rank_1_bonus": 21}, "`rank_1_bonus` is 21"),
    ],
)
def test_numbers_out_of_range_are_refused(
    arguments: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Moce(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [{"protect": 1.5}, {"protect": None}, {"protect": True}, {"bonus": "1"}],
)
def test_numbers_of_another_kind_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=f"`{next(iter(arguments))}` must be a"):
        Moce(**arguments)  # type: ignore[arg-type]


def test_its_name_says_what_it_is() -> None:
    assert Moce().name == "moce(protect 3, bonus 0.85), approximate"
    knobs = Moce(draft_protect=1, draft_bonus=1.2, rank_1_bonus=0.5)
    assert knobs.name == (
        "moce(protect 3, bonus 0.85, rank 1 0.5; drafts: protect 1, bonus 1.2), "
        "approximate"
    )
    assert not Moce().lossless
