"""Opening checkpoints: every layout of one seed, the bundled model, defaults, texts."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny
from strata_nb.errors import CheckpointError
from strata_nb.packs import Checkpoint, open_checkpoint

BUNDLED = Path(__file__).parents[2] / "strata_nb/data/strata-tiny"
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "fused": {"layout": "fused"},
    "multimodal": {"prefix": "model.language_model.", "nested_config": True},
    "nested config, text prefix": {"nested_config": True},
    "whole table": {"whole_ple": True},
    "twelve shards": {"ple_parts": 12},
    "unequal shards": {"ple_parts": [700, 20, 1200]},
    "three files": {"files": 3},
    "all at once": {
        "layout": "fused",
        "prefix": "model.language_model.",
        "nested_config": True,
        "ple_parts": [1, 1918, 1],
        "files": 4,
    },
}


def arrays(checkpoint: Checkpoint) -> dict[str, np.ndarray[Any, Any]]:
    """Every tensor in canonical form, through the public methods alone."""
    found = {}
    for name in checkpoint.names:
        if ".experts." not in name and ".ngram_embedding." not in name:
            found[name] = checkpoint.tensor(name)
    for layer in range(checkpoint.config.num_hidden_layers):
        stem = f"layers.{layer}.mlp.experts"
        gate_up, down = checkpoint.experts(layer)
        found |= {f"{stem}.gate_up_proj": gate_up, f"{stem}.down_proj": down}
    for j, layer in enumerate(checkpoint.config.ple_layers):
        table = checkpoint.ple(j)
        rows = table.rows(np.arange(table.shape[0]))
        found[f"layers.{layer}.ple.ple_embedding.ngram_embedding.weight"] = rows
    return found


def stored_arrays(checkpoint: Checkpoint, prefix: str) -> tiny.Tensors:
    """Every tensor as it is in the files, by full name, to be written again."""
    return {
        name if name == "lm_head.weight" else prefix + name: checkpoint.tensor(name)
        for name in checkpoint.names
    }


@pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_of_one_seed_holds_the_same_arrays(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    config = tiny.tiny_config()
    opened = open_checkpoint(tiny.write_checkpoint(tmp_path, config, 3, **options))
    got, want = arrays(opened), tiny.tensors(config, 3)
    assert sorted(got) == sorted(want)
    for name, array in want.items():
        assert got[name].dtype == array.dtype, name
        np.testing.assert_array_equal(got[name], array, err_msg=name)


@pytest.mark.parametrize("index", range(tiny.RANDOM_CONFIGS))
def test_random_shapes_open(tmp_path: Path, index: int) -> None:
    config = tiny.random_config(index)
    layout = ("fused", "per_expert")[index % 2]
    folder = tiny.write_checkpoint(tmp_path, config, index, layout=layout)
    got = arrays(open_checkpoint(folder))
    for name, array in tiny.tensors(config, index).items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def test_random_shapes_cover_the_options() -> None:
    configs = [tiny.random_config(i) for i in range(tiny.RANDOM_CONFIGS)]
    assert len({json.dumps(c) for c in configs}) == tiny.RANDOM_CONFIGS >= 20
    for key, values in {
        "hc_count": {2, 3, 4},
        "indexer_compress_ratio": {2, 3, 4},
        "linear_conv_kernel_dim": {2, 3, 4},
        "ngram_size": {2, 3},
        "norm_topk_prob": {True, False},
        "tie_word_embeddings": {True, False},
        "attention_bias": {True, False},
        "output_gate_type": {"sigmoid", "silu", None},
    }.items():
        assert {c[key] for c in configs} == values, key
    assert {len(c["ple_layer_ids"]) for c in configs} == {0, 1, 2}
    # With more blocks than may be chosen, attention is sparse well before 97 tokens.
    assert all(c["indexer_budget"] + c["indexer_compress_ratio"] < 40 for c in configs)


def test_bfloat16_is_widened_exactly(tmp_path: Path) -> None:
    config = tiny.tiny_config()
    opened = open_checkpoint(
        tiny.write_checkpoint(tmp_path, config, 5, dtype="bfloat16")
    )
    assert opened.dtype == "bfloat16"
    bits, dtype = opened.raw("embed_tokens.weight")
    assert bits.dtype == np.uint16
    assert dtype == "bfloat16"
    assert not bits.flags.writeable
    widened = opened.tensor("embed_tokens.weight")
    assert widened.dtype == np.float32
    np.testing.assert_array_equal(widened.view(np.uint32) >> 16, bits)
    assert not (widened.view(np.uint32) & 0xFFFF).any()
    want = tiny.tensors(config, 5)["embed_tokens.weight"]
    np.testing.assert_allclose(widened, want, rtol=2**-8)
    gate_up, down, dtype = opened.raw_experts(0)
    assert (gate_up.shape, down.shape, dtype) == (
        (16, 32, 32),
        (16, 32, 16),
        "bfloat16",
    )


def test_vectors_may_be_float32_beside_narrower_matrices(tmp_path: Path) -> None:
    folder = tiny.write_checkpoint(tmp_path, tiny.tiny_config(), 5)
    stored = stored_arrays(open_checkpoint(folder), "model.")
    kept = "model.layers.0.linear_attn.A_log"
    for name, array in stored.items():
        if name != kept:
            stored[name] = tiny.to_bfloat16(array)
    tiny.write_files(folder, stored)
    opened = open_checkpoint(folder)
    assert opened.dtype == "bfloat16"
    assert opened.raw(kept.removeprefix("model."))[1] == "float32"
    matrix = "model.layers.0.mlp.gate.weight"
    tiny.write_files(folder, stored | {matrix: np.zeros((16, 32), np.float32)})
    with pytest.raises(CheckpointError, match=r"gate\.weight` wants dtype BF16 like"):
        open_checkpoint(folder)


def test_float16_is_widened_exactly(tmp_path: Path) -> None:
    folder = tiny.write_checkpoint(tmp_path, tiny.tiny_config(), 5)
    stored = stored_arrays(open_checkpoint(folder), "model.")
    for name, array in stored.items():
        if array.dtype == np.float32:
            stored[name] = array.astype(np.float16)
    tiny.write_files(folder, stored)
    opened = open_checkpoint(folder)
    assert opened.dtype == "float16"
    want = stored["model.embed_tokens.weight"].astype(np.float32)
    np.testing.assert_array_equal(opened.tensor("embed_tokens.weight"), want)
    assert opened.raw("embed_tokens.weight")[1] == "float16"
    assert opened.ple(0).rows(np.array([0])).dtype == np.float32


def test_the_draft_head_stays_reachable_and_the_vision_tower_does_not(
    tmp_path: Path,
) -> None:
    prefix = "model.language_model."
    folder = tiny.write_checkpoint(
        tmp_path, tiny.tiny_config(), 1, prefix=prefix, nested_config=True
    )
    stored = stored_arrays(open_checkpoint(folder), prefix)
    head = np.arange(6, dtype=np.float32).reshape(2, 3)
    stored |= {"mtp.fc_hidden.weight": head, "model.visual.blocks.0.bias": head}
    tiny.write_files(folder, stored, files=2)
    (folder / "model.safetensors").unlink()
    opened = open_checkpoint(folder)
    assert opened.has("mtp.fc_hidden.weight")
    np.testing.assert_array_equal(opened.tensor("mtp.fc_hidden.weight"), head)
    assert not any("visual" in name for name in opened.names)


def test_a_tied_head_is_not_in_the_files(tmp_path: Path) -> None:
    config = tiny.tiny_config(tie_word_embeddings=True)
    opened = open_checkpoint(tiny.write_checkpoint(tmp_path, config, 0))
    assert opened.config.tie_word_embeddings
    assert not opened.has("lm_head.weight")


@pytest.mark.parametrize(
    "spelling",
    [
        "full_attention",
        "indexed_attention",
        "qwen_sparse_attention",
        "deepseek_sparse_attention",
    ],
)
def test_four_spellings_of_the_sparse_layer(tmp_path: Path, spelling: str) -> None:
    config = tiny.tiny_config(layer_types=(["linear_attention"] * 3 + [spelling]) * 2)
    opened = open_checkpoint(tiny.write_checkpoint(tmp_path, tiny.tiny_config(), 0))
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert open_checkpoint(tmp_path).config == opened.config
    assert opened.config.layer_types[3] == "indexed_attention"


def test_absent_keys_take_the_reference_defaults_and_are_noted(tmp_path: Path) -> None:
    config = tiny.tiny_config(output_gate_type="silu")
    folder = tiny.write_checkpoint(tmp_path, config, 0)
    full = open_checkpoint(folder).config
    for key in ("seed", "norm_topk_prob", "layer_types", "output_gate_type"):
        del config[key]
    (folder / "config.json").write_text(json.dumps(config))
    short = open_checkpoint(folder).config
    assert short.seed == 1234
    assert short.norm_topk_prob is True
    assert short.layer_types == full.layer_types
    assert short.output_gate == "silu"
    for note in (
        "seed absent: 1234",
        "norm_topk_prob absent: true",
        "output_gate_type absent: silu",
        "layer_types absent: every 4th is indexed_attention",
    ):
        assert note in short.notes
    assert full.notes == ()


def test_the_flag_for_renormalising_is_taken_from_the_file(tmp_path: Path) -> None:
    config = tiny.tiny_config(norm_topk_prob=False)
    assert not open_checkpoint(
        tiny.write_checkpoint(tmp_path, config, 0)
    ).config.norm_topk_prob


def test_stop_ids_are_the_union_of_all_sources(tmp_path: Path) -> None:
    folder = tiny.write_checkpoint(
        tmp_path, tiny.tiny_config(eos_token_id=[256, 9]), 0, nested_config=True
    )
    outer = json.loads((folder / "config.json").read_text())
    outer["eos_token_id"] = 8
    (folder / "config.json").write_text(json.dumps(outer))
    (folder / "generation_config.json").write_text('{"eos_token_id": [7, 256]}')
    (folder / "tokenizer_config.json").write_text('{"eos_token": {"content": "<e>"}}')
    tokenizer = {"added_tokens": [{"id": 6, "content": "<e>"}], "model": {"vocab": {}}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = open_checkpoint(folder).config
    assert config.eos_token_id == 256  # the barrier: the first of the text's own list
    assert config.stop_ids == (6, 7, 8, 9, 256)


@pytest.mark.parametrize(
    ("tokenizer_config", "tokenizer"),
    [
        (
            {"eos_token": "<e>", "added_tokens_decoder": {"5": {"content": "<e>"}}},
            {},
        ),
        ({"eos_token": "<e>"}, {"model": {"vocab": {"<e>": 5}}}),
    ],
    ids=["listed beside the token", "in the vocabulary"],
)
def test_the_tokenizer_names_a_stop_token(
    tmp_path: Path, tokenizer_config: dict[str, Any], tokenizer: dict[str, Any]
) -> None:
    folder = tiny.write_checkpoint(tmp_path, tiny.tiny_config(), 0)
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert open_checkpoint(folder).config.stop_ids == (5, 256)


def test_a_stop_token_without_an_id_is_noted(tmp_path: Path) -> None:
    folder = tiny.write_checkpoint(tmp_path, tiny.tiny_config(), 0)
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<e>"}')
    config = open_checkpoint(folder).config
    assert config.stop_ids == (256,)
    assert "eos_token `<e>` has no id in the folder: not a stop id" in config.notes


def test_chat_template_from_either_file(tmp_path: Path) -> None:
    folder = tiny.write_checkpoint(tmp_path, tiny.tiny_config(), 0)
    assert open_checkpoint(folder).chat_template is None
    named = [{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}]
    text = json.dumps({"chat_template": named})
    (folder / "tokenizer_config.json").write_text(text)
    assert open_checkpoint(folder).chat_template == "d"
    (folder / "chat_template.jinja").write_text("own file")
    assert open_checkpoint(folder).chat_template == "own file"


def test_a_folder_of_links_and_hidden_files_opens(tmp_path: Path) -> None:
    """As a download cache keeps it, with the files that a Mac adds."""
    real = tiny.write_checkpoint(tmp_path / "blobs", tiny.tiny_config(), 0)
    folder = tmp_path / "snapshot"
    folder.mkdir()
    for path in real.iterdir():
        (folder / path.name).symlink_to(path)
    (folder / "._model.safetensors").write_bytes(b"resource fork")
    assert open_checkpoint(folder).digest == open_checkpoint(real).digest


def test_digest_follows_content_and_not_the_place(tmp_path: Path) -> None:
    config = tiny.tiny_config()
    one, again, other = (
        open_checkpoint(tiny.write_checkpoint(tmp_path / name, config, seed)).digest
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert one == again != other
    file = tmp_path / "a/model.safetensors"
    data = bytearray(file.read_bytes())
    name, entry = "model.layers.1.mlp.gate.weight", opened_header(data)
    start = 8 + int.from_bytes(data[:8], "little") + entry[name]["data_offsets"][0]
    data[start] ^= 1
    file.write_bytes(data)
    assert open_checkpoint(tmp_path / "a").digest != one


def opened_header(data: bytearray) -> Any:
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def test_the_bundled_checkpoint_opens_quickly() -> None:
    opened = open_checkpoint(BUNDLED)
    assert opened.name == "strata-tiny"
    assert opened.dtype == "bfloat16"
    assert opened.config.stop_ids == (0, 2)
    assert opened.config.eos_token_id == 0
    assert opened.tokenizer_path == BUNDLED / "tokenizer.json"
    assert opened.chat_template is not None
    assert opened.has("mtp.layers.0.mlp.gate.weight")
    table = opened.ple(0)
    rows = table.rows(table.hash([], [5, 9, 0, 11]))
    assert rows.shape == (4, 8, 16)
    assert np.isfinite(rows).all()
    assert rows.any()
    # The best of a few, and processor time: some 0.05 s, also where others are busy.
    times = []
    for _ in range(5):
        start = time.process_time()
        open_checkpoint(BUNDLED)
        times.append(time.process_time() - start)
    assert min(times) < 0.3


def test_opening_does_not_read_a_large_table(tmp_path: Path) -> None:
    """2 GB of table that takes no disk: opening it must not bring it into memory."""
    config = tiny.tiny_config(
        vocab_size=512, ngram_vocab_size_base=4_000_000, ple_embed_dim=128
    )
    multipliers, sizes, offsets, rows = tiny.ple_constants(config, 0)
    small = tiny.tiny_config(vocab_size=512, ple_embed_dim=128)
    folder = tiny.write_checkpoint(tmp_path, small, 0, whole_ple=True)
    stem = "model.layers.1.ple.ple_embedding"
    stored = {
        name if name == "lm_head.weight" else f"model.{name}": array
        for name, array in tiny.tensors(small, 0).items()
    }
    del stored[f"{stem}.ngram_embedding.weight"]
    stored |= {
        f"{stem}.layer_multipliers": np.array(multipliers),
        f"{stem}.ngram_heads_vocab_sizes": np.array(sizes),
        f"{stem}.ngram_heads_offsets": np.array(offsets),
    }
    tiny.write_safetensors(folder / "model-1.safetensors", stored)
    table = {"dtype": "F32", "shape": [rows, 16], "data_offsets": [0, rows * 64]}
    header = json.dumps({f"{stem}.ngram_embedding.weight": table}).encode()
    with (folder / "model-2.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + rows * 64)
    (folder / "model.safetensors").unlink()
    weight_map = dict.fromkeys(stored, "model-1.safetensors")
    weight_map[f"{stem}.ngram_embedding.weight"] = "model-2.safetensors"
    index = json.dumps({"weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(index)
    (folder / "config.json").write_text(json.dumps(config))
    assert (folder / "model-2.safetensors").stat().st_size > 2_000_000_000

    # In a process of its own: the peak of this one may already be higher.
    script = (
        "import resource, sys, time\n"
        "import numpy as np\n"
        "from strata_nb.packs import open_checkpoint\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "start = time.process_time()\n"
        "opened = open_checkpoint(sys.argv[1])\n"
        "table = opened.ple(0)\n"
        "table.rows(np.array([0, 1, table.shape[0] - 1]))\n"
        "opened.digest\n"
        "seconds = time.process_time() - start\n"
        "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(after - before, seconds)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        cwd=BUNDLED.parents[2],
    )
    grown, seconds = map(float, ran.stdout.split())
    assert (
        grown < 100_000
    )  # ru_maxrss counts KiB here (bytes on macOS: the more strict)
    assert seconds < 5
