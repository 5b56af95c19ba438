"""Reports of the toy gate, one of each kind."""

from collections.abc import Sequence
from typing import Any

from strata_nb.gates.judge.floor import Floor
from strata_nb.gates.records import PARTS, CaseResult, Finding
from strata_nb.gates.report import Report
from strata_nb.gates.report.provenance import About, Provenance
from strata_nb.gates.report.tally import GateReport
from toy_gate import FAULT, NEAR, TITLE, case, result

ORIGIN = Provenance(
    model="toy-model",
    model_digest="ab" * 32,
    source_digest="cd" * 32,
    versions={"python": "3.11", "mlx": "1.0", "numpy": "2.0", "strata-nb": "0.1.0"},
    device="cpu",
    options={"dtype": "float32", "context": 512, "strict": True},
)
ABOUT = About("2026-11-30T12:00:00Z", 1.5, 2, "Linux x86_64, CPython 3.11.7", "/a/b")
FLOOR = Floor(1e-6, 2e-6, 3e-6, {"kv": 1e-7, "gdn_state": 4e-7}, rows=64)
SAME, NEAR_TIE, FAULTY = result(case()), result(case(), NEAR), result(case(), FAULT)


def gate(
    *results: CaseResult, name: str = "toy", parts: Sequence[str] = PARTS
) -> GateReport:
    return GateReport.of(name, TITLE, results, parts=parts)


def report(*gates: GateReport, fault: str | None = None, **other: Any) -> Report:
    floor = other.get("floor", FLOOR)
    return Report.of(
        gates,
        profile="quick",
        fault=fault,
        floor=floor,
        provenance=other.get("provenance", ORIGIN),
        about=other.get("about", ABOUT),
    )


def planted(name: str, *caught: tuple[str, str, int]) -> CaseResult:
    each = case(touches=("qsa_tail",), fault=name)
    return CaseResult(each, changed=PARTS, caught=caught)


def full() -> Report:
    """One of everything."""
    odd = Finding("fault", "rule", "commit", "rule", note="wanted 3,\tgot \x1b[2J漢")
    big = Finding("fault", "serial", "after", "logits", cell=3, size=float("inf"))
    return report(
        gate(SAME, NEAR_TIE, FAULTY, result(case(number=1, family="b"), big, odd)),
        gate(planted("qsa_ring", ("qsa_tail", "twin", 3), ("token", "serial", 1))),
        gate(result(case(), changed=("kv",)), name="still"),
    )
