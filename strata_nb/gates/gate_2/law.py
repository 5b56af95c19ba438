"""Tokens by counts: with any drafts they have the law that they have without."""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from strata_nb.accept import accept
from strata_nb.draft import Draft
from strata_nb.faults import POLICY_FAULTS
from strata_nb.gates.records import Case, CaseResult, Finding, Profile, Scalar
from strata_nb.gates.stage.rig import Rig
from strata_nb.packs import ModelConfig
from strata_nb.sampling import Sampler, Sampling, draw, law, uniform

TOUCHES = ("sampler",)
LIMIT = 5.0
"""Standard deviations: sound sampling stays below it in all but one in 3 million."""

_TOKENS = 4
_SPREAD = 1.2
_TEXT = 400
_DRAWS = {"quick": 9_600}
_MOST_DRAWS = 40_000
_LEAST = 50  # expected counts below make chi-square a poor judge


def settings(
    config: ModelConfig, profile: Profile, context: int
) -> list[dict[str, Scalar]]:
    """Rule and kind of drafts; the target is scripted, so the model has no say.

    Args:
        config: not looked at.
        profile: "quick" draws fewer.
        context: not looked at.
    """
    draws = _DRAWS.get(profile, _MOST_DRAWS)
    return [
        {"rule": rule, "drafts": drafts, "draws": draws}
        for rule in ("equality", "ratio")
        for drafts in ("certain", "drawn")
    ]


def ask(case: Case, rig: Rig) -> CaseResult:
    """Count what follows each two tokens, and compare with the law."""
    fault = POLICY_FAULTS.get(rig.fault or "")
    make: Callable[..., Sampler] = fault.sampler if fault else Sampler
    counts = np.zeros((_TOKENS,) * 3)
    for number in range(int(case["draws"]) // _TEXT):
        sampling = Sampling(
            temperature=1.0,
            rule="ratio" if case["rule"] == "ratio" else "equality",
            seed=number,
        )
        width, is_drawn = 2 + number % 7, case["drafts"] == "drawn"
        text = _text(make(sampling, ()), width, number, is_drawn=is_drawn)
        np.add.at(counts, (text[:-2], text[1:-1], text[2:]), 1)
    sigma = _surprise(counts)
    findings: tuple[Finding, ...] = ()
    if sigma > LIMIT:
        note = f"{sigma:.1f} standard deviations from the law, wanted {LIMIT:g} at most"
        findings = (
            Finding("fault", "rule", "commit", "sampler", size=sigma, note=note),
        )
    return CaseResult(case, findings, ("sampler",))


@cache
def _table() -> np.ndarray:
    """Logits of the next token by the last one."""
    return np.random.default_rng(5).normal(0, _SPREAD, (_TOKENS, _TOKENS))


@cache
def _law(token: int, temperature: float) -> np.ndarray:
    return law(_table()[token], Sampling(temperature=temperature))


def _text(sampler: Sampler, width: int, seed: int, *, is_drawn: bool) -> list[int]:
    """Tokens of the scripted target, in windows of `width` rows."""
    text = [0]
    sampler.assign(text)
    while len(text) < _TEXT:
        draft = _draft(text, width - 1, seed, is_drawn=is_drawn)
        rows = [text[-1], *draft.tokens]
        choice = sampler.choice(draft.laws)
        chosen = choice(rows, _table()[rows], start=len(text) - 1)
        found = accept(rows, chosen, stop_ids=(), tokens_left=None)
        emitted = chosen[: found.accepted + 1]
        sampler.append(emitted)
        text += emitted
    return text


def _draft(text: Sequence[int], count: int, seed: int, *, is_drawn: bool) -> Draft:
    """The likeliest tokens, each third one a wrong one; or drawn, at other odds."""
    tokens = [text[-1]]
    laws = []
    for at in range(len(text), len(text) + count):
        flat = _law(tokens[-1], 1.6)
        if is_drawn:
            laws.append(flat)
            tokens.append(draw(flat, uniform(seed, "draft", at)))
        else:
            tokens.append((int(flat.argmax()) + (at % 3 == 0)) % _TOKENS)
    return Draft(tuple(tokens[1:]), laws=np.stack(laws) if laws else None)


def _surprise(counts: np.ndarray) -> float:
    """Chi-square over what follows each two tokens, in standard deviations.

    Pairs, since rows that share a random number have each the right law alone. The
    cube root of Wilson and Hilferty (1931) makes it normal.
    """
    total, free = 0.0, 0
    for two in range(_TOKENS):
        wanted = _law(two, 1.0)
        for one in range(_TOKENS):
            seen = counts[one, two]
            expected = wanted * seen.sum()
            if seen.sum() and expected.min() >= 5 and seen.sum() >= _LEAST:
                total += float(((seen - expected) ** 2 / expected).sum())
                free += _TOKENS - 1
    share = 2 / (9 * free)
    return (math.cbrt(total / free) - (1 - share)) / math.sqrt(share)
