"""The three charts of a state diff, without rows; each is made once."""

import functools
from typing import Any, Final

import altair as alt

from strata_widgets.drawing import (
    INK,
    PALE,
    WIDE,
    Names,
    Said,
    noted,
    pale,
    spoken,
)
from strata_widgets.layers import BY_CELL, finished, whole
from strata_widgets.state_diff.compared import WHOLE, Kind
from strata_widgets.theme import PALETTE

WORDS: Final[dict[Kind, str]] = {
    "equal": "equal",
    "unchanged": "equal, never changed (·)",
    "differs": "differs (✗)",
    "absent": "absent in one (-)",
}
SIGNS: Final[dict[Kind, str]] = {
    "equal": "",
    "unchanged": "·",
    "differs": "✗",
    "absent": "-",
}
LOWEST: Final = 1e-9
HIGHEST: Final = 1e4
"""Ends of the axis of sizes; what lies outside is drawn at the end, with its number."""

# As where states are drawn as boxes: right is the page's ink, wrong the mismatch's
# colour, grey what says nothing. What is absent is an empty frame.
_COLOURS: Final = {
    WORDS["equal"]: INK,
    WORDS["unchanged"]: PALETTE["unreached"],
    WORDS["differs"]: PALETTE["mismatch"],
    WORDS["absent"]: INK,
}
# With the names of the parts beside it a chart fits a narrow page.
_WIDTH: Final = WIDE - 40
_ROW: Final = 24
_HEIGHT: Final = 140
_CHOSEN: Final = "datum.at === chosen && (layer < 0 || datum.layer === layer)"
_LAYER: Final = "layer (index; all: of the whole sequence)"


@functools.cache
def parts_and_layers(parts: Names, layers: tuple[int, ...]) -> alt.LayerChart:
    """A box for each part and layer: equal, differs, absent, never changed.

    A row of data is a box: `part`, `at` (its index), `layer`, `kind`, `sign`, `shade`
    (0 to 1, by the size on a log scale), `says`.

    Args:
        parts: from the top.
        layers: from the left; `WHOLE` is the whole sequence.
    """
    x, y = _across(layers), _down(parts)
    shades = alt.Scale(domain=[0, 1], range=[PALE, 1])
    shade = alt.FillOpacity("shade:Q", scale=shades, legend=None)
    boxes = pale(
        alt.Chart().transform_filter("isValid(datum.kind)"),
        # The legend shows the palest of those that differ.
        {"x": x, "y": y, "fillOpacity": shade},
        ("kind:N", _COLOURS),
        hollow=WORDS["absent"],
        width=1,
        cornerRadius=2,
        cursor="pointer",
    )
    signs = (
        alt.Chart()
        .transform_filter("isValid(datum.kind)")
        .mark_text(fontSize=12, fontWeight="bold", aria=False, cursor="pointer")
        .encode(x=x, y=y, text=alt.Text("sign:N"), tooltip=spoken()["tooltip"])
    )
    chosen = (
        alt.Chart()
        .transform_filter(f"isValid(datum.kind) && {_CHOSEN}")
        .mark_rect(fillOpacity=0, stroke=INK, strokeWidth=2.5, aria=False)
        .encode(x=x, y=y)
    )
    height = _ROW * len(parts)
    words = Said(
        "Part by layer",
        "the stronger the colour, the larger the difference; click: the arrays of a "
        "box",
        "A grid: parts of the state down, layers across; whether two states are equal "
        "there, differ, or one of them lacks the part.",
    )
    return _made([*boxes, signs, chosen, noted(_WIDTH, height)], height, words)


@functools.cache
def sizes(layers: tuple[int, ...]) -> alt.LayerChart:
    """A dot for each part and layer that differs, by the size of the difference.

    A row of data is a dot: `at`, `layer`, `drawn` (the size, inside the axis), `shape`
    (whether it is a number), `says`.
    """
    x = _across(layers)
    y = alt.Y(
        "drawn:Q",
        title="largest difference (absolute)",
        scale=alt.Scale(type="log", domain=[LOWEST, HIGHEST], nice=False),
        axis=alt.Axis(values=[1e-9, 1e-6, 1e-3, 1, 1e3], format=".0e", grid=True),
    )
    shape = alt.Shape(
        "shape:N",
        scale=alt.Scale(
            domain=["a number", "shapes differ, or NaN"],
            range=["circle", "triangle-up"],
        ),
        legend=alt.Legend(columns=2, symbolType=alt.Undefined),
    )
    channels: dict[str, Any] = {"x": x, "y": y, "shape": shape, **spoken()}
    look: dict[str, Any] = {"size": 55, "color": PALETTE["mismatch"], "strokeWidth": 2}
    others = (
        alt.Chart()
        .transform_filter("isValid(datum.drawn) && datum.at !== chosen")
        .mark_point(filled=False, opacity=0.6, cursor="pointer", **look)
        .encode(**channels)
    )
    own = (
        alt.Chart()
        .transform_filter("isValid(datum.drawn) && datum.at === chosen")
        .mark_point(filled=True, opacity=1, cursor="pointer", **look)
        .encode(**channels)
    )
    picked = (
        alt.Chart()
        .transform_filter(f"isValid(datum.drawn) && {_CHOSEN} && layer >= 0")
        .mark_point(filled=False, size=170, color=INK, strokeWidth=2, aria=False)
        .encode(x=x, y=y)
    )
    words = Said(
        "How large the differences are",
        "filled: the chosen part; hollow: the others",
        "Dots: the largest absolute difference of each part, by layer, on a log scale.",
    )
    return _made([others, own, picked, noted(_WIDTH, _HEIGHT)], _HEIGHT, words)


@functools.cache
def first_cells(parts: Names) -> alt.LayerChart:
    """The first cell at which each part differs.

    A row of data is a part: `part`, `at`, `layer`, `cell`, `says`.
    """
    x = whole("cell:Q", "position", BY_CELL).axis(format="d", tickMinStep=1)
    y = _down(parts)
    found = alt.Chart().transform_filter("isValid(datum.cell)")
    dots = found.mark_point(
        filled=True, size=70, opacity=1, color=PALETTE["mismatch"], cursor="pointer"
    ).encode(x=x, y=y, **spoken())
    label = found.mark_text(align="right", dx=-8, aria=False).encode(
        x=x, y=y, text=alt.Text("cell:Q")
    )
    rules = alt.Chart().transform_aggregate(pieces="count()")
    at_end = rules.mark_rule(color=INK, strokeDash=[4, 3], aria=False).encode(
        x=alt.X(datum=alt.ExprRef("position"), type="quantitative")
    )
    here = (
        rules.transform_filter("cell >= 0")
        .mark_rule(color=INK, strokeWidth=2, aria=False)
        .encode(x=alt.X(datum=alt.ExprRef("cell"), type="quantitative"))
    )
    height = _ROW * len(parts)
    words = Said(
        "The first cell that differs",
        "of parts that have cells; dashed: where the first state ends; click: "
        "selects the cell",
        "Dots: the first absolute cell at which each part of the two states differs.",
    )
    layers = [at_end, here, dots, label, noted(_WIDTH, height)]
    return _made(layers, height, words, position=0, cell=-1)


def _made(
    layers: list[alt.Chart], height: int, words: Said, **values: int
) -> alt.LayerChart:
    at: dict[str, int] = {"chosen": -1, "layer": -1, **values}
    return finished(layers, words, width=_WIDTH, height=height, **at)


def _across(layers: tuple[int, ...]) -> alt.X:
    scale = alt.Scale(domain=list(layers), paddingInner=0.12, paddingOuter=0.06)
    axis = alt.Axis(
        labelExpr=f"datum.value === {WHOLE} ? 'all' : datum.label",
        labelAngle=0,
        labelOverlap=True,
        domain=False,
        ticks=False,
    )
    return alt.X("layer:O", title=_LAYER, scale=scale, axis=axis)


def _down(parts: Names) -> alt.Y:
    scale = alt.Scale(domain=list(parts), paddingInner=0.15, paddingOuter=0.08)
    axis = alt.Axis(domain=False, ticks=False, labelLimit=160, grid=False)
    return alt.Y("part:N", title="part", scale=scale, axis=axis)
