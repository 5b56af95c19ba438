"""Penalties on tokens that have come before; each row counts up to itself."""

import math
import operator
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Self

import numpy as np


class Penalties:
    """Repetition, presence and frequency penalties.

    Args:
        repetition: tokens of prompt and text: a positive logit is divided by it, a
            negative one multiplied (Keskar et al. 2019); 1 changes nothing.
        presence: is subtracted for tokens that were emitted.
        frequency: is subtracted once for each time a token was emitted.
        lookback: only the last so many tokens count, for all three; None: all.

    Raises:
        ValueError: a penalty is not finite, `repetition` is 0 or less, `lookback` is
            below 1.
    """

    def __init__(
        self,
        *,
        repetition: float = 1.0,
        presence: float = 0.0,
        frequency: float = 0.0,
        lookback: int | None = None,
    ) -> None:
        for name, value in (("presence", presence), ("frequency", frequency)):
            if not math.isfinite(value):
                raise ValueError(f"`{name}` is {value}, wanted a finite number")
        if not 0 < repetition < math.inf:
            raise ValueError(f"`repetition` is {repetition}, wanted above 0; 1 is none")
        if lookback is not None and operator.index(lookback) < 1:
            raise ValueError(f"`lookback` is {lookback}, wanted 1 or more tokens")
        self._repetition, self._presence = repetition, presence
        self._frequency, self._lookback = frequency, lookback
        self.assign((), ())

    @classmethod
    def like(cls, other: "Penalties") -> Self:
        """The same settings, no history."""
        return cls(
            repetition=other._repetition,
            presence=other._presence,
            frequency=other._frequency,
            lookback=other._lookback,
        )

    def assign(self, prompt: Sequence[int], emitted: Sequence[int]) -> None:
        """The history is `prompt` and `emitted` now."""
        self._told = _Told(self._lookback)
        self._told.take((token, False) for token in prompt)
        self.append(emitted)

    def append(self, emitted: Sequence[int]) -> None:
        """More was emitted."""
        self._told.take((token, True) for token in emitted)

    def adjust(self, inputs: Sequence[int], logits: np.ndarray) -> np.ndarray:
        """Each row after the tokens up to it, rejected or not."""
        new = logits.copy()
        told = self._told.branch(len(inputs) - 1) if len(inputs) > 1 else self._told
        for row, values in enumerate(new):
            if row:
                told.take([(inputs[row], True)])
            self._penalise(values, told)
        return new

    def leaves(self) -> dict[str, np.ndarray]:
        """The history as it counts: int64 [n, 2], tokens in order, how often each."""
        return {"seen": _table(self._told.any), "emitted": _table(self._told.emitted)}

    def _penalise(self, values: np.ndarray, told: "_Told") -> None:
        if self._repetition != 1 and told.any:
            seen = np.fromiter(told.any, np.int64, len(told.any))
            z = values[seen]
            values[seen] = np.where(z > 0, z / self._repetition, z * self._repetition)
        if told.emitted:
            out = np.fromiter(told.emitted, np.int64, len(told.emitted))
            times = np.fromiter(told.emitted.values(), np.float64, len(out))
            values[out] -= self._presence + self._frequency * times


class _Told:
    """How often each token came, and was emitted, within the lookback."""

    def __init__(self, lookback: int | None) -> None:
        self._recent: deque[tuple[int, bool]] | None = (
            None if lookback is None else deque()
        )
        self._lookback = lookback
        self.any: Counter[int] = Counter()
        self.emitted: Counter[int] = Counter()

    def branch(self, most: int) -> "_Told":
        """Another one, which can take up to `most` tokens."""
        other = _Told(self._lookback)
        other.any, other.emitted = self.any.copy(), self.emitted.copy()
        if self._recent is not None and self._lookback is not None:
            # Of a long lookback no more than what so many tokens can push out of it.
            oldest = list(islice(self._recent, most))
            other._recent = deque(oldest)
            other._lookback = self._lookback - (len(self._recent) - len(oldest))
        return other

    def take(self, tokens: Iterable[tuple[int, bool]]) -> None:
        for token, was_emitted in tokens:
            self._count(token, was_emitted, 1)
            if self._recent is not None and self._lookback is not None:
                self._recent.append((token, was_emitted))
                if len(self._recent) > self._lookback:
                    self._count(*self._recent.popleft(), -1)

    def _count(self, token: int, was_emitted: bool, by: int) -> None:
        for counts in (self.any, self.emitted) if was_emitted else (self.any,):
            counts[token] += by
            if not counts[token]:
                del counts[token]


def _table(counts: Counter[int]) -> np.ndarray:
    return np.array(sorted(counts.items()), np.int64).reshape(-1, 2)
