"""The peer: mlx-lm's qwen3_next with random weights and the same dimensions."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from strata_nb.packs import ModelConfig


class Peer:
    """A random qwen3_next: no hyper-connections, no n-grams, no sparse attention.

    Args:
        config: the dimensions to copy.
        seed: of the weights.

    Raises:
        ModuleNotFoundError: mlx-lm is not installed (`pip install 'strata-nb[bench]'`).
    """

    def __init__(self, config: ModelConfig, *, seed: int = 0) -> None:
        from mlx_lm.models.cache import make_prompt_cache
        from mlx_lm.models.qwen3_next import Model, ModelArgs

        mx.random.seed(seed)
        arguments: Any = ModelArgs
        self.model: Any = Model(arguments.from_dict(_arguments(config)))
        self.model.set_dtype(mx.float32)
        mx.eval(self.model.parameters())
        self._make_cache: Callable[[Any], Any] = make_prompt_cache

    def cache_after(self, ids: list[int]) -> Any:
        """A prompt cache that holds `ids`."""
        cache = self._make_cache(self.model)
        mx.eval(self.model(mx.array(ids)[None], cache=cache))
        return cache

    def rows(self, ids: list[int], cache: Any) -> None:
        """The model called on T rows, its logits evaluated."""
        mx.eval(self.model(mx.array(ids)[None], cache=cache))

    def generate(self, ids: list[int], count: int) -> Any:
        """`generate_step` after `ids`: an iterator over `count` tokens."""
        from mlx_lm.generate import generate_step

        return generate_step(mx.array(ids), self.model, max_tokens=count)


def _arguments(config: ModelConfig) -> dict[str, Any]:
    same = (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "linear_num_value_heads",
        "linear_num_key_heads",
        "linear_key_head_dim",
        "linear_value_head_dim",
        "linear_conv_kernel_dim",
        "num_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
        "shared_expert_intermediate_size",
        "rms_norm_eps",
        "vocab_size",
        "rope_theta",
        "max_position_embeddings",
        "norm_topk_prob",
    )
    return {
        **{name: getattr(config, name) for name in same},
        "model_type": "qwen3_next",
        "intermediate_size": config.moe_intermediate_size,
        "partial_rotary_factor": config.rotary_dim / config.head_dim,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "full_attention_interval": 4,
    }
