"""An opened checkpoint: its configuration, and arrays by canonical name on request."""

import hashlib
import os
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from strata_nb.errors import CheckpointError
from strata_nb.packs import manifest
from strata_nb.packs.config import ModelConfig
from strata_nb.packs.draft_head import HeadLayout, check_head
from strata_nb.packs.folder import Stored, canonical, check_folder, open_files
from strata_nb.packs.json_file import quote
from strata_nb.packs.ple import PleConstants, PleTable, derive_constants
from strata_nb.packs.read_config import read_config
from strata_nb.packs.safetensors_file import (
    BITS,
    DTYPE_NAMES,
    Reads,
    SafetensorsFile,
    byte_view,
    widen,
)
from strata_nb.packs.tokenizer_files import chat_template

_SAMPLED_TENSORS = 4096
_SAMPLE_BYTES = 64


def open_checkpoint(path: str | os.PathLike[str]) -> "Checkpoint":
    """Open a folder in Hugging Face layout and check all of it but the weights.

    Reads the configuration, every header and the few constants of the n-gram hash;
    weights are read when they are asked for.

    Raises:
        CheckpointError: the folder is not a checkpoint of this family, or its files,
            names, types, shapes or constants do not fit each other. The message says
            what was wanted, what came and what to do.
    """
    folder = check_folder(path)
    config = read_config(folder)
    files = open_files(folder)
    stored = canonical(files)
    constants = derive_constants(config) if config.ple_layers else ()
    entries = {name: where.entry for name, where in stored.items()}
    layout = manifest.check_manifest(config, entries, constants)
    head = check_head(config, entries, dtype=layout.dtype)
    config = replace(config, has_head=head.why_not is None)
    checkpoint = Checkpoint(folder, config, files, stored, layout, head)
    for layer, derived in zip(config.ple_layers, constants, strict=True):
        _check_constants(checkpoint, layer, derived)
    return checkpoint


class Checkpoint:
    """Arrays of one checkpoint by canonical name, as in `layers.0.mlp.gate.weight`.

    Made by `open_checkpoint`. The name of a tensor is what follows `model.` or
    `model.language_model.`; `lm_head.weight` and `mtp.*` stand for themselves.

    Attributes:
        path: the folder.
        config: its configuration.
        head: whether there is a draft head, and if not, why.
    """

    def __init__(
        self,
        path: Path,
        config: ModelConfig,
        files: dict[str, SafetensorsFile],
        stored: dict[str, Stored],
        layout: manifest.Layout,
        head: HeadLayout,
    ) -> None:
        self.path = path
        self.config = config
        self._files = files
        self._stored = stored
        self._layout = layout
        self.head = head
        self._tables: dict[int, PleTable] = {}

    def __repr__(self) -> str:
        return f"Checkpoint({self.name!r}, {self.dtype}, {len(self._stored)} tensors)"

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name

    @property
    def dtype(self) -> str:
        """The type of its floats: "float32", "bfloat16" or "float16"."""
        return DTYPE_NAMES[self._layout.dtype]

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical names of all tensors in the files, sorted."""
        return tuple(sorted(self._stored))

    @property
    def tokenizer_path(self) -> Path | None:
        """The tokenizer's file, if the folder has one."""
        path = self.path / "tokenizer.json"
        return path if path.is_file() else None

    @cached_property
    def chat_template(self) -> str | None:
        """The Jinja text that turns messages into a prompt, if the folder has one."""
        return chat_template(self.path)

    def has(self, name: str) -> bool:
        """Whether the files hold a tensor of this canonical name."""
        return name in self._stored

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor; only its header is asked.

        Raises:
            CheckpointError: no such tensor.
        """
        return self._find(name)[0].entry.shape

    def tensor(self, name: str) -> npt.NDArray[Any]:
        """A fresh array: floats widened to float32, which is exact; int64 as it is.

        Raises:
            CheckpointError: no such tensor.
        """
        where, dtype = self._find(name)
        return widen(where.file.read(where.entry), dtype)

    def raw(self, name: str) -> tuple[npt.NDArray[Any], str]:
        """The stored bits, read-only and not yet loaded, and the name of their type.

        They are a view of the file: do not overwrite it while the view is in use.

        Returns:
            float32 or int64 as such, bfloat16 and float16 as uint16; and "float32",
            "int64", "bfloat16" or "float16".

        Raises:
            CheckpointError: no such tensor, or one of a type that is not read.
        """
        where, dtype = self._find(name)
        return where.file.view(where.entry), dtype

    def _find(self, name: str) -> tuple[Stored, str]:
        where = self._stored.get(name)
        if where is None:
            raise CheckpointError(
                f"{self.name} has no tensor {quote(name)}; `names` lists those it has"
            )
        if where.entry.dtype not in DTYPE_NAMES:
            raise CheckpointError(
                f"tensor {quote(name)} is {where.entry.dtype}, wanted one of "
                f"{', '.join(DTYPE_NAMES)}; use the unquantised checkpoint"
            )
        return where, DTYPE_NAMES[where.entry.dtype]

    def experts(
        self, layer: int
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Routed experts of one layer, whichever form the files have.

        Returns:
            Fresh float32 arrays: gate and up [E, 2I, H], gate rows first; down
            [E, H, I].
        """
        self._check_layer(layer)
        if self._layout.fused[layer]:
            gate_up, down = map(self.tensor, manifest.fused_names(layer))
        else:
            gate_up, down = (widen(b, self.dtype) for b in self._stack_experts(layer))
        return gate_up, down

    def raw_experts(
        self, layer: int | None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any], str]:
        """As `experts`, in stored bits; a read-only view if the files have them fused.

        Args:
            layer: 0-based; None: the draft head's.

        Raises:
            ValueError: no such layer.
            CheckpointError: there is no draft head.
        """
        if layer is None:
            fused = self.check_head().fused
        else:
            self._check_layer(layer)
            fused = self._layout.fused[layer]
        if fused:
            gate_up, down = (self.raw(name)[0] for name in manifest.fused_names(layer))
        else:
            gate_up, down = self._stack_experts(layer)
        return gate_up, down, self.dtype

    def raw_expert(
        self, layer: int, expert: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """One routed expert in stored bits; nothing else is read.

        Returns:
            Fresh arrays: gate and up [2I, H], gate rows first; down [H, I].

        Raises:
            CheckpointError: a file is gone, or another one by now.
            ValueError: no such layer or expert.
        """
        self._check_layer(layer)
        c, inner = self.config, self.config.moe_intermediate_size
        if not 0 <= expert < c.num_experts:
            raise ValueError(
                f"`expert` wants 0 to {c.num_experts - 1}, got {expert}; experts count "
                "from zero"
            )
        bits = BITS[self._layout.dtype]
        gate_up = np.empty((2 * inner, c.hidden_size), bits)
        down = np.empty((c.hidden_size, inner), bits)
        names: tuple[str, ...] = manifest.expert_names(layer, expert)
        targets = [gate_up[:inner], gate_up[inner:], down]
        before = 0  # experts in the same tensor
        if self._layout.fused[layer]:
            names, targets = manifest.fused_names(layer), [gate_up, down]
            before = expert
        with Reads() as reads:
            for name, target in zip(names, targets, strict=True):
                where = self._stored[name]
                start = where.entry.start + before * target.nbytes
                reads.fill(byte_view(target), where.file, start)
        return gate_up, down

    def _check_layer(self, layer: int) -> None:
        if not 0 <= layer < self.config.num_hidden_layers:
            raise ValueError(
                f"`layer` wants 0 to {self.config.num_hidden_layers - 1}, got {layer}; "
                "layers count from zero"
            )

    def check_head(self) -> HeadLayout:
        """The draft head, which is whole.

        Raises:
            CheckpointError: it is not, or there is none.
        """
        if self.head.why_not is not None:
            raise CheckpointError(
                f"{self.name} cannot draft with its own head: {self.head.why_not}; "
                "download the whole checkpoint, or leave `mtp` out"
            )
        return self.head

    def _stack_experts(
        self, layer: int | None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        c, inner = self.config, self.config.moe_intermediate_size
        bits = BITS[self._layout.dtype]
        gate_up = np.empty((c.num_experts, 2 * inner, c.hidden_size), bits)
        down = np.empty((c.num_experts, c.hidden_size, inner), bits)
        with Reads() as reads:
            for expert in range(c.num_experts):
                targets = gate_up[expert, :inner], gate_up[expert, inner:], down[expert]
                names = manifest.expert_names(layer, expert)
                for name, target in zip(names, targets, strict=True):
                    where = self._stored[name]
                    reads.fill(byte_view(target), where.file, where.entry.start)
        return gate_up, down

    def ple(self, j: int) -> PleTable:
        """The hash and table of PLE module `j`, counted over `config.ple_layers`.

        Raises:
            ValueError: no such module.
        """
        c = self.config
        if not 0 <= j < len(c.ple_layers):
            raise ValueError(
                f"`j` wants a PLE module below {len(c.ple_layers)}, got {j}; it counts "
                "over `config.ple_layers`"
            )
        if j not in self._tables:
            # A checked configuration with PLE layers has this id.
            assert c.eos_token_id is not None
            shards = [self._stored[name] for name in self._layout.tables[j]]
            self._tables[j] = PleTable(
                *(self.tensor(name) for name in _constant_names(c.ple_layers[j])),
                eos=c.eos_token_id,
                shards=[(where.file, where.entry) for where in shards],
            )
        return self._tables[j]

    @cached_property
    def digest(self) -> str:
        """A fingerprint, in hex, that is quick on 100 GB.

        It covers the configuration, every header and size, and the first and middle
        bytes of up to 4096 tensors spread over the files; not every byte.
        """
        digest = hashlib.blake2b(digest_size=16)
        digest.update((self.path / "config.json").read_bytes())
        for name in sorted(self._files):
            file = self._files[name]
            digest.update(f"\0{file.size}\0".encode())
            digest.update(file.header)
        names = sorted(self._stored)
        with Reads() as reads:
            for name in names[:: -(-len(names) // _SAMPLED_TENSORS)]:
                file, entry = self._stored[name].file, self._stored[name].entry
                length = entry.stop - entry.start
                for start in (0, length // 2):
                    sample = bytearray(min(_SAMPLE_BYTES, length - start))
                    reads.fill(memoryview(sample), file, entry.start + start)
                    digest.update(sample)
        return digest.hexdigest()


def _constant_names(layer: int) -> tuple[str, ...]:
    stem = manifest.table_stem(layer)
    return tuple(f"{stem}.{name}" for name in manifest.PLE_CONSTANTS)


def _check_constants(checkpoint: Checkpoint, layer: int, derived: PleConstants) -> None:
    """Compare the constants in the file with those that the configuration yields.

    A lost seed shows here: the table would be read at wrong rows without any error.
    """
    wanted = (derived.multipliers, derived.sizes, derived.offsets)
    for name, value in zip(_constant_names(layer), wanted, strict=True):
        got = checkpoint.tensor(name)
        if not np.array_equal(got, value):
            raise CheckpointError(
                f"{quote(name)} wants {value.tolist()} by config.json, got "
                f"{got.tolist()}; `seed`, `vocab_size` or `ngram_vocab_size_base` of "
                "the configuration is not the one the table was trained with"
            )
