"""Views of a run that grows, views that are linked, and tokens that mean harm.

Cases that other notebook tools were reported for. No time is measured: what counts is
what is sent, what is read, and what is kept.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from strata_nb import Trace, WindowRecord
from strata_widgets import LiveChart
from widgets.long_run import (
    KINDS,
    Growing,
    Wire,
    growing,
    held,
    rows_of,
    size,
)

SHORT, LONG, UPDATES = 500, 5_000, 100
MOST_BYTES, MOST_ROWS = 20_000, 160
# Charts of windows or cells one by one: they get what is new and nothing else.
ONE_BY_ONE: Final = ("rows", "rolling", "wanted", "reads", "shares", "cells")


class Reads:
    """Counts the records that anybody takes from any trace."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        item, each = Trace.__getitem__, Trace.__iter__

        def taken(trace: Trace, index: Any) -> Any:
            self.count += 1
            return item(trace, index)

        def walked(trace: Trace) -> Iterator[WindowRecord]:
            for record in each(trace):
                self.count += 1
                yield record

        patch.setattr(Trace, "__getitem__", taken)
        patch.setattr(Trace, "__iter__", walked)


class Followed:
    """A view that grew by `UPDATES` windows: what that took."""

    def __init__(self, grown: Growing, reads: Reads) -> None:
        view, wire = grown.view, Wire.of(grown.view)
        self.kind = type(view).__name__
        self.messages: list[dict[str, list[dict[str, Any]]]] = []
        self.reads: list[int] = []
        for _ in range(UPDATES):
            grown.add()
            reads.count = 0
            view.refresh()
            self.reads.append(reads.count)
            self.messages.append(wire.taken())
        self.rows = {name: len(chart.rows) for name, chart in view._live.items()}
        own = getattr(view, "_own", None)
        engine = getattr(own, "_found", None)
        self.held = held(vars(view), beside=(view.trace, engine))

    def bytes(self, name: str) -> int:
        return sum(size(update[name]) for update in self.messages)


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Followed, Followed]]:
    """The same view behind a short history, and behind a long one."""
    with pytest.MonkeyPatch.context() as patch:
        reads = Reads(patch)
        yield (
            Followed(growing(request.param, SHORT), reads),
            Followed(growing(request.param, LONG), reads),
        )


def test_an_update_is_small_and_one_message_a_chart(
    pair: tuple[Followed, Followed],
) -> None:
    for followed in pair:
        for update in followed.messages:
            assert any(update.values())
            for name, messages in update.items():
                rows = [m for m in messages if rows_of(m) is not None]
                states = [m for m in messages if m.get("state")]
                assert len(rows) <= 1, name
                assert len(states) <= 1, name
                assert len(rows) + len(states) == len(messages), name
                assert size(messages) < MOST_BYTES, name


def test_an_update_sends_new_rows_or_few(pair: tuple[Followed, Followed]) -> None:
    _, long = pair
    # The rows of one window, which `FoldView` draws, are all new.
    one_by_one = () if long.kind == "FoldView" else ONE_BY_ONE
    for update in long.messages:
        for name, messages in update.items():
            for message in messages:
                rows = rows_of(message)
                if rows is None:
                    continue
                new = message["content"]["op"] == "append"
                assert new or name not in one_by_one, name
                # One window: a row a chart, or one for each cell that it kept.
                assert len(rows) <= (8 if new else MOST_ROWS), name


def test_no_update_grows_with_the_history(pair: tuple[Followed, Followed]) -> None:
    short, long = pair
    for name in short.messages[0]:
        # Longer numbers, and pieces of the whole run that come in other moments.
        assert long.bytes(name) < 1.3 * short.bytes(name) + 2_000, name


def test_no_update_reads_the_history(pair: tuple[Followed, Followed]) -> None:
    short, long = pair
    assert min(long.reads) >= 1
    assert max(long.reads) <= max(short.reads)
    assert sum(long.reads) <= sum(short.reads)


def test_a_view_keeps_no_history(pair: tuple[Followed, Followed]) -> None:
    short, long = pair
    for name, rows in [*short.rows.items(), *long.rows.items()]:
        assert rows <= MOST_ROWS, name
    # Less than one entry a window more; sums by length fill up to their own limit.
    assert long.held - short.held < 0.7 * (LONG - SHORT)


@pytest.mark.parametrize("limit", [None, LONG])
def test_a_chart_of_5000_rows_sends_what_is_new(limit: int | None) -> None:
    chart = LiveChart({"mark": "line", "data": {"values": []}}, limit=limit)
    wire = Wire()
    wire.listen("chart", chart)
    chart.replace([{"x": n, "y": 0.5} for n in range(LONG)])
    wire.taken()
    for n in range(LONG, LONG + UPDATES):
        chart.append({"x": n, "y": 0.5})
        (message,) = wire.taken()["chart"]
        assert rows_of(message) == [{"x": n, "y": 0.5}]
        assert message["content"]["op"] == "append"
        assert size([message]) < 200
    assert len(chart.rows) == (limit or LONG + UPDATES)
    assert chart.rows[-1]["x"] == LONG + UPDATES - 1
    # A page that was loaded anew gets all of them, once.
    chart._answer(None, {"kind": "hello"}, None)
    (message,) = wire.taken()["chart"]
    assert rows_of(message) == chart.rows
