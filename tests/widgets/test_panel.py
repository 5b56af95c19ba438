"""`Panel`: controls that Python sets and a page uses, errors in words, a picture."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from strata_nb import StrataError
from strata_widgets.drawing import params, with_rows
from strata_widgets.panel import Panel
from strata_widgets.panel.control import Cell, Control, Table, button, choice
from strata_widgets.selection import Dimension
from strata_widgets.still import can_draw
from strata_widgets.theme import dressed

HOSTILE = "<img src=x onerror='window.hacked=1'></script>"


class Example(Panel):
    TITLE = "Example"
    SELECTS = ("layer",)

    def __init__(self) -> None:
        self.done: list[tuple[str, Any]] = []
        super().__init__()

    def _specs(self) -> Mapping[str, alt.LayerChart]:
        marks = alt.Chart().mark_point().encode(x="layer:Q", y="layer:Q")
        drawn = alt.LayerChart(layer=[marks]).add_params(*params(layer=-1))
        return {"points": with_rows(dressed(drawn, title="p", description="d"), [])}

    def _draw(self) -> None:
        self._live["points"].replace([{"layer": n} for n in range(3)])

    def _bounds(self, dimension: Dimension) -> tuple[int, int] | None:
        return 0, 2

    def _status(self) -> str:
        return f"layer {self.selection['layer']}"

    def _controls(self) -> Sequence[Control]:
        return [button("go", "Go"), choice("part", "Part", "a", ("a", "b"))]

    def _act(self, name: str, value: Any, values: Mapping[str, Any]) -> None:
        if value == "b":
            raise StrataError("no such part; choose another")
        self.done.append((name, values))

    def _tables(self) -> Sequence[Table]:
        rows: list[tuple[Cell, ...]] = [
            ("0", {"text": HOSTILE, "id": 3}),
            ("1", {"text": "·x"}),
        ]
        return [Table("Tokens", ("row", "token"), rows, hidden=4)]


def use(panel: Panel, name: str, value: Any, **values: Any) -> None:
    said = {"kind": "control", "name": name, "value": value, "values": values}
    panel._heard(panel, {**said, "ask": "p 1"}, [])
    panel._pace.flush()


def test_a_control_for_each_thing_that_can_be_selected() -> None:
    panel = Example()
    layer, go, part = panel._page["controls"]
    assert (layer["kind"], layer["label"], layer["value"]) == ("range", "Layer", None)
    assert (layer["least"], layer["most"]) == (0, 2)
    assert (go["label"], part["options"]) == ("Go", [["a", "a"], ["b", "b"]])
    use(panel, "layer", 2)
    assert panel.selection["layer"] == 2
    assert panel._page["controls"][0]["value"] == 2
    assert panel._page["status"] == "layer 2"
    assert panel._live["points"].values == {"window": -1, "layer": 2, "cell": -1}
    use(panel, "layer", None)
    assert panel.selection["layer"] is None


def test_a_click_brings_the_values_of_all_controls() -> None:
    panel = Example()
    use(panel, "go", True, part="a", layer=1)
    assert panel.done == [("go", {"part": "a", "layer": 1})]
    assert panel._page["answered"] == "p 1"


def test_a_control_is_answered_once() -> None:
    panel = Example()
    panel._pace._gap = 0
    sent = []
    panel.observe(lambda change: sent.append(change["new"]["answered"]), "_page")
    drawn: list[int] = []
    panel._tables = lambda: drawn.append(1) or ()  # type: ignore[method-assign, func-returns-value]
    said = {"kind": "control", "name": "layer", "value": 2, "ask": "p 7"}
    panel._heard(panel, said, [])
    assert sent == ["p 7"]
    assert len(drawn) == 1


def test_an_error_is_words_and_changes_nothing() -> None:
    panel = Example()
    use(panel, "part", "b")
    assert panel._page["note"] == {
        "kind": "error",
        "text": "no such part; choose another",
    }
    assert panel.done == []
    use(panel, "layer", -3)
    assert "`layer` must be None or a layer of the model" in panel._page["note"]["text"]
    use(panel, "go", True)
    assert panel._page["note"]["text"] == ""


def test_a_click_on_a_mark_selects_what_its_row_names() -> None:
    panel = Example()
    chart = panel._live["points"]
    chart._answer(chart, {"kind": "click", "row": {"layer": 1, "window": 5}}, [])
    assert panel.selection == {"window": None, "layer": 1, "cell": None}


def test_text_and_picture_hold_the_state() -> None:
    panel = Example()
    panel.selection = {"layer": 1}
    assert panel.text().splitlines()[0] == "Example(layer 1)"
    assert HOSTILE in panel.text()
    assert panel.text().splitlines()[-1] == "… 4 more"
    spec = panel.snapshot().spec
    assert spec["params"] == [{"name": "layer", "value": 1}]
    part, lines = spec["vconcat"]
    assert lines["data"]["values"][0]["text"] == "Tokens"
    assert HOSTILE.replace(" ", "\xa0") in lines["data"]["values"][2]["text"]
    assert part["data"]["values"] == [{"layer": 0}, {"layer": 1}, {"layer": 2}]
    if can_draw():
        assert panel.snapshot().png().startswith(b"\x89PNG")


def test_a_legend_in_the_picture_stays_with_its_chart() -> None:
    """One word may be solid in a chart and hollow in the next."""
    resolved = Example().snapshot().spec["resolve"]["scale"]
    looks = ("color", "fill", "stroke", "strokeDash")
    assert {resolved[look] for look in looks} == {"independent"}


def test_a_picture_has_room_for_so_many_lines() -> None:
    panel = Example()
    panel._prose = lambda: "\n".join(["x" * 300] * 40)  # type: ignore[method-assign]
    texts = [
        row["text"] for row in panel.snapshot().spec["vconcat"][1]["data"]["values"]
    ]
    assert len(texts) == 17
    assert texts[0] == "x" * 91 + "…"
    # Of 40 lines and the table's five.
    assert texts[-1] == "… 29 more lines"


def test_a_page_has_the_rows_before_it_asks() -> None:
    """Inside a box too, which does not say when it is shown."""
    chart = Example()._live["points"]
    assert chart._first["rows"] == chart.rows == [{"layer": n} for n in range(3)]
