"""`strata-nb bench drafters`: microseconds a token and a window, on many texts.

A drafter must not cost what it saves. Its share of a window is held against 5 % of a
window of one row of the bundled model, measured in turn with it in one process. The
draft head drafts from the model's own state and costs far more: its lines are apart.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from strata_nb.bench import head_cost
from strata_nb.bench.arctic import Arctic
from strata_nb.bench.draft_texts import TEXTS
from strata_nb.bench.options import whole
from strata_nb.draft import Drafter, SuffixLookup, SuffixTrees
from strata_nb.draft.tokens import alike
from strata_nb.files import write_text
from strata_nb.model import load

Makers: TypeAlias = dict[str, Callable[[], Drafter]]
OURS: Makers = {"suffix_lookup": SuffixLookup, "suffix_trees": SuffixTrees}
PEER = "arctic_inference"
HISTORY = (1_000, 10_000, 100_000)
"""Tokens before the first that is timed."""
TIMED = 500
"""Tokens that are timed: proposed for and appended, one by one and in windows."""
MOST = 3
"""Tokens of a draft, one by one."""
ROWS = 8
"""Rows of the widest window; the drafts are one fewer."""
CONTEXT = 200
"""Cells before the window of one row."""
HEAD_TURNS = 6
"""Times that the draft head is measured, for each round of the others."""
SHARE = 0.05
"""Of a window of one row, that a drafter may take."""


@dataclass
class Cost:
    """What a drafter took, in microseconds.

    Attributes:
        token: for each round, `propose` and `append` of one token, the mean.
        windows: for each window, `propose` and `append` of what was emitted.
    """

    token: list[float] = field(default_factory=list)
    windows: list[float] = field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "--history",
        type=whole(1, 10**7),
        nargs="+",
        default=HISTORY,
        metavar="TOKENS",
        help="tokens before those that are timed",
    )
    parser.add_argument(
        "--rounds", type=whole(1, 1000), default=5, help="times each is measured"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")


def main(args: argparse.Namespace) -> int:
    """Measure, print a table, return 0."""
    makers = _makers()
    alone = _window_of_one_row()
    figures: dict[str, float] = {}
    all_rows: list[float] = []
    sys.stdout.write(
        f"Microseconds a token; a window of up to {ROWS} rows, the median and what 99 "
        f"of 100 stay\nunder; {SHARE:.0%} of a window of one row.\n"
        f"{'':34}{'token':>9}{'window':>9}{'99 %':>9}{f'{SHARE:.0%}':>9}\n"
    )
    for size, name in itertools.product(args.history, TEXTS):
        text = TEXTS[name](size + TIMED)
        costs, rows = measure(makers, text, size, rounds=args.rounds, alone=alone)
        all_rows += rows
        for who, cost in costs.items():
            label = f"{who}, {name}, {size}"
            found = {
                "us": statistics.median(cost.token),
                "us a window": statistics.median(cost.windows),
                "us a window, 99 %": highest(cost.windows),
                f"us, {SHARE:.0%} of one row": SHARE * statistics.median(rows),
            }
            columns = "".join(f"{value:9.1f}" for value in found.values())
            sys.stdout.write(f"{label:34}{columns}\n")
            figures |= {f"{label} {unit}": value for unit, value in found.items()}
    figures["one row, us"] = statistics.median(all_rows)
    figures["one row, us, the quickest"] = min(all_rows)
    # On a busy machine the quickest one is the stricter measure.
    quickest = figures["one row, us, the quickest"]
    sys.stdout.write(
        f"A window of one row: {figures['one row, us']:.0f}; the quickest "
        f"{quickest:.0f}, of which {SHARE:.0%} are {SHARE * quickest:.0f}.\n"
    )
    head = head_cost.measure(load("strata-tiny"), turns=HEAD_TURNS * args.rounds)
    sys.stdout.write(head.text)
    figures |= head.figures
    if args.json:
        write_text(args.json, json.dumps(figures, indent=1) + "\n")
    return 0


def measure(
    makers: Makers,
    text: Sequence[int],
    history: int,
    *,
    rounds: int,
    alone: Callable[[], object],
) -> tuple[dict[str, Cost], list[float]]:
    """What each drafter takes, in turn, so that a busy machine slows all.

    Args:
        makers: make the drafters, by name.
        text: the history, and behind it what is emitted.
        history: tokens of it that come before.
        rounds: times that each is measured.
        alone: a window of one row.

    Returns:
        The costs by name, and the microseconds of `alone`.
    """
    drafters = {name: make() for name, make in makers.items()}
    costs = {name: Cost() for name in makers}
    rows = []
    for _ in range(rounds):
        for name, drafter in drafters.items():
            drafter.assign(text[:history])
            costs[name].token.append(_token_us(drafter, text[history:]))
            drafter.assign(text[:history])
            costs[name].windows += _windows_us(drafter, text[history:])
        began = time.perf_counter()
        alone()
        rows.append((time.perf_counter() - began) * 1e6)
    return costs, rows


def _token_us(drafter: Drafter, emitted: Sequence[int]) -> float:
    # Of the processor: what others on a busy machine take does not count.
    began = time.thread_time()
    for token in emitted:
        drafter.propose(MOST)
        drafter.append((token,))
    return (time.thread_time() - began) / len(emitted) * 1e6


def _windows_us(drafter: Drafter, emitted: Sequence[int]) -> list[float]:
    """Each window drafts what it can and emits what is right of it, and one more."""
    at, found = 0, []
    while at < len(emitted):
        began = time.thread_time()
        draft = drafter.propose(ROWS - 1)
        proposed = time.thread_time()
        right = alike(list(draft.tokens), list(emitted[at : at + ROWS - 1]))
        kept = tuple(emitted[at : at + right + 1])
        resumed = time.thread_time()
        drafter.append(kept)
        found.append((time.thread_time() - resumed + proposed - began) * 1e6)
        at += len(kept)
    return found


def highest(times: Sequence[float]) -> float:
    """What 99 of 100 stay under."""
    return sorted(times)[(len(times) * 99 - 1) // 100]


def _window_of_one_row() -> Callable[[], object]:
    """Runs one on the bundled model, then the same again; the first ones are over."""
    engine = load("strata-tiny", dtype="float32").engine()
    engine.prefill([4 + at % 1000 for at in range(CONTEXT)])

    def window() -> None:
        opened = engine.run([4])
        engine.finish(opened, stop_ids=())
        engine.abort(opened)

    for _ in range(5):
        window()
    return window


def _makers() -> Makers:
    """Ours, and the peer where it is installed."""
    try:
        Arctic()
    except ImportError as error:
        sys.stdout.write(f"{error}: {PEER} is not measured beside ours\n")
        return OURS
    return {**OURS, PEER: Arctic}
