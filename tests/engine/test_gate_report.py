"""A report says what was found, repeats byte for byte, and reads back or is refused."""

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import strata_nb
from gate_samples import (
    FAULTY,
    FLOOR,
    NEAR_TIE,
    SAME,
    full,
    gate,
    planted,
    report,
)
from strata_nb.errors import GateError
from strata_nb.gates.records import PARTS, CaseResult, Finding
from strata_nb.gates.report import Report, as_text
from strata_nb.gates.report.provenance import (
    About,
    about,
    provenance,
)
from strata_nb.gates.report.tally import FAULTS_LISTED
from toy_gate import FAULT, NEAR, case, result

# ------------------------------------------------------------------ verdicts


@pytest.mark.parametrize(
    ("results", "verdict", "code"),
    [
        ([SAME], "same", 0),
        ([SAME, NEAR_TIE], "near-tie", 0),
        ([NEAR_TIE, FAULTY], "fault", 1),
        ([], "vacuous", 1),
        ([result(case(), changed=PARTS[1:])], "vacuous", 1),
        ([result(case(), NEAR, changed=PARTS[1:])], "vacuous", 1),
        ([result(case(), FAULT, changed=PARTS[1:])], "fault", 1),
    ],
    ids=["same", "near-tie", "fault", "no cases", "idle", "idle near-tie", "both"],
)
def test_a_verdict_is_the_worst_there_was(
    results: list[CaseResult], verdict: str, code: int
) -> None:
    found = report(gate(SAME), gate(*results))
    assert found.gates[1].verdict == verdict
    assert (found.verdict, found.exit_code) == (verdict, code)


def test_no_gates_prove_nothing() -> None:
    assert (report().verdict, report().exit_code) == ("vacuous", 1)


def test_a_part_is_idle_that_the_model_has_and_cases_claim_and_none_moved() -> None:
    one = result(case(touches=("kv", "qsa_tail", "gdn_conv")), changed=("kv", "kv"))
    two = result(case(touches=("kv",)), changed=("kv", "ple_conv"))
    found = gate(one, two, parts=("kv", "qsa_tail", "gdn_state"))
    # gdn_conv: the model has none. gdn_state: no case claims to touch it.
    assert found.idle == ("qsa_tail",)
    assert found.changed == {"ple_conv": 1, "gdn_state": 0, "kv": 2, "qsa_tail": 0}
    assert report(found).changed["toy"]["kv"] == 2


def test_cases_are_counted_by_family_and_listed_unless_same() -> None:
    found = report(gate(SAME, NEAR_TIE, result(case(family="b"), FAULT)), gate(FAULTY))
    families = found.gates[0].families
    assert list(families) == ["plain", "b"]
    assert (families["plain"].same, families["plain"].near_tie) == (1, 1)
    assert (families["b"].cases, families["b"].fault) == (1, 1)
    assert [c.id for c in found.near_ties] == [case().id]
    assert [c.id for c in found.faults] == [case(family="b").id, case().id]


def test_a_case_shows_its_cause_first_and_eight_findings_at_most() -> None:
    later = replace(FAULT, moment="after")
    found = gate(result(case(), NEAR, *[later] * 8, FAULT)).listed[0]
    assert found.findings == (FAULT, *[later] * 7)
    assert found.more == 2


def test_near_ties_are_all_listed_and_faults_up_to_a_limit() -> None:
    many = [FAULTY] * (FAULTS_LISTED + 3) + [NEAR_TIE] * (FAULTS_LISTED + 3)
    found = gate(*many)
    assert (len(found.faults), found.unlisted) == (FAULTS_LISTED, 3)
    assert len(found.near_ties) == FAULTS_LISTED + 3
    assert found.families["plain"].fault == FAULTS_LISTED + 3


def test_the_digest_of_the_cases_sees_names_verdicts_and_order() -> None:
    first, second = SAME, result(case(number=1))
    faulty = replace(first, findings=(FAULT,))
    digests = {
        gate(*results).cases_digest
        for results in ([first, second], [second, first], [first], [faulty, second])
    }
    assert len(digests) == 4


# ------------------------------------------------------------------ the matrix


def test_the_matrix_has_a_row_for_each_case_that_plants_a_fault() -> None:
    ring = planted("qsa_ring", ("qsa_tail", "twin", 3), ("qsa_tail", "serial", 2))
    rows = report(gate(SAME, ring, planted("quiet"))).matrix
    assert [(r.fault, r.part) for r in rows] == [
        ("qsa_ring", "qsa_tail"),
        ("quiet", "qsa_tail"),
    ]
    assert rows[0].caught == {"qsa_tail": {"twin": 3, "serial": 2}}
    assert rows[1].caught == {}


def test_a_fault_planted_everywhere_has_one_row_of_causes() -> None:
    replayed = replace(FAULT, by="replay")
    effect = Finding("fault", "serial", "after", "logits")
    results = [result(case(), FAULT, replayed, effect), SAME, FAULTY, NEAR_TIE]
    (row,) = report(gate(*results), fault="qsa_ring").matrix
    assert (row.fault, row.part) == ("qsa_ring", "qsa_tail")
    assert row.caught == {"kv": {"twin": 2, "replay": 1}}


def test_without_a_fault_there_is_no_matrix() -> None:
    assert report(gate(SAME, FAULTY)).matrix == ()


# ------------------------------------------------------------------ the file


def test_a_saved_report_reads_back_equal(tmp_path: Path) -> None:
    saved = full()
    saved.save(tmp_path / "r.json")
    loaded = Report.load(tmp_path / "r.json")
    assert loaded == saved
    assert loaded.about == saved.about
    assert loaded.compared() == saved.compared()
    assert as_text.lines(loaded) == as_text.lines(saved)
    assert loaded.gates[0].results == ()


def test_a_report_without_floor_or_cases_reads_back(tmp_path: Path) -> None:
    saved = report(gate(), floor=None, fault="qsa_ring")
    saved.save(tmp_path / "r.json")
    assert Report.load(tmp_path / "r.json") == saved


def test_the_compared_part_has_neither_paths_nor_times_nor_machines() -> None:
    other = About("2027-01-01T00:00:00Z", 99.0, 7, "Darwin arm64", "/elsewhere")
    assert report(gate(SAME)).compared() == report(gate(SAME), about=other).compared()
    assert full().compared() != report(gate(SAME)).compared()
    assert set(json.loads(full().compared())) == {
        *("profile", "fault", "verdict", "gates", "matrix", "floor", "provenance")
    }


def test_numbers_of_numpy_are_written_as_ours() -> None:
    sizes: Any = {"size": np.float32(0.25), "layer": np.int64(3), "cell": np.int8(9)}
    limits: Any = {"logits": np.float64(1e-6), "rows": np.int64(64)}
    numbers, floor = replace(FAULT, **sizes), replace(FLOOR, **limits)
    odd = report(gate(result(case(), numbers)), floor=floor)
    assert odd.compared() == report(gate(FAULTY)).compared()


REPEAT = """
import hashlib, sys
import strata_nb, toy_gate
from strata_nb.gates.report.provenance import about, provenance
from strata_nb.gates.report import Report
from strata_nb.gates.report.tally import GateReport
from strata_nb.gates.spread.tasks import plan
from strata_nb.gates.spread.workers import run_tasks

model = strata_nb.load(sys.argv[1])
does = ("same", "near-tie", "fault", "advance")
cases = [toy_gate.case(d, number=n, group=d) for n in range(2) for d in does]
tasks = plan("toy_gate", cases, path=sys.argv[1])
found = run_tasks(tasks, model=model, floor=None)
gate = GateReport.of("toy", "", [r for t in found for r in t], parts=toy_gate.PARTS)
report = Report.of(
    [gate], profile="quick", fault=None, floor=None,
    provenance=provenance(model, options={"b": 1, "a": 2}),
    about=about(seconds=0.0, workers=1, path=sys.argv[1]),
)
print(report.compared().decode())
"""


def test_the_compared_part_repeats_with_another_hash_seed_and_time_zone(
    tiny_folder: Path,
) -> None:
    told = []
    for seed, zone in (("1", "UTC"), ("2", "Asia/Kathmandu")):
        path = os.pathsep.join(sys.path)
        more = {"PYTHONHASHSEED": seed, "TZ": zone, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", REPEAT, str(tiny_folder)],
            env={**os.environ, **more},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        told.append(done.stdout)
    assert told[0] == told[1]
    assert str(tiny_folder.parent) not in told[0]


SCHEMA = json.loads(
    (resources.files("strata_nb.gates.report") / "schema.json").read_text("utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def written(found: Report, folder: Path) -> Any:
    found.save(folder / "r.json")
    return json.loads((folder / "r.json").read_bytes())


def test_the_schema_is_a_schema_and_reports_follow_it(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    kinds = [full(), report(), report(gate(SAME), floor=None, fault="qsa_ring")]
    for found in kinds:
        assert list(VALIDATOR.iter_errors(written(found, tmp_path))) == []


def test_a_real_provenance_follows_the_schema(
    tiny: strata_nb.Model, tmp_path: Path
) -> None:
    origin = provenance(tiny, options={"gates": "toy", "context": 96})
    real = report(
        gate(SAME), provenance=origin, about=about(seconds=1, workers=1, path="x")
    )
    assert list(VALIDATOR.iter_errors(written(real, tmp_path))) == []
    assert origin.options["dtype"] == "float32"
    assert Report.load(tmp_path / "r.json") == real


Break = Callable[[Any], object]


def _set(*path: str | int, value: object) -> Break:
    def act(whole: Any) -> None:
        for key in path[:-1]:
            whole = whole[key]
        whole[path[-1]] = value

    return act


BROKEN: dict[str, tuple[Break, str]] = {
    "another format": (
        _set("format", value="strata-nb gate 2"),
        r"r\.json has format 'strata-nb gate 2', wanted 'strata-nb gate 1'; run",
    ),
    "a member missing": (
        lambda whole: whole["compared"].pop("floor"),
        r"r\.json\.compared: wanted an object with a member 'floor', got",
    ),
    "a member too many": (
        _set("compared", "host", value="x"),
        r"r\.json\.compared: wanted no member 'host'",
    ),
    "a list for an object": (
        _set("about", value=[]),
        r"r\.json\.about: wanted an object.*, got \[\]; it is no report of a gate",
    ),
    "an object for a list": (
        _set("compared", "gates", 0, "listed", value={}),
        r"r\.json\.compared\.gates\[0\]\.listed: wanted a list, got {}",
    ),
    "a count below 0": (
        _set("compared", "gates", 0, "families", 0, "same", value=-1),
        r"families\[0\]\.same: wanted a whole number of 0 or more, got -1",
    ),
    "a count that is true": (
        _set("compared", "gates", 0, "changed", "kv", value=True),
        r"changed\.kv: wanted a whole number of 0 or more, got True",
    ),
    "a size in words": (
        _set("compared", "gates", 0, "listed", 0, "findings", 0, "size", value="big"),
        r"listed\[0\]\.findings\[0\]\.size: wanted a number, got 'big'",
    ),
    "an unknown comparison": (
        _set("compared", "gates", 0, "listed", 0, "findings", 0, "by", value="luck"),
        r"by: wanted one of twin, replay, serial, rule, got 'luck'",
    ),
    "a verdict that is none": (
        _set("compared", "gates", 0, "verdict", value="fine"),
        r"verdict: wanted one of same, near-tie, vacuous, fault, got 'fine'",
    ),
    "a title that is a number": (
        _set("compared", "gates", 0, "title", value=5),
        r"gates\[0\]\.title: wanted a text, got 5",
    ),
    "an option that is a list": (
        _set("compared", "provenance", "options", "x", value=[1]),
        r"options\.x: wanted a text, a number, true or false, got \[1\]",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_schema_and_reader_refuse_the_same(name: str, tmp_path: Path) -> None:
    act, message = BROKEN[name]
    whole = copy.deepcopy(written(full(), tmp_path))
    act(whole)
    assert list(VALIDATOR.iter_errors(whole)) != []
    (tmp_path / "r.json").write_text(json.dumps(whole))
    with pytest.raises(GateError, match=message):
        Report.load(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (
            ("compared", "gates", 0),
            r"gates\[0\]\.verdict: wanted 'fault', as its cases",
        ),
        (("compared",), r"r\.json\.compared\.verdict is 'same', but the gates in it"),
    ],
    ids=["gate", "report"],
)
def test_a_verdict_that_its_counts_belie_is_refused(
    place: tuple[str | int, ...], message: str, tmp_path: Path
) -> None:
    whole = written(full(), tmp_path)
    _set(*place, "verdict", value="same")(whole)
    (tmp_path / "r.json").write_text(json.dumps(whole))
    with pytest.raises(GateError, match=message):
        Report.load(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"r\.json cannot be read as JSON \(Expecting value"),
        (b"\xff", r"r\.json cannot be read as JSON \('utf-8' codec"),
        (b"[" * 100_000, r"r\.json cannot be read as JSON \(maximum recursion"),
        (b'{"a": 1, "a": 2}', r"'a' appears twice in one object"),
        (b'{"a": ' + b"9" * 5000 + b"}", r"r\.json cannot be read as JSON"),
        (b"[1]", r"r\.json: wanted an object, got \[1\]"),
        (b"{}", r"r\.json has format None, wanted 'strata-nb gate 1'"),
    ],
    ids=["empty", "no text", "deep", "twice", "huge number", "list", "no format"],
)
def test_what_is_no_report_is_refused(
    data: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / "r.json").write_bytes(data)
    with pytest.raises(GateError, match=message):
        Report.load(tmp_path / "r.json")


def test_a_report_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(GateError, match=r"there is no report at '.*none\.json'; name"):
        Report.load(tmp_path / "none.json")


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    report(gate(SAME)).save(path)
    before = path.read_bytes()
    wrong: Any = "no number"
    bad = report(gate(SAME), floor=replace(FLOOR, logits=wrong))
    with pytest.raises(ValueError, match="could not convert"):
        bad.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]
