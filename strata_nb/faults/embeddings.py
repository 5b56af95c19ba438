"""Defects of the n-gram embeddings: their tokens and their convolution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from strata_nb.faults.fault import Fault
from strata_nb.faults.recurrence import AllRowsHistory
from strata_nb.faults.variant import extending
from strata_nb.parts import PleTokens
from strata_nb.parts.ple_tokens import Ids


@dataclass(frozen=True)
class AllTokens(PleTokens):
    """A token history that takes in every row of a window."""

    def commit(self, committed: Ids, pending: Ids, *, keep: int) -> Ids:
        """Shift in all ids, rejected ones too."""
        return super().commit(committed, pending, keep=len(pending) - self.length)


@dataclass
class Box:
    """The one history that all engines of a model read and write."""

    ids: Ids = ()


@dataclass(frozen=True)
class SharedTokens(PleTokens):
    """A token history that belongs to the model; what an engine holds is not read."""

    box: Box = field(default_factory=Box, compare=False)

    def initial(self) -> Ids:
        """All eos, for every engine."""
        return self._write(super().initial())

    def run(self, committed: Ids, ids: Sequence[int]) -> tuple[Ids, Ids]:
        """The context that whoever wrote last has left."""
        return super().run(self.box.ids, ids)

    def commit(self, committed: Ids, pending: Ids, *, keep: int) -> Ids:
        """Shift in the kept ids, for every engine."""
        return self._write(super().commit(committed, pending, keep=keep))

    def leaves(self, committed: Ids) -> dict[str, mx.array]:
        """`ids`, int32 [N - 1], as every engine reads them."""
        return super().leaves(self.box.ids)

    def restore(self, leaves: Mapping[str, mx.array]) -> Ids:
        """The ids as host integers, for every engine."""
        return self._write(super().restore(leaves))

    def _write(self, ids: Ids) -> Ids:
        self.box.ids = ids
        return ids


FAULTS = (
    Fault(
        name="ple_tokens_kept",
        part="ple_tokens",
        what="tokens of rejected rows stay in the history that n-grams are hashed from",
        shows="after every rejection",
        report="https://github.com/ikawrakow/ik_llama.cpp/issues/2460",
        variant=extending(AllTokens),
    ),
    Fault(
        name="ple_conv_no_rewind",
        part="ple_conv",
        what="rejected rows stay in the history of the embeddings' convolution",
        shows="after every rejection",
        report="https://github.com/ggml-org/llama.cpp/issues/28123",
        variant=extending(AllRowsHistory),
    ),
    Fault(
        name="ple_shared_history",
        part="ple_tokens",
        what="the token history belongs to the model, so its engines, forks too, read "
        "what the last of them has written",
        shows="as soon as another engine of the same model is made or moves",
        report="https://github.com/unslothai/llama.cpp/issues/114",
        variant=extending(SharedTokens),
        shared=True,
        families=("branches", "sessions"),
    ),
)
