"""A defect of a part of the engine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from strata_nb.faults.defect import Defect
from strata_nb.parts import Part

AnyPart = TypeVar("AnyPart", bound=Part[Any, Any])


@dataclass(frozen=True, kw_only=True)
class Fault(Defect):
    """One defect of one part; `model.engine(fault=...)` takes its name.

    Attributes:
        variant: makes the faulty part from the sound one.
        shared: whether engines of one model affect each other under it.
    """

    planted_by = "model.engine(fault=...)"

    variant: Callable[[Any], Part[Any, Any]]
    shared: bool = False
    families: tuple[str, ...] = ("reject", "chain")
    context: str | None = "below"

    def vary(self, part: AnyPart, /) -> AnyPart:
        """The faulty variant, if `part` is of this kind; else `part` itself."""
        if part.name != self.part:
            return part
        return cast(AnyPart, self.variant(part))
