"""How a faulty part is made from a sound one."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import mlx.core as mx

from strata_nb.parts import Cells, Part
from strata_nb.parts.cells import Rows, first_rows, join
from strata_nb.parts.part import Committed, Pending

AnyPart = TypeVar("AnyPart", bound=Part[Any, Any])


def extending(kind: type[AnyPart]) -> Callable[[Any], AnyPart]:
    """What makes a `kind` from a sound part, whose class it extends."""

    def make(sound: Any) -> AnyPart:
        return kind(**{f.name: getattr(sound, f.name) for f in fields(sound)})

    return make


@dataclass(frozen=True)
class Wrapped(Part[Committed, Pending]):
    """A part around a sound one, for state that the sound one does not have."""

    sound: Part[Any, Any]

    @property
    def name(self) -> str:  # type: ignore[override]
        """Of the sound part."""
        return self.sound.name

    def shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        """As the sound part's."""
        return self.sound.shapes(n)


@dataclass(frozen=True)
class Overhang:
    """Cells, and rows that stayed beyond the last of them."""

    cells: Cells
    beyond: Rows  # for the cells that come next

    @staticmethod
    def none(cells: Cells) -> "Overhang":
        """`cells`, with nothing beyond them."""
        return Overhang(cells, tuple(a[:0] for a in cells.page))

    def over(self, rows: Rows) -> Rows:
        """`rows` for the next cells, except where something stayed."""
        held = self.beyond[0].shape[0]
        return join(self.beyond, tuple(a[held:] for a in rows))

    def keep(self, rows: Rows, count: int) -> "Overhang":
        """Append the first `count` of `rows`; the others stay beyond."""
        rest = tuple(mx.contiguous(a[count:]) for a in rows)
        return Overhang(self.cells.append(first_rows(rows, count)), rest)

    def filled(self, value: float) -> "Overhang":
        """Every row beyond the last cell holds `value`."""
        rows = tuple(mx.full(a.shape, value, dtype=a.dtype) for a in self.beyond)
        return replace(self, beyond=rows)
