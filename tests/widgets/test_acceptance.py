from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import traitlets

from strata_nb import WindowRecord
from strata_nb.session.spell import LONG
from strata_nb.trace import Trace, acceptance, rolling_acceptance, window_record
from strata_widgets import LiveChart
from strata_widgets.acceptance import Acceptance
from strata_widgets.acceptance.drawings import BARS, SPAN
from strata_widgets.selection import link
from strata_widgets.timeline import Timeline
from widgets.fake_trace import trace


def window(
    offered: int,
    accepted: int,
    *,
    keep: int | None = None,
    behind: int = 0,
    match: int | None = None,
    position: int = 0,
) -> WindowRecord:
    """A window whose draft i is token i; `behind` drafts took no part."""
    rows = 1 + offered + behind
    predictions = [row + 1 if row < accepted else 90 + row for row in range(rows)]
    kept = accepted + 1 if keep is None else keep
    return window_record(
        position=position,
        inputs=list(range(rows)),
        keep=kept,
        predictions=predictions,
        emitted=[*range(1, kept), predictions[kept - 1]],
        offered=offered,
        accepted=accepted,
        forced=keep is not None,
        rule="greedy",
        drafter="typed" if offered else "none",
        match_length=match,
    )


PROMPT = window_record(position=0, inputs=[1, 2, 3], keep=3, headless=True)

# Draft 1: 5 offered, 5 reached, 4 accepted; draft 2: 4, 3, 2; draft 3: 3, 2, 1.
HAND = (
    PROMPT,
    window(3, 3, match=4),
    window(3, 1, match=4),
    window(3, 2, match=20),
    window(2, 0, match=70),
    window(0, 0),
    # The caller kept the root and one draft of three: the others are in no counter of
    # the record. By the rule draft 2 was reached, and contradicted.
    window(1, 1, behind=2, keep=2, match=2),
)


def rows(view: Acceptance, chart: str) -> list[dict[str, Any]]:
    return view._live[chart].rows


def counts(place: str, offered: int, reached: int, accepted: int) -> dict[str, Any]:
    return {
        "place": place,
        "offered": offered,
        "reached": reached,
        "accepted": accepted,
    }


def test_positions_are_those_of_the_hand_count() -> None:
    view = Acceptance(HAND)
    assert rows(view, "positions") == [
        counts("1", 5, 5, 4),
        counts("2", 4, 3, 2),
        counts("3", 3, 2, 1),
    ]


def test_matches_are_in_their_ranges() -> None:
    assert BARS == ("1-3", "4", "5", "6-7", "8-15", "16-31", "32-63", "64 up")
    assert rows(Acceptance(HAND), "matches") == [
        counts("1-3", 1, 1, 1),
        counts("4", 6, 5, 4),
        counts("16-31", 3, 3, 2),
        counts("64 up", 2, 1, 0),
    ]


def test_keeps_are_expected_of_the_acceptances_and_forced_ones_left_out() -> None:
    # Chances are by the rule, in the forced window too.
    a, b, c = 4 / 5, 2 / 4, 1 / 2
    assert rows(Acceptance(HAND), "keeps") == [
        {"drafts": 1, "windows": 0, "expected": round(1 + a, 4)},
        {
            "drafts": 2,
            "windows": 1,
            "expected": round(1 + a + a * b, 4),
            "observed": 1.0,
        },
        {
            "drafts": 3,
            "windows": 3,
            "expected": round(1 + a + a * b + a * b * c, 4),
            "observed": 3.0,
        },
    ]


def test_numbers_are_in_the_status() -> None:
    # (3 * 2.4 + 2.2) / 4 expected, (4 + 2 + 3 + 1) / 4 observed.
    assert Acceptance(HAND).text().splitlines()[0] == (
        "Acceptance(6 windows, 5 with drafts, and 1 of a prompt; 7 of 12 (58.3%) "
        "drafts accepted; newest 32 windows 7 of 12 (58.3%); keep expected 2.350, "
        "observed 2.500; 1 forced keep left out of that)"
    )


def test_equal_lengths_keep_what_is_expected() -> None:
    fates = (3, 0, 1, 1, 2, 3, 0, 2)
    view = Acceptance([window(3, fate) for fate in fates])
    both = view._drafts.keeps()
    assert both is not None
    assert both[0] == pytest.approx(both[1])


def test_counts_are_those_of_the_trace() -> None:
    long = trace(300)
    view, wanted = Acceptance(long), acceptance(long)
    found = [(r["offered"], r["accepted"]) for r in rows(view, "positions")]
    assert found == [tuple(rate) for rate in wanted.positions]
    shares = [r["newest_accepted"] / r["newest_offered"] for r in rows(view, "rolling")]
    assert shares == rolling_acceptance(long)[-SPAN:]


def test_rolling_rows_are_each_window_and_the_newest_thirty_two() -> None:
    view = Acceptance(HAND)
    assert rows(view, "rolling")[0] == {"window": 0, "end": 1, "prompt": 3}
    assert rows(view, "rolling")[2] == {
        "window": 2,
        "end": 3,
        "offered": 3,
        "accepted": 1,
        "newest_offered": 6,
        "newest_accepted": 4,
    }
    assert view._live["rolling"].values["overall"] == round(7 / 12, 4)


def test_an_old_window_brings_its_part_of_the_run_back() -> None:
    long = Trace(trace(300))
    # Prompts have no rate: the 32 windows before are looked for behind them.
    mixed = Trace([r for w in long for r in (w, PROMPT)])
    view = Acceptance(mixed)
    newest = rows(view, "rolling")
    assert [newest[0]["window"], newest[-1]["window"]] == [600 - SPAN, 599]
    view.select(window=200)
    shown = rows(view, "rolling")
    assert [shown[0]["window"], shown[-1]["window"]] == [168, 231]
    rates = rolling_acceptance(long)
    decoded = [r for r in shown if "offered" in r]
    assert [r["newest_accepted"] / r["newest_offered"] for r in decoded] == [
        rates[r["window"] // 2] for r in decoded
    ]
    view.select(window=None)
    assert rows(view, "rolling") == newest


def good_then_bad(good: int, bad: int) -> list[WindowRecord]:
    return [window(3, 3)] * good + [window(3, 0)] * bad


def test_a_spell_is_the_sessions_own() -> None:
    quiet = Acceptance(good_then_bad(10, LONG - 1))
    assert "WARNING" not in quiet.text()
    view = Acceptance(good_then_bad(10, LONG))
    assert view.text().startswith(
        f"Acceptance(WARNING: no draft was accepted in {LONG} windows with drafts "
        "since window 10, before it was 100%: either the text has turned"
    )
    values = view._live["rolling"].values
    assert (values["spell"], values["spell_end"]) == (10, 9 + LONG)
    # Rejections before the last draft accepted are in no spell.
    twice = Acceptance([*good_then_bad(9, 2), *good_then_bad(9, LONG)])
    assert f"in {LONG} windows with drafts since window 20" in twice.text()
    # Bad from the first window on is no spell: nothing was better before.
    assert "WARNING" not in Acceptance(good_then_bad(0, LONG + 9)).text()


def test_a_spell_goes_on_over_plain_windows_and_ends_with_a_draft_accepted() -> None:
    records = [*good_then_bad(10, 30), PROMPT, window(0, 0), *good_then_bad(0, LONG)]
    long = Trace(records)
    view = Acceptance(long)
    assert f"in {LONG + 30} windows with drafts since window 10" in view.text()
    long.append(window(3, 1))
    view.refresh()
    assert "WARNING" not in view.text()
    assert "1 spell of rejections, the last from window 10 to 91;" in view.text()
    assert view._live["rolling"].values["spell"] == -1


def test_a_window_is_shown_row_by_row() -> None:
    view = Acceptance(HAND)
    (table,) = view._tables()
    assert table.text().splitlines() == [
        "Window 6, the newest: T = 4, 1 of 1 drafts accepted, keep 2 (forced), drafted "
        "by typed",
        "row  input id  verdict      kept  prediction id",
        "0    0         root         yes   1",
        "1    1         accepted     yes   91",
        "2    2         not counted  no    92",
        "3    3         not counted  no    93",
    ]
    view.select(window=2)
    (table,) = view._tables()
    assert table.text().splitlines()[0].startswith("Window 2: T = 4, 1 of 3 drafts")
    assert [row[2] for row in table.rows] == [
        "root",
        "accepted",
        "first mismatch",
        "never reached",
    ]
    view.select(window=0)
    (table,) = view._tables()
    assert table.caption == "Window 0: 3 cells of a prompt, no drafts"
    assert list(table.rows) == []


class Words:
    name, stop_ids = "words", (0,)

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(f"<b onclick={token}>" for token in ids)


def test_tokens_are_chips_with_the_text_as_it_is() -> None:
    view = Acceptance(HAND, model=Words())
    view.select(window=2)
    (table,) = view._tables()
    assert table.head[1] == "input"
    assert [row[1] for row in table.rows] == [
        {"id": at, "text": f"<b·onclick={at}>", "role": role}
        for at, role in enumerate(("root", "accepted", "mismatch", "unreached"))
    ]
    bonus = [isinstance(r[5], dict) and r[5].get("role") for r in table.rows]
    assert bonus == [None, "bonus", None, None]
    assert "<b·onclick=1>" in view.text()


def test_selection_goes_both_ways() -> None:
    view, line = Acceptance(trace(40)), Timeline(trace(40))
    link(view, line)
    line.select(window=12)
    assert view.selection["window"] == 12
    assert "window 12: cell" in view.text()
    view._clicked({"window": 7, "end": 8})
    assert line.selection["window"] == 7
    assert view._live["rolling"].values["window"] == 7


def test_a_window_that_is_not_there_is_said_and_the_newest_stays() -> None:
    view = Acceptance(HAND)
    view.select(window=99)
    assert "window 99 is selected, which this trace lacks" in view.text()
    assert "Window 6, the newest" in view.text()


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (lambda: Acceptance(3), TypeError, "a trace is wanted, .* got int"),
        (
            lambda: Acceptance([], model=3),  # type: ignore[arg-type]
            TypeError,
            "`model` must know the text of tokens, got int; pass what `strata_nb.load`",
        ),
        (lambda: Acceptance([], layers=1), TypeError, "has no trait `layers`"),
        (
            lambda: Acceptance([]).select(window=-1),
            traitlets.TraitError,
            "`window` must be None or an index",
        ),
    ],
)
def test_misuse_is_refused(made: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        made()


def test_empty_says_what_to_do() -> None:
    view = Acceptance([])
    assert view.text() == "Acceptance(no windows yet)"
    assert rows(view, "matches") == [
        {"note": "Draft with `SuffixLookup`: it tells how long a match is."}
    ]
    for chart in ("rolling", "positions", "keeps"):
        assert rows(view, chart) == [
            {"note": "Commit a window with drafts, and it appears here."}
        ]
    assert "Commit a window" in rows(Acceptance([PROMPT]), "positions")[0]["note"]


def test_rows_stay_few_over_thousands_of_windows() -> None:
    view = Acceptance(trace(3000))
    assert len(rows(view, "rolling")) == SPAN
    assert len(rows(view, "positions")) == 7
    assert len(rows(view, "matches")) <= len(BARS)
    assert len(view._rolling._recent) == 32
    assert len(view._recent) == SPAN


def test_drafts_past_the_seventh_are_said() -> None:
    view = Acceptance([window(9, 8)])
    assert len(rows(view, "positions")) == len(rows(view, "keeps")) == 7
    assert "8 of 9 (88.9%) drafts accepted" in view.text()
    assert "drafts past the 7th are counted, not drawn" in view.text()


@pytest.fixture
def appended(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Windows of each append to the rolling chart."""
    found: list[list[int]] = []

    def append(self: LiveChart, *added: dict[str, Any]) -> None:
        found.append([row["window"] for row in added])
        was(self, *added)

    was = LiveChart.append
    monkeypatch.setattr(LiveChart, "append", append)
    return found


def grow(long: Trace, records: Iterable[WindowRecord], view: Acceptance) -> None:
    for record in records:
        long.append(record)
        view.refresh()


def test_growth_sends_only_what_is_new(appended: list[list[int]]) -> None:
    whole = trace(SPAN + 20)
    long = Trace(whole[:10])
    view = Acceptance(long)
    grow(long, list(whole)[10:], view)
    assert appended == [[at] for at in range(10, SPAN + 20)]
    again = Acceptance(whole)
    for chart in again._live:
        assert rows(view, chart) == rows(again, chart)
    assert view.text() == again.text()


def test_undone_windows_are_forgotten() -> None:
    long = Trace(trace(30))
    view = Acceptance(long)
    long.truncate(20)
    view.refresh()
    again = Acceptance(long)
    for chart in again._live:
        assert rows(view, chart) == rows(again, chart)
    assert view.text() == again.text()
    # Other windows in their place, and more of them than there were.
    long.truncate(10)
    for record in trace(30, seed=2):
        long.append(record)
    view.refresh()
    assert rows(view, "rolling") == rows(Acceptance(long), "rolling")
