"""Places in a text that a session can go on from: engines that nobody moves."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from strata_nb.engine import Engine


@dataclass(frozen=True)
class Place:
    """An engine after `cells`; whoever goes on from here takes a fork of it.

    Attributes:
        engine: holds just these cells, and is never advanced.
        cells: the token of each, pads too.
    """

    engine: Engine
    cells: tuple[int, ...]

    def leads_to(self, cells: Sequence[int]) -> bool:
        """Whether `cells` begin with these."""
        return tuple(cells[: len(self.cells)]) == self.cells


class Ring:
    """The newest places, so many and no more; the oldest is dropped.

    Args:
        most: places kept, 0 or more.
    """

    def __init__(self, most: int) -> None:
        self._places: deque[Place] = deque(maxlen=most)

    @property
    def positions(self) -> tuple[int, ...]:
        """Cells of each place, the oldest first."""
        return tuple(len(place.cells) for place in self._places)

    def add(self, place: Place) -> None:
        """Keep `place`; the same text again only moves to the newest end."""
        others = [p for p in self._places if p.cells != place.cells]
        self._places.clear()
        self._places.extend([*others, place])

    def copy(self) -> "Ring":
        """The same places."""
        ring = Ring(self._places.maxlen or 0)
        ring._places.extend(self._places)
        return ring

    def longest(self, cells: Sequence[int]) -> Place | None:
        """The place from which least is left to do to hold `cells`."""
        found = [place for place in self._places if place.leads_to(cells)]
        return max(found, key=lambda place: len(place.cells), default=None)
