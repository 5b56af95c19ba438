"""What traces add up to, and where two of them differ."""

import numpy as np
import pytest

from strata_nb.trace import (
    LayerDecisions,
    Trace,
    acceptance,
    compare,
    latency,
    mean_union,
    rolling_acceptance,
    row_counts,
    tokens_per_window,
)
from strata_nb.trace.columns import WINDOW_COLUMNS
from strata_nb.trace.text import summary
from trace_samples import IDS, measured_window, plain, prompt_window, window


def test_drafts_are_counted_by_drafter_where_there_are_two() -> None:
    def said(*drafters: str) -> list[str]:
        lines = [*summary(Trace([window(drafter=who) for who in drafters]))]
        return [line for line in lines if line.lstrip().startswith("draft")]

    both = ["  draft 1           {0} of {0}, 100.0 %", "  draft 2           0 of {0}, "]
    assert said("mtp", "mtp") == [
        "drafts accepted     2 of 4, 50.0 %",
        both[0].format(2),
        both[1].format(2) + "0.0 %",
    ]
    assert said("mtp", "lookup", "mtp")[3:] == [
        "drafts of lookup",
        both[0].format(1),
        both[1].format(1) + "0.0 %",
        "drafts of mtp",
        both[0].format(2),
        both[1].format(2) + "0.0 %",
    ]


def test_equal_decisions_compare_equal_whatever_the_clock_said() -> None:
    a = Trace([window(run_ms=1.0, warm=False)], provenance={"run": 1})
    b = Trace([window(run_ms=2.0, warm=True)], provenance={"run": 2})
    assert compare(a, b) == []
    assert a != b


def test_the_first_difference_names_window_layer_and_field() -> None:
    a = Trace([window(), window(), window(position=8)])
    other = LayerDecisions(np.where(IDS == 9, 4, IDS))
    b = Trace([window(), window(decisions=[None, other]), window()])
    found = compare(a, b)
    assert [d[:3] for d in found] == [(1, 1, "expert_ids"), (2, None, "position")]
    assert str(found[1]) == "window 2, position: 8 | 5"
    assert "window 1, layer 1, expert_ids: [[3, 1]" in str(found[0])


@pytest.mark.parametrize(
    "name", [name for name, column in WINDOW_COLUMNS.items() if column.compared]
)
def test_every_compared_column_is_looked_at(name: str) -> None:
    record = window()
    changed = measured_window()
    if name == "headless":
        changed = plain(0, 0, headless=True, predictions=())
    elif name == "T":
        changed = plain(1, 1)
    elif name in ("inputs", "predictions", "emitted"):
        changed = window(**{name: (10, 12, 13)})
    elif name in ("offered", "accepted", "keep"):
        changed = window(offered=1, accepted=0, keep=1)
    assert name in [d.field for d in compare(Trace([record]), Trace([changed]))]


def test_a_difference_moves_no_cursor() -> None:
    red = Trace([window(drafter="\x1b[2J")])
    (found,) = compare(red, Trace([window()]))
    assert str(found) == r"window 0, drafter: \x1b[2J | hand"


def test_traces_of_different_length_differ_where_the_shorter_ends() -> None:
    (found,) = compare(Trace([window()]), Trace([window()] * 3))
    assert found == (1, None, "windows", 1, 3)


def test_different_layers_are_one_difference() -> None:
    (found,) = compare(Trace([window()]), Trace([window(decisions=[])]))
    assert found == (0, None, "layers", (1,), ())


def test_columns_can_be_left_aside() -> None:
    a, b = Trace([window(fold="lazy")]), Trace([window(fold="eager")])
    assert [d.field for d in compare(a, b)] == ["fold"]
    assert compare(a, b, ignore=["fold"]) == []
    with pytest.raises(ValueError, match=r"`ignore` must name columns .*got 'fald'"):
        compare(a, b, ignore=["fald"])


MIXED = Trace(
    [
        prompt_window(9),
        plain(3, 3, run_ms=9.0, warm=False, finish_ms=1.0),
        plain(3, 0, run_ms=2.0, warm=True),
        plain(1, 1, run_ms=4.0, warm=True),
        plain(0, 0),
    ]
)


def test_acceptance_is_counted_by_draft_position() -> None:
    found = acceptance(MIXED)
    assert found.total == (7, 4)
    assert found.total.rate == pytest.approx(4 / 7)
    assert found.positions == ((3, 2), (2, 1), (2, 1))
    assert (found.windows, found.drafted, found.coverage) == (4, 3, 0.75)


def test_nothing_offered_has_no_rate() -> None:
    found = acceptance(Trace([plain(0, 0)]))
    assert found.total.rate is None
    assert found.positions == ()
    assert found.coverage == 0
    assert acceptance(Trace()).coverage is None


def test_rolling_acceptance_forgets_old_windows() -> None:
    assert rolling_acceptance(MIXED, windows=1) == [1.0, 0.0, 1.0, None]
    assert rolling_acceptance(MIXED, windows=2) == [1.0, 0.5, 0.25, 1.0]
    assert rolling_acceptance(Trace()) == []
    with pytest.raises(ValueError, match="`windows` must be 1 or more, got 0"):
        rolling_acceptance(MIXED, windows=0)


def test_tokens_per_window_leaves_prompts_out() -> None:
    assert tokens_per_window(MIXED) == (4 + 1 + 2 + 1) / 4
    assert tokens_per_window(Trace([prompt_window(4)])) is None


def test_rows_are_counted_by_window_size() -> None:
    assert row_counts(MIXED) == {1: 1, 2: 1, 4: 2}


def test_latency_separates_warm_windows() -> None:
    everything, warm = latency(MIXED), latency(MIXED, warm=True)
    assert everything is not None
    assert warm is not None
    assert everything.windows == 3
    assert everything.mean_ms == pytest.approx(16 / 3)
    assert (warm.windows, warm.mean_ms, warm.median_ms) == (2, 3.0, 3.0)
    assert warm.p95_ms == pytest.approx(3.9)
    assert latency(Trace([plain(0, 0)])) is None


def test_the_mean_union_is_over_layers_and_windows() -> None:
    ids = LayerDecisions(np.array([[1, 2], [1, 2], [1, 2]]))
    assert mean_union(Trace([window(), window(decisions=[ids])])) == 3.5
    assert mean_union(MIXED) is None
