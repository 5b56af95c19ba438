"""Which window of a trace holds a cell; a number or two a window, and no token."""

from array import array
from bisect import bisect_right

from strata_nb.trace import WindowRecord


class Places:
    """Follows a trace: a window that begins at an earlier cell takes its place.

    Args:
        pad_id: this token of a prompt is a pad.
    """

    def __init__(self, pad_id: int | None) -> None:
        self._pad_id = pad_id
        self.forget()

    def forget(self) -> None:
        """Be as before the first window."""
        self._starts, self._windows = array("q"), array("q")
        self._pads: list[int] = []
        self.end = 0
        """The cell behind the last one."""

    def take(self, window: int, record: WindowRecord) -> bool:
        """Take in the next window; whether it only goes on from the last."""
        at, goes_on = record.position, record.position >= self.end
        while self._starts and self._starts[-1] >= at:
            self._starts.pop()
            self._windows.pop()
        while self._pads and self._pads[-1] >= at:
            self._pads.pop()
        self._starts.append(at)
        self._windows.append(window)
        if record.headless and self._pad_id in record.inputs:
            self._pads += [
                at + row for row, t in enumerate(record.inputs) if t == self._pad_id
            ]
        self.end = at + record.keep
        return goes_on

    def window(self, cell: int) -> int | None:
        """The window in which `cell` was, or that is the last before it."""
        found = bisect_right(self._starts, cell) - 1
        return None if found < 0 else int(self._windows[found])

    def pads_to(self, cell: int) -> int:
        """How many pads the prompt has up to `cell`, it too."""
        return bisect_right(self._pads, cell)
