"""What changes logits before the choice; each row sees its own history."""

import operator
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias, overload, runtime_checkable

import numpy as np


class Adjustment(Protocol):
    """Changes the logits of a window's rows by the history of each.

    Only `assign` and `append` change it, and they get what was given and emitted: a
    rejected row cannot stay behind.
    """

    def assign(self, prompt: Sequence[int], emitted: Sequence[int]) -> None:
        """The history is `prompt` and `emitted` now, whatever it was."""

    def append(self, emitted: Sequence[int]) -> None:
        """More was emitted."""

    def adjust(self, inputs: Sequence[int], logits: np.ndarray) -> np.ndarray:
        """New logits; minus infinity is a token that cannot come.

        Args:
            inputs: T tokens, the first is the last of the history; row i comes after
                the history and inputs 1 to i.
            logits: float64 [T, V], not to be changed.
        """


@runtime_checkable
class Remembers(Protocol):
    """An adjustment that shows what it remembers of its history, to be compared."""

    def leaves(self) -> dict[str, np.ndarray]:
        """Integer arrays by name."""


class History(Sequence[int]):
    """The tokens before a choice: prompt, emitted, and the window's up to its row.

    A view: nothing is copied.

    Attributes:
        prompt: how many of the tokens were given.
    """

    def __init__(self, tokens: Sequence[int], rows: Sequence[int], prompt: int) -> None:
        self._tokens, self._rows, self.prompt = tokens, rows, prompt

    def __len__(self) -> int:
        return len(self._tokens) + len(self._rows)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"token {index} of a history of {len(self)}")
        split = len(self._tokens)
        return self._tokens[at] if at < split else self._rows[at - split]


Processor: TypeAlias = Callable[[History, np.ndarray], np.ndarray]
"""Answers the tokens so far and a row's logits [V] with new logits [V]."""


class Processors:
    """Plain functions of tokens and logits, as an `Adjustment`.

    Args:
        processors: each is called for every row, in order, with the tokens up to that
            row (the last one is the row's own) and its logits.
    """

    def __init__(self, *processors: Processor) -> None:
        self._processors = processors
        self._tokens: list[int] = []
        self._prompt = 0

    def assign(self, prompt: Sequence[int], emitted: Sequence[int]) -> None:
        """The history is `prompt` and `emitted` now."""
        self._tokens, self._prompt = [*prompt, *emitted], len(prompt)

    def append(self, emitted: Sequence[int]) -> None:
        """More was emitted."""
        self._tokens += emitted

    def adjust(self, inputs: Sequence[int], logits: np.ndarray) -> np.ndarray:
        """Each row through all functions.

        Raises:
            ValueError: a function answers with another shape.
        """
        rows = []
        for row, values in enumerate(logits):
            history = History(self._tokens, inputs[1 : row + 1], self._prompt)
            new = values.copy()
            for processor in self._processors:
                new = np.asarray(processor(history, new), np.float64)
                if new.shape != values.shape:
                    raise ValueError(
                        f"a processor answered shape {new.shape} for logits of shape "
                        f"{values.shape}; it has to give back one for each token"
                    )
            rows.append(new)
        return np.stack(rows)

    def leaves(self) -> dict[str, np.ndarray]:
        """The tokens; int64 [n]."""
        return {"tokens": np.array(self._tokens, np.int64)}


class Bans:
    """Tokens that never come.

    Args:
        tokens: their ids.

    Raises:
        ValueError: one is negative.
    """

    def __init__(self, tokens: Collection[int]) -> None:
        self._tokens = sorted({operator.index(token) for token in tokens})
        if self._tokens and self._tokens[0] < 0:
            raise ValueError(f"a ban on token {self._tokens[0]}, wanted ids from 0 on")

    def assign(self, prompt: Sequence[int], emitted: Sequence[int]) -> None:
        """Nothing: bans do not depend on the history."""

    def append(self, emitted: Sequence[int]) -> None:
        """Nothing."""

    def adjust(self, inputs: Sequence[int], logits: np.ndarray) -> np.ndarray:
        """Minus infinity for each banned token.

        Raises:
            ValueError: a token is not in the vocabulary.
        """
        if self._tokens and self._tokens[-1] >= logits.shape[1]:
            raise ValueError(
                f"a ban on token {self._tokens[-1]}, but the vocabulary has "
                f"{logits.shape[1]} tokens; ban ids below that"
            )
        new = logits.copy()
        new[:, self._tokens] = -np.inf
        return new
