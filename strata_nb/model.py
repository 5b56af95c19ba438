"""A loaded model: its checkpoint, its tokenizer, and the engines made of it."""

import operator
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias

import mlx.core as mx
from tokenizers import Tokenizer

from strata_nb.backend import Backend
from strata_nb.engine import Engine
from strata_nb.errors import CheckpointError
from strata_nb.models.qwen4_exp import EngineOptions, Fold, Qwen4Exp, Weights
from strata_nb.oracle import OracleBackend
from strata_nb.packs import Checkpoint, ModelConfig, open_checkpoint
from strata_nb.parts import KvKind
from strata_nb.state import Difference, differences

Dtype: TypeAlias = Literal["float32", "bfloat16"]

_DTYPES = {"float32": mx.float32, "bfloat16": mx.bfloat16}
_BUNDLED = Path(__file__).parent / "data"


class Model:
    """Weights that any number of engines may share.

    Args:
        checkpoint: an opened checkpoint.
        backend: "mlx", or "oracle" for the float64 second opinion.
        dtype: of weights and activations; the oracle computes in float64.
    """

    def __init__(
        self, checkpoint: Checkpoint, *, backend: Literal["mlx", "oracle"], dtype: Dtype
    ) -> None:
        self.checkpoint = checkpoint
        self.kind = backend
        self.dtype = "float64" if backend == "oracle" else dtype
        self._weights = (
            Weights(checkpoint, _DTYPES[dtype]) if backend == "mlx" else None
        )
        self._oracle = OracleBackend(checkpoint) if backend == "oracle" else None
        path = checkpoint.tokenizer_path
        self.tokenizer = _tokenizer(path) if path else None
        if self._weights is not None:
            # Reads every weight, so that the first engine starts at once.
            self._backend(EngineOptions(fold="lazy", partial=False, kv=dtype))

    def __repr__(self) -> str:
        return f"Model({self.name!r}, backend={self.kind!r}, dtype={self.dtype!r})"

    @property
    def config(self) -> ModelConfig:
        """The architecture."""
        return self.checkpoint.config

    @property
    def name(self) -> str:
        """The checkpoint's folder name."""
        return self.checkpoint.name

    @property
    def digest(self) -> str:
        """Fingerprint of the checkpoint."""
        return self.checkpoint.digest

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end a text, from every file that names one."""
        return self.config.stop_ids

    @property
    def chat_template(self) -> str | None:
        """The checkpoint's Jinja template of a conversation."""
        return self.checkpoint.chat_template

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`; nothing is added to it.

        Raises:
            CheckpointError: the checkpoint has no tokenizer.
        """
        ids: list[int] = self._tokens().encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, special tokens included.

        Raises:
            CheckpointError: the checkpoint has no tokenizer.
        """
        text: str = self._tokens().decode(list(ids), skip_special_tokens=False)
        return text

    def engine(
        self,
        *,
        fold: Fold = "lazy",
        partial: bool = False,
        kv: KvKind | None = None,
        context: int | None = None,
    ) -> Engine:
        """A new, empty sequence.

        Args:
            fold: when recurrent state advances over kept rows, at the next run
                ("lazy") or at commit ("eager"); the bits are the same.
            partial: the state after row 0 is taken from the run instead of replayed.
            kv: kind of K and V, "float32", "bfloat16" or "int8"; the model's dtype
                when not given.
            context: cells that the sequence may have; the model's limit when not given.

        Raises:
            ValueError: an option is not one of those offered, or `context` is below 1.
        """
        most = self.config.max_position_embeddings
        limit = most if context is None else operator.index(context)
        if not 1 <= limit <= most:
            raise ValueError(
                f"`context` is {limit}, wanted 1 to {most} cells: the model was made "
                "for no more (`max_position_embeddings` in config.json)"
            )
        default: KvKind = "bfloat16" if self.dtype == "bfloat16" else "float32"
        options = EngineOptions(
            fold=fold, partial=partial, kv=default if kv is None else kv
        )
        if self._oracle is not None and kv is not None:
            raise ValueError("the oracle keeps K and V in float64; leave `kv` out")
        shown: dict[str, str | bool] = {
            "fold": fold,
            "partial": partial,
            "kv": options.kv,
            "dtype": self.dtype,
        }
        return Engine(
            self._backend(options),
            context=limit,
            options=shown,
            provenance=self._provenance(shown, limit),
            model=self,
        )

    def _backend(self, options: EngineOptions) -> Backend:
        if self._weights is not None:
            return Qwen4Exp(self._weights, options)
        assert self._oracle is not None
        return self._oracle

    def _provenance(self, options: dict[str, Any], context: int) -> dict[str, Any]:
        return {
            "model": self.name,
            "model_digest": self.digest,
            "backend": self.kind,
            "device": str(mx.default_device()),
            "mlx": version("mlx"),
            "options": {**options, "context": context},
        }

    def _tokens(self) -> Tokenizer:
        if self.tokenizer is None:
            raise CheckpointError(
                f"{self.name} has no tokenizer.json; put it beside config.json, "
                "or work with token ids"
            )
        return self.tokenizer


def load(
    name: str | os.PathLike[str],
    *,
    backend: Literal["mlx", "oracle"] = "mlx",
    dtype: Dtype | None = None,
) -> Model:
    """Load a model.

    Turns TF32 products off for this process, unless `MLX_ENABLE_TF32` is set.

    Args:
        name: a bundled model ("strata-tiny") or a folder in Hugging Face layout.
        backend: "mlx", or "oracle": NumPy in float64, serial, the second opinion.
        dtype: of weights and activations. Not given: bfloat16 for a checkpoint in
            bfloat16 on a GPU, else float32.

    Raises:
        CheckpointError: the folder is missing or not understood; the message names
            the file or tensor and the remedy.
        ValueError: an unknown backend or dtype.
    """
    if backend not in ("mlx", "oracle"):
        raise ValueError(f"`backend` is {backend!r}, wanted 'mlx' or 'oracle'")
    if dtype is not None and dtype not in _DTYPES:
        raise ValueError(f"`dtype` is {dtype!r}, wanted {' or '.join(_DTYPES)}")
    # MLX on CUDA multiplies float32 in TF32 unless told otherwise before its first
    # product: off by 1e-3, which no comparison here would stand.
    os.environ.setdefault("MLX_ENABLE_TF32", "0")
    checkpoint = open_checkpoint(_folder(name))
    on_cpu = mx.default_device() == mx.cpu
    own: Dtype = "bfloat16" if checkpoint.dtype == "bfloat16" else "float32"
    return Model(
        checkpoint, backend=backend, dtype=dtype or ("float32" if on_cpu else own)
    )


def _tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing narrower
        raise CheckpointError(
            f"{path.name} cannot be read as a tokenizer ({error}); download it again"
        ) from error


def _folder(name: str | os.PathLike[str]) -> Path:
    bundled = sorted(p.name for p in _BUNDLED.iterdir() if p.is_dir())
    if isinstance(name, str) and name in bundled:
        return _BUNDLED / name
    try:
        folder = Path(name).expanduser()
        there = folder.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{name!r} names no folder: {error}") from error
    if not there:
        raise CheckpointError(
            f"there is no folder {folder}; wanted one with config.json and safetensors "
            f"files, or a bundled model ({', '.join(bundled)})"
        )
    return folder


def diff(first: Engine, second: Engine, *, atol: float = 0.0) -> list[Difference]:
    """Where the states of two engines part: part, layer, cell and size.

    Args:
        first: an engine; its position names the cells.
        second: another one, of any backend.
        atol: largest absolute difference that counts as none; 0 compares exactly.
    """
    for engine in (first, second):
        if not isinstance(engine, Engine):
            raise TypeError(
                f"diff wants two engines, got {type(engine).__name__}; "
                "`restore` a saved file into one first"
            )
    found = differences(
        first.leaves(),
        second.leaves(),
        position=first.position,
        ratio=first.backend.config.indexer_compress_ratio,
        atol=atol,
    )
    if first.position != second.position:
        gap = float(abs(first.position - second.position))
        found.insert(0, Difference("position", None, "n", None, gap))
    return found
