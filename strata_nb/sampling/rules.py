"""Which token a row of a window takes at a temperature above 0."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np

from strata_nb.sampling.draws import Stream, draw

Draws: TypeAlias = Callable[[Stream], float]
"""The random numbers of one row, by what they decide."""


class SamplingRule(Protocol):
    """Chooses the token after one row; the draft is accepted when it is the draft."""

    @property
    def name(self) -> Literal["equality", "ratio"]:
        """For records."""

    def token(
        self, p: np.ndarray, draft: int | None, q: np.ndarray | None, draws: Draws
    ) -> int:
        """A token that has the law `p`, whatever the draft.

        Args:
            p: the model's law after this row, [V].
            draft: what the next row holds; None behind the last row.
            q: the law that the draft was drawn from, [V]; None: it was certain.
            draws: the row's random numbers.
        """


@dataclass(frozen=True)
class Equality:
    """The model's own draw: the same text as without drafts."""

    name: Literal["equality"] = "equality"

    def token(
        self, p: np.ndarray, draft: int | None, q: np.ndarray | None, draws: Draws
    ) -> int:
        """A draw from `p` that does not look at the draft."""
        return draw(p, draws("target"))


@dataclass(frozen=True)
class Ratio:
    """The draft with probability min(1, p / q), else a draw from what it left over.

    What is left over, max(p - q, 0), has nothing of the draft: a rejected draft is
    never drawn again. The law of the token is p (Leviathan et al. 2023, theorem 1).
    """

    name: Literal["ratio"] = "ratio"

    def token(
        self, p: np.ndarray, draft: int | None, q: np.ndarray | None, draws: Draws
    ) -> int:
        """The draft, or a draw from the residual."""
        if draft is None:
            return draw(p, draws("target"))
        likely = 1.0 if q is None else float(q[draft])
        if draws("accept") * likely < p[draft]:
            return draft
        residual = self.left_over(p, draft, q)
        if not residual.any():
            # Equal laws but for rounding.
            return draft
        return draw(residual, draws("residual"))

    def left_over(self, p: np.ndarray, draft: int, q: np.ndarray | None) -> np.ndarray:
        """What a rejected draft leaves to draw from, not scaled: [V]."""
        residual: np.ndarray = p.copy() if q is None else np.maximum(p - q, 0)
        residual[draft] = 0
        return residual


EQUALITY = Equality()
RATIO = Ratio()
