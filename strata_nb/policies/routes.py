"""Which experts a token used before: a guess at those that it will use."""

import operator
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from strata_nb.trace import WindowRecord

Counts: TypeAlias = npt.NDArray[np.uint32]


@dataclass(kw_only=True)
class Routes:
    """Counts, for each token, of the experts that its rows used in each layer.

    A row's experts follow from all of its context, of which only the last token is
    known here. A token that was not seen is taken for the most used experts. All rows
    count, those of prompts and of rejected drafts too.

    Attributes:
        tokens: that are remembered, the ones used last, 1 or more. Each takes four
            bytes for an expert of a layer.

    Raises:
        ValueError: `tokens` is below 1.
    """

    tokens: int = 1024
    _seen: OrderedDict[int, Counts] = field(
        default_factory=OrderedDict, init=False, repr=False
    )
    _all: Counts | None = field(default=None, init=False, repr=False)
    _each: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.tokens, bool) or operator.index(self.tokens) < 1:
            raise ValueError(f"`tokens` is {self.tokens}, wanted 1 or more")

    def __len__(self) -> int:
        """Tokens that are remembered."""
        return len(self._seen)

    @property
    def layers(self) -> int:
        """Layers with experts, of what was recorded; 0: nothing was."""
        return 0 if self._all is None else len(self._all)

    def learn(self, record: WindowRecord) -> None:
        """Count the experts of a window's rows.

        Raises:
            ValueError: a window of a model with another number of layers.
        """
        if not record.layers:
            return
        ids = np.stack([layer.expert_ids for layer in record.layers])  # [L, T, K]
        self._grow(len(ids), int(ids.max(initial=0)) + 1)
        self._each = max(self._each, ids.shape[2])
        assert self._all is not None
        for row, token in enumerate(record.inputs):
            counts = self._seen.pop(token, None)
            if counts is None:
                counts = np.zeros_like(self._all)
            self._seen[token] = counts
            for layer, used in enumerate(ids[:, row]):
                experts = used[used >= 0]
                counts[layer, experts] += 1
                self._all[layer, experts] += 1
            if len(self._seen) > self.tokens:
                self._seen.popitem(last=False)

    def predict(self, token: int) -> list[frozenset[int]]:
        """By layer, as many experts as a row uses: those that `token` used most.

        Of equals the lower number; fewer where it used fewer. Nothing before anything
        was recorded.
        """
        if self._all is None:
            return []
        counts = self._seen.get(token, self._all)
        return [_most(layer, self._each) for layer in counts]

    def _grow(self, layers: int, experts: int) -> None:
        """Make room for experts of higher numbers than were seen yet."""
        if self._all is None:
            self._all = np.zeros((layers, experts), np.uint32)
        if layers != len(self._all):
            raise ValueError(
                f"a window has experts in {layers} layers, those before in "
                f"{len(self._all)}; one `Routes` is of one model"
            )
        more = experts - self._all.shape[1]
        if more > 0:
            self._all = _wider(self._all, more)
            for token, counts in self._seen.items():
                self._seen[token] = _wider(counts, more)


def _most(counts: npt.NDArray[Any], many: int) -> frozenset[int]:
    # Stable, so that the lower number wins a tie.
    order = np.argsort(-counts.astype(np.int64), kind="stable")[:many]
    return frozenset(int(expert) for expert in order if counts[expert])


def _wider(counts: Counts, more: int) -> Counts:
    return np.pad(counts, ((0, 0), (0, more)))
