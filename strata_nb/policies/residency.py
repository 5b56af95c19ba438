"""Which expert gives its slot to another."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Held(NamedTuple):
    """What is known of an expert that may lose its slot.

    Times are counted in the asks of its layer, windows in the windows of the model, so
    that a run repeats whatever the disk does.
    """

    expert: int
    arrived: int
    """When its read was asked for."""
    touched: int
    """When it was last wanted, or read ahead."""
    uses: int
    """How often it has been wanted since the model was loaded."""
    window: int
    """The window in which it was last wanted, or read ahead."""
    layer: int = 0
    """Whose slots it is in, 0-based."""


class Residency(Protocol):
    """Says what an expert in a slot is worth; exact, whatever it says.

    It is never asked about experts that are wanted, on their way or being computed, so
    it cannot throw them out.
    """

    @property
    def name(self) -> str:
        """For records and reports."""

    def worth(self, held: Held, *, window: int) -> tuple[float, ...]:
        """The least goes first; of equals, the lowest expert.

        Args:
            held: an expert that may go.
            window: the one that is being computed.
        """


@dataclass(frozen=True)
class Lru:
    """The one that was wanted longest ago goes first."""

    name: str = "lru"

    def worth(self, held: Held, *, window: int) -> tuple[float, ...]:
        """When it was last wanted, or read ahead."""
        return (held.touched,)


@dataclass(frozen=True)
class Lfu:
    """The one wanted least often goes first; what has gone is not forgotten."""

    name: str = "lfu"

    def worth(self, held: Held, *, window: int) -> tuple[float, ...]:
        """How often it has been wanted."""
        return (held.uses,)


@dataclass(frozen=True)
class LeastStale:
    """What no row of this window wanted goes first, first in, first out.

    After SpecMD (arXiv 2602.03921): a pass visits every layer once, so what an earlier
    pass left behind is stale, and being recent says little. There one store serves all
    layers; with slots of its own a layer needs no order between layers, and what is
    left is stale before current, and the order of arrival in each.
    """

    name: str = "least-stale"

    def worth(self, held: Held, *, window: int) -> tuple[float, ...]:
        """Whether it belongs to this window, then when it arrived."""
        return (held.window >= window, held.arrived)
