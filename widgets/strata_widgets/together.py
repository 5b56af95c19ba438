"""`together`: one message for all that several widgets send at once.

Each message costs the kernel a turn of its lock, and the page a task of its own: a
dozen a window, beside an engine at work, were most of what a drawn frame took.
"""

import contextlib
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import anywidget
import traitlets

_HERE: Final = Path(__file__).parent


def named() -> dict[str, str]:
    """A model's id, for itself to know: the page has no other way to tell it."""
    own = uuid.uuid4().hex
    return {"model_id": own, "_me": own}


class _Carrier(anywidget.AnyWidget):
    """Carries the parts; a page that can take them apart says so."""

    _esm = "".join(
        (_HERE / name).read_text(encoding="utf-8")
        for name in ("page.js", "together.js")
    )

    _me = traitlets.Unicode().tag(sync=True)

    def __init__(self) -> None:
        self.ready = False
        super().__init__(**named())
        self.on_msg(self._heard)

    def __repr__(self) -> str:
        return "Carrier()"

    def _heard(self, _: Any, message: Mapping[str, Any], __: Any) -> None:
        self.ready = self.ready or message.get("kind") == "ready"


_carrier: _Carrier | None = None


class _Gathered(threading.local):
    """What is gathered; None while everything goes at once.

    Of each thread its own, since what another one sends must not wait. Not of each
    context: a call that is booked inside for later must send by itself.
    """

    parts: list[tuple[str, dict[str, Any]]] | None = None


_gathered = _Gathered()


def carrier() -> _Carrier:
    """The one of this kernel, made when it is first wanted."""
    global _carrier
    # `Widget.close_all()` takes the comm away; a closed model can't be opened again.
    if _carrier is None or _carrier.comm is None:
        _carrier = _Carrier()
    return _carrier


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Send at the end, as one message, what widgets send inside.

    Inside another one, nothing is sent before the end of that. Until a page has said
    that it can take the parts apart, each goes by itself.
    """
    if _gathered.parts is not None or not carrier().ready:
        yield
        return
    parts = _gathered.parts = []
    try:
        yield
    finally:
        _gathered.parts = None
        if parts:
            carrier().send({"parts": parts})


def gathered(widget: anywidget.AnyWidget, message: dict[str, Any]) -> bool:
    """Whether `message` goes together with others, later."""
    parts = _gathered.parts
    if parts is None:
        return False
    if widget.comm is not None:
        parts.append((widget.model_id, message))
    return True
