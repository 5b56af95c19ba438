"""Work on a thread of its own, or here; nothing in it waits for a page."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Piece = TypeVar("Piece")
Outcome = TypeVar("Outcome")


class Job(Generic[Piece, Outcome]):
    """One run, its pieces as they come, and what came of it.

    All of the work is done on one thread, since MLX's streams belong to threads.

    Args:
        work: runs, hands over each piece, asks whether to stop.
        kind: what its panel calls it.
        name: of its thread.
    """

    def __init__(
        self,
        work: Callable[[Callable[[Piece], None], Callable[[], bool]], Outcome],
        *,
        kind: str,
        name: str = "strata-job",
    ) -> None:
        self.kind, self._name = kind, name
        self.outcome: Outcome | None = None
        self.failed: BaseException | None = None
        self._work = work
        self._came: deque[Piece] = deque()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def stopping(self) -> bool:
        """Whether it was asked to end."""
        return self._stop.is_set()

    @property
    def alive(self) -> bool:
        """Whether its thread is at work."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin on a thread of its own."""
        self._thread = threading.Thread(target=self._kept, name=self._name, daemon=True)
        self._thread.start()

    def run(self, told: Callable[[], None] = lambda: None) -> Outcome:
        """Run here; `told` is called after each piece."""

        def each(piece: Piece) -> None:
            self._came.append(piece)
            told()

        self.outcome = self._work(each, self._stop.is_set)
        return self.outcome

    def stop(self) -> None:
        """End as soon as the work asks."""
        self._stop.set()

    def taken(self) -> Iterator[Piece]:
        """Pieces that came since the last call."""
        while self._came:
            yield self._came.popleft()

    def _kept(self) -> None:
        try:
            self.outcome = self._work(self._came.append, self._stop.is_set)
        except BaseException as error:
            # The panel says it: a thread has nobody to raise to.
            self.failed = error
