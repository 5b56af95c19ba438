"""Whole texts of a launch for compilers that only look at them."""

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx

from strata_kernels._prelude.host import metal_text, without_instance
from strata_kernels._prelude.kernel import Kernel, Launch

_KINDS = {mx.float32: "float", mx.int32: "int", mx.uint32: "unsigned int"}


def cuda_text(kernel: Kernel, arrays: Sequence[mx.array], launch: Launch) -> str:
    """CUDA source as MLX would put it together: constants are the body's first lines.

    Args:
        kernel: whose text.
        arrays: its inputs; only their dtypes count.
        launch: how it is started.
    """
    reads = [
        f"const {_KINDS[a.dtype]}* {name}"
        for name, a in zip(kernel.inputs, arrays, strict=True)
    ]
    writes = [
        f"{_KINDS[dtype]}* {name}"
        for name, (_, dtype) in zip(kernel.outputs, launch.outputs, strict=True)
    ]
    constants = "".join(
        f"constexpr int {name} = {value};\n" for name, value in launch.constants.items()
    )
    head = f'extern "C" __global__ void {kernel.name}({", ".join(reads + writes)}) {{'
    return f"{kernel.prefixed('cuda')}\n{head}\n{constants}{kernel.source}\n}}\n"


def spaced_text(kernel: Kernel, arrays: Sequence[mx.array], launch: Launch) -> str:
    """MLX's Metal source under a prelude for clang that keeps memories apart.

    A call of the template is added, since clang looks at no other.

    Args:
        kernel: whose text.
        arrays: its inputs.
        launch: how it is started.
    """
    prelude = (Path(__file__).parent / "spaces.h").read_text(encoding="utf-8")
    text = metal_text(kernel, arrays, launch)
    name = text.split("[[kernel]] void ")[1].split("(")[0]
    constants = ", ".join(map(str, launch.constants.values()))
    used = f"auto instance = &{name}<{constants}>;\n" if constants else ""
    return "\n".join([prelude, without_instance(text), used])
