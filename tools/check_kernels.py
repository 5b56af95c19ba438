"""Checks of the kernels' text that want more time, or compilers of their own.

    python -m tools.check_kernels

Three passes: AddressSanitizer while the host runs every kernel; clang, with Metal's
memories kept apart; NVRTC, which compiles for CUDA without a GPU. A pass whose compiler
is missing is skipped by name. Each also has to refuse a text with a mistake in it: a
pass that accepts everything is none.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import mlx.core as mx

from strata_kernels._prelude import host
from strata_kernels._prelude.kernel import Kernel, Launch, Target
from strata_kernels._prelude.texts import cuda_text, spaced_text
from strata_kernels.gated_delta.launch import WINDOW
from tools.kernel_cases import RELEASED, SMALL, Sizes, cases

ROWS: Final = (1, 4)
PATIENCE: Final = 600
"""Seconds for one run of another program."""
Started = tuple[Kernel, Sequence[mx.array], Launch]


class Skip(Exception):
    """What a pass lacks."""


def main() -> int:
    """Run the passes; 1 if one of them finds something."""
    if sys.argv[1:] == ["--inside"]:
        return inside()
    passes = {
        "AddressSanitizer on the host": sanitised,
        "address spaces in clang": spaced,
        "CUDA in NVRTC": compiled,
    }
    return max([told(name, run) for name, run in passes.items()])


def told(name: str, run: Callable[[], Sequence[str]]) -> int:
    """Run a pass and say what came of it."""
    try:
        complaints = run()
    except Skip as lacking:
        say(f"{name}: skipped, {lacking}")
        return 0
    say(f"{name}: {'; '.join(complaints) or 'well'}")
    return 1 if complaints else 0


def say(words: str) -> None:
    """A line, at once."""
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def started(sizes: Sizes) -> Iterator[Started]:
    """Every launch of every case, without running it."""
    found: list[Started] = []
    run = Kernel.__call__

    def record(
        self: Kernel, arrays: Sequence[mx.array], launch: Launch, *, target: Target
    ) -> list[mx.array]:
        found.append((self, arrays, launch))
        return [mx.zeros(shape, dtype) for shape, dtype in launch.outputs]

    setattr(Kernel, "__call__", record)  # noqa: B010
    try:
        for make in cases(sizes, rows=ROWS):
            case = make()
            case.kernel(case.start, "host")
            for pair in case.bits.values():
                pair("host")
    finally:
        setattr(Kernel, "__call__", run)  # noqa: B010
    yield from found


def a_mistake() -> tuple[Kernel, Started]:
    """The window's kernel, and one of its launches with an unknown function in it."""
    first = next(s for s in started(SMALL) if s[0] == WINDOW)
    return WINDOW, (WINDOW.changed("lanes_sum(sum)", "nobodys(sum)"), *first[1:])


# AddressSanitizer


def sanitised() -> Sequence[str]:
    """Run the cases in a process that AddressSanitizer watches."""
    found = host.compiler()
    if found is None:
        raise Skip("no C++ compiler")
    said = subprocess.run(
        [found, "-print-file-name=libasan.so"], capture_output=True, text=True
    ).stdout.strip()
    if not Path(said).is_absolute():
        raise Skip(f"{found} has no libasan.so")
    environment = {
        **os.environ,
        host.FLAGS: "-fsanitize=address -g",
        "LD_PRELOAD": said,
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0",
    }
    complaints = []
    for mistake in ("", "read", "shared"):
        done = subprocess.run(
            [sys.executable, "-m", "tools.check_kernels", "--inside"],
            env={**environment, "STRATA_MISTAKE": mistake},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        caught = "AddressSanitizer: heap-buffer-overflow" in done.stderr
        if not mistake and done.returncode != 0:
            complaints.append(done.stderr.strip()[:2000])
        elif mistake and not caught:
            complaints.append(f"it does not see a {mistake} out of bounds")
    return complaints


_MISTAKES: Final = {
    "read": ("feature < size ? from[feature] : 0.0f", "from[feature]"),
    "shared": ("member[lane] = used", "member[lane + 1u] = used"),
}


def inside() -> int:
    """What is run under AddressSanitizer."""
    mistake = _MISTAKES.get(os.environ.get("STRATA_MISTAKE", ""))
    for kernel, arrays, launch in distinct(started(SMALL)):
        text = kernel.header + kernel.source
        if mistake is None:
            kernel(arrays, launch, target="host")
        elif mistake[0] in text:
            kernel.changed(*mistake)(arrays, launch, target="host")
    return 0


def distinct(launches: Iterator[Started]) -> Iterator[Started]:
    """One launch of each text."""
    seen: set[Any] = set()
    for kernel, arrays, launch in launches:
        key = (kernel, tuple(launch.constants.items()))
        if key not in seen:
            seen.add(key)
            yield kernel, arrays, launch


# clang


def spaced() -> Sequence[str]:
    """Let clang look at the Metal text with its memories kept apart."""
    clang = shutil.which("clang++")
    if clang is None:
        raise Skip("no clang++")

    def look(text: str) -> str:
        done = subprocess.run(
            [clang, "-std=c++17", "-fsyntax-only", "-w", "-x", "c++", "-"],
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return done.stderr[:500] if done.returncode else ""

    complaints = [
        f"{s[0].name}: {said}"
        for s in distinct(started(RELEASED))
        if (said := look(spaced_text(*s)))
    ]
    sound, wrong = a_mistake()
    lost = sound.changed(
        "load_lanes(THREAD float* into, DEVICE const",
        "load_lanes(THREAD float* into, const",
    )
    for name, one in (("an unknown function", wrong[0]), ("a lost memory", lost)):
        if not look(spaced_text(one, *wrong[1:])):
            complaints.append(f"it does not see {name}")
    return complaints


# NVRTC


def compiled() -> Sequence[str]:
    """Let NVRTC compile every text for a GPU that need not be here."""
    library = nvrtc()

    def look(text: str) -> str:
        program = ctypes.c_void_p()
        arguments = (text.encode(), b"kernel.cu", 0, None, None)
        library.nvrtcCreateProgram(ctypes.byref(program), *arguments)
        options = (b"--gpu-architecture=sm_90", b"--std=c++17")
        listed = (ctypes.c_char_p * len(options))(*options)
        failed = library.nvrtcCompileProgram(program, len(options), listed)
        size = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        library.nvrtcDestroyProgram(ctypes.byref(program))
        return log.value.decode()[:500] if failed else ""

    complaints = [
        f"{s[0].name}: {said}"
        for s in distinct(started(RELEASED))
        if (said := look(cuda_text(*s)))
    ]
    if not look(cuda_text(*a_mistake()[1])):
        complaints.append("it does not see an unknown function")
    return complaints


def nvrtc() -> ctypes.CDLL:
    """NVIDIA's run-time compiler, from its Python package or the system."""
    names = [
        *(str(p) for f in sys.path for p in Path(f).glob("nvidia/*/lib/libnvrtc.so.*")),
        *("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"),
    ]
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise Skip("no libnvrtc; the package nvidia-cuda-nvrtc has it")


if __name__ == "__main__":
    sys.exit(main())
