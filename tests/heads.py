"""Small random models that have a draft head: names and shapes written a second time.

Apart from the package that reads them, as `tiny` is.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import tiny
from strata_nb.oracle import HeadOracle, OracleBackend
from strata_nb.oracle.states import State

Floats = npt.NDArray[np.float64]


def head_shapes(c: tiny.Config) -> tiny.Shapes:
    """Names and shapes of the tensors `mtp.*`: 31, and biases where the target has."""
    hidden, streams, rank = c["hidden_size"], c["hc_count"], c["hc_lowrank"]
    wide = streams * hidden
    yield "mtp.pre_fc_norm_embedding.weight", (hidden,)
    yield "mtp.pre_fc_norm_hidden.weight", (wide,)
    yield "mtp.fc_embedding.weight", (hidden, hidden)
    yield "mtp.fc_hidden.weight", (hidden, hidden)
    layer = "mtp.layers.0"
    mixers = [f"{layer}.{half}_hyper_connection" for half in ("attn", "mlp")]
    for stem in ("mtp.hyper_connection_mixer", *mixers):
        yield f"{stem}.hc_norm.weight", (wide,)
        yield f"{stem}.input_mix_weight_down.weight", (rank, wide)
        yield f"{stem}.input_mix_weight_up.weight", (wide, rank)
    for stem in mixers:
        yield f"{stem}.block_inject_weight.weight", (streams, wide)
    # A layer of the target's own kind: a model of one indexed layer has its shapes.
    one = c | {"layer_types": ["indexed_attention"], "ple_layer_ids": []}
    for name, shape in tiny.shapes(one):
        if name.startswith(("layers.0.self_attn.", "layers.0.mlp.")):
            yield f"mtp.{name}", shape


def head_tensors(config: tiny.Config, seed: int) -> tiny.Tensors:
    """The tensors `mtp.*`, float32, experts fused."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in sorted(head_shapes(config)):
        x = rng.standard_normal(shape)
        if len(shape) == 1:
            x = 0.3 * x
        elif name.endswith("mlp.gate.weight"):
            # Apart enough that rounding flips no expert.
            x = x * 3.0 / np.sqrt(shape[-1])
        else:
            x = x / np.sqrt(shape[-1])
        found[name] = x.astype(np.float32)
    return found


def write_with_head(
    folder: Path,
    config: tiny.Config,
    seed: int,
    *,
    without: tuple[str, ...] = (),
    per_expert: bool = False,
) -> Path:
    """Write the checkpoint that `tiny.write_checkpoint` writes, and its draft head.

    Args:
        folder: made when absent.
        config: of the target.
        seed: of the target's weights, and of the head's.
        without: tensors of the head to leave out.
        per_expert: one tensor for each expert of the head; else fused.
    """
    tiny.write_checkpoint(folder, config, seed)
    stored = {
        name if name.startswith("lm_head") else f"model.{name}": array
        for name, array in tiny.tensors(config, seed).items()
    }
    for name, array in head_tensors(config, seed + 1000).items():
        if name in without:
            continue
        if not per_expert or ".experts." not in name:
            stored[name] = array
            continue
        stem, kind = name.rsplit(".", 1)
        for e, matrix in enumerate(array):
            if kind == "down_proj":
                stored[f"{stem}.{e}.down_proj.weight"] = matrix
            else:
                gate, up = np.split(matrix, 2)
                stored[f"{stem}.{e}.gate_proj.weight"] = gate
                stored[f"{stem}.{e}.up_proj.weight"] = up
    tiny.write_files(folder, stored)
    return folder


def random_ids(oracle: OracleBackend, count: int, *, seed: int = 1) -> list[int]:
    rng = np.random.default_rng(seed)
    return [int(token) for token in rng.integers(0, oracle.config.vocab_size, count)]


def after(oracle: OracleBackend, ids: Sequence[int]) -> State:
    """The state of plain decoding: one row a window."""
    state = oracle.initial()
    for token in ids:
        forward = oracle.run(state, [token], head=False)
        state = oracle.commit(state, forward.pending, 1)
    return state


def drafted(
    oracle: HeadOracle, state: State, root: int, *, depth: int = 1
) -> tuple[Floats, list[int]]:
    """Logits [depth, V] of a chain of the best drafts, and these."""
    rows: list[Floats] = []
    tokens, chain = [root], None
    while len(rows) < depth:
        logits, chain = oracle.draft(state, tokens[-1], chain, None)
        rows.append(logits)
        tokens.append(int(logits.argmax()))
    return np.stack(rows), tokens[1:]
