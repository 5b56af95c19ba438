"""The text of tokens as they come: whole characters, and an end at stop strings."""

from collections.abc import Callable, Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream


class TextStream:
    """Decodes tokens one by one and looks for stop strings across their borders.

    What is given out is never taken back: bytes of an unfinished character wait for
    the rest of it, and text that a stop string may begin with waits too. Special
    tokens have no text.

    Args:
        tokenizer: of the model; None: tokens have no text at all.
        stop: strings that end the text; they are not part of it.
        show: called with each piece of text as it is certain; None: nobody listens.
    """

    def __init__(
        self,
        tokenizer: Tokenizer | None,
        *,
        stop: Sequence[str] = (),
        show: Callable[[str], None] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._decode = DecodeStream(skip_special_tokens=True)
        self._stop, self._show = tuple(stop), show
        self._text = ""
        self._shown = 0
        self.stopped_by: str | None = None

    @property
    def text(self) -> str:
        """The certain text, which is what has been shown."""
        return self._text[: self._shown]

    def feed(self, tokens: Sequence[int]) -> int:
        """Take tokens until a stop string is complete.

        Args:
            tokens: emitted, in order.

        Returns:
            How many were taken; fewer than all only if a stop string ended the text,
            and then the last of them completed it.
        """
        for taken, token in enumerate(tokens, start=1):
            if self._take(token):
                return taken
        return len(tokens)

    def close(self) -> None:
        """Nothing more will come: show what only waited for a stop string."""
        if self.stopped_by is None:
            self._show_until(len(self._text))

    def _take(self, token: int) -> bool:
        if self._tokenizer is None:
            return False
        piece = self._decode.step(self._tokenizer, token)
        if not piece:
            return False
        longest = max((len(stop) for stop in self._stop), default=1)
        # A stop string that is complete now ends within this piece.
        begin = max(self._shown, len(self._text) - longest + 1)
        self._text += piece
        found = [
            (at, stop)
            for stop in self._stop
            if (at := self._text.find(stop, begin)) >= 0
        ]
        if found:
            # The first in the text; of two that begin there the longer.
            at, self.stopped_by = min(found, key=lambda f: (f[0], -len(f[1])))
            self._text = self._text[:at]
            self._show_until(at)
            return True
        self._show_until(len(self._text) - self._waiting())
        return False

    def _waiting(self) -> int:
        """Characters at the end that a stop string may begin with."""
        # What was shown was no beginning, and so is none of anything longer.
        most = len(self._text) - self._shown
        return max(
            (
                length
                for stop in self._stop
                for length in range(1, min(len(stop), most + 1))
                if self._text.endswith(stop[:length])
            ),
            default=0,
        )

    def _show_until(self, end: int) -> None:
        piece = self._text[self._shown : end]
        if piece:
            self._shown = end
            if self._show is not None:
                self._show(piece)
