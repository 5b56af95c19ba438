"""The drawings of `expert_charts`: everything but their rows.

Each is made once for what it must hold and then filled with the rows of the moment.
"""

import functools
from typing import Any, Final, cast

import altair as alt

from strata_widgets.drawing import (
    DASHES,
    INK,
    INKS,
    Look,
    Names,
    Said,
    drawn_as,
    opacities,
    spoken,
    worded,
)
from strata_widgets.theme import PALETTE, Role

PICKS: Final[dict[str, tuple[str, Role]]] = {
    "root": ("of the root", "root"),
    "new": ("added by a draft", "added"),
    "again": ("in the union already", "unreached"),
}
_WIDTH: Final = 430
_LINE: Final = 24
_BAR: Final = 15


@functools.cache
def picks(rows: Names, experts: int, said: Said) -> alt.LayerChart:
    """Ticks by expert, a line a row."""
    scale = alt.Scale(domain=[-1, experts], nice=False)
    x = alt.X("expert:Q", title="expert (index)", scale=scale)
    y = alt.Y("row:N", title="row of the window", scale=alt.Scale(domain=list(rows)))
    words = [word for word, _ in PICKS.values()]
    colours = [PALETTE[role] for _, role in PICKS.values()]
    ticks = alt.Chart().mark_tick(thickness=2, size=_LINE - 8).encode(
        x=x,
        y=y,
        color=alt.Color("what:N", scale=alt.Scale(domain=words, range=colours)),
        **spoken(),
    )  # fmt: skip
    layered = alt.LayerChart(layer=[ticks], width=_WIDTH, height=_LINE * len(rows))
    return worded(layered, said)


@functools.cache
def lines(
    names: Names,
    bounds: Names,
    places: tuple[float, ...],
    most: float,
    how: tuple[str, str, bool, bool],
    said: Said,
) -> alt.LayerChart:
    """Lines of one ink, told apart by their dashes, and bounds in grey.

    Args:
        names: of measured lines.
        bounds: of the others.
        places: ticks of the axis below.
        most: end of the axis beside.
        how: titles of both axes, whether the axis below doubles, whether the other has
            shares.
        said: title and so on.
    """
    across, up, doubling, percent = how
    ends = [places[0], places[-1]]
    scale = alt.Scale(domain=ends, nice=False)
    if doubling:
        scale = alt.Scale(domain=ends, nice=False, type="log", base=2)
    x = alt.X(
        "x:Q", title=across, scale=scale, axis=alt.Axis(values=list(places), format="d")
    )
    top = alt.Scale(domain=[0, 1.05 * most], nice=False)
    axis = alt.Axis(tickCount=6, format="%" if percent else "~f")
    y = alt.Y("y:Q", title=up, scale=top, axis=axis)
    every = [*names, *bounds]
    dashes = [*DASHES[: len(names)], *DASHES[1 : 1 + len(bounds)]]
    grey = PALETTE["unreached"]
    inks = [*[INK] * len(names), *[grey] * len(bounds)]
    legend = alt.Legend(symbolType="stroke", symbolSize=500, symbolStrokeWidth=2)
    look: dict[str, Any] = {
        "strokeDash": alt.StrokeDash(
            "name:N",
            scale=alt.Scale(domain=every, range=[list(d) for d in dashes]),
            legend=legend,
        ),
        "stroke": alt.Stroke(
            "name:N", scale=alt.Scale(domain=every, range=inks), legend=legend
        ),
    }
    line = alt.Chart().mark_line(strokeWidth=2).encode(x=x, y=y, **look, **spoken())
    dots = alt.Chart().transform_filter(
        alt.FieldOneOfPredicate(field="name", oneOf=list(names))
    )
    points = dots.mark_point(filled=True, size=22, opacity=1, color=INK, aria=False)
    layered = alt.LayerChart(
        layer=[line, points.encode(x=x, y=y)], width=_WIDTH, height=220
    )
    return worded(layered, said)


@functools.cache
def by_layer(
    panels: Names,
    layers: tuple[int, ...],
    most: float,
    axes: tuple[str, str],
    said: Said,
) -> alt.FacetChart:
    """Bars by layer and a tick above or on each, a panel a name."""
    x = alt.X(
        "layer:O",
        title=axes[0],
        scale=alt.Scale(domain=list(layers)),
        axis=alt.Axis(labelAngle=0, labelOverlap=True),
    )
    scale = alt.Scale(domain=[0, round(1.1 * most, 2)], nice=False)
    y = alt.Y("size:Q", title=axes[1], scale=scale, axis=alt.Axis(tickCount=5))
    bars = alt.Chart().mark_bar(color=PALETTE["added"]).encode(x=x, y=y, **spoken())
    ticks = alt.Chart().mark_tick(aria=False).encode(x=x, y=alt.Y("tick:Q"))
    panel = alt.LayerChart(
        layer=[bars, ticks], width=max(90, _BAR * len(layers)), height=140
    )
    facet = panel.facet(
        column=alt.Column("panel:N", title=None, sort=list(panels)),
        spacing=18,
        data=alt.InlineData(values=[]),
    )
    return worded(facet, said)


@functools.cache
def stacks(
    bars: Names,
    parts: tuple[tuple[str, Look], ...],
    longest: float,
    axes: tuple[str, str],
    said: Said,
) -> alt.LayerChart:
    """Bars that lie, in pieces with their numbers."""
    x = alt.X(
        "begin:Q",
        title=axes[0],
        scale=alt.Scale(domain=[0, longest], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    y = alt.Y(
        "bar:N",
        title=axes[1] or None,
        scale=alt.Scale(domain=list(bars), paddingInner=0.25),
        axis=alt.Axis(labelLimit=220),
    )
    # Pale, so that the page's ink can be read on them; ink has its numbers beside.
    inked = any(look in INKS for _, look in parts)
    bar = alt.Chart().mark_bar(fillOpacity=1 if inked else 0.35, strokeWidth=1.5)
    pieces = bar.encode(
        x=x, x2=alt.X2("end:Q"), y=y, **drawn_as("part:N", dict(parts)), **spoken()
    )
    place = "datum.end" if inked else "(datum.begin + datum.end) / 2"
    where = alt.Chart().transform_calculate(place=place)
    text = where.mark_text(align="left" if inked else "center", dx=5 if inked else 0)
    label = text.encode(x=alt.X("place:Q"), y=y, text=alt.Text("label:N"))
    layered = alt.LayerChart(layer=[pieces, label], width=_WIDTH, height=26 * len(bars))
    return worded(layered, said)


@functools.cache
def residency(windows: int, experts: int, words: Names, said: Said) -> alt.LayerChart:
    """Small boxes, a column a window and a line an expert; short: not used."""
    across = alt.X(
        "window:O",
        title="window (number)",
        scale=alt.Scale(domain=list(range(1, windows + 1)), paddingInner=0.15),
        axis=alt.Axis(labelAngle=0, labelOverlap=True),
    )
    up = alt.Y(
        "expert:O",
        title="expert (index)",
        scale=alt.Scale(domain=list(range(experts)), paddingInner=0.1),
        axis=alt.Axis(values=list(range(0, experts, 16)), ticks=False),
    )
    looks = dict(zip(words, ("light", "solid"), strict=True))
    look = opacities("what:N", cast("dict[str, Look]", looks))
    boxes = [
        alt.Chart()
        .transform_filter(f"datum.used === {used}")
        .mark_rect(color=INK, width={"band": wide})
        .encode(x=across, y=up, opacity=look, **spoken())
        for used, wide in (("true", 1), ("false", 0.35))
    ]
    layered = alt.LayerChart(layer=boxes, width=_WIDTH, height=3 * experts)
    return worded(layered, said)
