"""Decisions imposed from outside: which experts and blocks the row of a cell uses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from strata_nb.policies.routing import Chosen

Ids = npt.NDArray[np.integer]
Cells = npt.NDArray[np.integer]
Place = tuple[int, int]
"""Layer and absolute cell."""


@dataclass(frozen=True)
class Imposed:
    """What replaces the model's own choice; all other rows choose for themselves.

    Attributes:
        experts: expert numbers by rank, [K] each; their weights stay the row's own. -1
            behind them, where a routing leaves places unused, as in a record.
        blocks: block numbers, [K_b] each, -1 where a row has fewer.
        resident: experts that were ready in a slot when a window began, by layer and
            the cell of its row 0; a routing sees these in place of the slots.
    """

    experts: Mapping[Place, Ids] = field(default_factory=dict)
    blocks: Mapping[Place, Ids] = field(default_factory=dict)
    resident: Mapping[Place, Ids] = field(default_factory=dict)

    def experts_of(
        self, layer: int, cells: Cells, chosen: Chosen, *, experts: int
    ) -> Chosen:
        """`chosen`, with the imposed rows in their places.

        Raises:
            ValueError: an imposed row is not K distinct numbers below `experts`; or,
                where `chosen` has unused places, fewer and -1 behind them.
        """
        count, some_unused = chosen.ids.shape[1], chosen.used is not None

        def check(ids: Ids, cell: int) -> Ids:
            real = ids[ids >= 0] if some_unused and ids.shape == (count,) else ids
            place = f"layer {layer}, cell {cell}"
            _check(real, place, len(real) if some_unused else count, experts)
            return ids

        if not some_unused:
            ids = _replaced(chosen.ids, self.experts, layer, cells, check)
            return chosen if ids is chosen.ids else replace(chosen, ids=ids)
        recorded = mx.array(chosen.recorded())
        ids = _replaced(recorded, self.experts, layer, cells, check)
        if ids is recorded:
            return chosen
        return replace(Chosen.of_record(np.array(ids)), keep_mass=chosen.keep_mass)

    def residents_of(
        self,
        layer: int,
        start: int,
        resident: npt.NDArray[np.bool_] | None,
        *,
        experts: int,
    ) -> npt.NDArray[np.bool_] | None:
        """`resident`, bool [E], or what is imposed on the window from `start` on.

        Raises:
            ValueError: what is imposed is no distinct numbers below `experts`.
        """
        if (layer, start) not in self.resident:
            return resident
        ids = np.asarray(self.resident[layer, start])
        _check(ids, f"layer {layer}, cell {start}", ids.size, experts)
        found = np.zeros(experts, bool)
        found[ids] = True
        return found

    def blocks_of(
        self, layer: int, cells: Cells, chosen: mx.array, complete: Ids
    ) -> mx.array:
        """`chosen` [T, K_b], ascending, with the imposed rows in their places.

        Raises:
            ValueError: an imposed row is not K_b distinct blocks that are complete.
        """
        limits = dict(zip((int(c) for c in cells), complete, strict=True))

        def check(ids: Ids, cell: int) -> Ids:
            real = ids[ids >= 0] if ids.ndim == 1 else ids
            place, limit = f"layer {layer}, cell {cell}", int(limits[cell])
            _check(real, place, min(chosen.shape[1], limit), limit)
            # A number past every block is what the attention skips.
            past = np.iinfo(np.int32).max
            padded = np.full(chosen.shape[1], past, dtype=np.int32)
            padded[: len(real)] = real
            return padded

        found = _replaced(chosen, self.blocks, layer, cells, check)
        return found if found is chosen else mx.sort(found, axis=-1)


NOTHING = Imposed()


def _check(ids: Ids, place: str, count: int, limit: int) -> None:
    """Refuse what the model could not have chosen."""
    whole = np.issubdtype(ids.dtype, np.integer)
    fine = whole and ids.shape == (count,) and len({*ids.tolist()}) == count
    if not fine or (count and not 0 <= ids.min() <= ids.max() < limit):
        raise ValueError(
            f"{ids.tolist()} is imposed on {place}, wanted {count} different whole "
            f"numbers from 0 to {limit - 1}, as the model chooses"
        )


def _replaced(
    chosen: mx.array,
    rows: Mapping[Place, Ids],
    layer: int,
    cells: Cells,
    check: Callable[[Ids, int], Ids],
) -> mx.array:
    there = [i for i, cell in enumerate(cells) if (layer, int(cell)) in rows]
    if not there:
        return chosen
    ids = np.array(chosen)
    for i in there:
        cell = int(cells[i])
        ids[i] = check(np.asarray(rows[layer, cell]), cell)
    return mx.array(ids)
