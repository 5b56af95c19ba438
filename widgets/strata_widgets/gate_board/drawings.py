"""The board's two charts, without rows."""

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt

from strata_nb.gates.records import STATES
from strata_nb.gates.report.tally import VERDICTS, Planted
from strata_widgets.drawing import (
    INK,
    Said,
    noted,
    params,
    spoken,
    with_rows,
    worded,
)
from strata_widgets.gate_board.book import WORDS
from strata_widgets.gate_charts import COLOURS, LETTERS, MISSED, SIGNS
from strata_widgets.theme import PALETTE

ELSEWHERE: Final = "elsewhere"
COLUMNS: Final = (*STATES, ELSEWHERE)
_NOT_YET: Final = WORDS["."]
_COLUMN, _FAULT = 34, 17  # pixels
_LOW: Final = 40
# Above the names: beside a single line there is no room.
_ABOVE: Final[dict[str, Any]] = {
    "titleAngle": 0,
    "titleAlign": "right",
    "titleX": -4,
    "titleBaseline": "bottom",
    "titleY": -6,
}
_SHOWN: Final = {word: f"{word} {SIGNS[word]}".rstrip() for word in VERDICTS}


@functools.cache
def cells(across: int, side: int, lines: int) -> alt.LayerChart:
    """Every case of a page as a cell in the colour of its verdict.

    A row of data is some cells in a row: `at` (the slot of the first) and `v` (a letter
    each, as `WORDS` has them; a blank is no case). A later row covers an earlier one.

    Args:
        across: cells in a line.
        side: pixels of a cell.
        lines: of a page.
    """
    x = alt.X(
        "place:O",
        title=f"case (index within its line of {across})",
        scale=alt.Scale(domain=[*range(across)], paddingInner=0.14),
        axis=alt.Axis(values=[*range(0, across, 8)], labelAngle=0),
    )
    y = alt.Y(
        "line:O",
        title="family (cases)",
        scale=alt.Scale(domain=[*range(lines)], paddingInner=0.14),
        # Only the first line of a family has its name.
        axis=alt.Axis(
            labelExpr="labels[datum.value] || ''",
            labelLimit=220,
            labelOverlap=False,
            ticks=False,
            domain=False,
            **_ABOVE,
        ),
    )
    squares = _judged().mark_rect(cornerRadius=2, opacity=1, aria=False)
    # On top, so that a sign does not catch the click that is meant for its cell.
    hits = _judged().mark_rect(fill="transparent", opacity=1, cursor="pointer")
    signs = _judged().transform_calculate(sign=f"{json.dumps(SIGNS)}[datum.word]")
    signs = signs.transform_filter("datum.sign !== ''")
    coming = alt.Chart().transform_filter("datum.letter === '.'")
    hollow = coming.mark_rect(
        fill="transparent",
        stroke=PALETTE["unreached"],
        strokeWidth=1,
        cornerRadius=2,
        cursor="pointer",
        aria=False,
    )
    chosen = alt.Chart().transform_filter("datum.slot === chosen")
    layered = alt.LayerChart(
        layer=[
            hollow.encode(x=x, y=y),
            squares.encode(x=x, y=y, color=_legend()),
            signs.mark_text(fontSize=side - 2, color="white", aria=False).encode(
                x=x, y=y, text=alt.Text("sign:N")
            ),
            chosen.mark_rect(
                fillOpacity=0, stroke=INK, strokeWidth=side / 5, aria=False
            ).encode(x=x, y=y),
            hits.encode(x=x, y=y, **spoken()),
        ],
        width=side * across,
        height=side * lines,
    )
    layered = _spread(layered, across)
    lists = [alt.param(name=name, value=[]) for name in ("labels", "families")]
    firsts = alt.param(name="firsts", value=[])
    drawn = layered.add_params(*params(chosen=-1), *lists, firsts)
    words = Said(
        "Every case",
        "a cell a case, family by family; hollow: not judged yet; click one to read it",
        "Cells in lines, one a case, family by family: same, near-tie, fault, vacuous, "
        "or hollow while it is not judged.",
    )
    return with_rows(worded(drawn, words), [])


def _spread(chart: alt.LayerChart, across: int) -> alt.LayerChart:
    """From a row's text to a mark a letter, with its slot, line, place and words."""
    word = f"{json.dumps(WORDS)}[datum.letter]"
    number = "(firsts[datum.line] + datum.place)"
    said = f"'case ' + {number} + ', ' + families[datum.line] + ': ' + datum.word"
    made: alt.LayerChart = (
        chart.transform_calculate(
            letters="split(datum.v, '')",
            slots="sequence(datum.at, datum.at + length(datum.v))",
        )
        .transform_flatten(["letters", "slots"], as_=["letter", "slot"])
        .transform_filter("datum.letter !== ' '")
        .transform_calculate(
            line=f"floor(datum.slot / {across})",
            place=f"datum.slot % {across}",
            word=word,
        )
        .transform_calculate(
            shown=f"{json.dumps({**_SHOWN, _NOT_YET: _NOT_YET})}[datum.word]",
            says=said,
        )
    )
    return made


def _judged() -> alt.Chart:
    made: alt.Chart = alt.Chart().transform_filter("datum.letter !== '.'")
    return made


def _legend() -> alt.Color:
    scale = alt.Scale(
        domain=[_SHOWN[word] for word in VERDICTS],
        range=[COLOURS[word] for word in VERDICTS],
    )
    return alt.Color("shown:N", scale=scale, legend=alt.Legend(columns=4))


@functools.cache
def matrix(faults: tuple[str, ...]) -> alt.LayerChart:
    """Planted faults by the part in which they showed first, and who saw it.

    A row of data is a fault: `fault`, `planted` (index of the part it starts in), `c`
    (cases, one number a column) and `l` (letters of the comparisons, one a column).

    Args:
        faults: their names, from the top; none: an empty chart.
    """
    width = _COLUMN * len(COLUMNS)
    height = _FAULT * len(faults) or _LOW
    x = alt.X(
        "what:N",
        title="where it showed first (part of the state)",
        scale=alt.Scale(domain=[*COLUMNS]),
        axis=alt.Axis(
            labelAngle=-50,
            labelOverlap=False,
            labelPadding=6,
            domain=False,
            ticks=False,
        ),
    )
    y = alt.Y(
        "fault:N",
        title="planted fault (name)",
        scale=alt.Scale(domain=[*faults]),
        axis=alt.Axis(
            labelLimit=220, labelOverlap=False, domain=False, ticks=False, **_ABOVE
        ),
    )
    shade = alt.Fill(
        "cases:Q",
        scale=alt.Scale(
            domainMin=0,
            domainMax=alt.ExprRef("most"),
            # See-through, for a dark page, and light enough at the end for the letters.
            range=[_faded(0), _faded(0.55)],
        ),
        legend=alt.Legend(
            title="cases that caught it (count)",
            titleFontWeight="normal",
            titleFontSize=11,
            gradientLength=160,
            # Whole numbers, none of them twice.
            values=alt.ExprRef("most < 2 ? [0, 1] : [0, floor(most / 2), most]"),
            format="d",
        ),
    )
    squares = alt.Chart().mark_rect(stroke=PALETTE["unreached"], strokeOpacity=0.5)
    framed = alt.Chart().transform_filter("datum.column === datum.planted")
    frame = framed.mark_rect(fillOpacity=0, stroke=INK, strokeWidth=2.5, aria=False)
    letters = alt.Chart().mark_text(fontSize=9, aria=False)
    layers = [
        squares.encode(x=x, y=y, fill=shade, **spoken()),
        frame.encode(x=x, y=y),
        letters.encode(x=x, y=y, text=alt.Text("letters:N")),
    ]
    if not faults:
        layers = [noted(width, height)]
    drawn = alt.LayerChart(layer=layers, width=width, height=height)
    if faults:
        drawn = _crossed(drawn).add_params(*params(most=1))
    words = Said(
        "Planted faults, and who caught them",
        "T twin, R replay, S serial, # a rule of the case; framed: the part it was "
        "planted in",
        "A grid of planted faults by part of the state; letters name the comparisons "
        "that caught a fault there first, a frame the part in which it was planted.",
    )
    return with_rows(worded(drawn, words), [])


def _crossed(chart: alt.LayerChart) -> alt.LayerChart:
    said = (
        "datum.fault + ' in ' + datum.what + (datum.column === datum.planted ? "
        "' (planted here)' : '') + ': ' + (datum.cases ? datum.letters + ' in ' + "
        "datum.cases + ' cases' : 'not seen first here')"
    )
    made: alt.LayerChart = (
        chart.transform_calculate(
            whats=json.dumps(COLUMNS), columns=f"sequence({len(COLUMNS)})"
        )
        .transform_flatten(
            ["c", "l", "whats", "columns"], as_=["cases", "letters", "what", "column"]
        )
        .transform_calculate(says=said)
    )
    return made


def crossing(row: Planted) -> dict[str, Any]:
    """One fault as a row of the matrix."""
    columns = _columns(row)
    planted = COLUMNS.index(row.part) if row.part in COLUMNS else -1
    letters = [_letters(columns.get(what, {})) for what in COLUMNS]
    if not row.caught and planted >= 0:
        letters[planted] = MISSED
    return {
        "fault": row.fault,
        "planted": planted,
        "c": [max(columns.get(w, {}).values(), default=0) for w in COLUMNS],
        "l": letters,
    }


def _columns(row: Planted) -> dict[str, dict[str, int]]:
    """Cases that caught a fault, by the column and by the comparison."""
    columns: dict[str, dict[str, int]] = {}
    for what, counts in row.caught.items():
        column = columns.setdefault(what if what in STATES else ELSEWHERE, {})
        for by, count in counts.items():
            column[by] = column.get(by, 0) + count
    return columns


def _letters(counts: Mapping[str, int]) -> str:
    return "".join(sign for by, sign in LETTERS.items() if counts.get(by))


def most(rows: Sequence[Planted]) -> int:
    """The largest count of a column, for the scale of the shades."""
    counts = (n for row in rows for by in _columns(row).values() for n in by.values())
    return max(counts, default=0) or 1


def _faded(opacity: float) -> str:
    red, green, blue = bytes.fromhex(PALETTE["mismatch"].removeprefix("#"))
    return f"rgba({red},{green},{blue},{opacity})"
