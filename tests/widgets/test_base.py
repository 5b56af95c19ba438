import base64
import builtins
import struct
from typing import Any

import altair as alt
import pytest
import traitlets

from strata_widgets import Still, StrataWidget
from strata_widgets._base import STILLS


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


def test_a_display_is_a_view_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STILLS, raising=False)
    bundle = Dial()._repr_mimebundle_()
    assert bundle is not None
    data, _ = bundle
    assert set(data) == {"text/plain", "application/vnd.jupyter.widget-view+json"}


def test_a_display_has_its_picture_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STILLS, "1")
    bundle = Dial()._repr_mimebundle_()
    assert bundle is not None
    data, metadata = bundle
    png = base64.b64decode(data["image/png"])
    width, height = struct.unpack(">II", png[16:24])
    shown = metadata["image/png"]
    assert (shown["width"], shown["height"]) == (width // 2, height // 2)
    assert shown["alt"] == "a dial at 3"
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
