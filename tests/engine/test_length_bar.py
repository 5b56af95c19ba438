"""One controller with its one setting against the best fixed length in hindsight.

On recorded texts and costs, so that the comparison is exact and repeats.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from strata_nb import Model
from strata_nb.bench.courses import Recording, bundled, held_out
from strata_nb.bench.memory import RESIDENT, Memory, memories
from strata_nb.bench.played import FIXED, Row, compared
from strata_nb.policies import Acceptance, BestRatio, Costs, Length
from strata_nb.prompts import WRITTEN, prompts

WITHIN = 0.95
"""Of the best fixed length's speed."""
NEVER_BELOW = 0.98
"""Of the speed of one row a window."""

OURS: Mapping[str, Callable[[], Length]] = {**FIXED, "ours": BestRatio}
WORSE: Mapping[str, Callable[[], Length]] = {
    "drafts are distrusted": lambda: BestRatio(
        acceptance=Acceptance(prior=0.2, weight=40)
    ),
    "rows share no expert": lambda: BestRatio(costs=Costs(power=1.2)),
}
"""Constants that are wrong, which a bar must notice."""

Table = dict[tuple[str, str], dict[str, Row]]


def table(
    recording: Recording,
    *,
    places: Sequence[Memory],
    ways: Mapping[str, Callable[[], Length]] = OURS,
) -> Table:
    found: Table = {}
    for row in compared(recording, ways, memories=places):
        found.setdefault((row.kind, row.memory), {})[row.policy] = row
    return found


@pytest.fixture(scope="module")
def rows() -> Table:
    return table(bundled(), places=memories(128))


@pytest.fixture(scope="module")
def judging() -> Table:
    """On texts that no constant was tuned on."""
    return table(held_out(), places=memories(128), ways={**OURS, **WORSE})


def below(rows: Table, name: str) -> dict[tuple[str, str], float]:
    """Where a policy misses the bar, and its share of the best fixed length."""
    shares = {key: some[name].speed / best(some) for key, some in rows.items()}
    return {key: share for key, share in shares.items() if share < WITHIN}


def best(some: dict[str, Row]) -> float:
    return max(some[name].speed for name in FIXED)


def test_it_is_of_this_model_and_of_every_kind(trained: Model, rows: Table) -> None:
    assert bundled().provenance["digest"] == trained.digest
    places = ("resident", "load 0.25", "load 1", "load 4")
    assert list(rows) == [(kind, place) for kind in WRITTEN for place in places]


def test_it_comes_close_to_the_best_fixed_length_everywhere(rows: Table) -> None:
    assert below(rows, "ours") == {}


def test_it_does_so_on_texts_that_nothing_was_tuned_on(judging: Table) -> None:
    assert below(judging, "ours") == {}


@pytest.mark.parametrize("name", WORSE)
def test_worse_constants_miss_the_bar(judging: Table, name: str) -> None:
    assert len(below(judging, name)) >= 8


def test_it_is_never_worse_than_no_drafts(rows: Table, judging: Table) -> None:
    for table_ in (rows, judging):
        slow = {key: some["ours"].speed for key, some in table_.items()}
        assert {key: ms for key, ms in slow.items() if ms < NEVER_BELOW} == {}


def test_what_is_held_out_is_of_other_prompts_at_the_same_prices(
    trained: Model,
) -> None:
    judge = held_out()
    assert judge.provenance["digest"] == trained.digest
    assert judge.prices == bundled().prices
    for kind in WRITTEN:
        asked = prompts(trained, kind, held_out=True)
        assert len(judge.of(kind)) == len(asked) == 8
        assert not {*map(tuple, asked)} & {*map(tuple, prompts(trained, kind))}
        for ids, course in zip(asked, judge.of(kind), strict=True):
            first = course.spots[0]
            assert (first.position, first.root) == (len(ids) - 1, ids[-1])


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
