"""A model whose logits are a script, for requests whose answer is known before."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strata_nb import Engine, Model
from strata_nb.draft import Draft
from strata_nb.packs import ModelConfig
from strata_nb.trace import LayerDecisions, Leaf

Target = Callable[[Sequence[int]], np.ndarray]
"""Answers all tokens up to a row with that row's logits, [V]."""

TEXT = Leaf("text", None, "tokens")
"""The only part of a scripted engine: the tokens of its committed cells."""

CONTEXT = 4096


@dataclass(frozen=True)
class Said:
    """One window of a script."""

    logits: np.ndarray | None
    pending: tuple[int, ...]
    expert_wait_ms: float | None = None

    def greedy(self) -> tuple[list[int], bool]:
        assert self.logits is not None
        best = [int(token) for token in self.logits.argmax(axis=1)]
        return best, bool(np.isfinite(self.logits).all())

    def layers(self) -> tuple[LayerDecisions, ...]:
        return ()


class Script:
    """A backend: its state is the text, and nothing but a commit adds to it."""

    name, digest = "script", "script"

    def __init__(self, config: ModelConfig, target: Target) -> None:
        self.config, self._target = config, target

    def initial(self) -> tuple[int, ...]:
        return ()

    def position(self, state: tuple[int, ...]) -> int:
        return len(state)

    def run(self, state: tuple[int, ...], ids: Sequence[int], *, head: bool) -> Said:
        rows = tuple(ids)
        if not head:
            return Said(None, rows)
        found = [self._target([*state, *rows[: i + 1]]) for i in range(len(rows))]
        return Said(np.array(found, np.float64), rows)

    def commit(
        self, state: tuple[int, ...], pending: tuple[int, ...], keep: int
    ) -> tuple[int, ...]:
        return (*state, *pending[:keep])

    def settle(self, state: tuple[int, ...]) -> tuple[int, ...]:
        return state

    def leaves(self, state: tuple[int, ...]) -> dict[Leaf, np.ndarray]:
        return {TEXT: np.array(state, np.int64)}

    def from_leaves(
        self, leaves: Mapping[Leaf, np.ndarray], *, position: int
    ) -> tuple[int, ...]:
        return tuple(int(token) for token in leaves[TEXT])


class ScriptedModel(Model):
    """A model without weights or tokenizer.

    Args:
        like: a model whose architecture is claimed; nothing of it is computed.
        target: the script.
        vocabulary: tokens there are, V.
        stop_ids: tokens that end a text.
    """

    def __init__(
        self, like: Model, target: Target, *, vocabulary: int, stop_ids: Sequence[int]
    ) -> None:
        self.tokenizer = None
        self.script = Script(
            replace(like.config, vocab_size=vocabulary, stop_ids=tuple(stop_ids)),
            target,
        )

    @property
    def config(self) -> ModelConfig:
        return self.script.config

    @property
    def name(self) -> str:
        return self.script.name

    def engine(self, **options: Any) -> Engine:
        return Engine(self.script, context=CONTEXT, options=options, model=self)


def chain(follows: Mapping[int, int], *, vocabulary: int, other: int) -> Target:
    """A script that goes by the last token alone; `other` follows what is not named."""

    def target(tokens: Sequence[int]) -> np.ndarray:
        logits = np.zeros(vocabulary)
        logits[follows.get(tokens[-1], other)] = 4.0
        return logits

    return target


def constant(like: Model, logits: Sequence[float]) -> ScriptedModel:
    """A script that says the same after whatever text, and never stops."""
    values = np.array(logits)
    return ScriptedModel(
        like, lambda tokens: values, vocabulary=len(values), stop_ids=()
    )


class After:
    """A drafter that proposes by the last token of the text, and shows its history."""

    name = "after"

    def __init__(self, proposals: Mapping[int, Sequence[int]]) -> None:
        self._proposals = proposals
        self.history: list[int] = []

    def assign(self, tokens: Sequence[int]) -> None:
        self.history = list(tokens)

    def append(self, tokens: Sequence[int]) -> None:
        self.history += tokens

    def propose(self, most: int) -> Draft:
        return Draft(tuple(self._proposals.get(self.history[-1], ())[:most]))


class Rows:
    """Windows of at most so many rows, as a policy of a session."""

    name = "rows"

    def __init__(self, most: int) -> None:
        self._most = most

    def rows(self, position: int, *, most: int, ratio: int) -> int:
        return min(most, self._most)
