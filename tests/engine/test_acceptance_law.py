"""Whatever the rule, the windows and the drafts: tokens have the model's law."""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from helpers import after, prompt
from scripted import Proposes, generated, no_drafts
from strata_nb import Model, Sampling, Session
from strata_nb.draft import Draft, Sampled
from strata_nb.faults import POLICY_FAULTS
from strata_nb.faults import sampling as wrong_sampling
from strata_nb.sampling import Adjustment, Penalties, Sampler, draw, law, uniform

V = 5
DRAWS = 40_000
TEXT = 500
# One row a token: what it says of the next one.
TABLE = np.random.default_rng(11).normal(0, 1.2, (V, V))
WIDTHS = range(1, 9)
# Wide windows cost much, and few of their last rows count: a share like 1 / width.
SHARES = {width: 1 / (width * sum(1 / w for w in WIDTHS)) for width in WIDTHS}

SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "T=0.5": ({"temperature": 0.5}, {}),
    "T=1": ({"temperature": 1.0}, {}),
    "top-k": ({"temperature": 1.0, "top_k": 3}, {}),
    "top-p": ({"temperature": 1.0, "top_p": 0.8}, {}),
    # Of the last two tokens, so that the law depends on these alone.
    "penalties": ({"temperature": 1.0}, {"frequency": 0.7, "lookback": 2}),
}


def target(text: Sequence[int]) -> np.ndarray:
    logits: np.ndarray = TABLE[text[-1]]
    return logits


@functools.cache
def own(last: int, temperature: float) -> np.ndarray:
    """The law of a drafter that knows the table."""
    return law(TABLE[last], Sampling(temperature=temperature))


def certain(seed: int) -> Proposes:
    """The likeliest token mostly, now and then another."""

    def propose(text: Sequence[int], most: int) -> Draft:
        tokens: list[int] = []
        for _ in range(most):
            best = int(TABLE[(text[-1], *tokens)[-1]].argmax())
            tokens.append((best + (len(text) + len(tokens)) % 3 // 2) % V)
        return Draft(tuple(tokens))

    return propose


def drawn(seed: int, *, temperature: float = 1.6) -> Proposes:
    """Drawn from a law of its own, some of its tokens impossible for the model."""

    def propose(text: Sequence[int], most: int) -> Draft:
        tokens: list[int] = []
        laws = []
        for at in range(len(text), len(text) + most):
            laws.append(own(tokens[-1] if tokens else text[-1], temperature))
            tokens.append(draw(laws[-1], uniform(seed, "draft", at)))
        return Draft(tuple(tokens), laws=np.stack(laws) if laws else None)

    return propose


DRAFTS = {"certain": certain, "drawn": drawn}


def surprise(
    sampler: Callable[[Sampling, Sequence[Adjustment]], Sampler],
    rule: str,
    settings: str,
    drafts: Sequence[str],
    *,
    draws: int = DRAWS,
) -> float:
    """How far `draws` tokens are from the law, in standard deviations.

    Chi-square over what follows each two tokens, so that rows of a window that depend
    on each other show too; Wilson and Hilferty's cube root makes it normal.
    """
    how, penalties = SETTINGS[settings]
    counts = np.zeros((V, V, V))
    texts = [
        (width, kind)
        for width, kind in itertools.product(WIDTHS, drafts)
        for _ in range(math.ceil(draws * SHARES[width] / len(drafts) / TEXT))
    ]
    # Each text its own numbers: those that shared them would not be so many.
    for seed, (width, kind) in enumerate(texts, 1000):
        sampling = Sampling(**how, rule=rule, seed=seed)  # type: ignore[arg-type]
        adjustments = [Penalties(**penalties)] if penalties else []
        text = generated(
            target,
            sampler(sampling, adjustments),
            [0, 1],
            TEXT,
            width=width,
            propose=DRAFTS[kind](seed),
        )
        # The prompt has the first two: it is not emitted, so not penalised.
        np.add.at(counts, (text[:-2], text[1:-1], text[2:]), 1)
    total, free = 0.0, 0
    for one, two in itertools.product(range(V), range(V)):
        seen = counts[one, two]
        if seen.sum() < 50:
            continue
        logits = TABLE[two].copy()
        for token in (one, two):
            logits[token] -= penalties.get("frequency", 0)
        expected = law(logits, Sampling(**how)) * seen.sum()
        possible = expected > 0
        if seen[~possible].any():
            return math.inf
        total += float(((seen - expected)[possible] ** 2 / expected[possible]).sum())
        free += int(possible.sum()) - 1
    spread = 2 / (9 * free)
    root: float = (total / free) ** (1 / 3)
    return (root - (1 - spread)) / math.sqrt(spread)


@pytest.mark.parametrize("rule", ["equality", "ratio"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_tokens_have_the_law_of_the_model(settings: str, rule: str) -> None:
    assert abs(surprise(Sampler, rule, settings, list(DRAFTS))) < 3.1


@pytest.mark.parametrize(
    ("wrong", "rule", "settings", "drafts"),
    [
        ("sampling_argmax", "equality", "T=1", "certain"),
        ("sampling_no_residual", "ratio", "T=1", "certain"),
        ("sampling_other_temperature", "ratio", "T=1", "drawn"),
        ("sampling_one_number", "equality", "T=1", "certain"),
        ("sampling_one_number", "ratio", "T=1", "drawn"),
        ("penalties_once_per_window", "equality", "penalties", "certain"),
        ("penalties_once_per_window", "ratio", "penalties", "drawn"),
    ],
)
def test_every_wrong_rule_shows(
    wrong: str, rule: str, settings: str, drafts: str
) -> None:
    make = POLICY_FAULTS[wrong].sampler
    assert surprise(make, rule, settings, [drafts], draws=DRAWS // 3) > 5


def test_every_wrong_rule_is_asked() -> None:
    marks = vars(test_every_wrong_rule_shows)["pytestmark"]
    known = {wrong.name for wrong in wrong_sampling.FAULTS}
    assert {row[0] for row in marks[0].args[1]} == known


def test_penalties_once_per_window_repeat_themselves() -> None:
    """The sign of the defect in public reports: 0 0 1 1 0 0 1 1 at width 2."""
    constant = np.array([2.0, 1.9, 0.0, 0.0])
    sampler = POLICY_FAULTS["penalties_once_per_window"].sampler(
        Sampling(), [Penalties(frequency=0.5)]
    )
    got = generated(
        lambda _: constant,
        sampler,
        [3],
        8,
        width=2,
        propose=lambda text, most: Draft((0, 0, 1, 1, 0, 0, 1, 1)[len(text) - 1 :][:1]),
    )
    assert got == [0, 0, 1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize("drafts", DRAFTS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_equality_is_the_text_without_drafts(
    settings: str, width: int, drafts: str
) -> None:
    how, penalties = SETTINGS[settings]

    def text(width: int, propose: Any) -> list[int]:
        adjustments = [Penalties(**penalties)] if penalties else []
        sampler = Sampler(Sampling(**how, seed=3), adjustments)
        return generated(target, sampler, [0], 120, width=width, propose=propose)

    assert text(width, DRAFTS[drafts](7)) == text(1, no_drafts)


def test_the_two_rules_accept_as_often_as_they_should() -> None:
    """A drafter that knows the law: the sum of squares, or everything."""
    for rule in ("equality", "ratio"):
        tally: dict[str, int] = {}
        sampling = Sampling(temperature=0.7, rule=rule, seed=2)
        text = generated(
            target,
            Sampler(sampling),
            [0],
            6000,
            width=2,
            propose=drawn(8, temperature=0.7),
            tally=tally,
        )
        acceptance = tally["accepted"] / tally["offered"]
        if rule == "ratio":
            assert acceptance == 1.0
        else:
            met = Counter(text)
            squares = [float((own(i, 0.7) ** 2).sum()) for i in range(V)]
            expected = sum(met[i] * squares[i] for i in range(V)) / len(text)
            assert abs(acceptance - expected) < 0.03


@pytest.mark.parametrize("rule", ["equality", "ratio"])
def test_the_model_path_has_the_law_too(small: Model, rule: str) -> None:
    """Two tokens after one prompt, drafts drawn and certain, 300 texts."""
    ids = prompt(small, 9)
    engine = after(small, ids)
    how = {"temperature": 1.3, "top_k": 4}
    window = engine.run([5])
    first = law(window.logits[0], Sampling(**how))  # type: ignore[arg-type]
    engine.abort(window)
    likely = int(first.argmax())
    counts = np.zeros(len(first))
    texts = 300
    for seed in range(texts):
        sampling = Sampling(**how, rule=rule, seed=seed)  # type: ignore[arg-type]
        q = law(np.log(first + 0.05), Sampling(temperature=1.0))
        token = draw(q, uniform(seed, "draft", 9))
        laws, row = (q[None], token) if seed % 2 else (None, likely)
        window = engine.run([5, row])
        choice = Sampler(sampling).choice(laws)
        result = engine.finish(window, stop_ids=(), choose=choice)
        engine.abort(window)
        counts[result.emitted[0]] += 1
        assert result.rule == rule
    expected = first * texts
    there = expected > 0
    assert not counts[~there].any()
    chi = float(((counts - expected)[there] ** 2 / expected[there]).sum())
    assert chi < 16.3  # 3 degrees of freedom, one in a thousand


@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_a_session_samples_the_same_text_with_any_drafts(
    small: Model, width: int
) -> None:
    sampling = Sampling(temperature=1.0, top_k=6, seed=4)
    ids = prompt(small, 12)
    plain = Session(small, sampling=sampling).reply(ids, max_new=40, stop_ids=())
    other = Session(
        small,
        sampling=sampling,
        drafter=Sampled(lambda _: np.full(17, 1 / 17), seed=1),
        adjustments=[],
    )
    got = other.reply(ids, max_new=40, stop_ids=())
    assert got.tokens == plain.tokens
    assert {record.rule for record in other.trace if not record.headless} == {
        "equality"
    }
