"""What a checkpoint is refused for: each row one fault and the words that name it."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny
from strata_nb.errors import CheckpointError
from strata_nb.packs import open_checkpoint
from tiny import small_config

Header = dict[str, Any]
INDEX = "model.safetensors.index.json"
GATE = "model.layers.1.mlp.gate.weight"
TABLE = "model.layers.0.ple.ple_embedding.ngram_embedding"


def write(folder: Path, **options: Any) -> Path:
    return tiny.write_checkpoint(folder, small_config(), 0, **options)


def refused(folder: Path, match: str) -> None:
    with pytest.raises(CheckpointError, match=match):
        open_checkpoint(folder)


def parts(path: Path) -> tuple[Header, bytes]:
    """Header and data of a safetensors file."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def put(path: Path, header: str | Header, data: bytes) -> None:
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_the_small_checkpoint_itself_opens(tmp_path: Path) -> None:
    assert open_checkpoint(write(tmp_path)).config.num_experts == 2


# ---- names, shapes and types: the stored arrays are changed before they are written


def _set(name: str, array: np.ndarray[Any, Any]) -> Callable[[tiny.Tensors], None]:
    def change(stored: tiny.Tensors) -> None:
        stored[name] = array

    return change


def _drop(*names: str) -> Callable[[tiny.Tensors], None]:
    def change(stored: tiny.Tensors) -> None:
        for name in names:
            del stored[name]

    return change


def _drop_all(part: str) -> Callable[[tiny.Tensors], None]:
    def change(stored: tiny.Tensors) -> None:
        for name in [name for name in stored if part in name]:
            del stored[name]

    return change


F32 = np.float32
TENSOR_ROWS: list[tuple[Callable[[tiny.Tensors], None], str]] = [
    (_drop(GATE), "missing tensors `layers.1.mlp.gate.weight`; wanted by config.json"),
    (_drop("lm_head.weight"), "missing tensors `lm_head.weight`"),
    (
        _drop_all("layers.1."),
        "missing tensors (`layers.1.*`, ){4}.* and 1 or more others",
    ),
    (
        _drop("model.layers.0.mlp.experts.1.up_proj.weight"),
        "missing .*experts.1.up_proj",
    ),
    (_set("model.norm.weight", np.zeros(8, F32)), "not wanted .*tensors `norm.weight`"),
    (_set("stray", np.zeros(8, F32)), "not wanted by config.json: tensors `stray`"),
    (_set("model.layers.9.x", np.zeros(1, F32)), "not wanted .*`layers.9.x`"),
    (_set("model.visual.x", np.zeros(1, F32)), "not wanted .*`visual.x`"),
    (_set("model.mtp.x", np.zeros(1, F32)), "not wanted .*`model.mtp.x`"),
    (
        _set("model.layers.0.mlp.experts.2.up_proj.weight", np.zeros((16, 8), F32)),
        "not w",
    ),
    (_set(GATE, np.zeros((2, 9), F32)), r"gate.weight` wants shape \[2, 8\] by"),
    (_set(GATE, np.zeros(16, F32)), r"gate.weight` wants shape \[2, 8\] .*got \[16\]"),
    (_set(GATE, np.zeros((2, 8), np.float16)), "wants dtype F32 like .*, got F16"),
    (_set(GATE, np.zeros((2, 8), np.int64)), "wants dtype F32 like .*, got I64"),
    (
        _set("model.embed_tokens.weight", np.zeros((17, 8), np.int64)),
        "wants dtype one of",
    ),
    (
        _set("model.layers.0.ple.ple_embedding.layer_multipliers", np.zeros(3, F32)),
        "layer_multipliers` wants dtype I64, got F32",
    ),
    (
        _set("model.layers.0.mlp.experts.gate_up_proj", np.zeros((2, 32, 8), F32)),
        "the experts of layer 0 are there twice",
    ),
    (_drop(f"{TABLE}.shard_1.weight"), "shard_1.weight` is missing, but .*shard_2"),
    (
        _drop(f"{TABLE}.shard_2.weight"),
        "shard_1.weight` wants 128 rows by .*, got 86 in 2",
    ),
    (
        _drop_all("ngram_embedding"),
        "ngram_embedding.weight` is missing, whole and in sh",
    ),
    (
        _set(f"{TABLE}.weight", np.zeros((128, 2), F32)),
        "is there whole and in 3 shards",
    ),
    (_set(f"{TABLE}.shard_2.weight", np.zeros((42, 3), F32)), "wants rows of 2 by"),
    (
        _set(f"{TABLE}.shard_2.weight", np.zeros((41, 2), F32)),
        "wants 128 rows .*got 127",
    ),
    (
        _set(f"{TABLE}.shard_3.weight", np.zeros((1, 2), F32)),
        "wants 128 rows .*got 129",
    ),
    (_set(f"{TABLE}.shard_02.weight", np.zeros((1, 2), F32)), "not wanted .*shard_02"),
    (_set("x\x1b[31m\n", np.zeros(1, F32)), re.escape(r"`x\x1b[31m\n`")),
]


@pytest.mark.parametrize(
    ("change", "match"), TENSOR_ROWS, ids=[row[1][:40] for row in TENSOR_ROWS]
)
def test_tensors(
    tmp_path: Path, change: Callable[[tiny.Tensors], None], match: str
) -> None:
    folder = write(tmp_path)
    header, data = parts(folder / "model.safetensors")
    stored = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, stop = entry["data_offsets"]
            dtype = {"F32": F32, "I64": np.int64}[entry["dtype"]]
            values = np.frombuffer(data[start:stop], dtype)
            stored[name] = values.reshape(entry["shape"])
    change(stored)
    tiny.write_files(folder, stored)
    refused(folder, match)


def test_a_quantised_tensor(tmp_path: Path) -> None:
    folder = write(tmp_path)
    header, data = parts(folder / "model.safetensors")
    header[GATE] |= {"dtype": "F8_E4M3", "shape": [2, 32]}
    put(folder / "model.safetensors", header, data)
    refused(folder, r"gate.weight` wants shape \[2, 8\]")


def test_two_prefixes_for_one_tensor(tmp_path: Path) -> None:
    folder = write(tmp_path, prefix="model.language_model.")
    header, data = parts(folder / "model.safetensors")
    header["embed_tokens.weight"] = {
        "dtype": "F32",
        "shape": [1],
        "data_offsets": [len(data), len(data) + 4],
    }
    put(folder / "model.safetensors", header, data + b"\0" * 4)
    refused(folder, "both stand for `embed_tokens.weight`; wanted one")


# ---- headers that lie: (header, data) in, header text or object and data out

_Lie = Callable[[Header, bytes], tuple[str | Header, bytes]]


def _entry(**changes: Any) -> _Lie:
    return lambda header, data: (header | {GATE: header[GATE] | changes}, data)


def _moved(by: int) -> _Lie:
    def change(header: Header, data: bytes) -> tuple[Header, bytes]:
        start, stop = header[GATE]["data_offsets"]
        moved = header[GATE] | {"data_offsets": [start + by, stop + by]}
        return header | {GATE: moved}, data

    return change


def _twice(header: Header, data: bytes) -> tuple[str, bytes]:
    entry = json.dumps({GATE: header[GATE]})
    return json.dumps(header)[:-1] + ", " + entry[1:], data


HEADER_ROWS: dict[str, tuple[_Lie, str]] = {
    "repeated name": (_twice, f"header: `{GATE}` appears twice"),
    "short tensor": (_entry(shape=[2, 9]), r"F32 \[2, 9\] wants 72 bytes, got 64"),
    "reversed offsets": (_entry(data_offsets=[64, 0]), "wants 64 bytes, got -64"),
    "overlap": (_moved(-8), f"and `{GATE}` overlap|`{GATE}` and .* overlap"),
    "hole": (_moved(8), "belong to no tensor"),
    "past the end": (_moved(10**9), "belong to no tensor|ends at byte"),
    "negative offset": (
        _entry(data_offsets=[-64, 0]),
        "wanted a shape and two offsets",
    ),
    "huge offset": (_entry(data_offsets=[2**70, 2**70 + 64]), "wanted a shape and two"),
    "three offsets": (
        _entry(data_offsets=[0, 64, 1]),
        "wanted a shape and two offsets",
    ),
    "float shape": (_entry(shape=[2.0, 8]), "wanted a shape and two offsets"),
    "bool shape": (_entry(shape=[True, 16]), "wanted a shape and two offsets"),
    "text shape": (_entry(shape="28"), "wanted a shape and two offsets"),
    "unknown dtype": (_entry(dtype="F31"), "dtype `F31` is unknown; wanted one of"),
    "dtype of a wrong type": (_entry(dtype=["F32"]), "dtype .* is unknown"),
    "wider dtype": (_entry(dtype="F64"), r"F64 \[2, 8\] wants 128 bytes, got 64"),
    "extra key": (
        _entry(path="/etc/passwd"),
        "wanted the keys dtype, shape and data_o",
    ),
    "entry of a wrong type": (
        lambda h, d: (h | {GATE: 3}, d),
        "wanted an object, got `3`",
    ),
    "metadata of a wrong type": (
        lambda h, d: (h | {"__metadata__": {"a": 1}}, d),
        "`__metadata__` wants texts only",
    ),
    "truncated data": (
        lambda h, d: (h, d[:-1]),
        "model.safetensors is truncated: tensor",
    ),
    "bytes left over": (lambda h, d: (h, d + b"\0"), "the tensors end at byte"),
    "no JSON": (lambda h, d: ("{" * 9, d), "header: wanted JSON"),
    "a list": (lambda h, d: ("[]", d), "header: wanted a JSON object, got list"),
}


@pytest.mark.parametrize(("lie", "match"), HEADER_ROWS.values(), ids=HEADER_ROWS)
def test_headers(tmp_path: Path, lie: _Lie, match: str) -> None:
    folder = write(tmp_path)
    path = folder / "model.safetensors"
    put(path, *lie(*parts(path)))
    refused(folder, match)


def test_truncated_files(tmp_path: Path) -> None:
    path = write(tmp_path) / "model.safetensors"
    whole = path.read_bytes()
    for length in (0, 7, 8, 100, len(whole) // 2):
        path.write_bytes(whole[:length])
        refused(tmp_path, "model.safetensors is truncated")


def test_a_header_longer_than_allowed(tmp_path: Path) -> None:
    path = write(tmp_path) / "model.safetensors"
    with path.open("wb") as file:
        file.write((10**9).to_bytes(8, "little"))
        file.truncate(2 * 10**9)
    refused(tmp_path, "wanted a header of at most 100000000 bytes, got 1000000000")


# ---- which files


def test_no_folder_and_no_checkpoint(tmp_path: Path) -> None:
    refused(tmp_path / "absent", "wanted a folder .*, got nothing")
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    refused(tmp_path / "model.gguf", "wanted a folder .*, got a file")
    refused(tmp_path, "has no config.json")


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, "holds no safetensors file; .* pickled weights are never read")


def test_several_files_without_an_index(tmp_path: Path) -> None:
    folder = write(tmp_path, files=2)
    (folder / INDEX).unlink()
    refused(folder, f"2 safetensors files but no {INDEX}; wanted the index")


def test_an_index_beside_a_whole_file(tmp_path: Path) -> None:
    write(write(tmp_path), files=2)
    refused(tmp_path, "holds both model.safetensors and")


def test_a_pipe_instead_of_a_file(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    refused(folder, "model.safetensors: wanted a plain file")


def _index(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    index = json.loads((folder / INDEX).read_text())
    change(index["weight_map"])
    (folder / INDEX).write_text(json.dumps(index))


@pytest.mark.parametrize(
    "file",
    [
        "../model.safetensors",
        "/etc/model.safetensors",
        "a/b.safetensors",
        "a\\b.safetensors",
        "c:b.safetensors",
        ".safetensors",
        "model.bin",
        "a\0.safetensors",
        7,
    ],
)
def test_an_index_that_leads_elsewhere(tmp_path: Path, file: object) -> None:
    folder = write(tmp_path / "in", files=2)
    write(tmp_path)
    _index(folder, lambda weights: weights.update({GATE: file}))
    refused(folder, "wants the plain name of a safetensors file .* do not trust")


def test_an_index_and_headers_that_disagree(tmp_path: Path) -> None:
    folder = write(tmp_path, files=2)
    whole = (folder / INDEX).read_text()
    _index(folder, lambda weights: weights.update({"x": weights[GATE]}))
    refused(folder, "tensor `x` is missing: .*, which does not hold it")
    (folder / INDEX).write_text(whole)
    _index(folder, lambda weights: weights.pop(GATE))
    refused(folder, f"tensor `{GATE}` in .* is not in {INDEX}")
    (folder / INDEX).write_text(whole)
    (folder / "model-00002-of-00002.safetensors").unlink()
    refused(
        folder, f"{INDEX} names `model-00002-of-00002.safetensors`, which is not in"
    )
    (folder / INDEX).write_text('{"weight_map": []}')
    refused(folder, "`weight_map` wants names and files")


def test_a_tensor_in_two_files(tmp_path: Path) -> None:
    folder = write(tmp_path, files=2)
    header, data = parts(folder / "model-00001-of-00002.safetensors")
    other, _ = parts(folder / "model-00002-of-00002.safetensors")
    moved = next(name for name in header if name != "__metadata__")
    header[next(n for n in other if n != "__metadata__")] = header.pop(moved)
    put(folder / "model-00001-of-00002.safetensors", header, data)
    refused(
        folder, "is in `model-00001-of.*` and in `model-00002-of.*`; wanted it once"
    )


def test_absent_tensors_layers_and_modules_by_hand(tmp_path: Path) -> None:
    opened = open_checkpoint(write(tmp_path))
    with pytest.raises(CheckpointError, match="has no tensor `x`; `names` lists"):
        opened.tensor("x")
    with pytest.raises(ValueError, match="`layer` wants 0 to 1, got -1"):
        opened.experts(-1)
    with pytest.raises(ValueError, match="`j` wants a PLE module below 1, got 1"):
        opened.ple(1)


@pytest.mark.parametrize("method", ["tensor", "raw"])
def test_a_file_that_shrank_after_opening(tmp_path: Path, method: str) -> None:
    config = small_config(ple_layer_ids=[])  # with PLE, opening reads its constants
    opened = open_checkpoint(tiny.write_checkpoint(tmp_path, config, 0))
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="changed since it was opened"):
        getattr(opened, method)("embed_tokens.weight")


def test_a_file_that_shrinks_under_a_reader(tmp_path: Path) -> None:
    opened = open_checkpoint(write(tmp_path))
    rows = np.arange(128)
    assert np.isfinite(opened.ple(0).rows(rows)).all()
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"it ends at byte .*open the checkpoint"):
        opened.ple(0).rows(rows)
