"""A loaded model: its checkpoint, its tokenizer, and the engines made of it."""

import operator
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias

import mlx.core as mx
from tokenizers import Tokenizer

from strata_nb import faults
from strata_nb.backend import Backend
from strata_nb.chat import render
from strata_nb.draft.head import Mtp, head_of
from strata_nb.engine import Engine
from strata_nb.errors import CheckpointError
from strata_nb.experts.pool import SlotPool
from strata_nb.experts.streaming import Streaming
from strata_nb.models.qwen4_exp import (
    NOTHING,
    EngineOptions,
    Fold,
    Imposed,
    Qwen4Exp,
    SlotExperts,
    Weights,
    as_built,
)
from strata_nb.oracle import HeadOracle, OracleBackend
from strata_nb.packs import Checkpoint, ModelConfig, open_checkpoint
from strata_nb.packs.bundled import checkpoint_folder
from strata_nb.parts import KvKind
from strata_nb.policies.routing import NATURAL, Routing
from strata_nb.state import Difference, differences
from strata_nb.trace.quoting import shown

Dtype: TypeAlias = Literal["float32", "bfloat16"]

_DTYPES = {"float32": mx.float32, "bfloat16": mx.bfloat16}


class Model:
    """Weights that any number of engines may share.

    Args:
        checkpoint: an opened checkpoint.
        backend: "mlx", or "oracle" for the float64 second opinion.
        dtype: of weights and activations; the oracle computes in float64.
        experts: how routed experts are kept; None: all in memory, as they are stored.
        fault: a defect to plant into experts in slots.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        backend: Literal["mlx", "oracle"],
        dtype: Dtype,
        experts: Streaming | None = None,
        fault: str | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.kind = backend
        self.dtype = "float64" if backend == "oracle" else dtype
        kind = SlotExperts if fault is None else faults.of_experts(fault).variant
        self._weights = (
            Weights(checkpoint, _DTYPES[dtype], streaming=experts, slot_experts=kind)
            if backend == "mlx"
            else None
        )
        self._oracles: dict[Mtp | None, OracleBackend] = {}
        if backend == "oracle":
            self._oracles[None] = OracleBackend(checkpoint)
        path = checkpoint.tokenizer_path
        self.tokenizer = _tokenizer(path) if path else None
        self._backends: dict[EngineOptions, Qwen4Exp] = {}
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
    def why_no_head(self) -> str | None:
        """Why `mtp` can only be off; None: the whole draft head is there."""
        return self.checkpoint.head.why_not

    @property
    def pool(self) -> SlotPool | None:
        """The slots of experts and their counters; None: all experts are in memory."""
        streamed = None if self._weights is None else self._weights.streamed
        return None if streamed is None else streamed.pool

    @property
    def chat_template(self) -> str | None:
        """The checkpoint's Jinja template of a conversation."""
        return self.checkpoint.chat_template

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`; nothing is added to it.

        Raises:
            CheckpointError: the checkpoint has no tokenizer.
            TypeError: no text.
            ValueError: half of a character, as bytes that are no UTF-8 leave behind.
        """
        tokenizer = self._tokens()
        if not isinstance(text, str):
            raise TypeError(f"wanted text, got {shown(text)}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"character {error.start} of the text is {text[error.start]!a}, half "
                "of one; wanted text that UTF-8 can write"
            ) from error
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, special tokens included.

        Raises:
            CheckpointError: the checkpoint has no tokenizer.
        """
        text: str = self._tokens().decode(list(ids), skip_special_tokens=False)
        return text

    def chat(
        self, messages: Sequence[Mapping[str, object]], **variables: object
    ) -> str:
        """A conversation as the checkpoint's chat template writes it.

        Args:
            messages: each with "role" and "content", oldest first.
            variables: others that the template knows, such as tools.

        Raises:
            CheckpointError: the checkpoint has no template, or it refuses.
            TypeError: a message without role or content.
        """
        return render(self.chat_template, messages, name=self.name, **variables)

    def engine(
        self,
        *,
        fold: Fold = "lazy",
        partial: bool = False,
        kv: KvKind | None = None,
        context: int | None = None,
        routing: Routing = NATURAL,
        fault: str | None = None,
        imposed: Imposed = NOTHING,
        mtp: bool | Mtp = False,
    ) -> Engine:
        """A new, empty sequence.

        Args:
            fold: when recurrent state advances over kept rows, at the next run
                ("lazy") or at commit ("eager"); the bits are the same.
            partial: the state after row 0 is taken from the run instead of replayed.
            kv: kind of K and V, "float32", "bfloat16" or "int8"; the model's dtype
                when not given.
            context: cells that the sequence may have; the model's limit when not given.
            routing: which experts a row uses; a lossy one is approximate.
            fault: a defect to plant into a part, named in `strata_nb.faults`.
            imposed: experts and blocks that replace the model's choice.
            mtp: keep the state of the model's own draft head, for `engine.draft`; its
                experts are in memory whatever `experts` says of the others. An `Mtp`
                says how it is read.

        Raises:
            CheckpointError: `mtp` is on, and the checkpoint has no whole draft head.
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
            fold=fold,
            partial=partial,
            kv=default if kv is None else kv,
            vary=as_built if fault is None else faults.of_part(fault).vary,
            routing=routing,
            imposed=imposed,
            mtp=head_of(mtp),
        )
        if self._oracles:
            _only_exact(kv, routing, fault, imposed)
        shown: dict[str, str | bool] = {
            "fold": fold,
            "partial": partial,
            "kv": options.kv,
            "dtype": self.dtype,
        }
        if routing is not NATURAL:
            shown["routing"] = routing.name
        if not routing.lossless:
            # Every record of such an engine says so.
            shown["approximate"] = routing.name
        if fault is not None:
            shown["fault"] = fault
        if imposed is not NOTHING:
            shown["imposed"] = True
        if options.mtp is not None:
            shown["mtp"] = options.mtp.name
        return Engine(
            self._backend(options),
            context=limit,
            options=shown,
            provenance=self._provenance(shown, limit),
            model=self,
        )

    def _backend(self, options: EngineOptions) -> Backend:
        if self._weights is not None and options.imposed is not NOTHING:
            return Qwen4Exp(self._weights, options)
        if self._weights is not None:
            # A backend holds no state, so that engines may share one.
            if options not in self._backends:
                self._backends[options] = Qwen4Exp(self._weights, options)
            return self._backends[options]
        how = options.mtp
        if how is not None and how not in self._oracles:
            self.checkpoint.check_head()
            made = HeadOracle(self.checkpoint, norm=how.norm, position=how.position)
            self._oracles[how] = made
        return self._oracles[how]

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
    experts: Streaming | str | os.PathLike[str] | None = None,
    fault: str | None = None,
) -> Model:
    """Load a model.

    Turns TF32 products off for this process, unless `MLX_ENABLE_TF32` is set.

    Args:
        name: a bundled model ("strata-tiny") or a folder in Hugging Face layout.
        backend: "mlx", or "oracle": NumPy in float64, serial, the second opinion.
        dtype: of weights and activations. Not given: bfloat16 for a checkpoint in
            bfloat16 on a GPU, else float32.
        experts: an expert file (`strata-nb pack`), or a `Streaming` that says how many
            experts are in memory and how the others come there. None: all of them, as
            the checkpoint has them.
        fault: a defect to plant into experts in slots, named in `strata_nb.faults`.

    Raises:
        CheckpointError: the folder is missing or not understood; the message names
            the file or tensor and the remedy.
        ExpertFileError: the expert file is damaged, or of another model.
        ValueError: an unknown backend or dtype, or experts that do not go with it.
    """
    if backend not in ("mlx", "oracle"):
        raise ValueError(f"`backend` is {backend!r}, wanted 'mlx' or 'oracle'")
    if dtype is not None and dtype not in _DTYPES:
        raise ValueError(f"`dtype` is {dtype!r}, wanted {' or '.join(_DTYPES)}")
    # MLX on CUDA multiplies float32 in TF32 unless told otherwise before its first
    # product: off by 1e-3, which no comparison here would stand.
    os.environ.setdefault("MLX_ENABLE_TF32", "0")
    checkpoint = open_checkpoint(checkpoint_folder(name))
    on_cpu = mx.default_device() == mx.cpu
    own: Dtype = "bfloat16" if checkpoint.dtype == "bfloat16" else "float32"
    if experts is not None and backend == "oracle":
        raise ValueError(
            "the oracle computes with the experts of the checkpoint, all in memory; "
            "leave `experts` out, or use backend='mlx'"
        )
    if fault is not None and experts is None:
        raise ValueError(
            f"the fault {faults.of_experts(fault).name!r} is in the slots of experts, "
            "and all experts are in memory; give `experts`, such as Streaming(slots=4)"
        )
    streaming = (
        experts
        if experts is None or isinstance(experts, Streaming)
        else Streaming(file=experts)
    )
    return Model(
        checkpoint,
        backend=backend,
        dtype=dtype or ("float32" if on_cpu else own),
        experts=streaming,
        fault=fault,
    )


def _only_exact(
    kv: KvKind | None, routing: Routing, fault: str | None, imposed: Imposed
) -> None:
    if kv is not None:
        raise ValueError("the oracle keeps K and V in float64; leave `kv` out")
    if routing is not NATURAL or fault is not None or imposed is not NOTHING:
        raise ValueError(
            "the oracle is the second opinion: it has no faults and decides for "
            "itself; leave `routing`, `fault` and `imposed` out, or use backend='mlx'"
        )


def _tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing narrower
        raise CheckpointError(
            f"{path.name} cannot be read as a tokenizer ({error}); download it again"
        ) from error


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
