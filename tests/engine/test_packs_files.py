"""Files of a checkpoint: how many are open, and whether they are still the same."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tiny
from strata_nb.errors import CheckpointError
from strata_nb.packs import Checkpoint, open_checkpoint
from tiny import small_config

FILES = 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny.write_checkpoint(tmp_path, small_config(), 0, files=FILES)


def open_files(folder: Path) -> list[str]:
    """What this process has open in `folder`, once for each descriptor."""
    # The listing has a descriptor of its own, which is gone afterwards.
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    targets = [str(link.readlink()) for link in links]
    return [target for target in targets if target.startswith(str(folder))]


def read_all(opened: Checkpoint) -> None:
    for name in opened.names:
        opened.tensor(name)
        opened.raw(name)
    for layer in range(opened.config.num_hidden_layers):
        opened.raw_experts(layer)
    assert opened.digest


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="Linux lists them there")
def test_only_files_of_n_gram_tables_stay_open(folder: Path) -> None:
    opened = open_checkpoint(folder)
    read_all(opened)
    assert open_files(folder) == []
    table = opened.ple(0)
    table.rows(np.arange(table.shape[0]))
    tables = [name for name in opened.names if "ngram_embedding" in name]
    assert 0 < len(open_files(folder)) == len(set(open_files(folder))) <= len(tables)
    del opened, table
    assert open_files(folder) == []


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="Linux lists them there")
def test_views_of_one_file_share_its_map(folder: Path) -> None:
    opened = open_checkpoint(folder)
    views = [opened.raw(name)[0] for name in opened.names]
    assert len(views) > FILES == len(open_files(folder))
    want = [opened.tensor(name) for name in opened.names]
    # A view outlives the checkpoint that gave it.
    del opened
    for view, array in zip(views, want, strict=True):
        np.testing.assert_array_equal(view, array)
    del view, views
    assert open_files(folder) == []


READS: dict[str, Callable[[Checkpoint], object]] = {
    "tensor": lambda opened: opened.tensor("embed_tokens.weight"),
    "raw": lambda opened: opened.raw("embed_tokens.weight"),
    "experts": lambda opened: opened.experts(0),
    "rows": lambda opened: opened.ple(0).rows(np.arange(3)),
    "digest": lambda opened: opened.digest,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_a_file_that_was_written_over_after_opening(
    folder: Path, read: Callable[[Checkpoint], object]
) -> None:
    opened = open_checkpoint(folder)
    for path in folder.glob("*.safetensors"):
        before = path.stat()
        path.write_bytes(path.read_bytes())
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))
    with pytest.raises(CheckpointError, match=r"changed .* \(it was written to\)"):
        read(opened)


def test_threads_read_the_same_file_at_once(folder: Path) -> None:
    opened = open_checkpoint(folder)
    want = {name: opened.tensor(name) for name in opened.names}
    wrong: list[str] = []

    def read() -> None:
        for _ in range(5):
            for name, array in want.items():
                if not np.array_equal(opened.raw(name)[0], array):
                    wrong.append(name)
                if not np.array_equal(opened.tensor(name), array):
                    wrong.append(name)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("~nobody-of-that-name/x", "home directory"),
        ("x" * 5000, "too long"),
        ("a\0b", "got nothing"),
        ("", "has no config.json"),
    ],
)
def test_a_name_that_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        CheckpointError, match=rf"{why}.*; give the folder of a ch"
    ) as e:
        open_checkpoint(name)
    assert len(str(e.value)) < 500
