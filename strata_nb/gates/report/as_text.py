"""A report as lines of plain text, at most 100 columns wide."""

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from strata_nb.gates.records import PARTS, STATES, Finding
from strata_nb.gates.report.report import Report
from strata_nb.gates.report.tally import GateReport, Listed, Planted
from strata_nb.trace.text import counted

WIDTH = 100
SHOWN = 5
"""Cases of a gate that are shown of each kind; the JSON file lists them."""

_LETTERS = {"twin": "T", "replay": "R", "serial": "S", "rule": "#"}
_LEGEND = "T twin, R replay, S serial, # rule of the case; * the part it was planted in"
_WHEN = {"commit": "right after the commit", "after": "in the rows after it"}


def lines(report: Report) -> list[str]:
    """The report for reading; all but the last line is the same from run to run.

    Args:
        report: of a run, or read from a file.
    """
    found = [*_head(report)]
    for gate in report.gates:
        found += ["", *_gate(gate)]
    found += ["", *_wrapped("rounding floor:", _floor(report))]
    if report.matrix:
        found += ["", *_matrix(report.matrix)]
    return [_cut(plain(line)) for line in (*found, "", _about(report))]


def short(report: Report) -> list[str]:
    """Only what the gates found: the same on any machine as long as they find it.

    Args:
        report: of a run, or read from a file.
    """
    planted = "none" if report.fault is None else plain(report.fault)
    found = [f"verdict: {report.verdict}   fault planted: {planted}"]
    for gate in report.gates:
        found += ["", *_gate(gate)]
    if report.matrix:
        found += ["", *_matrix(report.matrix)]
    # A file may hold anything, in places too that a run fills with plain words.
    return [_cut(plain(line)) for line in (*found, "")]


def plain(text: str) -> str:
    """`text` in printable ASCII, anything else as an escape.

    Text of a token or a file name can then neither move the cursor nor break a column.
    """
    return "".join(
        c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text
    )


def finding(found: Finding) -> str:
    """One finding in words."""
    place = [plain(found.what)]
    place += [] if found.layer is None else [f"layer {found.layer}"]
    place += [] if found.cell is None else [f"cell {found.cell}"]
    words = [] if found.by == "rule" else [f"size {_size(found.size)}"]
    words += [] if found.gap is None else [f"gap {_size(found.gap)}"]
    words += [f"seen by {found.by} {_WHEN[found.moment]}"]
    said = f"{' '.join(place)}: {', '.join(words)}"
    return f"{said}; {plain(found.note)}" if found.note else said


def idle(gate: GateReport) -> str:
    """Why a gate proves nothing; empty where it does."""
    if not gate.cases:
        return "it has no cases"
    return f"never changed: {', '.join(gate.idle)}" if gate.idle else ""


def _head(report: Report) -> Iterator[str]:
    planted = "none" if report.fault is None else plain(report.fault)
    yield f"verdict: {report.verdict.upper()}"
    yield f"profile: {report.profile}   fault planted: {planted}"
    origin = report.provenance
    yield f"model:   {plain(origin.model)} {origin.model_digest[:16]}"
    versions = ", ".join(f"{name} {v}" for name, v in sorted(origin.versions.items()))
    yield f"code:    {origin.source_digest[:16]}, {versions}, on {origin.device}"
    options = (f"{name}={value}" for name, value in sorted(origin.options.items()))
    yield from _wrapped("options:", plain(", ".join(options)))


def _gate(gate: GateReport) -> Iterator[str]:
    yield f"{gate.verdict.upper():<9} {plain(gate.name)}: {plain(gate.title)}"
    width = max([len("family"), *(len(plain(name)) for name in gate.families)])
    width = min(width, 40)
    yield _row("family", width, ("cases", "same", "near-tie", "fault"))
    for name, n in gate.families.items():
        counts = (n.cases, n.same, n.near_tie, n.fault)
        yield _row(plain(name), width, counts)
    moved = ", ".join(f"{part} {gate.changed[part]}" for part in _ordered(gate.changed))
    yield from _wrapped("  changed:", moved or "no part")
    if idle(gate):
        yield from _wrapped("  vacuous:", idle(gate))
    yield from _cases("fault", gate.faults, gate.unlisted)
    yield from _cases("near-tie", gate.near_ties, 0)


def _row(name: str, width: int, cells: Iterable[object]) -> str:
    return f"  {_cut(name, width):<{width}}" + "".join(f"{c:>10}" for c in cells)


def _cases(kind: str, listed: tuple[Listed, ...], unlisted: int) -> Iterator[str]:
    for case in listed[:SHOWN]:
        yield from _wrapped(f"  {kind}:", plain(case.id))
        for found in case.findings[:2]:
            yield from _wrapped("     ", finding(found))
        more = len(case.findings[2:]) + case.more
        if more:
            yield f"      and {counted(more, 'finding')} more"
    rest = len(listed[SHOWN:]) + unlisted
    if rest:
        yield f"  and {counted(rest, kind)} more"


def _floor(report: Report) -> str:
    floor = report.floor
    if floor is None:
        return "not measured, so no near-tie is granted"
    return (
        f"over {floor.rows} rows, logits {_size(floor.logits)}, experts "
        f"{_size(floor.experts)}, blocks {_size(floor.blocks)}, parts "
        f"{_size(max(floor.parts.values(), default=0.0))} of their RMS"
    )


def _matrix(rows: tuple[Planted, ...]) -> Iterator[str]:
    """Faults down, parts across; what is no part goes into a last column.

    The engine's parts and what is beside an engine have a table each: one line could
    not hold all of them.
    """
    yield "planted faults, and the comparisons that caught them by part"
    yield f"  {_LEGEND}"
    beside = [row for row in rows if row.part in STATES and row.part not in PARTS]
    for some in ([row for row in rows if row not in beside], beside):
        if some:
            yield from _table(some)


def _table(rows: Sequence[Planted]) -> Iterator[str]:
    parts = [p for p in STATES if any(p in row.caught or p == row.part for row in rows)]
    width = min(26, max(len("planted"), *(len(plain(row.fault)) for row in rows)))
    widths = {part: max(5, *map(len, part.split("_"))) for part in parts}
    upper = (part.split("_")[0].rjust(widths[part]) for part in parts)
    lower = (part.partition("_")[2].rjust(widths[part]) for part in parts)
    yield f"  {'':<{width}} {' '.join(upper)}"
    yield f"  {'planted':<{width}} {' '.join(lower)}  elsewhere"
    for row in rows:
        cells = (_cell(row, part).rjust(widths[part]) for part in parts)
        start = f"  {_cut(plain(row.fault), width):<{width}} {' '.join(cells)}"
        yield f"{start}  {_elsewhere(row, parts)}".rstrip()


def _cell(row: Planted, part: str) -> str:
    letters = _letters(row.caught.get(part, {}))
    return ("*" if part == row.part else "") + (letters or ".")


def _elsewhere(row: Planted, parts: Iterable[str]) -> str:
    if not row.caught:
        return "NOT CAUGHT"
    others = (what for what in _ordered(row.caught) if what not in parts)
    return " ".join(f"{plain(what)} {_letters(row.caught[what])}" for what in others)


def _letters(counts: Mapping[str, int]) -> str:
    return "".join(letter for by, letter in _LETTERS.items() if counts.get(by))


def _about(report: Report) -> str:
    about = report.about
    return (
        f"ran to {plain(about.date)}, {about.seconds:g} s, workers: {about.workers}, "
        f"{plain(about.system)}"
    )


def _ordered(names: Iterable[str]) -> list[str]:
    """Parts in the order in which a layer computes them, then the others by name."""
    known = {part: place for place, part in enumerate(STATES)}
    return sorted(names, key=lambda name: (known.get(name, len(STATES)), name))


def _size(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else str(value)


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(
        f"{start} {text}",
        WIDTH,
        subsequent_indent=" " * 6,
        drop_whitespace=True,
        break_on_hyphens=False,
        initial_indent="",
    )


def _cut(text: str, width: int = WIDTH) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
