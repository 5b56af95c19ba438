"""Moments of the tail as rows of its charts and lines of its tables."""

from collections.abc import Sequence
from typing import Final

from strata_nb.gates.tail.live import Held
from strata_nb.gates.tail.moments import Lies, Moment, Pooled, Slot
from strata_widgets.drawing import Row
from strata_widgets.panel.control import Table
from strata_widgets.qsa_tail.drawings import LINES
from strata_widgets.state_charts import STATES
from strata_widgets.state_drawings import State

_STATE: Final[dict[Lies, State]] = {
    "empty": "free",
    "over": "free",
    "committed": "committed",
    "pending": "drafted",
    "rejected": "rejected",
    "misplaced": "rejected",
}
_MARK: Final[dict[Lies, str]] = {"rejected": " ✗", "misplaced": " !"}
_WORDS: Final[dict[Lies, str]] = {
    "empty": "nothing was written",
    "over": "of a block that is complete",
    "committed": "committed",
    "pending": "row of the open window",
    "rejected": "left by a rejected row",
    "misplaced": "not the key that belongs here",
}

NONE: Final[tuple[None, Lies]] = (None, "empty")


def slot_rows(found: Sequence[Moment], *, keep: int) -> list[Row]:
    """One row a moment, with an array entry for each slot."""
    return [
        {
            "at": at,
            "name": "right" if m.name == "right row" else m.name,
            "under": _under(m, keep),
            "pooled": m.pooled is not None,
            **_keys([(s.cell, s.lies) for s in m.slots]),
        }
        for at, m in enumerate(found)
    ]


def block_rows(found: Sequence[Moment]) -> list[Row]:
    """One row a moment and block that the window can touch."""
    ratio = len(found[0].slots)
    first = max(0, found[0].position // ratio - 1)
    made: list[Row] = []
    for at, moment in enumerate(found):
        shown = [b for b in moment.blocks if first <= b.block < first + LINES]
        for block in shown:
            made.append(_block_row(at, first, block))
        opened = moment.position // ratio
        if opened not in [b.block for b in shown]:
            made.append(_open_row(at, first, opened, moment))
    return made


def slot_table(moment: Moment) -> Table:
    """Whose key lies in which slot."""
    return Table(
        "Slots at this moment",
        ("slot", "cell", "how it lies there", "counts"),
        [
            (
                index,
                "none" if slot.cell is None else slot.cell,
                _WORDS[slot.lies],
                _counts(slot),
            )
            for index, slot in enumerate(moment.slots)
        ],
    )


def block_table(moment: Moment) -> Table:
    """What each complete block pools; the last blocks alone."""
    shown = moment.blocks[-LINES:]
    return Table(
        "Pooled keys at this moment",
        ("block", "pools", "is it right"),
        [
            (b.block, ", ".join(key or "nothing" for key in b.pool), _verdict(b))
            for b in shown
        ],
        hidden=shown[0].block if shown else 0,
    )


def held_table(held: Sequence[Held], *, layer: int, caption: str) -> Table:
    """The engine against the labels, in one layer."""
    return Table(
        caption,
        ("part", "layer", "wrong by the labels", "different in the engine", "verdict"),
        [
            (
                one.what,
                one.layer,
                _listed(one.claimed),
                _listed(one.found),
                "equal" if one.equal else "NOT EQUAL" if one.judged else "not judged",
            )
            for one in held
            if one.layer == layer
        ],
    )


def _listed(indices: Sequence[int]) -> str:
    """Indices in words; the last eight of many."""
    shown = ", ".join(str(i) for i in indices[-8:])
    return f"… {shown}" if len(indices) > 8 else shown or "none"


def _under(moment: Moment, keep: int) -> str:
    if moment.name == "commit":
        return f"keep {keep}"
    return "" if moment.cell is None else str(moment.cell)


def _keys(keys: Sequence[tuple[int | None, Lies]]) -> Row:
    return {
        "slot": list(range(len(keys))),
        "text": ["" if c is None else f"{c}{_MARK.get(lies, '')}" for c, lies in keys],
        "state": [STATES[_STATE[lies]] for _, lies in keys],
        "cell": [-1 if cell is None else cell for cell, _ in keys],
    }


def _block_row(at: int, first: int, block: Pooled) -> Row:
    return {
        "at": at,
        "line": block.block - first,
        "block": block.block,
        "verdict": _verdict(block),
        **_keys(list(zip(block.cells, block.lies, strict=True))),
    }


def _open_row(at: int, first: int, opened: int, moment: Moment) -> Row:
    done = moment.position % len(moment.slots)
    live: list[tuple[int | None, Lies]] = [
        (slot.cell, slot.lies) if index < done or _of(slot, opened, moment) else NONE
        for index, slot in enumerate(moment.slots)
    ]
    return {
        "at": at,
        "line": opened - first,
        "block": opened,
        "verdict": f"open: {done} of {len(live)} cells committed",
        **_keys(live),
    }


def _of(slot: Slot, opened: int, moment: Moment) -> bool:
    """Whether a row of the open window has written a cell of that block here."""
    if slot.cell is None or slot.lies != "pending":
        return False
    return slot.cell // len(moment.slots) == opened


def _verdict(block: Pooled) -> str:
    if block.pending:
        return "pooled by the open window, not committed"
    return "WRONG" if block.wrong else "right"


def _counts(slot: Slot) -> str:
    if not slot.counts:
        return "no"
    return "yes, right" if slot.right else "yes, WRONG"
