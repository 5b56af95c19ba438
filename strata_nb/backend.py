"""What an engine asks of a model: the verbs over a whole immutable state."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from strata_nb.draft.head import Cut
from strata_nb.packs import ModelConfig
from strata_nb.trace import LayerDecisions, Leaf


class Text(Protocol):
    """What knows the text of tokens: the model an engine was made of."""

    @property
    def name(self) -> str:
        """Of the checkpoint."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end a text."""

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`."""


class Forward(Protocol):
    """The results of one window, already evaluated."""

    @property
    def logits(self) -> Any:
        """[T, V], or None for a headless window."""

    @property
    def pending(self) -> Any:
        """What a commit of any prefix needs; opaque."""

    def greedy(self) -> tuple[list[int], bool]:
        """The best token of each row (the lowest on a tie); whether all are finite."""

    def layers(self) -> tuple[LayerDecisions, ...]:
        """What each layer chose."""


class Backend(Protocol):
    """One way to compute a model; states are opaque values that nobody changes."""

    config: ModelConfig
    name: str
    digest: str

    def initial(self) -> Any:
        """An empty sequence."""

    def position(self, state: Any) -> int:
        """Committed cells of `state`."""

    def run(self, state: Any, ids: Sequence[int], *, head: bool) -> Forward:
        """All layers over T rows; `state` stays as it is."""

    def commit(self, state: Any, pending: Any, keep: int) -> Any:
        """The state after the first `keep` rows; the old one stays as it is."""

    def settle(self, state: Any) -> Any:
        """The same state with no fold pending."""

    def leaves(self, state: Any) -> dict[Leaf, np.ndarray]:
        """Live cells of every part."""

    def from_leaves(self, leaves: Mapping[Leaf, np.ndarray], *, position: int) -> Any:
        """The state of `position` cells whose `leaves` these are."""


class Chains(Protocol):
    """Drafts row by row from a committed state that it never changes."""

    def draft(
        self, state: Any, token: int, chain: Any, cut: Cut | None
    ) -> tuple[np.ndarray, Any]:
        """One row of a draft; `state` stays as it is.

        Returns:
            Float64 logits behind `token`, [V], minus infinity where `cut` leaves a
            token out; the longer chain. `chain` None begins at `state`.
        """


class Drafting(Backend, Chains, Protocol):
    """A backend that has a draft head."""

    def caught_up(self, state: Any) -> Any:
        """The same state, whose head has read all there is to read."""


def identity(backend: Backend, options: Mapping[str, str | bool]) -> dict[str, str]:
    """What an engine must share with a saved state to take it.

    Args:
        backend: gives the model.
        options: of the engine; those that shape its state count.
    """
    kept = {k: str(v) for k, v in options.items() if k in ("kv", "dtype")}
    # Of another hash seed is said before of another model, which it is too.
    told = {"hash seed": str(backend.config.seed), "model": backend.digest, **kept}
    return {**told, "mtp": str(options.get("mtp", "off"))}
