"""One layer: an n-gram embedding where it has one, attention, experts."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from strata_nb.models.qwen4_exp.gdn import Gdn
from strata_nb.models.qwen4_exp.mixer import StreamMixer, write_back
from strata_nb.models.qwen4_exp.moe import Moe
from strata_nb.models.qwen4_exp.options import EngineOptions
from strata_nb.models.qwen4_exp.ple import Ple
from strata_nb.models.qwen4_exp.qsa import Choice, Qsa
from strata_nb.models.qwen4_exp.weights import Weights
from strata_nb.models.qwen4_exp.window_rows import WindowRows
from strata_nb.packs.config import LINEAR
from strata_nb.parts import Part
from strata_nb.policies.routing import Chosen, Seen


@dataclass(frozen=True)
class Decisions:
    """What a layer chose for the rows of a window."""

    chosen: Chosen  # [T, K]
    logits: mx.array  # [T, E]
    choice: Choice | None


class Layer:
    """A layer and its parts, in the order of its state (spec 2)."""

    def __init__(self, weights: Weights, index: int, options: EngineOptions) -> None:
        config = weights.config
        name = weights.stem(index)
        self.index = index
        self.ple = Ple(weights, index, options) if index in config.ple_layers else None
        self.attention_mixer, self.expert_mixer = (
            StreamMixer(weights, f"{name}.{half}_hyper_connection", injects=True)
            for half in ("attn", "mlp")
        )
        is_linear = weights.kind(index) == LINEAR
        make = Gdn if is_linear else Qsa
        self.attention: Gdn | Qsa = make(weights, index, options)
        self.moe = Moe(weights, index, options)
        past = self.ple.parts if self.ple else ()
        self.parts: tuple[Part[Any, Any], ...] = (*past, *self.attention.parts)

    def __call__(
        self,
        h: mx.array,
        committed: tuple[Any, ...],
        window: WindowRows,
        seen: Seen,
        *,
        embedding: mx.array | None,
        head: bool,
    ) -> tuple[mx.array, tuple[Any, ...], Decisions]:
        """Streams [T, C, H] after the layer, what is pending, what was decided.

        Args:
            h: streams, [T, C, H].
            committed: values of `parts`, in order.
            window: where the rows stand.
            seen: what the routing may look at.
            embedding: this layer's n-gram embedding, [T, D_p], if it has one.
            head: predictions are made.
        """
        pending: tuple[Any, ...] = ()
        if self.ple is not None and embedding is not None:
            h, history = self.ple(h, embedding, committed[0])
            pending, committed = (history,), committed[1:]
        row, halves = self.attention_mixer(h)
        choice = None
        if isinstance(self.attention, Gdn):
            y, more = self.attention(row, committed, head=head)
        else:
            y, more, choice = self.attention(row, committed, window)
        h = write_back(h, halves, y)
        row, halves = self.expert_mixer(h)
        y, chosen, logits = self.moe(row, window, seen)
        h = write_back(h, halves, y)
        return h, (*pending, *more), Decisions(chosen, logits, choice)

    def take_in(
        self, h: mx.array, committed: tuple[Any, ...], window: WindowRows
    ) -> tuple[Any, ...]:
        """What is pending alone: where nobody reads the streams after the layer."""
        assert isinstance(self.attention, Qsa)
        row, _ = self.attention_mixer(h)
        return self.attention.take_in(row, committed, window).pending
