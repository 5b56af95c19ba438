"""Where two traces differ, times left aside."""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from .columns import LAYER_COLUMNS, WINDOW_COLUMNS
from .quoting import escaped
from .records import LayerRecord, WindowRecord
from .store import Trace


class TraceDifference(NamedTuple):
    """One place where two traces differ.

    Attributes:
        window: index of the window.
        layer: layer index, None for a field of the window itself.
        field: the column; "windows" or "layers" when their numbers or indices differ.
        left: what the first trace has there.
        right: what the second has.
    """

    window: int
    layer: int | None
    field: str
    left: Any
    right: Any

    def __str__(self) -> str:
        where = "" if self.layer is None else f", layer {self.layer}"
        sides = f"{self.left} | {self.right}"
        return f"window {self.window}{where}, {self.field}: {escaped(sides)}"


def compare(
    a: Trace, b: Trace, *, ignore: Collection[str] = ()
) -> list[TraceDifference]:
    """All differences of `a` and `b`, the first one first; empty when they are equal.

    Times, `warm` and `late` differ from run to run and are not looked at; nor is
    provenance, which says where a trace comes from.

    Args:
        a: the left trace.
        b: the right trace.
        ignore: further columns to leave aside, such as "fold".

    Raises:
        ValueError: `ignore` names no column.
    """
    known = WINDOW_COLUMNS | LAYER_COLUMNS
    for name in ignore:
        if name not in known:
            raise ValueError(
                f"`ignore` must name columns ({', '.join(known)}), got {name!r}"
            )
    found = [
        difference
        for index, (left, right) in enumerate(zip(a, b, strict=False))
        for difference in _windows(index, left, right, ignore)
    ]
    if len(a) != len(b):
        shorter = min(len(a), len(b))
        found.append(TraceDifference(shorter, None, "windows", len(a), len(b)))
    return found


def _windows(
    index: int, left: WindowRecord, right: WindowRecord, ignore: Collection[str]
) -> Iterator[TraceDifference]:
    for name, column in WINDOW_COLUMNS.items():
        x, y = getattr(left, name), getattr(right, name)
        if column.compared and name not in ignore and x != y:
            yield TraceDifference(index, None, name, x, y)
    names = [tuple(layer.layer for layer in w.layers) for w in (left, right)]
    if names[0] != names[1]:
        yield TraceDifference(index, None, "layers", *names)
        return
    for one, other in zip(left.layers, right.layers, strict=True):
        yield from _layers(index, one, other, ignore)


def _layers(
    index: int, left: LayerRecord, right: LayerRecord, ignore: Collection[str]
) -> Iterator[TraceDifference]:
    for name, column in LAYER_COLUMNS.items():
        x, y = getattr(left, name), getattr(right, name)
        if column.compared and name not in ignore and not np.array_equal(x, y):
            if name == "expert_ids":
                x, y = x.tolist(), y.tolist()
            yield TraceDifference(index, left.layer, name, x, y)
