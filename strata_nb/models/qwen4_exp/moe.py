"""Mixture of experts: a router, the chosen experts, and one shared expert."""

import mlx.core as mx

from strata_kernels.experts import mix_experts, swiglu
from strata_kernels.route import route
from strata_nb.models.qwen4_exp.weights import Weights


class Moe:
    """The feed-forward half of a layer (spec 8)."""

    def __init__(self, weights: Weights, layer: int) -> None:
        config = weights.config
        name = f"layers.{layer}.mlp"
        self.experts = config.num_experts
        self.top_k = config.num_experts_per_tok
        self.renormalise = config.norm_topk_prob
        self.gate_up, self.down = weights.experts(layer)
        # One product for the router, the shared gate and the shared expert's inputs.
        self.into = weights.linear(
            f"{name}.gate.weight",
            f"{name}.shared_expert_gate.weight",
            f"{name}.shared_expert.gate_proj.weight",
            f"{name}.shared_expert.up_proj.weight",
        )
        self.shared_down = weights.linear(f"{name}.shared_expert.down_proj.weight")

    def __call__(self, x: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        """Apply the experts to rows [T, H].

        Returns:
            [T, H]; expert numbers by rank, uint32 [T, K]; router logits, [T, E].
        """
        logits, gate, inner = mx.split(
            self.into(x), [self.experts, self.experts + 1], axis=-1
        )
        chosen, shares = route(logits, top_k=self.top_k, renormalise=self.renormalise)
        routed = mix_experts(x, chosen, shares, self.gate_up, self.down)
        shared = mx.sigmoid(gate) * self.shared_down(swiglu(inner))
        return routed + shared, chosen, logits
