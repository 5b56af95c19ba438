"""One request: its text, its ends, and who listens."""

import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from strata_nb import refusals


@dataclass(frozen=True)
class Transcript:
    """All tokens of a text so far: pads too, the root last.

    Attributes:
        ids: tokens.
        prompt: how many of them were given; the others were emitted.
    """

    ids: tuple[int, ...] = ()
    prompt: int = 0

    def without(self, pad_id: int | None) -> tuple[list[int], list[int]]:
        """Prompt without pads, and what was emitted."""
        given = [i for i in self.ids[: self.prompt] if i != pad_id]
        return given, list(self.ids[self.prompt :])


@dataclass(frozen=True)
class Request:
    """What is asked of a session.

    Attributes:
        text: to go on from.
        max_new: tokens to emit at most.
        stop: strings that end the text, wherever token borders lie.
        stop_ids: tokens that end the text; None takes the model's.
        show: called with each piece of text as soon as it is certain.
        progress: called with (rows done, rows in all) while a prompt is read.
        cancel: asked between windows; True ends the text there.

    Raises:
        TypeError: `stop` is one string, or `max_new` no integer.
        ValueError: nothing to go on from, a negative `max_new`, an empty stop string.
    """

    text: Transcript
    max_new: int
    stop: Sequence[str] = ()
    stop_ids: Collection[int] | None = None
    show: Callable[[str], None] | None = None
    progress: Callable[[int, int], None] | None = None
    cancel: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        if not self.text.ids:
            raise ValueError("a request wants a token to go on from, got none at all")
        if operator.index(self.max_new) < 0:
            raise ValueError(f"`max_new` is {self.max_new}, wanted 0 or more tokens")
        # Read once, so that an iterator serves too.
        stop = tuple(self.stop) if isinstance(self.stop, Iterable) else None
        if (
            stop is None
            or isinstance(self.stop, str)
            or not all(isinstance(s, str) for s in stop)
        ):
            raise TypeError(f"`stop` wants a list of strings, got {self.stop!r}")
        object.__setattr__(self, "stop", stop)
        if not all(self.stop):
            raise ValueError("a stop string is empty; wanted at least one character")
        if self.stop_ids is not None:
            object.__setattr__(self, "stop_ids", refusals.stop_ids(self.stop_ids))
