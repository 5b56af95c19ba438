"""Logits to a token: settings, laws, penalties, and the rules that choose."""

from strata_nb.sampling.adjust import (
    Adjustment,
    Bans,
    History,
    Processor,
    Processors,
    Remembers,
)
from strata_nb.sampling.budget import ThinkingBudget
from strata_nb.sampling.draws import Stream, draw, uniform
from strata_nb.sampling.law import law
from strata_nb.sampling.penalties import Penalties
from strata_nb.sampling.rules import EQUALITY, RATIO, Draws, SamplingRule
from strata_nb.sampling.sampler import Sampler
from strata_nb.sampling.settings import GREEDY, RECOMMENDED, Sampling

__all__ = [
    "EQUALITY",
    "GREEDY",
    "RATIO",
    "RECOMMENDED",
    "Adjustment",
    "Bans",
    "Draws",
    "History",
    "Penalties",
    "Processor",
    "Processors",
    "Remembers",
    "Sampler",
    "Sampling",
    "SamplingRule",
    "Stream",
    "ThinkingBudget",
    "draw",
    "law",
    "uniform",
]
