"""Any model of mlx-lm, with its own prompt cache.

```python
from mlx_lm import load
model, tokenizer = load(path)
print(examine(MlxLm(model), prompt=tokenizer.encode(text)))
```
"""

import copy
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import mlx.core as mx
import numpy as np

from strata_nb.gates.foreign import RefusedError


class MlxLm:
    """One sequence of a model of mlx-lm.

    Args:
        model: what `mlx_lm.load` returns first, or any of its model classes.
        vocabulary: columns of logits to look at, for checkpoints that pad theirs; all
            of them when not given.

    Raises:
        ModuleNotFoundError: mlx-lm is not installed.
    """

    def __init__(self, model: Any, *, vocabulary: int | None = None) -> None:
        self.name = f"mlx-lm {model.model_type}"
        self._model, self._vocabulary = model, vocabulary
        self._caches = _import("mlx_lm.models.cache")
        self.reset()

    def reset(self) -> None:
        """Begin with a new prompt cache."""
        self.cache: list[Any] = self._caches.make_prompt_cache(self._model)
        self._rows: mx.array | None = None

    def feed(self, tokens: Sequence[int]) -> None:
        """Call the model on `tokens` as one batch row."""
        rows = self._model(mx.array([list(tokens)]), cache=self.cache)[0]
        # Widened here: NumPy has no bfloat16.
        self._rows = rows[:, : self._vocabulary].astype(mx.float32)
        mx.eval(self._rows, [entry.state for entry in self.cache])

    def logits(self) -> np.ndarray:
        """Of the rows of the last `feed`, float32 [rows, V]."""
        return np.array(self._rows)

    def trim(self, count: int) -> int:
        """Drop the last rows with `trim_prompt_cache`.

        Raises:
            RefusedError: the cache has an entry that cannot drop rows, as the recurrent
                layers of a hybrid model; `trim_prompt_cache` would answer 0 in silence.
        """
        if not self._caches.can_trim_prompt_cache(self.cache):
            kinds = {type(c).__name__ for c in self.cache if not c.is_trimmable()}
            raise RefusedError(
                f"mlx-lm cannot trim this prompt cache, because of {', '.join(kinds)}"
            )
        return int(self._caches.trim_prompt_cache(self.cache, count))

    def save(self) -> list[Any]:
        """A copy of the prompt cache with arrays of its own.

        `entry.state` would not do: of a recurrent layer it is the very list into which
        the next rows are written.
        """
        return copy.deepcopy(self.cache)

    def restore(self, saved: list[Any]) -> None:
        """Go on with another copy, so that `saved` can be restored again."""
        self.cache = copy.deepcopy(saved)


def random_qwen3_next(*, seed: int = 0, layers: int = 4, vocabulary: int = 97) -> Any:
    """A small qwen3_next of mlx-lm with random weights in float32.

    Three of four layers are recurrent (gated delta-net), one attends; all have experts.

    Args:
        seed: of the weights; MLX's random numbers go on from it.
        layers: a multiple of 4.
        vocabulary: tokens.

    Raises:
        ModuleNotFoundError: mlx-lm is not installed.
    """
    family = _import("mlx_lm.models.qwen3_next")
    mx.random.seed(seed)
    model = family.Model(
        family.ModelArgs(
            model_type="qwen3_next",
            vocab_size=vocabulary,
            hidden_size=32,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            linear_num_value_heads=4,
            linear_num_key_heads=2,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
            linear_conv_kernel_dim=4,
            num_experts=8,
            num_experts_per_tok=2,
            decoder_sparse_step=1,
            mlp_only_layers=[],
            intermediate_size=32,
            moe_intermediate_size=16,
            shared_expert_intermediate_size=16,
            rms_norm_eps=1e-6,
            rope_theta=10_000.0,
            partial_rotary_factor=0.5,
            max_position_embeddings=4096,
            norm_topk_prob=True,
        )
    )
    model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    return model


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "this adapter needs mlx-lm; install it with `pip install "
            "'strata-nb[bench]'`"
        ) from error
