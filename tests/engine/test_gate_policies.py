"""The gates see what surrounds an engine: penalties, sampler, drafter, experts."""

from typing import Any

import pytest

from strata_kernels._select import where_kernels_run
from strata_kernels.gated_delta.launch import WINDOW, window_kernel
from strata_nb import Model
from strata_nb.faults import POLICY_FAULTS
from strata_nb.gates.gate_2 import routers, widths
from strata_nb.gates.gate_4 import resume, series
from strata_nb.gates.judge.floor import measure
from strata_nb.gates.records import HISTORIES, PARTS, Case, CaseResult
from strata_nb.gates.stage.rig import Rig

GATES: dict[str, Any] = {
    "choices": widths,
    "law": widths,
    "requests": resume,
    "streamed": widths,
    "budget": widths,
    "routers": widths,
    "kernels": widths,
}


def every(model: Model, family: str, profile: Any = "quick") -> list[Case]:
    cases = GATES[family].cases(model.config, profile, 4096)
    return [case for case in cases if case.family == family]


def results(rig: Rig, family: str, *, some: int = 1) -> list[CaseResult]:
    return list(GATES[family].run(every(rig.model, family)[::some], rig))


@pytest.mark.parametrize("family", ["choices", "law", "requests"])
def test_sound_ones_are_the_same_and_all_of_them_move(
    small: Model, family: str
) -> None:
    found = results(Rig(small), family)
    assert [(r.case.id, r.findings) for r in found if r.findings] == []
    moved = {part for r in found for part in r.changed}
    assert moved == ({"sampler"} if family == "law" else {*PARTS, *HISTORIES})


@pytest.mark.parametrize(
    ("fault", "family"),
    [(f.name, family) for f in POLICY_FAULTS.values() for family in f.families],
)
def test_each_fault_is_seen_in_its_part_and_nowhere_else(
    small: Model, fault: str, family: str
) -> None:
    found = results(Rig(small, fault=fault), family)
    wrong = {f.what for r in found for f in r.findings}
    assert wrong == {POLICY_FAULTS[fault].part}


def test_faults_that_a_family_is_not_for_do_not_disturb_it(small: Model) -> None:
    found = results(Rig(small, fault="drafter_across_requests"), "choices", some=4)
    assert {r.verdict for r in found} == {"same"}


@pytest.mark.parametrize("family", ["choices", "requests"])
def test_where_bits_depend_on_the_rows_nothing_is_asked_for_bits(
    small: Model, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rig, "exact", False)
    found = results(Rig(small, floor=measure(small)), family, some=3)
    assert [(r.case.id, r.cause) for r in found if r.findings] == []


@pytest.mark.parametrize("family", GATES)
def test_profiles_grow_and_no_case_comes_twice(small: Model, family: str) -> None:
    quick, full = (
        [c.id for c in every(small, family, profile)] for profile in ("quick", "full")
    )
    assert len({*quick}) == len(quick)
    assert len({*full}) == len(full) >= len(quick)
    if family == "requests":
        asked = {c["series"] for c in every(small, family)}
        assert asked == {*series.SERIES}
        assert len(full) == len(series.SERIES) * 5 * 3


def test_a_family_of_requests_has_every_drafter_and_rule(small: Model) -> None:
    cases = every(small, "requests")
    assert {c["drafter"] for c in cases} == {*series.DRAFTERS}
    assert {c["rule"] for c in cases} == {*series.SAMPLINGS}
    assert {c["checkpoints"] for c in cases} == {0, 1, 3}


def test_experts_in_slots_are_held_to_those_in_memory(small: Model) -> None:
    found = results(Rig(small), "streamed")
    assert [(r.case.id, r.findings) for r in found if r.findings] == []
    assert all("experts" in r.changed for r in found)
    k, every_one = small.config.num_experts_per_tok, small.config.num_experts
    asked = {c["slots"] for c in every(small, "streamed")}
    assert asked >= {1, k, every_one}


def test_slots_that_are_given_away_too_early_are_seen_in_the_experts(
    small: Model,
) -> None:
    found = results(Rig(small, fault="expert_slot_reused"), "streamed")
    caught = [r.cause.what for r in found if r.cause is not None]
    assert set(caught) == {"experts"}
    # Where all experts have slots of their own nothing is ever given away.
    assert [
        r.verdict for r in found if r.case["slots"] == small.config.num_experts
    ] == ["same"]


def test_drafts_keep_to_their_budget(tiny: Model) -> None:
    found = results(Rig(tiny), "budget")
    assert [(r.case.id, r.findings) for r in found if r.findings] == []
    assert all(r.changed == ("experts",) for r in found), "it has bound nobody"


def test_a_root_that_is_not_complete_is_seen_in_the_experts(tiny: Model) -> None:
    found = results(Rig(tiny, fault="root_ids_unfinished"), "budget")
    assert {r.verdict for r in found} == {"fault"}
    assert {f.what for r in found for f in r.findings} == {"experts"}


@pytest.mark.skipif(where_kernels_run() is None, reason="no C++ compiler")
def test_routers_that_differ_are_seen_where_drafts_have_a_bonus(tiny: Model) -> None:
    assert {r.verdict for r in results(Rig(tiny), "routers")} == {"same"}
    found = results(Rig(tiny, fault="routers_differ"), "routers")
    wrong = {r.case["rules"] for r in found if r.verdict == "fault"}
    assert wrong == {"bonus"}
    assert {(f.what, f.by) for r in found for f in r.findings} == {("experts", "rule")}


@pytest.mark.skipif(where_kernels_run() is None, reason="no C++ compiler")
def test_a_kernel_that_is_off_is_seen_in_its_part(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sound,) = results(Rig(tiny), "kernels")
    assert sound.verdict == "same"
    wrong = WINDOW.changed("lanes_sum(sum)", "lanes_sum(sum) * 1.01f")
    defaults = window_kernel.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "kernel", wrong)
    (result,) = results(Rig(tiny), "kernels")
    assert result.cause is not None
    assert (result.cause.what, result.cause.by) == ("gdn_state", "replay")


def test_without_a_compiler_the_kernels_are_named_and_not_passed(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routers, "where_kernels_run", lambda: None)
    found = [*results(Rig(tiny), "routers"), *results(Rig(tiny), "kernels")]
    assert {r.verdict for r in found} == {"near-tie"}
    assert all("no C++ compiler" in f.note for r in found for f in r.findings)
