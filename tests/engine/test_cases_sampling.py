"""Public bug reports as small tests: penalties, draws, processors."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from helpers import prompt
from scripted_model import After, Rows, constant
from strata_nb import Model, Sampling, Session
from strata_nb.draft import Adversary, Constant, Drafter, Perfect, Sampled, SuffixLookup
from strata_nb.faults import POLICY_FAULTS
from strata_nb.sampling import GREEDY, History, Penalties, Processors, law

WIDTHS = range(1, 9)

CONSTANT = (2.0, 1.9, 0.0, 0.0)

HAND_06: dict[str, tuple[Penalties, tuple[int, ...]]] = {
    "frequency": (Penalties(frequency=0.5), (0, 1, 0, 1, 0, 1, 0, 1)),
    "presence": (Penalties(presence=0.5), (0, 1, 0, 0, 0, 0)),
}
OFFERS: dict[str, Callable[[Sequence[int]], Drafter]] = {
    "right": Perfect,
    "wrong": lambda text: Adversary(text, 4),
    "any": lambda text: Constant([1, 0, 0, 2, 1, 1, 3]),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("offers", OFFERS)
@pytest.mark.parametrize("penalty", HAND_06)
def test_hand_06_each_row_has_its_own_counts(
    tiny: Model, penalty: str, offers: str, width: int
) -> None:
    """HAND-06: penalties are what they are without drafts, rejected ones not counted.

    https://github.com/sgl-project/sglang/issues/33643
    """
    settings, want = HAND_06[penalty]
    penalties = Penalties.like(settings)
    session = Session(
        constant(tiny, CONSTANT),
        drafter=OFFERS[offers]([3, *want]),
        adjustments=[penalties],
        length=Rows(width),
    )
    reply = session.reply([3], max_new=len(want))
    assert reply.tokens == want
    if offers != "any" and width > 1:
        assert reply.acceptance == (1.0 if offers == "right" else 0.0)
    times = [[token, want.count(token)] for token in sorted(set(want))]
    assert penalties.leaves()["emitted"].tolist() == times
    assert penalties.leaves()["seen"].tolist() == [*times, [3, 1]]


def test_hand_06_the_bug_has_its_sign_at_width_2(tiny: Model) -> None:
    """HAND-06: counted once per window, width 2 gives each token twice.

    https://github.com/sgl-project/sglang/issues/33643
    """
    fault, wrong = "penalties_once_per_window", (0, 0, 1, 1, 0, 0, 1, 1)
    for name, want in ((None, (0, 1) * 4), (fault, wrong)):
        session = Session(
            constant(tiny, CONSTANT),
            drafter=Perfect([3, *want]),
            adjustments=[Penalties(frequency=0.5)],
            length=Rows(2),
            fault=name,
        )
        assert session.reply([3], max_new=8).tokens == want
    # The same by the sampler alone, which is what the session was given.
    sampler = POLICY_FAULTS[fault].sampler(GREEDY, [Penalties(frequency=0.5)])
    sampler.assign([3])
    rows = np.array([CONSTANT, CONSTANT])
    found: list[int] = []
    for at in range(0, 8, 2):
        root = [3, *found][-1]
        chosen = sampler.choice()([root, wrong[at]], rows, start=at)
        assert chosen[0] == wrong[at]
        sampler.append(chosen)
        found += chosen
    assert tuple(found) == wrong


LAW = (0.45, 0.25, 0.15, 0.1, 0.05)
DRAWS = 4000


@pytest.mark.parametrize("rule", ["equality", "ratio"])
@pytest.mark.parametrize("width", [2, 4])
def test_s11_drafts_drawn_from_p_are_accepted(
    tiny: Model, rule: Any, width: int
) -> None:
    """S11: a drafter that draws from p at T = 0.7, on a script whose p is known.

    https://github.com/jundot/omlx/issues/3370
    """
    sampling = Sampling(temperature=0.7, rule=rule, seed=11)
    model = constant(tiny, [0.7 * float(np.log(p)) for p in LAW])
    session = Session(
        model,
        drafter=Sampled(lambda text: np.array(LAW)),
        sampling=sampling,
        length=Rows(width),
    )
    reply = session.reply([0], max_new=DRAWS, stop_ids=())
    if rule == "ratio":
        assert reply.acceptance is not None
        assert reply.acceptance > 0.999
        return
    # A draft is accepted when two draws of one law are the same, all before it too.
    same = float(np.square(LAW).sum())
    reached = [same**n for n in range(1, width)]
    mean = sum(reached)
    square = sum((2 * n - 1) * p for n, p in enumerate(reached, start=1))
    four_sigma = 4 * np.sqrt((square - mean**2) / reply.windows)
    assert abs(reply.accepted / reply.windows - mean) < four_sigma


class Knowing:
    """The model's own law after any text, by an engine that follows the text."""

    def __init__(self, model: Model, sampling: Sampling) -> None:
        self._engine, self._sampling = model.engine(), sampling
        self.squares: list[float] = []

    def __call__(self, tokens: Sequence[int]) -> np.ndarray:
        engine = self._engine
        engine.prefill(tokens[engine.position : -1])
        window = engine.run(tokens[-1:])
        engine.finish(window)
        found = law(window.logits[0], self._sampling)
        engine.abort(window)
        self.squares.append(float(np.square(found).sum()))
        return found


@pytest.mark.parametrize("rule", ["equality", "ratio"])
def test_s11_on_a_real_engine(tiny: Model, rule: Any) -> None:
    """S11: p is TINY's own; acceptance is what its squares say, and not 0.

    https://github.com/jundot/omlx/issues/3370
    """
    sampling = Sampling(temperature=0.7, top_k=4, rule=rule, seed=5)
    knowing = Knowing(tiny, sampling)
    session = Session(
        tiny, drafter=Sampled(knowing, seed=6), sampling=sampling, length=Rows(2)
    )
    reply = session.reply(prompt(tiny, 12, seed=11), max_new=100, stop_ids=())
    assert reply.offered == len(knowing.squares) > 40
    if rule == "ratio":
        assert reply.accepted >= 0.98 * reply.offered
        return
    squares = np.array(knowing.squares)
    four_sigma = 4 * np.sqrt((squares * (1 - squares)).sum())
    assert four_sigma < squares.sum()
    assert abs(reply.accepted - squares.sum()) < four_sigma


def no_repeat(history: History, logits: np.ndarray) -> np.ndarray:
    """Bans the last token."""
    logits[history[-1]] = -np.inf
    return logits


S12: dict[str, Callable[[Sequence[int]], Drafter]] = {
    "right": Perfect,
    "repeating": lambda text: After({token: [token] * 7 for token in text}),
    "lookup": lambda text: SuffixLookup(minimum=1, most=7),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("offers", S12)
def test_s12_a_processor_sees_the_rows_own_last_token(
    tiny: Model, offers: str, width: int
) -> None:
    """S12: a ban on repeating the last token, where the model would repeat.

    https://github.com/ml-explore/mlx-lm/issues/1175
    """
    model, want = constant(tiny, [3.0, 2.0, 1.0]), (1, 0) * 10
    assert Session(model).reply([0], max_new=20).tokens == (0,) * 20
    session = Session(
        model,
        drafter=S12[offers]([0, *want]),
        adjustments=[Processors(no_repeat)],
        length=Rows(width),
    )
    reply = session.reply([0], max_new=20)
    assert reply.tokens == want
    assert (reply.accepted > 0) == (width > 1 and offers != "repeating")


def unlike(small: Model, rows: int, temperature: float) -> list[int]:
    """24 tokens, and the one before them, of which none may follow itself."""
    session = Session(
        small,
        drafter=SuffixLookup(minimum=1, most=7),
        sampling=Sampling(temperature=temperature),
        adjustments=[Processors(no_repeat)],
        length=Rows(rows),
    )
    ids = prompt(small, 12, seed=12)
    return [ids[-1], *session.reply(ids, max_new=24, stop_ids=()).tokens]


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_s12_on_a_real_engine(small: Model, temperature: float) -> None:
    """S12: the text is the same for every width, and no token follows itself.

    https://github.com/ml-explore/mlx-lm/issues/1175
    """
    texts = [unlike(small, width, temperature) for width in WIDTHS]
    assert texts == [texts[0]] * 8
    assert all(a != b for a, b in pairwise(texts[0]))
