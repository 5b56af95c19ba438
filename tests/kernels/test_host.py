"""The host's machine: what it lets a kernel do, and what it finds wrong."""

import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from strata_kernels._prelude import Kernel, KernelError, Launch, host

pytestmark = pytest.mark.skipif(
    host.compiler() is None, reason="no C++ compiler: no text can be built"
)

PLACE = """
uint lane = thread_index_in_simdgroup;
uint team = simdgroup_index_in_threadgroup;
int place = int(threadgroup_position_in_grid.x) * 64 + int(team * 32u + lane);
"""
SHARED_TEXT = (Path(host.__file__).parent / "shared.h").read_text(encoding="utf-8")
LAUNCH = Launch(2, 2, {"BY": 3}, [((128,), mx.float32)])


def kernel_of(source: str) -> Kernel:
    return Kernel("strata_try", SHARED_TEXT, PLACE + source, ("x",), ("y",))


def run(source: str) -> mx.array:
    x = mx.arange(128).astype(mx.float32)
    (y,) = kernel_of(source)([x], LAUNCH, target="host")
    return y


TURNED = """
SHARED(float, kept, 64);
kept[team * 32u + lane] = x[place] * BY;
BARRIER();
y[place] = kept[63u - (team * 32u + lane)];
"""


def test_threads_of_a_group_share_memory_across_a_barrier() -> None:
    want = np.arange(128).reshape(2, 64)[:, ::-1].reshape(-1) * 3
    assert np.array(run(TURNED)).tolist() == want.tolist()


def test_a_missing_barrier_is_found() -> None:
    with pytest.raises(KernelError, match="`y` depends on the order of threads"):
        run(TURNED.replace("BARRIER();", ""))


def test_memory_that_nobody_wrote_is_no_number() -> None:
    text = TURNED.replace("kept[team * 32u + lane] = x[place] * BY;", "")
    assert np.isnan(np.array(run(text))).all()
    assert np.isnan(np.array(run("if (place == 5) { y[place] = 1.0f; }"))).sum() == 127


@pytest.mark.parametrize("at", ["place + 1", "place - 1"])
def test_a_write_outside_of_an_array_is_found(at: str) -> None:
    with pytest.raises(KernelError, match="written outside of `y`"):
        run(f"y[{at}] = x[place];")


def test_what_is_read_outside_of_an_array_is_no_number() -> None:
    y = np.array(run("y[place] = x[place + 1];"))
    assert np.isnan(y).tolist() == [i == 127 for i in range(128)]


def test_helpers_take_all_32_lanes_together() -> None:
    y = np.array(run("y[place] = lanes_sum(x[place]) + lanes_max(x[place]);"))
    lanes = np.arange(128).reshape(4, 32)
    want = lanes.sum(axis=1) + lanes.max(axis=1)
    assert y.reshape(4, 32).tolist() == np.repeat(want[:, None], 32, axis=1).tolist()


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("if (lane < 5u) { y[place] = lanes_sum(1.0f); }", "does not take part"),
        (
            "if (lane < 5u) { y[place] = lanes_sum(1.0f); }"
            " else { y[place] = lanes_sum(2.0f); }",
            "waits in another shuffle",
        ),
        ("if (lane == 7u) { return; } BARRIER();", "returned before a barrier"),
        ("if (team == 0u) { BARRIER(); } else { BARRIER(); }", "wait at two barriers"),
        ("if (lane == 0u) { BARRIER(); } y[place] = lanes_sum(1.0f);", "take part"),
    ],
)
def test_lanes_that_part_are_found(source: str, why: str) -> None:
    with pytest.raises(KernelError, match=why):
        run(source)


def test_a_text_that_does_not_compile_says_where() -> None:
    with pytest.raises(KernelError, match=r"strata_try does not compile: .*nowhere"):
        run("y[place] = nowhere(1.0f);")


def test_no_compiler_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(KernelError, match=r"no C\+\+ compiler found.*reference"):
        run("y[place] = 41.5f;")


def test_another_switch_of_fibers_gives_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    want = run(TURNED)
    # What machines without hand-written switches use.
    monkeypatch.setenv(host.FLAGS, "-DSTRATA_UCONTEXT")
    assert mx.array_equal(run(TURNED), want)
    with pytest.raises(KernelError, match="waits in another shuffle"):
        run(
            "if (lane < 5u) { y[place] = lanes_sum(1.0f); }"
            " else { y[place] = lanes_sum(2.0f); }"
        )


def test_a_change_must_be_of_one_place() -> None:
    kernel = kernel_of(TURNED)
    assert "BARRIER();" not in kernel.changed("BARRIER();", "").source
    with pytest.raises(ValueError, match="'lane' 4 times, wanted once"):
        Kernel("k", "", PLACE + TURNED, ("x",), ("y",)).changed("lane", "team")


def test_keys_have_the_order_of_numbers() -> None:
    values = [float("nan"), -np.inf, -2.5, -1e-45, 0.0, 1e-45, 1.0, 3e38, np.inf]
    x = np.resize(np.array(values, np.float32), 128)
    x[9] = -0.0
    source = "y[place] = FLOAT_OF(key_of(x[place]));"
    (y,) = kernel_of(source)([mx.array(x)], LAUNCH, target="host")
    keys = np.array(y).view(np.uint32)
    assert keys[0] == 0
    assert (np.diff(keys[:9].astype(np.int64)) > 0).all()
    assert keys[9] == keys[4]


def test_importing_the_kernels_builds_nothing() -> None:
    code = (
        "import sys, strata_kernels.gated_delta\n"
        "assert 'strata_kernels._prelude.host' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
