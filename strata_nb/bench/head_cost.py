"""What the draft head costs, in windows of one row: its drafts, and its pairs.

Pairs wait until a draft is asked for, which has to read them; besides they cost a
window a little, whether it drafts or not. These are the prices that `Hybrid` weighs.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

from strata_nb.engine import Engine
from strata_nb.model import Model

DEPTHS = (1, 2, 3, 4)
"""Tokens of a draft."""
WIDTHS = (1, 4)
"""Rows of windows with and without the head."""
WAITED = (1, 64)
"""Pairs that wait as a draft is asked for."""
CONTEXT = 200
"""Cells before them."""


@dataclass(frozen=True)
class HeadCost:
    """Medians over turns of times over that of a window of one row without the head.

    Attributes:
        drafts: of a draft, by its tokens.
        windows: what the head adds to a window that is committed, by its rows.
        pairs: what waiting pairs add to a draft, by their number.
        row: what each draft adds to a window, without the head.
    """

    drafts: dict[int, float]
    windows: dict[int, float]
    pairs: dict[int, float]
    row: float

    @property
    def figures(self) -> dict[str, float]:
        """By name, for a file."""
        drafts = {f"mtp, a draft of {n}, windows": p for n, p in self.drafts.items()}
        kept = {f"mtp, keeping {n} rows, windows": p for n, p in self.windows.items()}
        pairs = {f"mtp, reading {n} pairs, windows": p for n, p in self.pairs.items()}
        return {**drafts, **kept, **pairs, "a row more, windows": self.row}

    @property
    def text(self) -> str:
        """In lines."""
        drafts = ", ".join(f"{n}: {price:.2f}" for n, price in self.drafts.items())
        kept = ", ".join(f"{n}: {price:.2f}" for n, price in self.windows.items())
        pairs = ", ".join(f"{n}: {price:.2f}" for n, price in self.pairs.items())
        return (
            f"The draft head, in windows of one row. A draft of so many tokens: "
            f"{drafts}.\nSo many waiting pairs more: {pairs}. A window of so many rows "
            f"with the head on: {kept} more.\nA row more: {self.row:.2f}.\n"
        )


def measure(
    model: Model,
    *,
    turns: int,
    clock: Callable[[], float] = time.perf_counter,
) -> HeadCost:
    """Time drafts and windows in turn, so that a busy machine slows all.

    Args:
        model: a loaded model with a draft head.
        turns: how often, after one that does not count.
        clock: seconds.

    Raises:
        NoDraftError: the model has no draft head.
    """
    off, on = model.engine(), model.engine(mtp=True)
    vocabulary = model.config.vocab_size
    for engine in (off, on):
        engine.prefill([at % vocabulary for at in range(4, 4 + CONTEXT)])

    def seconds(call: Callable[[], object]) -> float:
        began = clock()
        call()
        return clock() - began

    drafts: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
    windows: dict[int, list[float]] = {rows: [] for rows in WIDTHS}
    pairs: dict[int, list[float]] = {count: [] for count in WAITED}
    rows: list[float] = []
    for turn in range(turns + 1):
        # Which of two is the first to run must not matter.
        forks = {"off": off.fork(), "on": on.fork()}
        first, second = ("off", "on") if turn % 2 else ("on", "off")
        one: dict[tuple[str, int], float] = {}
        for width in WIDTHS:
            for name in (first, second):
                one[name, width] = seconds(partial(_window, forks[name], width))
        alone = one["off", 1]
        ask = partial(forks["on"].draft, 1, root=4)
        ask()
        waited: dict[int, float] = {}
        for count in WAITED:
            for _ in range(count):
                _window(forks["on"], 1)
            waited[count] = seconds(ask) - seconds(ask)
        found = {n: seconds(partial(forks["on"].draft, n, root=4)) for n in DEPTHS}
        # The first turn compiles and fills what is kept.
        if turn == 0:
            continue
        for depth, took in found.items():
            drafts[depth].append(took / alone)
        for width in WIDTHS:
            more = one["on", width] - one["off", width]
            windows[width].append(more / alone)
        for count, took in waited.items():
            pairs[count].append(took / alone)
        rows.append((one["off", WIDTHS[-1]] / alone - 1) / (WIDTHS[-1] - 1))
    return HeadCost(
        drafts={n: median(found) for n, found in drafts.items()},
        windows={n: median(found) for n, found in windows.items()},
        pairs={n: median(found) for n, found in pairs.items()},
        row=median(rows),
    )


def _window(engine: Engine, rows: int) -> None:
    opened = engine.run([4] * rows)
    engine.finish(opened, stop_ids=())
    engine.commit(opened, keep=rows, force=True)
