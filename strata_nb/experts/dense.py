"""Stored matrices turned and converted into the fields of a dense record."""

from typing import Any

import numpy as np
import numpy.typing as npt

from strata_nb.packs.safetensors_file import widen


def fill_dense(target: npt.NDArray[Any], bits: npt.NDArray[Any], dtype: str) -> None:
    """Fill `target` (in, out) from `bits` (out, in).

    Args:
        target: float32, or bfloat16 as uint16.
        bits: as the checkpoint stores them.
        dtype: of those: "float32", "bfloat16" or "float16".
    """
    narrow = target.dtype == np.uint16
    if narrow and dtype == "bfloat16":
        target[...] = bits.T
    elif narrow:
        target[...] = round_bfloat16(widen(bits, dtype)).T
    elif dtype == "bfloat16":
        # In place: half the memory of widening first.
        wide = target.view(np.uint32)
        wide[...] = bits.T
        wide <<= 16
    else:
        target[...] = widen(bits, dtype).T


def round_bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """The bits of the nearest bfloat16, ties to the even one; a NaN stays one."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    nan = np.isnan(values)
    if nan.any():
        # Rounding up may carry out of a NaN's bits.
        rounded[nan] = (bits[nan] >> 16).astype(np.uint16) | 0x0040
    return rounded
