"""`strata-nb bench engine`: windows of 1, 4 and 8 rows beside mlx-lm's model."""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from strata_nb.bench.options import whole
from strata_nb.bench.peer import Peer
from strata_nb.engine import Engine
from strata_nb.errors import StrataError
from strata_nb.files import write_text
from strata_nb.model import Model, load

ROWS = (1, 4, 8)
WARM_UP = 5
"""Windows that are not counted: the first ones build and load things."""
MOST_ROUNDS = 1000
LONG = 4000
"""Cells of the long context."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--model", default="strata-tiny", help="bundled name or folder")
    parser.add_argument(
        "--rounds",
        type=whole(1, MOST_ROUNDS),
        default=40,
        help="windows per figure",
    )
    parser.add_argument(
        "--context", type=whole(1, 10**9), default=200, help="cells before them"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")


def main(args: argparse.Namespace) -> int:
    """Measure, print a table, return 0.

    Raises:
        StrataError: the windows would pass the end of the model's context.
    """
    model = load(args.model, dtype="float32")
    _check_room(model, context=args.context, rounds=args.rounds)
    figures: dict[str, Any] = {"memory_ratio": _memory_ratio(model)}
    ids = _tokens(model, _cells(args.context, args.rounds))
    figures |= _windows(model, ids, context=args.context, rounds=args.rounds)
    figures |= _commit_share(model, ids, context=args.context, rounds=args.rounds)
    figures |= _prefill(model, ids)
    figures |= _long_context(model, ids, rounds=args.rounds)
    figures |= _start_times(args.model)
    for name, value in figures.items():
        sys.stdout.write(f"{name:28} {value:8.3f}\n")
    if args.json:
        write_text(args.json, json.dumps(figures, indent=1) + "\n")
    return 0


def _cells(context: int, rounds: int) -> int:
    """Cells that the longest of the measurements fills."""
    return max(LONG + rounds, context + (rounds + WARM_UP) * max(ROWS))


def _check_room(model: Model, *, context: int, rounds: int) -> None:
    limit, cells = model.config.max_position_embeddings, _cells(context, rounds)
    if cells > limit:
        raise StrataError(
            f"`--context` {context} and `--rounds` {rounds} take {cells} cells, "
            f"{model.name} has {limit}; wanted a smaller context or fewer rounds"
        )


def _tokens(model: Model, count: int) -> list[int]:
    """Random tokens from a seed: times do not depend on what they say."""
    rng = np.random.default_rng(7)
    found = rng.integers(4, model.config.vocab_size, count)
    return [int(i) for i in found]


def _ms(call: Callable[..., object], *args: Any) -> float:
    began = time.perf_counter()
    call(*args)
    return (time.perf_counter() - began) * 1e3


def _after(model: Model, ids: Sequence[int], **options: Any) -> Engine:
    engine = model.engine(**options)
    engine.prefill(ids)
    return engine


def _window(engine: Engine, ids: Sequence[int], *, keep: int | None = None) -> None:
    window = engine.run(ids)
    engine.finish(window, stop_ids=())
    engine.commit(window, keep=keep or window.T, force=True)


def _windows(
    model: Model, ids: list[int], *, context: int, rounds: int
) -> dict[str, float]:
    """Ours and theirs in turn, so that a busy machine slows both alike."""
    peer = Peer(model.config)
    figures = {}
    for rows in ROWS:
        engine = _after(model, ids[:context])
        cache = peer.cache_after(ids[:context])
        steps = peer.generate(ids[:context], rounds + WARM_UP)
        pairs = []
        for round_ in range(rounds + WARM_UP):
            block = [ids[(context + round_ + i) % len(ids)] for i in range(rows)]
            mine = _ms(_window, engine, block)
            if rows == 1:
                pairs.append((mine, _ms(next, steps)))
            else:
                pairs.append((mine, _ms(peer.rows, block, cache)))
        ours, theirs = (
            statistics.median(x) for x in zip(*pairs[WARM_UP:], strict=True)
        )
        figures[f"T={rows} ours ms"] = ours
        figures[f"T={rows} mlx-lm ms"] = theirs
        figures[f"T={rows} ratio"] = ours / theirs
    return figures


def _commit_share(
    model: Model, ids: list[int], *, context: int, rounds: int
) -> dict[str, float]:
    """Commit with its fold evaluated (eager, keep 3 of 4), as part of a window."""
    engine = _after(model, ids[:context], fold="eager")
    for at in range(rounds):
        _window(engine, ids[context + at : context + at + 4], keep=3)
    shares = [(r.commit_ms or 0) / (r.total_ms or 1) for r in engine.trace[-rounds:]]
    return {"commit share of T=4": statistics.median(shares)}


def _prefill(model: Model, ids: list[int]) -> dict[str, float]:
    """A prompt of 1,000 tokens in prompt windows against row by row."""
    together = statistics.median(_ms(_after, model, ids[:1000]) for _ in range(3))
    engine = model.engine()
    alone = sum(_ms(_window, engine, [i]) for i in ids[:1000])
    return {"prefill 1000 ms": together, "prefill speed-up": alone / together}


def _long_context(model: Model, ids: list[int], *, rounds: int) -> dict[str, float]:
    """T = 1 at 4,000 cells against T = 1 at 200, in turn."""
    near, far = _after(model, ids[:200]), _after(model, ids[:LONG])
    pairs = [(_ms(_window, near, [i]), _ms(_window, far, [i])) for i in ids[:rounds]]
    short, long = (statistics.median(x) for x in zip(*pairs, strict=True))
    return {"T=1 at 4000 / 200": long / short}


def _memory_ratio(model: Model) -> float:
    """Active memory after loading, over the weights without the n-gram table."""
    checkpoint = model.checkpoint
    counted = (
        checkpoint.raw(name)[0].size
        for name in checkpoint.names
        if not name.startswith("mtp.") and "ngram_embedding" not in name
    )
    return float(mx.get_active_memory() / (4 * sum(counted)))


def _start_times(name: str) -> dict[str, float]:
    """`import strata_nb` and `load` in a fresh interpreter, seconds, best of three."""
    code = (
        "import time; a = time.perf_counter(); import strata_nb; "
        f"b = time.perf_counter(); strata_nb.load({name!r}); c = time.perf_counter(); "
        "print(b - a, c - b)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(3)
    ]
    return {
        "import s": min(float(r[0]) for r in runs),
        "load s": min(float(r[1]) for r in runs),
    }
