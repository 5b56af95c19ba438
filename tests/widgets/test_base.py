import base64
import builtins
import importlib.util
import io
import struct
from typing import Any

import altair as alt
import pytest
import traitlets

from strata_widgets import Still, StrataWidget
from strata_widgets._base import STILLS
from strata_widgets.still import VIEW, shrunk


class Dial(StrataWidget):
    _esm = "export default { render() {} };"
    level = traitlets.Int(3).tag(sync=True)

    def __repr__(self) -> str:
        return f"Dial({self.level})"

    def _picture(self) -> alt.Chart:
        rows = alt.InlineData(values=[{"level": self.level}])
        base = alt.Chart(
            rows, description=f"a dial at {self.level}", width=60, height=40
        )
        return base.mark_bar().encode(x="level:Q")  # type: ignore[no-any-return]


def test_an_unknown_trait_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"Dial has no trait `levle`; it has .*`level`"):
        Dial(levle=4)
    assert Dial(level=4).level == 4


def test_text_repeats_and_has_no_address() -> None:
    assert repr(Dial()) == Dial().text() == "Dial(3)"


def shown(dial: Dial, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a display of `dial` publishes."""
    published: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "IPython.display.display", lambda data, **_: published.append(data)
    )
    dial._ipython_display_()
    return published


def test_a_live_display_has_its_understudy_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(STILLS, raising=False)
    still, live = shown(Dial(), monkeypatch)
    assert set(live) == {"text/plain", "image/png", VIEW}
    assert live["image/png"] in still["text/html"]
    assert "display: none" in still["text/html"]


def test_a_display_for_a_page_without_kernel_is_one_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(STILLS, "1")
    (live,) = shown(Dial(), monkeypatch)
    assert "image/png" in live


@pytest.mark.parametrize("missing", ["vl_convert", "PIL"])
def test_without_the_lab_extra_a_display_is_a_view_and_text(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n: None if n == missing else find(n)
    )
    (live,) = shown(Dial(), monkeypatch)
    assert set(live) == {"text/plain", VIEW}


def test_a_picture_keeps_its_colours_when_it_is_made_small() -> None:
    from PIL import Image

    size, red = (400, 300), (176, 62, 12)
    image = Image.effect_noise(size, 90).convert("RGB")
    image.paste(red, (4, 4, 12, 12))
    out = io.BytesIO()
    image.save(out, "PNG")
    small = shrunk(out.getvalue())
    assert len(small) < len(out.getvalue())
    made = Image.open(io.BytesIO(small)).convert("RGB")
    assert made.size == (size[0] + 4, size[1] + 4)
    got = made.getpixel((10, 10))
    assert isinstance(got, tuple)
    assert max(abs(a - b) for a, b in zip(got, red, strict=True)) <= 8


def test_a_display_has_its_picture_at_half_its_pixels() -> None:
    bundle = Dial()._repr_mimebundle_()
    assert bundle is not None
    data, metadata = bundle
    png = base64.b64decode(data["image/png"])
    width, height = struct.unpack(">II", png[16:24])
    about = metadata["image/png"]
    assert (about["width"], about["height"]) == (width // 2, height // 2)
    assert about["alt"] == "a dial at 3"
    assert data["text/plain"] == "Dial(3)"


def test_a_snapshot_stays_as_it_was() -> None:
    dial = Dial()
    still = dial.snapshot()
    dial.level = 9
    assert repr(still) == "Dial(3)"
    assert still.spec["description"] == "a dial at 3"


def test_without_vl_convert_a_picture_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "vl_convert":
            raise ModuleNotFoundError(name)
        return whole(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match="install the `lab` extra"):
        Still({}, "text").png()
