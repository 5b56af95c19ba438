"""Engines in threads: nothing lazy crosses them, and nobody else's work is undone."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from helpers import advance, after, assert_same, prompt
from strata_nb import Model
from strata_nb.errors import EngineBusyError


def in_a_thread(call: Callable[[], Any]) -> Any:
    """What `call` returns, run to its end in a thread of its own."""
    box: list[Any] = []
    worker = threading.Thread(target=lambda: box.append(call()))
    worker.start()
    worker.join(60)
    return box[0]


def test_an_engine_made_here_is_first_used_there(small: Model) -> None:
    engine = small.engine()
    in_a_thread(lambda: advance(engine, [1, 2, 3], keep=2))
    assert_same(engine, after(small, [1, 2]))


def test_an_engine_made_there_is_first_used_here(small: Model) -> None:
    engine = in_a_thread(small.engine)
    engine.prefill([1, 2, 3])
    assert_same(engine, after(small, [1, 2, 3]))


def test_a_fork_made_there_is_used_here(small: Model) -> None:
    engine = after(small, prompt(small, 9), fold="lazy")
    advance(engine, [1, 2, 3, 4], keep=2)
    fork = in_a_thread(engine.fork)
    advance(fork, [5])
    advance(engine, [5])
    assert_same(engine, fork)


def test_a_refused_prefill_undoes_nobodys_work(small: Model) -> None:
    """The second thread is told so, and the first one's prompt arrives whole."""
    ids = prompt(small, 80)
    engine = small.engine()
    refusals: list[BaseException] = []

    def meddle() -> None:
        try:
            engine.prefill([1, 2, 3])
        except EngineBusyError as error:
            refusals.append(error)

    def progress(done: int, total: int) -> None:
        in_a_thread(meddle)

    engine.prefill(ids, chunk=20, progress=progress)
    assert len(refusals) == 4
    assert engine.position == 80
    assert len(engine.trace) == 4
    assert_same(engine, after(small, ids))


def test_a_prefill_beside_an_open_window_is_refused(small: Model) -> None:
    engine = after(small, prompt(small, 9))
    window = engine.run([1, 2])
    with pytest.raises(Exception, match="prefill while the window of cells 9 to 10"):
        engine.prefill([3])
    assert engine.window is window
    engine.finish(window)
    engine.commit(window, keep=1)
