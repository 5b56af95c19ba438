"""Experts that stay in their slots because recent windows used them most."""

import itertools
import math
import operator
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, get_args

from strata_nb.policies.residency import Held
from strata_nb.trace import WindowRecord

Recent: TypeAlias = Literal["windows", "decay"]
Heat: TypeAlias = Mapping[int, Mapping[int, float]]
"""How much each expert of a layer was used: by layer, then by expert."""


class HotTemporal:
    """The experts of each layer that recent windows used most (HotTemporal).

    After SpecMoE (arXiv 2604.10152), where these are pinned, and the model drafts for
    itself with them alone. A residency too: they lose their slots after all others.
    The paper does not say how recent; so there are two ways. Rows of prompts and of
    rejected drafts count like any, for their experts were asked for as well. What is
    pinned decides what is read and what is drafted, never the text.

    Args:
        count: experts of a layer, N, 1 or more.
        by: "windows": the uses in the last `windows` windows, added up; "decay": those
            of all windows, each weighing `decay` times as much as the next.
        windows: that count, 1 or more.
        decay: 0 to below 1.

    Raises:
        ValueError: a number out of range, or `by` is not one of these.
    """

    def __init__(
        self,
        count: int,
        *,
        by: Recent = "windows",
        windows: int = 1,
        decay: float = 0.5,
    ) -> None:
        for name, value in (("count", count), ("windows", windows)):
            if isinstance(value, bool) or operator.index(value) < 1:
                raise ValueError(f"`{name}` is {value}, wanted 1 or more")
        if by not in get_args(Recent):
            raise ValueError(f"`by` is {by!r}, wanted 'windows' or 'decay'")
        if not 0 <= decay < 1:
            raise ValueError(f"`decay` is {decay}, wanted 0 to below 1")
        self.count, self.by, self.decay = count, by, decay
        self._last: deque[Heat] = deque(maxlen=windows)
        self._heat: Heat = {}
        self._pinned: Mapping[int, tuple[int, ...]] = {}

    @property
    def name(self) -> str:
        """For records and reports."""
        recent = (
            f"last {self._last.maxlen}"
            if self.by == "windows"
            else f"decay {self.decay:g}"
        )
        return f"hot({self.count}, {recent})"

    def learn(self, record: WindowRecord) -> None:
        """Count what a window used, once for each row that used it."""
        used = {one.layer: _uses(one.expert_ids.ravel()) for one in record.layers}
        if self.by == "windows":
            self._last.append(used)
            heat = _summed(self._last)
        else:
            faded = {
                layer: {expert: self.decay * uses for expert, uses in found.items()}
                for layer, found in self._heat.items()
            }
            heat = _summed((faded, used))
        # One assignment each: threads that look for a slot read them meanwhile.
        self._heat = heat
        self._pinned = {layer: _hottest(heat[layer], self.count) for layer in heat}

    def pinned(self, layer: int) -> tuple[int, ...]:
        """The experts of a layer, the hottest first; of equals the lowest number.

        Where fewer have been used, the lowest of the others complete them.
        """
        return self._pinned.get(layer) or tuple(range(self.count))

    def worth(self, held: Held, *, window: int) -> tuple[float, ...]:
        """Whether it is pinned, then when it was last wanted or read ahead."""
        return (held.expert in self.pinned(held.layer), held.touched)


def _uses(ids: Iterable[int]) -> dict[int, float]:
    counted = Counter(int(expert) for expert in ids if expert >= 0)
    return {expert: float(uses) for expert, uses in counted.items()}


def _summed(heats: Iterable[Heat]) -> Heat:
    found: dict[int, dict[int, float]] = {}
    for heat in heats:
        for layer, used in heat.items():
            into = found.setdefault(layer, {})
            for expert, uses in used.items():
                into[expert] = math.fsum((into.get(expert, 0.0), uses))
    return found


def _hottest(heat: Mapping[int, float], count: int) -> tuple[int, ...]:
    ranked = sorted(heat, key=lambda expert: (-heat[expert], expert))
    others = (expert for expert in itertools.count() if expert not in heat)
    return tuple(itertools.islice(itertools.chain(ranked, others), count))
