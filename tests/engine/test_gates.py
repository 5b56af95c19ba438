"""Running gates by name: what comes back, what is written, what raises."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from strata_nb import Model, cli, gates, load
from strata_nb.errors import GateError
from strata_nb.experts import Streaming
from strata_nb.gates.report import Report
from tiny import small_config, write_checkpoint

FEW = "gate_3/*/context=below/residue=2/*"


def test_a_sound_engine_passes(small: Model, tmp_path: Path) -> None:
    report = gates.check("gate_3", model=small, only=FEW, folder=tmp_path)
    assert (report.verdict, report.exit_code) == ("same", 0)
    assert Report.load(tmp_path / "gate_3.json").compared() == report.compared()


def test_a_planted_fault_is_expected_and_named(
    small: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how: dict[str, Any] = {"model": small, "only": FEW, "folder": tmp_path}
    report = gates.check("gate_3", fault="gdn_no_rewind", expect="fault", **how)
    assert report.exit_code == 1
    assert "gdn_no_rewind" in capsys.readouterr().out
    assert (tmp_path / "gate_3-gdn_no_rewind.json").is_file()


def test_what_is_shown_repeats(
    small: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for _ in range(2):
        gates.check("gate_3", model=small, only=FEW, folder=tmp_path)
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert "verdict: same" in shown[0].lower()


def test_a_miss_raises_and_is_written_all_the_same(
    small: Model, tmp_path: Path
) -> None:
    only = "gate_3/reject/*/keep=8/*"
    with pytest.raises(GateError, match="qsa_ring was planted and has to show first"):
        gates.check(
            "gate_3",
            model=small,
            only=only,
            fault="qsa_ring",
            expect="fault",
            folder=tmp_path,
        )
    assert (tmp_path / "gate_3-qsa_ring.json").is_file()


@pytest.mark.parametrize(
    ("names", "how", "message"),
    [
        (("gate_9",), {}, "no gate is named 'gate_9'; wanted gate_1, "),
        (("gate_3",), {"profile": "fast"}, "`profile` is 'fast', wanted quick, full"),
        (("gate_3",), {"fault": "x"}, "no fault is named 'x'"),
        (("gate_3",), {"only": "nothing"}, "no case of gate_3 matches `only`"),
        (("gate_3",), {"processes": 0}, "`processes` is 0, wanted 1 or more; 1 "),
    ],
)
def test_bad_arguments(
    small: Model, names: tuple[str], how: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        gates.run(*names, model=small, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"model": 3}, "`model` wants a bundled name, .* got 3; leave it out for"),
        ({"only": None}, r"`only` wants a pattern .* got None; leave it out for every"),
        ({"processes": "a"}, "`processes` wants a whole number, .* got 'a'; leave it"),
        ({"processes": True}, "`processes` wants a whole number, .* got True; "),
    ],
)
def test_arguments_of_another_kind(
    small: Model, how: dict[str, object], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        gates.run("gate_3", **{"model": small, **how})  # type: ignore[arg-type]


def test_a_model_that_is_too_short_is_refused(tmp_path: Path) -> None:
    config = small_config(max_position_embeddings=60)
    model = load(write_checkpoint(tmp_path, config, 1))
    with pytest.raises(GateError, match="has 60 positions, and the gates want "):
        gates.run("gate_3", model=model)


def test_a_fault_that_the_model_cannot_have_is_refused(small: Model) -> None:
    with pytest.raises(ValueError, match="cannot have the fault 'kv_shared_scale'"):
        gates.run("gate_3", model=small, fault="kv_shared_scale")


def test_a_fault_and_what_is_expected_have_to_agree(small: Model) -> None:
    with pytest.raises(ValueError, match="with a fault expect 'fault'"):
        gates.check("gate_3", model=small, fault="qsa_ring")
    with pytest.raises(ValueError, match="wanted 'same' or 'fault'"):
        gates.check("gate_3", model=small, expect="fine")  # type: ignore[arg-type]


def test_a_slice_that_moves_nothing_is_vacuous(small: Model) -> None:
    report = gates.run("gate_3", model=small, only="gate_3/margin/*")
    assert (report.verdict, report.exit_code) == ("vacuous", 1)


def test_a_slice_that_claims_no_state_is_vacuous(small: Model) -> None:
    report = gates.run("gate_4", model=small, only="gate_4/spoiled/how=no folder")
    assert report.verdict == "vacuous"


def test_progress_may_cancel(small: Model) -> None:
    def stop(done: int, total: int) -> None:
        assert total > 3
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gates.run("gate_3", model=small, only=FEW, progress=stop)


def test_the_command_prints_writes_and_exits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only = "gate_3/reject/context=below/residue=1/*"
    argv = ["gate", "gate_3", "--only", only, "--workers", "1"]
    files = ["--json", str(tmp_path / "g.json"), "--junit", str(tmp_path / "g.xml")]
    assert cli.main([*argv, *files]) == 0
    assert "forced rejection" in capsys.readouterr().out
    cases = ElementTree.parse(tmp_path / "g.xml").iter("testcase")
    assert len(list(cases)) > 5
    assert json.loads((tmp_path / "g.json").read_text())["format"]
    assert cli.main([*argv, "--fault", "gdn_no_rewind"]) == 1
    assert "gdn_state layer 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["gate_7"], "no gate is named 'gate_7'"),
        (["--fault", "no_such"], "no fault is named 'no_such'; wanted one of"),
        (["--model", "/no/such/folder"], "there is no folder"),
        (["--json", "/no/such/folder/a.json"], "there is no folder"),
        (["--json", "/"], "/ is no file; name one"),
        (["--json", "/tmp/a", "--junit", "/tmp/a"], "both reports would be written"),
        (["--model", "/no/\x1b[31msuch"], "there is no folder /no/\\x1b[31msuch"),
        (["faults", "--fault", "qsa_ring"], "plants each fault by itself"),
    ],
)
def test_misuse_of_the_command(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["gate", *argv]) == 2
    assert message in capsys.readouterr().err


def test_the_command_lists_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["gate", "--faults"]) == 0
    out = capsys.readouterr().out
    assert "qsa_ring  (qsa_tail)" in out
    assert out.count("https://") >= 18


def test_a_fault_that_no_case_looks_for_is_refused(small: Model) -> None:
    with pytest.raises(ValueError, match=r"no case .* looks at the sampler, .*choices"):
        gates.run("gate_3", model=small, fault="sampling_argmax")
    report = gates.run(
        "gate_2", model=small, fault="sampling_argmax", only="gate_2/choices/*"
    )
    assert report.verdict == "fault"


def test_the_gate_runs_with_experts_in_slots(
    small: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    model = load(small.checkpoint.path, experts=Streaming(slots=1))
    only = "gate_3/reject/context=below/residue=1/*"
    report = gates.run("gate_3", model=model, only=only)
    assert report.verdict == "same"
    assert dict(report.provenance.options)["slots"] == 1
    assert model.pool is not None
    assert model.pool.counters.total.misses > 0
    caught = gates.run("gate_3", model=model, only=only, fault="qsa_ring")
    assert caught.verdict == "fault"
    with pytest.raises(ValueError, match="leave `processes` at 1"):
        gates.run("gate_3", model=model, only=only, processes=2)
    argv = ["gate", "gate_3", "--only", only, "--slots", "1"]
    argv += ["--model", str(small.checkpoint.path)]
    assert cli.main(argv) == 0
    assert "slots=1" in capsys.readouterr().out
    assert cli.main([*argv, "--workers", "2"]) == 2


def test_workers_hash_seed_and_time_zone_do_not_show(tmp_path: Path) -> None:
    """The compared part is equal byte for byte."""
    found = []
    for number, (workers, seed, zone) in enumerate(
        [("1", "1", "UTC"), ("2", "7", "Asia/Tokyo")]
    ):
        path = tmp_path / f"{number}.json"
        command = [sys.executable, "-m", "strata_nb.cli", "gate", "gate_3"]
        command += ["--only", "gate_3/reject/context=below/*/keep=1/*"]
        command += ["--workers", workers, "--json", str(path)]
        env = {"PYTHONHASHSEED": seed, "TZ": zone, "PATH": "/usr/bin:/bin"}
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(Report.load(path).compared())
    assert found[0] == found[1]
