"""What a drafter proposed, and whether that is what is run."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from strata_nb import StrataError
from strata_nb.draft import Draft, Drafter, history_of
from strata_nb.draft.tokens import checked
from strata_nb.trace import check_draft
from strata_widgets.stepper import words

HAND: Final = "hand"
_VERBS: Final = ("assign", "append", "propose")


@dataclass(frozen=True)
class Origin:
    """Where the drafts of a window come from, for its record.

    Attributes:
        drafter: its name, "hand" for what somebody typed.
        match_length: tokens of history that it matched, where it says so.
        draft_ms: time it took.
    """

    drafter: str = HAND
    match_length: int | None = None
    draft_ms: float | None = None


BY_HAND: Final = Origin()


@dataclass(frozen=True)
class _Taken:
    history: tuple[int, ...]
    tokens: tuple[int, ...]
    origin: Origin


class Proposals:
    """A drafter that follows a text, and its newest proposal.

    The drafter hears of the text alone: assigned at first and after going back, and
    what a window emitted appended. Rejected drafts are in no text.

    Args:
        drafter: of `strata_nb.draft`, or one's own; None for none.

    Raises:
        TypeError: `drafter` is none.
        ValueError: its name is no text for a record.
    """

    def __init__(self, drafter: Drafter | None) -> None:
        _check_drafter(drafter)
        self._drafter = drafter
        self._told: tuple[int, ...] | None = None
        self._taken: _Taken | None = None

    @property
    def name(self) -> str:
        """The drafter's; empty for none."""
        return "" if self._drafter is None else self._drafter.name

    def follow(self, history: Sequence[int]) -> None:
        """The text is `history` now.

        A drafter that fails here is told all of it again by `take`, and what it
        raises is said there: a commit that is done cannot fail for it.
        """
        try:
            self._tell(tuple(history))
        except Exception:
            self._told = None

    def take(self, history: Sequence[int], *, most: int, vocabulary: int) -> Draft:
        """Ask the drafter for a draft.

        Args:
            history: the text, its last token not run yet.
            most: tokens that the window has room for.
            vocabulary: token ids that the model knows, V.

        Raises:
            ValueError: there is no drafter, or it proposes what is no draft here.
            StrataError: the drafter raised.
        """
        drafter, text = self._drafter, tuple(history)
        if drafter is None:
            raise ValueError(words.NO_DRAFTER)
        self._taken = None
        began = time.perf_counter()
        try:
            self._tell(text)
            began = time.perf_counter()
            proposed: Any = drafter.propose(most)
        except Exception as error:
            self._told = None
            raise StrataError(words.drafter_raised(self.name, error)) from error
        took = (time.perf_counter() - began) * 1e3
        draft = _checked(self.name, proposed, most=most, vocabulary=vocabulary)
        origin = Origin(self.name, draft.match_length, took)
        self._taken = _Taken(text, draft.tokens, origin)
        return draft

    def origin(self, history: Sequence[int], drafts: Sequence[int]) -> Origin:
        """Whose `drafts` these are: the drafter's just as it proposed them here."""
        taken = self._taken
        if taken is None or taken.history != tuple(history):
            return BY_HAND
        return taken.origin if taken.tokens == tuple(drafts) else BY_HAND

    def forget(self) -> None:
        """The draft comes from elsewhere now."""
        self._taken = None

    def _tell(self, text: tuple[int, ...]) -> None:
        drafter = self._drafter
        if drafter is None:
            return
        told, shown = self._told, history_of(drafter)
        # A drafter may serve others too: what it shows is what it was told last.
        if shown is not None and shown != told:
            told = None
        if told is None or text[: len(told)] != told:
            drafter.assign(text)
        elif len(text) > len(told):
            drafter.append(text[len(told) :])
        self._told = text


def _check_drafter(drafter: Any) -> None:
    if drafter is None:
        return
    missing = [verb for verb in _VERBS if not callable(getattr(drafter, verb, None))]
    if isinstance(drafter, type) or missing or not hasattr(drafter, "name"):
        raise TypeError(words.no_drafter(drafter))
    check_draft(drafter.name, None, None)


def _checked(name: str, draft: Any, *, most: int, vocabulary: int) -> Draft:
    """The draft with plain integers, if it can be run as it is."""
    if not isinstance(draft, Draft):
        raise ValueError(words.no_draft(name, draft))
    try:
        found = replace(draft, tokens=checked(draft.tokens))
        check_draft(name, draft.match_length, None)
    except (TypeError, ValueError) as error:
        raise ValueError(words.no_draft(name, draft)) from error
    if len(found.tokens) > most:
        raise ValueError(words.too_many(name, len(found.tokens), most))
    for token in found.tokens:
        if not 0 <= token < vocabulary:
            raise ValueError(words.outside(name, token, vocabulary))
    return found
