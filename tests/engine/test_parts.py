"""The parts by themselves: cells, blocks, tails and histories at every border."""

import itertools

import mlx.core as mx
import numpy as np
import pytest

from strata_nb.parts import Cells, PleTokens, QsaBlocks, QsaTail, RowHistory
from strata_nb.parts.cells import take


def rows(count: int, *, first: int = 0, width: int = 2) -> tuple[mx.array, mx.array]:
    """Two components whose rows tell their absolute cell."""
    cells = mx.arange(first, first + count)
    values = mx.broadcast_to(cells[:, None], (count, width)).astype(mx.float32)
    return values, values[:, :1] * 10


@pytest.mark.parametrize("page", [4, 6])
def test_cells_hold_their_rows_in_order_however_they_came(page: int) -> None:
    for pieces in itertools.product([1, 3, 4, 9], repeat=3):
        cells = Cells.empty(rows(1), page_rows=page)
        for count in pieces:
            cells = cells.append(rows(count, first=cells.n))
            assert cells.sealed_rows % page == 0
            assert cells.page[0].shape[0] < page
        assert cells.n == sum(pieces)
        for got, want in zip(cells.rows(), rows(cells.n), strict=True):
            assert mx.array_equal(got, want)


def test_appending_leaves_the_old_value_alone() -> None:
    old = Cells.of(rows(7), page_rows=4)
    before = [np.array(a) for a in (*old.sealed, *old.page)]
    one, other = old.append(rows(3, first=70)), old.append(rows(3, first=90))
    assert one.rows()[0][7:, 0].tolist() == [70, 71, 72]
    assert other.rows()[0][7:, 0].tolist() == [90, 91, 92]
    for array, copy in zip((*old.sealed, *old.page), before, strict=True):
        assert np.array_equal(np.array(array), copy)


@pytest.mark.parametrize("committed", [0, 3, 4, 8, 11])
def test_take_reads_sealed_open_and_window_cells(committed: int) -> None:
    cells = Cells.of(rows(committed), page_rows=4)
    window = rows(3, first=committed)
    index = mx.array([[0, committed + 2], [committed, committed + 1]])
    first, second = take(cells, window, index)
    assert first[..., 0].tolist() == index.tolist()
    assert second[..., 0].tolist() == (index * 10).tolist()


@pytest.mark.parametrize("ratio", [2, 3, 4])
def test_blocks_and_tail_follow_the_kept_rows(ratio: int) -> None:
    blocks = QsaBlocks(2, ratio, mx.float32, page_rows=4)
    tail = QsaTail(2, ratio, mx.float32)
    for start, width in itertools.product(range(9), range(1, 9)):
        text, _ = rows(start + width)
        open_block = text[start // ratio * ratio : start]
        done, _ = rows(start // ratio)
        old = Cells.of((done,), page_rows=4) if len(done) else blocks.initial()
        grouped, pending_tail = tail.run(open_block, text[start:])
        assert grouped.shape[0] == (start + width) // ratio - start // ratio
        keys = grouped.max(axis=1)  # the last cell of each block stands for its key
        _, pending_blocks = blocks.run(old, keys, start=start)
        for keep in range(1, width + 1):
            n = start + keep
            kept_tail = tail.commit(open_block, pending_tail, keep=keep)
            assert mx.array_equal(kept_tail, text[n // ratio * ratio : n])
            kept = blocks.commit(old, pending_blocks, keep=keep)
            assert kept.n == n // ratio
            new = kept.rows()[0][start // ratio :, 0].tolist()
            ends = range(start // ratio, n // ratio)
            assert new == [(b + 1) * ratio - 1 for b in ends]


def test_histories_shift_in_the_kept_rows() -> None:
    part = RowHistory("gdn_conv", 3, 2, mx.float32)
    state = part.initial()
    _, pending = part.run(state, rows(4, first=1)[0])
    for keep, want in ((1, [0, 0, 1]), (2, [0, 1, 2]), (4, [2, 3, 4])):
        assert part.commit(state, pending, keep=keep)[:, 0].tolist() == want


def test_token_histories_of_unigrams_are_empty() -> None:
    part = PleTokens(0, eos=9, vocabulary=10)
    context, pending = part.run(part.initial(), [1, 2])
    assert context == ()
    assert part.commit((), pending, keep=1) == ()


@pytest.mark.parametrize("n", [0, 1, 3, 4, 9])
def test_shapes_say_what_leaves_are(n: int) -> None:
    tail = QsaTail(2, 4, mx.float32)
    assert tail.shapes(n) == {"rows": (n % 4, 2)}
    assert tail.restore({"rows": mx.zeros((n % 4, 2))}).shape == (n % 4, 2)
    blocks = QsaBlocks(2, 4, mx.float32, page_rows=4)
    restored = blocks.restore({"keys": mx.zeros((n // 4, 2))})
    assert {k: v.shape for k, v in blocks.leaves(restored).items()} == blocks.shapes(n)


def test_a_digest_tells_values_and_shapes_apart() -> None:
    part = RowHistory("gdn_conv", 3, 2, mx.float32)
    zero = part.initial()
    assert part.digest(zero) == part.digest(mx.zeros((3, 2)))
    assert part.digest(zero) != part.digest(mx.zeros((2, 3)))
    assert part.digest(zero) != part.digest(zero + 1e-30)
