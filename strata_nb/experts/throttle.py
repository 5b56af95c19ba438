"""A slower disk than the one at hand, where the page cache hides the real one."""

import math
import threading
import time
from collections.abc import Callable


class Throttle:
    """Says when a read would have been done by a disk of some speed.

    Every read waits for its own `latency_ms`, any number of them at once; their bytes
    then go through one line of `mb_per_s`, one read after the other. A thread that the
    machine wakes late finds what it missed, up to `slack_ms`, still waiting for it.

    Args:
        mb_per_s: millions of bytes a second.
        latency_ms: from asking to the first byte.
        slack_ms: how long an idle line saves up.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        mb_per_s: float,
        *,
        latency_ms: float = 0.0,
        slack_ms: float = 2.0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if not 0 < mb_per_s < math.inf:
            raise ValueError(f"`mb_per_s` is {mb_per_s}, wanted more than 0")
        for name, value in (("latency_ms", latency_ms), ("slack_ms", slack_ms)):
            if not 0 <= value < math.inf:
                raise ValueError(f"`{name}` is {value}, wanted 0 or more milliseconds")
        self.mb_per_s = mb_per_s
        self.latency_ms = latency_ms
        self._slack = slack_ms / 1e3
        self._clock = clock
        self._lock = threading.Lock()
        self._free = clock()

    def due(self, nbytes: int) -> float:
        """Take a place in the line for `nbytes`; the moment when they are through."""
        with self._lock:
            now = self._clock()
            begin = max(self._free, now - self._slack)
            self._free = begin + nbytes / (self.mb_per_s * 1e6)
            return max(self._free, now) + self.latency_ms / 1e3

    def left(self, due: float) -> float:
        """Seconds until `due`, 0 when it has passed."""
        return max(0.0, due - self._clock())
