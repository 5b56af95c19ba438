from collections.abc import Callable, Iterable
from typing import Any

import altair as alt
import numpy as np
import pytest

from strata_nb.theory import uniform_union
from strata_nb.trace import LayerDecisions, WindowRecord, window_record
from strata_widgets import charts, theme

SIZES: dict[str, int] = {"experts": 128, "chosen": 2, "depth": 3}


def record(rows: int, accepted: int, **rest: Any) -> WindowRecord:
    """A window of `rows` rows whose first mismatch follows `accepted` drafts."""
    inputs = list(range(100, 100 + rows))
    predictions = [*inputs[1:], 7]
    if accepted < rows - 1:
        predictions[accepted] = 5
    experts = np.arange(rows * 2).reshape(rows, 2)
    fields: dict[str, Any] = {
        "keep": accepted + 1,
        "offered": rows - 1,
        "accepted": accepted,
    }
    fields |= {"predictions": predictions, **rest}
    return window_record(
        position=10,
        inputs=inputs,
        rule="greedy",
        decisions=[LayerDecisions(experts), None, LayerDecisions(experts % 3)],
        **fields,
    )


PROMPT = WindowRecord(position=0, inputs=(1, 2, 3), keep=3, headless=True)
ALL: dict[str, Callable[[Iterable[WindowRecord]], alt.LayerChart]] = {
    "windows": charts.acceptance_over_windows,
    "positions": charts.acceptance_by_position,
    "union": lambda trace: charts.expert_union(trace, **SIZES),
}


def rows_of(chart: alt.LayerChart) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    rows: list[dict[str, Any]] = spec["datasets"][spec["data"]["name"]]
    return rows


def axes(spec: Any) -> list[dict[str, Any]]:
    """Every position channel with a field, wherever it is in `spec`."""
    found = []
    if isinstance(spec, list):
        for part in spec:
            found += axes(part)
    elif isinstance(spec, dict):
        for name, part in spec.items():
            if name in ("x", "y") and isinstance(part, dict) and "title" in part:
                found.append(part)
            found += axes(part)
    return found


@pytest.mark.parametrize(
    ("inputs", "predictions", "accepted", "offered", "roles"),
    [
        ([1], [2], 0, 0, ["root"]),
        ([1, 2, 3], [2, 3, 9], 2, 2, ["root", "accepted", "accepted"]),
        ([1, 2, 3], [8, 3, 9], 0, 2, ["root", "mismatch", "unreached"]),
        # A stop id after row 0 ends the window: the draft behind it took no part.
        ([1, 2, 3], [0, 3, 9], 0, 0, ["root", "uncounted", "uncounted"]),
        # A keep of 2, the natural one being 3: the second draft was given up.
        ([1, 2, 3], [2, 3, 9], 1, 1, ["root", "accepted", "uncounted"]),
    ],
)
def test_verdicts(
    inputs: list[int],
    predictions: list[int],
    accepted: int,
    offered: int,
    roles: list[str],
) -> None:
    got = charts.verdicts(inputs, predictions, accepted=accepted, offered=offered)
    assert got == roles


def test_each_window_is_counted_by_verdict() -> None:
    rows = rows_of(charts.acceptance_over_windows([PROMPT, record(4, 1), record(3, 2)]))
    seen = {(r["window"], r["verdict"]): r["drafts"] for r in rows}
    assert seen == {
        (1, "accepted"): 1,
        (1, "first mismatch"): 1,
        (1, "never reached"): 1,
        (2, "accepted"): 2,
        (2, "first mismatch"): 0,
        (2, "never reached"): 0,
    }


def test_each_position_is_counted_over_the_windows_that_offered_it() -> None:
    rows = rows_of(charts.acceptance_by_position([record(4, 1), record(3, 2)]))
    labels = {r["position"]: r["label"] for r in rows}
    assert labels == {1: "2/2", 2: "1/2", 3: "0/1"}
    for position in labels:
        assert sum(r["share"] for r in rows if r["position"] == position) == 1


def test_the_union_of_a_window_by_layer() -> None:
    rows = rows_of(charts.expert_union([record(2, 0), record(3, 1)], **SIZES))
    sizes = {(r["layer"], r["part"]): r["size"] for r in rows}
    assert sizes == {
        (0, "root"): 2,
        (0, "added by drafts"): 4,
        (2, "root"): 2,
        (2, "added by drafts"): 1,
    }
    assert {r["label"] for r in rows} == {"window 2, T = 3"}
    expected = uniform_union(128, 2, 3)
    assert {r["uniform"] for r in rows} == {round(expected, 2)}


def test_numbers_of_many_layers_keep_apart() -> None:
    large = SIZES | {"depth": 24}
    bars = charts.expert_union([], **large).to_dict()["layer"][0]
    axis = bars["encoding"]["x"]["axis"]
    assert axis["labelOverlap"]
    assert axis["labelSeparation"] >= 4


def test_an_older_window_s_union_by_its_index() -> None:
    trace = [record(2, 0), record(3, 1)]
    rows = rows_of(charts.expert_union(trace, window=0, **SIZES))
    assert rows[0]["label"] == "window 1, T = 2"
    with pytest.raises(IndexError):
        charts.expert_union(trace, window=2, **SIZES)


def test_drafts_that_a_smaller_keep_gave_up_are_in_no_bar() -> None:
    given_up = record(4, 1, predictions=[101, 102, 103, 7], offered=1)
    rows = rows_of(charts.acceptance_over_windows([given_up]))
    assert [r["drafts"] for r in rows] == [1, 0, 0]
    assert {r["label"] for r in rows_of(charts.acceptance_by_position([given_up]))} == {
        "1/1"
    }


def test_windows_without_drafts_leave_the_hint() -> None:
    (row,) = rows_of(charts.acceptance_over_windows([record(1, 0)]))
    assert row["note"].startswith("Commit a window with drafts")


@pytest.mark.parametrize("name", ALL)
def test_an_empty_chart_says_what_to_do(name: str) -> None:
    (row,) = rows_of(ALL[name]([PROMPT]))
    assert "window" in row["note"]
    assert row["note"].endswith(" here.")


@pytest.mark.parametrize("name", ALL)
def test_axes_have_titles_with_units_and_stay_where_they_are(name: str) -> None:
    empty, full = (
        axes(ALL[name](trace).to_dict()) for trace in ([], [record(8, 3)] * 9)
    )
    assert len(full) >= 2
    for axis in full:
        assert axis["title"].endswith(")")
        assert axis["scale"]["domain"]
    assert [a["scale"] for a in empty] == [a["scale"] for a in full]


def test_more_windows_than_a_page_double_it_and_then_move_on() -> None:
    def domain(count: int) -> list[int]:
        chart = charts.acceptance_over_windows([record(2, 1)] * count).to_dict()
        found: list[int] = axes(chart)[0]["scale"]["domain"]
        return found

    assert [len(domain(n)) for n in (0, 16, 17, 33, 64, 70)] == [16, 16, 32, 64, 64, 64]
    assert (domain(70)[0], domain(70)[-1]) == (7, 70)


@pytest.mark.parametrize("name", ALL)
def test_each_chart_describes_itself(name: str) -> None:
    spec = ALL[name]([]).to_dict()
    assert spec["description"].startswith("Stacked bars")
    assert spec["title"]["text"]


def test_a_word_has_the_same_colour_in_every_chart() -> None:
    colours: dict[str, str] = {}
    for make in ALL.values():
        for layer in make([record(4, 2)]).to_dict()["layer"]:
            scale = layer["encoding"].get("color", {}).get("scale", {})
            for word, colour in zip(
                scale.get("domain", []), scale.get("range", []), strict=True
            ):
                assert colours.setdefault(word, colour) == colour
    assert colours
    assert len(set(colours.values())) == len(colours)
    assert set(colours.values()) <= set(theme.PALETTE.values())
