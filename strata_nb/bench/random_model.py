"""A model of any size with random weights, made on the device; no file is read.

Experts are 4-bit, all else is bfloat16, as released packs have it. The n-gram table is
smaller than the released one, and on the host: its rows are looked up one by one.
"""

import zlib
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np

from strata_kernels.experts import Quantised
from strata_nb.engine import Engine
from strata_nb.models.qwen4_exp import EngineOptions, Qwen4Exp, Weights
from strata_nb.packs import ModelConfig
from strata_nb.packs.config import INDEXED, LINEAR
from strata_nb.packs.manifest import tensor_shapes
from strata_nb.packs.ple import PleConstants, derive_constants, hash_rows
from strata_nb.policies.routing import NATURAL, Routing
from strata_nb.window import Committed

BITS = 4
# Mean and deviation of a code of 4 bits that is anything from 0 to 15.
_MEAN, _DEVIATION = 7.5, 4.61

RELEASED = ModelConfig(
    model_type="qwen4_exp",
    vocab_size=248320,
    hidden_size=2560,
    num_hidden_layers=48,
    layer_types=(LINEAR, LINEAR, LINEAR, INDEXED) * 12,
    rms_norm_eps=1e-6,
    hidden_act="silu",
    attention_bias=False,
    tie_word_embeddings=False,
    max_position_embeddings=262144,
    hc_count=4,
    hc_lowrank=320,
    num_attention_heads=24,
    num_key_value_heads=2,
    head_dim=256,
    rope_theta=1e7,
    rotary_dim=64,
    indexer_n_heads=4,
    indexer_head_dim=128,
    indexer_compress_ratio=4,
    indexer_budget=2048,
    linear_num_key_heads=16,
    linear_num_value_heads=48,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_conv_kernel_dim=4,
    output_gate="sigmoid",
    num_experts=512,
    num_experts_per_tok=10,
    moe_intermediate_size=640,
    shared_expert_intermediate_size=640,
    norm_topk_prob=True,
    ple_layers=(1,),
    ple_embed_dim=2560,
    ngram_size=3,
    heads_per_ngram=8,
    ple_conv_kernel_size=4,
    ngram_vocab_size_base=20_000,
    make_ngram_vocab_size_divisible_by=128,
    seed=1234,
    split_ngram_parts=128,
    eos_token_id=248044,
    stop_ids=(248044, 248046),
    notes=(),
)
"""The released sizes, with a thousandth of the n-gram table."""

SMALL = replace(
    RELEASED,
    vocab_size=512,
    hidden_size=64,
    num_hidden_layers=4,
    layer_types=RELEASED.layer_types[:4],
    hc_lowrank=8,
    num_attention_heads=4,
    head_dim=32,
    rotary_dim=16,
    indexer_head_dim=32,
    indexer_budget=64,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=32,
    linear_value_head_dim=32,
    num_experts=32,
    num_experts_per_tok=4,
    moe_intermediate_size=32,
    shared_expert_intermediate_size=32,
    ple_embed_dim=64,
    heads_per_ngram=4,
    ngram_vocab_size_base=200,
    split_ngram_parts=4,
    eos_token_id=511,
    stop_ids=(511,),
    max_position_embeddings=65536,
)
"""The same architecture, for any machine."""


class _Table:
    """An n-gram table of random rows, in memory."""

    def __init__(self, config: ModelConfig, constants: PleConstants) -> None:
        rng = np.random.default_rng(config.seed)
        shape = (constants.table_rows, config.ngram_head_dim)
        self._constants, self._eos = constants, config.eos_token_id
        self._rows = rng.standard_normal(shape, np.float32)

    def hash(self, context: Any, ids: Any) -> Any:
        assert self._eos is not None
        c = self._constants
        sizes: dict[str, Any] = {"sizes": c.sizes, "offsets": c.offsets}
        return hash_rows(
            context, ids, multipliers=c.multipliers, eos=self._eos, **sizes
        )

    def rows(self, numbers: Any) -> Any:
        return self._rows[numbers]


class _NoCheckpoint:
    """What weights ask of a checkpoint, without one."""

    name, digest = "random", "random"

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self._tables = [_Table(config, c) for c in derive_constants(config)]

    def ple(self, j: int) -> _Table:
        return self._tables[j]


class RandomWeights(Weights):
    """Weights by canonical name, each from a seed of its own name.

    Args:
        config: sizes.
    """

    def __init__(self, config: ModelConfig) -> None:
        checkpoint: Any = _NoCheckpoint(config)
        self._shapes = tensor_shapes(config)
        super().__init__(checkpoint, mx.bfloat16)

    def read(self, name: str) -> mx.array:
        """Matrices that keep the size of what goes through them; small vectors."""
        shape = self._shapes[name]
        if len(shape) == 1:
            scale = 0.1
        elif name.startswith("embed_tokens"):
            scale = 1.0
        else:
            scale = float(np.prod(shape[1:])) ** -0.5
        key = mx.random.key(zlib.crc32(name.encode()))
        found = mx.random.normal(shape, scale=scale, dtype=mx.bfloat16, key=key)
        # The norm behind the memory is no zero-centred one.
        return found + 1 if name.endswith("linear_attn.norm.weight") else found

    def experts(self, layer: int) -> tuple[Any, Any]:
        """Both matrices of every expert, 4-bit."""
        c = self.config
        count, inner, hidden = c.num_experts, c.moe_intermediate_size, c.hidden_size
        return (
            _quantised((count, 2 * inner, hidden), seed=2 * layer),
            _quantised((count, hidden, inner), seed=2 * layer + 1),
        )

    @property
    def dense_bytes(self) -> int:
        """Of all weights that every window reads."""
        every = {k: a.nbytes for k, a in self._made.items()}
        return sum(n for k, n in every.items() if not k.startswith("embed_tokens"))

    @property
    def expert_bytes(self) -> int:
        """Of one expert."""
        c, group = self.config, _group(self.config.moe_intermediate_size)
        numbers = 3 * c.hidden_size * c.moe_intermediate_size
        return numbers * BITS // 8 + numbers // group * 4


def _group(size: int) -> int:
    return next(g for g in (64, 32) if size % g == 0)


def _quantised(shape: tuple[int, int, int], *, seed: int) -> Quantised:
    group = _group(shape[-1])
    packed = (*shape[:2], shape[2] * BITS // 32)
    words = mx.random.randint(
        -(2**31), 2**31 - 1, packed, dtype=mx.int32, key=mx.random.key(seed)
    ).view(mx.uint32)
    scale = 1 / (_DEVIATION * shape[2] ** 0.5)
    scales = mx.full((*shape[:2], shape[2] // group), scale, dtype=mx.bfloat16)
    biases = scales * -_MEAN
    mx.eval(words, scales, biases)
    return Quantised(words, scales, biases, BITS, group)


def backend(weights: RandomWeights, *, routing: Routing = NATURAL) -> Qwen4Exp:
    """The decoder, with K and V in bfloat16 and commits that fold at once.

    Args:
        weights: shared by all that are made of them.
        routing: which experts a row uses.
    """
    options = EngineOptions(fold="eager", partial=False, kv="bfloat16", routing=routing)
    return Qwen4Exp(weights, options)


def engine_at(decoder: Qwen4Exp, cells: int) -> Engine:
    """An engine whose state of `cells` cells is random numbers, without a prompt.

    Args:
        decoder: made by `backend`.
        cells: committed cells.
    """
    values = []
    for number, (part, _) in enumerate(decoder.slots):
        like = part.leaves(part.initial())
        key = mx.random.key(number)
        leaves = {
            name: mx.random.randint(0, 256, shape, dtype=like[name].dtype, key=key)
            if mx.issubdtype(like[name].dtype, mx.integer)
            else mx.random.normal(shape, scale=0.5, dtype=like[name].dtype, key=key)
            for name, shape in part.shapes(cells).items()
        }
        values.append(part.restore(leaves))
        mx.eval(list(leaves.values()))
    state = replace(decoder.initial(), n=cells, values=tuple(values))
    limit = decoder.config.max_position_embeddings
    start = Committed(state, root=None, window=None)
    return Engine(decoder, context=limit, options={}, start=start)
