"""`StrataWidget`: what every widget here shares, live or as a still picture."""

import os
from pathlib import Path
from typing import Any, Final

import altair as alt
import anywidget
import traitlets

from strata_widgets import together
from strata_widgets.still import Bundle, Still, can_draw, picture_bundle, understudy

STILLS: Final = "STRATA_STILLS"

_PAGE: Final = Path(__file__).with_name("page.js").read_text(encoding="utf-8")


def module(path: Path) -> str:
    """Return the page's half of a widget: what all widgets need, then its own.

    One text, since the page gets it from the kernel and could import no other.
    """
    return _PAGE + path.read_text(encoding="utf-8")


def stills_wanted() -> bool:
    """Return whether displays are for a page without a kernel (`STRATA_STILLS=1`).

    Each widget is then one output, without the understudy that a live page needs.
    """
    return os.environ.get(STILLS) == "1"


class StrataWidget(anywidget.AnyWidget):
    """A view of a trace or an engine; it decides nothing and fetches nothing.

    A subclass gives `text()` and `_picture()`, and keeps both free of addresses, times
    and random names: notebooks compare the text from run to run.
    """

    # What the page's half looks itself up by.
    _me = traitlets.Unicode().tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        known = sorted(n for n in self.trait_names() if not n.startswith("_"))
        for name in traits:
            if not self.has_trait(name):
                raise TypeError(
                    f"{type(self).__name__} has no trait `{name}`; "
                    f"it has {', '.join(f'`{n}`' for n in known)}"
                )
        super().__init__(**together.named(), **traits)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _send(self, msg: dict[str, Any], buffers: Any = None) -> None:
        if buffers or not together.gathered(self, msg):
            super()._send(msg, buffers=buffers)

    def text(self) -> str:
        """Return what the widget shows, in words; equal states give equal text."""
        return repr(self)

    def _picture(self) -> alt.TopLevelMixin | dict[str, Any]:
        raise NotImplementedError(
            f"{type(self).__name__} must draw itself in `_picture`"
        )

    def snapshot(self) -> Still:
        """Return a picture of the state now; show it as the last line of a cell."""
        picture = self._picture()
        spec = picture if isinstance(picture, dict) else picture.to_dict()
        return Still(spec, self.text())

    def _repr_mimebundle_(self, **options: Any) -> Bundle | None:
        view = self._shown_live(**options)
        return None if view is None else _joined(view, self._still())

    def _shown_live(self, **options: Any) -> Bundle | None:
        bundle = super()._repr_mimebundle_(**options)
        if bundle is None:
            return None
        data, metadata = bundle
        return {**data, "text/plain": self.text()}, metadata

    def _still(self) -> Bundle:
        return picture_bundle(self.snapshot()) if can_draw() else ({}, {})

    def _ipython_display_(self) -> None:
        from IPython.display import display

        self._settle()
        view = self._shown_live()
        if view is None:
            return
        if stills_wanted():
            data, metadata = _joined(view, self._still())
            display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
            return
        data, metadata = view
        # A picture takes longer to draw than all of the view.
        display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
        still = self._still()
        if "image/png" in still[0]:
            display(understudy(still), raw=True)  # type: ignore[no-untyped-call]

    def _settle(self) -> None:
        """Put into the widget's state what a page should have before it asks."""


def _joined(one: Bundle, other: Bundle) -> Bundle:
    return one[0] | other[0], one[1] | other[1]
