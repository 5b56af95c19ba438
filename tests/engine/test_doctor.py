"""The doctor: what it tries, what it finds, and what it never tells."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from strata_nb import doctor
from strata_nb.doctor import Finding, Trial, findings, privacy, trials

ROOT = Path(__file__).parents[2]
PRESENT: dict[str, str | None] = {
    **dict.fromkeys([*findings.NEEDED, *findings.LAB, *findings.TESTS], "1"),
    **dict.fromkeys(findings.BACK_ENDS),
}


@pytest.fixture(scope="module")
def here() -> doctor.Report:
    """What the doctor finds on this machine."""
    return doctor.examine()


def fake_mlx(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an `mlx.core` with `body` in front of the installed one, for the child."""
    (folder / "mlx").mkdir(parents=True)
    (folder / "mlx" / "__init__.py").touch()
    (folder / "mlx" / "core.py").write_text(body)
    monkeypatch.syspath_prepend(str(folder))


def test_the_cpu_and_the_bundled_model_run_here(here: doctor.Report) -> None:
    states = {trial.what: trial.state for trial in here.trials}
    assert states["CPU"] == "ran here"
    assert states["bundled model"] == "ran here"
    assert set(states) == {"CPU", "CUDA", "Metal", "bundled model", "draft head"}
    assert here.device["default"].startswith("Device(")
    assert here.packages["mlx"] is not None
    assert not doctor.needed(here), here.findings


def test_nothing_is_said_to_have_run_that_did_not(here: doctor.Report) -> None:
    states = {trial.what: trial.state for trial in here.trials}
    assert (states["Metal"] == "ran here") == (sys.platform == "darwin")
    on_gpu = "gpu" in here.device["default"]
    assert (states["CUDA"] == "ran here") == (on_gpu and sys.platform == "linux")
    assert ("TF32" in here.device) == (states["CUDA"] == "ran here")


def test_the_text_says_all_of_it(here: doctor.Report) -> None:
    text = doctor.text(here)
    assert re.search(r"^mlx +0\.\d+", text, re.M)
    assert re.search(r"^CPU +ran here", text, re.M)
    assert re.search(r"^(Metal|CUDA) +not run here", text, re.M)
    assert text.endswith("Everything that is needed is here.")


def test_a_missing_need_is_said_last(here: doctor.Report) -> None:
    legs, hat = Finding("no legs", "grow some"), Finding("no hat", "buy", needed=False)
    tried = [Trial("x", "failed", "y")]
    report = doctor.Report("1", "3", {}, PRESENT, {}, tried, [legs, hat])
    assert doctor.needed(report)
    assert doctor.text(report).endswith(
        "MISSING: no legs\n    remedy: grow some\noptional: no hat\n    remedy: buy"
    )


@pytest.mark.parametrize("name", ["report.json", "report.txt"])
def test_a_report_is_one_file(here: doctor.Report, tmp_path: Path, name: str) -> None:
    doctor.save(here, tmp_path / name)
    words = (tmp_path / name).read_text(encoding="utf-8")
    if name.endswith(".json"):
        whole = json.loads(words)
        assert whole["format"] == 1
        assert whole["trials"][0] == {
            "what": "CPU",
            "state": "ran here",
            "why": "64 x 64 product",
        }
        assert whole["packages"] == here.packages
    else:
        assert words == doctor.text(here) + "\n"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_report_names_no_person_host_or_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A loader's error holds the whole way to the file that it could not load.
    home = tmp_path / "home of jane.doe"
    body = "raise ImportError(f'{__file__}: jane.doe on janes-host.local, janes-host')"
    fake_mlx(home / "lib", body, monkeypatch)
    monkeypatch.setattr("socket.gethostname", lambda: "janes-host.local")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LOGNAME", "jane.doe")
    report = doctor.examine()
    doctor.save(report, tmp_path / "r.json")
    words = (tmp_path / "r.json").read_text(encoding="utf-8") + doctor.text(report)
    assert "core.py" in words
    for secret in ("jane", "doe", "janes-host", str(tmp_path), "home of"):
        assert secret not in words
    assert doctor.needed(report)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("no /Users/jo/venv/lib/libmlx.so here", "no …/libmlx.so here"),
        ("at 'C:\\Users\\jo\\mlx.dll'", "at '…\\mlx.dll'"),
        ("1/2 of 3/4", "1/2 of 3/4"),
        ("plain words: none", "plain words: none"),
    ],
)
def test_folders_are_cut_from_messages(said: str, left: str) -> None:
    assert privacy.scrubbed(said) == left


def test_an_exception_of_mlx_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_mlx(tmp_path, "raise ImportError('libmlx.so: cannot\\nopen')", monkeypatch)
    device, tried = trials.try_in_a_child()
    assert device == {}
    assert tried[0] == Trial("CPU", "failed", "ImportError: libmlx.so: cannot open")
    assert len(tried) == 5
    (one,) = findings._failures(tried)
    assert one.what.startswith("CPU, CUDA, Metal")
    assert one.what.endswith("failed: ImportError: libmlx.so: cannot open")
    assert one.remedy.startswith("pip install --force-reinstall mlx")


def test_failures_of_different_reasons_stay_apart() -> None:
    tried = [
        Trial("A", "failed", "x"),
        Trial("B", "ran here"),
        Trial("C", "failed", "y"),
    ]
    assert [f.what for f in findings.diagnose({**PRESENT, "mlx-cpu": "1"}, tried)][
        :2
    ] == ["A failed: x", "C failed: y"]


def test_a_crash_of_mlx_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    fake_mlx(tmp_path, body, monkeypatch)
    tried = trials.try_in_a_child()[1]
    assert tried == [Trial("CPU", "failed", "the process ended with -9")]


def test_a_hang_of_mlx_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "import time; print('noise', flush=True); time.sleep(60)"
    fake_mlx(tmp_path, body, monkeypatch)
    monkeypatch.setattr(trials, "_SLOW_S", 3)
    tried = trials.try_in_a_child()[1]
    assert tried == [Trial("CPU", "failed", "not done after 3 s")]


def test_a_wrong_product_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        "import numpy as np\n"
        "cpu = gpu = None\n"
        "device_info = dict\n"
        "default_device = lambda: 'Device(cpu, 0)'\n"
        "ones, all = np.ones, np.all\n"
        "matmul = lambda a, b, stream: a @ b * 1.5\n"
    )
    fake_mlx(tmp_path, body, monkeypatch)
    cpu = trials.try_in_a_child()[1][0]
    assert cpu.state == "failed"
    assert "a product of ones must be 64 everywhere" in cpu.why


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (None, "off (MLX_ENABLE_TF32=0, which `load` sets before the first product)"),
        ("0", "off (MLX_ENABLE_TF32=0, as it was set)"),
        ("1", "on (MLX_ENABLE_TF32=1): products are off by 1e-3; unset it"),
    ],
)
def test_tf32_is_measured_where_cuda_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str | None, said: str
) -> None:
    # It looks at the setting in its first product; half precision has TF32's 10 bits.
    body = (
        "import functools, os, types\n"
        "import numpy as np\n"
        "cpu, gpu = 'cpu', 'gpu'\n"
        "device_info = lambda: {'uuid': 'GPU-1', 'pci_bus_id': '0:1', 'cores': 2}\n"
        "default_device = lambda: 'Device(gpu, 0)'\n"
        "cuda = types.SimpleNamespace(is_available=lambda: True)\n"
        "all, eye, full, ones = np.all, np.eye, np.full, np.ones\n"
        "@functools.cache\n"
        "def kept():\n"
        "    off = os.environ.get('MLX_ENABLE_TF32') == '0'\n"
        "    return np.float32 if off else np.float16\n"
        "def matmul(a, b, stream):\n"
        "    return a.astype(kept()) @ b if stream == 'gpu' else a @ b\n"
    )
    fake_mlx(tmp_path, body, monkeypatch)
    monkeypatch.delenv("MLX_ENABLE_TF32", raising=False)
    if setting is not None:
        monkeypatch.setenv("MLX_ENABLE_TF32", setting)
    device, tried = trials.try_in_a_child()
    assert [trial.state for trial in tried[:2]] == ["ran here", "ran here"]
    # The card's own number would tell this machine from all others.
    assert device == {"default": "Device(gpu, 0)", "cores": 2, "TF32": said}


def test_no_network_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python reads sitecustomize at the start of the child, and the parent runs it too.
    body = (
        "import socket, pathlib\n"
        "def refuse(*args, **more):\n"
        f"    pathlib.Path({str(tmp_path / 'asked')!r}).touch()\n"
        "    raise OSError('no network')\n"
        "socket.socket.connect = refuse\n"
        "socket.getaddrinfo = refuse\n"
        f"pathlib.Path({str(tmp_path / 'read')!r}).touch()\n"
    )
    (tmp_path / "sitecustomize.py").write_text(body)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "strata_nb.cli", "doctor"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "read").exists()
    assert not (tmp_path / "asked").exists()


# ------------------------------------------------------------------ what is missing


def found(
    monkeypatch: pytest.MonkeyPatch,
    *,
    platform: str = "linux",
    programs: tuple[str, ...] = ("chromium", "g++"),
    **packages: str | None,
) -> list[Finding]:
    """Findings on a machine with these packages and programs."""
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("shutil.which", lambda name: name if name in programs else None)
    monkeypatch.setattr(findings, "version", lambda name: None)
    named = {name.replace("_", "-"): value for name, value in packages.items()}
    return findings.diagnose({**PRESENT, **named}, [])


def test_a_complete_machine_has_no_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, mlx_cpu="1") == []
    assert found(monkeypatch, mlx_cuda_13="1", programs=("chromium", "g++")) == []
    assert found(monkeypatch, platform="darwin", mlx_metal="1") == []


def test_two_back_ends_clash(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = found(monkeypatch, mlx_cpu="1", mlx_cuda_13="1")
    assert one.what.startswith("mlx-cpu and mlx-cuda-13 are both installed")
    assert "mlx/lib/libmlx.so" in one.what
    assert one.remedy.startswith("pip uninstall -y mlx-cpu mlx-cuda-13, then")
    assert one.needed


@pytest.mark.parametrize(
    ("machine", "what", "remedy", "needed"),
    [
        ({}, "MLX has no back end here", "strata-nb[cpu]", True),
        ({"platform": "darwin"}, "MLX has no back end here", "mlx-metal", True),
        (
            {"mlx_cpu": "1", "altair": None},
            "altair is not installed",
            "pip install altair",
            True,
        ),
        (
            {"mlx_cpu": "1", "jupyterlab": None, "pillow": None},
            "jupyterlab, pillow: not installed",
            "pip install 'strata-nb[lab]'",
            False,
        ),
        ({"mlx_cpu": "1", "nbval": None}, "nbval: not installed", "make test", False),
        (
            {"mlx_cpu": "1", "programs": ("g++",)},
            "no Chromium",
            "apt-get install chromium",
            False,
        ),
        (
            {"mlx_cpu": "1", "programs": ("google-chrome",)},
            "no g++",
            "apt-get install g++",
            False,
        ),
        (
            {"mlx_cpu": "1", "programs": ("chromium", "g++", "nvidia-smi")},
            "an NVIDIA driver is here and MLX runs on the CPU",
            "pip uninstall -y mlx-cpu, then pip install 'strata-nb[cuda]'",
            False,
        ),
    ],
)
def test_what_is_missing_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch,
    machine: dict[str, Any],
    what: str,
    remedy: str,
    needed: bool,
) -> None:
    (one,) = found(monkeypatch, **machine)
    assert what in one.what
    assert remedy in one.remedy
    assert one.needed is needed


def test_a_version_outside_its_range_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"mlx": "0.31.2", "numpy": "2.4.0", "mlx-lm": "0.1"}
    monkeypatch.setattr(findings, "version", versions.get)
    wanted = ["mlx<0.33,>=0.32", "numpy>=2", "absent>=1", "mlx-lm>=1; extra == 'bench'"]
    one, other = findings._unfit(wanted)
    assert one.what == "mlx must be <0.33,>=0.32, got 0.31.2"
    assert one.remedy == "pip install 'mlx<0.33,>=0.32'"
    assert one.needed
    assert (other.what, other.needed) == ("mlx-lm must be >=1, got 0.1", False)


def test_the_needed_packages_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(lines: list[str]) -> list[str]:
        return [re.split(r"[^\w-]", line)[0] for line in lines]

    assert list(findings.NEEDED) == names(project["dependencies"])
    assert list(findings.LAB) == names(project["optional-dependencies"]["lab"])


def test_an_absent_distribution_has_no_version() -> None:
    assert doctor.version("no-such-distribution-of-ours") is None
    assert doctor.version("numpy") is not None
