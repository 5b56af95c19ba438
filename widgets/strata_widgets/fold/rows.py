"""Folds in words and as boxes; what a record lacks is said to be missing."""

from collections.abc import Iterator
from typing import Final

from strata_nb import WindowRecord
from strata_nb.refusals import MAX_ROWS
from strata_nb.trace.folds import Fold, fold_of
from strata_nb.trace.text import counted
from strata_widgets.drawing import Row
from strata_widgets.fold.drawings import REJECTED, ROOT, SAVED, TAKEN

HEAD: Final = (
    "window",
    "cell",
    "T",
    "keep",
    "fold",
    "run begins with",
    "state after row 0",
    "commit",
    "next run begins with",
)
MISSING: Final = "not recorded"


def boxes(window: int, record: WindowRecord, before: WindowRecord | None) -> list[Row]:
    """The rows of the window through its moments.

    Args:
        window: its index in the trace.
        record: its.
        before: of the window before it, None where its state came from elsewhere.
    """
    made = [] if before is None else _begins(window - 1, fold_of(before))
    fold = fold_of(record)
    if record.headless:
        text = f"{record.T} rows of a prompt"
        wide = {"row": 0, "end": MAX_ROWS, "text": text, "state": TAKEN}
        return [*made, *({"window": window, "line": n, **wide} for n in (1, 2))]
    return [*made, *_of_rows(window, record, fold)]


def _begins(window: int, fold: Fold) -> list[Row]:
    if fold.when != "next run":
        return []
    return [
        _box(window, 0, row, "replay", TAKEN, replayed=True) for row in fold.replayed
    ]


def _of_rows(window: int, record: WindowRecord, fold: Fold) -> Iterator[Row]:
    if fold.sure is not None:
        in_run = ("partial", ROOT) if fold.root else ("in S", TAKEN)
        for row in range(record.T):
            text, state = in_run if row < fold.sure else ("saved", SAVED)
            yield _box(window, 1, row, text, state)
    for row in range(record.T):
        if row >= record.keep:
            yield _box(window, 2, row, "✗", REJECTED)
        elif row not in fold.replayed:
            if fold.sure is not None:
                yield _box(window, 2, row, "in S", TAKEN)
        elif fold.when == "commit":
            yield _box(window, 2, row, "replay", TAKEN, replayed=True)
        elif fold.when == "next run":
            yield _box(window, 2, row, "due", SAVED)
    for row in fold.replayed if fold.when == "next run" else ():
        yield _box(window, 3, row, "replay", TAKEN, replayed=True)


def _box(
    window: int, line: int, row: int, text: str, state: str, *, replayed: bool = False
) -> Row:
    what = {"text": text, "state": state, "replayed": replayed}
    return {"window": window, "line": line, "row": row, "end": row + 1, **what}


def line_of(
    window: int, record: WindowRecord, before: WindowRecord | None
) -> tuple[str | int, ...]:
    """A line of the table, in the order of `HEAD`."""
    fold = fold_of(record)
    return (
        window,
        record.position,
        record.T,
        record.keep,
        mode_of(record),
        begins_with(window, before),
        after_root(record, fold),
        at_commit(fold),
        next_begins(fold),
    )


def mode_of(record: WindowRecord) -> str:
    """Lazy or eager, and whether partial."""
    if record.fold is None:
        return MISSING
    return record.fold + (", partial" if record.partial else "")


def begins_with(window: int, before: WindowRecord | None) -> str:
    """What the run of the window begins with."""
    if before is None:
        return "nothing" if window == 0 else "a state from elsewhere"
    return _replay(fold_of(before).due)


def next_begins(fold: Fold) -> str:
    """What the run of the window after begins with."""
    return _replay(fold.due)


def after_root(record: WindowRecord, fold: Fold) -> str:
    """Whether the state after row 0 is there."""
    if record.headless:
        return "no: a prompt keeps all rows"
    if record.T == 1:
        return "yes: the only row"
    if fold.sure is None:
        return MISSING
    return "yes: partial" if fold.root else "no"


def at_commit(fold: Fold) -> str:
    """What the commit does with the kept rows."""
    if fold.when is None:
        return MISSING
    if fold.when == "never":
        return "nothing to replay"
    verb = "replays" if fold.when == "commit" else "leaves due"
    return (
        f"{verb} {counted(len(fold.replayed), 'row')} from offset {fold.replayed.start}"
    )


def _replay(due: int | None) -> str:
    if due is None:
        return MISSING
    return f"a replay of {counted(due, 'row')}" if due else "nothing"
