"""A kernel's text and its launch on one of the targets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import mlx.core as mx

Target: TypeAlias = Literal["metal", "cuda", "host"]

LANES = 32
_FOLDER = Path(__file__).parent


class KernelError(RuntimeError):
    """A kernel does not compile, or its text breaks a rule that the host checks."""


@dataclass(frozen=True)
class Launch:
    """How a kernel is started; everything in it is known before any value is.

    Attributes:
        groups: thread groups, in one dimension.
        simdgroups: of 32 lanes, in each group.
        constants: numbers that are compiled into the text, by name.
        outputs: shape and dtype of each output.
    """

    groups: int
    simdgroups: int
    constants: Mapping[str, int]
    outputs: Sequence[tuple[tuple[int, ...], mx.Dtype]]


@dataclass(frozen=True)
class Kernel:
    """One text, without a word that only one target knows.

    Attributes:
        name: of the kernel.
        header: helper functions.
        source: the body; what it says of threads it says in Metal's names.
        inputs: names of the arrays that it reads, row-major.
        outputs: names of the arrays that it writes.
    """

    name: str
    header: str
    source: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def read(
        cls,
        beside: str,
        body: str,
        *,
        headers: Sequence[str] = (),
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> "Kernel":
        """The kernel of a folder.

        Args:
            beside: `__file__` of a module in the folder.
            body: name of the body's file, without `.metal`.
            headers: files of helpers in the folder, in their order.
            inputs: names of arrays that are read.
            outputs: names of arrays that are written.
        """
        folder = Path(beside).parent
        helpers = [_text(folder / name) for name in headers]
        return cls(
            name=f"strata_{folder.name}_{body}",
            header="\n".join([_text(_FOLDER / "shared.h"), *helpers]),
            source=_text(folder / f"{body}.metal"),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
        )

    def changed(self, old: str, new: str) -> "Kernel":
        """The kernel with `new` for `old`, which its text says once.

        Raises:
            ValueError: the text says `old` never or more than once.
        """
        found = self.header.count(old) + self.source.count(old)
        if found != 1:
            raise ValueError(
                f"{self.name} says {old!r} {found} times, wanted once; quote more of it"
            )
        return replace(
            self,
            header=self.header.replace(old, new),
            source=self.source.replace(old, new),
        )

    def prefixed(self, target: Literal["metal", "cuda"]) -> str:
        """The header behind the target's prelude."""
        return f"{_text(_FOLDER / f'{target}.h')}\n{self.header}"

    def __call__(
        self, arrays: Sequence[mx.array], launch: Launch, *, target: Target
    ) -> list[mx.array]:
        """Run the kernel on `target`.

        Args:
            arrays: the inputs, by the order of their names.
            launch: how.
            target: where.

        Returns:
            The outputs; evaluated on the host, lazy elsewhere.

        Raises:
            KernelError: see the class; the host alone.
        """
        if target == "host":
            from strata_kernels._prelude.host import run_on_host

            return run_on_host(self, arrays, launch)
        found: list[mx.array] = built(self, target)(**arguments(arrays, launch))
        return found


@lru_cache(maxsize=64)
def built(kernel: Kernel, target: Literal["metal", "cuda"]) -> Any:
    """MLX's kernel; made on the first call, since CUDA's cannot be made without it."""
    make = mx.fast.metal_kernel if target == "metal" else mx.fast.cuda_kernel
    return make(
        name=kernel.name,
        input_names=list(kernel.inputs),
        output_names=list(kernel.outputs),
        header=kernel.prefixed(target),
        source=kernel.source,
    )


def arguments(arrays: Sequence[mx.array], launch: Launch) -> dict[str, Any]:
    """What MLX's kernel is called with."""
    threads = launch.simdgroups * LANES
    return {
        "inputs": list(arrays),
        "template": list(launch.constants.items()),
        "grid": (launch.groups * threads, 1, 1),
        "threadgroup": (threads, 1, 1),
        "output_shapes": [shape for shape, _ in launch.outputs],
        "output_dtypes": [dtype for _, dtype in launch.outputs],
    }


@lru_cache(maxsize=64)
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
