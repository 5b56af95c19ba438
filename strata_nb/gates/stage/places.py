"""Where windows start: below, at and above the sparse threshold, at every residue."""

from strata_nb.faults import Defect, Fault
from strata_nb.models.qwen4_exp import PAGE_BLOCKS
from strata_nb.packs import ModelConfig

CONTEXTS = ("below", "at", "above", "page")

LONGEST = 32
"""Cells that a case adds to its start at most."""


def threshold(config: ModelConfig) -> int:
    """Cells up to which attention sees everything: budget + R - 1."""
    return config.indexer_budget + config.indexer_compress_ratio - 1


def start_of(config: ModelConfig, context: str, residue: int) -> int:
    """The first cell of a window; `residue` is that cell modulo R.

    Args:
        config: gives R and the budget.
        context: "below": all rows of a window see everything; "at": the window lies
            across the threshold; "above": every row has to choose; "page": a page of
            K and V, and one of block keys, is full within the window.
        residue: 0 to R - 1.
    """
    ratio = config.indexer_compress_ratio
    budget = config.indexer_budget // ratio * ratio
    base = {
        "below": min(5, max(1, budget // ratio - 4)) * ratio,
        "at": budget,
        "above": budget + 4 * ratio,
        "page": (PAGE_BLOCKS - 1) * ratio,
    }[context]
    return base + residue


def needed(config: ModelConfig) -> int:
    """Positions that a model must have for the gates to look everywhere."""
    starts = [start_of(config, context, 0) for context in CONTEXTS]
    most = max(*starts, threshold(config) + 64)
    return most + config.indexer_compress_ratio + LONGEST


def parts_of(config: ModelConfig) -> tuple[str, ...]:
    """Kinds of state that a model of this architecture has, and that can hold anything.

    A convolution of one tap looks back on nothing, a block of one cell is never open.
    """
    kinds, head = set(config.layer_types), config.has_head
    there = {
        "ple_tokens": bool(config.ple_layers),
        "ple_conv": bool(config.ple_layers) and config.ple_conv_kernel_size > 1,
        "gdn_conv": "linear_attention" in kinds and config.linear_conv_kernel_dim > 1,
        "gdn_state": "linear_attention" in kinds,
        "kv": "indexed_attention" in kinds,
        "qsa_tail": "indexed_attention" in kinds and config.indexer_compress_ratio > 1,
        "qsa_blocks": "indexed_attention" in kinds,
        "mtp_row": head,
        "mtp_kv": head,
        "mtp_qsa_tail": head and config.indexer_compress_ratio > 1,
        "mtp_qsa_blocks": head,
    }
    return tuple(part for part, is_there in there.items() if is_there)


def can_be_made(fault: Defect, config: ModelConfig) -> bool:
    """Whether a model has the part that `fault` is of, in the kind it needs."""
    if not isinstance(fault, Fault):
        return True
    # 8-bit groups have 32 features at least.
    in_bits = fault.options.get("kv") != "int8" or config.head_dim % 32 == 0
    return fault.part in parts_of(config) and in_bits
