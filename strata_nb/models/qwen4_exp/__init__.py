"""The `qwen4_exp` family: delta nets, block-indexed attention, n-grams, experts."""

from strata_nb.models.qwen4_exp.backend import Forward, Qwen4Exp, State
from strata_nb.models.qwen4_exp.options import EngineOptions, Fold
from strata_nb.models.qwen4_exp.weights import Weights

__all__ = ["EngineOptions", "Fold", "Forward", "Qwen4Exp", "State", "Weights"]
