"""Drives an engine under examination, and tells its refusals from its failures."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex, TypeAlias, TypeVar

import numpy as np

from strata_nb.gates.foreign.protocol import (
    CanSave,
    CanTrim,
    ForeignEngine,
    ForeignEngineError,
)
from strata_nb.gates.foreign.rows import Rows

Way: TypeAlias = Literal["trim", "restore"]
_T = TypeVar("_T")


class Refusal(Exception):
    """The engine said that it cannot go back.

    Args:
        words: what it said.
    """

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


@dataclass(frozen=True)
class Saved:
    """What `save` gave, and the tokens that were in at the time."""

    what: Any
    held: tuple[int, ...]


@dataclass(frozen=True)
class Plain:
    """A run that never saw a draft.

    Attributes:
        kept: logits of the rows that a window will keep, [keep, V].
        tokens: the greedy tokens that follow, each fed in turn.
        rows: logits of those, [count, V].
    """

    kept: Rows
    tokens: tuple[int, ...]
    rows: Rows


class Driver:
    """One engine and the text it is fed.

    Args:
        engine: the one examined.
        text: tokens of the prompt.

    Attributes:
        held: tokens that the engine must hold now, from the first on.
        vocabulary: columns of its logits, 0 before the first row.
    """

    def __init__(self, engine: ForeignEngine, text: Sequence[int]) -> None:
        self.engine, self.text = engine, tuple(text)
        self.vocabulary = 0
        self.held: list[int] = []
        self._plain: dict[tuple[int, int, int], Plain] = {}

    def start(self, count: int) -> None:
        """Begin anew with the first `count` tokens of the text, in one window."""
        _allowed("reset", self.engine.reset)
        self.held = list(self.text[:count])
        if count:
            _allowed("feed", lambda: self.engine.feed(list(self.text[:count])))

    def feed(self, tokens: Sequence[int]) -> Rows:
        """Feed one window and read its logits, [rows, V].

        Raises:
            ForeignEngineError: the engine raised, or its logits have another shape.
        """
        _allowed("feed", lambda: self.engine.feed(list(tokens)))
        self.held += tokens
        rows = np.array(_allowed("logits", self.engine.logits), dtype=np.float64)
        wide = self.vocabulary or rows.shape[-1]
        if rows.shape != (len(tokens), wide):
            raise ForeignEngineError(
                f"`logits` has shape {list(rows.shape)} after {len(tokens)} rows, "
                f"wanted [{len(tokens)}, {self.vocabulary or 'V'}]: the next-token "
                "logits of each row of the last `feed`"
            )
        self.vocabulary = wide
        return rows

    def each(self, tokens: Sequence[int]) -> Rows:
        """Feed `tokens` one row at a time."""
        return np.concatenate([self.feed([token]) for token in tokens])

    def plain(self, start: int, keep: int, *, count: int) -> Plain:
        """The run without drafts: `keep` rows after `start`, then `count` greedy ones.

        Each is computed once; whoever asks must start anew afterwards.
        """
        key = (start, keep, count)
        if key not in self._plain:
            self.start(start)
            kept = last = self.feed(self.text[start : start + keep])
            tokens: list[int] = []
            rows = []
            for _ in range(count):
                tokens.append(int(last[-1].argmax()))
                last = self.feed(tokens[-1:])
                rows.append(last[0])
            self._plain[key] = Plain(kept, tuple(tokens), np.array(rows))
        return self._plain[key]

    def rewound(self, window: Sequence[int], keep: int, *, way: Way) -> Rows:
        """Feed `window`, then go back until only its first `keep` rows are left.

        Returns:
            Logits of the kept rows, [keep, V], as the window gave them.

        Raises:
            Refusal: the engine says that it cannot.
            ForeignEngineError: it failed elsewhere.
        """
        saved = self.save() if way == "restore" else None
        rows = self.feed(window)
        if saved is not None:
            self.restore(saved)
            self.feed(window[:keep])
        elif keep < len(window):
            self._trim(len(window) - keep)
        return rows[:keep]

    def save(self) -> Saved:
        """What the engine saves, or a Refusal."""
        assert isinstance(self.engine, CanSave)
        try:
            return Saved(self.engine.save(), tuple(self.held))
        except Exception as error:
            raise Refusal(_said("save", error)) from error

    def restore(self, saved: Saved) -> None:
        """Return to `saved`, or a Refusal."""
        assert isinstance(self.engine, CanSave)
        try:
            answer = self.engine.restore(saved.what)
        except Exception as error:
            raise Refusal(_said("restore", error)) from error
        if answer is False:
            raise Refusal("`restore` answered False")
        self.held = list(saved.held)

    def _trim(self, count: int) -> None:
        assert isinstance(self.engine, CanTrim)
        try:
            answer = self.engine.trim(count)
        except Exception as error:
            raise Refusal(_said("trim", error)) from error
        if answer is not None and not isinstance(answer, SupportsIndex):
            raise ForeignEngineError(
                f"`trim` answered {answer!r}, wanted None or a number of rows"
            )
        if answer is None or answer is True:
            answer = count
        gone = operator.index(answer)
        del self.held[len(self.held) - gone :]
        if gone != count:
            raise Refusal(f"`trim` dropped {gone} of {count} rows")


def _said(call: str, error: Exception) -> str:
    """The message of a refusal; its type too, unless that is the adapter's own."""
    kind = type(error).__name__
    told = f"{error}" if kind == "RefusedError" else f"{kind}: {error}"
    return f"`{call}` says: {told}"


def _allowed(call: str, verb: Callable[[], _T]) -> _T:
    """The result of a call that must not raise."""
    try:
        return verb()
    except Exception as error:
        raise ForeignEngineError(
            f"`{call}` raised {type(error).__name__}: {error}"
        ) from error
