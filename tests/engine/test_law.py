"""Whatever the order of the verbs, an engine ends where plain decoding ends."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import strata_nb
from law import Plain, wrong_calls
from law_machine import ANY, Broken, Rows, law_of
from strata_nb.faults import FAULTS
from strata_nb.gates.records import PARTS
from tiny import small_config, write_checkpoint

LAW = settings(
    max_examples=40,
    stateful_step_count=20,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
FOUND = settings(
    LAW, max_examples=200, phases=[Phase.generate], report_multiple_bugs=False
)
SHRUNK = settings(FOUND, phases=[Phase.generate, Phase.shrink], stateful_step_count=10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest model, with heads that 8 bits can hold."""
    folder = tmp_path_factory.mktemp("law")
    return write_checkpoint(folder, small_config(head_dim=32), seed=2)


@pytest.fixture(scope="module")
def plain(folder: Path) -> Plain:
    return Plain(strata_nb.load(folder))


def broken(plain: Plain, folder: Path, fault: str, how: settings) -> Broken:
    """The counterexample that Hypothesis finds."""
    with pytest.raises(Broken, match="To see it in a notebook") as caught:
        run_state_machine_as_test(law_of(plain, folder, fault=fault), settings=how)
    return caught.value


def test_any_order_of_verbs_ends_where_plain_decoding_ends(
    plain: Plain, folder: Path
) -> None:
    law = law_of(plain, folder)
    run_state_machine_as_test(law, settings=LAW)
    verbs = {"run", "finish", "commit", "abort", "prefill", "save", "restore", "fork"}
    assert verbs | {"WindowOpenError"} <= set(law.met)


def test_every_wrong_call_is_refused_in_every_phase(plain: Plain, folder: Path) -> None:
    machine = law_of(plain, folder)
    for phase, other, head in itertools.product(ANY, ANY, (True, False)):
        law = machine()
        for until in (phase, other):
            law.sit({"context": 40})
            law.bring(law.seats[-1], "idle", Rows(1, 0, [2, 3], True))
            if until != "idle":
                law.bring(law.seats[-1], until, Rows(4, 0, [5, 6], head))
        assert [seat.phase for seat in law.seats] == [phase, other]
        for call in wrong_calls(*law.seats):
            options = dict(call.options)
            law.do(law.seats[0], call.verb, *call.given, error=call.error, **options)
        law.every_engine_holds_the_state_of_plain_decoding()
        law.teardown()
    kinds = {call.error.__name__ for call in wrong_calls(*law.seats)}
    assert kinds <= set(machine.met)
    assert {"NotFinishedError", "AlreadyFinishedError", "KeepError"} <= set(machine.met)


@pytest.mark.parametrize("fault", [n for n, f in FAULTS.items() if f.part in PARTS])
def test_every_fault_of_a_part_breaks_the_law(
    plain: Plain, folder: Path, fault: str
) -> None:
    found = broken(plain, folder, fault, FOUND).found
    assert FAULTS[fault].part in {difference.part for difference in found}


@pytest.mark.parametrize(
    "fault", ["ple_tokens_kept", "gdn_partial_offset", "kv_shared_scale", "qsa_ring"]
)
def test_a_shrunk_cell_shows_the_same_difference(
    plain: Plain, folder: Path, fault: str
) -> None:
    case = broken(plain, folder, fault, SHRUNK)
    assert case.cell in str(case)
    assert f'fault="{fault}"' in case.cell
    assert len(case.cell.splitlines()) <= 25
    assert FAULTS[fault].part in {difference.part for difference in case.found}
    done = subprocess.run(
        [sys.executable, "-c", case.cell], capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [str(difference) for difference in case.found]
