"""The expert map's two charts, without rows; both have a line for each layer."""

import functools
from typing import Any, Final

import altair as alt

from strata_widgets.drawing import (
    INK,
    WIDE,
    Look,
    Said,
    drawn_as,
    noted,
    spoken,
)
from strata_widgets.expert_map.users import KINDS
from strata_widgets.layers import finished
from strata_widgets.slots_io.counts import HERE, LATE, READ
from strata_widgets.theme import PALETTE, WORDS, colour_scale

NARROW: Final = 300
# Where an expert was has no hue: those of the palette say whose it is.
_LOOKS: Final[dict[str, Look]] = {
    WORDS["root"]: "root",
    WORDS["added"]: "added",
    HERE: "light",
    LATE: "hollow",
    READ: "solid",
}
_PARTS: Final = tuple(_LOOKS)
_NAMED: Final = f"slots ? {[*_PARTS]} : {[*_PARTS[:2]]}"


def height_of(layers: int) -> int:
    """Pixels for so many layers."""
    return max(150, min(480, 18 * layers))


@functools.cache
def the_map(height: int) -> alt.LayerChart:
    """Each expert of a window a box, in the colour of the rows that use it.

    A row of data is a layer: `layer`, `experts` (text, as `Users.packed` gives it).
    """
    x = alt.X("left:Q", title="expert (index)", scale=_from_zero("experts"))
    x = x.axis(format="d", tickMinStep=1, grid=False)
    boxes = _boxes()
    users = boxes.transform_filter("datum.kind < 3").mark_rect(cursor="pointer")
    scale = colour_scale("root", "added")
    prompt = boxes.transform_filter("datum.kind === 3")
    slots = boxes.transform_filter("datum.held").mark_rect(color=INK, aria=False)
    layers = [
        _lines(WIDE, "'layer ' + datum.layer"),
        users.encode(
            x=x,
            x2=alt.X2("right:Q"),
            y=_layers("top:Q"),
            y2=alt.Y2("bottom:Q"),
            color=alt.Color("who:N", scale=scale),
            **spoken(),
        ),
        prompt.mark_rect(color=INK, opacity=0.4, cursor="pointer").encode(
            x=x,
            x2=alt.X2("right:Q"),
            y=_layers("top:Q"),
            y2=alt.Y2("bottom:Q"),
            **spoken(),
        ),
        slots.encode(
            x=x, x2=alt.X2("right:Q"), y=_layers("over:Q"), y2=alt.Y2("under:Q")
        ),
        _chosen(WIDE),
        noted(WIDE, height),
    ]
    words = Said(
        "Experts of the window",
        "half as high: of the root alone; grey: of a prompt; ink below: in a slot now",
        "A map, a line for each layer and a column for each expert: the experts that "
        "the root uses, alone or with drafts, and those that only drafts use. Layers "
        "without experts are left empty.",
    )
    values = {"window": -1, "layer": -1, "experts": 16, "layers": 4}
    return finished(layers, words, height=height, **values)


@functools.cache
def unions(height: int) -> alt.LayerChart:
    """Bars beside the map: how many experts, and where they were when wanted.

    A row of data is a layer: `layer`, `root` and `added`, or `prompt`; and `here`,
    `late`, `read` where they were measured.
    """
    x = alt.X("begin:Q", title="experts (count)").axis(grid=False, tickCount=5)
    x = x.scale(domainMin=0, domainMax=alt.ExprRef("most"), nice=False)
    pieces: list[str | alt.FieldName] = ["root", "added", "here", "late", "read"]
    ends = {
        "begin": "{root: 0, added: datum.root, here: 0, late: datum.here, "
        "read: datum.here + datum.late}[datum.piece]",
        "who": f"{dict(zip(pieces, _PARTS, strict=True))}[datum.piece]",
        # Above: whose they are. Below: where they were.
        "top": "datum.layer + (datum.piece === 'root' || datum.piece === 'added' "
        "? -0.42 : 0.08)",
    }
    bars = (
        alt.Chart()
        .transform_filter("isValid(datum.layer)")
        .transform_fold(pieces, as_=["piece", "size"])
        .transform_filter("isValid(datum.size) && datum.size > 0")
        .transform_calculate(**ends)
        .transform_calculate(
            end="datum.begin + datum.size",
            bottom="datum.top + (datum.top < datum.layer ? 0.46 : 0.3)",
            says="'layer ' + datum.layer + ': ' + datum.size + ' ' + datum.who",
        )
        .mark_rect(cursor="pointer")
        .encode(
            x=x,
            x2=alt.X2("end:Q"),
            y=_layers("top:Q"),
            y2=alt.Y2("bottom:Q"),
            **drawn_as("who:N", _LOOKS, named=_NAMED),
            **spoken(),
        )
    )
    prompt = (
        alt.Chart()
        .transform_filter("isValid(datum.prompt)")
        .transform_calculate(
            top="datum.layer - 0.42",
            bottom="datum.layer + 0.04",
            zero="0",
            says="'layer ' + datum.layer + ': ' + datum.prompt + ' of a prompt'",
        )
        .mark_rect(color=INK, opacity=0.4, cursor="pointer")
        .encode(
            x=alt.X("zero:Q"),
            x2=alt.X2("prompt:Q"),
            y=_layers("top:Q"),
            y2=alt.Y2("bottom:Q"),
            **spoken(),
        )
    )
    said = (
        "'layer ' + datum.layer + ': union of ' + datum.union + ', by chance ' "
        "+ format(uniform, '.1f') + ', at most ' + bound"
    )
    layers = [
        _lines(NARROW, said),
        bars,
        prompt,
        _limit("uniform", color=INK, strokeDash=[4, 3]),
        _limit("bound", color=PALETTE["unreached"], strokeWidth=2),
        _chosen(NARROW),
    ]
    words = Said(
        "Union of each layer",
        "dashed: expected by chance; grey: at most; below: if measured",
        "Bars, a line for each layer: experts of the root and those added by drafts; "
        "below, where slots were measured, how many were in a slot, late or read. "
        "A dashed rule at the union of rows that choose at random, a grey one at the "
        "most there can be.",
    )
    values = {"window": -1, "layer": -1, "layers": 4}
    values |= {"most": 16, "uniform": 0, "bound": 0, "slots": False}
    return finished(layers, words, width=NARROW, height=height, **values)


def _boxes() -> alt.Chart:
    """One row of data for each expert of each layer, from text of ids."""
    kinds = "[" + ", ".join(f"'{kind}'" for kind in KINDS) + "]"
    made: alt.Chart = (
        alt.Chart()
        .transform_filter("isValid(datum.experts)")
        .transform_calculate(lists="split(datum.experts, '|')")
        .transform_calculate(places="sequence(length(datum.lists))")
        .transform_flatten(["lists", "places"], as_=["list", "place"])
        .transform_calculate(ids="split(datum.list, ' ')")
        .transform_flatten(["ids"], as_=["id"])
        .transform_filter("datum.id !== ''")
        .transform_calculate(
            kind="datum.place % 4", held="datum.place > 3", expert="toNumber(datum.id)"
        )
        .transform_calculate(
            left="datum.expert - 0.45",
            right="datum.expert + 0.45",
            top="datum.layer - 0.4",
            bottom="datum.layer + (datum.kind === 0 ? 0 : 0.3)",
            over="datum.layer + 0.32",
            under="datum.layer + 0.45",
            who=f"datum.kind < 2 ? '{_PARTS[0]}' : '{_PARTS[1]}'",
            says="'layer ' + datum.layer + ', expert ' + datum.expert + ': ' "
            f"+ {kinds}[datum.kind] + (datum.held ? ', in a slot now' : '')",
        )
    )
    return made


def _from_zero(count: str) -> alt.Scale:
    """A scale of indices, so that a tick is in the middle of its line or column."""
    last = alt.ExprRef(f"{count} - 0.5")
    return alt.Scale(domainMin=-0.5, domainMax=last, nice=False)


def _layers(field: str) -> alt.Y:
    scale = alt.Scale(
        domainMin=-0.5,
        domainMax=alt.ExprRef("layers - 0.5"),
        nice=False,
        reverse=True,
    )
    y: alt.Y = alt.Y(field, title="layer (index)", scale=scale).axis(
        format="d", tickMinStep=1, grid=False
    )
    return y


def _across(mark: alt.Chart, width: int) -> alt.Chart:
    """From edge to edge of a layer's line."""
    made: alt.Chart = mark.encode(
        x=alt.XValue(0),
        x2=alt.X2Value(width),
        y=_layers("above:Q"),
        y2=alt.Y2("below:Q"),
    )
    return made


def _one(condition: str) -> alt.Chart:
    made: alt.Chart = (
        alt.Chart()
        .transform_filter(condition)
        .transform_calculate(above="datum.layer - 0.5", below="datum.layer + 0.5")
    )
    return made


def _lines(width: int, says: str) -> alt.Chart:
    """What a click beside the marks finds: the layer's whole line."""
    mark = _one("isValid(datum.layer)").transform_calculate(says=says)
    made = _across(mark.mark_rect(fill="transparent", cursor="pointer"), width)
    return made.encode(**spoken())


def _chosen(width: int) -> alt.Chart:
    mark = _one("datum.layer === layer")
    return _across(
        mark.mark_rect(fill=None, stroke=INK, strokeWidth=2, aria=False), width
    )


def _limit(name: str, **look: Any) -> alt.Chart:
    one = alt.Chart().transform_aggregate(lines="count()")
    rule = one.transform_filter(f"{name} > 0").mark_rule(aria=False, **look)
    made: alt.Chart = rule.encode(x=alt.X(datum=alt.ExprRef(name), type="quantitative"))
    return made
