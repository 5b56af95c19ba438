"""How large a layer is: as the model says, as the caller says, or as far as seen."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from strata_nb import WindowRecord
from strata_widgets.layers import room

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Size:
    """Of the layers that a trace is of.

    Attributes:
        known_experts: E as somebody said; None: inferred.
        known_chosen: K, likewise.
        known_layers: of the model, those without experts included.
        origin: who said so.
        top: the largest index of an expert seen, -1 before the first.
        widest: most experts that a row has had.
        deepest: the largest layer seen, -1 before the first.
    """

    known_experts: int | None = None
    known_chosen: int | None = None
    known_layers: int | None = None
    origin: str = ""
    top: int = -1
    widest: int = 0
    deepest: int = -1

    @property
    def experts(self) -> int:
        """E, or as many as seen."""
        return self.top + 1 if self.known_experts is None else self.known_experts

    @property
    def chosen(self) -> int:
        """K, or as many as seen."""
        return self.widest if self.known_chosen is None else self.known_chosen

    @property
    def layers(self) -> int:
        """Of the model, or as many as seen."""
        return max(self.deepest + 1, self.known_layers or 0)

    @property
    def axis(self) -> int:
        """Columns to leave room for: a number that is only seen may still grow."""
        if self.known_experts is not None:
            return max(1, self.known_experts)
        return room(self.top + 1)

    @property
    def words(self) -> str:
        """E and K, and where they come from."""
        if self.known_experts is None and self.top < 0:
            return "the size of a layer is not known"
        both = (self.known_experts, self.known_chosen)
        said = self.origin
        if None in both:
            part = "" if both == (None, None) else f"{said}, the other "
            said = part + "inferred from ids seen"
        return f"E = {self.experts}, K = {self.chosen} ({said})"

    def union(self, formula: Callable[[int, int, int], Number], rows: int) -> Number:
        """`formula` of E, K and `rows`; 0 before anything is known."""
        if not self.experts:
            return formula(1, 0, 0)
        return formula(self.experts, min(self.chosen, self.experts), rows)

    def cleared(self) -> "Size":
        """What was said, without what was seen."""
        return replace(self, top=-1, widest=0, deepest=-1)

    def seen(self, records: Sequence[WindowRecord], *, first: int) -> "Size":
        """With windows `first` … taken in.

        Raises:
            ValueError: one uses an expert that the layer has not.
        """
        top, widest, deepest = self.top, self.widest, self.deepest
        for window, record in enumerate(records, first):
            for layer in record.layers:
                highest = int(layer.expert_ids.max(initial=-1))
                if self.known_experts is not None and highest >= self.known_experts:
                    raise ValueError(
                        f"`experts` is {self.known_experts}, but window {window} uses "
                        f"expert {highest} in layer {layer.layer}; give the number of "
                        "experts of a layer, or the model of this trace"
                    )
                top = max(top, highest)
                widest = max(widest, layer.expert_ids.shape[1])
                deepest = max(deepest, layer.layer)
        return replace(self, top=top, widest=widest, deepest=deepest)


def model_of(source: Any) -> Any:
    """The model of an engine or a session; None of anything else."""
    return getattr(source, "model", None)


def sized(model: Any, *, experts: int | None, chosen: int | None) -> Size:
    """What is said of a layer's size, by the caller first, then by the model.

    Raises:
        ValueError: a number is below 1, or K above E.
        TypeError: a number is not whole.
    """
    config = getattr(model, "config", None)
    given = experts is not None or chosen is not None
    size = Size(
        _or(experts, getattr(config, "num_experts", None)),
        _or(chosen, getattr(config, "num_experts_per_tok", None)),
        getattr(config, "num_hidden_layers", None),
        "given" if given else "of the model",
    )
    for name, value in (("experts", size.known_experts), ("chosen", size.known_chosen)):
        if value is not None and operator.index(value) < 1:
            raise ValueError(f"`{name}` is {value}, wanted 1 or more")
    both = None not in (size.known_experts, size.known_chosen)
    if both and size.chosen > size.experts:
        raise ValueError(
            f"`chosen` is {size.chosen}, wanted at most `experts` = {size.experts}; a "
            "row uses an expert once"
        )
    return size


def _or(given: int | None, other: int | None) -> int | None:
    return other if given is None else given
