"""The drawings of `state_charts`: everything but their rows.

It takes Altair a tenth of a second to check one, so each is made once for what it must
hold, its moments and places, and then filled with the rows of the moment.
"""

import functools
from typing import Final, Literal, TypeAlias

import altair as alt

from strata_widgets.drawing import INK, Names, Said, pale, spoken, worded
from strata_widgets.theme import PALETTE

State: TypeAlias = Literal["committed", "drafted", "rejected", "free"]

COLOURS: Final[dict[State, str]] = {
    "committed": INK,
    "drafted": PALETTE["added"],
    "rejected": PALETTE["mismatch"],
    "free": PALETTE["unreached"],
}
BOX: Final = (62, 30)
"""Width and height of a box and the space around it, in pixels."""
LINE: Final = "|"
"""Breaks the line of a moment."""

_WIDTH: Final = 430
_BAR: Final = 17
_LINE_HEIGHT: Final = 28


@functools.cache
def boxes(
    moments: Names,
    places: Names,
    states: tuple[tuple[State, str], ...],
    axes: tuple[str, str],
    said: Said,
) -> alt.LayerChart:
    """Columns of boxes.

    Args:
        moments: columns.
        places: rows of boxes.
        states: with the words of the legend.
        axes: titles of the axes, across and down.
        said: title and so on.
    """
    x = alt.X(
        "moment:N",
        title=axes[0],
        scale=alt.Scale(domain=list(moments), paddingInner=0.1, paddingOuter=0.05),
        axis=_broken(),
    )
    y = alt.Y(
        "place:N",
        title=axes[1],
        scale=alt.Scale(domain=list(places), paddingInner=0.18, paddingOuter=0.09),
        axis=alt.Axis(domain=False, ticks=False, labelLimit=260),
    )
    # Below a narrow grid the legend would stick out.
    columns = 2 if len(moments) < 7 else 4
    framed = alt.Chart().transform_filter("datum.framed")
    frame = framed.mark_rect(
        fillOpacity=0, stroke=INK, strokeWidth=3.5, cornerRadius=3, aria=False
    )
    text = alt.Chart().mark_text(fontSize=12, aria=False)
    layered = alt.LayerChart(
        layer=[
            *pale(
                alt.Chart(),
                {"x": x, "y": y},
                ("state:N", {word: COLOURS[state] for state, word in states}),
                wrong="datum.wrong",
                columns=columns,
                cornerRadius=3,
            ),
            frame.encode(x=x, y=y),
            text.encode(x=x, y=y, text=alt.Text("text:N")),
        ],
        width=BOX[0] * len(moments),
        height=BOX[1] * len(places),
    )
    return worded(layered, said)


@functools.cache
def distances(
    moments: Names,
    parts: Names,
    layers: tuple[int, ...],
    highest: float,
    said: Said,
) -> alt.FacetChart:
    """Bars by layer, a panel a moment, a line of panels a part.

    Args:
        moments: panels.
        parts: lines of panels.
        layers: bars.
        highest: end of the axis, as a share.
        said: title and so on.
    """
    x = alt.X(
        "layer:O",
        title="layer (index)",
        scale=alt.Scale(domain=list(layers)),
        axis=alt.Axis(labelAngle=0),
    )
    y = alt.Y(
        "drawn:Q",
        title="distance (%)",
        # Room above the highest bar for its number.
        scale=alt.Scale(domain=[0, 1.15 * highest]),
        axis=alt.Axis(format=".0%", tickCount=4),
    )
    label = alt.Chart().mark_text(dy=-7, fontSize=9, aria=False)
    panel = alt.LayerChart(
        layer=_bars(x, y, "mismatch", label),
        width=_BAR * len(layers),
        height=130 if len(parts) == 1 else 90,
    )
    header = alt.Header(labelExpr=f"split(datum.label, '{LINE}')")
    facet = panel.facet(
        column=alt.Column("moment:N", title=None, sort=list(moments), header=header),
        row=alt.Row("part:N", title=None, sort=list(parts)),
        spacing=14,
        data=alt.InlineData(values=[]),
    )
    return worded(facet, said)


@functools.cache
def gaps(
    whats: Names, cells: tuple[int, int], top: float, said: Said
) -> alt.LayerChart:
    """Dots by cell, and a rule at one cell.

    Args:
        whats: kinds of dots, one or two.
        cells: the first and the last.
        top: end of the axis.
        said: title and so on.
    """
    scale = alt.Scale(domain=list(cells), nice=False)
    x, at = alt.X("cell:Q", title="cell (index)", scale=scale), alt.X("mark:Q")
    y = alt.Y(
        "size:Q",
        title="largest difference (absolute)",
        # Linear around zero, so that "none" has a place on the axis.
        scale=alt.Scale(type="symlog", constant=1e-4, domain=[0, top]),
        axis=alt.Axis(values=[0, 1e-3, 1e-2, 1e-1, 1, 10], format="~g"),
    )
    colours = [PALETTE["mismatch"], PALETTE["root"]][: len(whats)]
    names = list(whats)
    points = alt.Chart().transform_filter("isValid(datum.what)")
    rule = alt.Chart().transform_filter("isValid(datum.mark)")
    dots = points.mark_point(filled=True, size=26, opacity=1).encode(
        x=x,
        y=y,
        color=alt.Color("what:N", scale=alt.Scale(domain=names, range=colours)),
        shape=alt.Shape("what:N", scale=alt.Scale(domain=names)),
        **spoken(),
    )
    line = rule.mark_rule(color=INK, strokeDash=[4, 3], aria=False).encode(x=at)
    text = rule.mark_text(align="right", dx=-6, aria=False)
    note = text.encode(x=at, y=alt.YValue(10), text=alt.Text("label:N"))
    layered = alt.LayerChart(layer=[dots, line, note], width=_WIDTH, height=170)
    return worded(layered, said)


@functools.cache
def shares(names: Names, total: int, unit: str, said: Said) -> alt.LayerChart:
    """Bars from the left with "so many of so many" beside them.

    Args:
        names: bars, from the top.
        total: end of the axis.
        unit: title of the axis.
        said: title and so on.
    """
    x = alt.X("count:Q", title=unit, scale=alt.Scale(domain=[0, total]))
    layered = alt.LayerChart(
        layer=_bars(x, _down("name:N", names), "mismatch", _beside()),
        width=_WIDTH,
        height=_LINE_HEIGHT * len(names),
    )
    return worded(layered, said)


@functools.cache
def prices(rules: Names, most: float, said: Said) -> alt.FacetChart:
    """Bars from the left, a panel an acceptance.

    Args:
        rules: bars, from the top.
        most: length of the longest bar.
        said: title and so on.
    """
    x = alt.X(
        "tokens:Q",
        title="tokens per window (mean)",
        # Room beside the longest bar for its number.
        scale=alt.Scale(domain=[0, 1.2 * most]),
        axis=alt.Axis(tickCount=5),
    )
    panel = alt.LayerChart(
        layer=_bars(x, _down("rule:N", rules), "accepted", _beside()),
        width=170,
        height=_LINE_HEIGHT * len(rules),
    )
    facet = panel.facet(
        column=alt.Column("panel:N", title=None),
        spacing=20,
        data=alt.InlineData(values=[]),
    )
    return worded(facet, said)


def _bars(
    x: alt.X, y: alt.Y, colour: Literal["mismatch", "accepted"], label: alt.Chart
) -> list[alt.Chart]:
    bars = alt.Chart().mark_bar(color=PALETTE[colour]).encode(x=x, y=y, **spoken())
    return [bars, label.encode(x=x, y=y, text=alt.Text("label:N"))]


def _beside() -> alt.Chart:
    made: alt.Chart = alt.Chart().mark_text(align="left", dx=5, aria=False)
    return made


def _down(field: str, names: Names) -> alt.Y:
    scale = alt.Scale(domain=list(names), paddingInner=0.3)
    return alt.Y(field, title=None, scale=scale, axis=alt.Axis(labelLimit=260))


def _broken() -> alt.Axis:
    return alt.Axis(
        labelExpr=f"split(datum.label, '{LINE}')",
        labelAngle=0,
        labelLimit=2 * BOX[0],
        domain=False,
        ticks=False,
        titlePadding=8,
    )
