"""What a model's draft head (MTP) is like here: on or off and why, its streams."""

from dataclasses import dataclass

import numpy as np

from strata_nb.model import Model

CLOSE = 0.05
"""Streams whose sizes differ by less make both readings of the norm the same head."""


@dataclass(frozen=True)
class HeadFound:
    """A draft head as it was found.

    Attributes:
        why_not: why it is off; None: it drafts.
        ratios: of each residual stream, the root mean square of all of them over its
            own, the mean over cells; empty where there is no head.
        drafted: tokens of one draft.
    """

    why_not: str | None
    ratios: tuple[float, ...] = ()
    drafted: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """In one line."""
        if self.why_not is not None:
            return f"MTP off: {self.why_not}"
        sizes = " ".join(f"{ratio:.2f}" for ratio in self.ratios)
        far = max(abs(ratio - 1) for ratio in self.ratios)
        moot = "" if far > CLOSE else ", so that the reading of the norm is moot"
        return f"MTP on (whole, position t); streams {sizes}{moot}"


def look(model: Model, *, cells: int = 32) -> HeadFound:
    """Draft once with the model's head, and measure the rows that it reads.

    Args:
        model: a loaded model.
        cells: that are measured.
    """
    if model.why_no_head is not None:
        return HeadFound(model.why_no_head)
    engine = model.engine(mtp=True)
    ids = np.arange(1, cells + 1) % model.config.vocab_size
    seen = []
    for token in ids:
        engine.prefill([int(token)])
        rows = (a for leaf, a in engine.leaves().items() if leaf.part == "mtp_row")
        seen.append(next(rows)[0].astype(np.float64))
    squares = np.square(np.stack(seen)).mean(axis=-1)  # [cells, C]
    ratios = np.sqrt(squares.mean(axis=1, keepdims=True) / squares).mean(axis=0)
    drafted = engine.draft(2, root=int(ids[0])).tokens
    return HeadFound(None, tuple(float(r) for r in ratios), drafted)
