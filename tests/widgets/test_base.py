import base64
import builtins
import importlib.util
import io
import struct
import subprocess
import sys
from typing import Any

import altair as alt
import pytest
import traitlets

from strata_widgets import Still, StrataWidget
from strata_widgets._base import STILLS
from strata_widgets.still import PICTURES, VIEW, shrunk


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


def test_a_live_display_has_its_understudy_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(STILLS, raising=False)
    live, still = shown(Dial(), monkeypatch)
    # At once: the picture takes longer than all the rest.
    assert set(live) == {"text/plain", VIEW}
    assert "data:image/png;base64," in still["text/html"]
    assert "display: none" in still["text/html"]


def test_a_widget_is_shown_before_its_picture_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(STILLS, raising=False)
    monkeypatch.setattr(Still, "png", lambda _: 1 / 0)
    published: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "IPython.display.display", lambda data, **_: published.append(data)
    )
    with pytest.raises(ZeroDivisionError):
        Dial()._ipython_display_()
    assert [VIEW in data for data in published] == [True]


def test_a_display_for_a_page_without_kernel_is_one_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(STILLS, "1")
    (live,) = shown(Dial(), monkeypatch)
    assert "image/png" in live


def test_where_nobody_wants_pictures_none_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(STILLS, raising=False)
    monkeypatch.setenv(PICTURES, "0")
    (live,) = shown(Dial(), monkeypatch)
    assert set(live) == {"text/plain", VIEW}
    assert Dial().snapshot()._repr_mimebundle_() == ({"text/plain": "Dial(3)"}, {})


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


def test_a_grammar_that_no_chart_needs_is_not_built() -> None:
    if importlib.util.find_spec("rfc3987_syntax") is None:
        pytest.skip("jsonschema finds no checker of international web addresses")
    code = (
        "import sys, strata_widgets, altair; print('lark' in sys.modules); "
        "import rfc3987_syntax"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("False\n", "")


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
