"""Drafters: they read the history and guess what comes next.

One of your own is ten lines; a session takes anything that has these four:

    class Echo:
        name = "echo"

        def assign(self, tokens):
            self.last = tokens[-1:]

        def append(self, tokens):
            self.last = tokens[-1:] or self.last

        def propose(self, most):
            return Draft(tuple(self.last[:most]))
"""

from strata_nb.draft.head import Cut, Drafted, Mtp
from strata_nb.draft.hybrid import Hybrid
from strata_nb.draft.lookup import SuffixLookup
from strata_nb.draft.mtp import MtpDrafter
from strata_nb.draft.prices import Given, Timed
from strata_nb.draft.protocol import (
    NO_DRAFT,
    Draft,
    Drafter,
    chosen_of,
    follow,
    head_for,
    history_of,
    tell_routes,
)
from strata_nb.draft.sampled import Sampled
from strata_nb.draft.selecting import Selecting
from strata_nb.draft.self_draft import MoeSpeq, SelfDrafter, SpecMoe
from strata_nb.draft.simple import Adversary, Constant, Perfect, Typed
from strata_nb.draft.suffix_tree import SuffixTree
from strata_nb.draft.trees import SuffixTrees

__all__ = [
    "NO_DRAFT",
    "Adversary",
    "Constant",
    "Cut",
    "Draft",
    "Drafted",
    "Drafter",
    "Given",
    "Hybrid",
    "MoeSpeq",
    "Mtp",
    "MtpDrafter",
    "Perfect",
    "Sampled",
    "Selecting",
    "SelfDrafter",
    "SpecMoe",
    "SuffixLookup",
    "SuffixTree",
    "SuffixTrees",
    "Timed",
    "Typed",
    "chosen_of",
    "follow",
    "head_for",
    "history_of",
    "tell_routes",
]
