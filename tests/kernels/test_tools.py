"""The report and the checks: they say what fails, and go on."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from strata_kernels._prelude.host import compiler
from tools import check_kernels, cuda_report, kernel_cases

hosted = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")


def broken() -> kernel_cases.Case:
    def kernel(start: mx.array, target: Any) -> Any:
        raise ValueError("no such text")

    return kernel_cases.Case(
        name="broken",
        rows=1,
        start=mx.ones((3,)),
        kernel=kernel,
        wanted=lambda start: [start],
        rel=0.0,
    )


def wrong() -> kernel_cases.Case:
    return kernel_cases.Case(
        name="wrong",
        rows=1,
        start=mx.ones((3,)),
        kernel=lambda start, target: [start * float("nan")],
        wanted=lambda start: [start],
        rel=1e-3,
        plain={"reference": lambda start: [start + 1]},
        bits={"itself": lambda target: ([mx.ones((2,))], [mx.zeros((2,))])},
    )


def unmade() -> kernel_cases.Case:
    raise RuntimeError("cannot be made")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        pytest.param(broken, "no such text", id="broken"),
        pytest.param(unmade, "cannot be made", id="unmade"),
    ],
)
def test_a_case_that_fails_is_told(make: Any, says: str) -> None:
    found = cuda_report.look_at(make, "host", chain=2, repeats=1)
    assert not found["well"]
    assert says in " ".join(found["errors"])
    report = {"machine": {}, "sizes": {}, "repeats": 1, "chain": 1, "cases": [found]}
    assert says in cuda_report.markdown(report)


def test_a_wrong_number_is_told_and_timed_all_the_same() -> None:
    found = cuda_report.look_at(wrong, "host", chain=2, repeats=1)
    assert not found["well"]
    assert found["ratio"] > 0
    told = cuda_report.markdown(
        {"machine": {}, "sizes": {}, "repeats": 1, "chain": 1, "cases": [found]}
    )
    assert "| wrong | NO | inf |" in told


@hosted
def test_a_report_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = list(kernel_cases.cases(kernel_cases.SMALL, rows=(2,)))[1:3]
    monkeypatch.setattr(cuda_report, "cases", lambda *a, **b: [unmade, *made])
    arguments = ["--target", "host", "--small", "--out", str(tmp_path)]
    assert cuda_report.main(arguments) == 1
    assert "2 of 3 well" in capsys.readouterr().out
    report = json.loads((tmp_path / "kernels-host.json").read_text(encoding="utf-8"))
    assert [c["well"] for c in report["cases"]] == [False, True, True]
    text = (tmp_path / "kernels-host.md").read_text(encoding="utf-8")
    assert "| gated_delta window, T = 2 | yes |" in text


def test_a_gpu_that_is_not_here_is_said_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: False)
    assert cuda_report.main(["--target", "cuda"]) == 2
    assert "has no cuda here; wanted a build that has" in capsys.readouterr().out


def test_a_pass_without_its_compiler_is_skipped_by_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def lacking() -> Any:
        raise check_kernels.Skip("no clang++")

    assert check_kernels.told("spaces", lacking) == 0
    assert check_kernels.told("texts", lambda: ["it is wrong"]) == 1
    out = capsys.readouterr().out
    assert out == "spaces: skipped, no clang++\ntexts: it is wrong\n"


def test_every_kernel_is_in_the_checks() -> None:
    names = {kernel.name for kernel, _, _ in check_kernels.started(kernel_cases.SMALL)}
    folder = Path(kernel_cases.__file__).parents[2] / "kernels" / "strata_kernels"
    bodies = {f"strata_{p.parent.name}_{p.stem}" for p in folder.glob("*/*.metal")}
    assert names == bodies
