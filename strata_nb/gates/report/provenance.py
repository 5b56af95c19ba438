"""Where a report comes from: model, code, versions, device, options; and its day."""

import hashlib
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import mlx.core as mx

from strata_nb.gates.records import Scalar
from strata_nb.model import Model

PACKAGES = ("strata_kernels", "strata_nb")
"""Import packages whose code decides a verdict."""


@dataclass(frozen=True)
class Provenance:
    """What has to be the same for a run to repeat; nothing in it names a machine.

    Attributes:
        model: the checkpoint's folder name.
        model_digest: its fingerprint.
        source_digest: SHA-256 of our own Python files.
        versions: of Python (two numbers), mlx, numpy and strata-nb.
        device: the kind of device, "cpu" or "gpu".
        options: the choices that shape a run; never where or how fast it ran.
    """

    model: str
    model_digest: str
    source_digest: str
    versions: Mapping[str, str]
    device: str
    options: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class About:
    """What may differ between two runs with the same result; never compared.

    Attributes:
        date: when the run ended, UTC, to the second.
        seconds: how long it took.
        workers: processes that shared the cases; of a scheduler all its workers.
        system: operating system, processor and Python, without any name of a host.
        path: the model as it was asked for.
    """

    date: str
    seconds: float
    workers: int
    system: str
    path: str


def provenance(
    model: Model, *, options: Mapping[str, Scalar] | None = None
) -> Provenance:
    """Of a run on `model` by this code, on this device.

    Args:
        model: a loaded model; its dtype joins the options.
        options: the choices that shape the run, such as the gates asked for.
    """
    return Provenance(
        model=model.name,
        model_digest=model.digest,
        source_digest=source_digest(),
        versions=versions(),
        device=device(),
        options={**(options or {}), "dtype": model.dtype},
    )


def about(*, seconds: float, workers: int, path: object) -> About:
    """Of a run that ends now."""
    now = datetime.now(UTC).replace(microsecond=0)
    return About(
        date=now.isoformat().replace("+00:00", "Z"),
        seconds=round(seconds, 1),
        workers=workers,
        system=system(),
        path=str(path),
    )


@cache
def source_digest() -> str:
    """SHA-256 of the Python files of `PACKAGES`, in order of their names."""
    files = ((p, f) for p in PACKAGES for f in _folder(p).rglob("*.py"))
    named = {f"{p}/{f.relative_to(_folder(p)).as_posix()}": f for p, f in files}
    return digest_files((name, named[name]) for name in sorted(named))


def digest_files(files: Iterable[tuple[str, Path]]) -> str:
    """SHA-256 of names and contents, each with its length so that none runs on."""
    found = hashlib.sha256()
    for name, path in files:
        for piece in (name.encode(), path.read_bytes()):
            found.update(len(piece).to_bytes(8, "little"))
            found.update(piece)
    return found.hexdigest()


def versions() -> dict[str, str]:
    """Of all that takes part in the arithmetic."""
    python = ".".join(platform.python_version_tuple()[:2])
    found = {name: _version(name) for name in ("mlx", "numpy", "strata-nb")}
    return {"python": python, **found}


def device() -> str:
    """The kind of device that MLX computes on: "cpu" or "gpu"."""
    return "cpu" if mx.default_device().type == mx.DeviceType.cpu else "gpu"


def system() -> str:
    """Operating system, processor and Python, without any name of a host."""
    # Not platform.platform(): a kernel somebody built may carry the host's name.
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{platform.system()} {platform.machine()}, {python}"


def _folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "source tree"
