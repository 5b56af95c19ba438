"""The automaton: from one state and a token to the next state, nothing in place."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strata_nb.slop.leaves import read_leaves, write_leaves
from strata_nb.slop.lines import Lines
from strata_nb.slop.phrases import Phrases
from strata_nb.slop.rules import SlopRules


@dataclass(frozen=True, slots=True)
class SlopState:
    """All that a text leaves behind; it never changes, the next token makes a new one.

    Attributes:
        tail: the longest end of the text that begins a phrase.
        line: bytes since the last newline, without indentation, cut where it is sure
            to be too long to count.
        recent: completed lines that count, the oldest first.
    """

    tail: bytes = b""
    line: bytes = b""
    recent: tuple[bytes, ...] = ()


START = SlopState()
"""Before the first token, and after every end of text."""


class Scanner:
    """Follows a text by its tokens and says which tokens would be unwanted.

    Holds no state of a text, so that any number of texts may share one.

    Args:
        pieces: bytes by token, as `pieces_of` gives them; a token without bytes leaves
            the state as it is and is never penalised.
        rules: what is unwanted.
        eos_ids: tokens after which a text begins anew.

    Raises:
        ValueError: an id of `eos_ids` has no piece.
    """

    def __init__(
        self,
        pieces: Sequence[bytes],
        rules: SlopRules,
        *,
        eos_ids: Collection[int] = (),
    ) -> None:
        self.rules = rules
        self.pieces = tuple(pieces)
        self._eos = frozenset(eos_ids)
        folded = [rules.fold(piece) for piece in self.pieces]
        self._folded = folded
        self._phrases = Phrases(folded, rules.wanted)
        self._lines = Lines(
            self.pieces,
            lines=rules.lines,
            shortest=rules.shortest,
            longest=rules.longest,
        )
        for token in self._eos:
            self._check(token)

    @property
    def vocab_size(self) -> int:
        """Tokens it knows, V."""
        return len(self.pieces)

    def advance(self, state: SlopState, token: int) -> SlopState:
        """The state after `token`; `state` stays what it is.

        Raises:
            ValueError: `token` has no piece.
        """
        self._check(token)
        if token in self._eos:
            return START
        piece = self.pieces[token]
        if not piece:
            return state
        line, recent = self._lines.follow(state.line, state.recent, piece)
        tail = self._phrases.follow(state.tail, self._folded[token])
        return SlopState(tail, line, recent)

    def states(self, state: SlopState, tokens: Iterable[int]) -> list[SlopState]:
        """The states after each of `tokens`, the first of which follows `state`."""
        found = []
        for token in tokens:
            state = self.advance(state, token)
            found.append(state)
        return found

    def rescan(self, tokens: Iterable[int]) -> SlopState:
        """The state after `tokens`, from nothing else."""
        state = START
        for token in tokens:
            state = self.advance(state, token)
        return state

    def penalised(self, state: SlopState) -> np.ndarray:
        """Tokens that should not come next: int64, ascending, each once."""
        phrases = self._phrases.completing(state.tail)
        lines = self._lines.completing(state.line, state.recent)
        return np.unique(np.concatenate([phrases, *lines])) if lines else phrases

    def leaves(self, state: SlopState) -> dict[str, np.ndarray]:
        """`state` as integer arrays, with a mark of the rules it was made under."""
        return write_leaves(state.tail, state.line, state.recent, self.rules)

    def from_leaves(self, leaves: Mapping[str, np.ndarray]) -> SlopState:
        """The state whose `leaves` these are.

        Raises:
            SavedStateError: not what `leaves` gives, or made under other rules.
        """
        found = read_leaves(
            leaves, self.rules, starts=self._phrases.starts, lines=self._lines
        )
        return SlopState(*found)

    def _check(self, token: int) -> None:
        # A negative id would read a piece from the end.
        if not 0 <= token < len(self.pieces):
            raise ValueError(
                f"token {token} has no piece, wanted 0 to {len(self.pieces) - 1}; "
                "make the scanner with the pieces of this model"
            )
