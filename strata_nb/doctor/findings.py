"""What is missing or does not fit together, and the command that helps."""

import importlib.metadata
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .trials import Trial

NEEDED = (
    *("mlx", "numpy", "ipywidgets", "altair", "anywidget", "polars"),
    *("tokenizers", "safetensors", "jinja2"),
)
BACK_ENDS = ("mlx-cpu", "mlx-cuda-12", "mlx-cuda-13", "mlx-metal")
LAB = ("jupyterlab", "vl-convert-python", "pillow")
TESTS = ("pytest", "nbval", "playwright")

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        what: the problem.
        remedy: the command or step that helps.
        needed: the package does not work without; else only some part of it.
    """

    what: str
    remedy: str
    needed: bool = True


def version(package: str) -> str | None:
    """The installed version of a distribution, None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def diagnose(packages: dict[str, str | None], trials: list[Trial]) -> list[Finding]:
    """All that is not as it should be.

    Args:
        packages: installed versions by distribution.
        trials: what was tried.
    """
    own = version("strata-nb") is not None
    return [
        *_missing(packages),
        *_back_ends(packages),
        *_unfit(importlib.metadata.requires("strata-nb") if own else None),
        *_failures(trials),
        *_tools(),
    ]


def _missing(packages: dict[str, str | None]) -> Iterator[Finding]:
    for name in NEEDED:
        if packages[name] is None:
            yield Finding(f"{name} is not installed", f"pip install {name}")
    lab = [name for name in LAB if packages[name] is None]
    if lab:
        yield Finding(
            f"{', '.join(lab)}: not installed; `strata-nb lab` or charts need them",
            "pip install 'strata-nb[lab]', in a clone `make lab`",
            needed=False,
        )
    tests = [name for name in TESTS if packages[name] is None]
    if tests:
        yield Finding(
            f"{', '.join(tests)}: not installed; the tests need them",
            "`make test` in a clone",
            needed=False,
        )


def _back_ends(packages: dict[str, str | None]) -> Iterator[Finding]:
    """MLX needs exactly one back end."""
    if sys.platform == "darwin":
        found, usual = [packages["mlx-metal"]], "mlx-metal"
        if None in found:
            yield Finding("MLX has no back end here", f"pip install {usual}")
        return
    here = [name for name in BACK_ENDS if packages[name] and name != "mlx-metal"]
    if not here:
        yield Finding(
            "MLX has no back end here",
            "pip install 'strata-nb[cpu]', with an NVIDIA GPU 'strata-nb[cuda]'",
        )
    if len(here) > 1:
        both = " ".join(here)
        yield Finding(
            f"{' and '.join(here)} are both installed; both bring mlx/lib/libmlx.so, "
            "so that chance decides which one runs",
            f"pip uninstall -y {both}, then pip install the one you want",
        )
    if here == ["mlx-cpu"] and shutil.which("nvidia-smi"):
        yield Finding(
            "an NVIDIA driver is here and MLX runs on the CPU",
            "pip uninstall -y mlx-cpu, then pip install 'strata-nb[cuda]'",
            needed=False,
        )


def _unfit(requirements: list[str] | None) -> Iterator[Finding]:
    """Installed versions outside the range that this package asks for."""
    try:
        from packaging.requirements import Requirement
    except ModuleNotFoundError:
        return  # altair brings it, and that altair is missing was said already
    for line in requirements or ():
        wanted = Requirement(line)
        got = version(wanted.name)
        # Extras are not of our choosing, but what is there must fit.
        if got and not wanted.specifier.contains(got, prereleases=True):
            yield Finding(
                f"{wanted.name} must be {wanted.specifier}, got {got}",
                f"pip install '{wanted.name}{wanted.specifier}'",
                needed=wanted.marker is None,
            )


def _failures(trials: list[Trial]) -> Iterator[Finding]:
    """One finding a reason: what stops MLX stops all that is tried with it."""
    reasons: dict[str, list[str]] = {}
    for trial in trials:
        if trial.state == "failed":
            reasons.setdefault(trial.why, []).append(trial.what)
    for why, names in reasons.items():
        remedy = "send what `strata-nb doctor --report FILE` writes with a bug report"
        if why.startswith(("ImportError", "ModuleNotFoundError")):
            remedy = (
                "pip install --force-reinstall mlx and its back end; else " + remedy
            )
        yield Finding(f"{', '.join(names)} failed: {why}", remedy)


def _tools() -> Iterator[Finding]:
    """Programs that are no Python package."""
    apple = Path("/Applications/Google Chrome.app").exists()
    if not apple and not any(shutil.which(name) for name in _BROWSERS):
        yield Finding(
            "no Chromium; the browser tests are skipped",
            "apt-get install chromium, on macOS install Chrome",
            needed=False,
        )
    if sys.platform == "linux" and not shutil.which("g++"):
        yield Finding(
            "no g++; mx.compile on a CPU and host builds of kernels need it",
            "apt-get install g++",
            needed=False,
        )
