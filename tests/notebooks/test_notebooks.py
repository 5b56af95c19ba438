"""Each notebook was executed, repeats, and says what it printed for a reason."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import numpy as np
import pytest

import strata_nb

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SMALLEST_GAP = 1e-2
LONGEST_FUNCTION = 10

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "run_notebooks", ROOT / "tools/run_notebooks.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sources(path: Path, kind: str) -> list[str]:
    notebook = nbformat.read(path, 4)  # type: ignore[no-untyped-call]
    return [cell.source for cell in notebook.cells if cell.cell_type == kind]


def test_the_list_of_notebooks() -> None:
    assert [p.stem for p in NOTEBOOKS] == ["01_hand_drafts", "02_a_window"]


@each_notebook
def test_it_was_executed_and_is_fit_to_commit(path: Path) -> None:
    assert list(tool().problems(path)) == []


@each_notebook
def test_it_gives_what_it_shows(path: Path) -> None:
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "--nbval", "--nbval-current-env", "--nbval-cell-timeout=120",
        f"--nbval-sanitize-with={Path(__file__).parent / 'nbval_sanitize.cfg'}",
        str(path),
    ]  # fmt: skip
    ran = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        # As they were written: each widget one output.
        env={**os.environ, "STRATA_STILLS": "1"},
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]


@each_notebook
def test_its_first_cell_says_what_how_long_and_with_what(path: Path) -> None:
    first = sources(path, "markdown")[0]
    assert first.startswith("# ")
    for words in ("**What you learn.**", "**How long.**", "**What it needs.**"):
        assert words in first


@each_notebook
def test_its_functions_are_short(path: Path) -> None:
    for source in sources(path, "code"):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                assert lines <= LONGEST_FUNCTION, node.name


@each_notebook
def test_no_choice_in_it_is_a_close_call(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounding on another machine must not turn a printed token into another."""
    gaps: list[float] = []
    finish = strata_nb.Engine.finish

    def watched(engine: strata_nb.Engine, window: Any, **options: Any) -> Any:
        if not window.headless:
            best = np.sort(window.logits, axis=-1)
            gaps.extend(best[:, -1] - best[:, -2])
        return finish(engine, window, **options)

    monkeypatch.setattr(strata_nb.Engine, "finish", watched)
    names: dict[str, Any] = {}
    for source in sources(path, "code"):
        exec(compile(source, path.name, "exec"), names)
    assert gaps
    assert min(gaps) > SMALLEST_GAP


def test_the_check_finds_what_is_wrong(tmp_path: Path) -> None:
    new = nbformat.v4
    code = new.new_code_cell("1", execution_count=3)  # type: ignore[no-untyped-call]
    view = {"text/plain": str(ROOT), tool().VIEW: {"model_id": "1"}}
    code.outputs = [
        new.new_output("display_data", view),  # type: ignore[no-untyped-call]
        new.new_output("stream", name="stderr", text="!"),  # type: ignore[no-untyped-call]
        new.new_output("error", ename="KeyError"),  # type: ignore[no-untyped-call]
    ]
    made = new.new_notebook(cells=[code])  # type: ignore[no-untyped-call]
    made.metadata["widgets"] = {}
    nbformat.write(made, tmp_path / "n.ipynb")  # type: ignore[no-untyped-call]
    found = "\n".join(tool().problems(tmp_path / "n.ipynb"))
    for words in (
        "widget state",
        "not run once and in order: [3]",
        "ends in KeyError",
        "writes to stderr",
        "random name",
        "a path of one machine",
    ):
        assert words in found


def test_what_differs_from_run_to_run_is_taken_out() -> None:
    new = nbformat.v4
    pieces = [
        new.new_output("stream", name="stdout", text=text)  # type: ignore[no-untyped-call]
        for text in ("one\n", "two\n")
    ]
    cell = new.new_code_cell("1", outputs=pieces)  # type: ignore[no-untyped-call]
    cell.metadata["execution"] = {"iopub.status.busy": "now"}
    made = new.new_notebook(cells=[cell])  # type: ignore[no-untyped-call]
    made.metadata["widgets"] = {"state": {}}
    (kept,) = tool().normalised(made).cells
    assert [o.text for o in kept.outputs] == ["one\ntwo\n"]
    assert kept.id == "cell-1"
    assert "execution" not in kept.metadata
    assert "widgets" not in made.metadata
