"""What came of one request."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

End: TypeAlias = Literal["stop", "limit", "text", "cancelled"]


@dataclass(frozen=True)
class Reply:
    """One request, answered.

    Attributes:
        text: of the emitted tokens, without special tokens, up to a stop string; an
            unfinished character at the end is left out.
        tokens: emitted tokens; a stop id is the last of them.
        stop: "stop" (a stop id), "limit" (`max_new` or the end of the context), "text"
            (a stop string), "cancelled".
        stop_string: the one that ended the text.
        prompt: tokens of the prompt.
        reused: cells of it that were there already.
        windows: windows it took.
        offered: drafts that took part.
        accepted: drafts that were emitted.
        prefill_ms: time until the first window, ms.
        decode_ms: time of the windows, ms.
    """

    text: str
    tokens: tuple[int, ...]
    stop: End
    stop_string: str | None
    prompt: int
    reused: int
    windows: int
    offered: int
    accepted: int
    prefill_ms: float
    decode_ms: float

    @property
    def tokens_per_window(self) -> float:
        """Emitted tokens a window; 0 without any."""
        return len(self.tokens) / self.windows if self.windows else 0.0

    @property
    def acceptance(self) -> float | None:
        """Accepted drafts of those offered; None where none were."""
        return self.accepted / self.offered if self.offered else None
