"""What a drafter's rows say of the target's experts, and what is read for it.

A drafter that shares the target's routers asks them about the rows that it drafts; the
target will ask the same routers about the same tokens. So each of its rows foretells,
layer by layer, experts of a row of the next window: what is read, and what is thrown
out, can go by it. Which experts a row uses never does.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from strata_nb.policies.choosing import order_of, shares_of
from strata_nb.policies.prefetch import Task, by_demand, merged
from strata_nb.policies.residency import Held

Reduce: TypeAlias = Literal["union", "max"]
Floats: TypeAlias = npt.NDArray[np.floating[Any]]


class Lookahead:
    """Experts foretold for the rows of the next window, by layer (MoE-SpeQ's buffer).

    After MoE-SpeQ (arXiv 2511.14102). It is emptied as the next draft begins.

    Attributes:
        top_k: experts of a row, K.
        scores: router logits of each drafted row, the root's first, float64 [R, L, E].
            A draft of D tokens has D rows: its last token has not been through the
            layers, so the last row of the window is not among them.
    """

    def __init__(self) -> None:
        self.top_k = 0
        self.scores: npt.NDArray[np.float64] = np.zeros((0, 0, 0))
        self._first: tuple[Mapping[int, int], ...] = ()

    @property
    def rows(self) -> int:
        """Rows foretold so far, R."""
        return len(self.scores)

    @property
    def layers(self) -> int:
        """Layers of the model, L; 0 while there are no rows."""
        return int(self.scores.shape[1])

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        """Experts of each row by rank, the lower one of equals first, [R, L, K]."""
        return order_of(self.scores)[..., : self.top_k].astype(np.int64)

    @property
    def confidences(self) -> npt.NDArray[np.float64]:
        """The router's shares of `ids`, of all experts, [R, L, K]."""
        if not self.rows:
            return np.zeros((0, 0, self.top_k))
        return np.take_along_axis(shares_of(self.scores), self.ids, axis=-1)

    def begin(self, top_k: int) -> None:
        """Forget the last draft; rows of `top_k` experts follow."""
        self.top_k, self.scores, self._first = top_k, np.zeros((0, 0, 0)), ()

    def add(self, scores: Floats) -> None:
        """Another row was drafted; router logits [L, E].

        Raises:
            ValueError: the row has another shape than those before it.
        """
        row = np.asarray(scores, np.float64)[None]
        if row.ndim != 3 or (self.rows and row.shape[1:] != self.scores.shape[1:]):
            raise ValueError(
                f"a row has router logits [L, E] like those before it, got shape "
                f"{row.shape[1:]} after {self.scores.shape[1:]}; `begin` another draft"
            )
        self.scores = np.concatenate([self.scores, row]) if self.rows else row
        first: list[dict[int, int]] = [{} for _ in range(self.layers)]
        for number, layers in enumerate(self.ids.tolist()):
            for layer, experts in enumerate(layers):
                for expert in experts:
                    first[layer].setdefault(expert, number)
        self._first = tuple(first)

    def first_use(self, layer: int, expert: int) -> float:
        """The first row that will use an expert; infinity: none is said to."""
        if layer >= len(self._first):
            return math.inf
        return self._first[layer].get(expert, math.inf)


class FromDraft(Protocol):
    """Says what is read while a draft is made, and when it is done."""

    @property
    def name(self) -> str:
        """For records and reports."""

    def during(self, seen: Lookahead) -> Sequence[Task]:
        """Reads to ask for behind the newest row, the first ones first.

        What is in a slot or on its way already is not read again.
        """

    def at_end(self, seen: Lookahead) -> Sequence[Task]:
        """Reads to ask for when the draft is complete."""


@dataclass(frozen=True)
class SpMoe:
    """The first layers' experts, while the next token is drafted (SP-MoE).

    After SP-MoE (arXiv 2510.10302): what attention made of a drafted row goes through
    the target's router of each layer, up to the cut-off; later layers read on demand.

    Attributes:
        layers: the first ones, L_c: see `cutoff_layers`, with the time of drafting.
        reduce: how rows are merged, which the paper does not say. "union": each row's
            strongest; "max": the strongest by the largest logit of any row.
        top_k: critical experts, of each row or of all; None: as many as a row uses.

    Raises:
        ValueError: a number out of range, or `reduce` is not one of these.
    """

    layers: int
    reduce: Reduce = "union"
    top_k: int | None = None

    def __post_init__(self) -> None:
        if operator.index(self.layers) < 0:
            raise ValueError(f"`layers` is {self.layers}, wanted 0 or more")
        if self.reduce not in get_args(Reduce):
            raise ValueError(f"`reduce` is {self.reduce!r}, wanted 'union' or 'max'")
        if self.top_k is not None and operator.index(self.top_k) < 1:
            raise ValueError(f"`top_k` is {self.top_k}, wanted 1 or more experts")

    @property
    def name(self) -> str:
        """For records and reports."""
        most = "" if self.top_k is None else f", top {self.top_k}"
        return f"sp-moe({self.layers} layers, {self.reduce}{most})"

    def during(self, seen: Lookahead) -> Sequence[Task]:
        """Experts of all rows so far, of layers before the cut-off."""
        top_k = self.top_k or seen.top_k
        return [
            (layer, reduced(seen.scores[:, layer], top_k=top_k, reduce=self.reduce))
            for layer in range(min(self.layers, seen.layers))
        ]

    def at_end(self, seen: Lookahead) -> Sequence[Task]:
        """Nothing more."""
        return ()


@dataclass(frozen=True)
class Phases:
    """First what is there, then what is sure, at last all (MoE-SpeQ).

    After MoE-SpeQ (arXiv 2511.14102). Priming: behind the first rows nothing is read,
    for the disk is to serve what the window before still wants. Then behind each row
    its experts of enough confidence. When the draft is done, whatever any row wants.
    The paper names the phases, not where they end; so both borders are parameters.

    Attributes:
        priming: first rows of a draft behind which nothing is read, 0 or more.
        confidence: least share of the router, 0 to 1.

    Raises:
        ValueError: a number out of range.
    """

    priming: int = 1
    confidence: float = 0.1

    def __post_init__(self) -> None:
        if operator.index(self.priming) < 0:
            raise ValueError(f"`priming` is {self.priming}, wanted 0 or more rows")
        if not 0 <= self.confidence <= 1:
            raise ValueError(f"`confidence` is {self.confidence}, wanted 0 to 1")

    @property
    def name(self) -> str:
        """For records and reports."""
        return f"phases(priming {self.priming}, confidence {self.confidence:g})"

    def during(self, seen: Lookahead) -> Sequence[Task]:
        """The newest row's sure experts, none while it primes."""
        if seen.rows <= self.priming:
            return ()
        shares = shares_of(seen.scores[-1:])[0]  # [L, E]
        sure = np.where(shares >= self.confidence, shares, 0.0)
        return [
            (layer, by_demand(row[None], top_k=seen.top_k))
            for layer, row in enumerate(sure)
        ]

    def at_end(self, seen: Lookahead) -> Sequence[Task]:
        """Every expert of every row, layer by layer."""
        return [
            (layer, merged(seen.scores[:, layer], top_k=seen.top_k))
            for layer in range(seen.layers)
        ]


class Farthest:
    """What the next window uses last goes first, or not at all (MoE-SpeQ).

    After MoE-SpeQ (arXiv 2511.14102): of the experts in slots the one whose next use
    the buffer puts farthest away; what no row is said to use is farthest, ties go by
    the last use (LRU). Slots belong to layers here, so that all rows of a window use a
    layer's experts at one time: the first draft row that wants an expert stands for
    how far away it is.

    Args:
        buffer: the drafter's.
    """

    name = "farthest"

    def __init__(self, buffer: Lookahead) -> None:
        self.buffer = buffer

    def worth(self, held: Held, *, window: int) -> tuple[float, ...]:
        """How near its next use is, then when it was last wanted or read ahead."""
        return (-self.buffer.first_use(held.layer, held.expert), held.touched)


def reduced(scores: Floats, *, top_k: int, reduce: Reduce) -> list[int]:
    """The critical experts of several rows, the strongest first.

    Args:
        scores: router logits, [R, E].
        top_k: experts of each row ("union") or of all together ("max").
        reduce: how rows are merged.
    """
    if reduce == "union":
        return merged(scores, top_k=top_k)
    # One row of the largest logits: its strongest, the lower number of equals first.
    order = order_of(np.max(scores, axis=0).astype(np.float64))
    return [int(expert) for expert in order[:top_k]]
