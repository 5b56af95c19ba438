"""What an engine has to offer so that it can be examined from outside."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from strata_nb.errors import StrataError


class ForeignEngineError(StrataError):
    """An engine raised where it may not: in `reset`, `feed` or `logits`."""


class RefusedError(StrataError):
    """What an adapter raises when its engine cannot go back; the message says why."""


@runtime_checkable
class ForeignEngine(Protocol):
    """One sequence of one model, seen from outside."""

    def reset(self) -> None:
        """Begin an empty sequence; nothing of an earlier one may stay behind."""

    def feed(self, tokens: Sequence[int], /) -> None:
        """Take in `tokens`, several at once as the rows of one window."""

    def logits(self) -> np.ndarray:
        """Next-token logits of each row of the last `feed`, float [rows, V]."""


@runtime_checkable
class CanSave(ForeignEngine, Protocol):
    """An engine that can return to an earlier place."""

    def save(self) -> Any:
        """All that the sequence is, in an object that later rows do not change."""

    def restore(self, saved: Any, /) -> bool | None:
        """Be as at the `save`, as often as asked. False says that it could not."""


@runtime_checkable
class CanTrim(ForeignEngine, Protocol):
    """An engine that can drop its last rows."""

    def trim(self, count: int, /) -> int | None:
        """Drop the last `count` rows, of the last `feed` at most.

        None says that all of them went; a number, how many did.
        """
