"""Prefetch up to the layer whose reads can still be hidden: SP-MoE's cut-off."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

from strata_nb.policies.prefetch import AHEAD, Now, Prefetch, Task

# A quotient that is whole on paper may lie this little below it in floats.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class CutOff:
    """Another prefetch, kept to the first layers; later ones read on demand.

    After SP-MoE (arXiv 2510.10302): reads that would not end in time, or would push out
    what is still to be used, are not begun. There the experts are guessed while a
    smaller twin of the model drafts; here by whatever `within` goes by.

    Attributes:
        layers: the first ones, that are read ahead: see `cutoff_layers`. Nothing comes
            before layer 0, so that 1 reads nothing ahead.
        within: guesses the experts.
    """

    layers: int
    within: Prefetch = AHEAD

    def __post_init__(self) -> None:
        if operator.index(self.layers) < 0:
            raise ValueError(f"`layers` is {self.layers}, wanted 0 or more")

    @property
    def name(self) -> str:
        """For records and reports."""
        return f"{self.within.name}, cut off after {self.layers}"

    def asks(self, layer: int, *, layers: int) -> Sequence[int]:
        """Those that `within` asks, before the cut-off."""
        later = self.within.asks(layer, layers=layers)
        return [number for number in later if number < self.layers]

    def tasks(self, now: Now) -> Sequence[Task]:
        """Those of `within`, before the cut-off."""
        return [task for task in self.within.tasks(now) if task[0] < self.layers]


def load_ms(expert_bytes: int, *, mb_per_s: float, overhead_ms: float = 0.0) -> float:
    """Milliseconds that one expert takes: an overhead, then its bytes.

    Args:
        expert_bytes: of one expert, M_e.
        mb_per_s: millions of bytes a second.
        overhead_ms: before the first byte.

    Raises:
        ValueError: a number is out of range.
    """
    _above("mb_per_s", mb_per_s)
    _at_least_0("expert_bytes", expert_bytes)
    _at_least_0("overhead_ms", overhead_ms)
    return overhead_ms + expert_bytes / (mb_per_s * 1e3)


def cutoff_layers(
    *,
    hidden_ms: float,
    expert_ms: float,
    per_layer: float,
    layers: int,
    free_bytes: int | None = None,
    expert_bytes: int | None = None,
) -> int:
    """SP-MoE's cut-off: how many layers can be read ahead unseen.

    The largest L_c with L_c k t_io <= T and L_c k M_e <= M_free. In the paper T is the
    time of drafting; here whatever passes before the experts are used.

    Args:
        hidden_ms: time in which reads are not waited for, T.
        expert_ms: time to read one expert, t_io; see `load_ms`.
        per_layer: experts read ahead for a layer, k. Of several rows, those that are
            new: the union less what is resident, so it need not be whole.
        layers: of the model, the most there can be.
        free_bytes: memory that they may take, M_free; None: as much as they need.
        expert_bytes: of one expert, M_e; goes with `free_bytes`.

    Returns:
        0 to `layers`.

    Raises:
        ValueError: a number is out of range, or one of the two about memory is missing.
    """
    if (free_bytes is None) != (expert_bytes is None):
        raise ValueError(
            "`free_bytes` and `expert_bytes` go together, got one of them; give both "
            "or none"
        )
    _at_least_0("hidden_ms", hidden_ms)
    _above("expert_ms", expert_ms)
    _above("per_layer", per_layer)
    _at_least_0("layers", layers)
    found = [_whole(hidden_ms / (per_layer * expert_ms)), operator.index(layers)]
    if free_bytes is not None and expert_bytes is not None:
        _at_least_0("free_bytes", free_bytes)
        _above("expert_bytes", expert_bytes)
        found.append(_whole(free_bytes / (per_layer * expert_bytes)))
    return min(found)


def _whole(quotient: float) -> int:
    return math.floor(quotient * (1 + _ROUNDING))


def _above(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"`{name}` is {value}, wanted more than 0")


def _at_least_0(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise ValueError(f"`{name}` is {value}, wanted 0 or more")
