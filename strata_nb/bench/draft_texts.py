"""Texts to measure drafters on, of so many tokens, the same every time."""

import functools
import random
from collections.abc import Callable
from pathlib import Path

from strata_nb.model import load

VOCABULARY = 50_000
SEED = 7
NOISE = 0.02
"""Tokens of a noisy text that are not what the period says."""


def _phrases(count: int) -> list[int]:
    """Text that comes back to what it said, as edits do."""
    rng = random.Random(SEED)
    known = [
        [rng.randrange(VOCABULARY) for _ in range(rng.randrange(3, 12))]
        for _ in range(300)
    ]
    text: list[int] = []
    while len(text) < count:
        text += rng.choice(known)
    return text[:count]


def _code(count: int) -> list[int]:
    """This package's own source in the bundled model's tokens; then once more."""
    source = _source()
    return (source * (count // len(source) + 1))[:count]


@functools.cache
def _source() -> list[int]:
    model = load("strata-tiny")
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return [
        token
        for file in files
        for token in model.encode(file.read_text(encoding="utf-8"))
    ]


def _random(count: int) -> list[int]:
    rng = random.Random(SEED)
    return [rng.randrange(VOCABULARY) for _ in range(count)]


def _periodic(period: int, *, noise: float = 0) -> Callable[[int], list[int]]:
    def text(count: int) -> list[int]:
        rng = random.Random(SEED)
        return [
            rng.randrange(VOCABULARY) if rng.random() < noise else at % period
            for at in range(count)
        ]

    return text


TEXTS: dict[str, Callable[[int], list[int]]] = {
    "phrases": _phrases,
    "code": _code,
    "random": _random,
    "equal": _periodic(1),
    "period 3": _periodic(3),
    "noisy 97": _periodic(97, noise=NOISE),
}
"""By name; a period of 97 tokens is noisy: its strings may go on in two ways."""
