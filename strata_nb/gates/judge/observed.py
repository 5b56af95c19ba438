"""What a gate sees of an engine: its rows, their decisions, its committed state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strata_nb.engine import Engine
from strata_nb.trace import LayerDecisions, Leaf
from strata_nb.window import Window

Ids = npt.NDArray[np.integer[Any]]
Scores = npt.NDArray[np.floating[Any]]


class LayerSeen(NamedTuple):
    """What one layer decided for one row.

    Attributes:
        experts: expert numbers by rank, [K].
        router_logits: [E], None where the backend keeps none.
        blocks: attended blocks, [K_b], padded with -1; None where every complete block
            is attended, and in a layer without blocks.
        block_scores: [n_blocks], None as `blocks` or where not kept.
    """

    experts: Ids
    router_logits: Scores | None = None
    blocks: Ids | None = None
    block_scores: Scores | None = None


@dataclass(frozen=True, eq=False)
class RowSeen:
    """One kept row of a window.

    Attributes:
        cell: absolute cell.
        token: the input.
        prediction: the next token.
        logits: float64 [V].
        layers: what each layer decided; empty where nobody looked.
    """

    cell: int
    token: int
    prediction: int
    logits: npt.NDArray[np.float64]
    layers: tuple[LayerSeen, ...] = ()


@dataclass(frozen=True, eq=False)
class Observed:
    """An engine after some rows.

    Attributes:
        position: committed cells.
        leaves: live cells of every part.
        rows: kept rows by cell; as many of them as are to be compared.
    """

    position: int
    leaves: Mapping[Leaf, npt.NDArray[Any]]
    rows: Mapping[int, RowSeen]

    @classmethod
    def of(cls, engine: Engine, rows: Mapping[int, RowSeen]) -> "Observed":
        """The committed state of `engine`, which made `rows`."""
        return cls(engine.position, engine.leaves(), rows)


def see(
    engine: Engine,
    ids: Sequence[int],
    *,
    keep: int,
    force: bool = True,
    stop_ids: Sequence[int] = (),
    decisions: bool = True,
) -> dict[int, RowSeen]:
    """Run `ids` as one window, finish it, and commit `keep` rows of it.

    Args:
        engine: it moves on by `keep` cells; when anything is refused the window is
            aborted and the engine is as before.
        ids: the root and its drafts.
        keep: rows to keep.
        force: allow more than the natural keep.
        stop_ids: tokens that end the text.
        decisions: look at what the layers decided; without it `layers` stay empty.

    Returns:
        The kept rows by absolute cell.

    Raises:
        NotFiniteError: a logit is NaN or infinite.
        KeepError: `keep` is outside what is allowed.
    """
    window = engine.run(ids)
    try:
        engine.finish(window, stop_ids=stop_ids)
        rows = _rows(window, keep, decisions=decisions)
        engine.commit(window, keep=keep, force=force)
    except BaseException:
        if engine.window is window:
            engine.abort(window)
        raise
    return rows


def _rows(window: Window, keep: int, *, decisions: bool) -> dict[int, RowSeen]:
    assert window.result is not None
    logits, predictions = window.logits, window.result.predictions
    layers = window.layers if decisions else ()
    return {
        window.start + i: RowSeen(
            cell=window.start + i,
            token=window.inputs[i],
            prediction=predictions[i],
            logits=logits[i],
            layers=tuple(_layer(decided, i) for decided in layers),
        )
        for i in range(min(keep, window.T))
    }


def _layer(decided: LayerDecisions, row: int) -> LayerSeen:
    def of(array: npt.NDArray[Any] | None) -> Any:
        return None if array is None else array[row]

    return LayerSeen(
        decided.expert_ids[row],
        of(decided.router_logits),
        of(decided.blocks),
        of(decided.block_scores),
    )
