"""The kinds of state a sequence owns; each file holds one kind and its four verbs."""

from strata_nb.parts.behind import Behind, PendingBehind
from strata_nb.parts.cells import Cells
from strata_nb.parts.gdn_state import DeltaRows, GdnState, Memory
from strata_nb.parts.history import RowHistory
from strata_nb.parts.kv import KV_KINDS, KeyValues, KvKind, KvView
from strata_nb.parts.pairs import Pairs, PendingPairs, Unread
from strata_nb.parts.part import Part, digest_leaves, numpy_leaf
from strata_nb.parts.ple_tokens import PleTokens
from strata_nb.parts.qsa_blocks import QsaBlocks
from strata_nb.parts.qsa_tail import QsaTail
from strata_nb.parts.wide_row import WideRow

__all__ = [
    "KV_KINDS",
    "Behind",
    "Cells",
    "DeltaRows",
    "GdnState",
    "KeyValues",
    "KvKind",
    "KvView",
    "Memory",
    "Pairs",
    "Part",
    "PendingBehind",
    "PendingPairs",
    "PleTokens",
    "QsaBlocks",
    "QsaTail",
    "RowHistory",
    "Unread",
    "WideRow",
    "digest_leaves",
    "numpy_leaf",
]
