"""One stored matrix as MLX's quantised arrays."""

from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from strata_nb.experts.dense import round_bfloat16
from strata_nb.experts.record import Floats, Kind, bits_of
from strata_nb.packs.safetensors_file import widen


def quantise(
    bits: npt.NDArray[Any], dtype: str, *, kind: Kind, group: int, floats: Floats
) -> list[npt.NDArray[Any]]:
    """Words, scales and, but for mxfp4, biases of a matrix (out, in).

    Args:
        bits: as the checkpoint stores them.
        dtype: of those: "float32", "bfloat16" or "float16".
        kind: a quantised one.
        group: numbers of a row that share a scale.
        floats: type of scales and biases; bfloat16 comes back as uint16 bits.

    Raises:
        ValueError: a number is not finite: its whole group would be lost.
    """
    matrix = _array(bits, dtype, floats)
    if not mx.isfinite(matrix).all().item():
        raise ValueError("a number is not finite")
    mode = "mxfp4" if kind == "mxfp4" else "affine"
    parts = mx.quantize(matrix, group_size=group, bits=bits_of(kind), mode=mode)
    return [
        np.array(part.view(mx.uint16) if part.dtype == mx.bfloat16 else part)
        for part in parts
    ]


def _array(bits: npt.NDArray[Any], dtype: str, floats: Floats) -> mx.array:
    """The matrix in the type its scales shall have."""
    if floats == "float32":
        return mx.array(widen(bits, dtype))
    narrow = bits if dtype == "bfloat16" else round_bfloat16(widen(bits, dtype))
    return mx.array(narrow).view(mx.bfloat16)
