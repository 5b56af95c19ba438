"""A report as text and as XML, and what it says of where it comes from."""

import platform
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import strata_nb
from gate_samples import (
    ABOUT,
    FAULTY,
    NEAR_TIE,
    ORIGIN,
    SAME,
    full,
    gate,
    planted,
    report,
)
from strata_nb.errors import GateError
from strata_nb.gates.records import PARTS
from strata_nb.gates.report import Report, as_text, junit
from strata_nb.gates.report.provenance import (
    About,
    about,
    digest_files,
    source_digest,
    system,
)
from strata_nb.gates.report.tally import GateReport
from toy_gate import FAULT, case, result

TEXT = """\
verdict: FAULT
profile: quick   fault planted: qsa_ring
model:   toy-model abababababababab
code:    cdcdcdcdcdcdcdcd, mlx 1.0, numpy 2.0, python 3.11, strata-nb 0.1.0, on cpu
options: context=512, dtype=float32, strict=True

FAULT     toy: cases that do what they are told
  family     cases      same  near-tie     fault
  plain          3         1         1         1
  changed: ple_tokens 3, ple_conv 3, gdn_conv 3, gdn_state 3, kv 3, qsa_tail 3, qsa_blocks 3
  fault: toy/plain/does=same/number=0
      kv layer 3 cell 9: size 0.25, seen by twin right after the commit
  near-tie: toy/plain/does=same/number=0
      token cell 12: size 1e-07, gap 1.5e-07, seen by serial in the rows after it

rounding floor: over 64 rows, logits 1e-06, experts 2e-06, blocks 3e-06, parts 4e-07 of their RMS

planted faults, and the comparisons that caught them by part
  T twin, R replay, S serial, # rule of the case; * the part it was planted in
              kv   qsa
  planted         tail  elsewhere
  qsa_ring     T    *.

ran to 2026-11-30T12:00:00Z, 1.5 s, workers: 2, Linux x86_64, CPython 3.11.7"""  # noqa: E501


def test_the_text_of_a_report() -> None:
    found = report(gate(SAME, NEAR_TIE, FAULTY), fault="qsa_ring")
    assert "\n".join(as_text.lines(found)) == TEXT


def test_all_but_the_last_line_repeats() -> None:
    other = About("2027-01-01T00:00:00Z", 99.0, 7, "Darwin arm64", "/elsewhere")
    one = as_text.lines(report(gate(SAME)))
    two = as_text.lines(report(gate(SAME), about=other))
    assert one[:-1] == two[:-1]
    assert one[-1] != two[-1]


def test_the_short_text_says_the_same_on_any_machine() -> None:
    elsewhere = replace(ORIGIN, versions={"mlx": "2"}, device="gpu")
    found = gate(SAME, FAULTY)
    one = as_text.short(report(found))
    assert one == as_text.short(report(found, provenance=elsewhere, floor=None))
    assert set(one) <= {*as_text.lines(report(found)), one[0], ""}
    assert any("fault: toy/plain" in line for line in one)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (gate(result(case(), changed=("kv",)), parts=("kv", "qsa_tail")), "qsa_tail"),
        (gate(), "it has no cases"),
    ],
    ids=["idle", "no cases"],
)
def test_the_text_says_why_a_gate_is_vacuous(found: GateReport, words: str) -> None:
    told = [line for line in as_text.lines(report(found)) if "vacuous:" in line]
    assert len(told) == 1
    assert words in told[0]


def test_the_text_counts_what_it_does_not_show() -> None:
    many = [result(case(number=n), *[FAULT] * (n + 1)) for n in range(7)]
    told = "\n".join(as_text.lines(report(gate(*many))))
    assert "and 1 finding more" in told
    assert "and 2 faults more" in told
    assert "number=4" in told
    assert "number=5" not in told


def test_a_fault_that_nothing_caught_stands_out() -> None:
    told = as_text.lines(report(gate(SAME, planted("quiet"))))
    assert any("quiet" in line and "NOT CAUGHT" in line for line in told)


def test_a_file_that_somebody_altered_moves_no_cursor(tmp_path: Path) -> None:
    rude = "\x1b[2J\n"
    odd = replace(
        ORIGIN,
        device=rude,
        versions={rude: rude},
        model_digest=rude,
        source_digest=rude,
    )
    toy = replace(gate(SAME), idle=(rude,), changed={rude: 1})
    found = report(toy, provenance=odd)
    found.save(tmp_path / "r.json")
    loaded = Report.load(tmp_path / "r.json")
    for told in (as_text.lines(loaded), as_text.short(loaded)):
        assert all(line.isascii() and line.isprintable() for line in told)


def test_the_text_is_narrow_and_moves_no_cursor() -> None:
    rude = "\x1b[2J\u202e漢\ud800\n" + "long " * 60
    name = "a_fault_with_a_name_of_more_letters_than_fit"
    everywhere = [(part, by, 1) for part in (*PARTS, rude) for by in ("twin", "rule")]
    found = report(
        GateReport.of(rude, rude, [SAME], parts=PARTS),
        gate(result(case(rude, family=rude), replace(FAULT, note=rude, what=rude))),
        gate(planted(name, *everywhere), planted("b", ("token", "serial", 1))),
        provenance=replace(ORIGIN, model=rude, options={"text": rude}),
        about=replace(ABOUT, system=rude),
    )
    told = as_text.lines(found)
    assert max(map(len, told)) <= 100
    assert all(line.isascii() and line.isprintable() for line in told)


def parsed(found: Report, folder: Path) -> ET.Element:
    junit.write(found, folder / "r.xml")
    return ET.fromstring((folder / "r.xml").read_bytes())


def test_junit_has_a_suite_a_gate_and_a_test_a_case(tmp_path: Path) -> None:
    suites = parsed(full(), tmp_path).findall("testsuite")
    assert [s.get("name") for s in suites] == ["toy", "toy", "still"]
    counts = [(s.get("tests"), s.get("failures")) for s in suites]
    assert counts == [("4", "2"), ("1", "0"), ("2", "1")]
    for suite in suites:
        assert len(suite.findall("testcase")) == int(suite.get("tests", ""))
        assert len(suite.findall("*/failure")) == int(suite.get("failures", ""))
    same, near, faulty, _ = suites[0].findall("testcase")
    assert same.get("name") == case().id
    assert list(same) == []
    assert near.findtext("system-out", "").startswith("near-tie\ntoken cell 12")
    (failure,) = faulty
    assert failure.get("message") == as_text.finding(FAULT)


def test_junit_shows_a_vacuous_gate_as_a_failed_test(tmp_path: Path) -> None:
    (suite,) = parsed(report(gate()), tmp_path)
    failure = suite.find("testcase[@name='vacuity']/failure")
    assert failure is not None
    assert failure.get("message") == "it has no cases"


def test_junit_holds_characters_that_xml_does_not_have(tmp_path: Path) -> None:
    rude = "<&\x00\x1b\ud800\ufffe"
    note = replace(FAULT, note=rude)
    found = parsed(report(gate(result(case(rude, family=rude), note))), tmp_path)
    assert found.find("testsuite/testcase[@name]") is not None
    failure = found.find("testsuite/testcase/failure")
    assert failure is not None
    assert r"<&\x00\x1b\ud800\ufffe" in str(failure.get("message"))


def test_junit_is_not_written_from_a_file(tmp_path: Path) -> None:
    full().save(tmp_path / "r.json")
    loaded = Report.load(tmp_path / "r.json")
    with pytest.raises(GateError, match="JUnit wants every case of toy, but a report"):
        junit.write(loaded, tmp_path / "r.xml")
    assert not (tmp_path / "r.xml").exists()


# ------------------------------------------------------------------ provenance


def test_the_source_digest_sees_names_contents_and_where_they_part(
    tmp_path: Path,
) -> None:
    def digest(*files: tuple[str, str]) -> str:
        (tmp_path / "f").mkdir(exist_ok=True)
        named = []
        for index, (name, text) in enumerate(files):
            path = tmp_path / "f" / str(index)
            path.write_text(text)
            named.append((name, path))
        return digest_files(named)

    base = digest(("a.py", "x"), ("b.py", "y"))
    assert base == digest(("a.py", "x"), ("b.py", "y"))
    others = {
        digest(("a.py", "x"), ("b.py", "z")),
        digest(("a.py", "x"), ("c.py", "y")),
        digest(("a.py", "x")),
        digest(("a.pyx", ""), ("b.py", "y")),
    }
    assert len(others | {base}) == 5


def test_the_source_digest_is_that_of_the_files_of_both_packages() -> None:
    root = Path(strata_nb.__file__).parents[1]
    kernels = root / "kernels"
    if not kernels.is_dir():
        kernels = root
    names = {
        path.relative_to(base).as_posix(): path
        for base, package in ((root, "strata_nb"), (kernels, "strata_kernels"))
        for path in (base / package).rglob("*.py")
    }
    assert source_digest() == digest_files((n, names[n]) for n in sorted(names))


def test_nothing_names_this_machine() -> None:
    told = about(seconds=1.26, workers=1, path=Path("models") / "x")
    assert platform.node() not in (told.system, system())
    assert (told.seconds, told.path) == (1.3, str(Path("models") / "x"))
    assert told.date.endswith("Z")
