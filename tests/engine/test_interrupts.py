"""Interrupts, exceptions and numbers that are none: the engine is as before."""

import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from helpers import advance, after, assert_same, prompt
from strata_nb import Model, load
from strata_nb.engine import Engine
from strata_nb.errors import (
    EngineBusyError,
    NotFiniteError,
)
from strata_nb.models.qwen4_exp.evaluation import best_tokens
from strata_nb.window import Committed
from tiny import small_config, write_checkpoint


@pytest.fixture
def engine(small: Model) -> Engine:
    return after(small, prompt(small, 9))


class Interrupting:
    """A backend that raises in the middle of a verb."""

    def __init__(self, backend: Any, verb: str, error: BaseException) -> None:
        self._backend, self._verb, self._error = backend, verb, error
        self.armed = True

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._backend, name)
        if name != self._verb or not self.armed:
            return value

        def fail(*args: Any, **options: Any) -> Any:
            value(*args, **options)
            raise self._error

        return fail


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("full")])
@pytest.mark.parametrize("verb", ["run", "commit"])
def test_an_exception_inside_a_verb_changes_nothing(
    engine: Engine, verb: str, error: BaseException
) -> None:
    before = engine.digests()
    backend = engine.backend = Interrupting(engine.backend, verb, error)
    with pytest.raises(type(error)):
        advance(engine, [1, 2, 3], keep=2)
    assert engine.digests() == before
    backend.armed = False
    if engine.window is not None:
        engine.abort(engine.window)
    advance(engine, [1, 2, 3], keep=2)


def test_a_cancelled_prefill_leaves_the_engine_as_before(small: Model) -> None:
    engine = after(small, prompt(small, 9))
    before, windows = engine.digests(), len(engine.trace)

    def cancel(done: int, total: int) -> None:
        assert total == 40
        if done >= 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.prefill(prompt(small, 40), chunk=8, progress=cancel)
    assert engine.digests() == before
    assert len(engine.trace) == windows


def test_a_second_thread_is_refused(engine: Engine) -> None:
    inside, go_on = threading.Event(), threading.Event()
    backend = engine.backend

    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(backend, name)

        def run(self, *args: Any, **options: Any) -> Any:
            inside.set()
            assert go_on.wait(30)
            return backend.run(*args, **options)

    engine.backend = Slow()
    worker = threading.Thread(target=engine.run, args=([1, 2],))
    worker.start()
    assert inside.wait(30)
    with pytest.raises(EngineBusyError, match="another thread"):
        engine.run([3])
    go_on.set()
    worker.join(30)
    assert engine.window is not None
    assert engine.window.inputs == (1, 2)


def test_verbs_may_be_called_from_different_threads(small: Model) -> None:
    """Nothing lazy crosses threads: each verb returns with its state evaluated."""
    here, there = (after(small, prompt(small, 9), fold="lazy") for _ in range(2))

    def in_a_thread(call: Any) -> Any:
        box: list[Any] = []
        worker = threading.Thread(target=lambda: box.append(call()))
        worker.start()
        worker.join(60)
        return box[0]

    for rows, keep in [([1, 2, 3, 4], 2), ([5, 6], 1), ([7], 1)]:
        advance(here, rows, keep=keep)
        window = in_a_thread(lambda rows=rows: there.run(rows))
        in_a_thread(lambda window=window: there.finish(window, stop_ids=()))
        in_a_thread(
            lambda window=window, keep=keep: there.commit(window, keep=keep, force=True)
        )
    assert_same(here, there)


def test_not_a_number_is_an_error(small: Model) -> None:
    engine = after(small, prompt(small, 9))
    before = engine.digests()
    backend = engine.backend

    class Broken:
        def __getattr__(self, name: str) -> Any:
            return getattr(backend, name)

        def run(self, *args: Any, **options: Any) -> Any:
            forward: Any = backend.run(*args, **options)
            broken = best_tokens(mx.array([[1.0, float("nan")]] * 2))
            return replace(forward, best=broken)

    engine.backend = Broken()
    window = engine.run([1, 2])
    with pytest.raises(NotFiniteError, match="NaN or infinite; `abort` it"):
        engine.finish(window)
    engine.abort(window)
    assert engine.digests() == before


def test_a_router_that_is_no_number_shows_at_finish(tmp_path: Path) -> None:
    """Even in an expert that nobody chose: a sort would hide it."""
    (file,) = write_checkpoint(tmp_path, small_config(), 2).glob("*.safetensors")
    arrays = {name: array.copy() for name, array in load_file(file).items()}
    next(a for n, a in arrays.items() if n.endswith("mlp.gate.weight"))[-1] = np.nan
    save_file(arrays, file)
    engine = load(tmp_path).engine()
    with pytest.raises(NotFiniteError):
        engine.finish(engine.run([1, 2]))


@pytest.mark.parametrize("part", ["gdn_state", "gdn_conv", "kv", "qsa_blocks"])
def test_a_damaged_state_shows_at_finish(tiny: Model, part: str) -> None:
    # At 23 cells a block is left out: a NaN score must not hide as the last in a sort.
    engine = after(tiny, prompt(tiny, 23))
    leaves = engine.leaves()
    for leaf, array in leaves.items():
        if leaf.part == part:
            array[-1] = np.nan
    state = engine.backend.from_leaves(leaves, position=23)
    broken = Engine(
        engine.backend,
        context=100,
        options=engine.options,
        start=Committed(state, root=None, window=None),
    )
    with pytest.raises(NotFiniteError):
        broken.finish(broken.run([1]))


def test_interrupts_never_lock_an_engine(small: Model) -> None:
    """Real signals between any two lines: afterwards it is as before, and free."""
    engine = after(small, prompt(small, 9))
    before, hits = engine.digests(), 0
    old = signal.signal(signal.SIGALRM, _interrupt)
    try:
        for delay in np.linspace(1e-5, 4e-3, 150):
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, float(delay))
                    window = engine.run([1, 2, 3])
                    engine.finish(window, stop_ids=())
                    engine.abort(window)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                hits += 1
            if engine.window is not None:
                engine.abort(engine.window)
    finally:
        signal.signal(signal.SIGALRM, old)
    assert hits > 10
    assert engine.digests() == before
    advance(engine, [1])


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
