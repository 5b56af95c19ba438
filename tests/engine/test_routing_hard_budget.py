"""A hard budget: drafts read nothing beyond what the root reads."""

import mlx.core as mx
import numpy as np
import pytest

from routed import ROWS, cold_by_rows, ids, logits_of
from strata_nb.policies.hard_budget import HardBudget
from strata_nb.policies.routing import NATURAL


def test_drafts_choose_among_anchors_and_ready_experts() -> None:
    """By hand: the root takes 0 and 1; 5 is ready; drafts choose among 0, 1 and 5."""
    found = ids(HardBudget(), logits_of(ROWS), top_k=2, resident=(5,))
    assert found == [[0, 1], [0, 1], [1, 0], [5, 1]]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("anchors", [None, 0, 2, 4])
@pytest.mark.parametrize("ready", [0, 1, 3, 8, 32])
def test_drafts_read_nothing_that_the_root_does_not(
    seed: int, anchors: int | None, ready: int
) -> None:
    rng = np.random.default_rng(seed)
    logits = mx.array(100 * rng.standard_normal((8, 32)))
    resident = rng.permutation(32)[:ready].tolist()
    found = ids(HardBudget(anchors), logits, top_k=4, resident=resident)
    assert found[:1] == ids(NATURAL, logits[:1], top_k=4)
    assert cold_by_rows(found[1:], [*resident, *found[0]]) == 0
    assert cold_by_rows(found[1:], resident) <= (
        4 if anchors is None else max(anchors, 4 - ready)
    )
    assert all(len(set(row)) == 4 for row in found)


def test_too_few_are_filled_up_by_the_rank_of_the_root() -> None:
    """The root takes 0, then 1; without anchors drafts get what they need of these."""
    rows, none = logits_of(ROWS), HardBudget(0)
    found = ids(none, rows, top_k=2, resident=())
    assert found == [[0, 1], [0, 1], [1, 0], [1, 0]]
    found = ids(none, rows, top_k=2, resident=(5,))
    assert found == [[0, 1], [0, 5], [0, 5], [5, 0]]
    found = ids(none, rows, top_k=2, resident=(3, 5))
    assert found == [[0, 1], [3, 5], [3, 5], [5, 3]]


@pytest.mark.parametrize(
    ("anchors", "root", "resident", "wanted"),
    [
        (1, (2, 0, 1), (5,), [0, 2, 5]),
        (1, (2, 0, 1), (4, 5), [2, 4, 5]),
        (0, (4, 1), (4,), [1, 4]),
        (2, (4, 1, 3), (), [1, 3, 4]),
        (None, (4, 1), (0, 2), [0, 1, 2, 4]),
    ],
)
def test_what_drafts_may_use(
    anchors: int | None,
    root: tuple[int, ...],
    resident: tuple[int, ...],
    wanted: list[int],
) -> None:
    """A ready expert of the root counts once."""
    ready = np.isin(np.arange(6), resident)
    ready.setflags(write=False)
    found = HardBudget(anchors).eligible(np.array(root), ready)
    assert np.flatnonzero(found).tolist() == wanted


def test_the_lowest_of_equals_wins() -> None:
    found = ids(HardBudget(), mx.zeros((2, 8)), top_k=2, resident=(5, 6, 7))
    assert found == [[0, 1], [0, 1]]
    found = ids(HardBudget(0), mx.zeros((2, 8)), top_k=2, resident=(5, 6, 7))
    assert found == [[0, 1], [5, 6]]


def test_elsewhere_it_is_the_natural_choice() -> None:
    logits = mx.random.normal((8, 32), key=mx.random.key(3))
    natural = ids(NATURAL, logits, top_k=5)
    hard = HardBudget()
    assert ids(hard, logits, top_k=5, resident=range(32)) == natural
    assert ids(hard, logits, top_k=5, resident=None) == natural
    assert ids(hard, logits, top_k=5, resident=(1,), headless=True) == natural
    assert ids(hard, logits[:1], top_k=5, resident=(1,)) == natural[:1]
    assert ids(hard, logits, top_k=5, resident=(1,)) != natural


@pytest.mark.parametrize("anchors", [-1, True])
def test_anchors_are_checked(anchors: int) -> None:
    with pytest.raises(ValueError, match="wanted 0 or more, or None"):
        HardBudget(anchors)


def test_its_name_says_what_it_is() -> None:
    assert HardBudget().name == "hard budget(all anchors), approximate"
    assert HardBudget(2).name == "hard budget(2 anchors), approximate"
    assert not HardBudget().lossless
