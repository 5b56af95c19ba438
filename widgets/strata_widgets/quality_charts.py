"""Comparison to chart: what a policy saves, beside what it costs in quality."""

import functools
from typing import Final, Literal, TypeAlias

import altair as alt

from strata_nb.gates.gate_5.comparison import Comparison
from strata_widgets.drawing import INK, Row, with_rows
from strata_widgets.theme import PALETTE, dressed

Side: TypeAlias = Literal["quality", "work"]

COLOURS: Final[dict[Side, str]] = {
    "quality": PALETTE["mismatch"],
    "work": PALETTE["added"],
}

CHANGE: Final = "more or less than the exact model (%)"
SHARE: Final = "share of all rows (%)"
"""The panels: a per cent of a number is no per cent of a count of rows."""

_WIDTH: Final = 330
_BAR: Final = 24
_LEAST: Final = 1.0  # of the axis, in per cent


def beside(found: Comparison) -> alt.FacetChart:
    """Draw how far a policy is from the exact model, in two panels.

    In the first cross entropy by text and experts read, in per cent more or less than
    the exact model's; in the second rows with another best token, in per cent of all
    rows. Times are left out, since they do not repeat.

    Args:
        found: of a policy; there is none without quality, so work never stands alone.
    """
    pairs = [_quality(found, name) for name in found.quality]
    rows = [more for more, _ in pairs] + [_work(found)] + [other for _, other in pairs]
    ends = [row["size"] for row in rows]
    # Room beside the longest bar, on either side, for its number.
    most = 1.5 * max(_LEAST, *map(abs, ends))
    lowest = -most if min(ends) < 0 else 0.0
    names = tuple(str(row["name"]) for row in rows)
    drawing = _drawn(names, (round(lowest, 2), round(most, 2)), found.policy)
    return with_rows(drawing, rows)


def _quality(found: Comparison, name: str) -> tuple[Row, Row]:
    quality = found.quality[name]
    more = 100 * (quality.nats / quality.exact_nats - 1)
    other = 100 * (1 - quality.agreement)
    return (
        _row(CHANGE, "quality", f"{name}: cross entropy", more, f"{more:+.1f} %"),
        _row(SHARE, "quality", f"{name}: another best token", other, f"{other:.1f} %"),
    )


def _work(found: Comparison) -> Row:
    exact = max(1, found.exact_work.experts_read)
    more = 100 * (found.work.experts_read / exact - 1)
    return _row(CHANGE, "work", "all texts: experts read", more, f"{more:+.1f} %")


def _row(panel: str, side: Side, name: str, size: float, label: str) -> Row:
    row = {"side": side, "name": name, "size": round(size, 4), "label": label}
    of = "of rows" if panel == SHARE else "against the exact model"
    return {**row, "panel": panel, "says": f"{name}: {label} {of}"}


@functools.cache
def _drawn(
    names: tuple[str, ...], ends: tuple[float, float], policy: str
) -> alt.FacetChart:
    x = alt.X(
        "size:Q",
        title="per cent, of what the panel says",
        scale=alt.Scale(domain=[*ends], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    y = alt.Y(
        "name:N",
        title=None,
        sort=[*names],
        scale=alt.Scale(paddingInner=0.3),
        axis=alt.Axis(labelLimit=220, domain=False, ticks=False),
    )
    sides: list[Side] = ["quality", "work"]
    colour = alt.Scale(domain=sides, range=[COLOURS[side] for side in sides])
    bars = alt.Chart().mark_bar().encode(
        x=x,
        y=y,
        color=alt.Color("side:N", scale=colour),
        description=alt.Description("says:N"),
        tooltip=alt.Tooltip("says:N", title="here"),
    )  # fmt: skip
    zero = alt.Chart().mark_rule(color=INK, aria=False).encode(x=alt.XDatum(0))
    panel = alt.LayerChart(
        layer=[bars, zero, *_labels(x, y)], width=_WIDTH, height=alt.Step(_BAR)
    )
    header = alt.Header(labelOrient="top", labelAnchor="start", labelPadding=3)
    row = alt.Row("panel:N", title=None, sort=[CHANGE, SHARE], header=header)
    facet: alt.FacetChart = panel.facet(
        row=row, spacing=12, data=alt.InlineData(values=[])
    ).resolve_scale(y="independent")
    return dressed(
        facet,
        title="What is saved, beside what it costs",
        subtitle=policy,
        description="Bars by text: how much more or less cross entropy the policy "
        f"{policy} has than the exact model, then the experts read; below, the share "
        "of rows with another best token.",
    )


def _labels(x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Numbers beside the ends of the bars, on the side away from zero."""
    right = alt.Chart().transform_filter("datum.size >= 0")
    left = alt.Chart().transform_filter("datum.size < 0")
    beside = {"x": x, "y": y, "text": "label:N"}
    return [
        right.mark_text(align="left", dx=5, aria=False).encode(**beside),
        left.mark_text(align="right", dx=-5, aria=False).encode(**beside),
    ]
