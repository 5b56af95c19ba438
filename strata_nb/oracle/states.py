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
    head: Parts | None = None  # of the draft head, if there is one


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
        shapes = qsa_shapes(config, cells)
    if layer in config.ple_layers:
        rows = (config.ple_conv_kernel_size - 1) * config.ngram_size
        shapes["ple_conv.rows"] = (rows, config.wide_dim)  # normed
    return {name: np.zeros(shape) for name, shape in shapes.items()}


def qsa_shapes(
    config: ModelConfig, cells: int, *, first: int = 0
) -> dict[str, tuple[int, ...]]:
    """Shapes of attention over `cells` cells, the oldest at position `first`."""
    complete, tail = divmod(cells + first, config.indexer_compress_ratio)
    # keys roped; block keys normed and roped; the open block's index keys raw
    heads, dim = config.num_key_value_heads, config.head_dim
    return {
        "kv.k": (cells, heads, dim),
        "kv.v": (cells, heads, dim),
        "qsa_blocks.keys": (complete, config.indexer_head_dim),
        "qsa_tail.rows": (min(tail, cells), config.indexer_head_dim),
    }


def to_leaves(state: State) -> dict[Leaf, npt.NDArray[Any]]:
    """Copies of every live array of `state`."""
    leaves: dict[Leaf, npt.NDArray[Any]] = {
        _leaf(name, layer): array.copy()
        for layer, parts in [*enumerate(state.layers), (None, state.head or {})]
        for name, array in parts.items()
    }
    return leaves | ({_IDS: np.array(state.ids)} if state.ids else {})


def from_leaves(like: State, leaves: Leaves) -> State:
    """The state that has these leaves, shaped as those of `like`.

    Raises:
        SavedStateError: a leaf is missing, unknown, or not shaped as this model shapes
            it at that position.
    """
    wanted = {leaf: array.shape for leaf, array in to_leaves(like).items()}
    got = {leaf: array.shape for leaf, array in leaves.items()}
    for leaf in sorted(wanted.keys() | got.keys(), key=str):
        if wanted.get(leaf) != got.get(leaf):
            came = f"wanted shape {wanted.get(leaf)}, got {got.get(leaf)}"
            raise SavedStateError(f"{leaf} does not fit this model: {came}")

    def taken(parts: Parts, layer: int | None) -> Parts:
        return {x: leaves[_leaf(x, layer)].astype(np.float64) for x in parts}

    layers = tuple(taken(parts, layer) for layer, parts in enumerate(like.layers))
    head = None if like.head is None else taken(like.head, None)
    ids = tuple(leaves[_IDS].tolist()) if like.ids else ()
    return State(like.position, ids, layers, head)


def _leaf(name: str, layer: int | None) -> Leaf:
    part, field = name.split(".")
    return Leaf(part if layer is not None else f"mtp_{part}", layer, field)
