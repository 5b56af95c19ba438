"""A drafter that draws its tokens, and says from which law."""

import operator
from collections.abc import Callable, Sequence

import numpy as np

from strata_nb.draft.protocol import NO_DRAFT, Draft
from strata_nb.draft.tokens import checked
from strata_nb.sampling import draw, uniform

TOLERANCE = 1e-3
"""A law in float32 misses a sum of 1 by less, what was not scaled by more."""


class Sampled:
    """Draws each draft from a law of the tokens before it.

    Its numbers are a stream of their own, by position in the text, so that they have
    nothing to do with those that accept or reject.

    Args:
        law: answers tokens with a distribution of the next one, [V].
        seed: of its random numbers, 0 to 2**64 - 1.

    Raises:
        ValueError: `seed` is outside its range.
    """

    name = "sampled"

    def __init__(
        self, law: Callable[[Sequence[int]], np.ndarray], *, seed: int = 0
    ) -> None:
        if not 0 <= operator.index(seed) < 2**64:
            raise ValueError(f"`seed` is {seed}, wanted 0 to 2**64 - 1")
        self._law, self._seed = law, seed
        self._text: list[int] = []

    @property
    def history(self) -> Sequence[int]:
        """The tokens that the law is asked about."""
        return tuple(self._text)

    def assign(self, tokens: Sequence[int]) -> None:
        """The history is `tokens` now."""
        self._text = list(checked(tokens))

    def append(self, tokens: Sequence[int]) -> None:
        """`tokens` follow."""
        self._text += checked(tokens)

    def propose(self, most: int) -> Draft:
        """`most` tokens, each drawn after those before it, with their laws.

        Raises:
            ValueError: the law answers with something that is no distribution.
        """
        if most < 1:
            return NO_DRAFT
        tokens: list[int] = []
        laws = []
        for _ in range(most):
            law = _distribution(self._law([*self._text, *tokens]))
            position = len(self._text) + len(tokens)
            laws.append(law)
            tokens.append(draw(law, uniform(self._seed, "draft", position)))
        return Draft(tuple(tokens), laws=np.stack(laws))


def _distribution(found: np.ndarray) -> np.ndarray:
    """The law that is drawn from: a copy, scaled to a sum of 1.

    The rule of acceptance divides by it, so it must be the very law of the draw.
    """
    law = np.array(found, np.float64)
    if law.ndim != 1 or not law.size:
        raise ValueError(
            f"a law has one number for each token, [V], got shape {law.shape}"
        )
    total = law.sum()
    # Written so that what is not a number fails too.
    if not (law.min() >= 0 and abs(total - 1) <= TOLERANCE):
        raise ValueError(
            f"a law has no number below 0 and a sum of 1, got {law.min():.4g} and "
            f"{total:.4g}; make one of logits with `strata_nb.sampling.law`"
        )
    scaled: np.ndarray = law / total
    return scaled
