"""What a sequence owns (spec 9), as values: a row makes a new state, alters none."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strata_nb.errors import SavedStateError
from strata_nb.oracle.maths import Array
from strata_nb.packs import ModelConfig
from strata_nb.trace import Leaf

Parts = dict[str, Array]  # the arrays of one layer by "part.field", never altered
Leaves = Mapping[Leaf, npt.NDArray[Any]]
_IDS = Leaf("ple_tokens", None, "ids")


class State(NamedTuple):
    """The cells so far, the last N - 1 ids (none without PLE), each layer's parts."""

    position: int
    ids: tuple[int, ...]
    layers: tuple[Parts, ...]


def zeros(config: ModelConfig, cells: int) -> State:
    """Zeros shaped as after `cells` tokens, and eos ids: with 0 the initial state."""
    ids: tuple[int, ...] = ()
    if config.ple_layers and config.eos_token_id is not None:
        ids = (config.eos_token_id,) * (config.ngram_size - 1)
    layers = range(config.num_hidden_layers)
    parts = tuple(_layer_zeros(config, layer, cells) for layer in layers)
    return State(cells, ids, parts)


def _layer_zeros(config: ModelConfig, layer: int, cells: int) -> Parts:
    shapes: dict[str, tuple[int, ...]] = {}
    if config.layer_types[layer] == "linear_attention":
        heads, dv = config.linear_num_value_heads, config.linear_value_head_dim
        shapes["gdn_state.S"] = (heads, dv, config.linear_key_head_dim)
        # rows before the convolution and its silu
        shapes["gdn_conv.rows"] = (config.linear_conv_kernel_dim - 1, config.conv_dim)
    else:
        complete, tail = divmod(cells, config.indexer_compress_ratio)
        # keys roped; block keys normed and roped; the open block's index keys raw
        heads, dim = config.num_key_value_heads, config.head_dim
        shapes["kv.k"] = shapes["kv.v"] = (cells, heads, dim)
        shapes["qsa_blocks.keys"] = (complete, config.indexer_head_dim)
        shapes["qsa_tail.rows"] = (tail, config.indexer_head_dim)
    if layer in config.ple_layers:
        rows = (config.ple_conv_kernel_size - 1) * config.ngram_size
        shapes["ple_conv.rows"] = (rows, config.wide_dim)  # normed
    return {name: np.zeros(shape) for name, shape in shapes.items()}


def to_leaves(state: State) -> dict[Leaf, npt.NDArray[Any]]:
    """Copies of every live array of `state`."""
    leaves: dict[Leaf, npt.NDArray[Any]] = {
        _leaf(name, layer): array.copy()
        for layer, parts in enumerate(state.layers)
        for name, array in parts.items()
    }
    return leaves | ({_IDS: np.array(state.ids)} if state.ids else {})


def from_leaves(config: ModelConfig, leaves: Leaves, position: int) -> State:
    """The state of `position` cells that has these leaves.

    Raises:
        SavedStateError: a leaf is missing, unknown, or not shaped as this model shapes
            it at that position.
    """
    like = zeros(config, position)
    wanted = {leaf: array.shape for leaf, array in to_leaves(like).items()}
    got = {leaf: array.shape for leaf, array in leaves.items()}
    for leaf in sorted(wanted.keys() | got.keys(), key=str):
        if wanted.get(leaf) != got.get(leaf):
            came = f"wanted shape {wanted.get(leaf)}, got {got.get(leaf)}"
            raise SavedStateError(f"{leaf} does not fit this model: {came}")
    layers = tuple(
        {name: leaves[_leaf(name, layer)].astype(np.float64) for name in parts}
        for layer, parts in enumerate(like.layers)
    )
    return State(position, tuple(leaves[_IDS].tolist()) if like.ids else (), layers)


def _leaf(name: str, layer: int) -> Leaf:
    part, field = name.split(".")
    return Leaf(part, layer, field)
