"""A cell written by a recipe runs as it is, reads well, and shows what it should."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from strata_nb.gates.recipe import Recipe, of_window, of_windows

ROOT = Path(__file__).parents[2]


def shown(cell: str) -> list[str]:
    """What the cell prints, in a namespace of its own."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(cell, "cell", "exec"), {})
    return out.getvalue().splitlines()


def assert_clean(cell: str) -> None:
    """Ruff finds nothing, and would write it the same way."""
    for command in (["check"], ["format", "--diff"]):
        done = subprocess.run(
            ["ruff", *command, "--no-cache", "--stdin-filename", "notebooks/a.py", "-"],
            input=cell,
            capture_output=True,
            text=True,
            cwd=ROOT,
            executable=Path(sys.executable).parent / "ruff",
        )
        assert done.returncode == 0, done.stdout + done.stderr + cell


def full(load: str) -> Recipe:
    """Every verb, several engines, a long list, and calls that are refused."""
    first = Recipe(load, fold="eager", partial=True, context=200, kv="bfloat16")
    first.prefill(range(100, 140), chunk=8)
    window = first.run(np.array([5, 6, 7]))
    with first.refused():
        first.commit(window, keep=1)
        first.save("early")
    first.finish(window, stop_ids=[np.int64(3)], tokens_left=2)
    first.commit(window, keep=2, force=True)
    first.save("one")
    second = first.fork()
    second.abort(second.run([8, 9], head=False))
    third = first.beside(kv="bfloat16", context=60)
    third.restore("one")
    third.prefill([1, 2])
    with third.refused():
        third.finish(window)
        third.prefill(range(60))
    return third


def test_every_verb_has_its_line(tiny_folder: Path) -> None:
    recipe = full(str(tiny_folder))
    assert recipe.tokens == (*range(100, 140), 5, 6, 1, 2)
    assert_clean(recipe.cell())
    assert shown(recipe.cell()) == ["same"]
    watched = recipe.cell(watch=["position", "root"])
    assert_clean(watched)
    assert shown(watched) == ["engine_3.position=44", "engine_3.root=None", "same"]


def test_only_committed_tokens_are_fed_to_the_plain_engine() -> None:
    cell = full("strata-tiny").cell()
    assert "plain.prefill([*ids, 5, 6, 1, 2], chunk=1)" in cell
    assert 'plain = model.engine(kv="bfloat16")' in cell
    assert "engine.run([5, 6, 7])" in cell


def test_a_cell_is_the_text_that_a_person_would_write() -> None:
    cell = of_window([5, 6], [8, 9], 1, [4], fault="qsa_ring")
    assert (
        cell
        == """\
import strata_nb

model = strata_nb.load("strata-tiny")
engine = model.engine(fault="qsa_ring")
engine.prefill([5, 6])
window = engine.run([8, 9])
engine.finish(window, stop_ids=[])
engine.commit(window, keep=1, force=True)
window_2 = engine.run([4])
engine.finish(window_2, stop_ids=[])
engine.commit(window_2, keep=1, force=True)
# The committed tokens, one row at a time, without a fault:
plain = model.engine()
plain.prefill([5, 6, 8, 4], chunk=1)
for difference in strata_nb.diff(engine, plain) or ["same"]:
    print(difference)
"""
    )


@pytest.mark.parametrize(("fault", "parts"), [("qsa_ring", ["qsa_tail"]), (None, [])])
def test_the_worked_counterexample_on_the_bundled_model(
    fault: str | None, parts: list[str]
) -> None:
    cell = of_window([40, 41, 42, 43, 44], [50, 51, 52, 53], 1, fault=fault)
    assert_clean(cell)
    done = subprocess.run([sys.executable, "-c", cell], capture_output=True, text=True)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert {line.split("'")[1] for line in lines if line != "same"} == set(parts)
    assert ("same" in lines) == (fault is None)


def test_options_that_a_fault_needs_are_in_the_cell(tiny_folder: Path) -> None:
    cell = of_windows(
        [1, 2, 3],
        [([4, 5], 2), ([6], 1)],
        fault="gdn_late_fold",
        options={"partial": False},
        load=str(tiny_folder),
    )
    assert 'partial=False, fold="lazy", fault="gdn_late_fold"' in cell
    assert_clean(cell)
    assert "part='gdn_state'" in "".join(shown(cell))


def test_a_long_prompt_is_written_once(tiny_folder: Path) -> None:
    ids = np.random.default_rng(1).integers(0, 257, 150)
    cell = of_window(ids, [1, 2, 3], 2, [4, 5, 6], load=str(tiny_folder))
    assert_clean(cell)
    assert len(cell.splitlines()) <= 28
    assert "plain.prefill([*ids, 1, 2, 4, 5, 6], chunk=1)" in cell
    assert shown(cell) == ["same"]


def test_a_long_path_and_many_options_are_broken_as_the_formatter_does() -> None:
    recipe = Recipe(
        "/a/folder/" + "deep/" * 20,
        fold="lazy",
        partial=True,
        kv="bfloat16",
        context=4000,
        fault="gdn_partial_offset",
    )
    window = recipe.run([123456] * 8, head=False)
    recipe.finish(window, stop_ids=range(100000, 100015))
    assert_clean(recipe.cell(atol=1e-4))
    assert "strata_nb.diff(engine, plain, atol=0.0001)" in recipe.cell(atol=1e-4)
