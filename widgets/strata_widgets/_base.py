"""`StrataWidget`: what every widget here shares, live or as a still picture."""

import base64
import os
import struct
from typing import Any, Final

import altair as alt
import anywidget

STILLS: Final = "STRATA_STILLS"
_SCALE: Final = 2
_VEGA_LITE: Final = "6.4"


def stills_wanted() -> bool:
    """Return whether each display makes its picture too (`STRATA_STILLS=1`).

    A picture costs 40 to 80 ms, and only a page without a kernel needs it.
    """
    return os.environ.get(STILLS) == "1"


class Still:
    """A picture and a text of a widget at one moment; shows the same for ever.

    Attributes:
        spec: the picture as a Vega-Lite specification with its data inside.
        text: the same in words.
    """

    def __init__(self, spec: dict[str, Any], text: str) -> None:
        self.spec = spec
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def png(self) -> bytes:
        """Return the picture as PNG, at twice its size on the page.

        Raises:
            ModuleNotFoundError: vl-convert is missing; the `lab` extra has it.
        """
        try:
            import vl_convert
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "a still picture needs vl-convert; install the `lab` extra, or read "
                "the widget's text with `print(widget.text())`"
            ) from error
        made = vl_convert.vegalite_to_png(
            self.spec, vl_version=_VEGA_LITE, scale=_SCALE
        )
        return bytes(made)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return picture_bundle(self)


def picture_bundle(still: Still) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `still` as display data and metadata: PNG, its shown size, its text."""
    png = still.png()
    # A PNG's header holds its size in pixels: two big-endian integers from byte 16.
    width, height = struct.unpack(">II", png[16:24])
    size = {"width": width // _SCALE, "height": height // _SCALE}
    data = {"image/png": base64.b64encode(png).decode(), "text/plain": still.text}
    alt_text = str(still.spec.get("description", still.text))
    return data, {"image/png": {**size, "alt": alt_text}}


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

    def _repr_mimebundle_(
        self, **options: Any
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        bundle = super()._repr_mimebundle_(**options)
        if bundle is None:
            return None
        data, metadata = bundle
        data["text/plain"] = self.text()
        if stills_wanted():
            picture, size = picture_bundle(self.snapshot())
            data, metadata = data | picture, metadata | size
        return data, metadata
