"""The last token ids that the n-gram hash looks back on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import mlx.core as mx
import numpy as np

from strata_nb.errors import SavedStateError
from strata_nb.parts.part import Part

Ids: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class PleTokens(Part[Ids, Ids]):
    """The last N - 1 ids, on the host; before the start everything reads as eos."""

    length: int
    eos: int
    vocabulary: int
    name: str = "ple_tokens"

    def initial(self) -> Ids:
        """All eos."""
        return (self.eos,) * self.length

    def run(self, committed: Ids, ids: Sequence[int]) -> tuple[Ids, Ids]:
        """The context of the window's first row, and context plus window."""
        return committed, (*committed, *ids)

    def commit(self, committed: Ids, pending: Ids, *, keep: int) -> Ids:
        """Shift in the kept ids."""
        return pending[keep : keep + self.length]

    def leaves(self, committed: Ids) -> dict[str, mx.array]:
        """`ids`, int32 [N - 1]."""
        return {"ids": mx.array(committed, dtype=mx.int32)}

    def shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        """Always the same."""
        return {"ids": (self.length,)}

    def restore(self, leaves: Mapping[str, mx.array]) -> Ids:
        """The ids as host integers.

        Raises:
            SavedStateError: an id is outside the vocabulary.
        """
        ids = tuple(int(i) for i in np.array(leaves["ids"]))
        if not all(0 <= i < self.vocabulary for i in ids):
            raise SavedStateError(
                f"the saved {self.name} are {ids}, wanted ids below {self.vocabulary}; "
                "restore it into an engine of the same model"
            )
        return ids
