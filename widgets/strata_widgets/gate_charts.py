"""Report to chart: the board of a gate's cases, who caught what, and near-ties.

Pure functions. Equal cases give equal drawings, so that a picture in which only a fault
is switched moves nothing but its squares.
"""

import functools
import json
import math
from collections.abc import Iterable, Mapping
from typing import Final

import altair as alt

from strata_nb.gates import PARTS, Finding, Report
from strata_nb.gates.judge.floor import Floor
from strata_nb.gates.report.as_text import finding as told
from strata_nb.gates.report.tally import VERDICTS, GateReport, Planted, Verdict
from strata_widgets.drawing import INK, Row, spoken, with_rows
from strata_widgets.state_drawings import LINE
from strata_widgets.theme import PALETTE, dressed

COLOURS: Final[dict[Verdict, str]] = {
    "same": PALETTE["accepted"],
    "near-tie": PALETTE["added"],
    "fault": PALETTE["mismatch"],
    "vacuous": PALETTE["unreached"],
}
SIGNS: Final[dict[Verdict, str]] = {
    "same": "",
    "near-tie": "≈",
    "fault": "\u00d7",
    "vacuous": "?",
}
"""What a square holds: a verdict must show to a reader of no colours as well."""

LETTERS: Final = {"twin": "T", "replay": "R", "serial": "S", "rule": "#"}
MISSED: Final = "missed"

_ACROSS: Final = 32
_SQUARE: Final = 13
_CELL: Final = (56, 28)
_TIES: Final = (400, 240)


def board(report: Report) -> alt.LayerChart:
    """Draw every case as a square, family by family, coloured by its verdict.

    The squares of a gate that could not have failed are vacuous instead of same. A
    report that was read from a file has no names for cases that were the same.

    Args:
        report: of any number of gates.

    Raises:
        ValueError: the report has no cases.
    """
    rows: list[Row] = []
    lines: list[str] = []
    for gate in report.gates:
        several = f"{gate.name} " if len(report.gates) > 1 else ""
        for family, squares in _squares(gate).items():
            for at, (verdict, says) in enumerate(squares):
                place = {"line": len(lines) + at // _ACROSS, "place": 1 + at % _ACROSS}
                seen = {"verdict": _named(verdict), "says": says}
                seen["sign"] = SIGNS[verdict]
                rows.append(place | seen)
            lines += [f"{several}{family} ({len(squares)})"]
            lines += [""] * ((len(squares) - 1) // _ACROSS)
    if not rows:
        raise ValueError("a board wants cases, got none; run a gate that has some")
    gates = ", ".join(gate.name for gate in report.gates)
    return with_rows(_drawn_board(gates, tuple(lines)), rows)


def matrix(planted: Iterable[Planted]) -> alt.LayerChart:
    """Draw which comparison caught which planted fault, and in which part first.

    Args:
        planted: of one report (`report.matrix`) or of several, one row each.

    Raises:
        ValueError: no fault was planted.
    """
    listed = list(planted)
    if not listed:
        raise ValueError(
            "a matrix wants planted faults, got none; run a gate with `fault`, or the "
            "gate `faults`"
        )
    others = {what for row in listed for what in row.caught if what not in PARTS}
    whats = (*PARTS, *sorted(others))
    names = tuple(dict.fromkeys(row.fault for row in listed))
    rows = [_crossing(row, what) for row in listed for what in whats]
    most = max(1, *(row["cases"] for row in rows))
    return with_rows(_drawn_matrix(names, whats, most), rows)


def near_ties(found: Iterable[Finding], floor: Floor) -> alt.LayerChart:
    """Draw decisions that fell the other way: the gap there against the difference.

    Both are counted in floors, so that tokens, experts and blocks share a picture. What
    lies past an end of an axis is drawn at that end.

    Args:
        found: findings; those about no decision have no gap and are left out.
        floor: the engine's rounding.

    Raises:
        ValueError: no finding is about a decision.
    """
    listed = [f for f in found if f.gap is not None and f.what in _FLOORS]
    if not listed:
        raise ValueError(
            "a picture of near-ties wants findings with a gap, got none; decisions "
            f"are {', '.join(_FLOORS)}"
        )
    rows = [_decision(f, getattr(floor, _FLOORS[f.what])) for f in listed]
    edges = (
        *({"edge": 1, "x": x, "low": max(_LEAST, x / 2)} for x in _CORNERS),
        *({"line": 1, "x": x, "low": x / 2} for x in (2 * _LEAST, _MOST)),
        {"floor": 1, "low": 1.0},
    )
    return with_rows(_drawn_ties(), [*edges, *rows])


# ------------------------------------------------------------------- rows


def _squares(gate: GateReport) -> dict[str, list[tuple[Verdict, str]]]:
    """Verdict and words of each case, by family in the order of the report."""
    found: dict[str, list[tuple[Verdict, str]]] = {name: [] for name in gate.families}
    if gate.results:
        for result in gate.results:
            verdict = _worn(gate, result.verdict)
            cause = f", {told(result.cause)}" if result.cause else ""
            name = result.case.id
            found[result.case.family].append((verdict, f"{name}: {verdict}{cause}"))
        return found
    for name, counts in gate.families.items():
        numbers: Mapping[Verdict, int] = {
            "same": counts.same,
            "near-tie": counts.near_tie,
            "fault": counts.fault,
        }
        for kind, number in numbers.items():
            verdict = _worn(gate, kind)
            found[name] += [(verdict, f"{gate.name}/{name}: {verdict}")] * number
    return found


def _named(verdict: Verdict) -> str:
    return f"{verdict} {SIGNS[verdict]}".rstrip()


def _worn(gate: GateReport, verdict: Verdict) -> Verdict:
    return "vacuous" if (gate.verdict, verdict) == ("vacuous", "same") else verdict


def _crossing(row: Planted, what: str) -> Row:
    """One fault and one part."""
    counts = row.caught.get(what, {})
    here = what == row.part
    words = ", ".join(f"{by} in {counts[by]} cases" for by in LETTERS if by in counts)
    letters = "".join(sign for by, sign in LETTERS.items() if counts.get(by))
    planted = " (planted here)" if here else ""
    said = f"{row.fault} in {what}{planted}: {words or 'not seen first here'}"
    return {
        "fault": row.fault,
        "what": _two_lines(what),
        "cases": max(counts.values(), default=0),
        "letters": letters or (MISSED if here and not row.caught else ""),
        "planted": here,
        "says": said,
    }


def _two_lines(what: str) -> str:
    return what.replace("_", LINE, 1)


_FLOORS: Final = {"token": "logits", "experts": "experts", "blocks": "blocks"}
_LEAST, _MOST = 1e-2, 1e6  # ends of both axes, in floors
_CORNERS: Final = (_LEAST, 2 * _LEAST, 2.0)


def _decision(found: Finding, floor: float) -> Row:
    assert found.gap is not None
    return {
        "kind": found.kind,
        "gap": _within(found.gap, floor),
        "difference": _within(found.size, floor),
        "says": f"{found.kind}: {told(found)}",
    }


def _within(size: float, floor: float) -> float:
    """`size` in floors, between the ends of the axis."""
    counted = size / floor if floor > 0 else math.inf
    return min(max(counted, _LEAST), _MOST)


# ------------------------------------------------------------------- drawings

# It takes Altair a tenth of a second to check one, so each is made once for what it
# must hold and then filled with the rows of the moment.


@functools.cache
def _drawn_board(gates: str, lines: tuple[str, ...]) -> alt.LayerChart:
    x = alt.X(
        "place:O",
        title=f"case (number within its line of {_ACROSS})",
        scale=alt.Scale(domain=[*range(1, _ACROSS + 1)], paddingInner=0.14),
        axis=alt.Axis(values=[1, *range(8, _ACROSS + 1, 8)], labelAngle=0),
    )
    y = alt.Y(
        "line:O",
        title="family (cases)",
        scale=alt.Scale(domain=[*range(len(lines))], paddingInner=0.14),
        # Only the first line of a family has its name.
        axis=alt.Axis(
            labelExpr=f"{json.dumps(lines)}[datum.value]",
            labelLimit=220,
            labelOverlap=False,
            # Above the names: beside a single line there is no room.
            titleAngle=0,
            titleAlign="right",
            titleX=-4,
            titleBaseline="bottom",
            titleY=-2,
            ticks=False,
            domain=False,
        ),
    )
    colour = alt.Scale(
        domain=[_named(verdict) for verdict in VERDICTS],
        range=[COLOURS[verdict] for verdict in VERDICTS],
    )
    squares = alt.Chart().mark_rect(cornerRadius=2, opacity=1)
    signs = alt.Chart().mark_text(fontSize=10, color="white", aria=False)
    fill = alt.Color("verdict:N", scale=colour, legend=alt.Legend(columns=4))
    layered = alt.LayerChart(
        layer=[
            squares.encode(x=x, y=y, color=fill, **spoken()),
            signs.encode(x=x, y=y, text=alt.Text("sign:N")),
        ],
        width=_SQUARE * _ACROSS,
        height=_SQUARE * len(lines),
    )
    return dressed(
        layered,
        title=f"Every case of {gates}",
        subtitle="a square a case, family by family, in their order",
        description="Squares in lines, one a case, by family: same, near-tie, fault "
        "or vacuous.",
    )


@functools.cache
def _drawn_matrix(
    faults: tuple[str, ...], whats: tuple[str, ...], most: int
) -> alt.LayerChart:
    x = alt.X(
        "what:N",
        title="where it showed first (part of the state)",
        scale=alt.Scale(domain=[_two_lines(what) for what in whats]),
        axis=alt.Axis(
            labelExpr=f"split(datum.label, '{LINE}')",
            labelAngle=0,
            domain=False,
            ticks=False,
        ),
    )
    y = alt.Y(
        "fault:N",
        title="planted fault (name)",
        scale=alt.Scale(domain=[*faults]),
        axis=alt.Axis(labelLimit=220, domain=False, ticks=False),
    )
    shade = alt.Fill(
        "cases:Q",
        # See-through, for a dark page, and light enough at the end for the letters.
        scale=alt.Scale(domain=[0, most], range=[_faded(0), _faded(0.55)]),
        legend=alt.Legend(
            title="cases that caught it (count)",
            titleFontWeight="normal",
            titleFontSize=11,
            gradientLength=160,
            values=sorted({0, most // 2, most}),
        ),
    )
    cells = alt.Chart().mark_rect(stroke=PALETTE["unreached"], strokeOpacity=0.5)
    framed = alt.Chart().transform_filter("datum.planted")
    frame = framed.mark_rect(fillOpacity=0, stroke=INK, strokeWidth=2.5, aria=False)
    letters = alt.Chart().mark_text(fontSize=12, aria=False)
    layered = alt.LayerChart(
        layer=[
            cells.encode(x=x, y=y, fill=shade, **spoken()),
            frame.encode(x=x, y=y),
            letters.encode(x=x, y=y, text=alt.Text("letters:N")),
        ],
        width=_CELL[0] * len(whats),
        height=_CELL[1] * len(faults),
    )
    return dressed(
        layered,
        title="Planted faults, and who caught them",
        subtitle="T twin, R replay, S serial, # a rule of the case; framed: the part "
        "it was planted in",
        description="A grid of planted faults by part of the state; letters name the "
        "comparisons that caught a fault there first, a frame the part in which it was "
        "planted.",
    )


@functools.cache
def _drawn_ties() -> alt.LayerChart:
    ends = alt.Scale(type="log", domain=[_LEAST, _MOST], clamp=True, nice=False)
    axis = alt.Axis(format=",~g", values=[_LEAST, 1, 100, 10_000, _MOST])
    across, up = "gap at the decision (floors)", "difference seen there (floors)"
    x = alt.X("x:Q", title=across, scale=ends, axis=axis)
    y = alt.Y("low:Q", title=up, scale=ends, axis=axis)
    kinds: list[Verdict] = ["near-tie", "fault"]
    colour = alt.Scale(domain=kinds, range=[COLOURS[kind] for kind in kinds])
    shape = alt.Scale(domain=kinds, range=["circle", "cross"])
    area = _only("edge").mark_area(color=COLOURS["near-tie"], opacity=0.2, aria=False)
    slope = _only("line").mark_line(
        color=INK, strokeWidth=1.2, strokeDash=[4, 3], aria=False, clip=True
    )
    rule = _only("floor").mark_rule(color=INK, strokeWidth=1.2, aria=False)
    dots = _only("kind").mark_point(filled=True, size=46, opacity=1)
    marks = dots.encode(
        x=alt.X("gap:Q", title=across),
        y=alt.Y("difference:Q", title=up),
        color=alt.Color("kind:N", scale=colour),
        shape=alt.Shape("kind:N", scale=shape),
        **spoken(),
    )
    layered = alt.LayerChart(
        layer=[
            area.encode(x=x, y=y, y2=alt.Y2Datum(1.0)),
            slope.encode(x=x, y=y),
            rule.encode(y=y),
            _note("the floor", y=_TIES[1] * 3 / 4 - 3),
            # On the side of the line where no dot can be.
            _note("gap = twice the difference", y=_TIES[1] / 2),
            marks,
        ],
        width=_TIES[0],
        height=_TIES[1],
    )
    return dressed(
        layered,
        title="What rounding may turn over",
        subtitle="near-ties lie in the shaded corner; both axes are logarithmic",
        description="Dots, one a decision that fell the other way: the gap there "
        "against the difference; a line at the floor, and one where the gap is twice "
        "the difference. Near-ties lie below the first and above the second.",
    )


def _faded(opacity: float) -> str:
    red, green, blue = bytes.fromhex(PALETTE["mismatch"].removeprefix("#"))
    return f"rgba({red},{green},{blue},{opacity})"


def _note(text: str, *, y: float) -> alt.Chart:
    """Words that end at the right edge."""
    words = _only("floor").mark_text(align="right", baseline="bottom", aria=False)
    made: alt.Chart = words.encode(
        x=alt.XValue(_TIES[0] - 4), y=alt.YValue(y), text=alt.TextValue(text)
    )
    return made


def _only(field: str) -> alt.Chart:
    """A layer of the rows that have `field`."""
    made: alt.Chart = alt.Chart().transform_filter(f"isValid(datum.{field})")
    return made
