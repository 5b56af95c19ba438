"""A report as JUnit XML, which continuous integration shows case by case."""

import os
from xml.etree import ElementTree as ET

from strata_nb.errors import GateError
from strata_nb.files import write_bytes
from strata_nb.gates.records import CaseResult
from strata_nb.gates.report.as_text import finding, idle, plain
from strata_nb.gates.report.report import Report
from strata_nb.gates.report.tally import FINDINGS, GateReport, worst_first


def write(report: Report, path: str | os.PathLike[str]) -> None:
    """Write one suite a gate and one test a case, whole or not at all.

    A vacuous gate has one more test, which fails and says why. Near-ties pass, and say
    so in their output. The file has no times: equal runs make equal files.

    Raises:
        GateError: the report was read from a file, which does not hold all cases.
        OSError: the file cannot be written; an older one survives.
    """
    root = ET.Element("testsuites", name="strata-nb gate")
    for gate in report.gates:
        if len(gate.results) != gate.cases:
            raise GateError(
                f"JUnit wants every case of {gate.name}, but a report read from a file "
                "lists only those that differ; write JUnit XML from the run itself"
            )
        root.append(_suite(gate))
    ET.indent(root, " ")
    text = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    write_bytes(path, text + b"\n")


def _suite(gate: GateReport) -> ET.Element:
    why = idle(gate)
    failures = sum(r.verdict == "fault" for r in gate.results) + bool(why)
    suite = ET.Element(
        "testsuite",
        name=plain(gate.name),
        tests=str(gate.cases + bool(why)),
        failures=str(failures),
        errors="0",
        skipped="0",
    )
    suite.extend(_test(result) for result in gate.results)
    if why:
        name = plain(gate.name)
        test = ET.SubElement(suite, "testcase", classname=name, name="vacuity")
        ET.SubElement(test, "failure", type="vacuous", message=why)
    return suite


def _test(result: CaseResult) -> ET.Element:
    case = result.case
    # Anything but printable ASCII is escaped: XML has no way to hold most controls.
    test = ET.Element(
        "testcase",
        classname=plain(f"{case.gate}.{case.family}"),
        name=plain(case.id),
    )
    words = "\n".join(
        finding(found) for found in worst_first(result.findings)[:FINDINGS]
    )
    if result.verdict == "fault":
        message = finding(result.cause) if result.cause else ""
        failure = ET.SubElement(test, "failure", type="fault", message=message)
        failure.text = words
    elif result.verdict == "near-tie":
        ET.SubElement(test, "system-out").text = f"near-tie\n{words}"
    return test
