"""Running sums of drafts: as the whole trace adds up, and what a rule accepts."""

from typing import Any

import pytest

from strata_nb import theory
from strata_nb.slower.account import chances
from strata_nb.slower.windows import spent
from strata_nb.trace import Rate, Trace, WindowRecord, acceptance, window_record
from strata_nb.trace.drafts import Drafts, Rolling, judged
from strata_nb.trace.summary import rolling_acceptance
from widgets import fake_trace


def window(same: int, drafts: int, *, keep: int | None = None) -> WindowRecord:
    """`same` drafts of `drafts` are right; a keep that is given is forced."""
    inputs = list(range(drafts + 1))
    predictions = [row + 1 if row < same else 99 for row in range(drafts + 1)]
    left = same + 1 if keep is None else keep
    given_up = left < same + 1
    counted: dict[str, Any] = {
        "offered": left - 1 if given_up else drafts,
        "accepted": left - 1 if given_up else same,
    }
    return window_record(
        position=0,
        inputs=inputs,
        keep=left,
        predictions=predictions,
        emitted=predictions[:left],
        rule="greedy",
        forced=keep is not None,
        run_ms=10.0,
        **counted,
    )


def sums(records: list[WindowRecord] | Trace) -> Drafts:
    found = Drafts()
    for record in records:
        found.add(record)
    return found


def test_the_sums_are_those_of_the_whole_trace() -> None:
    trace = fake_trace.trace(60)
    found, whole = sums(trace), acceptance(trace)
    assert found.total == whole.total
    assert [(p.offered, p.accepted) for p in found.places] == [*whole.positions]
    assert (found.windows, found.drafted) == (whole.windows, whole.drafted)
    rolling = Rolling()
    rates = [rolling.add(record).rate for record in trace]
    assert rates == rolling_acceptance(trace)
    assert Rolling.before(trace, 40).rate.rate == rates[39]


@pytest.mark.parametrize(
    ("keep", "counted"), [(None, (4, 2)), (1, (0, 0)), (2, (1, 1))]
)
def test_a_forced_keep_hides_nothing_from_the_rule(
    keep: int | None, counted: tuple[int, int]
) -> None:
    record = window(2, 4, keep=keep)
    assert (record.offered, record.accepted) == counted
    assert judged(record) == Rate(4, 2)


def test_one_rule_says_what_is_expected() -> None:
    records = [
        window(2, 2), window(0, 2), window(2, 2, keep=1), window(1, 2, keep=3),
    ]  # fmt: skip
    found = sums(records)
    # Reached: 4 and 3; accepted: 3 and 2, whatever was kept.
    assert found.chances(2) == [3 / 4, 2 / 3]
    assert found.expected(2) == theory.expected_keep([3 / 4, 2 / 3])
    asked = [w for record in records if (w := spent(record)) is not None]
    assert found.chances(2) == [*chances(asked)]
    # The record's own counters leave out what a caller gave up.
    assert [place.offered for place in found.places] == [3, 3]
    assert found.forced == 2
    assert found.keeps() == (found.expected(2), 2.0)
    assert found.expected(3) is None
