"""Which experts are read before a layer has asked for them."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Task: TypeAlias = tuple[int, list[int]]
"""A later layer, and experts of it, those to read first first."""


@dataclass(frozen=True, eq=False)
class Now:
    """What is known when a layer asks for its experts.

    Attributes:
        layer: 0-based.
        layers: of the model.
        experts: of a layer.
        chosen: what the rows of the window use in this layer, int [T, K].
        scores: what the routers that were asked say of the rows as they are now, float
            [T, E] by layer, the nearest layer first.
    """

    layer: int
    layers: int
    experts: int
    chosen: npt.NDArray[np.integer[Any]]
    scores: Mapping[int, npt.NDArray[np.floating[Any]]]


class Prefetch(Protocol):
    """Guesses what later layers of a window will want; exact, whatever it says."""

    @property
    def name(self) -> str:
        """For records and reports."""

    def asks(self, layer: int, *, layers: int) -> Sequence[int]:
        """Later layers whose routers are asked while `layer` is computed.

        Args:
            layer: 0-based.
            layers: of the model.
        """

    def tasks(self, now: Now) -> Sequence[Task]:
        """Reads to ask for, the first ones first.

        Args:
            now: what is known; its `scores` are those of the layers of `asks`.
        """


@dataclass(frozen=True)
class NoPrefetch:
    """Nothing is read ahead."""

    name: str = "none"

    def asks(self, layer: int, *, layers: int) -> Sequence[int]:
        """None."""
        return ()

    def tasks(self, now: Now) -> Sequence[Task]:
        """None."""
        return ()


@dataclass(frozen=True)
class Ahead:
    """The next layers' routers on the rows as they are now, merged over the rows.

    Attributes:
        depth: layers ahead, 1 or more.
        root_only: only row 0 is asked: less is read in vain for drafts that may be
            rejected, and what only drafts want is waited for.
    """

    depth: int = 1
    root_only: bool = False

    def __post_init__(self) -> None:
        if operator.index(self.depth) < 1:
            raise ValueError(f"`depth` is {self.depth}, wanted 1 or more layers")

    @property
    def name(self) -> str:
        """For records and reports."""
        return f"{'root ' if self.root_only else ''}ahead {self.depth}"

    def asks(self, layer: int, *, layers: int) -> Sequence[int]:
        """The next `depth` layers, none behind the last."""
        return range(layer + 1, min(layer + 1 + self.depth, layers))

    def tasks(self, now: Now) -> Sequence[Task]:
        """Each row's strongest, merged, the nearest layer first."""
        rows, top_k = slice(1 if self.root_only else None), now.chosen.shape[1]
        return [
            (layer, merged(scores[rows], top_k=top_k))
            for layer, scores in now.scores.items()
        ]


NO_PREFETCH = NoPrefetch()
AHEAD = Ahead()


def merged(scores: npt.NDArray[np.floating[Any]], *, top_k: int) -> list[int]:
    """The `top_k` strongest experts of each row, once each, by their summed shares.

    Args:
        scores: router logits, [T, E].
        top_k: experts a row.
    """
    wide = scores.astype(np.float64)
    shares = np.exp(wide - wide.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return by_demand(shares, top_k=top_k)


def by_demand(shares: npt.NDArray[np.floating[Any]], *, top_k: int) -> list[int]:
    """The `top_k` largest of each row, once each, by their sum over these rows.

    Args:
        shares: 0 or more, [T, E]; an expert whose share is 0 is not among them.
        top_k: experts a row.
    """
    # Stable, so that the lower number wins a tie.
    best = np.argsort(-shares, axis=1, kind="stable")[:, :top_k]
    demand = np.zeros(shares.shape[1])
    for row, experts in zip(shares, best, strict=True):
        demand[experts] += row[experts]
    order = np.argsort(-demand, kind="stable")
    return [int(expert) for expert in order if demand[expert] > 0]
