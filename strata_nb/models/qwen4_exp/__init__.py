"""The `qwen4_exp` family: delta nets, block-indexed attention, n-grams, experts."""

from strata_nb.models.qwen4_exp.backend import Forward, Qwen4Exp, State
from strata_nb.models.qwen4_exp.experts import ResidentExperts, SlotExperts
from strata_nb.models.qwen4_exp.imposed import NOTHING, Imposed
from strata_nb.models.qwen4_exp.options import EngineOptions, Fold, Vary, as_built
from strata_nb.models.qwen4_exp.qsa import PAGE_BLOCKS
from strata_nb.models.qwen4_exp.weights import Weights

__all__ = [
    "NOTHING",
    "PAGE_BLOCKS",
    "EngineOptions",
    "Fold",
    "Forward",
    "Imposed",
    "Qwen4Exp",
    "ResidentExperts",
    "SlotExperts",
    "State",
    "Vary",
    "Weights",
    "as_built",
]
