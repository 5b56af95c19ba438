"""Tokens that mean harm stay data: in words, on the page, in still pictures."""

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any, Final
from xml.etree import ElementTree

import pytest
import vl_convert

from strata_widgets import Acceptance, Stepper, StrataWidget
from strata_widgets._base import STILLS
from strata_widgets.still import understudy
from strata_widgets.tokens import chip
from widgets.fake_model import FakeModel
from widgets.long_run import growing

LONG: Final = "<b>" + "x" * 9_997
EVIL: Final = (
    "<end>",
    '<img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=1</script>",
    "\u202egnp.exe",
    "a\x00b",
    LONG,
    "' + alert(1) + '",
    "\"); datum['x'] = ('",
    "{{ 1 + 1 }} ${window.hacked=1}",
    "\u2028\u2029\x1b[31m",
    "![](x) [a](javascript:alert(1))",
    "$$\\href{javascript:alert(1)}{x}$$",
    "é\u0301\u200d\ufeff",
    "<!-- --><![CDATA[",
    "&lt;img src=x onerror=alert(1)&gt;",
    "\\u202e",
)
SHOWN: Final = ("Acceptance", "Histories", "Stepper")
# Of a picture as SVG: shapes and words, nothing that runs or fetches.
SHAPES: Final = {
    "svg", "g", "path", "text", "tspan", "rect", "line", "defs", "clipPath", "circle",
    "linearGradient", "stop", "title", "desc", "style",
}  # fmt: skip


class EvilModel(FakeModel):
    """Writes the script of the fake model in other words."""

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(EVIL[i] for i in ids)

    def encode(self, text: str) -> list[int]:
        return [EVIL.index(text)]


def made(kind: str) -> StrataWidget:
    every, model = list(range(1, len(EVIL))), EvilModel()
    if kind == "Histories":
        return growing(kind, 48, model=model).view
    if kind == "Acceptance":
        engine = model.engine()
        window = engine.run(every[:8])
        engine.finish(window)
        engine.commit(window, keep=2, force=True)
        return Acceptance(engine, model=model)
    stepper = Stepper(model.engine(), prompt=[*every, 5, 5])
    stepper.run(draft=" ".join(f"#{token}" for token in every[:7]))
    stepper.finish()
    return stepper


@pytest.fixture(scope="module", params=SHOWN)
def view(request: pytest.FixtureRequest) -> Any:
    return made(request.param)


def page_of(view: Any) -> str:
    """All that a page is given, as JSON."""
    charts = [w for w in vars(view).get("_live", {}).values()]
    state = {k: v for k, v in view.get_state().items() if k not in ("_esm", "_css")}
    rows = [chart.rows for chart in charts]
    return json.dumps([state, rows], ensure_ascii=False, default=str)


def test_the_words_show_each_token_and_obey_none(view: Any) -> None:
    words, page = view.text(), page_of(view)
    for said in (words, page):
        assert "<img·src=x·onerror=" in said
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u2028\u2029\x00\x1b]", said)
        assert LONG not in said
    assert "\\u202egnp.exe" in words
    assert "a\\u0000b" in words


def test_a_long_token_is_cut_and_its_length_said(view: Any) -> None:
    assert "… (10000 characters)" in view.text()
    assert len(page_of(view)) < 30_000
    shown = chip(EvilModel(), 5)
    assert shown["id"] == 5
    assert len(shown["text"]) < 100
    # What a real vocabulary has is shown whole.
    model = EvilModel()
    model.decode = lambda ids: "=" * 64  # type: ignore[method-assign]
    assert chip(model, 3)["text"] == "=" * 64


class Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("stills", ["1", "0"])
def test_a_display_has_no_html_but_a_picture(
    view: Any, stills: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[dict[str, Any], dict[str, Any]]] = []
    monkeypatch.setenv(STILLS, stills)
    monkeypatch.setattr(
        "IPython.display.display",
        lambda data, metadata=None, **_: shown.append((data, metadata or {})),
    )
    view._ipython_display_()
    live, metadata = shown[0]
    wanted = {"application/vnd.jupyter.widget-view+json", "text/plain"}
    if stills == "1":
        assert len(shown) == 1
        assert set(live) == wanted | {"image/png"}
        assert metadata["image/png"]["alt"]
        return
    assert set(live) == wanted
    ((data, _),) = shown[1:]
    tags = Tags(data["text/html"]).found
    assert [tag for tag, _ in tags] == ["style", "img"]
    attributes = tags[1][1]
    assert set(attributes) == {"class", "width", "height", "alt", "src"}
    assert attributes["alt"] == view._picture()["description"]
    assert str(attributes["src"]).startswith("data:image/png;base64,")


def test_an_alt_text_cannot_leave_its_attribute() -> None:
    alt = "\">' <img src=x onerror=alert(1)></style><script>"
    size = {"width": 2, "height": 1, "alt": alt}
    page = understudy(({"image/png": "AA=="}, {"image/png": size}))["text/html"]
    tags = Tags(page).found
    assert [tag for tag, _ in tags] == ["style", "img"]
    assert tags[1][1]["alt"] == alt


def test_a_picture_draws_tokens_as_words(view: Any) -> None:
    picture = view._picture()
    svg = vl_convert.vegalite_to_svg(picture)
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        name = element.tag.rpartition("}")[2]
        assert name in SHAPES, name
        for attribute, value in element.attrib.items():
            assert not attribute.lower().startswith("on"), attribute
            assert not value.strip().lower().startswith("javascript:")
    # A chart's expressions run on the page: no token is ever part of one.
    drawn = json.dumps(_without_words(picture))
    for harm in ("onerror", "alert", "script>", "202e", "datum['x'] = ("):
        assert harm not in drawn
    assert view.snapshot().png()[:4] == b"\x89PNG"


def _without_words(spec: Any) -> Any:
    """`spec` without what is data, and without its own descriptions."""
    if isinstance(spec, dict):
        left_out = ("values", "datasets", "description", "title")
        return {k: _without_words(v) for k, v in spec.items() if k not in left_out}
    return [_without_words(each) for each in spec] if isinstance(spec, list) else spec
