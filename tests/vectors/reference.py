"""The outside reference: transformers' own Qwen4-Exp, with its selections recorded.

Needs PyTorch and transformers, which the test suite does not; only the parity script
imports this.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the model lies on disk: ask nobody

import numpy as np
import torch
from transformers import Qwen4ExpForCausalLM
from transformers.utils import logging

from vectors.golden import Answer, Floats, Golden, Ints, thin

quiet: Any = logging
quiet.disable_progress_bar()
quiet.set_verbosity_error()  # it warns that its plain PyTorch code is slow

# The draft head belongs to no layer of the reference, which skips it.
IGNORED = "mtp."


class Sorted(NamedTuple):
    """What `topk` returns, by the same names."""

    values: Any
    indices: Any


def stable_topk(scores: Any, k: int, dim: int = -1, **_: Any) -> Sorted:
    """`topk` whose ties go to the lowest index; torch's own leaves them open."""
    order = torch.sort(scores, dim=dim, descending=True, stable=True)
    return Sorted(order.values.narrow(dim, 0, k), order.indices.narrow(dim, 0, k))


def load(folder: Path) -> Any:
    """The reference on a checkpoint: float32, CPU, eager attention and experts.

    Raises:
        ValueError: a tensor of the checkpoint is missing or unknown to the reference.
    """
    model, info = Qwen4ExpForCausalLM.from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation="eager",
        experts_implementation="eager",
        output_loading_info=True,
    )
    wrong = {kind: sorted(names) for kind, names in info.items() if names}
    unexpected = wrong.pop("unexpected_keys", [])
    if others := [name for name in unexpected if not name.startswith(IGNORED)]:
        wrong["unexpected_keys"] = others
    if wrong:
        raise ValueError(f"{folder} does not fit the reference: {wrong}")
    return model.eval()


class Recorder:
    """Collects router logits and block scores while the reference runs one pass."""

    def __init__(self, model: Any) -> None:
        self.config = model.config
        self.layers = model.model.layers
        self.routers: dict[int, tuple[Floats, Ints]] = {}
        # Per indexed layer: scores and chosen blocks of each row that has a block.
        self.rows: dict[int, list[tuple[Floats, Ints]]] = {}
        self._open: list[tuple[Floats, Ints]] | None = None

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Hooks and the stable `topk` are in place inside the block only."""
        handles = []
        for index, layer in enumerate(self.layers):
            handles.append(layer.mlp.gate.register_forward_hook(self._router(index)))
            if hasattr(layer, "self_attn"):
                indexer = layer.self_attn.indexer
                handles.append(indexer.register_forward_pre_hook(self._enter(index)))
                handles.append(indexer.register_forward_hook(self._leave))
        try:
            with (
                mock.patch.object(torch.Tensor, "topk", self._topk()),
                mock.patch.object(torch, "topk", stable_topk),
            ):
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _router(self, layer: int) -> Any:
        def hook(module: Any, inputs: Any, outputs: Any) -> None:
            logits, _, chosen = outputs
            self.routers[layer] = (logits.numpy().copy(), chosen.numpy().copy())

        return hook

    def _enter(self, layer: int) -> Any:
        def hook(module: Any, inputs: Any) -> None:
            self._open = self.rows[layer] = []

        return hook

    def _leave(self, module: Any, inputs: Any, outputs: Any) -> None:
        self._open = None

    def _topk(self) -> Any:
        def topk(scores: Any, k: int, dim: int = -1, **rest: Any) -> Sorted:
            result = stable_topk(scores, k, dim, **rest)
            if self._open is not None:
                self._open.append(
                    (scores.numpy().copy(), result.indices.numpy().copy())
                )
            return result

        return topk

    def experts(self) -> tuple[Ints, Floats]:
        """Chosen ids, ascending [L, T, K], and gaps of the router logits [L, T]."""
        ids, gaps = [], []
        for layer in range(len(self.layers)):
            logits, chosen = self.routers[layer]
            ids.append(np.sort(chosen, axis=1))
            gaps.append([_gap(row, chosen.shape[1]) for row in logits])
        return np.stack(ids), np.array(gaps, np.float32)

    def blocks(self, length: int) -> tuple[Ints, Floats]:
        """Chosen blocks, ascending, -1 pads [Q, T, K_b], and gaps of the scores."""
        budget = self.config.indexer_budget // self.config.indexer_compress_ratio
        ids = np.full((len(self.rows), length, budget), -1, np.int64)
        gaps = np.full((len(self.rows), length), np.inf, np.float32)
        for q, layer in enumerate(sorted(self.rows)):
            first = length - len(self.rows[layer])  # rows before it have no block yet
            for row, (scores, chosen) in enumerate(self.rows[layer], start=first):
                ids[q, row, : len(chosen)] = np.sort(chosen)
                gaps[q, row] = _gap(scores, budget)
        return ids, gaps


def _gap(scores: Floats, k: int) -> float:
    """The k-th highest score less the next; infinite when there is no next."""
    if len(scores) <= k:
        return float("inf")
    ordered = np.sort(scores)[::-1]
    return float(ordered[k - 1]) - float(ordered[k])


def answer(model: Any, ids: Ints) -> tuple[Answer, Floats, Floats]:
    """One pass over `ids`: the answer, expert gaps [L, T], block gaps [Q, T]."""
    recorder = Recorder(model)
    with torch.no_grad(), recorder.recording():
        logits = model(input_ids=torch.tensor(ids)[None], use_cache=False).logits[0]
    experts, expert_gaps = recorder.experts()
    blocks, block_gaps = recorder.blocks(len(ids))
    return Answer(logits.numpy(), experts, blocks), expert_gaps, block_gaps


def golden(model: Any, ids: Ints, *, stride: int, weights: str) -> Golden:
    """The reference's answer in the form that is stored."""
    found, expert_gaps, block_gaps = answer(model, ids)
    kinds = model.config.layer_types
    return Golden(
        ids=ids,
        stride=stride,
        logits=thin(found.logits, stride),
        experts=found.experts,
        expert_gaps=expert_gaps,
        blocks=found.blocks,
        block_gaps=block_gaps,
        indexed=np.flatnonzero([kind == "indexed_attention" for kind in kinds]),
        weights=weights,
    )
