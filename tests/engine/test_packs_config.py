"""What a configuration is refused for: each row one fault and the words for it."""

import json
from pathlib import Path
from typing import Any

import pytest

import tiny
from strata_nb.errors import CheckpointError
from strata_nb.packs import open_checkpoint
from tiny import small_config


def write(folder: Path, **options: Any) -> Path:
    return tiny.write_checkpoint(folder, small_config(), 0, **options)


def refused(folder: Path, match: str) -> None:
    with pytest.raises(CheckpointError, match=match):
        open_checkpoint(folder)


# One fault in config.json each: what is changed, and what the message says.
CONFIG_ROWS: list[tuple[dict[str, Any], str]] = [
    (
        {"model_type": "qwen3_next"},
        "`model_type` wants qwen4_exp_text or qwen4_exp, got",
    ),
    ({"model_type": None}, "`model_type` wants .*, got nothing; no other family"),
    (
        {"layer_types": ["linear_attention", "sliding_attention"]},
        r"layer_types\[1\]` wants one of .*, got `sliding_attention`; no other layer",
    ),
    ({"layer_types": ["linear_attention"]}, "`layer_types` wants a list of 2 layers"),
    ({"layer_types": [["x"], {}]}, r"layer_types\[0\]` wants one of"),
    ({"hc_count": 1}, "`hc_count` wants a whole number from 2 .*, got `1`"),
    ({"indexer_kv_heads": 2}, "`indexer_kv_heads` wants a whole number from 1 to 1"),
    (
        {"indexer_budget": 18},
        "`indexer_budget` wants a multiple of `indexer_compress_r",
    ),
    ({"indexer_head_dim": 6}, "`indexer_head_dim` wants at least the 8 rotated"),
    ({"indexer_n_heads": None}, "`indexer_n_heads` wants .*all five.* got nothing"),
    ({"indexer_budget": None}, "`indexer_budget` wants .*all five"),
    ({"ple_layer_ids": [2]}, "`ple_layer_ids` wants layers of type linear_attention"),
    ({"ple_layer_ids": [0]}, "`ple_layer_ids` wants whole numbers from 1 to 2"),
    ({"ple_layer_ids": [3]}, "`ple_layer_ids` wants whole numbers from 1 to 2"),
    ({"eos_token_id": None}, "`eos_token_id` wants an id, since it bars the n-grams"),
    ({"eos_token_id": []}, "`eos_token_id` wants an id, since it bars the n-grams"),
    ({"eos_token_id": 17}, "`eos_token_id` wants whole numbers from 0 to 16, got `17`"),
    ({"eos_token_id": [16, "x"]}, "`eos_token_id` wants whole numbers"),
    ({"ple_embed_dim": 9}, "`ple_embed_dim` wants a multiple of the 4 heads"),
    ({"ngram_size": 1}, "`ngram_size` wants a whole number from 2"),
    ({"heads_per_ngram": 4000}, "`heads_per_ngram` wants at most 4096 heads in all"),
    ({"hidden_act": "gelu"}, "`hidden_act` wants `silu`, got `gelu`; this option is"),
    ({"output_gate_type": "tanh"}, "`output_gate_type` wants one of sigmoid, silu"),
    ({"rope_parameters": [1]}, "`rope_parameters` wants an object"),
    (
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}},
        "rope_parameters: `rope_type` wants `default`, got `yarn`",
    ),
    (
        {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}},
        "rope_parameters: `full_attention` wants nothing",
    ),
    (
        {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.2}},
        "`partial_rotary_factor` wants an even number of features, 2 to 16, of 16",
    ),
    ({"rope_scaling": {"type": "linear"}}, "`rope_scaling` wants nothing"),
    ({"mlp_only_layers": [0]}, "`mlp_only_layers` wants `\\[\\]`, got `\\[0\\]`"),
    ({"decoder_sparse_step": 2}, "`decoder_sparse_step` wants `1`, got `2`"),
    ({"use_sliding_window": True}, "`use_sliding_window` wants `False`"),
    ({"mamba_ssm_dtype": "bfloat16"}, "`mamba_ssm_dtype` wants `float32`"),
    ({"quantization_config": {"bits": 4}}, "`quantization_config` announces quantised"),
    ({"quantization": {"bits": 4}}, "`quantization` announces quantised weights"),
    (
        {"num_attention_heads": 3},
        "`num_attention_heads` wants a multiple of `num_key_v",
    ),
    ({"linear_num_value_heads": 3}, "`linear_num_value_heads` wants a multiple of"),
    ({"num_experts_per_tok": 3}, "`num_experts_per_tok` wants .* from 1 to 2"),
    ({"hidden_size": 0}, "`hidden_size` wants a whole number from 1"),
    ({"hidden_size": -8}, "`hidden_size` wants a whole number from 1"),
    ({"hidden_size": 8.0}, "`hidden_size` wants a whole number .* got `8.0`"),
    ({"hidden_size": "8"}, "`hidden_size` wants a whole number"),
    ({"hidden_size": True}, "`hidden_size` wants a whole number .* got `True`"),
    ({"hidden_size": 10**30}, "`hidden_size` wants a whole number"),
    ({"num_hidden_layers": 10**6}, "`num_hidden_layers` wants .* from 1 to 4096"),
    ({"rms_norm_eps": 0}, "`rms_norm_eps` wants a finite number above zero"),
    ({"rms_norm_eps": float("nan")}, "`rms_norm_eps` wants a finite number"),
    ({"rms_norm_eps": float("inf")}, "`rms_norm_eps` wants a finite number"),
    ({"norm_topk_prob": "false"}, "`norm_topk_prob` wants true or false"),
    ({"tie_word_embeddings": True}, "not wanted .*`lm_head.weight`; config.json ties"),
    ({"text_config": 3}, "`model_type` wants qwen4_exp, got `qwen4_exp_text`"),
    ({"model_type": "qwen4_exp", "text_config": 3}, "`text_config` wants an object"),
    # Sizes that fit no tensor are found by comparing shapes: nothing is allocated.
    ({"vocab_size": 2**31 - 1}, "tensor `embed_tokens.weight` wants shape"),
    ({"num_experts": 2**31 - 1}, "tensor `layers.0.mlp.gate.weight` wants shape"),
    ({"hidden_size": 2**31 - 1}, r"wants shape \[17, 2147483647\] .*, got \[17, 8\]"),
    ({"ngram_vocab_size_base": 2**31 - 1}, "wants 8589.* rows by config.json, got 128"),
    ({"num_experts": 3}, r"layers.0.mlp.gate.weight` wants shape \[3, 8\] .*\[2, 8\]"),
    ({"attention_bias": True}, "missing tensors `layers.1.self_attn.q_proj.bias`"),
    ({"seed": 0}, "layer_multipliers` wants .* by config.json, got .*; `seed`, `vocab"),
    ({"ngram_vocab_size_base": 19}, "ngram_heads_vocab_sizes` wants "),
]


@pytest.mark.parametrize(
    ("changes", "match"), CONFIG_ROWS, ids=[str(list(row[0])) for row in CONFIG_ROWS]
)
def test_configurations(tmp_path: Path, changes: dict[str, Any], match: str) -> None:
    folder = write(tmp_path)
    (folder / "config.json").write_text(json.dumps(small_config(**changes)))
    refused(folder, match)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "config.json: wanted JSON, got something else"),
        ("[]", "config.json: wanted a JSON object, got list"),
        ("{" + '"a":' * 3 + "1}", "config.json: wanted JSON"),
        ('{"a": 1, "a": 2}', "config.json: `a` appears twice in one object"),
        ("[" * 100_000, "config.json: wanted JSON"),
        ('{"a": ' + "9" * 5000 + "}", "config.json: wanted JSON"),
    ],
    ids=["empty", "list", "broken", "repeated key", "deep", "long number"],
)
def test_configuration_texts(tmp_path: Path, text: str, match: str) -> None:
    folder = write(tmp_path)
    (folder / "config.json").write_text(text)
    refused(folder, match)


def test_levels_that_disagree_about_the_tied_head(tmp_path: Path) -> None:
    folder = write(tmp_path, nested_config=True)
    outer = json.loads((folder / "config.json").read_text())
    outer["tie_word_embeddings"] = True
    (folder / "config.json").write_text(json.dumps(outer))
    refused(folder, "text_config: `tie_word_embeddings` wants the outer level's `True`")


def test_a_quantised_multimodal_checkpoint(tmp_path: Path) -> None:
    folder = write(tmp_path, nested_config=True)
    outer = json.loads((folder / "config.json").read_text())
    outer["quantization_config"] = {"quant_method": "fp8"}
    (folder / "config.json").write_text(json.dumps(outer))
    refused(folder, "`quantization_config` announces quantised weights, wanted float32")


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        (
            "generation_config.json",
            '{"eos_token_id": [-1]}',
            "`eos_token_id` wants whole",
        ),
        (
            "generation_config.json",
            '{"eos_token_id": 99}',
            "generation_config.json: `eos",
        ),
        ("generation_config.json", "?", "generation_config.json: wanted JSON"),
        (
            "tokenizer_config.json",
            '{"eos_token": "<e>", "added_tokens_decoder": {"99": {"content": "<e>"}}}',
            "`eos_token` wants an id below 17, got `99`; the tokenizer belongs",
        ),
    ],
)
def test_text_files(tmp_path: Path, name: str, text: str, match: str) -> None:
    folder = write(tmp_path)
    (folder / name).write_text(text)
    refused(folder, match)
