"""Which experts a row uses."""

import operator
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from strata_kernels.route import strongest


@dataclass(frozen=True)
class Seen:
    """What a routing may look at besides the logits of the window's rows.

    Attributes:
        layer: 0-based.
        resident: bool [E], experts that were ready in a slot when the window began;
            None: all experts are in memory. It stays as it was, whatever the window
            itself, a fork or another engine reads, so that a run can be repeated.
        headless: the rows are a piece of a prompt: all are kept, none is a draft.
    """

    layer: int
    resident: npt.NDArray[np.bool_] | None
    headless: bool = False


@dataclass(frozen=True)
class Chosen:
    """The experts of each row; how much of each is up to the model.

    Weights are the router's natural probabilities of the chosen experts, whatever the
    routing went by; a place that is not used has the weight 0.

    Attributes:
        ids: expert numbers by rank, the naturally strongest first, uint32 [T, K].
        used: bool [T, K], those in use before the others; None: all are. A place that
            is not used repeats the row's first expert, so that nothing is read for it,
            and is recorded as -1.
        keep_mass: whether the places in use carry the weight of all K natural experts;
            False: what is left out is lost; None: as the model's router does, which
            renormalises or not.
    """

    ids: mx.array
    used: mx.array | None = None
    keep_mass: bool | None = None

    def recorded(self) -> npt.NDArray[np.int32]:
        """Expert numbers, -1 for places that are not used, [T, K]; evaluated."""
        ids = np.array(self.ids).astype(np.int32)
        return ids if self.used is None else np.where(np.array(self.used), ids, -1)

    @classmethod
    def of_record(cls, ids: npt.NDArray[np.integer[Any]]) -> "Chosen":
        """What was recorded as `ids`, [T, K] with -1 behind the others.

        Raises:
            ValueError: a -1 stands before an expert.
        """
        used = ids >= 0
        # A row without any expert names one all the same; nobody asks it.
        first = np.maximum(ids[:, :1], 0)
        filled = np.where(used, ids, first).astype(np.uint32)
        made = cls(mx.array(filled), mx.array(used))
        made.busy_rows()
        return made

    def busy_rows(self) -> npt.NDArray[np.intp]:
        """Rows that use an expert, ascending; evaluated.

        Raises:
            ValueError: a place that is not used stands before one that is, or names
                another expert than the row's first.
        """
        ids = np.array(self.ids)
        if self.used is None:
            return np.arange(len(ids))
        used = np.array(self.used)
        elsewhere = ~used & (ids != ids[:, :1])
        if (used[:, 1:] > used[:, :-1]).any() or elsewhere.any():
            raise ValueError(
                f"experts {ids.tolist()} are chosen and used {used.tolist()}; wanted "
                "unused places behind the used ones, each naming the row's first expert"
            )
        return np.flatnonzero(used.any(axis=1))


class Routing(Protocol):
    """Chooses the experts of each row.

    Attributes:
        name: for records and reports; that of one that is not lossless carries the word
            "approximate".
        lossless: whether the model is computed as it was trained.
    """

    @property
    def name(self) -> str:
        """For records and reports."""

    @property
    def lossless(self) -> bool:
        """Whether the model is computed as it was trained."""

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        """The experts of each row, at most K of them.

        Args:
            logits: router logits, [T, E].
            top_k: experts a row of the model as it was trained, K.
            seen: what else is known.
        """


@dataclass(frozen=True)
class Natural:
    """The K strongest experts, the lower number on a tie."""

    name: str = "natural"
    lossless: bool = True

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        """The `top_k` strongest, [T, K]."""
        return Chosen(strongest(logits, top_k=top_k))


NATURAL = Natural()


def sees_whole_window(routing: Routing) -> bool:
    """Whether rows that are rejected may change the experts of rows that are kept.

    A routing says it by an attribute `whole_window`. Its windows are compared with the
    recorded experts imposed: other drafts would be another computation.
    """
    return bool(getattr(routing, "whole_window", False))


@dataclass(frozen=True)
class FewerExperts:
    """The strongest K - `by` experts: less work, and another model (approximate)."""

    by: int = 1
    lossless: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.by, bool) or operator.index(self.by) < 1:
            raise ValueError(
                f"`by` is {self.by}, wanted 1 or more experts to leave out"
            )

    @property
    def name(self) -> str:
        """For records and reports."""
        return f"top-(k-{self.by}), approximate"

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        """The strongest, [T, K - by], at least one."""
        return Chosen(strongest(logits, top_k=max(1, top_k - self.by)))
