"""Which rows stay: predictions against drafts, the same for every rule of choice."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np

Stop: TypeAlias = Literal["stop", "limit"]
Rule: TypeAlias = Literal["greedy", "equality", "ratio"]


class Choice(Protocol):
    """Chooses the token after each row of a window, whatever the rule.

    A draft is accepted exactly when it is the prediction of the row before it; a rule
    that accepts a draft in another way answers with that draft.
    """

    @property
    def rule(self) -> Rule:
        """For records."""

    def __call__(
        self, inputs: Sequence[int], logits: np.ndarray, *, start: int
    ) -> Sequence[int]:
        """A token for each row, rejected rows included.

        Args:
            inputs: root and drafts, T tokens.
            logits: float64 [T, V], finite.
            start: the cell of row 0.
        """


@dataclass(frozen=True)
class Accepted:
    """The verdict on a window's drafts.

    Attributes:
        accepted: drafts kept; predictions 0 to `accepted` are emitted, the last of
            them is the bonus.
        offered: drafts that the end of the text left room for.
        stop: why the text ends with this window, None if it goes on.
    """

    accepted: int
    offered: int
    stop: Stop | None


def accept(
    inputs: Sequence[int],
    predictions: Sequence[int],
    *,
    stop_ids: Collection[int] = (),
    tokens_left: int | None = None,
) -> Accepted:
    """Accept drafts up to the first mismatch, stop id or the last token allowed.

    Prediction i is the token after input row i, so it is compared with input i + 1. A
    stop id is emitted as the bonus and never kept as an input.

    Args:
        inputs: root and drafts, T tokens.
        predictions: the next token after each row, T tokens.
        stop_ids: tokens that end the text.
        tokens_left: tokens that may still be emitted, 1 or more; None is no limit.

    Raises:
        ValueError: `tokens_left` is below 1.
    """
    if tokens_left is not None and tokens_left < 1:
        raise ValueError(
            f"`tokens_left` is {tokens_left}, wanted 1 or more; with none left there "
            "is nothing to run, so abort the window"
        )
    room = len(inputs) - 1
    if tokens_left is not None:
        room = min(room, tokens_left - 1)
    for row in range(room + 1):
        if predictions[row] in stop_ids:
            return Accepted(row, row, "stop")
        if row < room and predictions[row] != inputs[row + 1]:
            return Accepted(row, room, None)
    return Accepted(room, room, "limit" if tokens_left == room + 1 else None)
