"""What a drafter is: it reads the history and guesses what comes next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from strata_nb.draft.head import Mtp
from strata_nb.trace import WindowRecord


@dataclass(frozen=True)
class Draft:
    """Proposed tokens, in order; the model decides about every one of them.

    Attributes:
        tokens: what may follow the history.
        match_length: tokens of history that the proposal rests on; None where the
            drafter matches nothing.
        laws: float64 [len(tokens), V], the distribution that each token was drawn
            from (q); None: the tokens were certain, not drawn.
        chances: [len(tokens)], the drafter's own probability of each token given those
            before it, for those who choose how many rows to verify; None: it says
            none. It decides nothing about acceptance.
        planned: tokens that a drawn draft would have had, had no draw ended it; None:
            as many as it has.
    """

    tokens: tuple[int, ...] = ()
    match_length: int | None = None
    laws: np.ndarray | None = field(default=None, compare=False, repr=False)
    chances: tuple[float, ...] | None = field(default=None, compare=False)
    planned: int | None = field(default=None, compare=False)


NO_DRAFT = Draft()


class Drafter(Protocol):
    """Proposes tokens from the history alone, so that nothing rejected can stay in it.

    The history is the prompt and what was emitted, the last of it not run yet: no
    pads, no rejected drafts.
    """

    @property
    def name(self) -> str:
        """For records and charts."""

    def assign(self, tokens: Sequence[int]) -> None:
        """The history is `tokens` now, whatever it was."""

    def append(self, tokens: Sequence[int]) -> None:
        """`tokens` were emitted: they follow the history."""

    def propose(self, most: int) -> Draft:
        """Guess up to `most` tokens after the history, which stays as it is."""


def follow(drafter: Drafter | None, engine: Any) -> None:
    """Tell a drafter that drafts with the model which engine holds the text.

    A drafter asks for it by a method `follow`; one made of others names them by
    `drafters`.
    """
    for each in _each(drafter):
        told: Callable[[Any], None] | None = getattr(each, "follow", None)
        if told is not None:
            told(engine)


def tell_routes(drafter: Drafter | None, record: WindowRecord) -> None:
    """Let a drafter that learns from windows see one that was committed.

    A drafter asks for it by a method `learn_routes`. Windows of a prompt are told too:
    they show which experts its tokens use.
    """
    for each in _each(drafter):
        told: Callable[[WindowRecord], None] | None
        told = getattr(each, "learn_routes", None)
        if told is not None:
            told(record)


def head_for(drafter: Drafter | None) -> Mtp | None:
    """How a drafter wants the draft head read; None: it needs none.

    A drafter says it by an attribute `mtp`.
    """
    wanted = [getattr(each, "mtp", None) for each in _each(drafter)]
    return next((mtp for mtp in wanted if isinstance(mtp, Mtp)), None)


def _each(drafter: Any) -> list[Any]:
    """A drafter, and those it is made of."""
    inner = getattr(drafter, "drafters", ())
    return [drafter, *(found for one in inner for found in _each(one))]


def chosen_of(drafter: Drafter | None) -> str | None:
    """The name of the one, of several in `drafter`, that had the last draft.

    One made of others shows it by a property `chosen`; None: none had, or it is one.
    """
    chosen: str | None = getattr(drafter, "chosen", None)
    return chosen


def history_of(drafter: Drafter) -> tuple[int, ...] | None:
    """The tokens that a drafter looks drafts up in; None: it does not show them.

    A drafter shows them by a property `history`. They are for comparisons alone.
    """
    history: Sequence[int] | None = getattr(drafter, "history", None)
    return None if history is None else tuple(history)
