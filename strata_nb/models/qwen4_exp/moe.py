"""Mixture of experts: a router, the chosen experts, and one shared expert."""

import mlx.core as mx
import numpy as np

from strata_kernels.experts import swiglu
from strata_kernels.route import shares, strongest
from strata_nb.models.qwen4_exp.options import EngineOptions
from strata_nb.models.qwen4_exp.weights import Weights
from strata_nb.models.qwen4_exp.window_rows import WindowRows
from strata_nb.policies.routing import Chosen, Seen


class Moe:
    """The feed-forward half of a layer (spec 8)."""

    def __init__(self, weights: Weights, layer: int, options: EngineOptions) -> None:
        config = weights.config
        name = f"{weights.stem(layer)}.mlp"
        self.layer, self.imposed = layer, options.imposed
        self.routing = options.routing
        self.count = config.num_experts
        self.top_k = config.num_experts_per_tok
        self.renormalise = config.norm_topk_prob
        self.experts = weights.routed_of(layer)
        self.experts.prepare(layer)
        # One product for the router, the shared gate and the shared expert's inputs.
        self.into = weights.linear(
            f"{name}.gate.weight",
            f"{name}.shared_expert_gate.weight",
            f"{name}.shared_expert.gate_proj.weight",
            f"{name}.shared_expert.up_proj.weight",
        )
        self.shared_down = weights.linear(f"{name}.shared_expert.down_proj.weight")

    def __call__(
        self, x: mx.array, window: WindowRows, seen: Seen
    ) -> tuple[mx.array, Chosen, mx.array]:
        """Apply the experts to rows [T, H].

        Args:
            x: rows, [T, H].
            window: where they stand.
            seen: what the routing may look at.

        Returns:
            [T, H]; the experts of each row; router logits, [T, E].
        """
        logits, gate, inner = mx.split(
            self.into(x), [self.count, self.count + 1], axis=-1
        )
        chosen = self.routing.choose(logits, top_k=self.top_k, seen=seen)
        chosen = self.imposed.experts_of(
            self.layer, window.cells, chosen, experts=self.count
        )
        weights = self._weights(logits, chosen)
        routed = self._routed(x, chosen, weights)
        shared = mx.sigmoid(gate) * self.shared_down(swiglu(inner))
        return routed + shared, chosen, logits

    def _weights(self, logits: mx.array, chosen: Chosen) -> mx.array:
        """What each chosen expert weighs, [T, K]."""
        if chosen.keep_mass is None or chosen.keep_mass == self.renormalise:
            return shares(
                logits, chosen.ids, renormalise=self.renormalise, used=chosen.used
            )
        # The policy and the router differ: what all natural experts weigh decides.
        natural = strongest(logits, top_k=self.top_k)
        whole = shares(logits, natural, renormalise=False).sum(axis=-1, keepdims=True)
        left = shares(
            logits, chosen.ids, renormalise=chosen.keep_mass, used=chosen.used
        )
        return left * whole if chosen.keep_mass else left / whole

    def _routed(self, x: mx.array, chosen: Chosen, weights: mx.array) -> mx.array:
        if chosen.used is None:
            return self.experts.mix(self.layer, x, chosen.ids, weights)
        # Rows without any expert stay away, so that none is read for them.
        rows = chosen.busy_rows()
        # 0 for them, or NaN where the router said so.
        nothing = weights.sum(axis=-1, keepdims=True) * mx.zeros_like(x)
        if not len(rows):
            return nothing
        there = mx.array(rows.astype(np.uint32))
        mixed = self.experts.mix(
            self.layer, x[there], chosen.ids[there], weights[there]
        )
        return mixed if len(rows) == len(x) else _put(nothing, there, mixed)


def _put(into: mx.array, rows: mx.array, values: mx.array) -> mx.array:
    """`into` [T, H] with `values` in some of its rows."""
    filled = mx.array(into)
    filled[rows] = values
    return filled
