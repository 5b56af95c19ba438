"""`Pace`: at most so many calls a second; `Ticker`: a call again and again."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

HZ: Final = 30
"""Messages a second at most; a server drops what comes faster than 1,000."""
LOOKS_HZ: Final = 15
"""Looks a second at what runs on a thread; each sends a message a chart at most."""


class Pace:
    """Calls `send` at once, or a moment later: `HZ` times a second at most.

    Whatever was asked for meanwhile goes with the later call. A plain thread has no
    loop that could call later: whoever owns it calls `flush` at the end.

    Args:
        send: what to call.
    """

    def __init__(self, send: Callable[[], None]) -> None:
        self._send, self._gap = send, 1 / HZ
        self._sent_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        """Ask for a call."""
        if time.monotonic() - self._sent_at >= self._gap:
            self.flush()
        elif self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return
            self._timer = loop.call_later(self._gap, self.flush)

    def flush(self) -> None:
        """Call now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._send()
        self._sent_at = time.monotonic()


class Ticker:
    """Calls `tick` from the kernel's own loop until that returns False.

    Args:
        tick: returns whether to go on.
        hz: calls a second; fewer where one takes more than half of its time, since
            the loop has others to serve.
    """

    def __init__(self, tick: Callable[[], bool], *, hz: float) -> None:
        self._tick, self._gap = tick, 1 / hz
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        """Whether another call is to come."""
        return self._timer is not None

    def start(self, *, instead: str) -> None:
        """Begin; once it runs, nothing.

        Args:
            instead: what to call where there is no loop.

        Raises:
            RuntimeError: there is no loop, outside a notebook.
        """
        if self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError as error:
                raise RuntimeError(
                    f"outside a notebook nobody would look at what comes; use {instead}"
                ) from error
            self._book(loop, self._gap)

    def stop(self) -> None:
        """End; nothing is called any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _book(self, loop: asyncio.AbstractEventLoop, later: float) -> None:
        self._timer = loop.call_later(later, self._call)

    def _call(self) -> None:
        self._timer = None
        began = time.monotonic()
        if self._tick():
            took = time.monotonic() - began
            self._book(asyncio.get_running_loop(), max(self._gap - took, took))
