"""A limit on the tokens of a thought."""

import operator
from collections.abc import Sequence

import numpy as np


class ThinkingBudget:
    """Ends a thought after so many emitted tokens of it.

    Tokens of the prompt are not counted, nor are drafts that were rejected.

    Args:
        end: the token that ends a thought.
        limit: emitted tokens that a thought may have; the next one is `end`.
        start: the token that begins one, in the prompt or in what is emitted; None:
            what is emitted begins inside a thought, whatever the prompt holds.

    Raises:
        ValueError: a number is negative, or `start` is `end`.
    """

    def __init__(self, end: int, limit: int, *, start: int | None = None) -> None:
        for name, value in (("end", end), ("limit", limit), ("start", start)):
            if value is not None and operator.index(value) < 0:
                raise ValueError(f"`{name}` is {value}, wanted 0 or more")
        if start == end:
            raise ValueError(
                f"`start` and `end` are both {end}; wanted two tokens, or `start` left "
                "out where the text begins inside a thought"
            )
        self._end, self._limit, self._start = end, limit, start
        self.assign((), ())

    def assign(self, prompt: Sequence[int], emitted: Sequence[int]) -> None:
        """The history is `prompt` and `emitted` now."""
        # Emitted tokens of the thought that is open; None: none is.
        self._used = 0 if self._start is None or self._is_open(prompt) else None
        self.append(emitted)

    def append(self, emitted: Sequence[int]) -> None:
        """More was emitted."""
        for token in emitted:
            self._used = self._after(self._used, token)

    def adjust(self, inputs: Sequence[int], logits: np.ndarray) -> np.ndarray:
        """Only `end`, in the rows whose budget is used up.

        Raises:
            ValueError: `end` is not in the vocabulary.
        """
        if self._end >= logits.shape[1]:
            raise ValueError(
                f"a thought is to end with token {self._end}, but the vocabulary has "
                f"{logits.shape[1]} tokens"
            )
        new, used = logits.copy(), self._used
        for row, values in enumerate(new):
            if row:
                used = self._after(used, inputs[row])
            # More than the limit is left over where a text goes on under a lower one.
            if used is not None and used >= self._limit:
                values[:] = -np.inf
                values[self._end] = 0.0
        return new

    def leaves(self) -> dict[str, np.ndarray]:
        """Emitted tokens of the thought that is open, -1 where none is; int64 [1]."""
        return {"used": np.array([-1 if self._used is None else self._used])}

    def _after(self, used: int | None, token: int) -> int | None:
        if token == self._end:
            return None
        if used is None:
            return 0 if token == self._start else None
        return used + 1

    def _is_open(self, prompt: Sequence[int]) -> bool:
        """Whether `prompt` ends inside a thought."""
        marks = (self._start, self._end)
        last = next((token for token in reversed(prompt) if token in marks), None)
        return last is not None and last == self._start
