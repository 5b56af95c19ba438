"""The switches of a model's own draft head, and what it drafts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

HeadNorm: TypeAlias = Literal["whole", "grouped"]
HeadPosition: TypeAlias = Literal["t", "t+1"]


@dataclass(frozen=True)
class Mtp:
    """How the draft head is read; the defaults are how it was trained.

    Attributes:
        norm: statistics of the norm over the streams: one of all of them ("whole"), or
            one of each ("grouped").
        position: of the pair of cell t and the token behind it: "t", without a pair
            for the first token; or "t+1", the first token paired with zeros.

    Raises:
        ValueError: one is not one of those offered.
    """

    norm: HeadNorm = "whole"
    position: HeadPosition = "t"

    def __post_init__(self) -> None:
        for name, kind in (("norm", HeadNorm), ("position", HeadPosition)):
            value, known = getattr(self, name), get_args(kind)
            if value not in known:
                raise ValueError(f"`{name}` is {value!r}, wanted {' or '.join(known)}")

    @property
    def name(self) -> str:
        """For records and saved files."""
        return f"{self.norm}, position {self.position}"


def head_of(mtp: bool | Mtp) -> Mtp | None:
    """The switches that `mtp` stands for; None: off."""
    if isinstance(mtp, bool):
        return Mtp() if mtp else None
    return mtp


@dataclass(frozen=True, eq=False)
class Cut:
    """Tokens that may be drafted; any other may still be emitted, and is not drafted.

    Attributes:
        ids: int64 [N], ascending.
    """

    ids: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Drafted:
    """What the head drafted.

    Attributes:
        tokens: in order.
        probabilities: of the likeliest token at each place, as the head sees it.
        logits: of each token, float64 [tokens, V]; minus infinity where a token is cut.
    """

    tokens: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
    logits: np.ndarray | None = field(default=None, compare=False, repr=False)


Row: TypeAlias = Callable[[int, Any, Cut | None], tuple[npt.NDArray[Any], Any]]
"""A token, the chain so far (None: what is committed) and the tokens that may be
drafted (None: all) to logits [V] and the longer chain."""

Pick: TypeAlias = Callable[[npt.NDArray[np.float64], int], tuple[int, float]]
"""Logits [V] and the number of the draft to a token, and the probability of the
likeliest one."""


def cut_of(ids: "Cut | Sequence[int]", *, vocabulary: int) -> Cut:
    """The tokens that may be drafted, checked.

    Raises:
        ValueError: none, or one outside the vocabulary.
    """
    found = ids.ids if isinstance(ids, Cut) else np.unique(np.asarray(ids, np.int64))
    if not found.size or found[0] < 0 or found[-1] >= vocabulary:
        got = f"{found[0]} to {found[-1]}" if found.size else "none"
        raise ValueError(
            f"a draft vocabulary wants tokens of 0 to {vocabulary - 1}, got {got}; "
            "make it of this model's tokens"
        )
    return ids if isinstance(ids, Cut) else Cut(found)


def best(logits: npt.NDArray[np.float64], number: int) -> tuple[int, float]:
    """The best token, the lowest on a tie, and its probability."""
    token = int(np.argmax(logits))
    return token, float(1 / np.exp(logits - logits[token]).sum())


def draft_chain(
    row: Row,
    root: int,
    *,
    most: int,
    vocabulary: int,
    stop_below: float = 0.0,
    cut: Cut | Sequence[int] | None = None,
    pick: Pick = best,
) -> Drafted:
    """Draft tokens one after the other, each from the rows of those before it.

    Args:
        row: one row of the head.
        root: the token that is decided already.
        most: tokens.
        vocabulary: tokens there are, V.
        stop_below: a place where the likeliest token is less probable ends the draft.
        cut: tokens that may be drafted; None: all. A list is sorted out each time, so
            make a `Cut` of a long one.
        pick: chooses a token.

    Raises:
        ValueError: `stop_below` is no probability, `cut` names no token of the model.
    """
    if not 0 <= stop_below <= 1:
        raise ValueError(f"`stop_below` is {stop_below}, wanted 0 to 1")
    few = None if cut is None else cut_of(cut, vocabulary=vocabulary)
    token, chain = root, None
    tokens: list[int] = []
    chances: list[float] = []
    seen: list[npt.NDArray[Any]] = []
    while len(tokens) < most:
        logits, chain = row(token, chain, few)
        token, chance = pick(logits, len(tokens))
        if chance < stop_below:
            break
        tokens.append(token)
        chances.append(chance)
        seen.append(logits)
    return Drafted(tuple(tokens), tuple(chances), np.stack(seen) if seen else None)
