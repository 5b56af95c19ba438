"""The open block's raw keys as labels in R slots: what rejected rows do to a pool."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from strata_nb.gates.tail.labels import MENDS, Keys, Mend, Tail, raw
from strata_nb.refusals import MAX_ROWS

__all__ = [
    "MENDS",
    "ROWS",
    "STARTS",
    "Count",
    "Mend",
    "Step",
    "TailCase",
    "cases",
    "count",
    "fails",
    "played",
    "walk",
    "wrong_blocks",
]

STARTS = 64
ROWS = MAX_ROWS


@dataclass(frozen=True)
class TailCase:
    """One window: where it starts, its rows, and how many of them stay.

    Attributes:
        start: cell of row 0; the cells before it are committed.
        T: rows.
        keep: rows kept, 1 to T.
        ratio: cells a block, R; also the slots.
    """

    start: int
    T: int
    keep: int
    ratio: int = 4

    def __post_init__(self) -> None:
        if self.start < 0 or not 1 <= self.keep <= self.T or self.ratio < 1:
            raise ValueError(
                f"got {self}, wanted start >= 0, 1 <= keep <= T and ratio >= 1"
            )

    @property
    def position(self) -> int:
        """Committed cells after the window."""
        return self.start + self.keep

    @property
    def end(self) -> int:
        """Cells when the open block and the one after it are complete."""
        return (self.position // self.ratio + 2) * self.ratio

    @property
    def contained(self) -> bool:
        """Whether no row lies past the block in which the window starts."""
        room = self.ratio - self.start % self.ratio
        return room >= self.T


@dataclass(frozen=True)
class Step:
    """One thing that happened to the slots.

    Attributes:
        what: it, in words.
        slots: the keys afterwards, R of them.
        block: the block that was pooled, None if none was.
        pool: the keys that went into its pooled key, None if none was.
        wrong: whether that block is complete and its pool is not the true one.
        kind: "before" the window, a "row" of it, its "commit", or a "right" row after.
        cell: the cell that was written, None if none was.
    """

    what: str
    slots: Keys
    block: int | None = None
    pool: Keys | None = None
    wrong: bool = False
    kind: Literal["before", "row", "commit", "right"] = "before"
    cell: int | None = None


@dataclass(frozen=True)
class Count:
    """How often a mend fails.

    Attributes:
        cases: windows tried.
        failures: those after which a pooled key is wrong.
    """

    cases: int
    failures: int


def cases(
    *,
    first: int = 0,
    starts: int = STARTS,
    rows: int = ROWS,
    ratio: int = 4,
    mend: Mend = "ring",
) -> tuple[TailCase, ...]:
    """Every window of 1 to `rows` rows, at `starts` cells in a row, with every keep.

    Args:
        first: the first start cell; any gives the same counts where `starts` is a
            multiple of `ratio`.
        starts: consecutive start cells.
        rows: most rows of a window.
        ratio: cells a block.
        mend: "contained" leaves out the windows that it would not run.
    """
    every = (
        TailCase(start, T, keep, ratio)
        for start in range(first, first + starts)
        for T in range(1, rows + 1)
        for keep in range(1, T + 1)
    )
    return tuple(case for case in every if mend != "contained" or case.contained)


def wrong_blocks(case: TailCase, mend: Mend) -> tuple[int, ...]:
    """Complete blocks whose pool is not the true one, once right rows have followed.

    Raises:
        ValueError: `mend` is "contained" and the window is not.
    """
    tail = Tail(case.ratio, mend)
    for _ in played(tail, case):
        pass
    return tuple(b for b in range(case.end // case.ratio) if tail.wrong(b))


def fails(case: TailCase, mend: Mend) -> bool:
    """Whether any pooled block differs from the true one.

    Raises:
        ValueError: `mend` is "contained" and the window is not.
    """
    return bool(wrong_blocks(case, mend))


def count(mend: Mend, *, of: Iterable[TailCase] | None = None) -> Count:
    """How many cases fail under `mend`: of all 64 starts and 8 rows, or `of` those."""
    tried = cases(mend=mend) if of is None else tuple(of)
    return Count(len(tried), sum(fails(case, mend) for case in tried))


def walk(case: TailCase, mend: Mend) -> list[Step]:
    """What happens to the slots, one thing after another.

    It ends where a wrong block is pooled, or else where the open block and the one
    after it are complete.

    Raises:
        ValueError: `mend` is "contained" and the window is not.
    """
    steps: list[Step] = []
    for step in played(Tail(case.ratio, mend), case):
        steps.append(step)
        if step.wrong:
            break
    return steps


def played(tail: Tail, case: TailCase, *, fresh: bool = True) -> Iterator[Step]:
    """Committed cells, the window, its commit, and the right rows that follow.

    Args:
        tail: changes as the steps are asked for.
        case: the window.
        fresh: nothing was written yet: the cells before the window are, first.

    Raises:
        ValueError: the tail's windows are contained and this one is not.
    """
    if tail.mend == "contained" and not case.contained:
        raise ValueError(
            f"{case} passes the end of a block, wanted T <= ratio - start % ratio; "
            'take windows from `cases(mend="contained")`'
        )
    for cell in range(case.start if fresh else 0):
        tail.write(cell, raw(cell))
    if case.start:
        yield Step(f"cells 0 to {case.start - 1} are committed", tuple(tail.slots))
    before = tuple(tail.slots)
    for row in range(case.T):
        yield _row(tail, case, row)
    tail.commit(before, case.start, case.T, case.keep)
    what = _COMMIT[tail.mend].format(keep=case.keep, T=case.T)
    yield Step(what, tuple(tail.slots), kind="commit")
    for cell in range(case.position, case.end):
        yield _right_row(tail, cell)


_COMMIT: dict[Mend, str] = {
    "ring": "commit keeps {keep} of {T} rows and leaves the slots alone",
    "contained": "commit keeps {keep} of {T} rows and leaves the slots alone",
    "snapshot and replay": "commit puts back the slots from before the window and "
    "writes the {keep} kept of {T} rows again",
    "last row's tail": "commit keeps {keep} of {T} rows and takes the slots of the "
    "last row",
    "old tail": "commit keeps {keep} of {T} rows and puts back the slots from before "
    "the window",
    "K and V shrunk": "commit keeps {keep} of {T} rows, leaves the slots alone and "
    "goes on at the slot after the last row",
    "all blocks appended": "commit keeps {keep} of {T} rows, puts the slots right and "
    "appends the keys of all blocks that were pooled",
    "first block keys": "commit keeps {keep} of {T} rows, puts the slots right and "
    "leaves the keys of blocks that were pooled",
}


def _row(tail: Tail, case: TailCase, row: int) -> Step:
    """One row of the window, kept or not, writes its key."""
    cell = case.start + row
    slot, kept = tail.slot(cell), row < case.keep
    old = tail.slots[slot]
    block = tail.write(cell, raw(cell, kept=kept))
    what = f"row {row} writes cell {cell} to slot {slot}"
    if not kept:
        what = f"row {row}, to be rejected, writes cell {cell} to slot {slot}"
    if not kept and old in _live(case):
        what += f", over {old}, which the open block needs"
    if block is None:
        return Step(what, tuple(tail.slots), kind="row", cell=cell)
    if not kept:
        again = _POOLED_BY_REJECTED.get(tail.mend, "and will be again")
        what = f"{what}; block {block} is pooled, {again}"
        return _pooled(tail, what, block, kind="row", cell=cell)
    return _completed(tail, what, block, kind="row", cell=cell)


_POOLED_BY_REJECTED: dict[Mend, str] = {
    "first block keys": "and will not be again",
    "all blocks appended": "and its key will stay",
}


def _right_row(tail: Tail, cell: int) -> Step:
    """One of the rows that follow the window writes its key."""
    what = f"the right row of cell {cell} is written to slot {tail.slot(cell)}"
    block = tail.write(cell, raw(cell))
    if block is None:
        return Step(what, tuple(tail.slots), kind="right", cell=cell)
    return _completed(tail, what, block, kind="right", cell=cell)


def _completed(tail: Tail, what: str, block: int, **rest: Any) -> Step:
    """A block whose cells all stay is pooled."""
    wrong = tail.wrong(block)
    word = "wrongly" if wrong else "rightly"
    return _pooled(
        tail, f"{what}; block {block} is pooled {word}", block, wrong=wrong, **rest
    )


def _pooled(
    tail: Tail, what: str, block: int, *, wrong: bool = False, **rest: Any
) -> Step:
    return Step(what, tuple(tail.slots), block, tail.pools[block], wrong, **rest)


def _live(case: TailCase) -> Sequence[str]:
    """Keys of the block that is open after the commit."""
    opened = case.position // case.ratio * case.ratio
    return [raw(cell) for cell in range(opened, case.position)]
