"""`StrataWidget`: what every widget here shares, live or as a still picture."""

import os
from typing import Any, Final

import altair as alt
import anywidget

from strata_widgets.still import Bundle, Still, can_draw, picture_bundle, understudy

STILLS: Final = "STRATA_STILLS"


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

    def __init__(self, **traits: Any) -> None:
        known = sorted(n for n in self.trait_names() if not n.startswith("_"))
        for name in traits:
            if not self.has_trait(name):
                raise TypeError(
                    f"{type(self).__name__} has no trait `{name}`; "
                    f"it has {', '.join(f'`{n}`' for n in known)}"
                )
        super().__init__(**traits)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

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
        bundle = super()._repr_mimebundle_(**options)
        if bundle is None:
            return None
        data, metadata = bundle
        data["text/plain"] = self.text()
        if can_draw():
            picture, size = picture_bundle(self.snapshot())
            data, metadata = data | picture, metadata | size
        return data, metadata

    def _ipython_display_(self) -> None:
        from IPython.display import display

        bundle = self._repr_mimebundle_()
        if bundle is None:
            return
        data, metadata = bundle
        if "image/png" in data and not stills_wanted():
            display(understudy(bundle), raw=True)  # type: ignore[no-untyped-call]
        display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
