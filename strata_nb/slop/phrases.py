"""Phrases in a text that grows token by token."""

from collections.abc import Sequence

import numpy as np

from strata_nb.slop.pieces import PieceTable

_ROOM = 4096  # answers kept; one more and all are dropped


class Phrases:
    """Which tokens would complete a phrase.

    Args:
        pieces: bytes by token, in the letters that phrases are compared in.
        phrases: what to look for, in the same letters, each once.
    """

    def __init__(self, pieces: Sequence[bytes], phrases: Sequence[bytes]) -> None:
        self._phrases = sorted(phrases)
        self._known = frozenset(phrases)
        self.starts = frozenset(p[:n] for p in phrases for n in range(len(p))) | {b""}
        """Every true beginning of a phrase, and the empty one."""
        self._most = max(map(len, phrases), default=1) - 1
        self._pieces = PieceTable(pieces if phrases else ())
        self._sorted = PieceTable(self._phrases)
        self._whole = np.array(
            [i for i, piece in enumerate(pieces) if self._is_in(piece)], np.int64
        )
        self._found: dict[bytes, np.ndarray] = {}

    def follow(self, tail: bytes, piece: bytes) -> bytes:
        """The longest end of the text that begins a phrase, `piece` later."""
        text = (tail + piece)[-self._most :] if self._most else b""
        for at in range(len(text)):
            if text[at:] in self.starts:
                return text[at:]
        return b""

    def completing(self, tail: bytes) -> np.ndarray:
        """Tokens that would complete a phrase after `tail`: int64, ascending."""
        found = self._found.get(tail)
        if found is None:
            if len(self._found) >= _ROOM:
                self._found.clear()
            found = self._found[tail] = self._look(tail)
        return found

    def _look(self, tail: bytes) -> np.ndarray:
        found = [self._whole]
        # Every end of the text that begins a phrase is an end of the longest one.
        for at in range(len(tail)):
            head = tail[at:]
            for index in self._sorted.starting(head):
                rest = self._phrases[index][len(head) :]
                if rest:
                    found.append(self._pieces.starting(rest))
        ids = np.unique(np.concatenate(found))
        ids.flags.writeable = False  # it is given out again
        return ids

    def _is_in(self, piece: bytes) -> bool:
        """Whether `piece` holds a whole phrase."""
        for at in range(len(piece)):
            for end in range(at + 1, len(piece) + 1):
                if piece[at:end] in self._known:
                    return True
                if piece[at:end] not in self.starts:
                    break
        return False
