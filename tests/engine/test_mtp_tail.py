"""The open block of the draft head's index: 736 of 2,304 by the ring, none by its own.

The head's own parts, as an engine has them, take in keys that name their cell. The
head lags a cell behind: of a text of n cells it holds n - 1, so its blocks end a cell
later than the model's.
"""

from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from heads import write_with_head
from strata_nb import Model, load
from strata_nb.gates.tail.model import TailCase, cases, wrong_blocks
from strata_nb.parts import PendingBehind
from tiny import small_config

RATIO = 4
STARTS = cases(first=8)
"""Windows at 64 cells in a row, T = 1 .. 8, keep = 1 .. T."""


@pytest.fixture(scope="module")
def headed(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(write_with_head(tmp_path_factory.mktemp("head"), small_config(), 2))


class HeadIndex:
    """Tail and block keys of an engine's draft head, without its arithmetic."""

    def __init__(self, model: Model, fault: str | None = None) -> None:
        backend: Any = model.engine(mtp=True, fold="eager", fault=fault).backend
        _, _, self.blocks, self.tail = backend.draft_head.parts
        assert self.tail.name == "mtp_qsa_tail"
        self.width = self.tail.inner.shapes(RATIO - 1)["rows"][1]
        # By number of cells of the text; a window never changes a state.
        self.before = cache(self._before)

    def _before(self, cells: int) -> tuple[Any, Any]:
        """The state after a text of so many cells, row by row."""
        if cells == 0:
            return self.blocks.initial(), self.tail.initial()
        return self.window(self.before(cells - 1), cells - 1, [cells - 1], 1)

    def window(
        self, state: tuple[Any, Any], start: int, rows: list[int], keep: int
    ) -> tuple[Any, Any]:
        """Run `rows` at cell `start` of the text, and keep the first of them.

        Each row brings the pair of the cell before; the text's first brings none.
        """
        fewer = 1 if start == 0 else 0
        first, pairs = max(0, start - 1), rows[fewer:]
        if not pairs:
            nothing = PendingBehind(None, fewer)
            return (
                self.blocks.commit(state[0], nothing, keep=keep),
                self.tail.commit(state[1], nothing, keep=keep),
            )
        raw = mx.array([[float(key)] * self.width for key in pairs])
        grouped, tail = self.tail.inner.run(state[1], raw)
        # The plain mean: what the layer makes of it is the same for right and wrong.
        _, blocks = self.blocks.inner.run(state[0], grouped.mean(axis=1), start=first)
        return (
            self.blocks.commit(state[0], PendingBehind(blocks, fewer), keep=keep),
            self.tail.commit(state[1], PendingBehind(tail, fewer), keep=keep),
        )

    def wrong(self, case: TailCase) -> tuple[int, ...]:
        """Blocks with a wrong key once right rows have followed to the window's end."""
        state, end = self.before(case.start), case.start + case.T
        # A row at cell c brings the key of c - 1; one to be rejected brings another.
        rows = [c if c < case.position else -1000 - c for c in range(case.start, end)]
        state = self.window(state, case.start, rows, case.keep)
        for cell in range(case.position, end):
            state = self.window(state, cell, [cell], 1)
        keys = np.array(self.blocks.leaves(state[0])["keys"], np.float64)
        true = np.arange(1, 1 + len(keys) * RATIO).reshape(-1, RATIO).mean(axis=1)
        assert len(keys) == (end - 1) // RATIO
        return tuple(np.flatnonzero((keys != true[:, None]).any(axis=1)).tolist())


def of_head(case: TailCase) -> TailCase:
    """The same window in the head's own cells."""
    return TailCase(case.start - 1, case.T, case.keep)


def test_the_ring_fails_in_736_of_2304_and_the_sound_tail_in_none(
    headed: Model,
) -> None:
    ring, sound = HeadIndex(headed, "mtp_ring"), HeadIndex(headed)
    found = {case: ring.wrong(case) for case in STARTS}
    assert len(found) == 2304
    assert sum(map(bool, found.values())) == 736
    assert sum(bool(found[c]) for c in STARTS if c.T <= 4) == 64
    # Not only as many as labels say, but those, and in the same blocks.
    for case, wrong in found.items():
        assert wrong == wrong_blocks(of_head(case), "ring"), case
    assert not any(sound.wrong(case) for case in STARTS)


def test_a_text_that_begins_with_the_window(headed: Model) -> None:
    """Its first row brings no pair, and the counts are the same."""
    of = cases(starts=4)
    ring, sound = HeadIndex(headed, "mtp_ring"), HeadIndex(headed)
    assert sum(bool(ring.wrong(case)) for case in of) == 736 * 4 // 64
    assert not any(sound.wrong(case) for case in of)
    assert ring.wrong(TailCase(0, 8, 4)) == (0,)


def test_windows_that_end_with_a_block_pass(headed: Model) -> None:
    """By the model's blocks, which the head's are not, and by the head's own."""
    ring = HeadIndex(headed, "mtp_ring")
    by_model = [case for case in STARTS if case.contained]
    by_head = [case for case in STARTS if of_head(case).contained]
    assert len(by_model) == len(by_head) == 320
    assert not any(ring.wrong(case) for case in (*by_model, *by_head))
    # The two are not the same windows: some by the model's pass the end of the head's.
    assert len({*by_model} - {*by_head}) == 144
    # A row wider than either, and the ring fails.
    wider = {TailCase(c.start, c.T + 1, c.keep) for c in by_head if c.T < 8}
    assert any(ring.wrong(case) for case in wider - {*by_head})


def test_the_worked_counterexample_lies_a_cell_later(headed: Model) -> None:
    ring = HeadIndex(headed, "mtp_ring")
    assert ring.wrong(TailCase(6, 4, 1)) == (1,)
    assert ring.wrong(TailCase(5, 4, 1)) == ()
