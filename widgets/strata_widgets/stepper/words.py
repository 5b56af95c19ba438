"""What the widget says: after each verb, and when one cannot be had."""

from collections.abc import Sequence
from typing import Any, Final

from strata_nb import CommitReport, Result
from strata_nb.trace.quoting import shown
from strata_nb.trace.text import counted

NO_ROOT: Final = (
    "This engine has no root: pass `prompt=`, whose last token becomes the root."
)
NO_DRAFTER: Final = (
    "this stepper has no drafter to take a draft from; make one with "
    "`Stepper(engine, drafter=...)`, or type a draft"
)
OPEN: Final = "a window is open: Commit or Abort it first"
NOWHERE: Final = "no checkpoint lies before this cell"
_MEND: Final = "type a draft, or mend the drafter"


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


def took(name: str, count: int) -> str:
    """Say what a drafter proposed."""
    if count == 0:
        return f"{name} proposes nothing here: Run takes the root alone."
    return f"{name} proposes {counted(count, 'draft')}. Edit them, or Run."


def place(position: int, windows: int) -> str:
    """Name a checkpoint: its cell, and the windows before it."""
    return (
        f"{position}, after window {windows}" if windows else f"{position}, the start"
    )


def went_back(position: int, undone: int) -> str:
    """Say where the engine is again, and what it took."""
    verb = "is" if undone == 1 else "are"
    return f"Back at cell {position}: {counted(undone, 'window')} {verb} undone."


def no_checkpoint(wanted: int | None, there: Sequence[int]) -> str:
    """Say that no checkpoint is where one is wanted, and where some are."""
    if not there:
        got = "" if wanted is None else f", got cell {wanted}"
        return f"a checkpoint before this cell is wanted{got}; Commit a window first"
    listed = ", ".join(map(str, there))
    return (
        f"cell {wanted} has no checkpoint to go back to; wanted one of {listed} (the "
        "newest are kept, as many as `checkpoints=` says)"
    )


def no_room(folder: str, error: OSError) -> str:
    """Say that a checkpoint found no room on its way to the engine."""
    return (
        f"going back takes a file in {folder} for a moment, and got {error}; the "
        "engine is as before: make room there, or name another folder with TMPDIR"
    )


def no_drafter(got: object) -> str:
    """Say what a drafter is."""
    what = f"a {type(got).__name__}"
    if isinstance(got, type):
        what = f"the class {got.__name__}"
    return (
        f"`drafter` wants an object with `name`, `assign`, `append` and `propose`, got "
        f"{what}; take one of `strata_nb.draft`, such as `SuffixLookup()`"
    )


def drafter_raised(name: str, error: Exception) -> str:
    """Say what a drafter raised instead of proposing."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"a draft of {name} is wanted, but it raised {what}; {_MEND}"


def no_draft(name: str, got: Any) -> str:
    """Say that a drafter proposed something else."""
    return (
        f"{name} proposed {shown(got)}, wanted a `strata_nb.draft.Draft` of integers, "
        f"such as `Draft((1, 2))`, or `NO_DRAFT`; {_MEND}"
    )


def too_many(name: str, got: int, most: int) -> str:
    """Say that a drafter proposed more than was asked for."""
    return f"{name} proposed {counted(got, 'draft')}, wanted {most} at most; {_MEND}"


def outside(name: str, token: int, vocabulary: int) -> str:
    """Say that a drafter proposed a token that there is none."""
    return f"{name} proposed token {token}, wanted 0 to {vocabulary - 1}; {_MEND}"
