"""What is installed, what works here, what is missing and how to get it."""

import json
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from strata_nb.files import write_text

from .findings import BACK_ENDS, LAB, NEEDED, TESTS, Finding, diagnose, version
from .privacy import scrubbed
from .trials import Trial, try_in_a_child

# Neither here nor in the modules above is MLX imported, nor anything else that may be
# what is broken.

__all__ = ["Finding", "Report", "Trial", "examine", "needed", "save", "text", "version"]

_FORMAT = 1


@dataclass(frozen=True)
class Report:
    """All that `examine` found; nothing in it names a person, a host or a folder."""

    strata_nb: str | None
    python: str
    system: dict[str, str]
    packages: dict[str, str | None]
    device: dict[str, Any]
    trials: list[Trial]
    findings: list[Finding]


def examine() -> Report:
    """Look at this machine: takes seconds, asks no network, changes nothing."""
    packages = {name: version(name) for name in (*NEEDED, *BACK_ENDS, *LAB, *TESTS)}
    device, tried = try_in_a_child()
    trials = [replace(trial, why=scrubbed(trial.why)) for trial in tried]
    return Report(
        strata_nb=version("strata-nb"),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        system=_system(),
        packages=packages,
        device=device,
        trials=trials,
        findings=diagnose(packages, trials),
    )


def needed(report: Report) -> bool:
    """True when something is wrong without which the package does not work."""
    return any(finding.needed for finding in report.findings)


def text(report: Report) -> str:
    """The report for reading."""
    return "\n".join(_lines(report))


def save(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the report to one file: JSON if its name ends in .json, else plain text.

    Raises:
        OSError: the folder or disk does not take it; an older file is then untouched.
    """
    if Path(path).suffix.lower() == ".json":
        whole = {"format": _FORMAT, **asdict(report)}
        write_text(path, json.dumps(whole, indent=2, allow_nan=False) + "\n")
    else:
        write_text(path, text(report) + "\n")


def _system() -> dict[str, str]:
    # Not platform.platform(): a kernel somebody built may carry the host's name.
    found = {"system": platform.system(), "machine": platform.machine()}
    if sys.platform == "darwin":
        return found | {"macos": platform.mac_ver()[0]}
    return found | {"libc": " ".join(platform.libc_ver())}


def _lines(report: Report) -> Iterator[str]:
    yield f"strata-nb {report.strata_nb or '(a source tree, not installed)'}"
    yield f"python    {report.python}"
    yield f"system    {' '.join(report.system.values())}"
    for name, value in report.device.items():
        yield f"device    {name}: {value}"
    yield ""
    width = max(map(len, report.packages))
    for name, found in report.packages.items():
        # On each system most back ends are rightly absent.
        if found or name not in BACK_ENDS:
            yield f"{name:<{width}}  {found or '-'}"
    yield ""
    for trial in report.trials:
        yield f"{trial.what:<{width}}  {trial.state:<12}  {trial.why}".rstrip()
    yield ""
    for finding in report.findings:
        yield f"{'MISSING' if finding.needed else 'optional'}: {finding.what}"
        yield f"    remedy: {finding.remedy}"
    if not needed(report):
        yield "Everything that is needed is here."
