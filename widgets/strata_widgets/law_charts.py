"""Laws to chart: what was drawn beside what should be, and what a rule accepts.

Pure functions. Draws are counted elsewhere; nothing here knows a rule.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import altair as alt

from strata_widgets.drawing import INK, Names, Row, not_empty, spoken, with_rows
from strata_widgets.theme import PALETTE, dressed

LIMIT: Final = 4.0
"""Standard deviations that one bar may be off before it is called wrong."""

FITS: Final = "as the law says"
WRONG: Final = "too often or too seldom"
ACCEPTED: Final = "the draft, accepted"
LEFT_OVER: Final = "drawn from what is left over"

_BAR: Final = 28
_HEIGHT: Final = 130
_PANELS: Final = 3
_ROW: Final = 26


@dataclass(frozen=True)
class Drawn:
    """How often a token was drawn, and how often it should be.

    Attributes:
        panel: the picture that it belongs to.
        token: the bar.
        share: of all draws, 0 to 1.
        wanted: its probability.
        draws: how many; 0: none, `share` is a law itself, which has no tick.
    """

    panel: str
    token: str
    share: float
    wanted: float
    draws: int = 0

    @property
    def off(self) -> float:
        """Standard deviations from `wanted`."""
        if not self.draws:
            return 0.0
        spread = math.sqrt(self.wanted * (1 - self.wanted) / self.draws)
        gap = abs(self.share - self.wanted)
        return gap / spread if spread else math.inf if gap else 0.0


@dataclass(frozen=True)
class Halves:
    """How the ratio rule comes by a token.

    Attributes:
        token: the bar.
        p: its probability by the model.
        q: by the drafter.
    """

    token: str
    p: float
    q: float


@dataclass(frozen=True)
class Rate:
    """How often the drafts of one drafter are accepted.

    Attributes:
        panel: rule.
        name: drafter.
        share: of drafts offered, 0 to 1.
        wanted: as computed.
    """

    panel: str
    name: str
    share: float
    wanted: float


def laws(
    drawn: Sequence[Drawn],
    *,
    title: str,
    description: str,
    subtitle: str = "",
    unit: str = "share of draws (%)",
    across: str = "token",
) -> alt.FacetChart:
    """Draw shares by token as bars, with a tick at what the law wants.

    A bar that is off by more than four standard deviations has another colour.

    Args:
        drawn: in order; each panel has the same tokens.
        title: one line above.
        description: what the chart shows, for a reader who does not see it.
        subtitle: a smaller line.
        unit: title of the axis beside.
        across: title of the axis below.

    Raises:
        ValueError: there is nothing to draw, or `description` is empty.
    """
    not_empty(drawn, "draws")
    highest = max(max(d.share, d.wanted) for d in drawn)
    drawing = _drawn_laws(
        tuple(dict.fromkeys(d.panel for d in drawn)),
        tuple(dict.fromkeys(d.token for d in drawn)),
        min(1.0, math.ceil(11.5 * highest) / 10),
        (unit, across),
        (title, subtitle, description),
        counted=any(d.draws for d in drawn),
    )
    return with_rows(drawing, [_law_row(d) for d in drawn])


def halves(
    tokens: Sequence[Halves], *, title: str, description: str, subtitle: str = ""
) -> alt.LayerChart:
    """Draw min(p, q) with what is left over, p - q, on top of it, and a tick at q.

    Args:
        tokens: in order.
        title: one line above.
        description: what the chart shows, for a reader who does not see it.
        subtitle: a smaller line.

    Raises:
        ValueError: there is nothing to draw, or `description` is empty.
    """
    not_empty(tokens, "tokens")
    drawing = _drawn_halves(
        tuple(h.token for h in tokens),
        max(max(h.p, h.q) for h in tokens),
        (title, subtitle, description),
    )
    rows = [row for h in tokens for row in _half_rows(h)]
    return with_rows(drawing, rows)


def rates(
    found: Sequence[Rate], *, title: str, description: str, subtitle: str = ""
) -> alt.FacetChart:
    """Draw acceptance by drafter, a panel a rule, with a tick at what is computed.

    Args:
        found: in order.
        title: one line above.
        description: what the chart shows, for a reader who does not see it.
        subtitle: a smaller line.

    Raises:
        ValueError: there is nothing to draw, or `description` is empty.
    """
    not_empty(found, "rates")
    drawing = _drawn_rates(
        tuple(dict.fromkeys(r.panel for r in found)),
        tuple(dict.fromkeys(r.name for r in found)),
        (title, subtitle, description),
    )
    return with_rows(drawing, [_rate_row(r) for r in found])


@functools.cache
def _drawn_laws(
    panels: Names,
    tokens: Names,
    top: float,
    axes: tuple[str, str],
    said: tuple[str, str, str],
    *,
    counted: bool,
) -> alt.FacetChart:
    x = alt.X(
        "token:N",
        title=axes[1],
        scale=alt.Scale(domain=list(tokens)),
        axis=alt.Axis(labelAngle=0 if max(map(len, tokens)) < 5 else -40),
    )
    y = alt.Y(
        "share:Q",
        title=axes[0],
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(format="%", tickCount=5),
    )
    colour = alt.Scale(
        domain=[FITS, WRONG], range=[PALETTE["accepted"], PALETTE["mismatch"]]
    )
    # A law alone has nothing to be compared with.
    legend = alt.Legend() if counted else None
    bars = alt.Chart().mark_bar().encode(
        x=x,
        y=y,
        color=alt.Color("fits:N", scale=colour, legend=legend),
        **spoken(),
    )  # fmt: skip
    panel = alt.LayerChart(
        layer=[bars, _ticks(x, "wanted:Q")] if counted else [bars],
        width=_BAR * len(tokens),
        height=_HEIGHT,
    )
    facet = panel.facet(
        facet=alt.Facet("panel:N", title=None, sort=list(panels)),
        columns=_PANELS,
        spacing=18,
        data=alt.InlineData(values=[]),
    )
    return dressed(facet, title=said[0], subtitle=said[1], description=said[2])


@functools.cache
def _drawn_halves(
    tokens: Names, highest: float, said: tuple[str, str, str]
) -> alt.LayerChart:
    x = alt.X(
        "token:N",
        title="token",
        scale=alt.Scale(domain=list(tokens)),
        axis=alt.Axis(labelAngle=0),
    )
    y = alt.Y(
        "share:Q",
        title="probability (%)",
        scale=alt.Scale(domain=[0, round(1.1 * highest, 3)], nice=False),
        axis=alt.Axis(format="%", tickCount=5),
    )
    colour = alt.Scale(
        domain=[ACCEPTED, LEFT_OVER], range=[PALETTE["accepted"], PALETTE["bonus"]]
    )
    bars = alt.Chart().mark_bar().encode(
        x=x,
        y=y,
        color=alt.Color("half:N", scale=colour),
        order=alt.Order("order:Q"),
        **spoken(),
    )  # fmt: skip
    layered = alt.LayerChart(
        layer=[bars, _ticks(x, "q:Q")], width=56 * len(tokens), height=170
    )
    return dressed(layered, title=said[0], subtitle=said[1], description=said[2])


@functools.cache
def _drawn_rates(
    panels: Names, names: Names, said: tuple[str, str, str]
) -> alt.FacetChart:
    x = alt.X(
        "share:Q",
        title="drafts accepted (%)",
        # Room beside the longest bar for its number.
        scale=alt.Scale(domain=[0, 1.3], nice=False),
        axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1]),
    )
    y = alt.Y(
        "name:N",
        title=None,
        scale=alt.Scale(domain=list(names), paddingInner=0.3),
        axis=alt.Axis(labelLimit=200),
    )
    bars = alt.Chart().mark_bar(color=PALETTE["accepted"]).encode(
        x=x, y=y, **spoken()
    )  # fmt: skip
    label = alt.Chart().mark_text(align="left", dx=6, aria=False)
    tick = alt.Chart().mark_tick(color=INK, thickness=2, aria=False)
    panel = alt.LayerChart(
        layer=[
            bars,
            tick.encode(x=alt.X("wanted:Q"), y=y),
            label.encode(x=alt.X("end:Q"), y=y, text=alt.Text("label:N")),
        ],
        width=190,
        height=_ROW * len(names),
    )
    facet = panel.facet(
        column=alt.Column("panel:N", title=None, sort=list(panels)),
        spacing=20,
        data=alt.InlineData(values=[]),
    )
    return dressed(facet, title=said[0], subtitle=said[1], description=said[2])


def _ticks(x: alt.X, field: str) -> alt.Chart:
    # Wider than thick, so that it reads as a level.
    tick = alt.Chart().mark_tick(color=INK, thickness=2, size=22, aria=False)
    made: alt.Chart = tick.encode(x=x, y=field)
    return made


def _law_row(drawn: Drawn) -> Row:
    fits = FITS if drawn.off <= LIMIT else WRONG
    row = {"panel": drawn.panel, "token": drawn.token, "fits": fits}
    says = f"{drawn.panel}: {drawn.token}: {drawn.share:.1%}"
    if drawn.draws:
        says += f" of {drawn.draws:,} draws, the law says {drawn.wanted:.1%}: {fits}"
    numbers = {"share": round(drawn.share, 6), "wanted": round(drawn.wanted, 6)}
    return {**row, **numbers, "says": says}


def _half_rows(halves: Halves) -> list[Row]:
    least = min(halves.p, halves.q)
    sizes = ((ACCEPTED, least), (LEFT_OVER, halves.p - least))
    return [
        {
            "token": halves.token,
            "half": half,
            "share": round(size, 6),
            "q": round(halves.q, 6),
            "order": order,
            "says": f"{halves.token}: {size:.1%} {half}; drafted in {halves.q:.1%}",
        }
        for order, (half, size) in enumerate(sizes)
    ]


def _rate_row(rate: Rate) -> Row:
    label = f"{rate.share:.0%}"
    says = f"{rate.panel}: {rate.name}: {label} accepted, computed {rate.wanted:.0%}"
    row = {"panel": rate.panel, "name": rate.name, "label": label, "says": says}
    numbers = {"share": round(rate.share, 6), "wanted": round(rate.wanted, 6)}
    # The number stands beside bar and tick, whichever is longer.
    return {**row, **numbers, "end": round(max(rate.share, rate.wanted), 6)}
