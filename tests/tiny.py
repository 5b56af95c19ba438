"""Small random models in Hugging Face layout: one seed, many ways to lay it out.

The names and shapes are written here a second time, apart from the package that reads
them, so that a mistake in one of the two shows.
"""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Config = dict[str, Any]
Tensors = dict[str, npt.NDArray[Any]]
Constants = tuple[list[int], list[int], list[int], int]
Shapes = Iterator[tuple[str, tuple[int, ...]]]

_GDN, _QSA = "linear_attention", "indexed_attention"
_TABLE = "ple.ple_embedding.ngram_embedding"
_MASK = (1 << 64) - 1
_DTYPES = {"float32": "F32", "uint16": "BF16", "int64": "I64", "float16": "F16"}

# PLE layers count from one in the file: this is layer 1.
_TINY = """{
    "model_type": "qwen4_exp_text", "vocab_size": 257, "eos_token_id": 256,
    "hidden_size": 32, "num_hidden_layers": 8, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "attention_bias": false, "tie_word_embeddings": false,
    "max_position_embeddings": 4096, "hc_count": 4, "hc_lowrank": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 16,
    "indexer_compress_ratio": 4, "indexer_budget": 16,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4,
    "output_gate_type": "sigmoid", "num_experts": 16, "num_experts_per_tok": 4,
    "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
    "norm_topk_prob": true, "ple_layer_ids": [2], "ple_embed_dim": 32,
    "ngram_size": 3, "heads_per_ngram": 4, "ple_conv_kernel_size": 4,
    "ngram_vocab_size_base": 200, "make_ngram_vocab_size_divisible_by": 128,
    "seed": 1234, "split_ngram_parts": 4
}"""


def tiny_config(**overrides: Any) -> Config:
    """A flat `config.json` of the model called TINY: 8 layers, 16 experts, PLE on 1."""
    config: Config = json.loads(_TINY)
    config["layer_types"] = [_GDN, _GDN, _GDN, _QSA] * 2
    config["rope_parameters"] = _rope(0.5)
    return config | overrides


RANDOM_CONFIGS = 24
_PATTERNS: tuple[tuple[list[str], list[int]], ...] = (
    ([_GDN, _GDN, _GDN, _QSA] * 2, [2]),
    ([_GDN, _QSA, _GDN, _QSA], [1]),
    ([_QSA, _GDN, _GDN, _QSA, _GDN], [2, 5]),
    ([_GDN, _GDN, _QSA, _QSA, _GDN, _GDN], [1, 6]),
    ([_GDN, _GDN, _GDN, _QSA], []),
)
_HEADS = ((4, 2, 16), (4, 1, 16), (2, 2, 16), (6, 2, 8), (8, 4, 8), (3, 1, 24))
_GDN_HEADS = ((2, 4, 8, 8), (2, 6, 8, 16), (1, 3, 16, 8), (4, 4, 8, 12), (2, 2, 16, 16))
_EXPERTS = ((32, 4), (32, 4), (32, 4), (16, 2), (32, 4), (8, 8), (32, 1))


def random_config(index: int) -> Config:
    """The valid small shape number `index`; 0 .. RANDOM_CONFIGS - 1 all differ.

    Options cycle with different periods instead of being drawn, so that the coverage
    of each (streams, ratios, block sizes, gates, …) is certain.
    """
    layers, ple = _PATTERNS[index % 5]
    h_q, h_kv, head_dim = _HEADS[(index // 2) % 6]
    h_k, h_v, key_dim, value_dim = _GDN_HEADS[(index // 2) % 5]
    experts, chosen = _EXPERTS[(index + 3) % 7]
    ratio, blocks = (4, 2, 3)[(index // 2) % 3], (4, 3, 5, 2)[index % 4]
    order, per_order = (3, 2)[(index // 3) % 2], (4, 2, 3, 1)[(index // 2) % 4]
    partial = (0.5, 0.25, 1.0)[(index + 1) % 3]
    vocab = (257, 257, 101, 300)[(index // 4) % 4]
    return tiny_config(
        vocab_size=vocab,
        eos_token_id=(vocab - 1, 0, 7)[(index // 5) % 3],
        hidden_size=(32, 48, 64, 40)[(index // 3) % 4],
        num_hidden_layers=len(layers),
        layer_types=list(layers),
        hc_count=(4, 2, 3)[index % 3],
        hc_lowrank=(8, 12, 5)[(index // 2) % 3],
        num_attention_heads=h_q,
        num_key_value_heads=h_kv,
        head_dim=head_dim,
        rope_parameters=_rope(partial, theta=(10_000.0, 1e7)[index % 2]),
        indexer_n_heads=(4, 2, 3, 4, 1)[(index + 2) % 5],
        indexer_head_dim=max(int(head_dim * partial), (16, 8, 20)[index % 3]),
        indexer_compress_ratio=ratio,
        indexer_budget=ratio * blocks,
        linear_num_key_heads=h_k,
        linear_num_value_heads=h_v,
        linear_key_head_dim=key_dim,
        linear_value_head_dim=value_dim,
        linear_conv_kernel_dim=(4, 3, 2, 4)[(index // 3) % 4],
        output_gate_type=("sigmoid", "silu", None)[(index // 2) % 3],
        num_experts=experts,
        num_experts_per_tok=chosen,
        moe_intermediate_size=(16, 12)[index % 2],
        shared_expert_intermediate_size=(16, 24, 8)[index % 3],
        norm_topk_prob=index % 4 != 3,
        ple_layer_ids=list(ple),
        ple_embed_dim=(order - 1) * per_order * (4, 6, 8)[index % 3],
        ngram_size=order,
        heads_per_ngram=per_order,
        ple_conv_kernel_size=(4, 3, 2)[(index // 2) % 3],
        ngram_vocab_size_base=(200, 97, 350)[index % 3],
        make_ngram_vocab_size_divisible_by=(128, 16)[index % 2],
        seed=(1234, 1234, 7, 2**63 + 5)[index % 4],
        split_ngram_parts=(4, 1, 7)[index % 3],
        attention_bias=index % 8 == 5,
        tie_word_embeddings=index % 6 == 4,
    )


# Two layers and two experts: a few kilobytes, for tests that write many.
_SMALL = """{
    "vocab_size": 17, "eos_token_id": 16, "hidden_size": 8, "num_hidden_layers": 2,
    "layer_types": ["linear_attention", "indexed_attention"], "hc_count": 2,
    "num_experts": 2, "num_experts_per_tok": 1, "ple_layer_ids": [1],
    "ple_embed_dim": 8, "heads_per_ngram": 2, "ngram_vocab_size_base": 20,
    "split_ngram_parts": 3
}"""


def small_config(**overrides: Any) -> Config:
    """The smallest model that has every kind of layer."""
    return tiny_config(**(json.loads(_SMALL) | overrides))


def _rope(partial: float, *, theta: float = 10_000.0) -> Config:
    keys = ("rope_type", "rope_theta", "partial_rotary_factor")
    return dict(zip(keys, ("default", theta, partial), strict=True))


def tensors(config: Config, seed: int) -> Tensors:
    """Every tensor of the model in canonical form: experts fused, tables whole.

    Names are those after the prefix. One draw per tensor in sorted name order: any
    layout of one seed holds the same numbers. Floats are float32, constants int64.
    """
    rng = np.random.default_rng(seed)
    wanted = sorted(shapes(config))
    found: Tensors = {name: _draw(rng, name, s, config) for name, s in wanted}
    for j, layer in enumerate(sorted(config["ple_layer_ids"])):
        stem = f"layers.{layer - 1}.ple.ple_embedding"
        multipliers, sizes, offsets, _ = ple_constants(config, j)
        found[f"{stem}.layer_multipliers"] = np.array(multipliers, np.int64)
        found[f"{stem}.ngram_heads_vocab_sizes"] = np.array(sizes, np.int64)
        found[f"{stem}.ngram_heads_offsets"] = np.array(offsets, np.int64)
    return found


def ple_constants(config: Config, j: int) -> Constants:
    """Multipliers, head sizes, head offsets and table rows of PLE module `j`."""
    orders, divisor = config["ngram_size"], config["make_ngram_vocab_size_divisible_by"]
    heads = (orders - 1) * config["heads_per_ngram"]
    half = max(1, ((2**63 - 1) // config["vocab_size"]) // 2)
    golden = 0x9E3779B97F4A7C15
    multipliers = [
        2 * (_split_mix(config["seed"] + 10007 * j + golden * (i + 1)) % half) + 1
        for i in range(orders)
    ]
    primes: list[int] = []
    n = config["ngram_vocab_size_base"]
    while len(primes) < (j + 1) * heads:
        if n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1)):
            primes.append(n)
        n += 1
    sizes = primes[j * heads :]
    offsets = [sum(sizes[:a]) for a in range(heads)]
    return multipliers, sizes, offsets, -(-sum(sizes) // divisor) * divisor


def _split_mix(v: int) -> int:
    v = (v + 0x9E3779B97F4A7C15) & _MASK
    v = ((v ^ (v >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    v = ((v ^ (v >> 27)) * 0x94D049BB133111EB) & _MASK
    return v ^ (v >> 31)


def _draw(
    rng: np.random.Generator, name: str, shape: tuple[int, ...], config: Config
) -> npt.NDArray[np.float32]:
    """One draw; no norm, bias or convolution is constant, since zeros hide mistakes."""
    x = rng.standard_normal(shape)
    if name.endswith("A_log"):
        x = 0.7 * x - 0.7
    elif name.endswith("dt_bias"):
        x = x - 1.5
    elif name.endswith("linear_attn.norm.weight"):
        x = 1.0 + 0.3 * x  # the one norm stored one-centred
    elif name.endswith(("conv1d.weight", "_proj.bias")):
        x = 0.4 * x
    elif len(shape) == 1:
        x = 0.3 * x
    elif name.endswith("mlp.gate.weight"):
        x = x * 3.0 / math.sqrt(shape[-1])  # apart enough that rounding flips no expert
    elif name == "embed_tokens.weight" and not config["tie_word_embeddings"]:
        pass
    elif not name.endswith("ngram_embedding.weight"):
        x = x / math.sqrt(shape[-1])
    return x.astype(np.float32)


def shapes(c: Config) -> Shapes:
    """Names and shapes in canonical form, without the constants of the hash."""
    yield "embed_tokens.weight", (c["vocab_size"], c["hidden_size"])
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], c["hidden_size"])
    yield from _mixer(c, "hyper_connection_mixer")
    for i, kind in enumerate(c["layer_types"]):
        stem = f"layers.{i}"
        for name in ("attn_hyper_connection", "mlp_hyper_connection"):
            yield from _mixer(c, f"{stem}.{name}")
            inject = (c["hc_count"], c["hc_count"] * c["hidden_size"])
            yield f"{stem}.{name}.block_inject_weight.weight", inject
        yield from (_gdn if kind == _GDN else _qsa)(c, stem)
        yield from _moe(c, f"{stem}.mlp")
    for j, layer in enumerate(sorted(c["ple_layer_ids"])):
        yield from _ple(c, f"layers.{layer - 1}", j)


def _mixer(c: Config, stem: str) -> Shapes:
    wide, rank = c["hc_count"] * c["hidden_size"], c["hc_lowrank"]
    yield f"{stem}.hc_norm.weight", (wide,)
    yield f"{stem}.input_mix_weight_down.weight", (rank, wide)
    yield f"{stem}.input_mix_weight_up.weight", (wide, rank)


def _gdn(c: Config, stem: str) -> Shapes:
    hidden, heads = c["hidden_size"], c["linear_num_value_heads"]
    values = heads * c["linear_value_head_dim"]
    mixed = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"] + values
    stem += ".linear_attn"
    for part, out in (("qkv", mixed), ("z", values), ("b", heads), ("a", heads)):
        yield f"{stem}.in_proj_{part}.weight", (out, hidden)
    yield f"{stem}.out_proj.weight", (hidden, values)
    yield f"{stem}.conv1d.weight", (mixed, 1, c["linear_conv_kernel_dim"])
    yield f"{stem}.norm.weight", (c["linear_value_head_dim"],)
    yield f"{stem}.dt_bias", (heads,)
    yield f"{stem}.A_log", (heads,)


def _qsa(c: Config, stem: str) -> Shapes:
    hidden, dim = c["hidden_size"], c["head_dim"]
    queries = c["num_attention_heads"] * dim
    keys = c["num_key_value_heads"] * dim
    stem += ".self_attn"
    for part, out in (("q", 2 * queries), ("k", keys), ("v", keys), ("o", hidden)):
        yield f"{stem}.{part}_proj.weight", (out, queries if part == "o" else hidden)
        if c["attention_bias"]:
            yield f"{stem}.{part}_proj.bias", (out,)
    yield f"{stem}.q_norm.weight", (dim,)
    yield f"{stem}.k_norm.weight", (dim,)
    index_dim = c["indexer_head_dim"]
    rows = (c["indexer_n_heads"] + 1) * index_dim
    yield f"{stem}.indexer.index_qk_proj.weight", (rows, hidden)
    yield f"{stem}.indexer.q_layernorm.weight", (index_dim,)
    yield f"{stem}.indexer.k_layernorm.weight", (index_dim,)


def _moe(c: Config, stem: str) -> Shapes:
    hidden, experts = c["hidden_size"], c["num_experts"]
    inner, shared = c["moe_intermediate_size"], c["shared_expert_intermediate_size"]
    yield f"{stem}.gate.weight", (experts, hidden)
    yield f"{stem}.experts.gate_up_proj", (experts, 2 * inner, hidden)
    yield f"{stem}.experts.down_proj", (experts, hidden, inner)
    for part in ("gate", "up"):
        yield f"{stem}.shared_expert.{part}_proj.weight", (shared, hidden)
    yield f"{stem}.shared_expert.down_proj.weight", (hidden, shared)
    yield f"{stem}.shared_expert_gate.weight", (1, hidden)


def _ple(c: Config, stem: str, j: int) -> Shapes:
    hidden, dim = c["hidden_size"], c["ple_embed_dim"]
    wide = c["hc_count"] * hidden
    heads = (c["ngram_size"] - 1) * c["heads_per_ngram"]
    yield f"{stem}.ple.key_proj.weight", (wide, dim)
    yield f"{stem}.ple.value_proj.weight", (hidden, dim)
    for norm in ("norm_key", "norm_query", "norm_conv"):
        yield f"{stem}.ple.{norm}.weight", (wide,)
    yield f"{stem}.ple.conv1d.weight", (wide, 1, c["ple_conv_kernel_size"])
    yield f"{stem}.{_TABLE}.weight", (ple_constants(c, j)[3], dim // heads)


def write_checkpoint(
    folder: Path | str,
    config: Config,
    seed: int,
    *,
    layout: str = "per_expert",
    prefix: str = "model.",
    nested_config: bool = False,
    ple_parts: int | Sequence[int] | None = None,
    whole_ple: bool = False,
    files: int = 1,
    dtype: str = "float32",
) -> Path:
    """Write a random checkpoint and return its folder.

    Args:
        folder: made when absent.
        config: written as it is.
        seed: of the weights.
        layout: experts `per_expert` or `fused`.
        prefix: `model.` or `model.language_model.`.
        nested_config: put the keys under `text_config` as a multimodal file does.
        ple_parts: shards of each table, or their lengths in rows; none: the config's.
        whole_ple: one unsplit table.
        files: safetensors files; an index is written for more than one.
        dtype: `float32` or `bfloat16` (rounded to the nearest even).
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    cut = () if whole_ple else ple_parts or config["split_ngram_parts"]
    stored: Tensors = {}
    for name, array in tensors(config, seed).items():
        for piece, values in _lay_out(name, array, layout, cut):
            full = piece if piece.startswith("lm_head") else prefix + piece
            stored[full] = to_bfloat16(values) if dtype == "bfloat16" else values
    write_files(folder, stored, files=files)
    saved = config | {"dtype": dtype}
    if nested_config:
        saved = {"model_type": "qwen4_exp", "text_config": saved, "vision_config": {}}
    (folder / "config.json").write_text(json.dumps(saved, indent=1))
    return folder


def to_bfloat16(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The upper half of float32 values as uint16, rounded to even; integers as are."""
    if values.dtype != np.float32:
        return values
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _lay_out(
    name: str, array: npt.NDArray[Any], layout: str, parts: int | Sequence[int]
) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """The names and arrays one canonical tensor is stored under; no parts: whole."""
    if name.endswith(f"{_TABLE}.weight") and parts:
        if isinstance(parts, int):  # the last is shorter, and there may be fewer
            step = -(-len(array) // parts)
            parts = [step] * -(-len(array) // step)
        start = 0
        for s, length in enumerate(parts):
            shard = f"{name.removesuffix('.weight')}.shard_{s}.weight"
            yield shard, array[start : start + length]
            start += length
    elif ".experts." in name and layout == "per_expert":
        stem, kind = name.rsplit(".", 1)
        for e, matrix in enumerate(array):
            if kind == "down_proj":
                yield f"{stem}.{e}.down_proj.weight", matrix
            else:
                for part, half in zip(("gate", "up"), np.split(matrix, 2), strict=True):
                    yield f"{stem}.{e}.{part}_proj.weight", half
    else:
        yield name, array


def write_files(folder: Path, stored: Tensors, *, files: int = 1) -> None:
    """Write arrays under their full names (uint16 is stored as BF16)."""
    if files == 1:
        return write_safetensors(folder / "model.safetensors", stored)
    weight_map: dict[str, str] = {}
    for part in range(files):
        file = f"model-{part + 1:05d}-of-{files:05d}.safetensors"
        chosen = {n: stored[n] for n in sorted(stored)[part::files]}
        write_safetensors(folder / file, chosen)
        weight_map |= dict.fromkeys(chosen, file)
    index = json.dumps({"metadata": {}, "weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(index)


def write_safetensors(path: Path, stored: Tensors) -> None:
    """Write one safetensors file by hand, so that tests need no other writer."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, array in stored.items():
        header[name] = {
            "dtype": _DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [start, start + array.nbytes],
        }
        start += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in stored.values():
            file.write(np.ascontiguousarray(array).tobytes())
