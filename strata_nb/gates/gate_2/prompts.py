"""A prompt taken in by headless windows of any size, and row by row."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from strata_nb.engine import Engine
from strata_nb.gates.judge.observed import LayerSeen, Observed, RowSeen, see
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.travel import Way, travel
from strata_nb.models.qwen4_exp import NOTHING, Imposed
from strata_nb.state import Leaves
from strata_nb.window import Window

Rows = dict[int, RowSeen]

_NO_LOGITS = np.zeros(0)


def chunked(rig: Rig, ids: Sequence[int], size: int, after: Sequence[int]) -> Way:
    """The engine in question after `ids` in windows of `size`, and the rows `after`."""
    engine = rig.subject([])
    start = engine.leaves()
    rows: Rows = {}
    if rig.exact:
        engine.prefill(ids, chunk=size)
    else:
        for at in range(0, len(ids), size):
            rows |= _headless(engine, ids[at : at + size])
    return _onward(engine, rows, after, rig, start=start)


def row_by_row(
    rig: Rig,
    ids: Sequence[int],
    after: Sequence[int],
    imposed: Imposed,
    *,
    shorter: Sequence[int],
) -> Way:
    """A sound engine after `ids`, a row a window, and the rows `after` in one.

    Args:
        rig: the model.
        ids: the prompt.
        after: right rows that follow.
        imposed: decisions in the place of its own.
        shorter: lengths of prompts that begin like this one and are asked for, too;
            the engine goes on from the longest of them.
    """
    if imposed is NOTHING:
        engine, rows = _serially(rig, ids, shorter)
    else:
        engine, rows = rig.reference([], imposed=imposed), {}
        rows |= _fed(engine, ids, rig)
    return _onward(engine, rows, after, rig, start={})


def _serially(
    rig: Rig, ids: Sequence[int], shorter: Sequence[int]
) -> tuple[Engine, Rows]:
    def go() -> tuple[Engine, Rows]:
        engine, rows = rig.reference([]), Rows()
        if shorter:
            engine, rows = _serially(rig, ids[: shorter[-1]], shorter[:-1])
        return engine, rows | _fed(engine, ids[engine.position :], rig)

    engine, rows = rig.known(f"prompt of {len(ids)}", go)
    return engine.fork(), dict(rows)


def _fed(engine: Engine, ids: Sequence[int], rig: Rig) -> Rows:
    """One row a window; headless rows have no logits, so these give theirs away."""
    rows: Rows = {}
    for token in ids:
        rows |= see(engine, [token], keep=1, decisions=not rig.exact)
    if rig.exact:
        return {}
    return {
        cell: replace(row, prediction=0, logits=_NO_LOGITS)
        for cell, row in rows.items()
    }


def _headless(engine: Engine, ids: Sequence[int]) -> Rows:
    """One window of a prompt, as `prefill` makes it, and what its layers decided."""
    window = engine.run(ids, head=False)
    rows = {window.start + i: _row(window, i) for i in range(window.T)}
    engine.finish(window)
    engine.commit(window)
    return rows


def _row(window: Window, row: int) -> RowSeen:
    seen = []
    for made in window.layers:
        arrays = (made.router_logits, made.blocks, made.block_scores)
        rest = (None if a is None else a[row] for a in arrays)
        seen.append(LayerSeen(made.expert_ids[row], *rest))
    cell, token = window.start + row, window.inputs[row]
    return RowSeen(cell, token, 0, _NO_LOGITS, tuple(seen))


def _onward(
    engine: Engine, rows: Rows, after: Sequence[int], rig: Rig, *, start: Leaves
) -> Way:
    way = travel(engine, (), after, rig=rig)
    commit = replace(way.commit, rows=rows)
    last = Observed(way.after.position, way.after.leaves, {**rows, **way.after.rows})
    return Way(start, commit, last)
