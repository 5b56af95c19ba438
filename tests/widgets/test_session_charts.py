"""Requests as bars: what was there, what was read, and the ring below."""

from typing import Any

import altair as alt
import pytest
import vl_convert

from strata_widgets import LiveChart
from strata_widgets.session_charts import PARTS, Asked, requests

SAID = {"title": "What each took", "description": "Bars, one a request."}
ASKED = [
    Asked("1 first", 0, 43, 25, (32, 43, 68)),
    Asked("2 longer", 68, 39, 3, (43, 68, 107)),
    Asked("3 nothing new", 43, 0, 25, (68, 107, 43)),
]


def rows_of(chart: alt.LayerChart) -> list[dict[str, Any]]:
    (rows,) = chart.to_dict()["datasets"].values()
    return list(rows)


def test_bars_lie_end_to_end_and_empty_ones_are_left_out() -> None:
    rows = [r for r in rows_of(requests(ASKED, **SAID)) if "part" in r]
    assert [(r["name"][0], r["part"], r["begin"], r["end"]) for r in rows] == [
        ("1", "read", 0, 43),
        ("1", "emitted", 43, 68),
        ("2", "reused", 0, 68),
        ("2", "read", 68, 107),
        ("2", "emitted", 107, 110),
        ("3", "reused", 0, 43),
        ("3", "emitted", 43, 68),
    ]
    # A number that would not fit into its bar is left to the words.
    assert [r["label"] for r in rows] == ["43", "25", "68", "39", "", "43", "25"]
    assert rows[4]["says"] == "2 longer: 3 emitted"


def test_checkpoints_that_are_gone_are_crosses() -> None:
    rows = [r for r in rows_of(requests(ASKED, **SAID)) if "mark" in r]
    dropped = [(r["name"], r["begin"]) for r in rows if r["mark"] == "dropped"]
    assert dropped == [("2 longer", 32)]
    assert len(rows) == 9 + 1
    assert rows[0]["says"] == "1 first: cell 32: checkpoint"


def test_two_checkpoints_at_one_cell_stand_below_each_other() -> None:
    branches = [
        Asked("1 both", 0, 43, 25, (32, 96, 96)),
        Asked("2 one left", 0, 43, 25, (96, 107)),
    ]
    rows = [r for r in rows_of(requests(branches, **SAID)) if "mark" in r]
    assert [(r["begin"], r["mark"], r["nth"]) for r in rows] == [
        (32, "checkpoint", 0),
        (96, "checkpoint", 0),
        (96, "checkpoint", 1),
        (96, "checkpoint", 0),
        (96, "dropped", 1),
        (107, "checkpoint", 0),
        (32, "dropped", 0),
    ]
    assert rows[2]["says"] == "1 both: cell 96: checkpoint, one more"


def test_a_request_without_checkpoints_is_a_bar_alone() -> None:
    assert len(rows_of(requests([Asked("one", 0, 8, 8)], **SAID))) == 2


@pytest.mark.parametrize(
    ("asked", "said", "why"),
    [
        ([], SAID, "wants requests, got none"),
        ([ASKED[0], ASKED[0]], SAID, "two requests have one name"),
        (ASKED, {**SAID, "description": " "}, "`description` must say"),
    ],
)
def test_what_makes_no_picture_is_refused(
    asked: list[Asked], said: dict[str, str], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        requests(asked, **said)


def test_it_has_units_words_and_the_colours_of_the_palette() -> None:
    spec = requests(ASKED, **SAID).to_dict()
    assert spec["description"]
    assert "(count)" in str(spec)
    svg = vl_convert.vegalite_to_svg(spec, vl_version="6.4")
    assert all(colour in svg for _, colour in PARTS.values())
    assert all(row["says"] for row in rows_of(requests(ASKED, **SAID)))


def test_it_can_be_live_and_repeats() -> None:
    one, other = (LiveChart(requests(ASKED, **SAID)) for _ in range(2))
    assert (one.spec, one.rows) == (other.spec, other.rows)
