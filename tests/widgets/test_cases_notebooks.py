"""Notebooks without a network, outputs that stay small, list fields that keep edits.

Cases that other notebook tools were reported for. How long a clean installation and a
first notebook take is measured, not tested: DECISIONS.md has it, with the bounds.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import traitlets

import strata_widgets
from strata_widgets import Economics, LiveChart, StrataWidget
from strata_widgets._base import STILLS
from strata_widgets.selection import Selected
from strata_widgets.still import understudy
from widgets.long_run import KINDS, Growing, Wire, growing, rows_of

ROOT: Final = Path(__file__).resolve().parents[2]
NOTEBOOKS: Final = sorted((ROOT / "notebooks").glob("*.ipynb"))
WINDOWS: Final = 2000

# What a page fetches by itself; a link that a person may click is no such thing.
_FAR: Final = r"(?:https?:|wss?:)?//\w"
FETCHED: Final = re.compile(
    "|".join(
        (
            rf"\b(?:src|srcset|poster|data)\s*=\s*\\?[\"']?\s*{_FAR}",
            rf"<link\b[^>]*\bhref\s*=\s*\\?[\"']?\s*{_FAR}",
            rf"\burl\(\s*\\?[\"']?\s*{_FAR}",
            rf"@import\s*\\?[\"']\s*{_FAR}",
            rf"\b(?:import|from)\s*\(?\s*\\?[\"'`]\s*{_FAR}",
            rf"\b(?:fetch|importScripts|WebSocket|EventSource|Worker)"
            rf"\(\s*\\?[\"'`]\s*{_FAR}",
            rf"\.open\([^()]{{0,20}},\s*\\?[\"'`]\s*{_FAR}",
            rf"\\?[\"']url\\?[\"']\s*:\s*\\?[\"']\s*{_FAR}",
            rf"!\[[^\]]*\]\(\s*{_FAR}",
        )
    )
)


@pytest.mark.parametrize(
    "fetches",
    [
        '<script src="https://cdn.example/vega.js">',
        "<img src=//cdn.example/a.png>",
        '<link rel="stylesheet" href="https://cdn.example/a.css">',
        "background: url('https://cdn.example/a.png')",
        '@import "https://cdn.example/a.css";',
        'import embed from "https://cdn.example/vega.js"',
        'await import("https://cdn.example/vega.js")',
        "fetch(`https://cdn.example/rows.json`)",
        'request.open("GET", "https://cdn.example")',
        '"data": {"url": "https://cdn.example/rows.csv"}',
        json.dumps('<img src="https://cdn.example/a.png">'),
        "![a picture](https://cdn.example/a.png)",
    ],
)
def test_what_is_fetched_is_seen(fetches: str) -> None:
    assert FETCHED.search(fetches)
    assert not FETCHED.search('<a href="https://example.org">, "$schema": "https://x"')


@pytest.mark.parametrize("suffix", [".js", ".css", ".py"])
def test_no_file_of_a_widget_fetches(suffix: str) -> None:
    files = sorted((ROOT / "widgets/strata_widgets").rglob(f"*{suffix}"))
    names = {path.name for path in files}
    assert names & {"vega_lib.js", "still.css", "_base.py"}
    for path in files:
        found = FETCHED.search(path.read_text(encoding="utf-8"))
        assert not found, f"{path.name}: {found[0]}"


def cells(path: Path) -> list[dict[str, Any]]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert "widgets" not in notebook["metadata"], "widget state"
    return list(notebook["cells"])


def outputs(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each output of each cell, with the cell's source."""
    for cell in cells(path):
        for output in cell.get("outputs", ()):
            yield "".join(cell["source"]), output


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_committed_notebook_fetches_nothing(path: Path) -> None:
    for cell in cells(path):
        prose = [] if cell["cell_type"] == "code" else cell["source"]
        found = FETCHED.search("".join(prose))
        assert not found, found
    for _, output in outputs(path):
        data = output.get("data", {})
        words = {kind: data[kind] for kind in data if kind != "image/png"}
        found = FETCHED.search(json.dumps([words, output.get("text", "")]))
        assert not found, found
        # A widget needs its kernel, HTML may have a script: neither is in a file.
        assert set(data) <= {"image/png", "text/plain"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_committed_notebook_is_small(path: Path) -> None:
    assert path.stat().st_size < 5_000_000
    for _, output in outputs(path):
        assert len(json.dumps(output)) < 1_000_000


def widgets_of(sources: list[str]) -> Iterator[bool]:
    """Of each cell: whether its last line is a widget, by name or made there."""
    kinds = {
        name
        for name in strata_widgets.__all__
        if isinstance(getattr(strata_widgets, name), type)
        and issubclass(getattr(strata_widgets, name), StrataWidget)
    }
    names: set[str] = set()
    for source in sources:
        body = ast.parse(re.sub(r"(?m)^[%!].*$", "", source)).body
        for node in body:
            if isinstance(node, ast.Assign):
                here = {t.id for t in node.targets if isinstance(t, ast.Name)}
                made = _called(node.value) in kinds
                names = names | here if made else names - here
        last = body[-1] if body else None
        shown = last.value if isinstance(last, ast.Expr) else None
        named = isinstance(shown, ast.Name) and shown.id in names
        yield named or _called(shown) in kinds


def _called(node: Any) -> str | None:
    made = node.func if isinstance(node, ast.Call) else None
    return getattr(made, "id", getattr(made, "attr", None))


def test_every_widget_shown_left_a_picture_and_a_text() -> None:
    shown = 0
    for path in NOTEBOOKS:
        code = [cell for cell in cells(path) if cell["cell_type"] == "code"]
        found = widgets_of(["".join(cell["source"]) for cell in code])
        for cell, is_widget in zip(code, found, strict=True):
            if not is_widget:
                continue
            shown += 1
            data = [o["data"] for o in cell["outputs"] if "data" in o]
            assert any(
                d.get("image/png") and "".join(d.get("text/plain", "")).strip()
                for d in data
            ), f"{path.name}: {''.join(cell['source'])}"
    assert shown >= 10


@pytest.fixture(scope="module", params=KINDS)
def long(request: pytest.FixtureRequest) -> Growing:
    return growing(request.param, WINDOWS)


Display = list[tuple[dict[str, Any], dict[str, Any]]]
SAVED: dict[str, int] = {}


def displayed(view: StrataWidget, patch: pytest.MonkeyPatch) -> Display:
    """The outputs of a cell that shows `view`, with their metadata."""
    published: Display = []
    patch.setattr(
        "IPython.display.display",
        lambda data, metadata=None, **_: published.append((data, metadata or {})),
    )
    view._ipython_display_()
    return published


def test_one_cell_of_a_long_run_stays_below_1_mb(
    long: Growing, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(long.view).__name__
    monkeypatch.setenv(STILLS, "1")
    ((data, metadata),) = displayed(long.view, monkeypatch)
    assert data["text/plain"] == long.view.text()
    assert len(data["image/png"]) > 5_000
    assert metadata["image/png"]["alt"]
    assert "text/html" not in data
    saved = len(json.dumps([data, metadata]))
    assert saved < 1_000_000
    # A page with a kernel has the picture a second time, for when that is gone.
    again = len(json.dumps(understudy((data, metadata))))
    assert saved + again < 1_000_000
    SAVED[kind] = saved + again
    # All together in one notebook.
    assert sum(SAVED.values()) < 5_000_000
    assert not FETCHED.search(json.dumps(long.view._picture()))


SAID: Final = {
    "Timeline": "2000 windows, shown 1936 to 1999",
    "Acceptance": "windows 1936 to 1999 are drawn one by one, 1936 left out there",
    "ExpertMap": "window 1999, the newest",
    "SlotsAndIO": "the newest 128 windows are drawn one by one, 1872 left out there",
    "FoldView": "… 1992 more",
    "Histories": "… 1936 more",
}


def test_a_long_run_says_what_was_left_out(long: Growing) -> None:
    view = long.view
    if isinstance(view, Economics):
        # Sums by length: nothing is left out.
        (counted,) = (t for t in view._tables() if t.caption.startswith("Windows by"))
        assert sum(int(str(row[1])) for row in counted.rows) == WINDOWS
        return
    assert SAID[type(view).__name__] in view.text()
    # A page says it too: in the status, or below the table.
    words = view._page["status"] + json.dumps(view._page["tables"])
    number = re.findall(r"\d+", SAID[type(view).__name__])[0]
    assert number in words


@pytest.mark.parametrize("kind", ["Acceptance", "SlotsAndIO", "FoldView", "Histories"])
def test_nothing_is_said_to_be_left_out_of_a_short_run(kind: str) -> None:
    words = growing(kind, 8).view.text()
    assert "left out there" not in words
    assert " more" not in words


def test_fields_that_hold_lists_are_those_tested_here() -> None:
    found = set()
    for name in strata_widgets.__all__:
        kind = getattr(strata_widgets, name)
        if isinstance(kind, type) and issubclass(kind, StrataWidget):
            found |= {
                f"{base.__name__}.{field}"
                for base in kind.__mro__
                if base.__module__.startswith("strata_widgets")
                for field, trait in vars(base).items()
                if isinstance(trait, traitlets.Instance | Selected)
                and not field.startswith("_")
            }
    fields = ("selection", "spec", "values")
    assert found == {*(f"LiveChart.{name}" for name in fields), "Panel.selection"}


@pytest.mark.parametrize("name", ["spec", "selection", "values"])
def test_a_list_changed_in_place_and_given_again_reaches_the_page(name: str) -> None:
    chart = LiveChart({"mark": "point", "data": {"values": []}})
    wire = Wire()
    wire.listen("chart", chart)
    mine: dict[str, Any] = {"mark": "bar", "pick": {"k": ["a"]}}
    setattr(chart, name, mine)
    # The list one gave, changed and given again.
    mine["pick"]["k"].append("b")
    setattr(chart, name, mine)
    # The list one got, likewise.
    got = getattr(chart, name)
    got["pick"]["k"].append("c")
    setattr(chart, name, got)
    states = [m["state"][name] for m in wire.taken()["chart"] if m.get("state")]
    kept = [json.loads(json.dumps(state))["pick"]["k"] for state in states]
    assert kept == [["a"], ["a", "b"], ["a", "b", "c"]]


def test_rows_changed_in_place_and_given_again_reach_the_page() -> None:
    chart = LiveChart({"mark": "point", "data": {"values": []}})
    wire = Wire()
    wire.listen("chart", chart)
    mine = [{"x": 1}]
    chart.replace(mine)
    mine.append({"x": 2})
    chart.replace(mine)
    got = chart.rows
    got.append({"x": 3})
    chart.replace(got)
    sent = [rows_of(message) for message in wire.taken()["chart"]]
    assert [len(rows or ()) for rows in sent] == [1, 2, 3]
    assert [row["x"] for row in chart.rows] == [1, 2, 3]


def test_a_selection_changed_in_place_and_given_again_moves_the_view() -> None:
    line = growing("Timeline", 30).view
    line.selection = {"window": 3}
    got = line.selection
    got["window"] = 7
    # Until it is given again nothing has happened.
    assert line.selection["window"] == 3
    line.selection = got
    assert "; window 7: cell" in line.text()
