"""STRATA_KERNELS: what is chosen, and what is refused."""

import mlx.core as mx
import pytest

from strata_kernels import _select
from strata_kernels._prelude import host


@pytest.mark.parametrize("said", [None, "auto", "reference"])
def test_a_cpu_keeps_the_reference(
    said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STRATA_KERNELS", raising=False)
    if said is not None:
        monkeypatch.setenv("STRATA_KERNELS", said)
    monkeypatch.setattr(mx, "default_device", lambda: mx.cpu)
    assert _select.choice() == "reference"


@pytest.mark.parametrize("metal", [True, False])
def test_auto_takes_a_gpu_s_kernels_once_they_are_proven(
    metal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STRATA_KERNELS", raising=False)
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    monkeypatch.setattr(mx.metal, "is_available", lambda: metal)
    monkeypatch.setattr(_select, "PROVEN", frozenset())
    assert _select.choice() == "reference"
    monkeypatch.setattr(_select, "PROVEN", frozenset({"cuda"}))
    assert _select.choice() == ("reference" if metal else "cuda")


def test_an_unknown_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_KERNELS", "Metal")
    with pytest.raises(ValueError, match="'Metal', wanted one of auto, reference, m"):
        _select.choice()


@pytest.mark.parametrize(
    ("said", "wanted"),
    [("metal", "MLX built with Metal"), ("cuda", "MLX built with CUDA")],
)
def test_what_is_not_here_is_refused(
    said: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_KERNELS", said)
    module = mx.metal if said == "metal" else mx.cuda
    monkeypatch.setattr(module, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match=f"wants {wanted}, and this machine has"):
        _select.choice()
    monkeypatch.setattr(module, "is_available", lambda: True)
    assert _select.choice() == said


def test_the_host_wants_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_KERNELS", "host")
    monkeypatch.setattr(host, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(RuntimeError, match=r"wants a C\+\+ compiler"):
        _select.choice()
