"""`LiveRun`: a request beside its views, its end, its errors, Cancel."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import strata_nb
from strata_nb import Session
from strata_widgets import LiveRun, Timeline

PROMPT = "def area(r):\n    return 3 * r\n\ndef area2(r):"


@pytest.fixture(scope="module")
def model() -> Any:
    return strata_nb.load("strata-tiny")


def made(model: Any, **how: Any) -> tuple[LiveRun, Timeline]:
    session = Session(model, preset="seed_stage1")
    line = Timeline(session)
    how = {"prompt": PROMPT, "max_new": 24, **how}
    return LiveRun(session, views=[line], **how), line


async def until(done: Callable[[], bool]) -> None:
    for _ in range(2000):
        if done():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it did not come to an end")


def test_run_waits_and_shows_the_end(model: Any) -> None:
    live, line = made(model)
    assert repr(live) == "LiveRun(ready)"
    reply = live.run()
    assert reply is live.reply
    assert len(reply.tokens) == 24
    assert f"24 tokens in {reply.windows} windows" in live.text()
    assert reply.text in live.text()
    assert f"{reply.windows + 1} windows" in line.text()


def test_a_thread_gives_the_same_and_the_loop_stays_free(model: Any) -> None:
    alone, _ = made(model)
    expected = alone.run()

    async def page() -> tuple[LiveRun, Timeline]:
        live, line = made(model)
        live.start()
        live.start()  # one is under way
        with pytest.raises(RuntimeError, match="a request is under way"):
            live.run()
        await until(lambda: not live.running)
        return live, line

    live, line = asyncio.run(page())
    assert live.reply is not None
    assert live.reply.tokens == expected.tokens
    assert f"{expected.windows + 1} windows" in line.text()


def test_cancel_ends_it_with_what_it_gave(model: Any) -> None:
    async def page() -> LiveRun:
        live, line = made(model, max_new=2000)
        live.start()
        await until(lambda: line._seen > 3)
        live.cancel()
        await until(lambda: not live.running)
        return live

    live = asyncio.run(page())
    assert live.reply is not None
    assert live.reply.stop == "cancelled"
    assert 0 < len(live.reply.tokens) < 2000
    # The session goes on from there.
    assert live.run().prompt > 0


def test_what_the_session_refuses_is_said(model: Any) -> None:
    async def page() -> LiveRun:
        live, _ = made(model, prompt=[])
        live.start()
        await until(lambda: not live.running)
        return live

    live = asyncio.run(page())
    assert live._note["kind"] == "error"
    assert "a request wants a token to go on from" in live._note["text"]
    assert live.reply is None


def test_outside_a_notebook_start_keeps_what_is_there(model: Any) -> None:
    live, _ = made(model)
    reply = live.run()
    with pytest.raises(RuntimeError, match=r"outside a notebook .* use `run`"):
        live.start()
    assert live.reply is reply
    assert reply.text in live.text()


def test_a_closed_widget_lets_its_request_end(model: Any) -> None:
    async def page() -> LiveRun:
        live, line = made(model, max_new=2000)
        live.start()
        await until(lambda: line._seen > 3)
        live.close()
        await until(lambda: not live.running)
        return live

    live = asyncio.run(page())
    assert live.reply is not None
    assert live.reply.stop == "cancelled"


def test_what_is_no_session_and_no_view_is_refused(model: Any) -> None:
    with pytest.raises(TypeError, match="a Session is wanted, got int"):
        LiveRun(3, prompt="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a method `refresh`, got int"):
        LiveRun(Session(model), prompt="x", views=[3])  # type: ignore[list-item]
