"""Defects of the penalties per position, to be used instead of the sound ones."""

from collections.abc import Sequence

import numpy as np

from strata_nb.faults.policy import MakeSampler, PolicyFault
from strata_nb.sampling import Adjustment, Sampler, Sampling
from strata_nb.slop import Scanner, Slop, SlopState
from strata_nb.slop.penalty import Entry


class NotRestored(Slop):
    """Penalties that know positions and not whose text they belong to."""

    def assign(self, prompt: Sequence[int], emitted: Sequence[int] = ()) -> None:
        """Keep every state that there is, of whatever text; scan the rest."""
        tokens = [*prompt, *emitted]
        entries = self._history[1][: len(tokens) + 1]
        old = [entry.state for entry in entries[1:]]
        kept = [entries[0], *map(Entry, tokens, old)]
        self._history = 0, kept + self._entries(kept[-1].state, tokens[len(old) :])

    def back(self, position: int) -> None:
        """The position goes back, the state stays."""
        left = self._end
        super().back(position)
        entries = self._history[1]
        entries[-1] = entries[-1]._replace(state=left)


class InPlace(Slop):
    """Penalties with one state, which every row of a window moves on."""

    def __init__(self, scanner: Scanner, *, strength: float) -> None:
        super().__init__(scanner, strength=strength)
        self._drafts = 0

    def assign(self, prompt: Sequence[int], emitted: Sequence[int] = ()) -> None:
        """As the sound ones."""
        super().assign(prompt, emitted)
        self._drafts = 0

    def append(self, emitted: Sequence[int]) -> None:
        """Take in what no row of the window seems to have taken in yet."""
        done, self._drafts = min(self._drafts, len(emitted) - 1), 0
        entries = self._history[1]
        entries += [Entry(token, self._end) for token in emitted[:done]]
        super().append(emitted[done:])

    def adjust(self, inputs: Sequence[int], logits: np.ndarray) -> np.ndarray:
        """The right penalties; the state is then that of the last row."""
        adjusted = super().adjust(inputs, logits)
        entries = self._history[1]
        entries[-1] = entries[-1]._replace(state=self._rows(inputs)[-1])
        self._drafts = len(inputs) - 1
        return adjusted


class OncePerWindow(Slop):
    """Penalties of a window's start for all of its rows."""

    def _rows(self, inputs: Sequence[int]) -> list[SlopState]:
        return [self._end] * len(inputs)


def _instead(kind: type[Slop]) -> MakeSampler:
    """A sampler whose penalties are of `kind`, with the settings of the sound ones."""

    def make(sampling: Sampling, adjustments: Sequence[Adjustment]) -> Sampler:
        wrong = [
            kind(adjustment.scanner, strength=adjustment.strength)
            if isinstance(adjustment, Slop)
            else adjustment
            for adjustment in adjustments
        ]
        return Sampler(sampling, wrong)

    return make


FAULTS = (
    PolicyFault(
        name="slop_not_restored",
        part="penalties",
        what="going back to a checkpoint, or to a text that branches off, leaves "
        "the penalties in the state of the branch left behind",
        shows="when a text goes on from a place that another branch has passed",
        report="https://github.com/charlie12345/ROCmFPX/pull/56",
        families=("requests",),
        sampler=_instead(NotRestored),
    ),
    PolicyFault(
        name="slop_in_place",
        part="penalties",
        what="rows of a window move the one state on, rejected ones too",
        shows="after every rejection",
        report="https://github.com/osaurus-ai/vmlx-swift/issues/357",
        families=("choices",),
        sampler=_instead(InPlace),
    ),
    PolicyFault(
        name="slop_once_per_window",
        part="penalties",
        what="all rows of a window get the penalties of its first row",
        shows="in every row behind the first whose text differs in what it forbids",
        report="https://github.com/sgl-project/sglang/pull/40244",
        families=("choices",),
        sampler=_instead(OncePerWindow),
    ),
)
