"""A panel's still picture: its status in words above its charts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from strata_widgets import theme

_WIDTH: Final = 700
_LINE: Final = 15
# The first has the signs for spaces and newlines; without it, another draws them.
_FONT: Final = "DejaVu Sans Mono, monospace"
# Lines and letters that a picture has room for; the text has all of them.
_MOST_LINES: Final = 16
_MOST_LETTERS: Final = 92
_LOOKS: Final = (
    "color",
    "fill",
    "stroke",
    "opacity",
    "fillOpacity",
    "strokeDash",
    "shape",
)


def picture(
    charts: Mapping[str, dict[str, Any]],
    *,
    heading: str,
    status: str,
    lines: Sequence[str] = (),
    description: str,
) -> dict[str, Any]:
    """Return what a page without a kernel shows, as Vega-Lite.

    Args:
        charts: each with its rows inside, by name.
        heading: one line above.
        status: a second line.
        lines: text and tables below the charts, as many as there is room for.
        description: the same in words.
    """
    # Charts may give one word two looks, and a legend stays with its chart.
    own = {"resolve": {"scale": dict.fromkeys(_LOOKS, "independent")}}
    parts = [_part(spec, name) for name, spec in charts.items()]
    if lines:
        parts.append(_written(lines))
    # Values that charts share, what is selected for one: only the whole can have them.
    values = {p["name"]: p for s in charts.values() for p in _values(s)}
    return {
        "config": theme.CONFIG,
        "description": description,
        "title": {"text": heading, "subtitle": _lines(status)},
        "vconcat": parts or [_nothing()],
        "spacing": 24,
        "params": list(values.values()),
        **own,
    }


def _part(spec: dict[str, Any], name: str) -> dict[str, Any]:
    left_out = ("$schema", "config", "autosize", "description")
    part = {key: value for key, value in spec.items() if key not in left_out}
    # Rows of two charts with one name would be taken for the same rows.
    if isinstance(part.get("data"), dict) and "values" in part["data"]:
        part["data"] = {"values": part["data"]["values"], "name": f"rows of {name}"}
    part.pop("params", None)
    return part


def _values(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [p for p in spec.get("params", []) if "select" not in p]


def _written(lines: Sequence[str]) -> dict[str, Any]:
    """Text as it stands, in letters of one width."""
    shown = [_cut(line) for line in lines[:_MOST_LINES]]
    if len(lines) > len(shown):
        shown.append(f"… {len(lines) - len(shown)} more lines")
    rows = [{"line": number, "text": line} for number, line in enumerate(shown)]
    return {
        "data": {"values": rows, "name": "lines of text"},
        "mark": {"type": "text", "align": "left", "font": _FONT, "fontSize": 11},
        "encoding": {
            "x": {"value": 0},
            "y": {"field": "line", "type": "ordinal", "axis": None},
            "text": {"field": "text", "type": "nominal"},
        },
        "width": _WIDTH,
        "height": _LINE * len(shown),
        "view": {"stroke": None},
    }


def _cut(line: str) -> str:
    cut = line if len(line) <= _MOST_LETTERS else line[: _MOST_LETTERS - 1] + "…"
    # Of several common spaces a picture draws one.
    return cut.replace(" ", "\N{NO-BREAK SPACE}")


def _nothing() -> dict[str, Any]:
    return {"data": {"values": []}, "mark": "point", "width": _WIDTH, "height": 1}


def _lines(status: str) -> list[str]:
    """Cut a long status at word ends, about as wide as the picture."""
    lines, most = [""], _WIDTH // 6
    for word in status.split():
        if len(lines[-1]) + len(word) > most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
