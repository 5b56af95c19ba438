"""Random numbers by seed, stream and position: the same whatever came before."""

import struct
from hashlib import blake2b
from typing import Literal, TypeAlias

import numpy as np

Stream: TypeAlias = Literal["target", "accept", "residual", "draft"]


def uniform(seed: int, stream: Stream, position: int) -> float:
    """One number of [0, 1); streams and positions are independent of each other.

    The number belongs to its position, so that a window that was rejected has used
    nothing up. BLAKE2 of the three: a counter-based generator of the standard library,
    the same on every machine. NumPy's Philox, set up anew for each number, is slower.

    Args:
        seed: 0 to 2**64 - 1.
        stream: what the number decides.
        position: the cell of the row that decides, 0 or more.
    """
    place = struct.pack("<QQ", seed, position)
    hashed = blake2b(place, digest_size=8, person=stream.encode())
    return (int.from_bytes(hashed.digest(), "little") >> 11) * 2.0**-53


def draw(law: np.ndarray, number: float) -> int:
    """The token where the cumulative law passes `number`, in order of tokens.

    Args:
        law: probabilities, float64 [V]; they need not add up to just 1.
        number: of [0, 1).
    """
    mass = law.cumsum()
    token = int(mass.searchsorted(number * mass[-1], side="right"))
    if token < len(law):
        return token
    # Rounding has carried the number to the very end: the last token that has a mass.
    return int(np.flatnonzero(law)[-1])
