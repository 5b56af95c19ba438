"""The verdict on parts: to the bit, or within a tolerance that follows their size."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from strata_nb.gates.judge.floor import Floor
from strata_nb.gates.judge.observed import Observed
from strata_nb.gates.judge.verdict import judge
from strata_nb.gates.records import Finding
from strata_nb.trace import Leaf

FLOOR = Floor(logits=1e-4, experts=1e-4, blocks=1e-4, rows=1)


def judged(subject: Observed, reference: Observed, **terms: Any) -> tuple[Finding, ...]:
    defaults: dict[str, Any] = {"by": "serial", "moment": "commit", "ratio": 4}
    defaults |= {"floor": FLOOR, "exact": False}
    return judge(subject, reference, **(defaults | terms))


def only(findings: tuple[Finding, ...]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def seen(*, leaves: Mapping[Leaf, np.ndarray], position: int = 8) -> Observed:
    return Observed(position, leaves, {})


def state(**leaves: np.ndarray) -> dict[Leaf, np.ndarray]:
    return {Leaf(part, 2, "rows"): array for part, array in leaves.items()}


def test_a_part_within_the_tolerance_is_the_same_only_where_rows_matter() -> None:
    kept = np.ones((4, 3), np.float32)
    moved = kept.copy()
    moved[2, 1] += 5e-4
    ours, theirs = seen(leaves=state(kv=moved)), seen(leaves=state(kv=kept))
    assert judged(ours, theirs) == ()
    finding = only(judged(ours, theirs, exact=True))
    assert (finding.kind, finding.what, finding.layer) == ("fault", "kv", 2)
    assert (finding.cell, finding.note) == (2, "")
    assert finding.size == pytest.approx(5e-4, rel=1e-3)


def test_the_tolerance_follows_the_size_of_the_part_and_its_floor() -> None:
    kept = np.full((4, 3), 100.0, np.float32)
    ours, theirs = seen(leaves=state(kv=kept + 0.2)), seen(leaves=state(kv=kept))
    assert only(judged(ours, theirs)).what == "kv"
    assert judged(ours, theirs, floor=replace(FLOOR, parts={"kv": 1e-3})) == ()
    assert only(judged(ours, theirs, floor=None)).kind == "fault"
    small = state(kv=kept / 1e5), state(kv=kept / 1e5 + 1e-5)
    assert only(judged(*(seen(leaves=s) for s in small))).what == "kv"


def test_whole_numbers_are_equal_or_they_are_not() -> None:
    ids = np.array([4000, 4001])
    found = judged(
        seen(leaves=state(ple_tokens=ids + 1)), seen(leaves=state(ple_tokens=ids))
    )
    assert (only(found).what, only(found).size) == ("ple_tokens", 1.0)


def test_nan_is_a_fault_even_where_both_have_it() -> None:
    kept = np.ones((2, 3), np.float32)
    spoilt = np.where(np.arange(3) == 1, np.nan, kept)
    for ours, theirs in ((spoilt, kept), (kept, spoilt), (spoilt, spoilt)):
        for exact in (True, False):
            found = judged(
                seen(leaves=state(kv=ours)), seen(leaves=state(kv=theirs)), exact=exact
            )
            assert (only(found).what, only(found).size) == ("kv", np.inf)
            assert only(found).note == "`rows` has NaN"


def test_a_missing_part_is_a_fault() -> None:
    whole, part = state(kv=np.ones(3)), state()
    assert only(judged(seen(leaves=part), seen(leaves=whole))) == Finding(
        "fault", "serial", "commit", "kv", 2, None, np.inf,
        note="`rows` is missing in the subject",
    )  # fmt: skip
    found = judged(seen(leaves=whole), seen(leaves=part))
    assert only(found).note == "`rows` is missing in the reference"


def test_another_shape_is_a_fault() -> None:
    ours, theirs = state(kv=np.ones((2, 3))), state(kv=np.ones((3, 3)))
    finding = only(judged(seen(leaves=ours), seen(leaves=theirs)))
    assert (finding.size, finding.cell) == (np.inf, None)
    assert finding.note == "`rows` has shape (2, 3), wanted (3, 3)"


def test_another_position_comes_first() -> None:
    kept, moved = state(kv=np.ones((2, 3))), state(kv=np.zeros((2, 3)))
    found = judged(seen(leaves=moved, position=9), seen(leaves=kept, position=7))
    assert [f.what for f in found] == ["position", "kv"]
    assert (found[0].size, found[0].note) == (2.0, "9 cells, wanted 7")


def test_equal_numbers_of_other_bits_are_a_fault_where_bits_count() -> None:
    ours, theirs = (
        seen(leaves=state(kv=-np.zeros(3))),
        seen(leaves=state(kv=np.zeros(3))),
    )
    assert judged(ours, theirs) == ()
    finding = only(judged(ours, theirs, exact=True))
    assert (finding.size, finding.note) == (0.0, "`rows`: equal, other bits")


@pytest.mark.parametrize("order", [1, -1])
def test_arrays_of_one_part_and_layer_are_one_finding(order: int) -> None:
    ones = np.ones((4, 3), np.float32)
    late, early = ones.copy(), ones.copy()
    late[3], early[1] = 9.0, 2.0
    fields = Leaf("kv", 3, "k"), Leaf("kv", 3, "v")
    found = judged(
        seen(leaves=dict(zip(fields[::order], (late, early), strict=True))),
        seen(leaves=dict.fromkeys(fields, ones)),
    )
    assert (only(found).cell, only(found).size) == (1, 8.0)


def test_numbers_kept_in_8_bits_may_differ_by_one() -> None:
    words = np.array([[0x01020304]], np.uint32)
    scale = {Leaf("kv", 3, "k_scale"): np.ones((1, 1), np.float32)}

    def kept(words: np.ndarray) -> Observed:
        return seen(leaves={Leaf("kv", 3, "k"): words} | scale)

    assert judged(kept(words + 0x00010000), kept(words)) == ()
    assert only(judged(kept(words + 0x00020000), kept(words))).size == 2.0
    # Where bits count the words themselves are compared.
    found = judged(kept(words + 0x00010000), kept(words), exact=True)
    assert only(found).size == float(0x00010000)
