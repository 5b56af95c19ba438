"""The oracle's draft head: what it reads, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import tiny
from heads import head_shapes, write_with_head
from strata_nb.errors import CheckpointError
from strata_nb.oracle import HeadOracle
from strata_nb.packs import open_checkpoint
from strata_nb.packs.bundled import checkpoint_folder

TINY = tiny.tiny_config()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_with_head(tmp_path_factory.mktemp("head"), TINY, 1)


def test_there_are_31_tensors() -> None:
    assert len(dict(head_shapes(TINY))) == 31
    stored = open_checkpoint(checkpoint_folder("strata-tiny"))
    wanted = {name for name, _ in head_shapes(TINY)}
    assert wanted == {name for name in stored.names if name.startswith("mtp.")}


@pytest.mark.parametrize("name", sorted(dict(head_shapes(TINY))))
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    config = tiny.small_config()
    checkpoint = open_checkpoint(write_with_head(tmp_path, config, 2, without=(name,)))
    with pytest.raises(CheckpointError, match=rf"of the draft head: {name}; use a"):
        HeadOracle(checkpoint)


def test_a_checkpoint_without_a_head_says_so(tmp_path: Path) -> None:
    folder = tiny.write_checkpoint(tmp_path, tiny.small_config(), 2)
    with pytest.raises(CheckpointError, match=r"lacks .* mtp\.fc_embedding\.weight, "):
        HeadOracle(open_checkpoint(folder))


def test_experts_may_be_stored_one_by_one(folder: Path, tmp_path: Path) -> None:
    want = first_draft(folder)
    folder = write_with_head(tmp_path, TINY, 1, per_expert=True)
    np.testing.assert_array_equal(first_draft(folder), want)
    lacking = "mtp.layers.0.mlp.experts.3.up_proj.weight"
    stored = load_file(folder / "model.safetensors")
    del stored[lacking]
    tiny.write_files(folder, stored)
    with pytest.raises(CheckpointError, match=lacking):
        HeadOracle(open_checkpoint(folder))


def first_draft(folder: Path) -> Any:
    oracle = HeadOracle(open_checkpoint(folder))
    state = oracle.run(oracle.initial(), [1, 2, 3, 4], head=False).pending.after[-1]
    return oracle.draft(state, 5, None, None)[0]


def test_switches_are_checked(folder: Path) -> None:
    checkpoint = open_checkpoint(folder)
    with pytest.raises(ValueError, match="wanted 'whole' or 'grouped'"):
        HeadOracle(checkpoint, norm="each")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'t' or 't\+1', got 'whole' and 't-1'"):
        HeadOracle(checkpoint, position="t-1")  # type: ignore[arg-type]


def test_blocks_of_one_cell_know_no_shift(tmp_path: Path) -> None:
    config = tiny.small_config(indexer_compress_ratio=1)
    checkpoint = open_checkpoint(write_with_head(tmp_path, config, 2))
    HeadOracle(checkpoint)
    with pytest.raises(ValueError, match="wants blocks of 2 cells or more"):
        HeadOracle(checkpoint, position="t+1")
