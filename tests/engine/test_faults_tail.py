"""The faulty tails, counted over every start, width and keep."""

import itertools
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from helpers import advance, after, prompt
from strata_nb import Model
from strata_nb.engine import Engine
from strata_nb.faults import FAULTS
from strata_nb.parts import QsaTail
from strata_nb.trace import Leaf

RATIO = 4
STARTS = range(13, 77)
"""64 consecutive cells; prompts of more than eight rows, which are never windows."""

FAILURES = {
    "qsa_ring": 736,
    "qsa_last_row_tail": 736,
    "qsa_old_tail": 1728,
    "qsa_kv_length_only": 1344,
}


def cases(starts: range) -> Iterator[tuple[int, int, int]]:
    """Start cell, rows, kept rows."""
    for start, rows in itertools.product(starts, range(1, 9)):
        yield from ((start, rows, keep) for keep in range(1, rows + 1))


def pools_rightly(tail: Any, start: int, rows: int, keep: int) -> bool:
    """Whether the block that a window leaves open is pooled from its own cells.

    A raw key is the number of its cell; that of a rejected row is another number.
    """

    def keys(cells: range) -> mx.array:
        return mx.array(list(cells), dtype=mx.float32).reshape(-1, 1)

    _, pending = tail.run(tail.initial(), keys(range(start)))
    state = tail.commit(tail.initial(), pending, keep=start)
    end = start + keep
    raw = mx.concatenate([keys(range(start, end)), -keys(range(end, start + rows))])
    _, pending = tail.run(state, raw)
    state = tail.commit(state, pending, keep=keep)
    first = end // RATIO * RATIO
    for cell in range(end, first + RATIO if end > first else end):
        blocks, pending = tail.run(state, keys(range(cell, cell + 1)))
        state = tail.commit(state, pending, keep=1)
        if blocks.shape[0]:
            return sorted(blocks[0, :, 0].tolist()) == [*range(first, first + RATIO)]
    return True


def failures(tail: Any, starts: range) -> list[tuple[int, int, int]]:
    return [case for case in cases(starts) if not pools_rightly(tail, *case)]


@pytest.mark.parametrize("name", FAILURES)
def test_the_failures_are_as_many_as_counted(name: str) -> None:
    tail = FAULTS[name].vary(QsaTail(1, RATIO, mx.float32))
    cycle = failures(tail, STARTS[:RATIO])
    # A tail knows its cell modulo R alone, so each cycle repeats the first.
    assert len(cycle) * len(STARTS) // RATIO == FAILURES[name]
    assert failures(tail, STARTS[-1:]) == [
        (STARTS[-1], rows, keep)
        for start, rows, keep in cycle
        if start % RATIO == STARTS[-1] % RATIO
    ]


def test_the_sound_tail_never_fails() -> None:
    assert failures(QsaTail(1, RATIO, mx.float32), STARTS[:RATIO]) == []


def test_the_ring_fails_in_short_windows_too_but_not_inside_a_block() -> None:
    found = failures(FAULTS["qsa_ring"].vary(QsaTail(1, RATIO, mx.float32)), STARTS[:4])
    assert sum(rows <= 4 for _, rows, _ in found) * 16 == 64
    assert all(rows > RATIO - start % RATIO for start, rows, _ in found)


def test_the_ring_and_the_last_row_fail_in_the_same_cases() -> None:
    ring, last = (
        failures(FAULTS[name].vary(QsaTail(1, RATIO, mx.float32)), STARTS[:4])
        for name in ("qsa_ring", "qsa_last_row_tail")
    )
    assert ring == last


def test_the_worked_example() -> None:
    """A rejected cell 8 takes the slot of cell 4."""
    tail: Any = FAULTS["qsa_ring"].vary(QsaTail(1, RATIO, mx.float32))
    _, pending = tail.run(tail.initial(), mx.arange(5.0)[:, None])
    state = tail.commit(tail.initial(), pending, keep=5)
    _, pending = tail.run(state, mx.array([[5.0], [60.0], [70.0], [80.0]]))
    state = tail.commit(state, pending, keep=1)
    blocks, _ = tail.run(state, mx.array([[6.0], [7.0]]))
    assert blocks[0, :, 0].tolist() == [80, 5, 6, 7]


def block_keys(engine: Engine) -> np.ndarray:
    return engine.leaves()[Leaf("qsa_blocks", 1, "keys")]


# The last row's tail is the ring under another name: the test above says so.
@pytest.mark.parametrize("name", [n for n in FAILURES if n != "qsa_last_row_tail"])
def test_the_engine_fails_in_the_same_cases(small: Model, name: str) -> None:
    """The block that a window leaves open, completed one row at a time."""
    part = FAULTS[name].vary(QsaTail(1, RATIO, mx.float32))
    starts = range(13, 17)
    want, got = failures(part, starts), []
    for start in starts:
        ids = prompt(small, start + 12, seed=start)
        wrong = [(t + 1) % small.config.vocab_size for t in ids]
        right = block_keys(after(small, ids))
        faulty = after(small, ids[:start], fault=name)
        for _, rows, keep in cases(range(start, start + 1)):
            engine, end = faulty.fork(), start + keep
            advance(engine, [*ids[start:end], *wrong[end : start + rows]], keep=keep)
            while engine.position % RATIO:
                advance(engine, [ids[engine.position]])
            keys = block_keys(engine)
            if not np.array_equal(keys, right[: len(keys)]):
                got.append((start, rows, keep))
    assert got == want
