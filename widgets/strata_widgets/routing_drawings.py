"""The drawings of `routing_charts`: everything but their rows."""

import functools
from typing import TYPE_CHECKING, Final, TypeAlias

import altair as alt

from strata_widgets.drawing import (
    DASHES,
    INK,
    INKS,
    Look,
    Names,
    colour_of,
    opacities,
    spoken,
)
from strata_widgets.theme import PALETTE, AnyChart, dressed

if TYPE_CHECKING:
    from strata_widgets.expert_charts import Axes

Legend: TypeAlias = tuple[tuple[str, Look], ...]

VOTES: Final[dict[str, tuple[str, Look]]] = {
    "protected": ("protected", "root"),
    "ready": ("chosen, in a slot", "light"),
    "cold": ("chosen, not there", "solid"),
    "left": ("not chosen", "unreached"),
}
_SHAPES: Final = ("circle", "square", "diamond", "cross")
# Straight above or below: a line falls past a label at either side of its point.
_BESIDE: Final = {"down": 14, "up": -10}
_WIDTH: Final = 430
_LINE: Final = 19


@functools.cache
def ballot(
    names: Names,
    chosen: int,
    seat: float | None,
    ends: tuple[float, float],
    axes: "Axes",
) -> alt.LayerChart:
    """Points by rank, lines where a bonus moved them, and two cuts.

    Args:
        names: of the ranks, from the first.
        chosen: experts of a row, K; below them the natural choice ends.
        seat: the lowest score that was chosen without protection.
        ends: lowest and highest score.
        axes: titles.
    """
    low, high = ends
    scale = alt.Scale(domain=[low - 0.2, high + 0.2], nice=False)
    x = alt.X("raised:Q", title=axes.across, scale=scale)
    y = alt.Y("name:N", title=axes.up, scale=alt.Scale(domain=list(names)))
    colour = alt.Color("what:N", scale=_scale(tuple(VOTES.values())))
    shape = alt.Shape(
        "what:N",
        scale=alt.Scale(domain=[w for w, _ in VOTES.values()], range=list(_SHAPES)),
    )
    raised = alt.Chart().transform_filter("datum.raised > datum.logit")
    rules = raised.mark_rule(color=PALETTE["bonus"], strokeWidth=2, aria=False)
    starts = raised.mark_tick(color=PALETTE["bonus"], thickness=2, size=9, aria=False)
    points = alt.Chart().mark_point(filled=True, size=75)
    light = opacities("what:N", dict(VOTES.values()))
    cut = alt.Chart().mark_rule(color=INK, strokeDash=[4, 3], aria=False)
    layers = [
        cut.encode(y=alt.YDatum(names[chosen - 1], bandPosition=1)),
        rules.encode(x=alt.X("logit:Q", scale=scale), x2=alt.X2("raised:Q"), y=y),
        starts.encode(x=alt.X("logit:Q", scale=scale), y=y),
        points.encode(x=x, y=y, color=colour, shape=shape, opacity=light, **spoken()),
    ]
    if seat is not None:
        line = alt.Chart().mark_rule(color=INK, aria=False)
        layers.insert(0, line.encode(x=alt.XDatum(seat)))
    made = alt.LayerChart(layer=layers, width=_WIDTH, height=_LINE * len(names))
    return _said(made, axes)


@functools.cache
def weights(
    experts: tuple[int, ...], parts: Legend, most: float, axes: "Axes"
) -> alt.LayerChart:
    """Points by expert, a colour and a shape a rule."""
    x = alt.X(
        "share:Q",
        title=axes.across,
        scale=alt.Scale(domain=[0, round(1.1 * most, 2)], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    y = alt.Y("expert:O", title=axes.up, scale=alt.Scale(domain=list(experts)))
    shape = alt.Scale(domain=[part for part, _ in parts], range=_SHAPES[: len(parts)])
    points = alt.Chart().mark_point(size=70, strokeWidth=2, opacity=1).encode(
        x=x,
        y=y,
        color=alt.Color("what:N", scale=_scale(parts)),
        shape=alt.Shape("what:N", scale=shape),
        **spoken(),
    )  # fmt: skip
    made = alt.LayerChart(layer=[points], width=_WIDTH, height=_LINE * len(experts))
    return _said(made, axes)


@functools.cache
def marks(
    panels: Names, names: Names, experts: int, parts: Legend, axes: "Axes"
) -> alt.FacetChart:
    """Ticks by expert, a line a name, panels below each other."""
    x = alt.X(
        "expert:Q",
        title=axes.across,
        scale=alt.Scale(domain=[-1, experts], nice=False),
        axis=alt.Axis(format="d"),
    )
    y = alt.Y(
        "name:N",
        title=axes.up or None,
        scale=alt.Scale(domain=list(names)),
        axis=alt.Axis(labelLimit=160),
    )
    colour = alt.Color("what:N", scale=_scale(parts))
    thick = 2 if experts > 64 else 6
    ticks = alt.Chart().mark_tick(thickness=thick, size=_LINE - 7).encode(
        x=x, y=y, color=colour, opacity=opacities("what:N", dict(parts)), **spoken()
    )  # fmt: skip
    panel = alt.LayerChart(layer=[ticks], width=_WIDTH - 60, height=_LINE * len(names))
    facet = panel.facet(row=_panels(panels), spacing=10, data=alt.InlineData(values=[]))
    return _said(facet, axes)


@functools.cache
def price(panels: Names, lines: Names, axes: "Axes") -> alt.FacetChart:
    """Lines from right, all misses, to left; a panel a kind of cost."""
    x = alt.X(
        "misses:Q",
        title=axes.across,
        scale=alt.Scale(zero=False, nice=True, padding=12),
        axis=alt.Axis(tickCount=6),
    )
    y = alt.Y(
        "cost:Q",
        title=None,
        scale=alt.Scale(padding=16),
        axis=alt.Axis(tickCount=4),
    )
    stroke = alt.Legend(symbolType="stroke", symbolSize=500, symbolStrokeWidth=2)
    dashes = [list(dash) for dash in DASHES[: len(lines)]]
    dash = alt.StrokeDash(
        "line:N", scale=alt.Scale(domain=list(lines), range=dashes), legend=stroke
    )
    base = alt.Chart()
    # Light, so that a label can be read where a line runs through it.
    pale = INKS["light"].opacity
    line = base.mark_line(strokeWidth=2, color=INK, opacity=pale).encode(
        x=x, y=y, strokeDash=dash, order=alt.Order("misses:Q")
    )  # fmt: skip
    points = base.mark_point(filled=True, size=45, opacity=1, color=INK)
    labels = [
        alt.Chart()
        .transform_filter(alt.FieldEqualPredicate(field="side", equal=side))
        .mark_text(dy=dy, aria=False)
        .encode(x=x, y=y, text=alt.Text("label:N"))
        for side, dy in _BESIDE.items()
    ]
    layers = [line, points.encode(x=x, y=y, **spoken()), *labels]
    panel = alt.LayerChart(layer=layers, width=_WIDTH, height=200)
    facet: alt.FacetChart = panel.facet(
        row=_panels(panels), spacing=12, data=alt.InlineData(values=[])
    ).resolve_scale(y="independent")
    return _said(facet, axes)


def _panels(panels: Names) -> alt.Row:
    """Panels below each other, each with its name above."""
    header = alt.Header(labelOrient="top", labelAnchor="start", labelPadding=3)
    return alt.Row("panel:N", title=None, sort=list(panels), header=header)


def _scale(parts: Legend) -> alt.Scale:
    words = [part for part, _ in parts]
    return alt.Scale(domain=words, range=[colour_of(look) for _, look in parts])


def _said(chart: AnyChart, axes: "Axes") -> AnyChart:
    return dressed(
        chart, title=axes.title, subtitle=axes.subtitle, description=axes.description
    )
