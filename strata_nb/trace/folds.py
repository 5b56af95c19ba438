"""What the fold of the recurrent state does in a window, as its record tells it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from strata_nb.trace.records import WindowRecord

When: TypeAlias = Literal["commit", "next run", "never"]


@dataclass(frozen=True)
class Fold:
    """The fold of one window.

    Attributes:
        sure: rows that the state of the run's end has taken in, because they are kept
            in any case: all of a prompt and of a window of one row, row 0 with
            `partial`, else none. None: the record does not say.
        root: the state after row 0 is there, though more rows follow.
        replayed: kept rows that are replayed, from `sure` on.
        when: at the commit (eager), with the next run (lazy), or never, as no kept row
            is left over; None: the record does not say.
    """

    sure: int | None
    root: bool
    replayed: range
    when: When | None

    @property
    def due(self) -> int | None:
        """Rows that the next run begins with; None: the record does not say."""
        if self.when is None:
            return None
        return len(self.replayed) if self.when == "next run" else 0


def fold_of(record: WindowRecord) -> Fold:
    """What a sound engine folds in the window of `record`."""
    T, keep = record.T, record.keep
    if record.headless or T == 1:
        return Fold(T, False, range(keep, keep), "never")
    if record.partial is None:
        return Fold(None, False, range(0), None)
    sure = int(record.partial)
    replayed = range(sure, keep)
    when: When | None = None
    if not replayed:
        when = "never"
    elif record.fold is not None:
        when = "commit" if record.fold == "eager" else "next run"
    return Fold(sure, bool(record.partial), replayed, when)
