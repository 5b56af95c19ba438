"""What a record tells of a fold, against the part that folds."""

import itertools
from typing import Any

import mlx.core as mx
import pytest

from strata_nb.parts import DeltaRows, GdnState
from strata_nb.trace import WindowRecord, window_record
from strata_nb.trace.folds import Fold, fold_of

MODES = list(itertools.product((False, True), (False, True)))


def record(T: int, keep: int, **rest: Any) -> WindowRecord:
    """A window of the greedy rule."""
    given: dict[str, Any] = {"predictions": [1] * T, **rest}
    return window_record(position=0, inputs=[1] * T, keep=keep, **given)


@pytest.mark.parametrize(("lazy", "partial"), MODES)
def test_the_part_folds_as_its_record_says(lazy: bool, partial: bool) -> None:
    part = GdnState(1, 2, 2, lazy=lazy, partial=partial)
    mode = {"fold": "lazy" if lazy else "eager", "partial": partial}
    for T in range(1, 9):
        keys = mx.ones((T, 1, 2)) / 2**0.5
        rows = DeltaRows(keys, keys, mx.ones((T, 1)), mx.ones((T, 1)))
        for head in (True, False):
            _, pending = part.run(part.initial(), keys, rows, head=head)
            for keep in range(1, T + 1) if head else (T,):
                if head:
                    told = fold_of(record(T, keep, **mode))
                else:
                    made = {"predictions": (), "headless": True, **mode}
                    told = fold_of(record(T, T, **made))
                assert told.sure == pending.sure
                assert told.root == (pending.sure == 1 and T > 1)
                after = part.commit(part.initial(), pending, keep=keep)
                due = 0 if after.fold is None else after.fold.k.shape[0]
                assert told.due == due, (T, keep, head)
                assert len(told.replayed) == keep - pending.sure


def test_offsets_are_counted_from_what_is_sure() -> None:
    lazy = {"fold": "lazy", "partial": True}
    assert fold_of(record(4, 3, **lazy)) == Fold(1, True, range(1, 3), "next run")
    assert fold_of(record(4, 1, **lazy)) == Fold(1, True, range(1, 1), "never")
    eager = {"fold": "eager", "partial": False}
    assert fold_of(record(4, 1, **eager)) == Fold(0, False, range(1), "commit")


def test_what_is_not_recorded_is_not_made_up() -> None:
    told = fold_of(record(4, 2))
    assert (told.sure, told.when, told.due) == (None, None, None)
    told = fold_of(record(4, 2, partial=True))
    assert (list(told.replayed), told.when, told.due) == ([1], None, None)
    assert fold_of(record(1, 1)).when == "never"
