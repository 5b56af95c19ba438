"""Each notebook was executed, repeats, and says what it printed for a reason."""

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import altair as alt
import nbformat
import numpy as np
import pytest

import strata_nb
from strata_widgets import Exercise

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
ANSWERS = Path(__file__).parent / "answers"
EXERCISE = "exercise"
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
    assert [p.stem for p in NOTEBOOKS] == [
        "01_hand_drafts",
        "02_a_window",
        "03_qsa_tail",
        "04_fold",
        "05_ple",
        "06_the_verdict",
        "07_suffix_lookup",
        "08_exact_sampling",
        "09_sessions_and_penalties",
        "10_expert_unions",
        "11_experts_from_disk",
        "12_cache_aware_routing",
        "13_how_many_drafts",
        "14_ten_systems",
        "15_your_own_drafter_and_fault",
        "16_your_own_checkpoint",
        "17_the_draft_head",
        "explore",
        "gate_1",
        "gate_2",
        "gate_3",
        "gate_4",
        "gate_5",
    ]


@each_notebook
def test_it_was_executed_and_is_fit_to_commit(path: Path) -> None:
    assert list(tool().problems(path)) == []


def compare(path: Path) -> "subprocess.CompletedProcess[str]":
    """Run a notebook again and compare what it gives, by nbval."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
        # First of all, since it makes an import of nbval's several times shorter.
        "-p", "strata_widgets",
        "--nbval", "--nbval-current-env", "--nbval-cell-timeout=600",
        "--nbval-kernel-startup-timeout=300",
        f"--nbval-sanitize-with={Path(__file__).parent / 'nbval_sanitize.cfg'}",
        str(path),
    ]  # fmt: skip
    return subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        # As they were written: each widget one output. nbval leaves pictures out.
        env={**os.environ, "STRATA_STILLS": "1", "STRATA_PICTURES": "0"},
    )


@pytest.fixture(scope="module")
def compared(
    request: pytest.FixtureRequest,
) -> Iterator[dict[Path, "Future[subprocess.CompletedProcess[str]]"]]:
    """Each notebook that is asked for, run again: as many at once as there are cores.

    A notebook keeps one core busy, and the next one need not wait for it.
    """
    asked: list[Any] = [
        item.callspec.params["path"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.function is test_it_gives_what_it_shows
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {path: pool.submit(compare, path) for path in asked}
        pool.shutdown(cancel_futures=True)


@each_notebook
def test_it_gives_what_it_shows(
    path: Path, compared: dict[Path, "Future[subprocess.CompletedProcess[str]]"]
) -> None:
    ran = compared[path].result()
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


def answered(path: Path) -> list[str]:
    """The code of a notebook, with right answers where a reader is to give some."""
    notebook = nbformat.read(path, 4)  # type: ignore[no-untyped-call]
    file = ANSWERS / f"{path.stem}.py"
    answers = (
        file.read_text(encoding="utf-8").split("# %%\n")[1:] if file.exists() else []
    )
    code = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            asked = EXERCISE in cell.metadata.get("tags", ())
            code.append(answers.pop(0) if asked else cell.source)
    assert not answers, f"{file.name} has {len(answers)} answers too many"
    return code


def asked_by_a_gate() -> bool:
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith("strata_nb.gates"):
            return True
    return False


@each_notebook
def test_no_choice_in_it_is_a_close_call(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rounding on another machine must not turn a printed token into another.

    A gate's own windows are left out: it judges close calls by itself. The exercises
    are answered on the way, and each check must find its answer right.
    """
    gaps: list[float] = []
    finish = strata_nb.Engine.finish
    # Gates write their reports beside the notebook.
    monkeypatch.chdir(tmp_path)

    def watched(engine: strata_nb.Engine, window: Any, **options: Any) -> Any:
        if not (window.headless or asked_by_a_gate()):
            best = np.sort(window.logits, axis=-1)
            gaps.extend(best[:, -1] - best[:, -2])
        return finish(engine, window, **options)

    monkeypatch.setattr(strata_nb.Engine, "finish", watched)
    names: dict[str, Any] = {}
    # A cell may switch a theme on. Leaving puts back what there was: ours is registered
    # before, or it would be gone for the notebooks that follow.
    importlib.import_module("strata_widgets.theme")
    assert "strata" in alt.theme.names()
    with alt.theme.enable(alt.theme.active):
        for source in answered(path):
            exec(compile(source, path.name, "exec"), names)
    assert gaps
    assert min(gaps) > SMALLEST_GAP
    tasks = [value for value in names.values() if isinstance(value, Exercise)]
    assert all(task.marked for task in tasks), [task.marked for task in tasks]


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


def test_a_cell_keeps_its_name_when_others_come() -> None:
    new = nbformat.v4
    cells = [new.new_code_cell("1", id=name) for name in ("cell-1", "x", "cell-2", "y")]  # type: ignore[no-untyped-call]
    made = new.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    kept = [cell.id for cell in tool().normalised(made).cells]
    assert kept == ["cell-1", "cell-3", "cell-2", "cell-4"]
