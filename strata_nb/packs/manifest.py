"""Which tensors a configuration asks for, and whether the headers offer just those.

Everything here works on names, types and shapes: no tensor data is read, and no size
from a configuration is allocated. Names are canonical: without the prefix.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from strata_nb.errors import CheckpointError
from strata_nb.packs.config import INDEXED, LINEAR, ModelConfig
from strata_nb.packs.json_file import quote
from strata_nb.packs.ple import PleConstants
from strata_nb.packs.safetensors_file import Entry

Shape = tuple[int, ...]
Wanted = Iterator[tuple[str, Shape]]
FLOATS = ("F32", "BF16", "F16")
HEAD = "mtp."
"""In front of every name of the draft head."""
PLE_CONSTANTS = (
    "layer_multipliers",
    "ngram_heads_vocab_sizes",
    "ngram_heads_offsets",
)
_SHARD = re.compile(r"\.ngram_embedding\.shard_(0|[1-9][0-9]{0,8})\.weight$")
_NAMED = 5  # names that a message lists before it only counts


@dataclass(frozen=True)
class Layout:
    """In which of the permitted forms a checkpoint holds its parts."""

    dtype: str  # of its floats, as the file spells it
    fused: tuple[bool, ...]  # per layer: experts in one tensor
    tables: tuple[tuple[str, ...], ...]  # per PLE module: its shards' names in order


def check_manifest(
    config: ModelConfig,
    entries: Mapping[str, Entry],
    constants: tuple[PleConstants, ...],
) -> Layout:
    """Compare what is wanted with what is there.

    Args:
        config: of the checkpoint.
        entries: every tensor by canonical name, those of `mtp.` under their own.
        constants: of every PLE module, for the lengths of the tables.

    Raises:
        CheckpointError: a tensor is missing, unknown, or of another shape or type.
    """
    fused = tuple(_is_fused(config, i, entries) for i in range(len(config.layer_types)))
    tables = tuple(
        _table_names(f"layers.{layer}", entries) for layer in config.ple_layers
    )
    seen: set[str] = set()
    _check_present(_wanted(config, fused), entries, seen)
    for names, module in zip(tables, constants, strict=True):
        _check_table(names, entries, module.table_rows, config)
        seen.update(names)
    _check_extra(entries, seen, config)
    return Layout(_check_dtypes(entries, seen), fused, tables)


def tensor_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Every tensor of a checkpoint with fused experts by canonical name, but tables."""
    return dict(_wanted(config, (True,) * config.num_hidden_layers))


def table_stem(layer: int) -> str:
    """The canonical name in front of a PLE module's constants and table."""
    return f"layers.{layer}.ple.ple_embedding"


def layer_stem(layer: int | None) -> str:
    """The canonical name in front of a layer's tensors; None: the draft head's."""
    return f"{HEAD}layers.0" if layer is None else f"layers.{layer}"


def expert_names(layer: int | None, expert: int) -> tuple[str, str, str]:
    """Gate, up and down of one expert in the form of one tensor each."""
    stem = f"{layer_stem(layer)}.mlp.experts.{expert}"
    return (
        f"{stem}.gate_proj.weight",
        f"{stem}.up_proj.weight",
        f"{stem}.down_proj.weight",
    )


def fused_names(layer: int | None) -> tuple[str, str]:
    """Gate-and-up and down of all experts in the fused form."""
    stem = f"{layer_stem(layer)}.mlp.experts"
    return f"{stem}.gate_up_proj", f"{stem}.down_proj"


# ---------------------------------------------------------------- what is wanted


def _wanted(config: ModelConfig, fused: tuple[bool, ...]) -> Wanted:
    """Every name and shape but the tables, one by one."""
    c = config
    yield "embed_tokens.weight", (c.vocab_size, c.hidden_size)
    if not c.tie_word_embeddings:
        yield "lm_head.weight", (c.vocab_size, c.hidden_size)
    yield from _mixer(c, "hyper_connection_mixer")
    for i, kind in enumerate(c.layer_types):
        yield from _layer(c, i, kind, fused[i])
        if i in c.ple_layers:
            yield from _ple(c, i)


def _layer(c: ModelConfig, layer: int | None, kind: str, fused: bool) -> Wanted:
    stem = layer_stem(layer)
    for half in ("attn", "mlp"):
        name = f"{stem}.{half}_hyper_connection"
        yield from _mixer(c, name)
        yield f"{name}.block_inject_weight.weight", (c.hc_count, c.wide_dim)
    yield from _linear(c, stem) if kind == LINEAR else _attention(c, stem)
    yield from _experts(c, layer, fused)


def wanted_head(config: ModelConfig, *, fused: bool) -> Wanted:
    """Names and shapes of the draft head: 31 with fused experts."""
    c, hidden = config, config.hidden_size
    yield f"{HEAD}pre_fc_norm_embedding.weight", (hidden,)
    yield f"{HEAD}pre_fc_norm_hidden.weight", (c.wide_dim,)
    for half in ("embedding", "hidden"):
        yield f"{HEAD}fc_{half}.weight", (hidden, hidden)
    yield from _layer(c, None, INDEXED, fused)
    yield from _mixer(c, f"{HEAD}hyper_connection_mixer")


def _mixer(c: ModelConfig, stem: str) -> Wanted:
    yield f"{stem}.hc_norm.weight", (c.wide_dim,)
    yield f"{stem}.input_mix_weight_down.weight", (c.hc_lowrank, c.wide_dim)
    yield f"{stem}.input_mix_weight_up.weight", (c.wide_dim, c.hc_lowrank)


def _linear(c: ModelConfig, layer: str) -> Wanted:
    stem, heads = f"{layer}.linear_attn", c.linear_num_value_heads
    yield f"{stem}.in_proj_qkv.weight", (c.conv_dim, c.hidden_size)
    yield f"{stem}.in_proj_z.weight", (c.value_dim, c.hidden_size)
    yield f"{stem}.in_proj_b.weight", (heads, c.hidden_size)
    yield f"{stem}.in_proj_a.weight", (heads, c.hidden_size)
    yield f"{stem}.out_proj.weight", (c.hidden_size, c.value_dim)
    yield f"{stem}.conv1d.weight", (c.conv_dim, 1, c.linear_conv_kernel_dim)
    yield f"{stem}.norm.weight", (c.linear_value_head_dim,)
    yield f"{stem}.dt_bias", (heads,)
    yield f"{stem}.A_log", (heads,)


def _attention(c: ModelConfig, layer: str) -> Wanted:
    stem, hidden = f"{layer}.self_attn", c.hidden_size
    queries = c.num_attention_heads * c.head_dim
    keys = c.num_key_value_heads * c.head_dim
    outputs = {"q_proj": 2 * queries, "k_proj": keys, "v_proj": keys, "o_proj": hidden}
    for name, rows in outputs.items():
        yield f"{stem}.{name}.weight", (rows, queries if name == "o_proj" else hidden)
        if c.attention_bias:
            yield f"{stem}.{name}.bias", (rows,)
    yield f"{stem}.q_norm.weight", (c.head_dim,)
    yield f"{stem}.k_norm.weight", (c.head_dim,)
    index_rows = (c.indexer_n_heads + 1) * c.indexer_head_dim
    yield f"{stem}.indexer.index_qk_proj.weight", (index_rows, hidden)
    yield f"{stem}.indexer.q_layernorm.weight", (c.indexer_head_dim,)
    yield f"{stem}.indexer.k_layernorm.weight", (c.indexer_head_dim,)


def _experts(c: ModelConfig, layer: int | None, fused: bool) -> Wanted:
    stem, hidden = f"{layer_stem(layer)}.mlp", c.hidden_size
    inner, shared = c.moe_intermediate_size, c.shared_expert_intermediate_size
    yield f"{stem}.gate.weight", (c.num_experts, hidden)
    yield f"{stem}.shared_expert.gate_proj.weight", (shared, hidden)
    yield f"{stem}.shared_expert.up_proj.weight", (shared, hidden)
    yield f"{stem}.shared_expert.down_proj.weight", (hidden, shared)
    yield f"{stem}.shared_expert_gate.weight", (1, hidden)
    if fused:
        gate_up, down = fused_names(layer)
        yield gate_up, (c.num_experts, 2 * inner, hidden)
        yield down, (c.num_experts, hidden, inner)
        return
    for expert in range(c.num_experts):
        gate, up, down = expert_names(layer, expert)
        yield gate, (inner, hidden)
        yield up, (inner, hidden)
        yield down, (hidden, inner)


def _ple(c: ModelConfig, layer: int) -> Wanted:
    stem = f"layers.{layer}.ple"
    yield f"{stem}.key_proj.weight", (c.wide_dim, c.ple_embed_dim)
    yield f"{stem}.value_proj.weight", (c.hidden_size, c.ple_embed_dim)
    for norm in ("norm_key", "norm_query", "norm_conv"):
        yield f"{stem}.{norm}.weight", (c.wide_dim,)
    yield f"{stem}.conv1d.weight", (c.wide_dim, 1, c.ple_conv_kernel_size)
    lengths = (c.ngram_size, c.ngram_heads, c.ngram_heads)
    for name, length in zip(PLE_CONSTANTS, lengths, strict=True):
        yield f"{table_stem(layer)}.{name}", (length,)


# ---------------------------------------------------------------- what is there


def _is_fused(config: ModelConfig, layer: int, entries: Mapping[str, Entry]) -> bool:
    fused = [name for name in fused_names(layer) if name in entries]
    single = [name for name in expert_names(layer, 0) if name in entries]
    if fused and single:
        raise CheckpointError(
            f"the experts of layer {layer} are there twice, as {quote(fused[0])} and "
            f"as {quote(single[0])}; wanted one form, so remove the other"
        )
    return bool(fused)


def _table_names(layer: str, entries: Mapping[str, Entry]) -> tuple[str, ...]:
    """The tensors of one table in the order of their rows: by number, not by name."""
    stem = f"{layer}.ple.ple_embedding.ngram_embedding"
    shards: dict[int, str] = {}
    for name in entries:
        if name.startswith(stem) and (match := _SHARD.search(name)):
            shards[int(match[1])] = name
    whole = f"{stem}.weight"
    if whole in entries and shards:
        raise CheckpointError(
            f"the table {quote(whole)} is there whole and in {len(shards)} shards; "
            "wanted one form, so remove the other"
        )
    if whole in entries:
        return (whole,)
    if not shards:
        raise CheckpointError(
            f"tensor {quote(whole)} is missing, whole and in shards; "
            "download the checkpoint again"
        )
    for number in range(len(shards)):
        if number not in shards:
            raise CheckpointError(
                f"tensor {quote(f'{stem}.shard_{number}.weight')} is missing, but "
                f"{quote(shards[max(shards)])} is there; download the checkpoint again"
            )
    return tuple(shards[number] for number in range(len(shards)))


def _check_present(
    wanted: Wanted, entries: Mapping[str, Entry], seen: set[str]
) -> None:
    """Check names and shapes; puts each name found into `seen`.

    Stops looking soon after the first missing names: a configuration may ask for more
    of them than memory holds.
    """
    missing: list[str] = []
    for name, shape in wanted:
        entry = entries.get(name)
        if entry is None:
            missing.append(name)
            if len(missing) > _NAMED:
                break
            continue
        _check_shape(name, entry, shape)
        seen.add(name)
    if missing:
        raise CheckpointError(
            f"missing {_listing(missing)}; wanted by config.json, so download the "
            "checkpoint again or correct the configuration"
        )


def _check_shape(name: str, entry: Entry, shape: Shape) -> None:
    if entry.shape != shape:
        raise CheckpointError(
            f"tensor {quote(name)} wants shape {list(shape)} by config.json, got "
            f"{list(entry.shape)}; the two belong to different checkpoints"
        )


def _check_table(
    names: tuple[str, ...], entries: Mapping[str, Entry], rows: int, config: ModelConfig
) -> None:
    """Check one table's width, and its length over all shards, however cut."""
    width, got = config.ngram_head_dim, 0
    for name in names:
        shape = entries[name].shape
        if len(shape) != 2 or shape[1] != width:
            raise CheckpointError(
                f"tensor {quote(name)} wants rows of {width} by config.json, got shape "
                f"{list(shape)}; the two belong to different checkpoints"
            )
        got += shape[0]
    if got != rows:
        raise CheckpointError(
            f"the table up to {quote(names[-1])} wants {rows} rows by config.json, got "
            f"{got} in {len(names)}; a shard is missing or of another checkpoint"
        )


def _check_extra(
    entries: Mapping[str, Entry], seen: set[str], config: ModelConfig
) -> None:
    extra = [name for name in entries if name not in seen and not is_draft_head(name)]
    if not extra:
        return
    reason = "remove it or correct the configuration"
    if "lm_head.weight" in extra and config.tie_word_embeddings:
        reason = "config.json ties the head to the embedding; remove one of the two"
    raise CheckpointError(f"not wanted by config.json: {_listing(extra)}; {reason}")


def is_draft_head(name: str) -> bool:
    """Whether a tensor belongs to the draft head, which has its own reader."""
    return name.startswith(HEAD)


def _check_dtypes(entries: Mapping[str, Entry], seen: set[str]) -> str:
    """Check that floats share one type and constants are int64; returns the former.

    Vectors (norms, biases, decays) may be float32 beside narrower matrices, as some
    writers keep them so.
    """
    dtype = entries["embed_tokens.weight"].dtype
    if dtype not in FLOATS:
        raise _dtype_error("embed_tokens.weight", f"one of {', '.join(FLOATS)}", dtype)
    for name in seen:
        entry = entries[name]
        if name.endswith(PLE_CONSTANTS):
            if entry.dtype != "I64":
                raise _dtype_error(name, "I64", entry.dtype)
        elif entry.dtype != dtype and (entry.dtype != "F32" or len(entry.shape) != 1):
            raise _dtype_error(name, f"{dtype} like `embed_tokens.weight`", entry.dtype)
    return dtype


def _dtype_error(name: str, wanted: str, got: str) -> CheckpointError:
    return CheckpointError(
        f"tensor {quote(name)} wants dtype {wanted}, got {got}; quantised and mixed "
        "checkpoints are not read, so use the unquantised one"
    )


def _listing(names: list[str]) -> str:
    shown = ", ".join(quote(name) for name in islice(names, _NAMED))
    more = len(names) - _NAMED
    return f"tensors {shown}" + (f" and {more} or more others" if more > 0 else "")
