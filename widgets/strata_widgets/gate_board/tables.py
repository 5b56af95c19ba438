"""The board in words: one case, the cell that runs it again, families, faults."""

from collections.abc import Sequence
from typing import Final

from strata_nb.gates import Finding, Report
from strata_nb.gates.records import STATES
from strata_nb.gates.report.as_text import finding, idle
from strata_nb.gates.report.tally import Planted
from strata_widgets.gate_board.book import Book, Told
from strata_widgets.gate_charts import LETTERS
from strata_widgets.panel.control import Cell, Table

_COUNTED: Final = ("same", "near-tie", "fault", "vacuous", "not yet")
_UNNAMED: Final = "not kept: a report's file names only cases that are not the same"


def place(found: Finding) -> str:
    """Part, layer and cell of a finding, in words."""
    words = [found.what]
    words += [] if found.layer is None else [f"layer {found.layer}"]
    words += [] if found.cell is None else [f"cell {found.cell}"]
    return " ".join(words)


def counted(book: Book) -> str:
    """How many cases were judged, and how."""
    counts = book.counts()
    judged = book.total - counts.pop("not yet")
    words = [f"{count:,} {word}" for word, count in counts.items() if count]
    return ", ".join([f"{judged:,} of {book.total:,} cases judged", *words])


def verdict(report: Report) -> str:
    """The verdict, and why nothing is proved where that is so."""
    why = "; ".join(filter(None, map(idle, report.gates)))
    vacuous = report.verdict == "vacuous" and why
    return f"verdict: {report.verdict}" + (f" ({why})" if vacuous else "")


def in_words(told: Told) -> str:
    """A case in a few words."""
    said = f"case {told.number}, {told.family.name}: {told.verdict}"
    return said if told.cause is None else f"{said} in {place(told.cause)}"


def case(told: Told) -> Table:
    """A case in words."""
    rows: list[tuple[str, str]] = [
        ("gate", told.family.gate),
        ("family", told.family.name),
        ("settings", told.settings if told.id else _UNNAMED),
        ("verdict", told.verdict),
    ]
    cause = told.cause
    if cause is not None:
        rows += [("part", cause.what)]
        rows += [] if cause.layer is None else [("layer", str(cause.layer))]
        rows += [] if cause.cell is None else [("cell", str(cause.cell))]
        rows += [("size", f"{cause.size:.3g}")] if cause.by != "rule" else []
        rows += [("in words", finding(cause)), ("findings", str(told.findings))]
    return Table(f"Case {told.number}", ("of the case", "is"), rows)


def cell(source: str) -> Table:
    """The cell that runs it again, ready to paste."""
    text = {"text": source.rstrip("\n"), "role": "code"}
    return Table("Runs this case again", ("a cell to paste",), [(text,)])


def families(book: Book) -> Table:
    """Cases of each family by verdict."""
    rows: list[tuple[Cell, ...]] = []
    for family in book.families:
        counts = book.counts(family)
        numbers = [counts[word] for word in _COUNTED]
        rows.append((family.gate, family.name, family.count, *numbers))
    return Table("Families", ("gate", "family", "cases", *_COUNTED), rows)


def _in_a_layer(entry: tuple[str, object]) -> tuple[int, str]:
    """Parts in the order in which a layer computes them, then the rest by name."""
    what = entry[0]
    return (STATES.index(what) if what in STATES else len(STATES)), what


def planted(rows: Sequence[Planted]) -> Table:
    """Planted faults and what caught them."""
    told = []
    for row in rows:
        caught = [
            f"{what}: {', '.join(f'{by} in {n[by]}' for by in LETTERS if by in n)}"
            for what, n in sorted(row.caught.items(), key=_in_a_layer)
        ]
        told.append((row.fault, row.part, "; ".join(caught) or "not caught"))
    return Table("Planted faults", ("fault", "part", "showed first (cases)"), told)
