"""`Still`: a picture and a text that stay when the kernel is gone."""

import base64
import html
import importlib.util
import io
import os
import struct
from pathlib import Path
from typing import Any, Final

VIEW: Final = "application/vnd.jupyter.widget-view+json"
PICTURES: Final = "STRATA_PICTURES"
"""Set to 0, displays have their text and no picture: drawing takes longest."""

_SCALE: Final = 2
_VEGA_LITE: Final = "6.4"
# Of a picture: more than this a chart's lines and letters do not need.
_COLOURS: Final = 128
# So that a white picture has an edge on a dark page, and air inside it.
_EDGE, _AIR = "#919191", 12
_CSS: Final = Path(__file__).with_name("still.css").read_text(encoding="utf-8")

Bundle = tuple[dict[str, Any], dict[str, Any]]


class Still:
    """A picture and a text of a widget at one moment; shows the same for ever.

    Attributes:
        spec: the picture as a Vega-Lite specification with its data inside.
        text: the same in words.
        scale: pixels of the picture for one of the page; less for a large one, whose
            bytes a notebook has to hold.
    """

    def __init__(self, spec: dict[str, Any], text: str) -> None:
        self.spec = spec
        self.text = text
        self.scale: float = _SCALE

    def __repr__(self) -> str:
        return self.text

    def png(self) -> bytes:
        """Return the picture as PNG, `scale` times its size on the page.

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
        spec = {"padding": _AIR, "background": "white", **self.spec}
        made = vl_convert.vegalite_to_png(spec, vl_version=_VEGA_LITE, scale=self.scale)
        return shrunk(bytes(made))

    def _repr_mimebundle_(self, **_: Any) -> Bundle:
        return picture_bundle(self)


def can_draw() -> bool:
    """Return whether pictures can be made, and made small: the `lab` extra is there."""
    return all(importlib.util.find_spec(name) for name in ("vl_convert", "PIL"))


def shrunk(png: bytes) -> bytes:
    """Return `png` with an edge and fewer colours; as it is where Pillow is missing."""
    try:
        from PIL import Image, ImageOps
    except ModuleNotFoundError:
        return png
    image = Image.open(io.BytesIO(png)).convert("RGB")
    framed = ImageOps.expand(image, border=_SCALE, fill=_EDGE)
    # An octree, since a median cut drops the colour of a small legend.
    few = framed.quantize(
        _COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
    )
    out = io.BytesIO()
    few.save(out, "PNG", optimize=True)
    return out.getvalue()


def picture_bundle(still: Still) -> Bundle:
    """Return `still` as display data and metadata: PNG, its shown size, its text.

    With `STRATA_PICTURES=0` the text alone, where it is all that anybody compares.
    """
    if os.environ.get(PICTURES) == "0":
        return {"text/plain": still.text}, {}
    png = still.png()
    # A PNG's header holds its size in pixels: two big-endian integers from byte 16.
    width, height = struct.unpack(">II", png[16:24])
    size = {"width": int(width / still.scale), "height": int(height / still.scale)}
    data = {"image/png": base64.b64encode(png).decode(), "text/plain": still.text}
    alt_text = str(still.spec.get("description", still.text))
    return data, {"image/png": {**size, "alt": alt_text}}


def understudy(bundle: Bundle) -> dict[str, str]:
    """Return HTML that shows the picture in `bundle` when the widget before can't be.

    JupyterLab writes an error into the place of a widget whose kernel is gone, even
    where the same output has a picture. So the picture waits, unseen, in an output of
    its own, and a rule puts it in the place of that error.
    """
    data, metadata = bundle
    shown = metadata["image/png"]
    image = (
        f'<img class="strata-still" width="{shown["width"]}" '
        f'height="{shown["height"]}" alt="{html.escape(shown["alt"])}" '
        f'src="data:image/png;base64,{data["image/png"]}">'
    )
    return {"text/html": f"<style>\n{_CSS}</style>\n{image}", "text/plain": ""}
