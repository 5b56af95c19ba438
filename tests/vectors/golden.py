"""Golden vectors: what the outside reference answered, and how an answer is compared.

Knows neither PyTorch nor MLX: the test suite reads the committed vectors with it, and
the parity script hands it fresh answers of the reference, the engine and the oracle.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from strata_nb.trace import LayerDecisions

# A selection is a near-tie below this gap: float32 rounding alone can turn it.
NEAR_TIE = 1e-4
# Worst logit error allowed, by the size of the model.
RANDOM_BOUND = 3e-5
BUNDLED_BOUND = 1e-4

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Answer:
    """Logits and selections of one model on one sequence.

    Attributes:
        logits: [T, V].
        experts: ids per layer and row, ascending, [L, T, K].
        blocks: blocks per indexed layer and row, ascending, -1 pads, [Q, T, K_b].
    """

    logits: Floats
    experts: Ints
    blocks: Ints


@dataclass(frozen=True)
class Golden:
    """The reference's answer as stored in one file.

    Attributes:
        ids: the prompt, [T].
        stride: row t holds the columns t mod stride, + stride, + 2 stride, …
        logits: [T, ceil(V / stride)], padded with zeros where a row has fewer.
        experts: as in `Answer`, [L, T, K].
        expert_gaps: router logit of the last chosen less that of the first not
            chosen, [L, T].
        blocks: as in `Answer`, [Q, T, K_b].
        block_gaps: the same for block scores, infinite while every block is chosen.
        indexed: layer number of each indexed layer, [Q].
        weights: fingerprint of the checkpoint that was run.
    """

    ids: Ints
    stride: int
    logits: Floats
    experts: Ints
    expert_gaps: Floats
    blocks: Ints
    block_gaps: Floats
    indexed: Ints
    weights: str

    def save(self, path: Path) -> None:
        """Write one compressed file without pickles; small integers take few bytes."""
        path.parent.mkdir(exist_ok=True)
        np.savez_compressed(
            path,
            ids=self.ids.astype(np.int32),
            stride=np.int32(self.stride),
            logits=self.logits,
            experts=self.experts.astype(np.int16),
            expert_gaps=self.expert_gaps,
            blocks=self.blocks.astype(np.int16),
            block_gaps=self.block_gaps,
            indexed=self.indexed.astype(np.int16),
            weights=np.array(self.weights),
        )

    @classmethod
    def load(cls, path: Path) -> "Golden":
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            raw = {field.name: stored[field.name] for field in fields(cls)}
        for name in ("ids", "experts", "blocks", "indexed"):
            raw[name] = raw[name].astype(np.int64)
        return cls(
            **raw | {"stride": int(raw["stride"]), "weights": str(raw["weights"])}
        )

    def first(self, rows: int) -> "Golden":
        """The answer to a prefix of the prompt, which nothing after it can change."""
        return replace(
            self,
            ids=self.ids[:rows],
            logits=self.logits[:rows],
            experts=self.experts[:, :rows],
            expert_gaps=self.expert_gaps[:, :rows],
            blocks=self.blocks[:, :rows],
            block_gaps=self.block_gaps[:, :rows],
        )


def thin(logits: Floats, stride: int) -> Floats:
    """Every `stride`-th column, starting one further in each row: [T, ceil(V/stride)].

    Each column is seen in some rows, so a wrong row of the head cannot hide.
    """
    rows, columns = logits.shape
    kept = np.zeros((rows, -(-columns // stride)), np.float32)
    for row in range(rows):
        picked = logits[row, row % stride :: stride]
        kept[row, : len(picked)] = picked
    return kept


@dataclass(frozen=True)
class Flip:
    """The first selection that differs from the reference's."""

    row: int
    layer: int
    kind: str  # "blocks" or "experts"
    gap: float

    def __str__(self) -> str:
        return f"{self.kind} of layer {self.layer}, row {self.row}, gap {self.gap:.1e}"


@dataclass(frozen=True)
class Comparison:
    """How far an answer is from the reference's.

    Attributes:
        error: worst logit error over the rows before the first flip.
        worst: worst logit error over all rows, flips or not.
        rows: how many rows stand before the first flip.
        flip: that flip, if any.
    """

    error: float
    worst: float
    rows: int
    flip: Flip | None

    def fault(self, bound: float) -> str | None:
        """What is wrong, or None: errors within `bound`, a flip only at a near-tie.

        An exact tie is not near: the lower index wins it.
        """
        if not self.error <= bound:  # a NaN is wrong too
            return f"logits differ by {self.error:.1e}, more than {bound:.0e}"
        if self.flip is not None and not 0 < self.flip.gap < NEAR_TIE:
            return f"selection differs without a near-tie: {self.flip}"
        return None


def compare(golden: Golden, answer: Answer) -> Comparison:
    """Decisions first, then the logits of the rows before the first that differs."""
    flip = _first_flip(golden, answer)
    rows = len(golden.ids) if flip is None else flip.row
    errors = np.abs(thin(answer.logits, golden.stride) - golden.logits).max(axis=1)
    return Comparison(
        error=float(errors[:rows].max(initial=0.0)),
        worst=float(errors.max()),
        rows=rows,
        flip=flip,
    )


def _first_flip(golden: Golden, answer: Answer) -> Flip | None:
    """In the order of computing: row, then layer, blocks before experts."""
    experts = (golden.experts != answer.experts).any(axis=2)  # [L, T]
    blocks = (golden.blocks != answer.blocks).any(axis=2)  # [Q, T]
    found = [
        Flip(int(row), int(layer), "experts", float(golden.expert_gaps[layer, row]))
        for layer, row in np.argwhere(experts)
    ]
    found += [
        Flip(
            int(row), int(golden.indexed[q]), "blocks", float(golden.block_gaps[q, row])
        )
        for q, row in np.argwhere(blocks)
    ]
    return min(found, key=lambda flip: (flip.row, flip.layer, flip.kind), default=None)


def collect(
    windows: Sequence[tuple[Floats, Sequence[LayerDecisions]]],
    golden: Golden,
    ratio: int,
) -> Answer:
    """Joins the windows of a whole prompt into one answer.

    Args:
        windows: logits [T, V] and the layers' decisions of each window, in order.
        golden: says which layers are indexed and how many blocks a row may choose.
        ratio: cells per block (`indexer_compress_ratio`).
    """
    budget = golden.blocks.shape[2]
    experts: list[list[Ints]] = [[] for _ in golden.experts]
    blocks: list[list[Ints]] = [[] for _ in golden.indexed]
    start = 0
    for logits, layers in windows:
        rows = np.arange(start, start + len(logits))
        start += len(logits)
        for layer, found in zip(layers, experts, strict=True):
            found.append(np.sort(layer.expert_ids, axis=1).astype(np.int64))
        for index, found in zip(golden.indexed, blocks, strict=True):
            found.append(_block_rows(layers[index].blocks, (rows + 1) // ratio, budget))
    return Answer(
        logits=np.concatenate([logits for logits, _ in windows]),
        experts=np.stack([np.concatenate(rows) for rows in experts]),
        blocks=np.stack([np.concatenate(rows) for rows in blocks]),
    )


def _block_rows(
    blocks: NDArray[np.integer] | None, complete: Ints, budget: int
) -> Ints:
    """Ascending block ids, -1 pads, [rows, budget]; without a choice every block.

    Args:
        blocks: what a layer chose in a window, if it chose.
        complete: complete blocks of each row.
        budget: blocks that a row may choose, K_b.
    """
    filled = np.full((len(complete), budget), -1, np.int64)
    for row, count in enumerate(complete):
        if blocks is None:
            # "Every block" past the budget is no answer: the row stays empty, and so
            # differs from the reference's.
            chosen = np.arange(count if count <= budget else 0)
        else:
            chosen = np.sort(blocks[row][blocks[row] >= 0])
        filled[row, : len(chosen)] = chosen
    return filled
