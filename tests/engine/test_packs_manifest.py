"""The manifest against the released shape, which no test machine could hold."""

import json
import math
from pathlib import Path

import tiny
from strata_nb.packs.manifest import PLE_CONSTANTS, check_manifest
from strata_nb.packs.ple import derive_constants
from strata_nb.packs.read_config import read_config
from strata_nb.packs.safetensors_file import Entry

RELEASED = """{
    "vocab_size": 248320, "eos_token_id": 248044, "hidden_size": 2560,
    "num_hidden_layers": 48, "hc_lowrank": 320, "num_attention_heads": 24,
    "num_key_value_heads": 2, "head_dim": 256, "indexer_head_dim": 128,
    "indexer_budget": 2048, "linear_num_key_heads": 16, "linear_num_value_heads": 48,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128, "num_experts": 512,
    "num_experts_per_tok": 10, "moe_intermediate_size": 640,
    "shared_expert_intermediate_size": 640, "ple_embed_dim": 2560,
    "heads_per_ngram": 8, "ngram_vocab_size_base": 20000000, "split_ngram_parts": 128,
    "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10], "mrope_interleaved": true
    }
}"""


def test_the_released_shape_has_its_1294_tensors(tmp_path: Path) -> None:
    """176.94e9 parameters by names and shapes alone: fused experts, 128 shards."""
    layers = (["linear_attention"] * 3 + ["full_attention"]) * 12
    config = tiny.tiny_config(**json.loads(RELEASED), layer_types=layers)
    shapes = dict(tiny.shapes(config | {"layer_types": as_indexed(layers)}))
    stem = "layers.1.ple.ple_embedding"
    assert shapes.pop(f"{stem}.ngram_embedding.weight") == (320_001_536, 160)
    for s in range(128):
        shapes[f"{stem}.ngram_embedding.shard_{s}.weight"] = (2_500_012, 160)
    entries = {name: Entry("BF16", shape, 0, 0) for name, shape in shapes.items()}
    for name, length in zip(PLE_CONSTANTS, (3, 16, 16), strict=True):
        entries[f"{stem}.{name}"] = Entry("I64", (length,), 0, 0)
    assert len(entries) == 1294
    parameters = sum(math.prod(shape) for shape in shapes.values())
    assert round(parameters / 1e7) == 17694
    (tmp_path / "config.json").write_text(json.dumps(config))
    read = read_config(tmp_path)
    layout = check_manifest(read, entries, derive_constants(read))
    assert layout.fused == (True,) * 48
    assert len(layout.tables[0]) == 128
    assert layout.tables[0][10].endswith("shard_10.weight")


def as_indexed(layers: list[str]) -> list[str]:
    return [kind.replace("full_", "indexed_") for kind in layers]
