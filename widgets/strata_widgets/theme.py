"""One palette and one Altair theme: the same colour for the same thing everywhere.

Every colour stands out from a white page and from a dark one (3 to 1), and any two stay
apart for readers who miss one of the three cone types. What is *kept* has no hue of its
own: it is drawn in the ink of the page, since every kept row already has a colour.
"""

from typing import Any, Final, Literal, TypeVar

import altair as alt

Role = Literal["root", "accepted", "mismatch", "unreached", "bonus", "added"]
Fate = Literal["accepted", "mismatch", "unreached"]
AnyChart = TypeVar("AnyChart", alt.LayerChart, alt.FacetChart)
Verdict = Literal["root", "accepted", "mismatch", "unreached", "uncounted"]

FATES: Final[tuple[Fate, ...]] = ("accepted", "mismatch", "unreached")
"""What becomes of a draft that took part, in the order of bars and legends."""

PALETTE: Final[dict[Role, str]] = {
    "root": "#0653f8",
    "accepted": "#247a46",
    "mismatch": "#b03e0c",
    "unreached": "#919191",
    "bonus": "#a7318b",
    "added": "#0494d7",
}

WORDS: Final[dict[Role, str]] = {
    "root": "root",
    "accepted": "accepted",
    "mismatch": "first mismatch",
    "unreached": "never reached",
    "bonus": "bonus",
    "added": "added by drafts",
}

UNCOUNTED: Final = "not counted"
"""A draft that took no part: behind a stop id, or given up by a smaller keep."""

CONFIG: Final[dict[str, Any]] = {
    "font": "sans-serif",
    "padding": 4,
    "axis": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal"},
    "legend": {
        "orient": "bottom",
        "title": None,
        "labelFontSize": 11,
        "symbolType": "square",
        "columns": 3,
        "offset": 4,
    },
    "title": {
        "anchor": "start",
        "fontSize": 13,
        "subtitleFontSize": 11,
        "offset": 8,
    },
    # The page's ink: black in a picture, light on JupyterLab's dark theme.
    "text": {"fontSize": 11, "color": "currentColor"},
    "tick": {"color": "currentColor", "thickness": 2, "opacity": 1},
    "view": {"strokeOpacity": 0.4},
}


@alt.theme.register("strata", enable=False)
def strata() -> alt.theme.ThemeConfig:
    """Return the theme; `alt.theme.enable("strata")` puts it on charts of your own."""
    return {"config": CONFIG}  # type: ignore[typeddict-item]


def css_variables() -> str:
    """Return the palette as CSS custom properties, `--strata-accepted` and so on."""
    lines = (f"  --strata-{role}: {colour};" for role, colour in PALETTE.items())
    return ".strata {\n" + "\n".join(lines) + "\n}\n"


def colour_scale(*roles: Role) -> alt.Scale:
    """Return the scale that gives the word of each role its colour, in this order."""
    return alt.Scale(
        domain=[WORDS[role] for role in roles], range=[PALETTE[role] for role in roles]
    )


def dressed(
    chart: AnyChart, *, title: str, subtitle: str = "", description: str
) -> AnyChart:
    """Return `chart` with the theme, a title and the text that a screen reader says.

    Args:
        chart: the chart to dress.
        title: one line above it.
        subtitle: a second, smaller line.
        description: what the chart shows; mandatory, and never empty.

    Raises:
        ValueError: `description` is empty.
    """
    if not description.strip():
        raise ValueError(
            "`description` must say what the chart shows, got an empty text"
        )
    lines = alt.TitleParams(title, subtitle=[subtitle] if subtitle else [])
    named = chart.properties(title=lines, description=description)
    made: AnyChart = named.configure(**CONFIG)
    return made
