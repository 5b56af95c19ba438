"""A whole model whose kernels run on the host, against one with the references."""

from typing import Any

import pytest

import strata_nb
from helpers import advance, after, assert_same, prompt, serial
from strata_kernels import gated_delta
from strata_kernels._prelude.host import compiler

pytestmark = pytest.mark.skipif(
    compiler() is None, reason="no C++ compiler: the kernels' text cannot be built"
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often each kernel ran."""
    found: dict[str, int] = {}
    for module, name in (
        (gated_delta, "window_kernel"),
        (gated_delta, "replay_kernel"),
    ):
        kernel = getattr(module, name)

        def counted(
            *args: Any, kernel: Any = kernel, name: str = name, **named: Any
        ) -> Any:
            found[name] = found.get(name, 0) + 1
            return kernel(*args, **named)

        monkeypatch.setattr(module, name, counted)
    return found


def test_a_window_and_its_commit_are_those_of_the_references(
    tiny: strata_nb.Model, monkeypatch: pytest.MonkeyPatch, calls: dict[str, int]
) -> None:
    ids = prompt(tiny, 12)
    plain = after(tiny, ids[:8])
    advance(plain, ids[8:], keep=3)
    assert calls == {}
    monkeypatch.setenv("STRATA_KERNELS", "host")
    hosted = after(tiny, ids[:8])
    advance(hosted, ids[8:], keep=3)
    assert_same(hosted, plain, exact=False, atol=1e-4)
    assert min(calls[n] for n in ("window_kernel", "replay_kernel")) >= 1


def test_kept_rows_of_a_window_are_serial_rows_to_the_bit(
    small: strata_nb.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_KERNELS", "host")
    ids = prompt(small, 9)
    window, rows = after(small, ids[:5]), after(small, ids[:5])
    advance(window, ids[5:], keep=3)
    serial(rows, ids[5:8])
    assert_same(window, rows)
