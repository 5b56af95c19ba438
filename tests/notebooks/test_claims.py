"""Claims of `notebooks/CLAIMS.md` have a status; what they link to shows it."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "notebooks/CLAIMS.md"

KINDS = {
    "mathematics",
    "engine behaviour",
    "measured elsewhere",
    "authors' claim",
    "advice",
}
STATUSES = ("shown", "contradicted", "not reproduced here", "planned")
PLACES = {"13_how_many_drafts", "14_ten_systems", "kernels/"}
"""What a planned claim may wait for."""
REASON_WORDS = 5
STUB_WORDS = 8
"""A text cell of fewer words, headings left out, shows nothing."""

LINK = re.compile(r"\[[^\]]+\]\(([^)]+)\) `([^`]+)`(?:: (.+))?")
# No part of a word, nor behind the point of another number.
NUMBER = re.compile(r"(?<![\w])(?<!\d[.,])\d+(?:[,_]\d{3})*(?:\.\d+)?")
QUOTE = re.compile(r'"([^"]+)"')


@dataclass(frozen=True)
class Item:
    """One link of a row: a cell or a test, and what was found there."""

    file: str
    name: str
    found: str


@dataclass(frozen=True)
class Row:
    """A claim, in the columns of the page."""

    number: int
    claim: str
    kind: str
    status: str
    items: tuple[Item, ...]
    reasons: tuple[str, ...]


def numbers(text: str) -> set[Decimal]:
    return {Decimal(re.sub("[,_]", "", found)) for found in NUMBER.findall(text)}


def plain(text: str) -> str:
    return " ".join(text.split())


def rows(page: str) -> Iterator[Row | str]:
    """The rows of all tables with claims; a string for a line that is none."""
    for line in page.splitlines():
        if not re.match(r"\| *\d", line):
            continue
        columns = [column.strip() for column in line.strip().strip("|").split("|")]
        if len(columns) != 5 or not columns[0].isdigit():
            yield f"wants 5 columns and a number: {line[:60]}"
            continue
        items, reasons = [], []
        for piece in columns[4].split("<br>"):
            link = LINK.fullmatch(piece.strip())
            if link:
                items.append(Item(link[1], link[2], link[3] or ""))
            elif piece.strip():
                reasons.append(piece.strip())
        number, claim, kind, status, _ = columns
        yield Row(int(number), claim, kind, status, tuple(items), tuple(reasons))


def cell_text(cell: Any) -> str:
    """Source and text outputs; empty for a stub, that neither prints nor says much."""
    outputs = []
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            return ""
        data = output.get("data", {})
        kinds = ("text/plain", "text/markdown", "text/html")
        outputs += [output.get("text", ""), *(data.get(kind, "") for kind in kinds)]
    if cell.cell_type == "code":
        is_stub = not cell.get("outputs")
    else:
        said = re.sub(r"^#.*$", "", cell.source, flags=re.M)
        is_stub = len(said.split()) < STUB_WORDS
    return "" if is_stub else "\n".join([cell.source, *outputs])


@cache
def cells(path: Path) -> dict[str, str]:
    """Text by id."""
    notebook = nbformat.read(path, 4)  # type: ignore[no-untyped-call]
    return {cell.id: cell_text(cell) for cell in notebook.cells}


@cache
def shown_by(path: Path) -> dict[str, str]:
    """By name, the source of a test and the constants of its file; nothing imported."""
    source = path.read_text(encoding="utf-8")
    lines, body = source.splitlines(), ast.parse(source).body

    def of(node: ast.stmt, first: int) -> str:
        return "\n".join(lines[first - 1 : node.end_lineno])

    constants = [
        of(node, node.lineno)
        for node in body
        if isinstance(node, ast.Assign | ast.AnnAssign)
    ]
    return {
        node.name: "\n".join(
            [
                *constants,
                of(node, min([node.lineno, *(d.lineno for d in node.decorator_list)])),
            ]
        )
        for node in body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def lacks(text: str, found: str) -> list[str]:
    """Numbers and quotations of `found` that do not stand in `text`."""
    missing = numbers(QUOTE.sub("", found)) - numbers(text)
    here = plain(text)
    quotes = [q for q in QUOTE.findall(found) if plain(q) not in here]
    return [*(f"{n:f}" for n in sorted(missing)), *(f'"{q}"' for q in quotes)]


def linked(item: Item, folder: Path) -> tuple[str, str]:
    """The text that an item links to, or what is wrong with the link."""
    path = (folder / item.file).resolve()
    if not path.is_file():
        return "", f"{item.file} is not there"
    is_notebook = path.suffix == ".ipynb"
    known = cells(path) if is_notebook else shown_by(path)
    if item.name not in known:
        return "", f"{item.file} has no {item.name}"
    text = known[item.name]
    if not text:
        return "", f"{item.name} of {item.file} is a stub: no output, hardly a word"
    missing = lacks(text, item.found)
    if missing:
        wrong = f"{item.name} of {item.file} lacks {', '.join(missing)}"
        better = [name for name, t in known.items() if t and not lacks(t, item.found)]
        if is_notebook and better:
            wrong += f"; all of it stands in {', '.join(better)}"
        return text, wrong
    if is_notebook and not (numbers(item.found) or QUOTE.search(item.found)):
        # Ids of cells count them, so one that is put in moves the others.
        return text, f"{item.name} of {item.file} wants a number or a quotation"
    return text, ""


def wrong_with(row: Row, folder: Path) -> Iterator[str]:
    if row.kind not in KINDS:
        yield f"kind {row.kind!r}, wanted one of {sorted(KINDS)}"
    if row.status not in STATUSES:
        yield f"status {row.status!r}, wanted one of {STATUSES}"
    texts = []
    for item in row.items:
        text, wrong = linked(item, folder)
        texts.append(text)
        if wrong:
            yield wrong
    for reason in row.reasons:
        if len(reason.split()) < REASON_WORDS:
            yield f"{reason!r} is neither a link with a name nor a reason"
        if ".ipynb" in reason or ".py" in reason:
            yield f"a link without its name: {reason!r}"
    if row.status == "shown":
        missing = numbers(row.claim) - numbers("\n".join(texts))
        if missing:
            yield f"no link has the claim's {', '.join(map(str, sorted(missing)))}"
    if row.status in ("shown", "contradicted"):
        if not row.items:
            yield "has no link"
    elif not row.reasons:
        yield "has no reason"
    if row.status == "planned":
        named = PLACES & set(re.findall("`([^`]+)`", " ".join(row.reasons)))
        if not named:
            yield f"planned, but for none of {sorted(PLACES)}"
        for place in named:
            if (folder / f"{place}.ipynb").exists():
                yield f"planned for {place}, which is here: say what it shows"


def problems(page: str, folder: Path) -> list[str]:
    """What is wrong with a page of claims in `folder`, with the claim's number."""
    found, read = [], []
    for row in rows(page):
        if isinstance(row, str):
            found.append(row)
            continue
        read.append(row)
        found += [f"claim {row.number}: {wrong}" for wrong in wrong_with(row, folder)]
    if [row.number for row in read] != list(range(1, len(read) + 1)):
        found.append("claims are not numbered 1, 2, 3 and so on")
    counts = Counter(row.status for row in read)
    said = f"Of {len(read)} claims " + ", ".join(
        f"{counts[status]} {'are ' * (status == 'shown')}{status}"
        for status in STATUSES
    )
    if said not in plain(page):
        found.append(f"wants the sentence {said!r}")
    return found


def test_every_claim_is_shown_where_it_says() -> None:
    assert problems(PAGE.read_text(encoding="utf-8"), PAGE.parent) == []


def test_there_are_claims_of_every_kind_and_status() -> None:
    read = [row for row in rows(PAGE.read_text("utf-8")) if isinstance(row, Row)]
    assert len(read) > 60
    assert {row.kind for row in read} == KINDS
    assert {row.status for row in read} == set(STATUSES) - {"planned"}


GOOD = """Of 4 claims 1 are shown, 1 contradicted, 1 not reproduced here, 1 planned.

| # | claim | kind | here | where |
|---|---|---|---|---|
| 1 | Of 2,304 some fail. | mathematics | shown | [n](n.ipynb) `cell-1`: 736 of \
2,304<br>[n](n.ipynb) `cell-3`: "no token tells"<br>[t](test_t.py) `test_one`: 4 rows |
| 2 | It never fails. | engine behaviour | contradicted | [n](n.ipynb) `cell-1`: 736 |
| 3 | It is fast. | advice | not reproduced here | No such machine is at hand. |
| 4 | Cut them. | advice | planned | Planned for `13_how_many_drafts` and no other. |
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A notebook, and a file with a test."""
    new = nbformat.v4
    stream = new.new_output("stream", name="stdout", text="736 of 2,304 cases\n")  # type: ignore[no-untyped-call]
    made = [
        new.new_code_cell("count()", id="cell-1", outputs=[stream]),  # type: ignore[no-untyped-call]
        new.new_code_cell("x = 736", id="cell-2"),  # type: ignore[no-untyped-call]
        new.new_markdown_cell(  # type: ignore[no-untyped-call]
            "## 5\nThe state is wrong for long, and no\ntoken tells.", id="cell-3"
        ),
        new.new_markdown_cell("## 736 of 2,304", id="cell-4"),  # type: ignore[no-untyped-call]
    ]
    nbformat.write(new.new_notebook(cells=made), tmp_path / "n.ipynb")  # type: ignore[no-untyped-call]
    (tmp_path / "test_t.py").write_text(
        "import absent\nROWS = 4\nOTHER: int = 9\n\n\n"
        "@absent.mark(17)\ndef test_one():\n    assert 2.50 == ROWS\n\n\n"
        "def helper():\n    return 55\n"
    )
    return tmp_path


def test_a_good_page_has_no_problems(folder: Path) -> None:
    assert problems(GOOD, folder) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("`cell-1`: 736 of", "`cell-9`: 736 of", "claim 1: n.ipynb has no cell-9"),
        ("`test_one`", "`test_two`", "claim 1: test_t.py has no test_two"),
        ("`test_one`", "`helper`", "claim 1: test_t.py has no helper"),
        ("(test_t.py)", "(test_u.py)", "claim 1: test_u.py is not there"),
        ("736 of 2,304<br>", "737 of 2,304<br>", "cell-1 of n.ipynb lacks 737"),
        ("736 of 2,304<br>", "73 of 2,304<br>", "cell-1 of n.ipynb lacks 73"),
        ("736 of 2,304<br>", "36 of 2304<br>", "cell-1 of n.ipynb lacks 36"),
        ("`cell-3`: ", "`cell-1`: ", "all of it stands in cell-3"),
        ("no token tells", "a token tells", 'lacks "a token tells"'),
        ('"no token tells"', "no token tells", "wants a number or a quotation"),
        (": 4 rows", ": 55 rows", "test_one of test_t.py lacks 55"),
        ("`cell-1`: 736 |", "`cell-2`: 736 |", "cell-2 of n.ipynb is a stub"),
        ("`cell-1`: 736 |", "`cell-4`: 736 |", "cell-4 of n.ipynb is a stub"),
        ("Of 2,304 some", "Of 2,305 some", "claim 1: no link has the claim's 2305"),
        ("| 2 | It never", "| 5 | It never", "not numbered 1, 2, 3"),
        ("[n](n.ipynb) `cell-1`: 736 |", "It was seen to fail now. |", "has no link"),
        (" `cell-3`: ", " cell-3: ", "a link without its name"),
        ("No such machine is at hand.", "", "claim 3: has no reason"),
        ("No such machine is at hand.", "No machine.", "nor a reason"),
        ("mathematics", "maths", "claim 1: kind 'maths'"),
        ("| contradicted |", "| refuted |", "claim 2: status 'refuted'"),
        ("`13_how_many_drafts`", "`18_more`", "claim 4: planned, but for none"),
        ("Of 4 claims 1 are", "Of 4 claims 2 are", "wants the sentence"),
        ("| advice | planned |", "| planned |", "wants 5 columns"),
    ],
)
def test_a_planted_mistake_is_named(
    folder: Path, old: str, new: str, says: str
) -> None:
    assert GOOD.count(old) == 1
    found = problems(GOOD.replace(old, new), folder)
    assert any(says in problem for problem in found), found


def test_a_missing_row_is_noticed(folder: Path) -> None:
    lines = GOOD.splitlines(keepends=True)
    for at in (4, 5, 6, 7):
        found = problems("".join([*lines[:at], *lines[at + 1 :]]), folder)
        assert any("wants the sentence" in problem for problem in found)
        assert any("not numbered" in p for p in found) == (at < 7)


def test_a_plan_whose_place_has_come_is_noticed(folder: Path) -> None:
    (folder / "13_how_many_drafts.ipynb").touch()
    (problem,) = problems(GOOD, folder)
    assert problem.startswith("claim 4: planned for 13_how_many_drafts, which is here")


def test_numbers_are_whole_and_alike_however_they_are_written(folder: Path) -> None:
    assert numbers("2,304 and 20_000, 0.70, float64, 1..8, [3, 1], cell-21, 9%") == {
        *map(Decimal, ("2304", "20000", "0.7", "1", "8", "3", "21", "9"))
    }
    found = shown_by(folder / "test_t.py")
    assert list(found) == ["test_one"]
    assert lacks(found["test_one"], "17 and 2.5 of 4 and 9, not 55") == ["55"]
