"""Charts of drafters: what they count, what they say, how they look."""

from collections.abc import Callable
from typing import Any

import altair as alt
import pytest
import vl_convert

from strata_nb.trace import WindowRecord
from strata_widgets import LiveChart, draft_charts
from strata_widgets.draft_charts import Gain, Yield
from strata_widgets.theme import PALETTE
from trace_samples import prompt_window
from trace_samples import window as recorded

SAID: dict[str, Any] = {"title": "A title", "description": "What is to be seen."}
YIELDS = [Yield("edit", "lookup", 3.25), Yield("prose", "lookup", 1.5)]
GAINS = [Gain("edit", 0.0, 3.0), Gain("edit", 0.5, 1.2), Gain("prose", 0.0, 1.5)]


def window(match: int | None, fates: str, **more: Any) -> WindowRecord:
    """A window whose drafts are accepted (a), wrong (x) or behind a wrong one (-)."""
    accepted = fates.count("a")
    inputs = (9, *range(len(fates)))
    predictions = [*range(accepted), *[99] * (len(fates) + 1 - accepted)]
    return recorded(
        inputs=inputs,
        predictions=tuple(predictions),
        emitted=tuple(predictions[: accepted + 1]),
        offered=len(fates),
        accepted=accepted,
        keep=accepted + 1,
        match_length=match,
        decisions=[],
        **more,
    )


TRACE = [
    window(64, "aaa"),
    window(4, "ax-"),
    window(3, "x"),
    window(7, "aa"),
    window(6, "x-"),
    window(None, ""),
    window(5, ""),
]

AnyDrawn = alt.LayerChart | alt.FacetChart
ALL: dict[str, Callable[[], AnyDrawn]] = {
    "matches": lambda: draft_charts.acceptance_by_match(draft_charts.matches(TRACE)),
    "yields": lambda: draft_charts.yields(YIELDS, **SAID),
    "gains": lambda: draft_charts.gains(GAINS, **SAID),
}
each_chart = pytest.mark.parametrize("name", ALL)


def rows_of(chart: AnyDrawn) -> list[dict[str, Any]]:
    (rows,) = chart.to_dict()["datasets"].values()
    return list(rows)


def test_drafts_are_counted_by_the_match_they_rest_on() -> None:
    rows = rows_of(draft_charts.acceptance_by_match(draft_charts.matches(TRACE)))
    assert [(r["match"], r["label"]) for r in rows if r["order"] == 0] == [
        ("1-3", "0/1"),
        ("4", "1/3"),
        ("6-7", "2/4"),
        ("64 up", "3/3"),
    ]
    assert [r["says"] for r in rows if r["match"] == "4"] == [
        "match of 4 tokens: 1 of 3 accepted",
        "match of 4 tokens: 1 of 3 first mismatch",
        "match of 4 tokens: 1 of 3 never reached",
    ]
    shares = [r["share"] for r in rows if r["match"] == "6-7"]
    assert shares == [0.5, 0.25, 0.25]


def test_windows_without_matches_is_refused() -> None:
    with pytest.raises(ValueError, match="no window rests on a match; pass windows"):
        draft_charts.acceptance_by_match([(None, 1, 1), (4, 0, 0)])


def test_prompt_windows_are_no_windows_with_drafts() -> None:
    assert draft_charts.matches([prompt_window(3), window(5, "ax")]) == [(5, 2, 1)]


def test_bars_and_lines_have_their_numbers() -> None:
    assert [r["label"] for r in rows_of(ALL["yields"]())] == ["3.25", "1.50"]
    says = [r["says"] for r in rows_of(ALL["gains"]())]
    assert says[1] == "edit: at 50% a row 1.20 times"


@pytest.mark.parametrize("draw", [draft_charts.yields, draft_charts.gains])
def test_nothing_is_no_picture(draw: Callable[..., AnyDrawn]) -> None:
    with pytest.raises(ValueError, match="got none; list at least one"):
        draw([], **SAID)
    some: list[Any] = YIELDS if draw is draft_charts.yields else GAINS
    with pytest.raises(ValueError, match="`description` must say"):
        draw(some, **{**SAID, "description": " "})


@each_chart
def test_it_says_what_it_shows_in_words_and_units(name: str) -> None:
    spec = ALL[name]().to_dict()
    assert spec["description"]
    text = str(spec)
    assert "(tokens)" in text or "(mean)" in text or "(times)" in text
    assert all(row["says"] for row in rows_of(ALL[name]()))


@each_chart
def test_colours_are_of_the_palette_and_it_can_be_live(name: str) -> None:
    text = vl_convert.vegalite_to_svg(ALL[name]().to_dict(), vl_version="6.4")
    used = {c for c in PALETTE.values() if c in text}
    assert used
    one, other = (LiveChart(ALL[name]()) for _ in range(2))
    assert (one.spec, one.rows) == (other.spec, other.rows)
