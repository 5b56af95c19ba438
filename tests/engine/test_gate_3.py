"""Forced rejection: which cases there are, and that a wrong engine fails them."""

from collections import Counter
from itertools import groupby

import pytest

from strata_nb import Model
from strata_nb.accept import Accepted, accept
from strata_nb.gates.gate_3 import rejection
from strata_nb.gates.gate_3.endings import plain_ending
from strata_nb.gates.gate_3.rejection import other_rows
from strata_nb.gates.records import PARTS, PROFILES, Case, CaseResult
from strata_nb.gates.stage.places import CONTEXTS, start_of, threshold
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.script import Script

CONTEXT = 4096


def results(
    rig: Rig, cases: list[Case], *, families: tuple[str, ...] = ()
) -> list[CaseResult]:
    chosen = [c for c in cases if not families or c.family in families]
    return [
        result
        for _, group in groupby(chosen, key=lambda c: c.group)
        for result in rejection.run(list(group), rig)
    ]


@pytest.mark.parametrize("profile", PROFILES)
def test_every_case_has_a_name_of_its_own(tiny: Model, profile: str) -> None:
    cases = rejection.cases(tiny.config, profile, CONTEXT)  # type: ignore[arg-type]
    assert len({case.id for case in cases}) == len(cases)


def test_the_full_profile_is_the_whole_product(tiny: Model) -> None:
    cases = rejection.cases(tiny.config, "full", CONTEXT)
    forced = [c for c in cases if c.family == "reject"]
    # T = 2..8 has 35 keeps; 4 residues, 4 contexts, 4 modes, 3 kinds of drafts.
    assert len(forced) == 35 * 4 * 4 * 4 * 3
    pairs = Counter((c["T"], c["keep"]) for c in forced)
    assert set(pairs) == {(t, k) for t in range(2, 9) for k in range(1, t + 1)}
    assert set(pairs.values()) == {4 * 4 * 4 * 3}
    ends = {(c["T"], c["at"]) for c in cases if c.family == "eos"}
    assert ends == {(t, at) for t in range(1, 9) for at in range(t)}
    left = {(c["T"], c["left"]) for c in cases if c.family == "max_new"}
    assert left == {(t, n) for t in range(1, 9) for n in range(1, t + 2)}


def test_the_quick_profile_has_every_keep_at_every_residue(tiny: Model) -> None:
    cases = rejection.cases(tiny.config, "quick", CONTEXT)
    forced = [c for c in cases if c.family == "reject"]
    seen = {(c["T"], c["keep"], c["residue"]) for c in forced}
    assert len(seen) == 35 * 4
    for name, values in (("context", 4), ("drafts", 3), ("fold", 2), ("partial", 2)):
        assert len({c[name] for c in forced}) == values
    assert len({(c["fold"], c["partial"], c["context"]) for c in forced}) == 16


def test_the_exhaustive_profile_overrules_every_ending(tiny: Model) -> None:
    cases = rejection.cases(tiny.config, "exhaustive", CONTEXT)
    forced = [c for c in cases if c.family == "forced-end" and c["T"] == 8]
    assert {(c["keep"], c["eos"], c["left"], c["tight"]) for c in forced} == {
        (keep, eos, left, tight)
        for keep in range(1, 9)
        for eos, left in [*((e, 0) for e in range(8)), *((-1, n) for n in range(1, 9))]
        for tight in (False, True)
    }


def test_places_lie_below_at_and_above_the_threshold(tiny: Model) -> None:
    most = threshold(tiny.config)
    assert most == 19
    for residue in range(4):
        starts = [start_of(tiny.config, c, residue) for c in CONTEXTS]
        below, at, above, page = starts
        assert {p % 4 for p in starts} == {residue}
        # A page has 256 cells.
        assert page < 256 < page + 8
        # A window of 8 and the 4 rows after it.
        assert below + 12 <= most + 1
        assert at < most + 1 < at + 8
        assert above > most


def test_a_context_too_short_for_a_place_leaves_it_out(tiny: Model) -> None:
    cases = rejection.cases(tiny.config, "quick", 45)
    assert {c["context"] for c in cases} == {"below"}


def test_a_sound_engine_is_the_same_everywhere(small: Model) -> None:
    found = results(Rig(small), rejection.cases(small.config, "quick", CONTEXT))
    wrong = [(r.case.id, r.cause) for r in found if r.verdict != "same"]
    assert wrong == []
    assert {p for r in found for p in r.changed} == set(PARTS)


def test_every_ending_may_be_overruled(small: Model) -> None:
    cases = rejection.cases(small.config, "exhaustive", CONTEXT)
    chosen = [c for c in cases if c.family == "forced-end" and c["T"] == 3][::37]
    found = results(Rig(small), chosen)
    assert len(found) > 30
    assert [(r.case.id, r.cause) for r in found if r.verdict != "same"] == []


@pytest.mark.parametrize(
    ("family", "note"),
    [
        ("eos", "emitted: wanted"),
        ("max_new", "emitted: wanted"),
    ],
)
def test_a_wrong_acceptance_fails(
    small: Model, monkeypatch: pytest.MonkeyPatch, family: str, note: str
) -> None:
    def careless(inputs: object, predictions: object, **_: object) -> Accepted:
        return accept(inputs, predictions)  # type: ignore[arg-type]

    monkeypatch.setattr("strata_nb.outcome.accept", careless)
    cases = rejection.cases(small.config, "quick", CONTEXT)
    found = results(Rig(small), cases, families=(family,))
    bad = [r for r in found if r.verdict == "fault"]
    assert len(bad) > len(found) // 3
    assert all(any(f.by == "rule" for f in r.findings) for r in bad)
    assert any(note in f.note for r in bad for f in r.findings)


def test_a_context_that_is_not_kept_fails(
    small: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strata_nb.refusals.room", lambda *_: None)
    cases = rejection.cases(small.config, "quick", CONTEXT)
    found = results(Rig(small), cases, families=("margin",))
    assert {r.verdict for r in found} == {"fault"}


def test_a_twin_differs_in_every_rejected_row_and_no_other() -> None:
    for ids in ([3, 5, 9, 250], [0, 0, 0, 0], [256, 40, 171, 8]):
        for keep in range(1, 4):
            other = other_rows(ids, keep, 257)
            assert list(other[:keep]) == ids[:keep]
            pairs = zip(other[keep:], ids[keep:], strict=True)
            assert all(a != b and 0 <= a < 257 for a, b in pairs)


def test_plain_decoding_ends_where_it_should() -> None:
    right = (5, 6, 7, 8)
    rows = (1, 5, 6, 9)

    def told(**how: object) -> tuple[tuple[int, ...], str | None]:
        end = plain_ending(rows, right, **how)  # type: ignore[arg-type]
        return end.emitted, end.stop

    assert told(stop_ids=(), left=None) == ((5, 6, 7), None)
    assert told(stop_ids=(6,), left=None) == ((5, 6), "stop")
    assert told(stop_ids=(5,), left=1) == ((5,), "stop")
    assert told(stop_ids=(), left=2) == ((5, 6), "limit")
    assert told(stop_ids=(8,), left=9) == ((5, 6, 7), None)


def test_loud_drafts_have_long_index_keys(tiny: Model) -> None:
    script = Script(Rig(tiny), 20)
    loud, wrong = script.rows("loud", 8), script.rows("wrong", 8)
    assert loud[0] == wrong[0] == script.root
    assert len(set(loud[1:])) == 7
    assert _length(tiny, loud[1]) > _length(tiny, loud[7])


def _length(model: Model, token: int) -> float:
    engine = model.engine()
    engine.prefill([token])
    (first, *_) = (a for k, a in engine.leaves().items() if k.part == "qsa_tail")
    return float((first**2).sum())
