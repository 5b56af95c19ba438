"""The engine's draft head against the oracle's, which was written apart from it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pytest

import strata_nb
import tiny
from heads import Floats, write_with_head
from strata_nb.backend import Backend, Drafting
from strata_nb.draft.head import Mtp
from strata_nb.oracle import HeadOracle, blocks
from strata_nb.oracle.backend import Decision
from strata_nb.oracle.head import Chain
from strata_nb.oracle.states import State
from strata_nb.packs import open_checkpoint
from strata_nb.trace import Leaf
from vectors.cases import EDIT
from vectors.golden import BUNDLED_BOUND, NEAR_TIE, RANDOM_BOUND

ROWS = 60  # the random models choose blocks from 20 cells on, or earlier
STRATA_TINY_ROWS = 160  # and strata-tiny from 131
DEPTH = 3
CONFIGS = (0, 2, 3, 4, 5, 8, 13, 22)
Leaves = dict[Leaf, npt.NDArray[Any]]


@dataclass(frozen=True)
class Answer:
    """What a head says along a text, and what it keeps of it.

    Attributes:
        logits: of chains after every window, float64 [chains, DEPTH, V].
        leaves: the head's, after every window.
        gaps: the closest selection of the chains, where a backend tells.
    """

    logits: Floats
    leaves: list[Leaves]
    gaps: float


def answer(backend: Backend, ids: Sequence[int]) -> Answer:
    """Windows of 1 to 8 rows, of which some are rejected, and a chain after each."""
    found: list[list[Floats]] = []
    leaves: list[Leaves] = []
    gaps = np.inf
    state, sizes = backend.initial(), cycle(range(1, 9))
    rejected = cycle((0, 3, 0, 1, 0))
    while True:
        n, size, wrong = backend.position(state), next(sizes), next(rejected)
        keep = max(1, size - wrong)
        if n + keep + DEPTH > len(ids):
            return Answer(np.array(found), leaves, gaps)
        rows = [*ids[n : n + keep], *((i + 1) % 90 for i in range(size - keep))]
        # All rows of a headless window are kept.
        forward = backend.run(state, rows, head=size % 2 == 0 or keep < size)
        state = backend.commit(state, forward.pending, keep)
        n += keep
        chain, logits = None, []
        # The text's own tokens stand for drafts, so that both go the same way.
        for token in ids[n : n + DEPTH]:
            row, chain = drafting(backend).draft(state, token, chain, None)
            logits.append(np.array(row, np.float64))
        if isinstance(backend, HeadOracle):
            gaps = min(gaps, min(closest(backend, chain), default=np.inf))
        found.append(logits)
        held = backend.leaves(state).items()
        leaves.append({leaf: a for leaf, a in held if leaf.part.startswith("mtp_")})


def drafting(backend: Backend) -> Drafting:
    """The same backend, which has a head."""
    return cast(Drafting, backend)


def closest(oracle: HeadOracle, chain: Any) -> Iterator[float]:
    """The gap between the last chosen and the first not chosen, of each selection."""
    k, most = oracle.config.num_experts_per_tok, oracle.config.indexer_blocks
    for _, router, _, scores in chain.decisions:
        for values, count in ((router, k), (scores, most)):
            ranked = -np.sort(-values)
            if len(ranked) > count:
                gap = float(ranked[count - 1] - ranked[count])
                yield gap if gap else np.inf  # of equals the lower index is taken


def fault(got: Answer, want: Answer, *, bound: float) -> str | None:
    """Where the two differ, or None; a NaN differs."""
    for at, (one, two) in enumerate(zip(got.leaves, want.leaves, strict=True)):
        if one.keys() != two.keys():
            return f"window {at} has other leaves"
        for leaf, array in two.items():
            if one[leaf].shape != array.shape:
                return f"{leaf.part} of window {at} has another shape"
            scale = max(1.0, float(np.abs(array).max(initial=0.0)))
            error = np.abs(one[leaf].astype(np.float64) - array).max(initial=0.0)
            if not error <= bound * scale:
                return f"{leaf.part} of window {at} differs by {error:.1e}"
    worst = np.abs(got.logits - want.logits).max(axis=(0, 2))
    if not (worst <= bound).all():
        return f"logits differ by {worst.max():.1e} at depth {worst.argmax() + 1}"
    return None


@cache
def random_ids(vocabulary: int, eos: int) -> tuple[int, ...]:
    rng = np.random.default_rng(11)
    ids = rng.integers(0, vocabulary, ROWS)
    ids[rng.choice(ROWS, 3, replace=False)] = eos
    return tuple(int(token) for token in ids)


def ids_of(config: tiny.Config) -> tuple[int, ...]:
    return random_ids(config["vocab_size"], config["eos_token_id"])


BACKENDS: tuple[Literal["mlx", "oracle"], ...] = ("mlx", "oracle")
IDS = ids_of(tiny.tiny_config())

# ---------------------------------------------------------------- agreement


@pytest.mark.parametrize("index", CONFIGS)
def test_engine_and_oracle_agree(tmp_path: Path, index: int) -> None:
    config = tiny.random_config(index)
    folder = write_with_head(tmp_path, config, 10 * index)
    model = strata_nb.load(folder, dtype="float32")
    got = answer(model.engine(mtp=True).backend, ids_of(config))
    want = answer(HeadOracle(open_checkpoint(folder)), ids_of(config))
    assert want.gaps > NEAR_TIE, "choose another seed: a selection is a near-tie"
    assert fault(got, want, bound=RANDOM_BOUND) is None


def test_the_grouped_norm_agrees(tiny_with_head: Path) -> None:
    model = strata_nb.load(tiny_with_head, dtype="float32")
    got = answer(model.engine(mtp=Mtp(norm="grouped")).backend, IDS)
    want = answer(GroupedNorm(open_checkpoint(tiny_with_head)), IDS)
    assert fault(got, want, bound=RANDOM_BOUND) is None


class RowForTokenZero(HeadOracle):
    """Counts positions from 1, and pairs token 0 with a wide row of zeros at 0.

    The oracle's own reading of positions t + 1 has no such pair.
    """

    def __init__(self, checkpoint: Any) -> None:
        super().__init__(checkpoint, position="t+1")

    def _row(self, state: State, token: int) -> tuple[Floats, State, list[Decision]]:
        h, after, decisions = super()._row(state, token)
        if state.position == 0 and state.head is not None:
            zeros = np.zeros_like(h[None])
            _, head, _ = self.pair(state.head | {"row.h": zeros}, token, -1)
            after = after._replace(head=head | {"row.h": h[None]})
        return h, after, decisions


def test_shifted_positions_of_the_engine_have_a_row_for_token_0(
    tiny_with_head: Path,
) -> None:
    model = strata_nb.load(tiny_with_head, dtype="float32")
    got = answer(model.engine(mtp=Mtp(position="t+1")).backend, IDS)
    checkpoint = open_checkpoint(tiny_with_head)
    assert (
        fault(got, answer(RowForTokenZero(checkpoint), IDS), bound=RANDOM_BOUND) is None
    )
    found = fault(got, answer(PositionAfter(checkpoint), IDS), bound=RANDOM_BOUND)
    assert found == "mtp_kv of window 0 has another shape"


def test_both_are_asked_alike(tiny_with_head: Path) -> None:
    drafts = []
    for backend in BACKENDS:
        engine = strata_nb.load(
            tiny_with_head, backend=backend, dtype="float32"
        ).engine(mtp=True)
        engine.prefill(IDS[:30])
        drafts.append(engine.draft(4, root=IDS[30]))
    assert drafts[0].tokens == drafts[1].tokens
    assert len(drafts[0].tokens) == 4
    for found in drafts:
        assert found.logits is not None
    np.testing.assert_allclose(
        np.array(drafts[0].logits), np.array(drafts[1].logits), atol=RANDOM_BOUND
    )


def test_strata_tiny_agrees() -> None:
    ids = [int(token) for token in EDIT.prompt()[:STRATA_TINY_ROWS]]
    model = strata_nb.load("strata-tiny", dtype="float32")
    got = answer(model.engine(mtp=True).backend, ids)
    want = answer(HeadOracle(model.checkpoint), ids)
    assert fault(got, want, bound=BUNDLED_BOUND) is None


@pytest.mark.parametrize("T", range(1, 9))
def test_every_width_agrees(tiny_with_head: Path, T: int) -> None:
    model = strata_nb.load(tiny_with_head, dtype="float32")
    ids = list(IDS)[:41]
    found = []
    backends: list[Backend] = [model.engine(mtp=True).backend]
    backends.append(HeadOracle(open_checkpoint(tiny_with_head)))
    for backend in backends:
        state, logits = backend.initial(), []
        for start in range(0, 40, T):
            rows = ids[start : min(start + T, 40)]
            forward = backend.run(state, rows, head=True)
            state = backend.commit(state, forward.pending, len(rows))
            root = ids[start + len(rows)]
            logits.append(np.array(drafting(backend).draft(state, root, None, None)[0]))
        found.append(np.stack(logits))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=RANDOM_BOUND)


# ---------------------------------------------------------------- mistakes


class TokenBefore(HeadOracle):
    """Pairs the wide row of token t with token t."""

    def _row(self, state: State, token: int) -> tuple[Floats, State, list[Decision]]:
        self._before = state.ids[-1]
        return super()._row(state, token)

    def draft(
        self, state: State, token: int, chain: Any, cut: Any
    ) -> tuple[Floats, Any]:
        self._before = state.ids[-1]
        return super().draft(state, token, chain, cut)

    def joined(self, h: Floats, token: int) -> Floats:
        return super().joined(h, self._before)


class MixedRow(HeadOracle):
    """Takes the final mixer's output for the wide row."""

    def joined(self, h: Floats, token: int) -> Floats:
        x, _ = blocks.mixed(self._mix_final, h)
        return super().joined(np.tile(x, (len(h), 1)), token)


class FirstStream(HeadOracle):
    """Adds the embedding to one stream instead of each."""

    def joined(self, h: Floats, token: int) -> Floats:
        added = super().joined(np.zeros_like(h), token)
        added[0] = 0.0
        return super().joined(h, token) - added


class PositionAfter(HeadOracle):
    """Counts positions from 1, whatever the cells."""

    def __init__(self, checkpoint: Any) -> None:
        super().__init__(checkpoint, position="t+1")


class ForgetfulChain(HeadOracle):
    """Starts each row of a chain where the first did, without the rows between."""

    def draft(
        self, state: State, token: int, chain: Any, cut: Any
    ) -> tuple[Floats, Any]:
        if chain is not None and state.head is not None:
            row = {"row.h": chain.head["row.h"]}
            chain = Chain(state.head | row, ())
        return super().draft(state, token, chain, cut)


class GroupedNorm(HeadOracle):
    """Takes the mean square of each stream by itself."""

    def __init__(self, checkpoint: Any) -> None:
        super().__init__(checkpoint, norm="grouped")


MISTAKES = {
    TokenBefore: "mtp_kv of window 1 differs",
    MixedRow: "mtp_kv of window 1 differs",
    FirstStream: "mtp_kv of window 1 differs",
    PositionAfter: "mtp_kv of window 1 differs",
    GroupedNorm: "mtp_kv of window 1 differs",
    ForgetfulChain: "logits differ by .* at depth",
}


@pytest.fixture(scope="module")
def tiny_with_head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_with_head(tmp_path_factory.mktemp("head"), tiny.tiny_config(), 1)


@pytest.fixture(scope="module")
def of_engine(tiny_with_head: Path) -> Answer:
    model = strata_nb.load(tiny_with_head, dtype="float32")
    return answer(model.engine(mtp=True).backend, IDS)


@pytest.mark.parametrize("mistaken", MISTAKES, ids=lambda kind: kind.__name__)
def test_the_comparison_sees_a_mistake(
    tiny_with_head: Path, of_engine: Answer, mistaken: type[HeadOracle]
) -> None:
    wrong = answer(mistaken(open_checkpoint(tiny_with_head)), IDS)
    found = fault(of_engine, wrong, bound=RANDOM_BOUND)
    assert found is not None
    assert found.startswith(MISTAKES[mistaken].split(" .*")[0]), found
    # What is drafted differs too, far above rounding.
    assert np.abs(of_engine.logits - wrong.logits).max() > 1e-2
