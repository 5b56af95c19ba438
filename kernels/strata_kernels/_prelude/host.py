"""The Metal text that MLX makes, compiled as C++ and run thread by thread.

MLX writes that text also where there is no Metal, while it exports a function. It is
a check, not a way to be fast: every run happens twice, in both orders of the threads,
and the two must agree to the bit.
"""

import ctypes
import hashlib
import math
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from strata_kernels._prelude.kernel import (
    LANES,
    Kernel,
    KernelError,
    Launch,
    arguments,
    built,
)

COMPILERS = ("c++", "g++", "clang++")
FLAGS = "STRATA_KERNELS_FLAGS"
# Without optimisation a place of the text is one place of the program, so that lanes
# that part can be told from lanes that meet.
_OPTIONS = (
    *("-std=c++17", "-O0", "-fPIC", "-shared", "-w"),
    *("-ffp-contract=off", "-fno-omit-frame-pointer"),
)
_MESSAGE = 512
# A sanitizer has guards of its own, which ours would hide from it.
_GUARD = 0 if "-fsanitize" in os.environ.get(FLAGS, "") else 1 << 16


class _Parameter(NamedTuple):
    """One of the kernel's function: a buffer's number, or None for a position."""

    kind: str
    name: str
    buffer: int | None


def compiler() -> str | None:
    """A C++ compiler of this machine; None: there is none."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)


def metal_text(kernel: Kernel, arrays: Sequence[mx.array], launch: Launch) -> str:
    """The Metal source that MLX would compile for this launch.

    Raises:
        KernelError: MLX shows none.
    """
    found: list[str] = []

    def look(part: dict[str, Any]) -> None:
        if part.get("name") == "CustomKernel":
            found.append(part["arguments"][1])

    def traced(*inputs: mx.array) -> list[mx.array]:
        made: list[mx.array] = built(kernel, "metal")(**arguments(inputs, launch))
        return made

    mx.export_function(look, traced, *arrays)
    if len(found) != 1 or not isinstance(found[0], str):
        raise KernelError(
            f"{kernel.name}: MLX shows {len(found)} texts while it exports a kernel, "
            "wanted one; STRATA_KERNELS=reference needs none"
        )
    return found[0]


def host_program(text: str, constants: Sequence[int]) -> str:
    """C++ around a Metal text: what it takes for granted, and a function to call."""
    head = re.search(r"\[\[kernel\]\] void (\w+)\((.*?)\) \{", text, re.S)
    if head is None:
        raise KernelError("the text has no kernel function; MLX writes another form")
    name, parameters = head[1], [_parameter(p) for p in head[2].split(",\n")]
    given = ", ".join(_argument(p) for p in parameters)
    made = f"{name}<{', '.join(map(str, constants))}>" if constants else name
    shim = (Path(__file__).parent / "host.h").read_text(encoding="utf-8")
    entry = (
        'extern "C" int strata_run(void** buffers, uint groups, uint threads, int '
        "reverse,\n                          char* message, size_t size) {\n"
        "  return strata::run(groups, threads, reverse != 0, message, size,\n"
        f"                     [](void** buffers) {{ {made}({given}); }}, buffers);\n"
        "}\n"
    )
    return "\n".join([shim, without_instance(text), entry])


def without_instance(text: str) -> str:
    """A Metal text without the line that instantiates its template.

    C++ knows no attributes there.
    """
    return re.sub(r"^template \[\[host_name.*$", "", text, flags=re.M)


def run_on_host(
    kernel: Kernel, arrays: Sequence[mx.array], launch: Launch
) -> list[mx.array]:
    """Run `kernel` in both orders of its threads.

    Raises:
        KernelError: there is no compiler, the text does not compile, a rule of threads
            is broken, or the result depends on the order of threads.
    """
    inputs = [np.ascontiguousarray(np.array(a)) for a in arrays]
    function = _function(kernel, arrays, launch)
    forwards = _run(kernel, function, inputs, launch, reverse=False)
    backwards = _run(kernel, function, inputs, launch, reverse=True)
    for name, one, other in zip(kernel.outputs, forwards, backwards, strict=True):
        if one.tobytes() != other.tobytes():
            raise KernelError(
                f"{kernel.name}: `{name}` depends on the order of threads; wanted a "
                "barrier between what one thread writes and another one reads"
            )
    return [mx.array(a) for a in forwards]


def _function(kernel: Kernel, arrays: Sequence[mx.array], launch: Launch) -> Any:
    # MLX passes small arrays otherwise than large ones.
    kinds = tuple((str(a.dtype), a.size < 8) for a in arrays)
    key = (kernel, tuple(launch.constants.items()), kinds, os.environ.get(FLAGS, ""))
    if key not in _loaded:
        text = metal_text(kernel, arrays, launch)
        program = host_program(text, list(launch.constants.values()))
        _loaded[key] = _load(kernel.name, program, key[-1])
    return _loaded[key]


_loaded: dict[tuple[Any, ...], Any] = {}


def _run(
    kernel: Kernel,
    function: Any,
    inputs: Sequence[npt.NDArray[Any]],
    launch: Launch,
    *,
    reverse: bool,
) -> list[npt.NDArray[Any]]:
    outputs = [_Guarded.poisoned(shape, dtype) for shape, dtype in launch.outputs]
    every = [*(_Guarded.holding(a) for a in inputs), *outputs]
    pointers = (ctypes.c_void_p * len(every))(*(g.inside.ctypes.data for g in every))
    message = ctypes.create_string_buffer(_MESSAGE)
    threads = launch.simdgroups * LANES
    if function(pointers, launch.groups, threads, int(reverse), message, _MESSAGE):
        raise KernelError(f"{kernel.name}: {message.value.decode()}")
    names = (*kernel.inputs, *kernel.outputs)
    for name, guarded in zip(names, every, strict=True):
        if not guarded.is_whole():
            raise KernelError(
                f"{kernel.name}: something was written outside of `{name}`; wanted "
                "indices below its size"
            )
    return [g.inside for g in outputs]


class _Guarded(NamedTuple):
    """An array amid memory that nobody should write, and whose floats are none."""

    memory: npt.NDArray[np.uint8]
    inside: npt.NDArray[Any]

    @classmethod
    def poisoned(cls, shape: tuple[int, ...], dtype: mx.Dtype) -> "_Guarded":
        """Of numbers that are none, or absurd."""
        kind = np.array(mx.zeros((0,), dtype)).dtype
        size = math.prod(shape) * kind.itemsize
        memory = np.full(size + 2 * _GUARD, 0xFF, np.uint8)
        return cls(memory, memory[_GUARD : _GUARD + size].view(kind).reshape(shape))

    @classmethod
    def holding(cls, array: npt.NDArray[Any]) -> "_Guarded":
        """A copy."""
        size = array.nbytes
        memory = np.full(size + 2 * _GUARD, 0xFF, np.uint8)
        inside = memory[_GUARD : _GUARD + size].view(array.dtype).reshape(array.shape)
        inside[...] = array
        return cls(memory, inside)

    def is_whole(self) -> bool:
        """Whether nobody wrote around the array."""
        end = _GUARD + self.inside.nbytes
        return bool((self.memory[:_GUARD] == 0xFF).all()) and bool(
            (self.memory[end:] == 0xFF).all()
        )


def _parameter(text: str) -> _Parameter:
    found = re.fullmatch(r"\s*(.*?)\s*(\w+) \[\[(\w+)(?:\((\d+)\))?\]\]\s*", text, re.S)
    if found is None or "&" in found[1]:
        raise KernelError(f"the parameter {text.strip()!r} is of a kind not known here")
    return _Parameter(found[1], found[2], int(found[4]) if found[4] else None)


def _argument(parameter: _Parameter) -> str:
    if parameter.buffer is not None:
        kind = re.sub(r"\b(device|constant) ", "", parameter.kind)
        return f"static_cast<{kind}>(buffers[{parameter.buffer}])"
    return f"strata::{parameter.name}()"


@lru_cache(maxsize=1)
def _folder() -> Path:
    """Where programs are kept between runs, nobody else's."""
    folder = Path(tempfile.gettempdir()) / f"strata-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
    # What lies in a folder that others may write to is not to be loaded.
    if not ours or about.st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix="strata-kernels-"))
    return folder


def _load(name: str, program: str, flags: str) -> Any:
    found = compiler()
    if found is None:
        raise KernelError(
            f"{name}: no C++ compiler found, wanted one of {', '.join(COMPILERS)}; "
            "install one or set STRATA_KERNELS=reference"
        )
    command = [found, *_OPTIONS, *flags.split()]
    key = hashlib.sha256("\0".join([*command, program]).encode()).hexdigest()
    path = _folder() / f"{name}-{key[:24]}.so"
    if not path.exists():
        _compile(name, program, command, path)
    # PyDLL keeps Python's lock: the program runs one kernel at a time.
    function = ctypes.PyDLL(str(path)).strata_run
    function.argtypes = [
        *(ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_int),
        *(ctypes.c_char_p, ctypes.c_size_t),
    ]
    return function


def _compile(name: str, program: str, command: Sequence[str], path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        source, made = Path(folder) / f"{name}.cpp", Path(folder) / path.name
        source.write_text(program, encoding="utf-8")
        done = subprocess.run(
            [*command, "-o", str(made), str(source)], capture_output=True, text=True
        )
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if "error" in line][:5]
            raise KernelError(f"{name} does not compile: " + "\n".join(said))
        # Whole or not at all, whoever else builds the same.
        made.replace(path)
