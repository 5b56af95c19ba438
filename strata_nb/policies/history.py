"""What a recorded run says a layer uses after the experts of the layer before."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from strata_nb.packs import ModelConfig
from strata_nb.policies.prefetch import Now, Task, by_demand
from strata_nb.trace import LayerRecord, WindowRecord


@dataclass(frozen=True, eq=False)
class History:
    """The next layer's experts, guessed from those that a layer was asked for.

    For each expert of a row: how often, in the record, a row that used it went on to
    each expert of the next layer; these shares are summed over the row's experts. No
    router is asked. Made by `recorded`.

    Attributes:
        shares: [L - 1, E, E]; of the recorded rows that used an expert of a layer, the
            share that used each expert of the next one. 0 after what nobody used.
        root_only: only row 0 counts, as in `Ahead`.
    """

    shares: npt.NDArray[np.float32]
    root_only: bool = False

    @property
    def name(self) -> str:
        """For records and reports."""
        return f"{'root ' if self.root_only else ''}history"

    def asks(self, layer: int, *, layers: int) -> Sequence[int]:
        """None."""
        return ()

    def tasks(self, now: Now) -> Sequence[Task]:
        """Each row's likeliest experts of the next layer, merged.

        Raises:
            ValueError: it was recorded with a model of another shape.
        """
        before, experts, _ = self.shares.shape
        if (before + 1, experts) != (now.layers, now.experts):
            raise ValueError(
                f"the history is of {before + 1} layers with {experts} experts, this "
                f"model has {now.layers} with {now.experts}; record a trace of it"
            )
        if now.layer >= before:
            return ()
        chosen = now.chosen[: 1 if self.root_only else None]
        likely = _used(chosen, experts) @ self.shares[now.layer]
        return [(now.layer + 1, by_demand(likely, top_k=chosen.shape[1]))]


def recorded(
    trace: Iterable[WindowRecord], config: ModelConfig, *, root_only: bool = False
) -> History:
    """What `trace` says each layer uses after the layer before.

    All its rows count, those of prompts and of rejected drafts too: their experts are
    read like those of any row.

    Args:
        trace: windows of a model with this architecture.
        config: the architecture of the model that will be computed.
        root_only: only row 0 of a window is guessed for.

    Raises:
        ValueError: the trace is empty, or of a model with other layers or experts.
    """
    layers, experts = config.num_hidden_layers, config.num_experts
    counts = np.zeros((layers - 1, experts, experts), np.float32)
    uses = np.zeros((layers - 1, experts, 1), np.float32)
    windows = 0
    for windows, record in enumerate(trace, 1):
        used = [
            _used(one.expert_ids, experts) for one in _checked(record, windows, config)
        ]
        for layer in range(layers - 1):
            counts[layer] += used[layer].T @ used[layer + 1]
            uses[layer] += used[layer].sum(axis=0)[:, None]
    if not windows:
        raise ValueError("`trace` has no windows; record some first")
    return History((counts / np.maximum(uses, 1)).astype(np.float32), root_only)


def _used(ids: npt.NDArray[np.integer[Any]], experts: int) -> npt.NDArray[np.float32]:
    """1 where a row uses an expert, once however often it is named; [T, E]."""
    rows, places = np.nonzero(ids >= 0)
    used = np.zeros((len(ids), experts), np.float32)
    used[rows, ids[rows, places]] = 1
    return used


def _checked(
    record: WindowRecord, number: int, config: ModelConfig
) -> Iterator[LayerRecord]:
    """The layers of a window that this model could have computed."""
    layers, top_k = config.num_hidden_layers, config.num_experts_per_tok
    if [one.layer for one in record.layers] != list(range(layers)):
        raise ValueError(
            f"window {number} of `trace` has experts in {len(record.layers)} layers, "
            f"this model in layers 0 to {layers - 1}; record a trace of this model"
        )
    for one in record.layers:
        ids = one.expert_ids
        if ids.shape[1] > top_k or ids.max(initial=-1) >= config.num_experts:
            raise ValueError(
                f"window {number}, layer {one.layer} of `trace` has {ids.shape[1]} "
                f"experts a row up to number {ids.max(initial=-1)}, this model "
                f"{top_k} of {config.num_experts}; record a trace of this model"
            )
        yield one
