"""What several test files need and nobody else."""

import contextlib
import resource
import signal
import sys
from collections.abc import Iterator, Sequence

import mlx.core as mx
import numpy as np

import strata_nb
from strata_nb.engine import Engine

EXACT = sys.platform == "linux" and mx.default_device() == mx.cpu
"""Whether arithmetic does not depend on the number of rows (MLX's Linux CPU build)."""


def assert_close(name: str, got: object, want: object, *, rel: float = 1e-3) -> None:
    """`got` is within `rel` of the root mean square of `want`."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape, f"{name}: shape {got.shape}, wanted {want.shape}"
    scale = float(np.sqrt(np.mean(want**2))) if want.size else 1.0
    error = float(np.abs(got - want).max()) if want.size else 0.0
    assert error <= rel * max(scale, 1e-12), f"{name}: error {error}, scale {scale}"


def assert_same(
    first: Engine,
    second: Engine,
    *,
    why: str = "",
    exact: bool = EXACT,
    atol: float = 1e-4,
) -> None:
    """Every part is equal: to the bit where rows do not matter, else within `atol`.

    `exact=True` for a twin, which has the same rows on every device.
    """
    found = strata_nb.diff(first, second, atol=0.0 if exact else atol)
    assert not found, f"{why}: {found}"


def advance(
    engine: Engine, ids: Sequence[int], *, keep: int | None = None
) -> strata_nb.CommitReport:
    """Run, finish and commit `ids`, whatever the model thinks of them."""
    window = engine.run(ids)
    engine.finish(window, stop_ids=())
    return engine.commit(window, keep=len(ids) if keep is None else keep, force=True)


def serial(engine: Engine, ids: Sequence[int]) -> Engine:
    """Feed `ids` one row at a time."""
    for token in ids:
        advance(engine, [token])
    return engine


def greedy(engine: Engine, root: int, count: int) -> list[int]:
    """Plain decoding: `count` tokens after `root`, one row a window, no stops."""
    found: list[int] = []
    while len(found) < count:
        report = advance(engine, [found[-1] if found else root])
        assert report.root is not None
        found.append(report.root)
    return found


def prompt(model: strata_nb.Model, length: int, *, seed: int = 0) -> list[int]:
    """Random tokens, a few of them the end-of-text token that PLE stops at."""
    rng = np.random.default_rng(seed)
    ids = [int(i) for i in rng.integers(0, model.config.vocab_size, length)]
    barrier = model.config.eos_token_id
    if barrier is not None and length > 6:
        ids[length // 2] = barrier
    return ids


def after(model: strata_nb.Model, ids: Sequence[int], **options: object) -> Engine:
    """A new engine that has taken `ids` in."""
    engine = model.engine(**options)  # type: ignore[arg-type]
    engine.prefill(ids)
    return engine


@contextlib.contextmanager
def tiny_disk() -> Iterator[None]:
    """Let no file of this process grow beyond 1000 bytes.

    Around one call, no longer: pytest's own output may be such a file.
    """
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
