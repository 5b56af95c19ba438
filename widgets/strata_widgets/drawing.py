"""What all drawings share: the ink, dashes, words for who does not see, their rows."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import altair as alt

from strata_widgets.theme import PALETTE, AnyChart, Role, dressed

Row: TypeAlias = dict[str, Any]
Names: TypeAlias = tuple[str, ...]
Rows = TypeVar("Rows", bound=Sequence[Any])
Ink: TypeAlias = Literal["light", "solid", "hollow"]
Look: TypeAlias = Role | Ink

# What is kept wears the ink of the page, as in every table here.
INK: Final = "currentColor"
WIDE: Final = 520
"""Pixels of a chart that stands alone: what a narrow page has room for."""

DASHES: Final = ((1, 0), (7, 3), (2, 3), (9, 3, 2, 3))
"""Of lines in one ink: colours would have to mean something."""


PALE: Final = 0.2
"""Of the inside of a box whose text must be read on any page."""


class Form(NamedTuple):
    """How boxes of a look are drawn.

    Attributes:
        fill: inside.
        edge: around.
        opacity: of both.
    """

    fill: str = INK
    edge: str = INK
    opacity: float = 1


# The page's ink, for what no role of the palette stands for. Light ink stands out 3 to
# 1 from a page, white or dark, and as much from solid ink.
INKS: Final[dict[Look, Form]] = {
    "light": Form(opacity=0.5),
    "solid": Form(),
    "hollow": Form("transparent"),
}
_FORMS: Final[dict[Look, Form]] = {
    **{role: Form(colour, colour) for role, colour in PALETTE.items()},
    **INKS,
}


class Said(NamedTuple):
    """What a chart says of itself."""

    title: str
    subtitle: str
    description: str


def worded(chart: AnyChart, words: Said) -> AnyChart:
    """`chart` in the theme, with its words.

    Raises:
        ValueError: the description is empty.
    """
    return dressed(
        chart,
        title=words.title,
        subtitle=words.subtitle,
        description=words.description,
    )


def spoken() -> dict[str, Any]:
    """The channels that say a mark to a screen reader and to a pointer."""
    return {"description": "says:N", "tooltip": alt.Tooltip("says:N", title="here")}


def colour_of(look: Look) -> str:
    """The hue of a role; the page's ink for every other look."""
    return _FORMS[look].edge


def opacities(field: str, looks: Mapping[str, Look]) -> alt.Opacity:
    """The channel that makes light ink light, by the words of `looks`."""
    return alt.Opacity(field, scale=_ordinal(looks, "opacity"))


def drawn_as(
    field: str, looks: Mapping[str, Look], *, named: str = ""
) -> dict[str, Any]:
    """The channels that draw boxes in their looks, with one legend.

    Args:
        field: which of its words a row has, with its type.
        looks: of the words, in the order of the legend.
        named: an expression, the words that the legend explains; all when not given.
    """
    channels: dict[str, Any] = {
        "fill": alt.Fill(field, scale=_ordinal(looks, "fill")),
        "stroke": alt.Stroke(field, scale=_ordinal(looks, "edge")),
        "opacity": opacities(field, looks),
    }
    if named:
        legend = alt.Legend(values=alt.ExprRef(named))
        channels = {name: one.legend(legend) for name, one in channels.items()}
    return channels


def pale(
    boxes: alt.Chart,
    place: Mapping[str, Any],
    colour: tuple[str, Mapping[str, str]],
    /,
    *,
    wrong: str = "",
    hollow: str = "",
    columns: int = 4,
    width: float = 1.5,
    **look: Any,
) -> list[alt.Chart]:
    """Pale boxes with a strong edge, and a legend that looks as they do.

    Args:
        boxes: their rows.
        place: channels that say where they are.
        colour: the field with the word of a box, and the colour of each word in the
            order of the legend.
        wrong: an expression: these are dashed, for a reader of no colours.
        hollow: the word of boxes that are an edge alone.
        columns: of the legend.
        width: of an edge, pixels.
        **look: of the marks.
    """
    field, edges = colour
    fills = {word: "transparent" if word == hollow else edges[word] for word in edges}

    def by_word(values: Sequence[Any], **more: Any) -> dict[str, Any]:
        scale = alt.Scale(type="ordinal", domain=list(edges), range=list(values))
        legend = alt.Legend(columns=columns, symbolStrokeWidth=width, **more)
        return {"shorthand": field, "scale": scale, "legend": legend}

    channels = {
        **place,
        # Vega-Lite has no word for the inside of a legend's symbols. It takes that of
        # the legend of `stroke` from the mark's `opacity`, unless that of `fill`, which
        # comes first, does so too; and the channel takes it back for the marks.
        "fill": alt.Fill(**by_word(list(fills.values()), symbolOpacity=1)),
        "stroke": alt.Stroke(**by_word(list(edges.values()))),
        "opacity": alt.Opacity(**by_word([1] * len(edges))),
        **spoken(),
    }
    look |= {"opacity": PALE, "fillOpacity": PALE, "strokeWidth": width}
    if not wrong:
        return [boxes.mark_rect(**look).encode(**channels)]
    right, dashed = (boxes.transform_filter(f"{sign}({wrong})") for sign in ("!", ""))
    return [
        right.mark_rect(**look).encode(**channels),
        dashed.mark_rect(strokeDash=[5, 3], **look).encode(**channels),
    ]


def _ordinal(looks: Mapping[str, Look], what: str) -> alt.Scale:
    values = [getattr(_FORMS[look], what) for look in looks.values()]
    return alt.Scale(type="ordinal", domain=list(looks), range=values)


def noted(width: int, height: int) -> alt.Chart:
    """A layer that writes what to do where there is nothing to draw yet.

    The only row of an empty chart is `nothing(...)`.

    Args:
        width: of the chart, pixels.
        height: of the chart, pixels.
    """
    text = alt.Chart().mark_text(fontStyle="italic")
    made: alt.Chart = text.transform_filter("isValid(datum.note)").encode(
        x=alt.XValue(width / 2), y=alt.YValue(height / 2), text=alt.Text("note:N")
    )
    return made


def nothing(what_to_do: str) -> list[Row]:
    """The rows of an empty chart: what to do to fill it, for `noted`."""
    return [{"note": what_to_do}]


def params(**values: Any) -> list[alt.Parameter]:
    """Parameters whose values Python sets while the chart is on the page."""
    return [alt.param(name=name, value=value) for name, value in values.items()]


def not_empty(rows: Rows, name: str) -> Rows:
    """`rows`, if there are any.

    Raises:
        ValueError: there is none.
    """
    if not rows:
        raise ValueError(f"a picture wants {name}, got none; list at least one")
    return rows


def with_rows(drawing: AnyChart, rows: list[Row]) -> AnyChart:
    """A drawing with the rows of the moment."""
    made: AnyChart = drawing.properties(data=alt.InlineData(values=rows))
    return made
