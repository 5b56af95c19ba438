"""`Timeline`: rows of windows, what travels, zoom, and windows that are taken back."""

import json
from typing import Any

import pytest

from strata_nb.trace import Trace
from strata_widgets import Timeline
from strata_widgets.timeline.bins import MOST, Bins
from widgets.fake_trace import trace


def sent(view: Timeline) -> list[dict[str, Any]]:
    """Note what the rows' chart sends from here on."""
    messages: list[dict[str, Any]] = []
    view._live["rows"].send = messages.append
    view._live["rows"]._pace._gap = 0
    return messages


def test_each_row_of_a_window_has_its_verdict() -> None:
    made = trace(40)
    window = next(
        n for n, r in enumerate(made) if r.offered == 6 and 0 < r.accepted < 5
    )
    record = made[window]
    view = Timeline(made)
    (row,) = [r for r in view._live["rows"].rows if r["window"] == window]
    assert row["verdicts"] == [
        "root",
        *["accepted"] * record.accepted,
        "first mismatch",
        *["never reached"] * (5 - record.accepted),
    ]
    assert row["rows"] == [0, 1, 2, 3, 4, 5, 6]
    assert row["end"] == window + 1


def test_words_name_the_selected_window() -> None:
    made = trace(40)
    view = Timeline(made)
    assert view.text() == "Timeline(40 windows, shown 0 to 39)"
    view.selection = {"window": 7}
    record = made[7]
    assert f"window 7: cell {record.position}, T = {record.T}" in view.text()
    assert view._live["rows"].values["window"] == 7


def test_an_empty_trace_says_what_to_do() -> None:
    view = Timeline(Trace())
    assert view.text() == "Timeline(no windows yet)"
    assert view._live["rows"].rows == [{"note": "Run a window, and it appears here."}]
    assert view._page["controls"][0]["enabled"] is False


def test_growing_sends_new_windows_only_and_keeps_few() -> None:
    whole = trace(5000)
    growing = Trace(whole[:100])
    view = Timeline(growing)
    messages = sent(view)
    for start in range(100, 5000, 7):
        for record in whole[start : start + 7]:
            growing.append(record)
        view.refresh()
    assert {m["op"] for m in messages} == {"append"}
    assert sum(len(m["rows"]) for m in messages) == 4900
    assert max(len(json.dumps(m)) for m in messages) < 20_000
    assert len(view._live["rows"].rows) == 64
    assert len(view._live["overview"].rows) <= MOST
    assert view.span == (4936, 4999)


def test_windows_that_were_taken_back_are_gone() -> None:
    made = trace(30)
    view = Timeline(made)
    made.truncate(10)
    view.refresh()
    assert len(view._live["rows"].rows) == 10
    for record in trace(12, seed=5):
        made.append(record)
    view.refresh()
    assert Timeline(made)._live["rows"].rows == view._live["rows"].rows
    assert Timeline(made)._live["overview"].rows == view._live["overview"].rows


def test_zoom_and_follow() -> None:
    view = Timeline(trace(300))
    view.zoom(10, 19)
    assert view.span == (10, 19)
    assert [r["window"] for r in view._live["rows"].rows] == list(range(10, 20))
    # A window outside of what is shown is brought in.
    view.select(window=200)
    assert view.span == (195, 204)
    view.follow(windows=16)
    view.selection = {}
    view.follow(windows=16)
    assert view.span == (284, 299)
    with pytest.raises(ValueError, match="0 <= first <= last, got 5 to 2"):
        view.zoom(5, 2)
    with pytest.raises(ValueError, match="`windows` must be 1 to 128, got 0"):
        view.follow(windows=0)


def test_following_again_from_windows_that_are_still_to_come() -> None:
    view = Timeline(trace(40))
    overview = view._live["overview"].rows
    view.zoom(100, 110)
    assert view._live["rows"].rows == [{"note": "Run a window, and it appears here."}]
    assert view._live["overview"].rows == overview
    view.follow()
    assert [r["window"] for r in view._live["rows"].rows] == list(range(40))


def test_what_has_no_trace_is_refused() -> None:
    with pytest.raises(TypeError, match="a trace is wanted, or an engine"):
        Timeline(3)


def test_bins_hold_means_whatever_the_length() -> None:
    bins = Bins()
    for value in range(1000):
        bins.add(value)
    means = list(bins.means())
    assert bins.width == 8
    assert len(means) == 125
    assert means[0] == (0, 8, 3.5)
    assert means[-1] == (992, 1000, 995.5)
