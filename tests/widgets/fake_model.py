"""A model without mathematics: it writes its script, and something else off it.

The engine around it is the real one, so that order, errors and records are as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from strata_nb.engine import Engine
from strata_nb.trace import LayerDecisions, Leaf

HOSTILE = '<img src=x onerror="window.hacked=1">'
VOCABULARY = (
    "<end>", "\n", " ", "def", " f", "(x", "):", "    return", " x", " + 1", " * 2",
    HOSTILE, "\u202e", "\t", "é", "<b>bold</b>",
)  # fmt: skip
SCRIPT = (3, 4, 5, 6, 1, 7, 8, 9, 1, 3, 4, 5, 6, 1, 7, 8, 10, 1, 0)
"""`def f(x):`, `return x + 1`, the same with `* 2`, and the end."""

LAYERS, EXPERTS, CHOSEN = 4, 16, 2
State = tuple[int, ...]


def following(tokens: Sequence[int]) -> int:
    """Return the token after `tokens`: the script's, or one that is not in it."""
    if tuple(tokens) == SCRIPT[: len(tokens)] and len(tokens) < len(SCRIPT):
        return SCRIPT[len(tokens)]
    return 11 + (tokens[-1] + 1) % 5


@dataclass(frozen=True)
class FakeForward:
    """What one window gave."""

    logits: Any
    pending: State
    start: int

    def greedy(self) -> tuple[list[int], bool]:
        found = [int(i) for i in self.logits.argmax(-1)]
        return found, bool(np.isfinite(self.logits).all())

    def layers(self) -> tuple[LayerDecisions, ...]:
        """Experts that depend on token, cell and layer."""
        return tuple(
            LayerDecisions(
                expert_ids=np.array(
                    [
                        [(t + layer) % EXPERTS, (t + layer + 1 + (t + i) % 3) % EXPERTS]
                        for i, t in enumerate(self.pending)
                    ]
                )
            )
            for layer in range(LAYERS)
        )


@dataclass
class FakeBackend:
    """A backend whose state is the tokens themselves."""

    name: str = "fake"
    digest: str = "0" * 64
    broken: bool = False
    config: Any = field(
        default_factory=lambda: SimpleNamespace(
            vocab_size=len(VOCABULARY),
            num_experts=EXPERTS,
            num_experts_per_tok=CHOSEN,
            num_hidden_layers=LAYERS,
            stop_ids=(0,),
            seed=0,
        )
    )

    def initial(self) -> State:
        return ()

    def position(self, state: State) -> int:
        return len(state)

    def run(self, state: State, ids: Sequence[int], *, head: bool) -> FakeForward:
        logits = None
        if head:
            logits = np.tile(-np.arange(len(VOCABULARY)) / 8.0, (len(ids), 1))
            for row in range(len(ids)):
                best = following((*state, *ids[: row + 1]))
                logits[row, best] = 5.0
                logits[row, (best + 1) % len(VOCABULARY)] = 3.0
            if self.broken:
                logits[:] = np.nan
        return FakeForward(logits, tuple(ids), len(state))

    def commit(self, state: State, pending: State, keep: int) -> State:
        return (*state, *pending[:keep])

    def settle(self, state: State) -> State:
        return state

    def leaves(self, state: State) -> dict[Leaf, np.ndarray]:
        return {Leaf("ple_tokens", None, "ids"): np.array(state, dtype=np.int64)}

    def from_leaves(self, leaves: Mapping[Leaf, np.ndarray], *, position: int) -> State:
        (tokens,) = leaves.values()
        return tuple(int(t) for t in tokens)


class FakeModel:
    """What a widget asks of a model."""

    name = "fake"
    stop_ids = (0,)

    def __init__(self) -> None:
        self.backend = FakeBackend()
        self.config = self.backend.config

    def engine(self, *, context: int = 64) -> Engine:
        return Engine(self.backend, context=context, options={}, model=self)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        while text:
            fits = [w for w in VOCABULARY if text.startswith(w)]
            if not fits:
                raise ValueError(f"no token of the fake model begins {text!r}")
            best = max(fits, key=len)
            ids.append(VOCABULARY.index(best))
            text = text[len(best) :]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(VOCABULARY[i] for i in ids)
