"""Cases as they are listed, as they come, and run again from the cell for one."""

import contextlib
import io
import threading
from pathlib import Path

import pytest

from strata_nb import Model, gates
from strata_nb.errors import GateError
from strata_nb.gates import CaseResult, recipe
from strata_nb.packs.bundled import checkpoint_folder
from tiny import small_config, write_checkpoint

FEW = "gate_3/*/context=below/residue=2/*"


@pytest.mark.parametrize("processes", [1, 2])
def test_cases_are_those_that_run(small: Model, processes: int) -> None:
    found = gates.cases("gate_3", model=small, only=FEW)
    came: list[CaseResult] = []
    report = gates.run(
        "gate_3", model=small, only=FEW, each=came.append, processes=processes
    )
    results = report.gates[0].results
    assert list(found) == ["gate_3"]
    assert [result.case for result in results] == list(found["gate_3"])
    if processes == 1:
        assert came == list(results)
    # From other processes in no fixed order.
    assert len(came) == len(results) > 10
    assert set(came) == set(results)


def test_cases_are_refused_like_a_run(small: Model) -> None:
    with pytest.raises(ValueError, match="no case of gate_3 matches `only`, 'none'"):
        gates.cases("gate_3", model=small, only="none")
    with pytest.raises(TypeError, match=r"`model` wants a bundled name, .* got 3"):
        gates.cases("gate_3", model=3)  # type: ignore[arg-type]


def test_what_came_before_a_cancel_was_told(small: Model) -> None:
    came: list[CaseResult] = []
    stop = threading.Event()

    def third(result: CaseResult) -> None:
        came.append(result)
        if len(came) == 3:
            stop.set()

    with pytest.raises(GateError, match="was cancelled after 3 of"):
        gates.run("gate_3", model=small, only=FEW, each=third, cancel=stop.is_set)
    assert len(came) == 3


def test_a_run_on_another_thread_finds_the_same(small: Model) -> None:
    found: list[bytes] = []

    def work() -> None:
        report = gates.run("gate_3", model=small, only=FEW)
        found.append(report.compared())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    work()
    assert found[0] == found[1]


def test_the_cell_finds_the_fault_again(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "m", small_config(), 1)
    report = gates.run(
        "gate_3", model=folder, fault="qsa_ring", only="gate_3/reject/*residue=1*"
    )
    case = report.faults[0]
    source = recipe.of_case(case.id, load=recipe.named(folder), fault="qsa_ring")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(source, {})
    first, *found = out.getvalue().splitlines()
    assert first == f"{case.id}: fault"
    assert "qsa_tail layer" in found[0]
    assert all(len(line) <= 88 for line in source.splitlines()[1:])


def test_a_cell_says_only_what_differs_from_a_plain_run() -> None:
    assert recipe.of_case("gate_4/spoiled/how=no folder").splitlines() == [
        "import strata_nb",
        "from strata_nb import gates",
        "from strata_nb.gates.report.as_text import finding",
        "",
        'model = strata_nb.load("strata-tiny")',
        "report = gates.run(",
        '    "gate_4",',
        "    model=model,",
        '    only="gate_4/spoiled/how=no folder",',
        ")",
        "(result,) = report.gates[0].results",
        'print(f"{result.case.id}: {result.verdict}")',
        'print(*map(finding, result.findings[:8]), sep="\\n")',
    ]
    whole = recipe.of_case(
        "known/a/b=[1]", profile="full", fault="x", dtype="bfloat16", slots=24
    )
    assert 'dtype="bfloat16", experts=Streaming(slots=24)' in whole
    assert '    profile="full",\n    fault="x",\n' in whole
    assert 'only="known/a/b=[[]1]"' in whole


def test_a_bundled_model_goes_by_its_name(tmp_path: Path) -> None:
    assert recipe.named(checkpoint_folder("strata-tiny")) == "strata-tiny"
    other = tmp_path / "strata-tiny"
    assert recipe.named(other) == other.as_posix()
