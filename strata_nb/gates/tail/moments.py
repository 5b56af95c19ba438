"""One window, moment by moment: whose key lies in each slot, what each block pools."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from strata_nb.gates.tail.labels import (
    FAULT_OF,
    REMEMBERED,
    Key,
    Keys,
    Mend,
    Tail,
    differs,
    raw,
    true,
)
from strata_nb.gates.tail.model import Step, TailCase, played

SOUND: Final = "snapshot and replay"
BEHAVIOURS: Mapping[str, Mend] = MappingProxyType(
    {
        fault or SOUND: mend
        for mend, fault in FAULT_OF.items()
        if mend != "contained"  # a rule of windows, not of what a commit does
    }
)
"""What the tail does: rightly, or by a fault's name; and the mend that it is here."""

Lies: TypeAlias = Literal[
    "empty", "over", "committed", "pending", "rejected", "misplaced"
]
"""A key in a slot.

empty: nothing was written.
over: a cell's whose block is complete; it does not count any more.
committed: of a committed cell of the open block, where it belongs.
pending: of a row of the open window.
rejected: of a row that was rejected.
misplaced: in a slot that counts, and not the key that belongs there.
"""


@dataclass(frozen=True)
class Slot:
    """What lies in a slot.

    Attributes:
        key: as the model of labels has it.
        cell: that wrote it, None where nothing was written.
        lies: how it lies there.
        counts: the slot is one of the open block's committed cells.
        right: it counts and holds the right key.
    """

    key: Key
    cell: int | None
    lies: Lies
    counts: bool
    right: bool


@dataclass(frozen=True)
class Pooled:
    """A block that has a pooled key.

    Attributes:
        block: its index.
        pool: the keys that went into it.
        lies: how each of them lies there.
        wrong: all its cells are committed and these are not its keys.
        pending: the open window has completed it, nothing is committed.
    """

    block: int
    pool: Keys
    lies: tuple[Lies, ...]
    wrong: bool
    pending: bool

    @property
    def cells(self) -> tuple[int | None, ...]:
        """The cells whose keys they are."""
        return tuple(_cell(key) for key in self.pool)


@dataclass(frozen=True)
class Moment:
    """The slots and the pooled keys at one moment.

    Attributes:
        name: "before", "row 3", "commit", "right row".
        cell: that was written, None if none was.
        what: that happened, in words.
        position: committed cells.
        slots: R of them.
        blocks: the last of those that have a pooled key, in order.
        pooled: the block that was pooled just now.
    """

    name: str
    cell: int | None
    what: str
    position: int
    slots: tuple[Slot, ...]
    blocks: tuple[Pooled, ...]
    pooled: int | None


def moments(case: TailCase, mend: Mend, *, tail: Tail | None = None) -> list[Moment]:
    """A window from before it to where its open block is complete and pooled.

    Args:
        case: the window.
        mend: what a commit does.
        tail: what was written before the window, under the same mend; the right keys
            when not given.

    Raises:
        ValueError: the tail has another mend, or its windows are contained and this
            one is not.
    """
    now = Tail(case.ratio, mend) if tail is None else tail.copy()
    if now.mend != mend:
        raise ValueError(
            f"`mend` is {mend!r} and that of `tail` is {now.mend!r}; give `tail.mend`"
        )
    last = (case.position // case.ratio + 1) * case.ratio - 1
    steps = played(now, case, fresh=tail is None)
    if not case.start:
        found = [_moment(now, case, Step("nothing is committed", tuple(now.slots)))]
    else:
        found = [_moment(now, case, next(steps))]
    for step in steps:
        found.append(_moment(now, case, step))
        if step.kind == "right" and step.cell == last:
            break
    return found


def wrong_pools(found: Sequence[Moment]) -> str:
    """Which pooled keys are wrong at the last of the moments, in words."""
    wrong = [block for block in found[-1].blocks if block.wrong]
    if not wrong:
        return "every pooled key is right"
    ratio = len(found[-1].slots)
    return "; ".join(
        f"block {b.block} pools [{', '.join(key or 'nothing' for key in b.pool)}], "
        f"wanted [{', '.join(key or '' for key in true(b.block, ratio))}]"
        for b in wrong
    )


def slots_of(
    tail: Tail, position: int, *, window: range = range(0), full: bool = False
) -> tuple[Slot, ...]:
    """What lies in each slot.

    Args:
        tail: the slots.
        position: committed cells.
        window: cells of the open window that have been written.
        full: the last committed cell ends its block, and all of its slots still count.
    """
    ratio = len(tail.slots)
    opened, live = position // ratio * ratio, position % ratio
    if full:
        opened, live = position - ratio, ratio
    found = []
    for index, key in enumerate(tail.slots):
        counts = index < live
        right = counts and key == raw(opened + index)
        lies = _lies(key, opened, right=right, counts=counts, window=window)
        found.append(Slot(key, _cell(key), lies, counts, right))
    return tuple(found)


def _moment(tail: Tail, case: TailCase, step: Step) -> Moment:
    name, position, window = step.kind.replace("right", "right row"), case.start, None
    if step.kind == "row" and step.cell is not None:
        name = f"row {step.cell - case.start}"
        window = range(case.start, step.cell + 1)
    elif step.kind == "commit":
        position = case.position
    elif step.kind == "right" and step.cell is not None:
        position = step.cell + 1
    full = step.kind == "right" and step.block is not None
    return Moment(
        name,
        step.cell,
        step.what,
        position,
        slots_of(tail, position, window=window or range(0), full=full),
        _blocks(tail, position, pending=window is not None),
        step.block,
    )


def _lies(key: Key, opened: int, *, right: bool, counts: bool, window: range) -> Lies:
    cell = _cell(key)
    if key is None or cell is None:
        return "misplaced" if counts else "empty"
    if cell in window:
        return "pending"
    if key != raw(cell):
        return "rejected"
    if right:
        return "committed"
    if counts and not window:
        return "misplaced"
    return "over" if cell < opened else "committed"


def _blocks(tail: Tail, position: int, *, pending: bool) -> tuple[Pooled, ...]:
    ratio = len(tail.slots)
    complete = position // ratio
    # Keys of rejected rows that were appended are not the text's, unless it gets there.
    shown = len(tail.pools) if pending else complete
    return tuple(
        _block(block, tail.pools[block], position if block >= complete else None)
        for block in range(max(0, shown - REMEMBERED), shown)
        if tail.pools[block]
    )


# A block stays as it is through most moments of a window.
@functools.lru_cache(maxsize=256)
def _block(block: int, pool: Keys, window: int | None) -> Pooled:
    """What a block pools; `window` is the open window's first cell, if that did it."""
    wrong = window is None and differs(pool, block)
    right = true(block, len(pool)) if wrong or window is not None else pool
    lies = tuple(
        _pooled_key(key, want, window) for key, want in zip(pool, right, strict=True)
    )
    return Pooled(block, pool, lies, wrong, window is not None)


def _pooled_key(key: Key, want: Key, window: int | None) -> Lies:
    cell = _cell(key)
    if cell is not None and window is not None and cell >= window:
        return "pending"
    if key == want:
        return "committed"
    rejected = cell is not None and key != raw(cell)
    return "rejected" if rejected else "misplaced"


def _cell(key: Key) -> int | None:
    return None if key is None else int(key.removeprefix("raw").split()[0])
