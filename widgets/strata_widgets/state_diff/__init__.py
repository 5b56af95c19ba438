"""`StateDiff`: where two states part, by part and layer."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import altair as alt

from strata_nb.gates import PARTS
from strata_nb.state import Difference
from strata_nb.trace.text import counted
from strata_widgets.drawing import Row, nothing
from strata_widgets.panel import Panel
from strata_widgets.panel.control import Cell, Control, Table, button
from strata_widgets.selection import Dimension
from strata_widgets.state_diff import drawings
from strata_widgets.state_diff.compared import WHOLE, Array, Key, Kind, largest
from strata_widgets.state_diff.pair import Pair

MOST_ROWS: Final = 64
_HEAD: Final = (
    "layer",
    "array",
    "shape",
    "state",
    "differing entries",
    "largest difference",
    "first index",
    "first cell",
)


class StateDiff(Panel):
    """Where two states part; `refresh()` looks again after they moved.

    Which arrays differ is what `strata_nb` says; how many entries is counted here.

    Example:
        >>> broken = model.engine(fault="qsa_ring")
        >>> view = StateDiff(model.engine(), broken)
        >>> view.refresh()  # after both have moved
    """

    TITLE = "State diff"
    SELECTS: ClassVar[tuple[Dimension, ...]] = ("layer", "cell")

    def __init__(
        self,
        first: Any,
        second: Any,
        *,
        atol: float = 0.0,
        position: int | None = None,
        ratio: int | None = None,
        **traits: Any,
    ) -> None:
        """Compare `first` with `second`: engines, sessions, or dicts of leaves.

        Args:
            first: its position names the cells.
            second: another of the same kind.
            atol: largest absolute difference that counts as none.
            position: committed cells, with dicts of leaves.
            ratio: cells a block, with dicts of leaves.
            **traits: `selection`.

        Raises:
            TypeError: they are of no such kind, or of two; or leaves come without
                `position` and `ratio`.
            ValueError: `atol` is below 0.
        """
        self._pair = Pair(first, second, position=position, ratio=ratio, atol=atol)
        self._now = self._pair.look()
        self._at_first = self._now.digests
        self._changed: set[Key] = set()
        self._looks = 1
        # None follows the first part that differs.
        self._part: str | None = None
        super().__init__(**traits)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What differs, as `strata_nb.diff` gives it."""
        return self._now.found

    @property
    def part(self) -> str:
        """The part whose arrays are listed."""
        if self._part is not None:
            return self._part
        apart = [array.leaf.part for array in self._now.differing]
        return (apart or [*self._now.parts, ""])[0]

    def choose(self, part: str) -> None:
        """List the arrays of `part`.

        Raises:
            ValueError: neither state has such a part.
        """
        if part not in self._now.parts:
            raise ValueError(
                f"`part` is {part!r}, wanted one of {', '.join(self._now.parts)}"
            )
        self._part = part
        self.update()

    def refresh(self) -> None:
        """Look again, after the states moved."""
        self._now, had = self._pair.look(), (self._now.parts, self._now.layers)
        self._looks += 1
        self._changed |= {
            key
            for key, digests in self._now.digests.items()
            if digests != self._at_first.get(key)
        }
        if (self._now.parts, self._now.layers) != had:
            for name, spec in self._specs().items():
                self._live[name].show(spec)
        self.update()

    def _specs(self) -> Mapping[str, alt.LayerChart]:
        parts, layers = self._now.parts, self._now.layers
        return {
            "map": drawings.parts_and_layers(parts, layers),
            "sizes": drawings.sizes(layers),
            "cells": drawings.first_cells(_with_cells(parts)),
        }

    def _values(self) -> dict[str, Any]:
        parts = self._now.parts
        chosen = parts.index(self.part) if self.part in parts else -1
        return {
            **super()._values(),
            "chosen": chosen,
            "position": self._now.positions[0],
        }

    def _kinds(self) -> dict[Key, Kind]:
        # Before a second look nobody can say what does not change.
        still = self._at_first.keys() - self._changed if self._looks > 1 else set()
        return self._now.kinds(set(still))

    def _draw(self) -> None:
        kinds = self._kinds()
        boxes = [self._box(key, kind) for key, kind in kinds.items()]
        self._live["map"].replace(boxes or nothing("Neither state has any part."))
        dots = [_dot(box) for box in boxes if box["shade"] > 0]
        equal = "Nothing differs; move one of the two and look again."
        self._live["sizes"].replace(dots or nothing(equal))
        cells = [row for part in self._now.parts for row in self._first_cell(part)]
        none = "No difference has a cell." if dots else equal
        self._live["cells"].replace(cells or nothing(none))

    def _box(self, key: Key, kind: Kind) -> Row:
        part, layer = key
        arrays = [a for a in self._now.of(part) if a.leaf.layer == layer]
        size = largest(arrays)
        said = f"{_place(part, layer)}: {drawings.WORDS[kind].split(' (')[0]}"
        if kind == "differs":
            said += f", by {_number(size)} at most"
        return {
            "part": part,
            "at": self._now.parts.index(part),
            "layer": WHOLE if layer is None else layer,
            "kind": drawings.WORDS[kind],
            "sign": drawings.SIGNS[kind],
            "shade": round(_shade(size), 3) if kind == "differs" else 0,
            "drawn": _drawn(size),
            "shape": "a number" if math.isfinite(size) else "shapes differ, or NaN",
            "says": said,
        }

    def _first_cell(self, part: str) -> list[Row]:
        """A row, if a cell of `part` differs."""
        found = [(a.cell, a) for a in self._now.of(part) if a.cell is not None]
        if not found:
            return []
        cell, array = min(found, key=lambda pair: pair[0])
        return [
            {
                "part": part,
                "at": self._now.parts.index(part),
                "layer": WHOLE if array.leaf.layer is None else array.leaf.layer,
                "cell": cell,
                "says": f"{_place(part, array.leaf.layer)}: differs from cell {cell} "
                "on",
            }
        ]

    def _bounds(self, dimension: Dimension) -> tuple[int, int] | None:
        if dimension == "cell":
            most = max(self._now.positions)
            return (0, most - 1) if most else None
        layers = [layer for layer in self._now.layers if layer != WHOLE]
        return (min(layers), max(layers)) if layers else None

    def _controls(self) -> Sequence[Control]:
        options = tuple((part, self._label(part)) for part in self._now.parts)
        return [
            Control("choice", "part", "Part", self.part, options=options),
            button("refresh", "Look again"),
        ]

    def _label(self, part: str) -> str:
        arrays = self._now.of(part)
        apart = sum(array.differs for array in arrays)
        return f"{part}: {apart} of {len(arrays)} differ"

    def _act(self, name: str, value: Any, values: Mapping[str, Any]) -> None:
        if name == "part":
            self.choose(str(value))
        else:
            self.refresh()

    def _clicked(self, row: dict[str, Any]) -> None:
        if row.get("part") not in self._now.parts:
            return
        self._part = str(row["part"])
        layer = int(row.get("layer", WHOLE))
        chosen = {"layer": None if layer == WHOLE else layer}
        if "cell" in row:
            chosen["cell"] = int(row["cell"])
        self.select(**chosen)
        # The selection may be as it was, and the part another.
        self.update()

    def _status(self) -> str:
        now, count = self._now, len(self._now.arrays)
        one, other = now.positions
        said = f"cell {one}" if one == other else f"cells {one} and {other}"
        apart = now.differing
        if now.is_equal_to_the_bit and one == other:
            return f"{said}: equal to the bit in all {counted(count, 'array')}"
        if not apart:
            within = f" within {self._pair.atol:g}" if self._pair.atol else ""
            bits = "" if now.is_equal_to_the_bit else ", not to the bit"
            return f"{said}: all {counted(count, 'array')} are equal{within}{bits}"
        parts = list(dict.fromkeys(array.leaf.part for array in apart))
        said += f": {len(apart)} of {counted(count, 'array')} differ, in "
        order = " (in the order of computing)" if len(parts) > 1 else ""
        said += f"{', '.join(parts)}{order}{_sizes(apart)}"
        return said + self._here()

    def _here(self) -> str:
        layer, part = self.selection["layer"], self.part
        if layer is None or self._now.of(part, layer):
            return ""
        if any(array.leaf.layer is None for array in self._now.of(part)):
            return f"; {part} belongs to the whole sequence, layer {layer} has none"
        return f"; layer {layer} is selected, which has no {part}"

    def _tables(self) -> Sequence[Table]:
        layer = self.selection["layer"]
        arrays = self._now.of(self.part, layer) or self._now.of(self.part)
        if not arrays:
            return []
        same = {array.leaf.layer for array in arrays}
        where = self.part if len(same) > 1 else _place(self.part, same.pop())
        kinds = self._kinds()
        rows = [_line(array, kinds) for array in arrays[:MOST_ROWS]]
        hidden = max(0, len(arrays) - MOST_ROWS)
        return [Table(f"Arrays of {where}", _HEAD, rows, hidden=hidden)]


def _line(array: Array, kinds: dict[Key, Kind]) -> list[Cell]:
    leaf = array.leaf
    shapes = list(dict.fromkeys(map(_shape, array.shapes)))
    # Of a part whose other arrays differ, this one is equal.
    of_all = kinds[leaf.part, leaf.layer]
    state = _STATES["unchanged" if of_all == "unchanged" else "equal"]
    if array.differs:
        state = _STATES["absent" if array.is_absent else "differs"]
    entries = math.prod(array.shapes[0] or ())
    apart = "-" if array.differing is None else f"{array.differing:,} of {entries:,}"
    index = "-" if array.index is None else f"[{', '.join(map(str, array.index))}]"
    return [
        "all" if leaf.layer is None else leaf.layer,
        leaf.field,
        " and ".join(shapes),
        state,
        apart,
        _number(array.size),
        index,
        "-" if array.cell is None else array.cell,
    ]


_STATES: Final[dict[str, str]] = {
    "equal": "equal",
    "unchanged": "equal, never changed",
    "differs": "differs",
    "absent": "absent in one",
}


def _dot(box: Row) -> Row:
    wanted = ("part", "at", "layer", "drawn", "shape", "says")
    return {name: box[name] for name in wanted}


def _with_cells(parts: Sequence[str]) -> tuple[str, ...]:
    """Parts whose rows are cells: all of the engine's but the recurrence."""
    return tuple(p for p in parts if p in PARTS and p != "gdn_state")


def _drawn(size: float) -> float:
    """Where `size` stands on its axis."""
    if not math.isfinite(size):
        return drawings.HIGHEST
    return min(max(size, drawings.LOWEST), drawings.HIGHEST)


def _shade(size: float) -> float:
    """From 0.25 to 1, by the size on a log scale."""
    span = math.log10(drawings.HIGHEST / drawings.LOWEST)
    return 0.25 + 0.75 * math.log10(_drawn(size) / drawings.LOWEST) / span


def _number(size: float) -> str:
    if math.isnan(size):
        return "NaN"
    if math.isinf(size):
        return "∞"
    return f"{size:.1e}" if size else "0"


def _sizes(arrays: Sequence[Array]) -> str:
    """The largest difference of those that have one, and how many have none."""
    pairs = [array for array in arrays if not math.isinf(array.size)]
    said = f"; the largest difference is {_number(largest(pairs))}" if pairs else ""
    absent = sum(array.is_absent for array in arrays)
    other = len(arrays) - len(pairs) - absent
    said += f"; {counted(other, 'array')} of other shapes" if other else ""
    return said + (f"; {counted(absent, 'array')} absent in one" if absent else "")


def _shape(shape: tuple[int, ...] | None) -> str:
    return "none" if shape is None else str(list(shape))


def _place(part: str, layer: int | None) -> str:
    return part if layer is None else f"{part}, layer {layer}"
