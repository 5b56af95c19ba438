"""One controller with its one setting against the best fixed length in hindsight.

On recorded texts and costs, so that the comparison is exact and repeats.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from strata_nb import Model
from strata_nb.bench.courses import Recording, bundled
from strata_nb.bench.memory import RESIDENT, Memory, memories
from strata_nb.bench.played import FIXED, Row, compared
from strata_nb.policies import BestRatio, Length
from strata_nb.prompts import WRITTEN

WITHIN = 0.95
"""Of the best fixed length's speed."""
NEVER_BELOW = 0.98
"""Of the speed of one row a window."""

Table = dict[tuple[str, str], dict[str, Row]]


def table(recording: Recording, *, places: Sequence[Memory]) -> Table:
    found: Table = {}
    ways: dict[str, Callable[[], Length]] = {**FIXED, "ours": BestRatio}
    for row in compared(recording, ways, memories=places):
        found.setdefault((row.kind, row.memory), {})[row.policy] = row
    return found


@pytest.fixture(scope="module")
def rows() -> Table:
    return table(bundled(), places=memories(128))


def best(some: dict[str, Row]) -> float:
    return max(some[name].speed for name in FIXED)


def test_it_is_of_this_model_and_of_every_kind(trained: Model, rows: Table) -> None:
    assert bundled().provenance["digest"] == trained.digest
    places = ("resident", "load 0.25", "load 1", "load 4")
    assert list(rows) == [(kind, place) for kind in WRITTEN for place in places]


def test_it_comes_close_to_the_best_fixed_length_everywhere(rows: Table) -> None:
    shares = {key: some["ours"].speed / best(some) for key, some in rows.items()}
    assert {key: share for key, share in shares.items() if share < WITHIN} == {}


def test_it_is_never_worse_than_no_drafts(rows: Table) -> None:
    slow = {key: some["ours"].speed for key, some in rows.items()}
    assert {key: speed for key, speed in slow.items() if speed < NEVER_BELOW} == {}


@pytest.mark.parametrize("price", [0.02, 0.6])
def test_it_does_so_whatever_further_rows_cost(price: float) -> None:
    """A machine where rows cost nothing, and one where most drafts do not pay."""
    whole = bundled()
    one = whole.prices.window_ms[0]
    times = tuple(one * (1 + price * drafts) for drafts in range(8))
    other = replace(whole, prices=replace(whole.prices, window_ms=times))
    rows = table(other, places=[RESIDENT])
    for some in rows.values():
        assert some["ours"].speed >= max(WITHIN * best(some), NEVER_BELOW)
    # No fixed length does it at both.
    near = all(some["T = 8"].speed >= WITHIN * best(some) for some in rows.values())
    assert near == (price < 0.1)


def test_all_of_them_emit_the_same_text(rows: Table) -> None:
    for some in rows.values():
        assert len({row.tokens for row in some.values()}) == 1


def test_it_repeats_to_the_digit() -> None:
    whole = bundled()
    few = replace(whole, courses=tuple(c for c in whole.courses if c.prompt < 1))
    one, two = (table(few, places=memories(128)) for _ in range(2))
    assert one == two
