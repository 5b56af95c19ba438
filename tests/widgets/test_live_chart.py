import asyncio
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import altair as alt
import pytest

import strata_widgets.live_chart
from strata_widgets import LiveChart, charts

FOLDER = Path(strata_widgets.live_chart.__file__).parent


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    monkeypatch.setattr(LiveChart, "send", lambda _, message: messages.append(message))
    return messages


def chart(*values: int) -> alt.Chart:
    rows = alt.InlineData(values=[{"v": v} for v in values])
    pick = alt.selection_point(name="pick", fields=["v"])
    made: alt.Chart = alt.Chart(rows, title="Vs").mark_bar().encode(x="v:Q")
    return made.add_params(pick)


def test_rows_travel_apart_from_the_drawing() -> None:
    live = LiveChart(chart(1, 2))
    assert live.rows == [{"v": 1}, {"v": 2}]
    assert live.spec["data"] == {"name": "live"}
    assert "datasets" not in live.spec
    assert live._watch == ["pick"]


def test_the_same_drawing_is_not_sent_again() -> None:
    live = LiveChart(charts.acceptance_over_windows([]))
    drawn: list[Any] = []
    live.observe(drawn.append, "spec")
    live.show(charts.acceptance_over_windows([]))
    assert drawn == []
    live.show(charts.acceptance_by_position([]))
    assert len(drawn) == 1


def test_appends_are_gathered(sent: list[dict[str, Any]]) -> None:
    async def many() -> None:
        live = LiveChart(chart(), limit=3)
        for v in range(200):
            live.append({"v": v})
        await asyncio.sleep(2 / LiveChart.HZ)

    # In a thread of its own: browser tests leave a running loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, many()).result()
    assert len(sent) <= 3
    assert sent[-1]["rows"][-1] == {"v": 199}
    assert len(sent[-1]["rows"]) == 3
    assert [m["seq"] for m in sent] == list(range(1, len(sent) + 1))


def test_a_plain_thread_flushes_at_its_end(sent: list[dict[str, Any]]) -> None:
    live = LiveChart(chart())
    live.append({"v": 1})
    live.append({"v": 2})
    live.flush()
    assert [row["v"] for m in sent for row in m["rows"]] == [1, 2]


def test_a_reloaded_page_gets_all_rows(sent: list[dict[str, Any]]) -> None:
    live = LiveChart(chart(1, 2))
    live._answer(None, {"kind": "hello"}, None)
    assert (sent[-1]["op"], len(sent[-1]["rows"])) == ("reset", 2)


def test_a_page_has_rows_before_it_asks(sent: list[dict[str, Any]]) -> None:
    """While cells run, nobody would answer."""
    live = LiveChart(chart(1, 2), limit=3)
    assert (live._first["op"], live._first["seq"]) == ("reset", 0)
    assert live._first["rows"] == [{"v": 1}, {"v": 2}]
    live.append({"v": 3})
    live.append({"v": 4})
    live.begin()
    assert live._first["rows"] == live.rows == [{"v": 2}, {"v": 3}, {"v": 4}]
    assert live._first["seq"] > sent[-1]["seq"]
    # All rows are in it: what waited is not sent a second time.
    live.append({"v": 5})
    live.flush()
    assert (sent[-1]["op"], sent[-1]["rows"]) == ("append", [{"v": 5}])
    assert sent[-1]["seq"] > live._first["seq"]


def test_a_display_begins_with_the_rows_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_PICTURES", "0")
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: None)
    live = LiveChart(chart(1))
    live.append({"v": 2})
    assert len(live._first["rows"]) == 1
    live._ipython_display_()
    assert live._first["rows"] == [{"v": 1}, {"v": 2}]


def test_all_charts_share_one_library() -> None:
    one, other = LiveChart(chart()), LiveChart(chart())
    assert one._lib is other._lib
    one._lib.close()
    assert LiveChart(chart())._lib is not one._lib


def test_a_chart_with_data_elsewhere_is_refused() -> None:
    away = alt.Chart("https://example.invalid/rows.csv").mark_bar()
    with pytest.raises(ValueError, match="wants one data set with its rows inside"):
        LiveChart(away)


def test_what_is_no_chart_is_refused() -> None:
    with pytest.raises(TypeError, match=r"wants an Altair chart, or Vega-Lite .* int"):
        LiveChart(3)  # type: ignore[arg-type]


def test_its_text_has_no_address() -> None:
    assert repr(LiveChart(chart(1, 2))) == "LiveChart('Vs', rows=2)"


def build_vega() -> ModuleType:
    path = FOLDER.parents[2] / "tools/build_vega.py"
    spec = importlib.util.spec_from_file_location("build_vega", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bundle_is_the_one_that_was_built() -> None:
    tool = build_vega()
    digest = (FOLDER / "vega_lib.sha256").read_text().strip()
    assert tool.TARGET == FOLDER / "vega_lib.js"
    assert tool.digest(tool.TARGET.read_text()) == digest
    assert tool.digest(tool.bundle()) == digest


def test_the_bundle_s_licences_lie_beside_it() -> None:
    text = (FOLDER / "vega_lib.LICENSE.txt").read_text()
    for name in (
        "vega 6",
        "vega-lite 6",
        "vega-embed 7",
        "d3-array",
        "topojson-client",
    ):
        assert name in text
