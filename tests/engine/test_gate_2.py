"""gate_2 finds two ways equal where they are, and names the part where they part."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata_nb import Model, load
from strata_nb.gates.gate_2 import widths
from strata_nb.gates.gate_2.pair import Pair, two_ways
from strata_nb.gates.gate_2.widths import PAIRS
from strata_nb.gates.judge.floor import measure
from strata_nb.gates.records import Case, CaseResult
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.travel import travel
from strata_nb.models.qwen4_exp import Imposed


def every(model: Model, profile: Any = "quick") -> list[Case]:
    return widths.cases(model.config, profile, model.config.max_position_embeddings)


def results(rig: Rig, *families: str, limit: int = 99) -> list[CaseResult]:
    chosen = [c for c in every(rig.model) if c.family in families][:limit]
    assert chosen
    return list(widths.run(chosen, rig))


@pytest.fixture(scope="module")
def sound(tiny: Model) -> list[CaseResult]:
    rig = Rig(tiny, floor=measure(tiny))
    return [r for name in PAIRS for r in results(rig, name)]


def test_every_way_leads_to_the_same_place(sound: list[CaseResult]) -> None:
    assert [(r.case.id, r.cause) for r in sound if r.findings] == []


def test_every_part_is_exercised_by_every_pair(
    sound: list[CaseResult], tiny: Model
) -> None:
    parts = {*tiny.engine().digests()} - {"position"}
    for name, pair in PAIRS.items():
        changed = {p for r in sound if r.case.family == name for p in r.changed}
        assert changed == {*pair.touches}, name
        assert name in ("law", "budget", "routers") or changed >= parts, name


def test_cases_are_the_same_each_time_and_grow_with_the_profile(tiny: Model) -> None:
    quick, full = ([c.id for c in every(tiny, p)] for p in ("quick", "full"))
    assert quick == [c.id for c in every(tiny)]
    assert len(set(full)) == len(full) > len(quick)


def test_all_widths_kinds_modes_and_chunks_are_asked(wide: Model) -> None:
    found = every(wide)
    windows = [c for c in found if c.family == "windows"]
    assert {c["T"] for c in windows} == set(range(2, 9))
    assert {c["context"] for c in windows} == {"below", "at", "above", "page"}
    assert {c["kv"] for c in windows} == {"float32", "bfloat16", "int8"}
    folds = {(c["fold"], c["partial"]) for c in found if c.family == "folds"}
    assert folds == {("lazy", True), ("eager", False), ("eager", True)}
    chunks = {c["chunk"] for c in every(wide, "full") if c.family == "chunks"}
    assert chunks == {1, 3, 8, 31, "all"}


def test_kinds_that_a_model_cannot_have_are_not_asked(tiny: Model) -> None:
    assert tiny.config.head_dim % 32
    assert {c["kv"] for c in every(tiny) if c.family == "windows"} == {
        "float32",
        "bfloat16",
    }


def test_a_short_context_leaves_out_what_does_not_fit(tiny: Model) -> None:
    found = widths.cases(tiny.config, "quick", 56)
    assert {c["context"] for c in found if c.family == "windows"} == {"below", "at"}


def test_8_bit_keys_are_compared_with_themselves(wide: Model) -> None:
    chosen = [c for c in every(wide) if {("kv", "int8"), ("T", 8)} <= {*c.params}]
    assert [r.verdict for r in widths.run(chosen, Rig(wide))] == ["same"]


def test_a_rewind_near_the_64th_cell_keeps_the_scales(wide: Model) -> None:
    chosen = [c for c in every(wide, "full") if c.family == "rewinds"]
    asked = {(c["cells"], c["keep"]) for c in chosen if c["kv"] == "int8"}
    assert asked == {(n, k) for n in range(60, 69) for k in range(1, 7)}
    quick = [c for c in every(wide) if c.family == "rewinds"]
    assert {c["kv"] for c in quick} == {"int8"}
    assert {r.verdict for r in widths.run(quick, Rig(wide))} == {"same"}
    faulty = Rig(wide, fault="kv_shared_scale")
    found = list(widths.run(quick, faulty))
    assert {r.cause.what for r in found if r.cause} == {"kv"}


@pytest.mark.parametrize(
    ("fault", "family", "part"),
    [
        ("qsa_ring", "folds", "qsa_tail"),
        ("gdn_no_rewind", "folds", "gdn_state"),
        ("gdn_partial_offset", "windows", "gdn_state"),
        ("gdn_conv_no_rewind", "folds", "gdn_conv"),
        ("ple_tokens_kept", "folds", "ple_tokens"),
        ("qsa_old_tail", "windows", "qsa_tail"),
        ("kv_cells_kept", "folds", "kv"),
    ],
)
def test_a_fault_is_seen_in_its_part(
    tiny: Model, fault: str, family: str, part: str
) -> None:
    found = results(Rig(tiny, fault=fault), family)
    assert {r.cause.what for r in found if r.cause} == {part}


def test_the_oracle_sees_a_fault_of_the_engine(tiny: Model) -> None:
    rig = Rig(tiny, fault="qsa_old_tail", floor=measure(tiny))
    (result,) = results(rig, "oracle")
    assert result.cause is not None
    assert (result.cause.kind, result.cause.what) == ("fault", "qsa_tail")


def test_a_choice_turned_over_by_rounding_is_imposed_and_listed(
    tiny_folder: Path,
) -> None:
    # In bfloat16 rounding turns a few choices over; all the rest has to hold then.
    coarse = load(tiny_folder, dtype="bfloat16")
    case = Case(widths.NAME, "oracle", (("cells", 24), ("T", 8)))
    (result,) = widths.run([case], Rig(coarse, floor=measure(coarse)))
    assert {f.kind for f in result.findings} == {"near-tie"}
    assert {f.what for f in result.findings} <= {"experts", "blocks", "token"}
    assert all(f.note.startswith("of the oracle: ") for f in result.findings)


def test_what_no_oracle_can_hold_is_named(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(widths, "fits", lambda checkpoint: False)
    (result,) = results(Rig(tiny), "oracle")
    (finding,) = result.findings
    assert result.verdict == "near-tie"
    assert finding.note == "not compared: the float64 oracle cannot hold this model"


def test_a_pair_can_be_added(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = PAIRS["windows"]

    def forgetful(case: Case, rig: Rig) -> Any:
        # Another prompt: a second way that leads elsewhere.
        engine = rig.subject(rig.text(21, seed=1))
        return travel(engine, [([1, 2], 2)], [3], rig=rig)

    def right(case: Case, rig: Rig, imposed: Any) -> Any:
        engine = rig.reference(rig.text(21))
        return travel(engine, [([1, 2], 2)], [3], rig=rig)

    pair = Pair(
        windows.what, lambda *_: [{"n": 1}], two_ways(forgetful, right, by="replay")
    )
    monkeypatch.setitem(PAIRS, "added", pair)
    (result,) = results(Rig(tiny), "added")
    assert result.case.id == "gate_2/added/n=1"
    assert result.verdict == "fault"


def test_where_bits_depend_on_the_rows_decisions_are_compared(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: every row is looked at, and parts may differ by rounding."""
    monkeypatch.setattr(Rig, "exact", False)
    rig = Rig(tiny, floor=measure(tiny))
    asked = [c for c in every(tiny) if c.family != "oracle"]
    chosen = [c for i, c in enumerate(asked) if i % 3 == 0 or c.family == "kernels"]
    assert {c.family for c in chosen} == {*PAIRS} - {"oracle"}
    found = list(widths.run(chosen, rig))
    assert [(r.case.id, r.cause) for r in found if r.findings] == []


def test_a_prompt_that_chose_otherwise_is_seen(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rig, "exact", False)
    swapped = Imposed(experts={(2, 9): np.arange(4)})
    monkeypatch.setattr(Rig, "subject", lambda *_: tiny.engine(imposed=swapped))
    case = next(c for c in every(tiny) if ("chunk", 3) in c.params)
    (result,) = widths.run([case], Rig(tiny, floor=measure(tiny)))
    assert result.cause is not None
    assert (result.cause.what, result.cause.layer, result.cause.cell) == (
        "experts",
        2,
        9,
    )


def test_results_do_not_depend_on_what_ran_before(
    tiny: Model, sound: list[CaseResult]
) -> None:
    for case in every(tiny)[::9]:
        (result,) = widths.run([case], Rig(tiny, floor=measure(tiny)))
        assert result in sound
