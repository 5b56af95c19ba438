"""`strata-nb bench real-size`: windows at the released sizes, with random weights.

What it says is what a window costs, not what a model says: weights and state are random
numbers, made on the device from a seed. Times are those of the engine's own verbs.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import mlx.core as mx
import numpy as np

from strata_kernels._select import CHOICES, using, where_kernels_run
from strata_kernels.route import strongest
from strata_nb.bench.options import whole
from strata_nb.bench.random_model import (
    RELEASED,
    SMALL,
    RandomWeights,
    backend,
    engine_at,
)
from strata_nb.engine import Engine
from strata_nb.errors import StrataError
from strata_nb.files import write_text
from strata_nb.models.qwen4_exp import Qwen4Exp
from strata_nb.policies.routing import NATURAL, Chosen, Routing, Seen

SIZES = {"released": RELEASED, "small": SMALL}
ROWS = tuple(range(1, 9))
WARM_UP = 12
"""Windows that are not counted: each residue of a block is met three times."""


@dataclass(frozen=True)
class Spread:
    """Experts drawn for each row by itself: as large a union as rows can have."""

    name: str = "spread"
    lossless: bool = False

    def choose(self, logits: mx.array, *, top_k: int, seen: Seen) -> Chosen:
        """The strongest of random numbers, [T, K]; the same in each window."""
        drawn = mx.random.normal(logits.shape, key=mx.random.key(seen.layer))
        return Chosen(strongest(drawn, top_k=top_k))


# With random weights, rows want much the same experts, as rows of one text do.
ROUTINGS: dict[str, Routing] = {"own": NATURAL, "spread": Spread()}


@dataclass(frozen=True)
class Figure:
    """One kind of window.

    Attributes:
        kernels: what STRATA_KERNELS was.
        routing: "own", by the rows' logits, or "spread".
        context: cells before the windows.
        rows: T.
        run_ms, finish_ms, commit_ms: medians; the commit folds all rows but one.
        union: experts of a layer, mean.
        bytes: of weights and state that a window has to read.
        floor_ms: that, by the bandwidth measured.
    """

    kernels: str
    routing: str
    context: int
    rows: int
    run_ms: float
    finish_ms: float
    commit_ms: float
    union: float
    bytes: int
    floor_ms: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--sizes", choices=SIZES, default="released")
    parser.add_argument(
        "--contexts", type=whole(1, 10**6), nargs="+", default=[1024, 8192, 32768]
    )
    parser.add_argument("--rows", type=whole(1, 8), nargs="+", default=list(ROWS))
    parser.add_argument(
        "--rounds", type=whole(1, 1000), default=10, help="windows per figure"
    )
    parser.add_argument(
        "--kernels",
        choices=CHOICES,
        nargs="+",
        default=["reference", where_kernels_run() or "reference"],
        help="what STRATA_KERNELS is, in turn",
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")


def main(args: argparse.Namespace) -> int:
    """Make the model, measure, print a table, return 0 if every twin is the same.

    Raises:
        StrataError: a context is longer than the model's.
    """
    config = SIZES[args.sizes]
    longest = max(args.contexts) + (args.rounds + WARM_UP) * 8
    if longest > config.max_position_embeddings:
        raise StrataError(
            f"`--contexts` and `--rounds` take {longest} cells, the model has "
            f"{config.max_position_embeddings}; wanted fewer"
        )
    began = time.perf_counter()
    weights = RandomWeights(config)
    decoders = {name: backend(weights, routing=r) for name, r in ROUTINGS.items()}
    speed = bandwidth(2**31 if args.sizes == "released" else 2**22)
    about: dict[str, Any] = {
        "sizes": args.sizes,
        "made_s": time.perf_counter() - began,
        "weights_gb": mx.get_active_memory() / 1e9,
        "dense_gb": weights.dense_bytes / 1e9,
        "bandwidth_gb_s": speed / 1e9,
        "mlx": version("mlx"),
        "device": str(mx.device_info().get("device_name", mx.default_device())),
    }
    _say(f"{about}")
    _say("kernels routing context T run_ms finish_ms commit_ms union floor_ms ratio")
    figures = list(_figures(args, weights, decoders, speed))
    checks = _checks(args, decoders["own"])
    about["peak_gb"] = mx.get_peak_memory() / 1e9
    told = {"about": about, "figures": [asdict(f) for f in figures], "checks": checks}
    _say(f"peak {about['peak_gb']:.1f} GB; {checks}")
    if args.json:
        write_text(args.json, json.dumps(told, indent=1) + "\n")
    return 0 if all(not c["twin differs in"] for c in checks) else 1


def _figures(
    args: argparse.Namespace,
    weights: RandomWeights,
    decoders: dict[str, Qwen4Exp],
    speed: float,
) -> Iterator[Figure]:
    for context in args.contexts:
        for routing, decoder in decoders.items():
            # The other routing once: the union does not hang on the context.
            if routing != "own" and context != args.contexts[0]:
                continue
            start = engine_at(decoder, context)
            for rows in args.rows:
                for kernels in dict.fromkeys(args.kernels):
                    with using(kernels):
                        times, union = _windows(start.fork(), rows, args.rounds)
                    touched = _touched(weights, union, context)
                    figure = Figure(
                        *(kernels, routing, context, rows, *times, union, touched),
                        touched / speed * 1e3,
                    )
                    _say(_line(figure))
                    yield figure


def _windows(
    engine: Engine, rows: int, rounds: int
) -> tuple[tuple[float, float, float], float]:
    """Median times of run, finish and commit, ms; the mean union of a layer."""
    rng = np.random.default_rng(rows)
    times, unions = [], []
    for _ in range(WARM_UP + rounds):
        ids = [int(i) for i in rng.integers(4, engine.backend.config.vocab_size, rows)]
        window = engine.run(ids)
        unions += [len(np.unique(one.expert_ids)) for one in window.layers]
        engine.finish(window, stop_ids=())
        engine.commit(window, keep=max(1, rows - 1), force=True)
        record = engine.trace[-1]
        times.append((record.run_ms, record.finish_ms, record.commit_ms))
    counted = zip(*times[WARM_UP:], strict=True)
    run, finish, commit = (
        statistics.median(float(t or 0.0) for t in column) for column in counted
    )
    return (run, finish, commit), float(np.mean(unions))


def _touched(weights: RandomWeights, union: float, context: int) -> int:
    """Bytes that a window has to read: weights, its experts, state."""
    c = weights.config
    experts = int(union * c.num_hidden_layers * weights.expert_bytes)
    linear = c.layer_types.count("linear_attention")
    memory = linear * c.value_dim * c.linear_key_head_dim * 4
    cells = min(context, c.indexer_budget + c.indexer_compress_ratio - 1)
    seen = 2 * cells * c.num_key_value_heads * c.head_dim * 2
    blocks = context // c.indexer_compress_ratio * c.indexer_head_dim * 2
    attended = (c.num_hidden_layers - linear) * (seen + blocks)
    return weights.dense_bytes + experts + memory + attended


def bandwidth(size: int) -> float:
    """Bytes a second that MLX reads and writes in a copy of `size` bytes; the best."""
    x = mx.random.normal((size // 2,), dtype=mx.bfloat16)
    mx.eval(x)
    best = 0.0
    for turn in range(6):
        began = time.perf_counter()
        mx.eval(x * (turn + 2.0))
        best = max(best, 2 * x.nbytes / (time.perf_counter() - began))
    return best


def _checks(args: argparse.Namespace, decoder: Qwen4Exp) -> list[dict[str, Any]]:
    """Of each choice of kernels: a twin of one window, and rows beside references."""
    start = engine_at(decoder, max(c for c in args.contexts if c <= 8192))
    with using("reference"):
        wanted = _logits(start, _IDS)
    found = []
    for kernels in dict.fromkeys(args.kernels):
        with using(kernels):
            got = _logits(start, _IDS)
            off = _twin(start)
        size = float(np.abs(got - wanted).max() / np.sqrt((wanted**2).mean()))
        same = got.argmax(axis=1) == wanted.argmax(axis=1)
        found.append(
            {
                "kernels": kernels,
                "twin differs in": off,
                "logits off by, of their RMS": size,
                "rows with the reference's token": f"{int(same.sum())} of {len(same)}",
            }
        )
    return found


_IDS = (17, 101, 33, 250)
_OTHERS = (17, 101, 211, 5)


def _logits(start: Engine, ids: Sequence[int]) -> np.ndarray:
    engine = start.fork()
    window = engine.run(ids)
    return np.array(window.logits, np.float64)


def _twin(start: Engine) -> list[str]:
    """Parts that differ after two rows kept of four, the other two not the same."""
    digests = []
    for ids in (_IDS, _OTHERS):
        engine = start.fork()
        window = engine.run(ids)
        engine.finish(window, stop_ids=())
        engine.commit(window, keep=2, force=True)
        digests.append(engine.digests())
    one, other = digests
    return [part for part in one if one[part] != other[part]]


def _line(f: Figure) -> str:
    times = f"{f.run_ms:8.2f} {f.finish_ms:6.2f} {f.commit_ms:6.2f}"
    ratio = f.run_ms / f.floor_ms
    return (
        f"{f.kernels:9} {f.routing:6} {f.context:6} {f.rows} {times} "
        f"{f.union:6.1f} {f.floor_ms:6.2f} {ratio:6.1f}"
    )


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()
