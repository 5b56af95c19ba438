"""What it costs that windows never pass the end of a block: tokens a window."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strata_nb import theory
from strata_nb.engine import Engine
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.tail.engine import differing, of_layers, tolerance
from strata_nb.model import Model
from strata_nb.policies.length import CONTAINED, FREE

_BATCHES = 32
MOST_ROWS = 4
"""Rows of a window that is not contained: a root and three drafts."""


@dataclass(frozen=True)
class Price:
    """Exact means, in tokens emitted a window; a root counts with its window.

    Attributes:
        acceptance: chance that a draft is right, given that those before it were.
        rows: most rows of a window.
        ratio: cells a block.
        free: tokens a window with `rows` rows wherever it starts.
        contained: tokens a window whose rows end with their block.
    """

    acceptance: float
    rows: int
    ratio: int
    free: float
    contained: float

    @property
    def loss(self) -> float:
        """The part of the tokens a window that containment costs, 0 to 1."""
        return 1 - self.contained / self.free


@dataclass(frozen=True)
class Sample:
    """A mean over windows that were drawn or run.

    Attributes:
        windows: how many.
        tokens: emitted in them.
        error: standard error of `tokens_per_window`, tokens.
    """

    windows: int
    tokens: int
    error: float

    @property
    def tokens_per_window(self) -> float:
        """The mean."""
        return self.tokens / self.windows


@dataclass(frozen=True)
class Measured:
    """Windows run on an engine with a drafter that is right so often.

    Attributes:
        acceptance: chance that a draft was right.
        contained: whether windows ended with their block.
        sample: windows, tokens, and the error of their mean.
        lucky: tokens that these windows give by the drafter's luck alone: an engine
            that accepts what is right, and nothing else, emits as many.
        lossless: whether the text is that of plain decoding.
        blocks: complete blocks at the end.
        wrong_blocks: those whose pooled key, in the first indexed layer, is not the one
            that a sound engine has after the same tokens. Later layers have more.
    """

    acceptance: float
    contained: bool
    sample: Sample
    lucky: int
    lossless: bool
    blocks: int
    wrong_blocks: int


def rows_at(start: int, *, contained: bool, rows: int, ratio: int) -> int:
    """Rows that a window at cell `start` may have."""
    length = CONTAINED if contained else FREE
    return length.rows(start, most=rows, ratio=ratio)


def price(acceptance: float, *, rows: int = MOST_ROWS, ratio: int = 4) -> Price:
    """The exact means, from the chances q_i that i drafts in a row are right.

    A window of T rows keeps sum(q_i, i = 0 .. T-1) rows on average; a contained
    window's T depends on its start, and the starts modulo `ratio` are a Markov chain.

    Args:
        acceptance: 0 to 1.
        rows: most rows of a window.
        ratio: cells a block.

    Raises:
        ValueError: an argument is out of range.
    """
    _check(acceptance, rows, ratio)
    chance = stationary(acceptance, rows=rows, ratio=ratio)
    mean = [
        _mean_keep(acceptance, rows_at(r, contained=True, rows=rows, ratio=ratio))
        for r in range(ratio)
    ]
    free = _mean_keep(acceptance, rows)
    return Price(acceptance, rows, ratio, free, float(chance @ np.array(mean)))


def stationary(
    acceptance: float, *, rows: int = MOST_ROWS, ratio: int = 4
) -> np.ndarray:
    """How often a contained window starts at each cell of a block, [ratio], sum 1.

    Raises:
        ValueError: an argument is out of range.
    """
    _check(acceptance, rows, ratio)
    moves = np.zeros((ratio, ratio))
    for start in range(ratio):
        T = rows_at(start, contained=True, rows=rows, ratio=ratio)
        for keep, chance in enumerate(_keeps(acceptance, T), 1):
            moves[start, (start + keep) % ratio] += chance
    # pi (M - 1) = 0 and sum(pi) = 1, as one system with a single solution.
    equations = np.vstack([moves.T - np.eye(ratio), np.ones(ratio)])
    found = np.linalg.lstsq(equations, np.append(np.zeros(ratio), 1.0), rcond=None)[0]
    return np.asarray(found)


def simulate(
    acceptance: float,
    *,
    contained: bool,
    windows: int,
    seed: int,
    rows: int = MOST_ROWS,
    ratio: int = 4,
) -> Sample:
    """Draw the luck of every draft of so many windows; no model takes part.

    Raises:
        ValueError: an argument is out of range.
    """
    _check(acceptance, rows, ratio, windows=windows)
    keeps, start = [], 0
    for luck in _luck(acceptance, windows, rows, seed):
        T = rows_at(start, contained=contained, rows=rows, ratio=ratio)
        keeps.append(1 + _right_in_a_row(luck[: T - 1]))
        start += keeps[-1]
    return _sample(keeps)


class GreedyText:
    """What plain greedy decoding, row by row, emits after a prompt.

    It is made as far as it is asked for; stop ids do not end it.

    Args:
        model: decodes.
        prompt: tokens before the first window, the first root last; 1 or more.

    Raises:
        ValueError: the prompt is empty.
    """

    def __init__(self, model: Model, prompt: Sequence[int]) -> None:
        if not prompt:
            raise ValueError("`prompt` is empty, wanted 1 token or more, the root last")
        self.model, self.prompt = model, tuple(prompt)
        self._tokens = [self.prompt[-1]]
        self._engine = self.engine()

    def engine(self, *, fault: str | None = None) -> Engine:
        """An engine that has everything before the first root."""
        engine = self.model.engine(fault=fault)
        engine.prefill(self.prompt[:-1])
        return engine

    def tokens(self, first: int, count: int) -> list[int]:
        """`count` emitted tokens from number `first` on, counted from 0."""
        while len(self._tokens) <= first + count:
            window = self._engine.run(self._tokens[-1:])
            self._tokens += self._engine.finish(window, stop_ids=()).emitted
            self._engine.commit(window)
        return self._tokens[1 + first : 1 + first + count]


def measure(
    text: GreedyText,
    acceptance: float,
    *,
    contained: bool,
    windows: int,
    seed: int,
    fault: str | None = None,
    rows: int = MOST_ROWS,
) -> Measured:
    """Run windows whose drafts are right with the given chance.

    A right draft is the next token of plain greedy decoding, a wrong one the token
    whose number follows.

    Args:
        text: what plain decoding emits.
        acceptance: chance that a draft is right, 0 to 1.
        contained: end windows with their block.
        windows: how many, 2 or more.
        seed: of the drafter's luck.
        fault: planted into the engine that runs the windows, not into plain decoding.
        rows: most rows of a window.

    Raises:
        ValueError: an argument is out of range.
    """
    config = text.model.config
    ratio, vocabulary = config.indexer_compress_ratio, config.vocab_size
    _check(acceptance, rows, ratio, windows=windows)
    engine = text.engine(fault=fault)
    keeps, committed, lucky, emitted = [], list(text.prompt[:-1]), 0, 0
    root = text.prompt[-1]
    for right in _luck(acceptance, windows, rows, seed):
        T = rows_at(engine.position, contained=contained, rows=rows, ratio=ratio)
        following = zip(text.tokens(emitted, T - 1), right, strict=False)
        drafts = [t if good else (t + 1) % vocabulary for t, good in following]
        window = engine.run([root, *drafts], drafter="caller")
        result = engine.finish(window, stop_ids=())
        engine.commit(window)
        committed += window.inputs[: result.keep]
        keeps.append(result.keep)
        root, emitted = result.emitted[-1], emitted + result.keep
        lucky += 1 + _right_in_a_row(right[: T - 1])
    whole = [*text.prompt, *text.tokens(0, emitted)]
    return Measured(
        acceptance,
        contained,
        _sample(keeps),
        lucky,
        lossless=[*committed, root] == whole,
        blocks=engine.position // ratio,
        wrong_blocks=_wrong_blocks(text.model, engine, committed),
    )


def _wrong_blocks(model: Model, engine: Engine, committed: Sequence[int]) -> int:
    """Blocks whose pooled key in the first indexed layer is not a sound engine's.

    Nothing that feeds that layer depends on a pooled key, so each of them was pooled
    from wrong raw keys; in later layers wrong choices of blocks spoil right rows too.
    """
    sound = model.engine()
    sound.prefill(committed)
    got, want = (of_layers(e.leaves(), "qsa_blocks") for e in (engine, sound))
    first = min(want)
    return len(differing(got[first], want[first], tolerance(Rig(model))))


def _luck(acceptance: float, windows: int, rows: int, seed: int) -> np.ndarray:
    """Whether each draft is right, [windows, rows]."""
    return np.random.default_rng(seed).random((windows, rows)) < acceptance


def _keeps(acceptance: float, T: int) -> list[float]:
    """Chances that a window of T rows keeps 1 .. T of them."""
    wrong_at = [acceptance**i * (1 - acceptance) for i in range(T - 1)]
    return [*wrong_at, acceptance ** (T - 1)]


def _mean_keep(acceptance: float, T: int) -> float:
    """Rows that a window of T keeps on average."""
    return theory.expected_keep((acceptance,) * (T - 1))


def _right_in_a_row(luck: np.ndarray) -> int:
    """Drafts before the first wrong one."""
    return int(np.cumprod(luck).sum())


def _sample(keeps: Sequence[int]) -> Sample:
    # Contained windows are not independent of each other: a long one is followed by a
    # short one more often. So the error comes from sums over batches of windows.
    size = max(1, len(keeps) // _BATCHES)
    count = len(keeps) // size
    means = np.reshape(keeps[: count * size], (count, size)).mean(axis=1)
    return Sample(len(keeps), sum(keeps), float(means.std(ddof=1)) / count**0.5)


def _check(acceptance: float, rows: int, ratio: int, *, windows: int = 2) -> None:
    if not 0 <= acceptance <= 1 or rows < 1 or ratio < 1 or windows < 2:
        raise ValueError(
            f"got acceptance {acceptance}, {rows} rows, {ratio} cells a block and "
            f"{windows} windows; wanted 0 to 1, 1 or more, 1 or more, 2 or more"
        )
