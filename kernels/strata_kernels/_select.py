"""Which text runs: the plain reference, or a kernel and where."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import mlx.core as mx

Choice: TypeAlias = Literal["reference", "metal", "cuda", "host"]

VARIABLE = "STRATA_KERNELS"
CHOICES = ("auto", "reference", "metal", "cuda", "host")
# GPUs on which every kernel has been compared with its reference; `auto` trusts no
# other. To try one all the same, name it.
PROVEN: frozenset[str] = frozenset({"cuda"})


def choice() -> Choice:
    """What STRATA_KERNELS says, or for `auto` what suits the device.

    `reference` is what plain MLX does on the device. `auto` is that on a CPU, and on a
    GPU whose kernels have not been proven.

    Raises:
        ValueError: the variable names nothing known.
        RuntimeError: it names what this machine cannot run.
    """
    said = os.environ.get(VARIABLE, "auto")
    if said in ("auto", "reference"):
        return _suited() if said == "auto" else "reference"
    if said not in CHOICES:
        raise ValueError(
            f"{VARIABLE} is {said!r}, wanted one of {', '.join(CHOICES)}; correct it, "
            "or unset it for auto"
        )
    lacking = _lacking(said)
    if lacking is not None:
        raise RuntimeError(
            f"{VARIABLE} is {said}, which wants {lacking}, and this machine has none; "
            "unset it, or set it to reference"
        )
    return said  # type: ignore[return-value]


def where_kernels_run() -> Literal["metal", "cuda", "host"] | None:
    """Where a kernel can run beside the default device; None: nowhere here."""
    on_cpu = mx.default_device() == mx.cpu
    if on_cpu:
        return None if _lacking("host") else "host"
    return "metal" if mx.metal.is_available() else "cuda"


@contextmanager
def using(said: str) -> Iterator[None]:
    """STRATA_KERNELS is `said` inside, and afterwards what it was.

    What is lazy has to be evaluated inside: the choice is made when a graph is built.
    """
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = said
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _suited() -> Choice:
    if mx.default_device() == mx.cpu:
        return "reference"
    here: Choice = "metal" if mx.metal.is_available() else "cuda"
    return here if here in PROVEN else "reference"


def _lacking(said: str) -> str | None:
    """What `said` wants and is not here."""
    if said == "metal":
        return None if mx.metal.is_available() else "MLX built with Metal"
    if said == "cuda":
        return None if mx.cuda.is_available() else "MLX built with CUDA"
    from strata_kernels._prelude.host import compiler

    return None if compiler() else "a C++ compiler"
