"""A gate of a few milliseconds, whose cases do what their parameters say."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from strata_nb.gates.records import PARTS, Case, CaseResult, Finding, Scalar
from strata_nb.gates.stage.rig import Rig

NAME = "toy"
TITLE = "cases that do what they are told"

FAULT = Finding("fault", "twin", "commit", "kv", layer=3, cell=9, size=0.25)
NEAR = Finding("near-tie", "serial", "after", "token", cell=12, size=1e-7, gap=1.5e-7)


def case(
    does: str = "same",
    *,
    number: int = 0,
    group: str = "",
    family: str = "plain",
    touches: tuple[str, ...] = PARTS,
    **more: Scalar,
) -> Case:
    params: tuple[tuple[str, Scalar], ...] = (("does", does), ("number", number))
    return Case(NAME, family, (*params, *more.items()), touches, group)


def run(cases: Sequence[Case], rig: Rig) -> Iterator[CaseResult]:
    for each in cases:
        time.sleep(float(dict(each.params).get("seconds", 0)))
        yield _ANSWERS[str(each["does"])](each, rig)


def result(
    each: Case, *findings: Finding, changed: tuple[str, ...] = PARTS
) -> CaseResult:
    return CaseResult(each, findings, changed)


def said(each: Case, words: str) -> CaseResult:
    """A fault whose note carries `words` out of the process."""
    return result(each, Finding("fault", "rule", "commit", "rule", note=words))


def _advance(each: Case, rig: Rig) -> CaseResult:
    """Run a window on the model, as any gate would."""
    engine = rig.subject(rig.text(9, seed=int(each["number"])))
    window = engine.run([1, 2, 3])
    engine.finish(window)
    engine.commit(window)
    digest = engine.digests()["gdn_state"]
    return said(each, f"{engine.root} {digest} {rig.fault} {rig.floor}")


def _raise(each: Case, rig: Rig) -> CaseResult:
    raise LookupError("no such thing")


def _die(each: Case, rig: Rig) -> CaseResult:
    """Like a process that the system ends: once, or each time."""
    flag = Path(str(each["flag"]))
    if not flag.exists() or each["always"]:
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return result(each)


_ANSWERS: dict[str, Callable[[Case, Rig], CaseResult]] = {
    "same": lambda each, rig: result(each),
    "fault": lambda each, rig: result(each, FAULT),
    "near-tie": lambda each, rig: result(each, NEAR),
    "pid": lambda each, rig: said(each, str(os.getpid())),
    "rig": lambda each, rig: said(each, str(id(rig))),
    "other": lambda each, rig: result(case(number=99)),
    "advance": _advance,
    "raise": _raise,
    "die": _die,
}
