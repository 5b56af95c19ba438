"""The still picture: the window's rows as a table, and two charts below it."""

from collections.abc import Sequence
from typing import Any, Final

import altair as alt

from strata_widgets import theme
from strata_widgets.stepper import view

_WIDTH: Final = 700
_LINE: Final = 22
# The first has the signs for spaces and newlines; without it, another draws them.
_FONT: Final = "DejaVu Sans Mono, monospace"
# Left edges of the picture's columns, in pixels.
_COLUMNS: Final = {
    "row": 8,
    "input": 60,
    "prediction": 220,
    "verdict": 450,
    "kept": 600,
}


def picture(
    rows: Sequence[view.Row],
    *,
    heading: str,
    text: str,
    charts: Sequence[alt.LayerChart],
    description: str,
) -> dict[str, Any]:
    """Return what a page without a kernel shows, as Vega-Lite.

    Args:
        rows: the window's rows for the page.
        heading: one line above the table.
        text: a second line, the end of the committed text.
        charts: side by side below the table.
        description: the same in words.
    """
    own = {"resolve": {"scale": {"color": "independent"}}}
    sets: dict[str, Any] = {}
    pair = [_part(chart, sets) for chart in charts]
    below = {"hconcat": pair, "bounds": "flush", "spacing": 60, **own}
    table = _part(_table(rows, heading, text), sets)
    return {
        "config": theme.CONFIG,
        "description": description,
        "vconcat": [table, below],
        "datasets": sets,
        **own,
    }


def _part(chart: alt.LayerChart, sets: dict[str, Any]) -> dict[str, Any]:
    """Return `chart` as a part of a larger picture, its rows moved to `sets`."""
    part: dict[str, Any] = chart.to_dict()
    sets |= part.pop("datasets", {})
    # The whole picture has these two once.
    for name in ("$schema", "config"):
        part.pop(name, None)
    return part


def _table(rows: Sequence[view.Row], heading: str, text: str) -> alt.LayerChart:
    """Draw the rows of a window under two lines of text; without rows, the headings."""
    values: list[view.Row] = [
        {"text": name, "x": left, "line": 0} for name, left in _COLUMNS.items()
    ]
    marks: list[view.Row] = []
    for line, row in enumerate(rows, 1):
        for cell, left in zip(view.cells_of(row), _COLUMNS.values(), strict=True):
            values.append({"text": cell, "x": left, "line": line})
        if row["role"] in theme.WORDS:
            marks.append({"verdict": row["verdict"], "line": line})
    title = alt.TitleParams(
        heading,
        subtitle=text,
        font=_FONT,
        subtitleFont=_FONT,
        subtitleFontWeight="normal",
    )
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, _WIDTH]))
    y = alt.Y("line:O", axis=None)
    words = alt.Chart(alt.InlineData(values=values)).mark_text(align="left", font=_FONT)
    roles: tuple[theme.Role, ...] = ("root", "accepted", "mismatch", "unreached")
    colour = alt.Color("verdict:N", scale=theme.colour_scale(*roles), legend=None)
    squares = alt.Chart(alt.InlineData(values=marks)).mark_square(size=90, opacity=1)
    beside = alt.datum(_COLUMNS["verdict"] - 10)
    return alt.LayerChart(
        layer=[
            words.encode(x=x, y=y, text=alt.Text("text:N")),
            squares.encode(x=beside, y=y, color=colour),
        ],
        title=title,
        width=_WIDTH,
        height=_LINE * (len(rows) + 1),
    )
