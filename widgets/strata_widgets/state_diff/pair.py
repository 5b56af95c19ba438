"""Two states, compared again and again: of engines, of sessions, or bare leaves."""

from collections.abc import Mapping
from typing import Any

from strata_nb import Engine, Session
from strata_nb.state import Leaves, differences
from strata_widgets.state_diff.compared import Compared, compared


class Pair:
    """Two engines, two sessions, or two dicts of leaves.

    Args:
        first: one of them; its position names the cells.
        second: another of the same kind.
        position: committed cells, for dicts of leaves alone.
        ratio: cells a block, for dicts of leaves alone.
        atol: largest absolute difference that counts as none.

    Raises:
        TypeError: they are none of these, or two kinds; or `position` and `ratio` are
            missing, or given where they are known.
        ValueError: `atol` is below 0.
    """

    def __init__(
        self,
        first: Any,
        second: Any,
        *,
        position: int | None,
        ratio: int | None,
        atol: float,
    ) -> None:
        kinds = _kind(first), _kind(second)
        if "" in kinds or kinds[0] != kinds[1]:
            raise TypeError(
                "two engines are wanted, or two sessions, or two dicts as `leaves()` "
                f"gives them; got {type(first).__name__} and {type(second).__name__}"
            )
        bare = kinds[0] == "leaves"
        if bare and (position is None or ratio is None):
            raise TypeError(
                "leaves do not tell their cells: `position=` and `ratio=` are wanted, "
                "such as position=engine.position, ratio=4"
            )
        if not bare and (position is not None or ratio is not None):
            raise TypeError(
                f"`position` and `ratio` are for bare leaves, got them with "
                f"{type(first).__name__}s, which know theirs; leave them out"
            )
        if not atol >= 0:
            raise ValueError(f"`atol` is {atol}, wanted 0 or more; 0 compares exactly")
        self._first, self._second = first, second
        self._kind, self.atol = kinds[0], float(atol)
        self._position, self._ratio = position or 0, ratio or 1

    def look(self) -> Compared:
        """Compare them as they are now."""
        one, other = _leaves(self._first), _leaves(self._second)
        positions = self._positions()
        found = differences(
            one,
            other,
            position=positions[0],
            ratio=self._cells_a_block(),
            atol=self.atol,
        )
        return compared(one, other, found, positions=positions, atol=self.atol)

    def _positions(self) -> tuple[int, int]:
        if self._kind == "leaves":
            return self._position, self._position
        return self._first.position, self._second.position

    def _cells_a_block(self) -> int:
        if self._kind == "leaves":
            return self._ratio
        of = self._first.backend if self._kind == "engine" else self._first.model
        return int(of.config.indexer_compress_ratio)


def _kind(source: Any) -> str:
    if isinstance(source, Engine):
        return "engine"
    if isinstance(source, Session):
        return "session"
    return "leaves" if isinstance(source, Mapping) else ""


def _leaves(source: Any) -> Leaves:
    found: Leaves = source if isinstance(source, Mapping) else source.leaves()
    return found
