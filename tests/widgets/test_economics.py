import statistics
from dataclasses import replace
from typing import Any

import pytest

from slow_traces import PLANTED, slow_trace
from strata_nb import WindowRecord, theory
from strata_nb.slower.lengths import MOST, Times
from strata_nb.trace import Trace, tokens_per_s, window_record
from strata_widgets.economics import Economics
from strata_widgets.selection import link
from strata_widgets.timeline import Timeline
from widgets.fake_trace import trace


def window(drafts: int, accepted: int, ms: float | None, **more: Any) -> WindowRecord:
    """A window of `drafts` drafts whose `run` took `ms`."""
    predictions = [row + 1 if row < accepted else 90 for row in range(drafts + 1)]
    return window_record(
        position=0,
        inputs=list(range(drafts + 1)),
        keep=accepted + 1,
        predictions=predictions,
        emitted=predictions[: accepted + 1],
        offered=drafts,
        accepted=accepted,
        rule="greedy",
        drafter="fake" if drafts else "none",
        run_ms=ms,
        **more,
    )


PROMPT = window_record(position=0, inputs=[1, 2, 3], keep=3, headless=True, run_ms=70)

# Drafts 1 and 2 are accepted 8 of 10 and 2 of 5 times that they are reached, so E[keep]
# is 1; 1 + 0.8; 1 + 0.8 + 0.8 * 0.4. C is 10, 12, 20 ms.
HAND = (
    PROMPT,
    *[window(0, 0, ms) for ms in (9, 10, 10, 11)],
    *[window(1, taken, ms) for taken, ms in ((1, 11), (1, 12), (1, 12), (0, 14))],
    *[window(2, taken, ms) for taken, ms in ((2, 18), (2, 20), (0, 20), (1, 22))],
    window(2, 1, None),
    window(2, 1, 500, warm=False),
)


def rows(view: Economics, chart: str) -> list[dict[str, Any]]:
    return view._live[chart].rows


def test_acceptances_of_the_hand_trace() -> None:
    places = Economics(HAND)._costs.drafts.places
    assert [(p.offered, p.reached, p.accepted) for p in places] == [
        (10, 10, 8),
        (6, 5, 2),
    ]


def test_times_are_medians_with_their_spread_and_break_even() -> None:
    first, second, third = rows(Economics(HAND), "times")
    assert first["median"] == first["even"] == 10.0
    assert first == {
        "rows": 1,
        "windows": 4,
        "median": 10.0,
        "first": 9.75,
        "third": 10.25,
        "low": 9.15,
        "high": 10.85,
        "even": 10.0,
    }
    assert (second["windows"], second["median"], second["even"]) == (4, 12.0, 18.0)
    # The window without a time and the one that compiled are in no time.
    assert (third["windows"], third["median"], third["even"]) == (4, 20.0, 21.2)


def test_a_further_row_brings_and_costs() -> None:
    assert rows(Economics(HAND), "further") == [
        {"rows": 2, "gain": 0.8, "price": 0.2, "cost": 2.0},
        {"rows": 3, "gain": 0.32, "price": 0.8, "cost": 8.0},
    ]


def test_speeds_and_the_best_length() -> None:
    view = Economics(HAND)
    first, second, third = rows(view, "speeds")
    assert first == {"rows": 1, "observed": 100.0, "expected": 100.0, "best": False}
    assert second == {
        "rows": 2,
        "observed": round(7e3 / 49, 4),
        "expected": 150.0,
        "best": True,
    }
    assert third == {
        "rows": 3,
        "observed": round(9e3 / 80, 4),
        "expected": 106.0,
        "best": False,
    }
    assert (
        "E[keep] / C is highest at T = 2: 1.80 tokens in 12.00 ms, 150.0 a second; who "
        "adds rows while one pays stops at T = 2" in view._status()
    )
    assert "1 windows that were not warm and 1 without a time" in view._status()


def test_the_rules_are_those_of_theory() -> None:
    # A fourth row that is nearly free: adding one at a time never gets there.
    dear = [window(3, 3, 20.5)] * 40
    view = Economics([*HAND, *dear])
    lengths, best = view._found
    keeps = [length.keep or 0 for length in lengths]
    costs = [length.times.at(0.5) for length in lengths]
    assert best is not None
    assert best.best == theory.best_rows(keeps, costs) == 4
    assert best.marginal == theory.marginal_rows(keeps, costs)


def test_gaps_are_bridged_row_by_row() -> None:
    view = Economics([*[window(0, 0, 10)] * 4, *[window(3, 3, 16)] * 4])
    assert rows(view, "further") == [
        {"rows": 4, "gain": 1.0, "price": 0.2, "cost": 2.0}
    ]


def test_no_drafts_is_a_length_too_where_the_caller_knows_its_time() -> None:
    view = Economics([window(3, 0, 30)] * 4, serial_ms=10)
    assert "E[keep] / C is highest at T = 1: 1.00 tokens in 10.00 ms" in view._status()


def test_the_best_length_is_marked() -> None:
    assert [table.marked for table in Economics(HAND)._tables()[:2]] == [None, 1]


def test_few_windows_choose_no_length() -> None:
    view = Economics([*[window(0, 0, 10)] * 4, *[window(3, 3, 16)] * 3])
    assert "highest at" not in view._status()
    assert [row["best"] for row in rows(view, "speeds")] == [False, False]


def test_one_row_tells_what_plain_decoding_takes_without_its_drafter() -> None:
    view = Economics([window(0, 0, 10, draft_ms=3.0)])
    assert rows(view, "times")[0]["median"] == 13.0
    assert "a token without drafts takes 10.00 ms (median of 1 windows" in (
        view._status()
    )
    given = Economics([window(0, 0, 10)], serial_ms=8)
    assert "a token without drafts takes 8.00 ms (given)" in given._status()
    assert given._live["speeds"].values["plain_speed"] == 125.0


def test_without_a_base_it_says_what_to_do() -> None:
    drafted = [record for record in HAND if record.T > 1]
    view = Economics(drafted)
    assert (
        "no window has one row, so nothing says what a token costs without drafts: "
        "decode some text without, or pass `serial_ms=`" in view.text()
    )
    assert all("even" not in row for row in rows(view, "times"))
    assert [row["rows"] for row in rows(view, "further")] == [3]
    assert "price" not in rows(view, "further")[0]
    assert view._live["speeds"].values["plain_speed"] == -1
    assert "no window has one row" not in Economics(drafted, serial_ms=9).text()


def slowed(records: list[WindowRecord], times: float) -> list[WindowRecord]:
    return [replace(r, run_ms=(r.run_ms or 0) * times) for r in records]


def test_text_is_the_same_whatever_the_clock_said() -> None:
    records = [record for record in HAND if record.run_ms is not None]
    view, other = Economics(records), Economics(slowed(records, 1.7))
    for each in (view, other):
        each.select(window=5)
    assert view.text() == other.text() != ""
    assert " ms" not in view.text()
    assert view.text().splitlines() == [
        "Economics(13 windows, 22 tokens; windows by T: 1: 4, 2: 4, 3: 5; window 5: "
        "T = 2, 2 tokens)",
        "Windows by their length",
        "T  windows  tokens  tokens a window  E[keep]",
        "1  4        4       1.00             1.00",
        "2  4        7       1.75             1.78",
        "3  5        11      2.20             2.17",
    ]


def test_text_of_a_recorded_trace_has_the_times() -> None:
    view = Economics(HAND, times=True)
    lines = view.text().splitlines()
    assert "a token without drafts takes 10.00 ms" in lines[0]
    assert lines[1] == "Windows by their length"
    assert lines[6] == "Time of a window by its length"
    assert lines[9].split() == [
        *("2", "12.00", "11.15", "to", "13.70", "18.00", "0.80", "2.00", "142.9"),
    ]
    assert view.text() == Economics(HAND, times=True).text()


@pytest.mark.parametrize("name", ["rejected", "drafter", "commit"])
def test_causes_are_shown_with_what_to_try(name: str) -> None:
    records = slow_trace(PLANTED[name], seed=0)
    view = Economics(records, times=True)
    found = view.why()
    (table,) = view._tables()[2:]
    assert table.caption.startswith("Why am I slower? Drafts make it slower: 0.")
    assert table.head == ("cause", "ms of each token", "evidence", "what to try")
    (cause,) = found.causes
    assert cause.name == name
    assert table.rows == [
        [
            cause.what,
            f"{cause.share_ms:.2f}",
            "; ".join(str(number) for number in cause.numbers),
            cause.advice,
        ]
    ]
    assert cause.advice in view.text()
    assert cause.advice not in Economics(records).text()


def test_what_is_missing_is_shown() -> None:
    (_, _, why, missing) = Economics([r for r in HAND if r.offered])._tables()
    assert why.text().splitlines() == [
        "Why am I slower?",
        "answer",
        "Whether drafts make it slower cannot be said (10 windows).",
    ]
    assert any("`serial_ms`" in str(line) for (line,) in missing.rows)


def test_the_button_asks_again() -> None:
    long = Trace(trace(300))
    view = Economics(long)
    assert "(300 windows)" in view._tables()[2].text()
    for record in trace(400, seed=2):
        long.append(record)
    view.refresh()
    # The whole of so long a run is not looked at again while it grows.
    assert "(300 windows)" in view._tables()[2].text()
    view._heard(None, {"kind": "control", "name": "why", "values": {}}, None)
    assert "(700 windows)" in view._tables()[2].text()


def test_a_short_run_is_asked_again_when_it_has_doubled() -> None:
    long = Trace(trace(10))
    view = Economics(long)
    asked = []
    for record in list(trace(90))[10:]:
        long.append(record)
        view.refresh()
        asked.append(view._asked_at)
    assert list(dict.fromkeys(asked)) == [10, 20, 40, 80]


def test_times_are_the_newest_and_in_order() -> None:
    kept = Times()
    values = [float((7 * n) % 611) for n in range(MOST + 90)]
    for value in values:
        kept.add(value)
    assert len(kept) == MOST
    newest = values[-MOST:]
    assert kept.at(0.5) == pytest.approx(statistics.median(newest))
    assert (kept.at(0), kept.at(1)) == (min(newest), max(newest))


def test_speeds_are_those_of_the_trace() -> None:
    long = [record for record in trace(300) if record.T == 4]
    (only,) = rows(Economics(long), "speeds")
    assert only["observed"] == pytest.approx(tokens_per_s(long), abs=1e-3)


def test_a_selected_window_is_marked_by_its_time() -> None:
    view, line = Economics(HAND), Timeline(HAND)
    link(line, view)
    line.select(window=6)
    values = view._live["times"].values
    assert (values["chosen_rows"], values["chosen_ms"]) == (2, 12.0)
    assert "window 6: T = 2, 2 tokens in 12.00 ms" in view._status()
    view.select(window=13)
    assert line.selection["window"] == 13
    assert view._live["times"].values["chosen_ms"] == -1
    view.select(window=99)
    assert "window 99 is selected, which this trace lacks" in view.text()


def test_axes_only_rise() -> None:
    long = Trace(HAND)
    view = Economics(long)
    assert view._tops == {"top_ms": 32.0, "top_price": 1.25, "top_speed": 256.0}
    long.append(window(4, 4, 45))
    view.refresh()
    assert view._tops["top_ms"] == 64.0
    for _ in range(9):
        long.append(window(4, 0, 1))
    view.refresh()
    assert view._tops["top_ms"] == 64.0


def test_empty_says_what_to_do() -> None:
    view = Economics([])
    assert view.text().splitlines()[0] == "Economics(no windows yet)"
    assert rows(view, "times") == rows(view, "speeds")
    assert rows(view, "times") == [{"note": "Commit windows of several lengths T."}]
    assert rows(view, "further") == [
        {"note": "Commit windows with drafts, and without."}
    ]
    (button,) = view._controls()
    assert (button.enabled, button.why) == (False, "there is no window yet")


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (
            lambda: Economics([], serial_ms=0),
            ValueError,
            "`serial_ms` is 0, wanted more than 0; leave it out to take",
        ),
        (lambda: Economics(3), TypeError, "a trace is wanted, .* got int"),
        (lambda: Economics([], tims=True), TypeError, "has no trait `tims`"),
    ],
)
def test_misuse_is_refused(made: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        made()


def test_rows_and_memory_stay_few() -> None:
    view = Economics(trace(6000))
    assert [len(rows(view, chart)) for chart in view._live] == [8, 7, 8]
    assert max(len(times) for times in view._costs.times.values()) == MOST


def test_growth_and_undone_windows_end_where_a_new_view_begins() -> None:
    whole = trace(60)
    long = Trace(whole[:10])
    view = Economics(long)
    for record in list(whole)[10:]:
        long.append(record)
        view.refresh()
    again = Economics(whole)
    for chart in again._live:
        assert rows(view, chart) == rows(again, chart)
    long.truncate(25)
    view.refresh()
    again = Economics(whole[:25])
    for chart in again._live:
        assert rows(view, chart) == rows(again, chart)
    assert view.text() == again.text()


def test_longer_windows_are_counted_and_not_drawn() -> None:
    view = Economics([*HAND, window(9, 9, 700)])
    assert "T above 8 is counted, not drawn" in view.text()
    assert [row["rows"] for row in rows(view, "times")] == [1, 2, 3]
    assert view._tops["top_ms"] == 32.0
