"""Drafters to study with: typed, always right, always wrong, always the same."""

import operator
from collections.abc import Sequence

from strata_nb.draft.protocol import NO_DRAFT, Draft
from strata_nb.draft.tokens import checked


class Typed:
    """Proposes what a person typed, once.

    What was typed waits until a window has room for a draft; it is used up as soon as
    something is emitted, whether it was accepted or not.
    """

    name = "typed"

    def __init__(self) -> None:
        self._next: tuple[int, ...] = ()

    def type(self, tokens: Sequence[int]) -> None:
        """`tokens` are the next proposal, instead of those typed before.

        Raises:
            TypeError: text, or something that is no integer.
        """
        self._next = checked(tokens)

    def assign(self, tokens: Sequence[int]) -> None:
        """Another text: what was typed for it stays, to be the first proposal."""

    def append(self, tokens: Sequence[int]) -> None:
        """Something was emitted: what was typed is used up."""
        self._next = ()

    def propose(self, most: int) -> Draft:
        """What was typed, as far as there is room."""
        return Draft(self._next[: max(most, 0)])


class Perfect:
    """Replays a text: a drafter that is right wherever the text is the model's own.

    Args:
        text: prompt and answer.

    Raises:
        TypeError: it is no sequence of tokens; `model.encode` makes one.
    """

    name = "perfect"

    def __init__(self, text: Sequence[int]) -> None:
        self._text = checked(text)
        self._at: int | None = 0

    def assign(self, tokens: Sequence[int]) -> None:
        """Go on behind `tokens`, as far as the text begins with them."""
        at = len(tokens)
        self._at = at if self._text[:at] == tuple(tokens) else None

    def append(self, tokens: Sequence[int]) -> None:
        """Follow the text, or leave it for good."""
        if self._at is not None:
            end = self._at + len(tokens)
            self._at = end if self._text[self._at : end] == tuple(tokens) else None

    def propose(self, most: int) -> Draft:
        """What the text says next; nothing once it was left."""
        if self._at is None or most < 1:
            return NO_DRAFT
        return Draft(self._text[self._at : self._at + most])


class Adversary(Perfect):
    """Proposes what the text does not say: every draft is wrong.

    Args:
        text: prompt and answer.
        vocabulary: tokens there are, V, 2 or more.

    Raises:
        ValueError: `vocabulary` is below 2: no token would be wrong.
        TypeError: as `Perfect` raises.
    """

    name = "adversary"

    def __init__(self, text: Sequence[int], vocabulary: int) -> None:
        super().__init__(text)
        if operator.index(vocabulary) < 2:
            raise ValueError(
                f"`vocabulary` is {vocabulary}, wanted 2 or more; with fewer no token "
                "is wrong"
            )
        self._vocabulary = vocabulary

    def propose(self, most: int) -> Draft:
        """For each right token the next higher one, after the last the first."""
        right = super().propose(most).tokens
        return Draft(tuple((token + 1) % self._vocabulary for token in right))


class Constant:
    """Proposes the same tokens every time.

    Args:
        tokens: proposed from the first on.

    Raises:
        TypeError: text, or something that is no integer.
    """

    name = "constant"

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = checked(tokens)

    def assign(self, tokens: Sequence[int]) -> None:
        """Nothing: it does not look at the text."""

    def append(self, tokens: Sequence[int]) -> None:
        """Nothing."""

    def propose(self, most: int) -> Draft:
        """The first `most` of them."""
        return Draft(self._tokens[: max(most, 0)])
