"""Tokens as drafters take them: integers in order."""

import operator
from array import array
from collections.abc import Iterable
from typing import SupportsIndex, TypeVar

Run = TypeVar("Run", list[int], "array[int]")


def checked(tokens: Iterable[SupportsIndex]) -> tuple[int, ...]:
    """The tokens as plain integers; read once, so that an iterator serves too.

    Raises:
        TypeError: text, something without an order, or something that is no integer.
    """
    if isinstance(tokens, (str, bytes)):
        raise TypeError("wanted token ids, got text; use `model.encode(text)`")
    if isinstance(tokens, (dict, set, frozenset)):
        raise TypeError(f"wanted token ids in order, got a {type(tokens).__name__}")
    return tuple(map(operator.index, tokens))


def alike(one: Run, other: Run) -> int:
    """Tokens at the beginning that both have.

    By halving: slices are compared at once, however long.
    """
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
