"""`config.json` to `ModelConfig`: fills defaults, refuses by name what it must.

The defaults are the reference's: its own writer leaves a key out when it holds one.
"""

from pathlib import Path
from typing import Any

from strata_nb.errors import CheckpointError
from strata_nb.packs.config import INDEXED, LINEAR, ModelConfig
from strata_nb.packs.config_keys import ConfigKeys
from strata_nb.packs.json_file import quote, read_object
from strata_nb.packs.tokenizer_files import stop_ids

FAMILY = "qwen4_exp"
_TEXT_FAMILY = "qwen4_exp_text"
_INDEXED_SPELLINGS = (
    INDEXED,
    "full_attention",
    "qwen_sparse_attention",
    "deepseek_sparse_attention",
)
_MAX_LAYERS = 4096
_MAX_HEADS = 4096  # hash heads of all modules: each costs the search for a prime
_INDEXER_KEYS = (
    "indexer_n_heads",
    "indexer_kv_heads",
    "indexer_head_dim",
    "indexer_budget",
    "indexer_compress_ratio",
)
# Options of relatives that would change the arithmetic, with the value that does not.
_PLAIN: dict[str, Any] = {
    "hidden_act": "silu",
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "mlp_bias": False,
    "use_sliding_window": False,
    "mamba_ssm_dtype": "float32",
    "routed_scaling_factor": 1.0,
    "scoring_func": "softmax",
    "rope_scaling": None,
}
_QUANTISED = ("quantization_config", "quantization", "compression_config")
_ROPE_KEYS = {
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "mrope_section",
    "mrope_interleaved",
}


def read_config(folder: Path) -> ModelConfig:
    """Read the configuration and every stop id of a checkpoint's folder.

    Raises:
        CheckpointError: a key has a wrong type or value, or asks for something that
            is not supported; the message names it.
    """
    outer = read_object(folder / "config.json")
    keys = _text_keys(outer)
    _refuse_options(outer, keys)
    layer_types = _layer_types(keys)
    vocab_size = keys.integer("vocab_size", 248320)
    eos = keys.integers("eos_token_id", low=0, high=vocab_size - 1)
    return ModelConfig(
        model_type=FAMILY,
        vocab_size=vocab_size,
        num_hidden_layers=len(layer_types),
        layer_types=layer_types,
        **_sizes(keys),
        **_attention(keys),
        **_linear(keys),
        **_experts(keys),
        **_ple(keys, layer_types, eos),
        eos_token_id=eos[0] if eos else None,
        stop_ids=stop_ids(folder, outer, keys, vocab_size),
        notes=tuple(keys.notes),
    )


def _text_keys(outer: dict[str, Any]) -> ConfigKeys:
    """The text decoder's keys: those under `text_config`, or the file's own."""
    inner = outer.get("text_config")
    if inner is None:
        keys = ConfigKeys(outer)
        _check_family(keys, (_TEXT_FAMILY, FAMILY))
        return keys
    _check_family(ConfigKeys(outer), (FAMILY,))
    if not isinstance(inner, dict):
        ConfigKeys(outer).refuse("text_config", "an object", inner)
    keys = ConfigKeys(inner, where="config.json: text_config")
    if keys.get("model_type") is not None:
        _check_family(keys, (_TEXT_FAMILY, FAMILY))
    tied = "tie_word_embeddings"
    if outer.get(tied) is not None and keys.get(tied) not in (None, outer[tied]):
        keys.refuse(tied, f"the outer level's {quote(outer[tied])}", keys.get(tied))
    for key in (tied, "eos_token_id"):
        if keys.get(key) is None and outer.get(key) is not None:
            inner[key] = outer[key]
            keys.notes.append(f"{key} absent in text_config: {outer[key]} from outside")
    return keys


def _check_family(keys: ConfigKeys, spellings: tuple[str, ...]) -> None:
    if keys.get("model_type") not in spellings:
        keys.refuse(
            "model_type",
            " or ".join(spellings),
            keys.get("model_type"),
            remedy="no other family is supported",
        )


def _refuse_options(outer: dict[str, Any], keys: ConfigKeys) -> None:
    for key in _QUANTISED:
        if outer.get(key) or keys.get(key):
            raise CheckpointError(
                f"config.json: `{key}` announces quantised weights, wanted float32, "
                "bfloat16 or float16; use the unquantised checkpoint"
            )
    for key, plain in _PLAIN.items():
        value = keys.get(key)
        if value is not None and value != plain:
            wanted = "nothing" if plain is None else quote(plain)
            keys.refuse(key, wanted, value, remedy="this option is not supported")


def _layer_types(keys: ConfigKeys) -> tuple[str, ...]:
    count = keys.integer("num_hidden_layers", 40, high=_MAX_LAYERS)
    given = keys.get("layer_types")
    if given is None:
        interval = keys.integer("full_attention_interval", 4)
        keys.notes.append(f"layer_types absent: every {interval}th is {INDEXED}")
        return tuple(LINEAR if (i + 1) % interval else INDEXED for i in range(count))
    if not isinstance(given, list) or len(given) != count:
        keys.refuse("layer_types", f"a list of {count} layers", given)
    for i, kind in enumerate(given):
        if kind != LINEAR and kind not in _INDEXED_SPELLINGS:
            keys.refuse(
                f"layer_types[{i}]",
                f"one of {', '.join((LINEAR, *_INDEXED_SPELLINGS))}",
                kind,
                remedy="no other layer type is supported",
            )
    return tuple(LINEAR if kind == LINEAR else INDEXED for kind in given)


def _sizes(keys: ConfigKeys) -> dict[str, Any]:
    return {
        "hidden_size": keys.integer("hidden_size", 2048),
        "rms_norm_eps": keys.number("rms_norm_eps", 1e-6),
        "hidden_act": keys.choice("hidden_act", "silu", ("silu",)),
        "tie_word_embeddings": keys.flag("tie_word_embeddings", False),
        "max_position_embeddings": keys.integer("max_position_embeddings", 32768),
        "hc_count": keys.integer("hc_count", 4, low=2),
        "hc_lowrank": keys.integer("hc_lowrank", 320),
    }


def _attention(keys: ConfigKeys) -> dict[str, Any]:
    for key in _INDEXER_KEYS:
        if keys.get(key) is None:
            keys.refuse(key, "a whole number (all five indexer keys are needed)", None)
    found: dict[str, Any] = {
        "num_attention_heads": keys.integer("num_attention_heads", 16),
        "num_key_value_heads": keys.integer("num_key_value_heads", 2),
        "head_dim": keys.integer("head_dim", 256),
        "attention_bias": keys.flag("attention_bias", False),
        "indexer_n_heads": keys.integer("indexer_n_heads", None),
        "indexer_head_dim": keys.integer("indexer_head_dim", None),
        "indexer_compress_ratio": keys.integer("indexer_compress_ratio", None),
        "indexer_budget": keys.integer("indexer_budget", None),
    }
    keys.integer("indexer_kv_heads", None, high=1)
    _divides(keys, found, "num_attention_heads", "num_key_value_heads")
    _divides(keys, found, "indexer_budget", "indexer_compress_ratio")
    found["rope_theta"], found["rotary_dim"] = _rope(keys, found["head_dim"])
    if found["rotary_dim"] > found["indexer_head_dim"]:
        keys.refuse(
            "indexer_head_dim",
            f"at least the {found['rotary_dim']} rotated features of a head",
            found["indexer_head_dim"],
        )
    return found


def _divides(keys: ConfigKeys, found: dict[str, Any], key: str, divisor: str) -> None:
    if found[key] % found[divisor]:
        keys.refuse(key, f"a multiple of `{divisor}` ({found[divisor]})", found[key])


def _rope(keys: ConfigKeys, head_dim: int) -> tuple[float, int]:
    """Base and rotated features; older files have the two keys at the top level."""
    given = keys.get("rope_parameters")
    if given is None:
        given = {key: keys.get(key) for key in ("rope_theta", "partial_rotary_factor")}
    if not isinstance(given, dict):
        keys.refuse("rope_parameters", "an object", given)
    rope = ConfigKeys(given, where=f"{keys.where}: rope_parameters")
    unknown = sorted(set(given) - _ROPE_KEYS)
    if unknown:
        rope.refuse(unknown[0], "nothing", given[unknown[0]], remedy="not supported")
    for key in ("rope_type", "type"):
        if rope.get(key) not in (None, "default"):
            rope.refuse(key, "`default`", rope.get(key), remedy="not supported")
    theta = rope.number("rope_theta", 10_000.0)
    factor = rope.number("partial_rotary_factor", 1.0)
    rotary = int(head_dim * factor)
    if rotary % 2 or not 2 <= rotary <= head_dim:
        rope.refuse(
            "partial_rotary_factor",
            f"an even number of features, 2 to {head_dim}, of {head_dim}",
            factor,
        )
    keys.notes += rope.notes
    return theta, rotary


def _linear(keys: ConfigKeys) -> dict[str, Any]:
    found: dict[str, Any] = {
        "linear_num_key_heads": keys.integer("linear_num_key_heads", 16),
        "linear_num_value_heads": keys.integer("linear_num_value_heads", 32),
        "linear_key_head_dim": keys.integer("linear_key_head_dim", 128),
        "linear_value_head_dim": keys.integer("linear_value_head_dim", 128),
        "linear_conv_kernel_dim": keys.integer("linear_conv_kernel_dim", 4),
        "output_gate": keys.choice("output_gate_type", "silu", ("sigmoid", "silu")),
    }
    _divides(keys, found, "linear_num_value_heads", "linear_num_key_heads")
    return found


def _experts(keys: ConfigKeys) -> dict[str, Any]:
    experts = keys.integer("num_experts", 512)
    shared = "shared_expert_intermediate_size"
    return {
        "num_experts": experts,
        "num_experts_per_tok": keys.integer("num_experts_per_tok", 10, high=experts),
        "moe_intermediate_size": keys.integer("moe_intermediate_size", 512),
        shared: keys.integer(shared, 512),
        "norm_topk_prob": keys.flag("norm_topk_prob", True),
    }


def _ple(
    keys: ConfigKeys, layer_types: tuple[str, ...], eos: tuple[int, ...]
) -> dict[str, Any]:
    """The n-gram keys; without PLE layers they are read all the same."""
    ids = keys.integers("ple_layer_ids", low=1, high=len(layer_types))
    layers = tuple(sorted({layer - 1 for layer in ids}))
    found: dict[str, Any] = {
        "ple_layers": layers,
        "ple_embed_dim": keys.integer("ple_embed_dim", keys.get("hidden_size") or 2048),
        "ngram_size": keys.integer("ngram_size", 3, low=2, high=_MAX_HEADS),
        "heads_per_ngram": keys.integer("heads_per_ngram", 8, high=_MAX_HEADS),
        "ple_conv_kernel_size": keys.integer("ple_conv_kernel_size", 4),
        "ngram_vocab_size_base": keys.integer("ngram_vocab_size_base", 20_000_000),
        "make_ngram_vocab_size_divisible_by": keys.integer(
            "make_ngram_vocab_size_divisible_by", 128
        ),
        "seed": keys.integer("seed", 1234, low=-(2**64), high=2**64),
        "split_ngram_parts": keys.integer("split_ngram_parts", 512),
    }
    for layer in layers:
        if layer_types[layer] != LINEAR:
            keys.refuse(
                "ple_layer_ids", f"layers of type {LINEAR} (from one)", layer + 1
            )
    if layers and not eos:
        keys.refuse("eos_token_id", "an id, since it bars the n-grams of PLE", None)
    heads = (found["ngram_size"] - 1) * found["heads_per_ngram"]
    if layers and heads * len(layers) > _MAX_HEADS:
        keys.refuse("heads_per_ngram", f"at most {_MAX_HEADS} heads in all", heads)
    if layers and found["ple_embed_dim"] % heads:
        keys.refuse(
            "ple_embed_dim", f"a multiple of the {heads} heads", found["ple_embed_dim"]
        )
    return found
