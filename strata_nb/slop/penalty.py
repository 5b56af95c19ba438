"""The penalties of one text: a state for each position, rejected rows in none."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from strata_nb.errors import SavedStateError
from strata_nb.parts import digest_leaves
from strata_nb.slop.scanner import START, Scanner, SlopState


class Entry(NamedTuple):
    """A token of the history and the state after it.

    The token is None where there is none, or where it is not known.
    """

    token: int | None
    state: SlopState


# The position of the first state, and the states from there on, with their tokens. In
# one value, so that an interrupt finds the old history or the new one.
_History: TypeAlias = tuple[int, list[Entry]]


class Slop:
    """Takes `strength` off the logits of tokens that would complete what is unwanted.

    An adjustment of the sampling. Both the prompt and what was emitted count: a line of
    the prompt is a line that the text has had. Pads belong to neither. Positions are
    those of this history: the state at position n is that after its first n tokens, so
    n committed cells and the root are at position n + 1.

    Every state is a value that nothing changes. `adjust` makes those of its rows anew
    from the state at the end and drops them; what a rejected row has made exists
    nowhere afterwards.

    Args:
        scanner: what is unwanted, and how a text is followed.
        strength: subtracted from a logit, above 0; infinite bans the token.

    Raises:
        ValueError: `strength` is not above 0.
    """

    name = "slop"

    def __init__(self, scanner: Scanner, *, strength: float) -> None:
        if not strength > 0:
            raise ValueError(
                f"`strength` is {strength}, wanted a number above 0; to penalise "
                "nothing, leave the penalties out"
            )
        self.scanner, self.strength = scanner, float(strength)
        self._history: _History = 0, [Entry(None, START)]

    def __repr__(self) -> str:
        return f"Slop(position={self.position}, strength={self.strength})"

    @property
    def position(self) -> int:
        """Tokens of the history."""
        first, entries = self._history
        return first + len(entries) - 1

    def assign(self, prompt: Sequence[int], emitted: Sequence[int] = ()) -> None:
        """The history is `prompt` and `emitted` now, whatever it was.

        Tokens at the start that it had already are not scanned again.

        Raises:
            ValueError: a token without a piece; the history is as before.
        """
        tokens = [*prompt, *emitted]
        same = self._known(tokens)
        kept = self._history[1][: same + 1] if same else [Entry(None, START)]
        self._history = 0, kept + self._entries(kept[-1].state, tokens[same:])

    def append(self, emitted: Sequence[int]) -> None:
        """`emitted` follow the history.

        Raises:
            ValueError: a token without a piece; the history is as before.
        """
        entries = self._history[1]
        entries += self._entries(entries[-1].state, emitted)

    def adjust(self, inputs: Sequence[int], logits: np.ndarray) -> np.ndarray:
        """Logits with the penalties of each row; the history stays as it is.

        Args:
            inputs: root and drafts, T tokens; the root is the last of the history.
            logits: float [T, V]; not changed.

        Returns:
            [T, V], of the same dtype.

        Raises:
            ValueError: the shapes do not fit, or the root is another token.
        """
        wanted = (len(inputs), self.scanner.vocab_size)
        if logits.shape != wanted:
            raise ValueError(
                f"`logits` has shape {logits.shape}, wanted {wanted}: a row for each "
                "input, a number for each token of the scanner"
            )
        last = self._history[1][-1].token
        if last is not None and inputs and inputs[0] != last:
            raise ValueError(
                f"row 0 is token {inputs[0]}, wanted {last}, the last of the history; "
                "append what was emitted, or assign the history"
            )
        adjusted = logits.copy()
        for row, state in zip(adjusted, self._rows(inputs), strict=True):
            row[self.scanner.penalised(state)] -= self.strength
        return adjusted

    def at(self, position: int) -> SlopState:
        """The state after the first `position` tokens of the history.

        Raises:
            ValueError: the history does not reach there, or was restored behind it.
        """
        first, entries = self._history
        if not first <= position <= self.position:
            raise ValueError(
                f"there is no state at position {position}, wanted {first} to "
                f"{self.position}; assign the tokens to have every state of a text"
            )
        return entries[position - first].state

    def back(self, position: int) -> None:
        """The history ends after `position` tokens; states up to there are kept.

        For a checkpoint on this text. One on a branch that was left needs the copy that
        `fork` made there, its saved leaves, or its tokens.

        Raises:
            ValueError: as `at`.
        """
        self.at(position)
        first, entries = self._history
        del entries[position - first + 1 :]

    def fork(self) -> "Slop":
        """A copy that goes its own way; the states themselves are shared."""
        copy = type(self)(self.scanner, strength=self.strength)
        first, entries = self._history
        copy._history = first, entries.copy()
        return copy

    def leaves(self) -> dict[str, np.ndarray]:
        """The state at the end, for a file: integer arrays by name."""
        return self.scanner.leaves(self._end)

    def digest(self) -> str:
        """SHA-256 of `leaves`, hexadecimal."""
        return digest_leaves(self.leaves())

    def restore(self, leaves: Mapping[str, np.ndarray], *, position: int) -> None:
        """The history is the one that `leaves` were saved of; no state before is known.

        Args:
            leaves: as `leaves` gave them.
            position: tokens of that history.

        Raises:
            SavedStateError: not such leaves, or made under other rules; the history is
                as before.
            ValueError: `position` is negative.
        """
        if position < 0:
            raise ValueError(f"`position` is {position}, wanted 0 or more tokens")
        state = self.scanner.from_leaves(leaves)
        if position == 0 and state != START:
            raise SavedStateError(
                "the saved penalties belong to a text, and position 0 has none; give "
                "the number of tokens that it had"
            )
        self._history = position, [Entry(None, state)]

    @property
    def _end(self) -> SlopState:
        return self._history[1][-1].state

    def _rows(self, inputs: Sequence[int]) -> list[SlopState]:
        """The state that each row's prediction follows."""
        end = self._end
        return [end, *self.scanner.states(end, inputs[1:])] if inputs else []

    def _entries(self, state: SlopState, tokens: Sequence[int]) -> list[Entry]:
        return list(map(Entry, tokens, self.scanner.states(state, tokens)))

    def _known(self, tokens: Sequence[int]) -> int:
        """How many of `tokens`, from the start, have their states here."""
        first, entries = self._history
        if first:
            return 0
        for same, (new, entry) in enumerate(zip(tokens, entries[1:], strict=False)):
            if new != entry.token:
                return same
        return min(len(tokens), len(entries) - 1)
