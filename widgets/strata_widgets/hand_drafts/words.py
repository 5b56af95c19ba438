"""What the widget says after each verb."""

from typing import Final

from strata_nb import CommitReport, Result

NO_ROOT: Final = (
    "This engine has no root: pass `prompt=`, whose last token becomes the root."
)


def counted(count: int, noun: str) -> str:
    """Return `count` with its noun, as in "1 row" and "2 rows"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def ran(rows: int) -> str:
    """Say what a run of `rows` rows did, and what comes next."""
    judged = "each draft" if rows > 1 else "the root"
    return f"Ran {counted(rows, 'row')}. Finish says what becomes of {judged}."


def judged(result: Result) -> str:
    """Say what finish found."""
    found = "Keep 1, the root alone."
    if result.offered:
        drafts = counted(result.offered, "draft")
        found = f"Accepted {result.accepted} of {drafts}; "
        found += f"keep {result.keep} = accepted + 1."
    return found + (" A stop id ends the text." if result.stop == "stop" else "")


def kept(report: CommitReport, *, stopped: bool) -> str:
    """Say what a commit kept; `stopped`: the next root is a stop id."""
    rows = counted(report.keep, "row")
    stop = " The root is a stop id: the text ends here." if stopped else ""
    return f"Kept {rows}; position is {report.position} now.{stop}"
