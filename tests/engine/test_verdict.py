"""The verdict: what is the same, what rounding may have done, and what is a fault."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from strata_nb.gates.judge.floor import Floor
from strata_nb.gates.judge.observed import LayerSeen, Observed, RowSeen
from strata_nb.gates.judge.verdict import judge
from strata_nb.gates.records import Finding
from strata_nb.models.qwen4_exp import Imposed
from strata_nb.trace import Leaf

FLOOR = Floor(logits=1e-4, experts=1e-4, blocks=1e-4, rows=1)
LITTLE = 2.0**-20  # of a weight or key: far above rounding in float32, below the floor
S = Leaf("gdn_state", 2, "S")


def judged(subject: Observed, reference: Any, **terms: Any) -> tuple[Finding, ...]:
    defaults: dict[str, Any] = {
        "by": "serial",
        "moment": "commit",
        "ratio": 4,
        "floor": FLOOR,
    }
    return judge(subject, reference, **(defaults | {"exact": False} | terms))


def only(findings: Sequence[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def seen(*rows: RowSeen) -> Observed:
    return Observed(8, {}, {row.cell: row for row in rows})


def row(logits: Any, *layers: LayerSeen, cell: int = 0, token: int = 3) -> RowSeen:
    wide = np.asarray(logits, np.float64)
    return RowSeen(cell, token, int(wide.argmax()), wide, layers)


def experts(logits: Any, *, count: int = 2, ids: Any = None) -> LayerSeen:
    scores = np.asarray(logits, np.float32)
    chosen = np.argsort(-scores, kind="stable")[:count] if ids is None else ids
    return LayerSeen(np.asarray(chosen), scores)


def blocks(scores: Any, *, ids: Any = None, count: int = 2) -> LayerSeen:
    chosen = experts(scores, count=count, ids=ids)
    return LayerSeen(np.array([0]), None, *chosen[:2])


ONE = row([2.0, 1.0, 0.0])


# Tokens: rows made by hand.


def test_the_same_row_is_the_same() -> None:
    assert judged(seen(ONE), seen(ONE)) == ()
    assert judged(seen(ONE), seen(ONE), exact=True, floor=None) == ()


def test_a_token_turned_over_by_less_than_the_floor_is_a_near_tie() -> None:
    found = judged(
        seen(row([1.0, 1.00002, 0.0], cell=5)), seen(row([1.00001, 1.0, 0.0], cell=5))
    )
    finding = only(found)
    assert (finding.kind, finding.what) == ("near-tie", "token")
    assert (finding.layer, finding.cell) == (None, 5)
    assert finding.gap == pytest.approx(1e-5)
    assert finding.size == pytest.approx(2e-5)
    assert (finding.by, finding.moment) == ("serial", "commit")
    assert finding.note == "token: 1 instead of 0"


@pytest.mark.parametrize(
    ("subject", "reference", "terms"),
    [
        pytest.param([1.0, 1.0003], [1.0002, 1.0], {}, id="above the floor"),
        pytest.param([1.0, 1.00002], [1.00001, 1.0], {"floor": None}, id="no floor"),
        pytest.param([1.0, 1.00002], [1.00001, 1.0], {"exact": True}, id="exact"),
        pytest.param([np.nan, 1.0], [1.00001, 1.0], {}, id="NaN"),
    ],
)
def test_other_tokens_turned_over_are_faults(
    subject: Any, reference: Any, terms: Any
) -> None:
    ours = replace(row(subject), prediction=1)
    found = {f.what: f for f in judged(seen(ours), seen(row(reference)), **terms)}
    assert found["token"].kind == "fault"


@pytest.mark.parametrize(("size", "kind"), [(0.5, "near-tie"), (0.625, "fault")])
def test_a_difference_of_just_the_floor_is_still_granted(
    size: float, kind: str
) -> None:
    floor = replace(FLOOR, logits=0.5)
    found = judged(
        seen(row([1.0, 1.0 + size])), seen(row([1.0 + size / 2, 1.0])), floor=floor
    )
    assert {f.kind for f in found if f.what == "token"} == {kind}


def test_equal_logits_taken_in_another_order_are_a_fault() -> None:
    tied = row([1.0, 1.0, 0.0])
    finding = only(judged(seen(replace(tied, prediction=1)), seen(tied)))
    assert (finding.kind, finding.gap, finding.size) == ("fault", 0.0, 0.0)


def test_a_gap_of_just_twice_the_difference_is_a_fault() -> None:
    floor = replace(FLOOR, logits=1.0)
    reference = row([0.75, 1.0])
    half = row([0.875, 0.875])
    finding = only(judged(seen(half), seen(reference), floor=floor))
    assert (finding.kind, finding.gap, finding.size) == ("fault", 0.25, 0.125)
    more = row([0.9375, 0.875])
    finding = only(judged(seen(more), seen(reference), floor=floor))
    assert (finding.kind, finding.gap, finding.size) == ("near-tie", 0.25, 0.1875)


@pytest.mark.parametrize(("won", "kind"), [(0, "near-tie"), (1, "fault")])
def test_of_the_subjects_equal_logits_the_lowest_index_may_win(
    won: int, kind: str
) -> None:
    reference = row([1.0, 1.0])
    reference.logits[1 - won] += 1e-5
    reference = replace(reference, prediction=1 - won)
    subject = replace(row([1.0, 1.0]), prediction=won)
    assert only(judged(seen(subject), seen(reference))).kind == kind


def test_a_token_against_its_own_logits_is_a_fault() -> None:
    # The numbers differ by rounding, but the subject's own do not say 1 either.
    ours = replace(row([1.00002, 1.0, 0.0]), prediction=1)
    finding = only(judged(seen(ours), seen(row([1.00001, 1.0, 0.0]))))
    assert (finding.kind, finding.what) == ("fault", "token")


def test_tokens_can_be_left_out_but_logits_are_compared() -> None:
    ours, theirs = seen(row([1.0, 1.00002])), seen(row([1.00001, 1.0]))
    assert judged(ours, theirs, tokens=False) == ()
    finding = only(judged(ours, theirs, tokens=False, exact=True))
    assert (finding.kind, finding.what, finding.cell) == ("fault", "logits", 0)
    assert finding.size == pytest.approx(2e-5)


def test_logits_far_apart_are_a_fault_though_the_token_is_the_same() -> None:
    finding = only(judged(seen(row([2.1, 1.0, 0.0])), seen(ONE), floor=None))
    assert (finding.kind, finding.what) == ("fault", "logits")
    within = row([2.001, 1.0, 0.0])
    assert judged(seen(within), seen(ONE), floor=None) == ()


def test_rows_fed_other_tokens_are_not_compared_in_silence() -> None:
    finding = only(judged(seen(replace(ONE, token=4)), seen(ONE)))
    assert finding.kind == "fault"
    assert finding.note == "was fed token 4, wanted 3"


def test_logits_of_another_length_are_a_fault() -> None:
    finding = only(judged(seen(row([2.0, 1.0])), seen(ONE)))
    assert (finding.what, finding.size) == ("logits", np.inf)
    assert finding.note == "shape (2,), wanted (3,)"


def test_only_cells_that_both_have_are_compared() -> None:
    other = row([0.0, 5.0, 0.0], cell=1)
    assert judged(seen(ONE, other), seen(ONE)) == ()


def test_unrelated_random_numbers_are_never_a_near_tie() -> None:
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(4, 300))
        subject, reference = (
            seen(*(anything(rng, size, cell) for cell in (0, 4 * size)))
            for _ in range(2)
        )
        found = judged(subject, lambda _, reference=reference: reference)
        assert {f.kind for f in found} == {"fault"}, seed


def anything(rng: np.random.Generator, size: int, cell: int) -> RowSeen:
    scores = rng.standard_normal((3, size))
    return row(scores[0], experts(scores[1]), blocks(scores[2]), cell=cell)


# Experts and blocks: rows made by hand.


def test_the_order_of_the_same_experts_does_not_matter() -> None:
    logits = [3.0, 2.0, 1.0]
    ours = row([1.0], experts(logits, ids=[1, 0]))
    assert judged(seen(ours), seen(row([1.0], experts(logits)))) == ()


def test_of_several_that_changed_places_the_largest_gap_counts() -> None:
    # 0 and 1 lose to 2 and 3; by the reference the widest pair is 0 over 3.
    reference = row([1.0], experts([1.0, 0.75, 0.5, 0.25]))
    subject = row([1.0], experts([0.0, 0.25, 1.0, 0.75]))
    finding = only(judged(seen(subject), seen(reference)))
    assert (finding.what, finding.layer) == ("experts", 0)
    assert (finding.gap, finding.size) == (0.75, 1.0)
    assert finding.note == "experts: 2, 3 instead of 0, 1"


def test_fewer_experts_or_none_that_were_scored_are_a_fault() -> None:
    reference = row([1.0], experts([1.0, 1.0 - 1e-6, 0.0]))
    for ids in ([0], [0, 0], [0, 7]):
        odd = row([1.0], experts([1.0, 1.0, 0.0], ids=ids))
        assert only(judged(seen(odd), seen(reference))).kind == "fault"
    unscored = LayerSeen(np.array([0, 2]))
    finding = only(judged(seen(row([1.0], unscored)), seen(reference)))
    assert (finding.kind, finding.size) == ("fault", np.inf)


def test_one_more_expert_is_a_fault_however_close_they_are() -> None:
    close = [1.0, 1.00002, 1.00003]
    reference = row([1.0], experts([1.00004, 1.0, 1.0], ids=[0]))
    subject = row([1.0], experts(close, ids=[1, 2]))
    assert only(judged(seen(subject), seen(reference))).kind == "fault"
    subject = row([1.0], experts(close, ids=[2]))
    assert only(judged(seen(subject), seen(reference))).kind == "near-tie"


def test_dense_attention_is_attention_to_every_complete_block() -> None:
    dense = row([1.0], LayerSeen(np.array([0])), cell=11)
    listed = row([1.0], blocks([2.0, 1.0, 0.0], ids=[0, 1, 2, -1]), cell=11)
    assert judged(seen(dense), seen(listed)) == ()
    assert judged(seen(listed), seen(dense)) == ()
    fewer = row([1.0], blocks([2.0, 1.0, 0.0], ids=[0, 2, -1]), cell=11)
    finding = only(judged(seen(dense), seen(fewer)))
    assert (finding.kind, finding.what, finding.layer) == ("fault", "blocks", 0)
    assert finding.note == "blocks: 1 instead of none"


def test_decisions_that_one_side_did_not_look_at_are_left_out() -> None:
    assert judged(seen(row([1.0], experts([1.0, 0.0]))), seen(row([1.0]))) == ()


def test_a_difference_that_others_lead_to_is_not_listed() -> None:
    theirs, ours = experts([3.0, 2.0, 1.0]), experts([1.0, 2.0, 3.0])
    subject = seen(
        row([1.0], theirs, ours, cell=0),
        row([1.0], ours, ours, cell=1),
        row([1.0], ours, theirs, cell=2),
    )
    reference = seen(*(row([1.0], theirs, theirs, cell=c) for c in range(3)))
    found = judged(subject, lambda _: reference)
    assert [(f.layer, f.cell) for f in found] == [(0, 1), (0, 2), (1, 0)]


def both(scores: Any) -> LayerSeen:
    """A layer whose blocks and experts have the same scores."""
    chosen = experts(scores, count=1)
    return LayerSeen(*chosen[:2], *chosen[:2])


def test_each_near_tie_is_imposed_until_no_other_is_found() -> None:
    layers, wanted = range(2), both([1.00001, 1.0])
    subject = seen(*(row([1.0], *[both([1.0, 1.00002])] * 2, cell=c) for c in (4, 5)))
    asked: list[Imposed] = []

    def reference(imposed: Imposed) -> Observed:
        asked.append(imposed)
        rows = []
        for cell in (4, 5):
            decided = [
                wanted._replace(
                    experts=imposed.experts.get((layer, cell), wanted.experts),
                    blocks=imposed.blocks.get((layer, cell), wanted.blocks),
                )
                for layer in layers
            ]
            rows.append(row([1.0], *decided, cell=cell))
        return seen(*rows)

    found = judged(subject, reference)
    # Blocks of a layer, then its experts, then the next layer.
    sizes = [(len(i.blocks), len(i.experts)) for i in asked]
    assert sizes == [(0, 0), (2, 0), (2, 2), (4, 2), (4, 4)]
    places = [(f.kind, f.layer, f.cell) for f in found if f.what == "blocks"]
    assert places == [("near-tie", layer, cell) for layer in layers for cell in (4, 5)]
    assert len(found) == 8
    assert asked[-1].experts[1, 5] == [1]


def test_a_reference_that_ignores_what_is_imposed_is_refused() -> None:
    ours = seen(row([1.0], experts([1.0, 1.00002], count=1)))
    theirs = seen(row([1.0], experts([1.00001, 1.0], count=1)))
    with pytest.raises(ValueError, match="did not take the experts imposed on layer 0"):
        judged(ours, lambda _: theirs)
