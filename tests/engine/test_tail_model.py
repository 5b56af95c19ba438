"""The tail as labels: how often each mend fails, and the worked counterexample."""

import pytest

from strata_nb.gates.tail.model import (
    MENDS,
    Count,
    Mend,
    TailCase,
    cases,
    count,
    fails,
    walk,
    wrong_blocks,
)

WORKED = TailCase(start=5, T=4, keep=1)

FIGURES: dict[Mend, Count] = {
    "ring": Count(2304, 736),
    "contained": Count(320, 0),
    "snapshot and replay": Count(2304, 0),
    "last row's tail": Count(2304, 736),
    "old tail": Count(2304, 1728),
}


@pytest.mark.parametrize("mend", MENDS)
def test_each_mend_fails_as_often_as_published(mend: Mend) -> None:
    assert count(mend) == FIGURES[mend]
    # Where the 64 start cells begin does not matter.
    assert count(mend, of=cases(first=5, mend=mend)) == FIGURES[mend]


def test_the_ring_fails_in_short_windows_too() -> None:
    assert count("ring", of=cases(rows=4)) == Count(640, 64)
    # Two drafts are enough: cells 2 to 4, of which cell 2 is kept.
    assert count("ring", of=cases(rows=3)) == Count(384, 16)
    assert fails(TailCase(start=2, T=3, keep=1), "ring")
    assert count("ring", of=cases(rows=2)) == Count(192, 0)


def test_contained_windows_are_those_that_end_with_their_block() -> None:
    kept = cases(mend="contained")
    assert kept == tuple(c for c in cases() if c.start // 4 == (c.start + c.T - 1) // 4)
    assert all(c.T <= 4 for c in kept)
    assert not any(fails(case, "ring") for case in kept)


def test_the_ring_fails_where_a_rejected_row_takes_a_live_slot() -> None:
    """Said without playing anything: rejected rows reach the block after the open one
    and, in it, a slot below the number of live ones, which its first always is."""
    for case in cases(rows=8):
        live = case.position % 4
        expected = live > 0 and case.T - case.keep > 4 - live
        assert fails(case, "ring") == fails(case, "last row's tail") == expected, case
        assert fails(case, "old tail") == (live > 0), case


@pytest.mark.parametrize("ratio", [1, 2, 3, 8])
def test_other_block_sizes(ratio: int) -> None:
    tried = cases(starts=ratio, ratio=ratio)
    assert len(tried) == 36 * ratio
    assert count("snapshot and replay", of=tried).failures == 0
    contained = cases(starts=ratio, ratio=ratio, mend="contained")
    assert contained
    assert count("contained", of=contained).failures == 0
    # A block of one cell has no open cells, so nothing can take their slots.
    assert (count("ring", of=tried).failures > 0) == (ratio > 1)


def test_only_the_open_block_is_wrong() -> None:
    assert wrong_blocks(WORKED, "ring") == (1,)
    for case in cases(starts=4):
        assert set(wrong_blocks(case, "old tail")) <= {case.position // 4}


def test_the_worked_counterexample_step_by_step() -> None:
    steps = walk(WORKED, "ring")
    assert [(step.what, step.slots) for step in steps] == [
        ("cells 0 to 4 are committed", ("raw4", "raw1", "raw2", "raw3")),
        ("row 0 writes cell 5 to slot 1", ("raw4", "raw5", "raw2", "raw3")),
        (
            "row 1, to be rejected, writes cell 6 to slot 2",
            ("raw4", "raw5", "raw6 rejected", "raw3"),
        ),
        (
            "row 2, to be rejected, writes cell 7 to slot 3; block 1 is pooled, and "
            "will be again",
            ("raw4", "raw5", "raw6 rejected", "raw7 rejected"),
        ),
        (
            "row 3, to be rejected, writes cell 8 to slot 0, over raw4, which the open "
            "block needs",
            ("raw8 rejected", "raw5", "raw6 rejected", "raw7 rejected"),
        ),
        (
            "commit keeps 1 of 4 rows and leaves the slots alone",
            ("raw8 rejected", "raw5", "raw6 rejected", "raw7 rejected"),
        ),
        (
            "the right row of cell 6 is written to slot 2",
            ("raw8 rejected", "raw5", "raw6", "raw7 rejected"),
        ),
        (
            "the right row of cell 7 is written to slot 3; block 1 is pooled wrongly",
            ("raw8 rejected", "raw5", "raw6", "raw7"),
        ),
    ]
    assert [step.pool for step in steps if step.pool] == [
        ("raw4", "raw5", "raw6 rejected", "raw7 rejected"),
        ("raw8 rejected", "raw5", "raw6", "raw7"),
    ]
    assert [step.wrong for step in steps] == [False] * 7 + [True]


@pytest.mark.parametrize(
    ("mend", "slots", "pool"),
    [
        (
            "snapshot and replay",
            ("raw4", "raw5", "raw2", "raw3"),
            ("raw4", "raw5", "raw6", "raw7"),
        ),
        (
            "last row's tail",
            ("raw8 rejected", "raw5", "raw6 rejected", "raw7 rejected"),
            ("raw8 rejected", "raw5", "raw6", "raw7"),
        ),
        (
            "old tail",
            ("raw4", "raw1", "raw2", "raw3"),
            ("raw4", "raw1", "raw6", "raw7"),
        ),
    ],
)
def test_what_a_mend_leaves_after_the_same_window(
    mend: Mend, slots: tuple[str, ...], pool: tuple[str, ...]
) -> None:
    steps = walk(WORKED, mend)
    (commit,) = (step for step in steps if step.what.startswith("commit"))
    assert commit.slots == slots
    after = steps[steps.index(commit) :]
    assert next(step.pool for step in after if step.block == 1) == pool
    assert steps[-1].wrong == (mend != "snapshot and replay")


def test_a_walk_without_a_wrong_block_goes_to_the_end_of_the_next_block() -> None:
    steps = walk(WORKED, "snapshot and replay")
    assert [step.block for step in steps if step.block is not None] == [1, 1, 2]
    assert steps[-1].what.endswith("block 2 is pooled rightly")
    assert not any(step.wrong for step in steps)


def test_a_contained_walk() -> None:
    steps = walk(TailCase(start=0, T=4, keep=4), "contained")
    assert steps[0].what == "row 0 writes cell 0 to slot 0"
    assert steps[3].what.endswith("block 0 is pooled rightly")
    with pytest.raises(ValueError, match=r"start=5, T=4, .*take windows from `cases"):
        walk(WORKED, "contained")
    with pytest.raises(ValueError, match="passes the end of a block"):
        fails(WORKED, "contained")


@pytest.mark.parametrize(
    "args", [(-1, 1, 1, 4), (0, 1, 2, 4), (0, 1, 0, 4), (0, 1, 1, 0)]
)
def test_a_case_that_cannot_be(args: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="wanted start >= 0, 1 <= keep <= T and ratio"):
        TailCase(*args)
