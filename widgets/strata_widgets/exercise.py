"""`Exercise`: a task for a reader, with a check and a way back to its beginning."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Bench = TypeVar("Bench")


class Exercise(Generic[Bench]):
    """A task whose answer can be checked, as often as one likes.

    Example:
        >>> task = Exercise(model.engine, check=same_state)
        >>> task.bench  # what to work on: an engine of its own
        >>> task.check(answer)
        Not yet: ...
        >>> task.reset()  # a fresh one

    Args:
        begin: makes what the reader works on; called again by `reset`.
        check: takes the bench and the answer; returns None when the answer is right,
            else what is still wrong, in words that help and do not give it away.
        right: what to say of a right answer: why it is right.

    Attributes:
        bench: what the reader works on.
        marked: what became of the last answer; None before the first.
    """

    def __init__(
        self,
        begin: Callable[[], Bench],
        *,
        check: Callable[[Bench, Any], str | None],
        right: str,
    ) -> None:
        self._begin, self._check, self._right = begin, check, right
        self.bench: Bench = begin()
        self.marked: Marked | None = None

    def __repr__(self) -> str:
        return "Exercise(check an answer with `check`, begin again with `reset`)"

    def check(self, answer: Any = None) -> "Marked":
        """Return what becomes of `answer`; a wrong one breaks nothing."""
        try:
            wrong = self._check(self.bench, answer)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            wrong = f"the check could not read {answer!r}: {error}"
        right = wrong is None
        self.marked = Marked(right, self._right if wrong is None else wrong)
        return self.marked

    def reset(self) -> Bench:
        """Begin again; return what to work on."""
        self.bench, self.marked = self._begin(), None
        return self.bench


class Marked:
    """A checked answer; a cell shows it as one line.

    Attributes:
        right: whether it was.
        words: why, or what is still wrong.
    """

    def __init__(self, right: bool, words: str) -> None:
        self.right, self.words = right, words

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        return f"{'Right' if self.right else 'Not yet'}: {self.words}"
