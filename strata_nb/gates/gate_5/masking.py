"""Two experiments: tokens that agree over a state that does not, and for how long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from strata_nb.engine import Engine
from strata_nb.gates.gate_5.quality import probes
from strata_nb.gates.stage.places import threshold
from strata_nb.model import Model, diff
from strata_nb.state import Difference
from strata_nb.window import Window

MASKED = ("prose", 233)
EARLY = ("edit", 101)
"""Probe text, and the cell in it where the rejected window begins: one past a block's
end, so that the window's last row falls into the block after. The first is above the
bundled model's sparse threshold of 131 cells, the second below it. On both the two best
logits of plain decoding are at least 0.03 apart for 120 tokens, so that the numbers
come out alike on other machines."""

DRAFTS = 3


@dataclass(frozen=True)
class Moment:
    """One window of both engines, the faulty one and the sound one.

    Attributes:
        number: 0 is the window with the rejection, the others decode one token each.
        position: committed cells after it.
        wrong: where the states differ, in order of part and layer.
        logits: largest difference of the logits of kept rows; 0 is equal to the bit.
        blocks: whether a layer chose other blocks for a kept row.
        tokens: the next token by the faulty engine, and by the sound one.
    """

    number: int
    position: int
    wrong: tuple[Difference, ...]
    logits: float
    blocks: bool
    tokens: tuple[int, int]

    @property
    def agrees(self) -> bool:
        """Whether both say the same token."""
        return self.tokens[0] == self.tokens[1]


def moments(
    model: Model, ids: Sequence[int], drafts: Sequence[int], *, fault: str
) -> Iterator[Moment]:
    """Reject `drafts` once, then decode with the fault and without it.

    It goes on until the tokens differ, or the context ends.

    Args:
        model: on MLX.
        ids: committed before, and the root last.
        drafts: none of them is kept.
        fault: planted into one of the two engines.
    """
    *before, root = ids
    engines = (model.engine(fault=fault), model.engine())
    for engine in engines:
        engine.prefill(before)
    rows, number = (root, *drafts), 0
    while engines[0].position + len(rows) <= engines[0].context:
        windows = [_decoded(engine, rows) for engine in engines]
        found = _moment(number, engines, windows)
        yield found
        if not found.agrees:
            return
        rows, number = (found.tokens[0],), number + 1


def _decoded(engine: Engine, rows: Sequence[int]) -> Window:
    """Run `rows` and keep the first."""
    window = engine.run(rows)
    engine.finish(window, stop_ids=())
    engine.commit(window, keep=1)
    return window


def _moment(
    number: int, engines: Sequence[Engine], windows: Sequence[Window]
) -> Moment:
    faulty, sound = windows
    first, second = (int(e.root) for e in engines if e.root is not None)
    return Moment(
        number=number,
        position=engines[0].position,
        wrong=tuple(diff(*engines)),
        logits=float(np.abs(faulty.logits[0] - sound.logits[0]).max()),
        blocks=any(
            not np.array_equal(a.blocks[0], b.blocks[0])
            for a, b in zip(faulty.layers, sound.layers, strict=True)
            if a.blocks is not None and b.blocks is not None
        ),
        tokens=(first, second),
    )


@dataclass(frozen=True)
class Masked:
    """What came of an experiment.

    Attributes:
        fault: that was planted.
        start: cell of the root whose window was rejected.
        decoded: tokens that were decoded, the rejected window's own among them.
        state: number of the first window after which a part differs.
        part: the first part that differs there.
        layer: its layer.
        cell: the first cell of it that differs.
        size: largest difference there.
        logits: number of the first window whose logits differ; None: of none.
        blocks: number of the first window that chose other blocks; None: none did.
        token: number of the first window whose token differs; None: none does.
        can_change: number of the first window in which a row has to choose blocks:
            before it no fault of the index can change a token.
        trail: every window.
    """

    fault: str
    start: int
    decoded: int
    state: int | None
    part: str | None
    layer: int | None
    cell: int | None
    size: float
    logits: int | None
    blocks: int | None
    token: int | None
    can_change: int
    trail: tuple[Moment, ...]


def _summed(model: Model, fault: str, start: int, trail: Sequence[Moment]) -> Masked:
    wrong = next((m for m in trail if m.wrong), None)
    place = wrong.wrong[0] if wrong else None
    return Masked(
        fault=fault,
        start=start,
        decoded=len(trail),
        state=wrong.number if wrong else None,
        part=place.part if place else None,
        layer=place.layer if place else None,
        cell=place.cell if place else None,
        size=place.size if place else 0.0,
        logits=next((m.number for m in trail if m.logits > 0), None),
        blocks=next((m.number for m in trail if m.blocks), None),
        token=next((m.number for m in trail if not m.agrees), None),
        can_change=max(0, threshold(model.config) - start),
        trail=tuple(trail),
    )


def _experiment(model: Model, fault: str, text: str, start: int, tokens: int) -> Masked:
    ids = probe(model, text, start + 1)
    vocabulary = model.config.vocab_size
    # The root's neighbours in the vocabulary: as good as surely not what comes next.
    drafts = [(ids[-1] + 1 + i) % vocabulary for i in range(DRAFTS)]
    trail = list(islice(moments(model, ids, drafts, fault=fault), tokens))
    return _summed(model, fault, start, trail)


def probe(model: Model, text: str, length: int) -> tuple[int, ...]:
    """The first `length` tokens of a probe text, repeated where it is shorter."""
    (ids,) = (p.ids for p in probes(model, tokens=length) if p.name == text)
    return tuple((ids * (length // len(ids) + 1))[:length])


def matching_tokens(
    model: Model,
    *,
    fault: str = "qsa_ring",
    text: str = MASKED[0],
    start: int = MASKED[1],
    tokens: int = 64,
) -> Masked:
    """A matching token must not mask a different state: decode after a rejection.

    Args:
        model: on MLX.
        fault: planted into one of two engines.
        text: a probe text, of `quality.TEXTS`; its beginning is committed.
        start: cell of the root.
        tokens: to decode, unless they differ before.
    """
    return _experiment(model, fault, text, start, tokens)


def corrupt_before_tokens(
    model: Model,
    *,
    fault: str = "qsa_ring",
    text: str = EARLY[0],
    start: int = EARLY[1],
    tokens: int | None = None,
) -> Masked:
    """How long a wrong index goes unseen, because attention still sees everything.

    Args:
        model: on MLX.
        fault: of the sparse attention's index.
        text: a probe text, of `quality.TEXTS`; its beginning is committed.
        start: cell of the root, below the sparse threshold.
        tokens: to decode, unless they differ before; until some windows past the
            threshold when not given.
    """
    past = threshold(model.config) - start + 4 * model.config.indexer_compress_ratio
    wanted = past if tokens is None else tokens
    return _experiment(model, fault, text, start, wanted)
