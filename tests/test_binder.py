"""What Binder and the public CI would run, as far as it shows without either."""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
BINDER = ROOT / "binder"


def requirements() -> list[str]:
    """The lines of binder/requirements.txt that say something."""
    lines = (BINDER / "requirements.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def pins() -> dict[str, str]:
    """The exact versions in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = [re.fullmatch(r"([\w.-]+)==([\w.]+)", line) for line in lines]
    assert None not in found
    return {match[1]: match[2] for match in found if match}


def test_every_package_has_its_exact_version() -> None:
    # pip finds a constraints file relative to the file that names it.
    option, path = requirements()[0].split()
    assert option == "-c"
    assert (BINDER / path).resolve() == ROOT / "constraints.txt"
    assert {"mlx", "mlx-cpu", "jupyterlab", "anywidget", "polars"} <= set(pins())


def test_every_version_installs_on_each_python_that_we_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"
    # The first of each: Debian 12 has 3.11.2, and some packages ask for 3.11.5.
    matrix = jobs()["linux"]["strategy"]["matrix"]["python"]
    pythons = [f"{version}.0" for version in matrix]
    assert pythons[0] == "3.11.0"
    seen, refused = 0, []
    for name, version in pins().items():
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # a back end or a tool of another system
        # A local build says so behind the plus: torch 2.13.0+cpu.
        if found.version.split("+")[0] != version:
            continue  # by hand, and so it says nothing about the pin
        seen += 1
        asked = SpecifierSet(",".join(found.metadata.get_all("Requires-Python") or ()))
        refused += [f"{name} {version}: {asked}" for v in pythons if v not in asked]
    assert seen > 50
    assert refused == []


def test_this_repository_is_installed_with_a_back_end_and_the_lab() -> None:
    assert requirements()[1:] == [".[lab,cpu]"]


def test_the_python_is_one_we_test() -> None:
    version = (BINDER / "runtime.txt").read_text()
    match = re.fullmatch(r"python-(\d\.\d+)\n", version)
    assert match is not None
    assert match[1] in jobs()["linux"]["strategy"]["matrix"]["python"]


def test_the_last_step_is_a_script_that_runs() -> None:
    script = BINDER / "postBuild"
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/bin/bash\n")
    assert "set -euo pipefail" in script.read_text()
    subprocess.run(["bash", "-n", script], check=True)


def test_repo2docker_reads_what_we_mean() -> None:
    if importlib.util.find_spec("repo2docker") is None:
        pytest.skip("jupyter-repo2docker is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "repo2docker", "--no-build", "--debug", str(ROOT)],
        text=True,
        capture_output=True,
        check=True,
    )
    plan = done.stdout + done.stderr
    assert "python=3.11" in plan
    assert re.search(r'^RUN .*pip install .*-r "binder/requirements.txt"', plan, re.M)
    assert re.search(r"^RUN \./binder/postBuild", plan, re.M)
    # The sources must be there when pip meets the line with the dot.
    assert re.search(r"^COPY \S+ src/ .*^RUN .*pip install", plan, re.M | re.S)


def jobs() -> dict[str, Any]:
    """The jobs of the public CI."""
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    found: dict[str, Any] = yaml.safe_load(text)["jobs"]
    return found


@pytest.mark.parametrize(("job", "system"), [("linux", "ubuntu"), ("macos", "macos")])
def test_ci_runs_the_tests_on_both_systems(job: str, system: str) -> None:
    found = jobs()[job]
    assert found["runs-on"].startswith(system)
    assert "make test" in [step.get("run") for step in found["steps"]]
    assert found["strategy"]["matrix"]["python"] == ["3.11", "3.13"]


def test_actions_are_pinned_by_major_version() -> None:
    steps = [step for job in jobs().values() for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    assert used
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", name) for name in used)
