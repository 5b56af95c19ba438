"""The rounding floor: how far the engine lies from float64, fault-free."""

import math
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from strata_nb.engine import Engine
from strata_nb.model import Model
from strata_nb.oracle import OracleBackend
from strata_nb.packs import Checkpoint, ModelConfig
from strata_nb.trace import LayerDecisions, Leaf
from strata_nb.window import Window

ENGINES = 2
"""Two engines are compared, and each may be off by the measured error."""

_WINDOWS = 2  # in a row from each start, to see more rows of one prompt
_DIGITS = 3  # of a floor; what lies behind them may depend on the CPU's threads

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Floor:
    """Largest differences that rounding alone made between two engines.

    Attributes:
        logits: of next-token logits, absolute.
        experts: of router logits, absolute.
        blocks: of block scores, absolute.
        parts: of each part, relative to its root mean square.
        rows: rows that were measured.
    """

    logits: float
    experts: float
    blocks: float
    parts: Mapping[str, float] = field(default_factory=dict)
    rows: int = 0


def measure(
    model: Model,
    *,
    seed: int = 0,
    rows: int = 8,
    starts: Sequence[int] | None = None,
) -> Floor | None:
    """Measured against the oracle; None where it cannot hold the model.

    Both run the same windows of random tokens from the same state, the engine's own. A
    row is left out from the first choice on that they make differently, and so are the
    rows after it. The floor is twice the largest error: each of two engines may be off
    by one. The same numbers come out in every run on one device.

    Args:
        model: a loaded model; its checkpoint is read a second time, into float64.
        seed: of the tokens.
        rows: rows a window, 1 to 8.
        starts: cells at which windows begin; below, at and above the number of cells
            from which attention is sparse unless given.

    Raises:
        ValueError: `rows` is outside 1 to 8, or a start leaves no room for its windows.
    """
    if model.kind == "oracle" or not fits(model.checkpoint):
        return None
    if not 1 <= rows <= 8:
        raise ValueError(f"`rows` is {rows}, wanted 1 to 8, as many as a window has")
    config = model.config
    where = _starts(config, rows) if starts is None else sorted({*starts})
    length = max(where) + _WINDOWS * rows
    if min(where) < 0 or length > config.max_position_embeddings:
        last = config.max_position_embeddings - _WINDOWS * rows
        raise ValueError(
            f"`starts` are {list(where)}, wanted cells from 0 to {last}: "
            f"{_WINDOWS} windows of {rows} rows follow each"
        )
    rng = np.random.default_rng(seed)
    ids = [int(i) for i in rng.integers(0, config.vocab_size, length)]
    oracle, errors, engine = OracleBackend(model.checkpoint), _Errors(), model.engine()
    for start in where:
        if engine.position > start:
            engine = model.engine()
        engine.prefill(ids[engine.position : start])
        for at in range(start, start + _WINDOWS * rows, rows):
            errors.window(engine, oracle, ids[at : at + rows])
    return errors.floor()


def fits(checkpoint: Checkpoint, *, memory: int | None = None) -> bool:
    """Whether the oracle's float64 weights take at most half of the memory.

    Args:
        checkpoint: whose sizes are summed; no weight is read.
        memory: bytes; the machine's own when not given.
    """
    if memory is None:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # Tables of n-grams stay in the file, and the oracle has no draft head.
    held = (
        name
        for name in checkpoint.names
        if not name.startswith("mtp.") and ".ngram_embedding." not in name
    )
    numbers = sum(math.prod(checkpoint.shape(name)) for name in held)
    return 2 * np.dtype(np.float64).itemsize * numbers <= memory


def _starts(config: ModelConfig, rows: int) -> list[int]:
    """Below, at and above the threshold, as far as the context reaches."""
    ratio = config.indexer_compress_ratio
    threshold = config.indexer_budget + ratio - 1
    wanted = (
        threshold - (_WINDOWS + 1) * rows,
        threshold - rows // 2,
        threshold + 3 * rows,
    )
    last = config.max_position_embeddings - _WINDOWS * rows
    return sorted({min(max(0, start), last) for start in wanted})


class _Errors:
    """Largest differences so far."""

    def __init__(self) -> None:
        self.rows = 0
        self.logits = self.experts = self.blocks = 0.0
        self.parts: defaultdict[str, float] = defaultdict(float)

    def window(self, engine: Engine, oracle: OracleBackend, ids: Sequence[int]) -> None:
        """Run one window on both from the engine's state, and commit all of it."""
        state = oracle.from_leaves(engine.leaves(), position=engine.position)
        window = engine.run(ids)
        engine.finish(window, stop_ids=())
        wanted = oracle.run(state, ids, head=True)
        engine.commit(window, keep=window.T, force=True)
        sound = self._layers(window, wanted.layers())
        after = oracle.leaves(oracle.commit(state, wanted.pending, window.T))
        self._leaves(engine.leaves(), after, sound, window.T)
        whole = sound[-1]
        assert wanted.logits is not None
        self.rows += whole
        self.logits = max(
            self.logits, _largest(window.logits[:whole], wanted.logits[:whole])
        )

    def _layers(self, window: Window, wanted: Sequence[LayerDecisions]) -> list[int]:
        """Rows that no flipped choice has reached: below each layer and above the last.

        A later row reads an earlier one, so a flip ends all rows from its own on.
        """
        rows, sound = window.T, []
        for ours, theirs in zip(window.layers, wanted, strict=True):
            sound.append(rows)
            if ours.blocks is not None and theirs.blocks is not None:
                self.blocks = max(self.blocks, _scores(ours, theirs, rows))
                rows = _agreeing(ours.blocks, theirs.blocks, rows)
            assert ours.router_logits is not None
            assert theirs.router_logits is not None
            error = _largest(ours.router_logits[:rows], theirs.router_logits[:rows])
            self.experts = max(self.experts, error)
            rows = _agreeing(ours.expert_ids, theirs.expert_ids, rows)
        return [*sound, rows]

    def _leaves(
        self,
        ours: Mapping[Leaf, Array],
        theirs: Mapping[Leaf, Array],
        sound: Sequence[int],
        rows: int,
    ) -> None:
        """State of the layers below which every row was sound."""
        for leaf, wanted in theirs.items():
            if leaf.layer is not None and sound[leaf.layer] < rows:
                continue
            scale = rms(wanted)
            if scale > 0:
                error = _largest(ours[leaf], wanted) / scale
                self.parts[leaf.part] = max(self.parts[leaf.part], error)

    def floor(self) -> Floor:
        """Twice the errors."""
        return Floor(
            logits=_doubled(self.logits),
            experts=_doubled(self.experts),
            blocks=_doubled(self.blocks),
            parts={part: _doubled(e) for part, e in sorted(self.parts.items())},
            rows=self.rows,
        )


def rms(values: Array) -> float:
    """Root mean square; 0 of nothing."""
    wide = values.astype(np.float64)
    return float(np.sqrt(np.mean(wide * wide))) if wide.size else 0.0


def _largest(ours: Array, theirs: Array) -> float:
    gaps = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    return float(gaps.max(initial=0.0))


def _scores(ours: LayerDecisions, theirs: LayerDecisions, rows: int) -> float:
    """Of the blocks that a row may see; the others have no score, -inf."""
    assert ours.block_scores is not None
    assert theirs.block_scores is not None
    one, other = ours.block_scores[:rows], theirs.block_scores[:rows]
    seen = np.isfinite(other)
    return _largest(one[seen], other[seen])


def _agreeing(ours: Array, theirs: Array, rows: int) -> int:
    """Rows before the first that chose another set."""
    for row in range(rows):
        if {*ours[row].tolist()} != {*theirs[row].tolist()}:
            return row
    return rows


def _doubled(error: float) -> float:
    """The floor of an error, rounded up to a few digits."""
    if error == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(ENGINES * error)) - _DIGITS + 1)
    return float(f"{math.ceil(ENGINES * error / unit) * unit:.{_DIGITS}g}")
