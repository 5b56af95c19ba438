"""One window as a table of its rows, and as words."""

from typing import Final

from strata_nb import WindowRecord
from strata_nb.backend import Text
from strata_widgets import tokens
from strata_widgets.charts import verdicts
from strata_widgets.panel.control import Cell, Table
from strata_widgets.theme import UNCOUNTED, WORDS, Verdict

_IDS: Final = ("row", "input id", "verdict", "kept", "prediction id")
_TEXTS: Final = (
    "row",
    "input",
    "input id",
    "verdict",
    "kept",
    "prediction",
    "prediction id",
)
_MOST: Final = 16
"""A window recorded elsewhere may have any number of rows."""


def table_of(
    window: int, record: WindowRecord, model: Text | None, *, chosen: bool
) -> Table:
    """Return the rows of a window with what became of each.

    Args:
        window: its index in the trace.
        record: the window.
        model: what knows the text of tokens; None: ids alone.
        chosen: whether it is selected, or the newest.
    """
    name = f"Window {window}" if chosen else f"Window {window}, the newest"
    head = _IDS if model is None else _TEXTS
    if record.headless:
        return Table(f"{name}: {record.T} cells of a prompt, no drafts", head, ())
    found = verdicts(
        record.inputs,
        record.predictions,
        accepted=record.accepted,
        offered=record.offered,
    )
    drafter = "" if record.drafter == "none" else f", drafted by {record.drafter}"
    rows = [_line(row, role, record, model) for row, role in enumerate(found[:_MOST])]
    caption = f"{name}: {_counts(record)}{drafter}"
    return Table(caption, head, rows, hidden=max(0, len(found) - _MOST))


def window_words(window: int, record: WindowRecord) -> str:
    """Return a window in one line."""
    if record.headless:
        return f"window {window}: {record.T} cells of a prompt from {record.position}"
    return f"window {window}: cell {record.position}, {_counts(record)}"


def _counts(record: WindowRecord) -> str:
    keep = f"keep {record.keep}" + (" (forced)" if record.forced else "")
    return (
        f"T = {record.T}, {record.accepted} of {record.offered} drafts accepted, {keep}"
    )


def _line(
    row: int, role: Verdict, record: WindowRecord, model: Text | None
) -> list[Cell]:
    word = UNCOUNTED if role == "uncounted" else WORDS[role]
    kept = "yes" if row < record.keep else "no"
    given, made = record.inputs[row], record.predictions[row]
    if model is None:
        return [row, given, word, kept, made]
    chip = tokens.chip(model, given)
    if role != "uncounted":
        chip["role"] = role
    # What the window hands on as the next root.
    bonus = {"role": "bonus"} if row == record.keep - 1 else {}
    after = tokens.chip(model, made) | bonus
    return [row, chip, given, word, kept, after, made]
