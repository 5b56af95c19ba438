"""Ten views that are linked, and selections that come while something else goes on.

A selection costs each view one round, whoever set it, and never comes back for more.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from strata_nb import Engine
from strata_widgets import (
    Acceptance,
    Economics,
    ExpertMap,
    FoldView,
    Histories,
    SlotsAndIO,
    StateDiff,
    TailView,
    Timeline,
    link,
)
from strata_widgets.panel import Panel
from widgets.fake_model import SCRIPT, FakeModel
from widgets.long_run import KINDS, Wire, growing, rows_of

WINDOWS = 24


def run(engine: Engine, windows: int) -> None:
    """Windows of three rows, of which two stay."""
    for number in range(windows):
        window = engine.run([3 + number % 5, 8, 9])
        engine.finish(window)
        engine.commit(window, keep=2, force=True)


def ten() -> list[Panel]:
    """Ten views of one engine."""
    engine = FakeModel().engine()
    engine.prefill(SCRIPT[:3])
    run(engine, WINDOWS - 1)
    kinds: list[Callable[[Any], Panel]] = [
        Timeline,
        Acceptance,
        Economics,
        ExpertMap,
        SlotsAndIO,
        lambda engine: FoldView(engine.trace),
        Histories,
    ]
    made = [kind(engine) for kind in kinds]
    states = engine.leaves(), engine.fork().leaves()
    apart = StateDiff(*states, position=engine.position, ratio=4)
    return [*made, TailView(), apart, Timeline(engine)]


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[Panel]:
    """Each view that drew itself, in order; more than 1,000 rounds are an error."""
    drawn: list[Panel] = []
    update = Panel.update

    def counted(view: Panel) -> None:
        drawn.append(view)
        assert len(drawn) < 1_000, "views go on moving each other"
        update(view)

    monkeypatch.setattr(Panel, "update", counted)
    return drawn


def chosen(views: list[Panel]) -> list[Any]:
    return [view.selection for view in views]


def test_one_selection_moves_ten_views_once_each(rounds: list[Panel]) -> None:
    views = ten()
    link(*views)
    wires = [Wire.of(view) for view in views]
    for number, source in enumerate(views):
        rounds.clear()
        source.select(window=number, layer=number % 4, cell=number + 2)
        wanted = {"window": number, "layer": number % 4, "cell": number + 2}
        assert chosen(views) == [wanted] * 10
        assert sorted(map(id, rounds)) == sorted(map(id, views))
        for view, wire in zip(views, wires, strict=True):
            for name, messages in wire.taken().items():
                sent = sum(rows_of(m) is not None for m in messages)
                assert sent <= 1, (view, name)
                assert len(messages) - sent <= 1, (view, name)
            for name in view.SELECTS:
                assert view._page["selection"][name] == wanted[name]


def test_a_selection_that_is_there_already_moves_nothing(rounds: list[Panel]) -> None:
    views = ten()
    link(*views)
    views[3].select(window=4)
    wires = [Wire.of(view) for view in views]
    rounds.clear()
    for view in views:
        view.select(window=4)
    assert not rounds
    assert not any(any(wire.taken().values()) for wire in wires)


def test_unlinked_views_stay_where_they_are(rounds: list[Panel]) -> None:
    views = ten()
    unlink = link(*views)
    views[0].select(window=4)
    unlink()
    rounds.clear()
    views[0].select(window=9)
    assert len(rounds) == 1
    assert [each["window"] for each in chosen(views)] == [9, *[4] * 9]
    # What is undone twice, or linked with a view named twice, is as after once.
    unlink()
    unlink = link(*views, views[0])
    unlink()
    link(*views)
    assert [each["window"] for each in chosen(views)] == [9] * 10


def test_views_linked_in_a_ring_and_twice_come_to_rest(rounds: list[Panel]) -> None:
    views = ten()
    for one, other in zip(views, [*views[1:], views[0]], strict=True):
        link(one, other)
    link(*views)
    link(*reversed(views))
    rounds.clear()
    views[6].select(window=7)
    assert [each["window"] for each in chosen(views)] == [7] * 10
    assert len(rounds) == 10


def test_a_view_that_wants_another_window_has_the_last_word(
    rounds: list[Panel],
) -> None:
    views = ten()
    link(*views)

    def even(change: Any) -> None:
        window = change["new"]["window"]
        if window is not None and window % 2:
            views[4].select(window=window - 1)

    views[4].observe(even, "selection")
    rounds.clear()
    views[0].select(window=7)
    assert [each["window"] for each in chosen(views)] == [6] * 10
    assert len(rounds) <= 30
    for view in views:
        if "window" in view.SELECTS:
            view._pace.flush()
            assert view._page["selection"]["window"] == 6


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("place", ["_draw", "_status", "_values"])
def test_a_selection_set_while_a_refresh_is_under_way_is_shown(
    kind: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = growing(kind, WINDOWS)
    view, other = grown.view, Timeline(grown.view.trace)
    wire = Wire.of(view)
    link(view, other)
    whole = getattr(view, place)
    asked: list[bool] = []

    def interrupted() -> Any:
        found = whole()
        if not asked:
            asked.append(True)
            other.select(window=WINDOWS - 3)
        return found

    grown.add()
    monkeypatch.setattr(view, place, interrupted)
    view.refresh()
    assert asked
    assert view.selection["window"] == WINDOWS - 3
    _same_as_on_a_page(view, wire)
    # The next window comes once.
    grown.grow()
    _same_as_on_a_page(view, wire)


def tables(view: Any) -> list[Any]:
    """What the page shows, but for answers that a reader asks for again."""
    shown = view._page["tables"]
    return [t for t in shown if not t["caption"].startswith("Why am I slower")]


def _same_as_on_a_page(view: Any, wire: Wire) -> None:
    """Hold `view`, and what its page was sent last, against a view made now."""
    for name, messages in wire.taken().items():
        for state in (m["state"] for m in messages if m.get("state")):
            part = view if name == "panel" else view._live[name]
            last = {field: getattr(part, field) for field in state}
        if messages and messages[-1].get("state"):
            assert state == json.loads(json.dumps(last)), name
    source = view.trace if not isinstance(view, Histories) else view._own._found
    how: dict[str, Any] = {}
    if isinstance(view, ExpertMap):
        how = {"experts": view.experts, "chosen": view.chosen}
    if isinstance(view, Acceptance):
        how = {"model": view._model}
    fresh = type(view)(source, selection=view.selection, **how)
    assert view.text() == fresh.text()
    assert view._page["status"] == fresh._page["status"]
    assert tables(view) == tables(fresh)
    for name, chart in view._live.items():
        assert chart.values == fresh._live[name].values, name
        assert chart.rows == fresh._live[name].rows, name


def test_a_follower_that_selects_the_newest_window_takes_all_along() -> None:
    views = ten()
    link(*views)
    line = views[0]
    assert isinstance(line, Timeline)
    engine = views[6]._own._found
    for _ in range(3):
        run(engine, 1)
        for view in views:
            if isinstance(view, Timeline):
                # As a reader's own view would do it while the others are behind.
                view.select(window=len(engine.trace) - 1)
            if hasattr(view, "refresh"):
                view.refresh()
    assert [each["window"] for each in chosen(views)] == [WINDOWS + 2] * 10
    for view in views:
        assert "which this trace lacks" not in view.text()
