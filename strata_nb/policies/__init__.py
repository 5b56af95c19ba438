"""What an engine lets others decide, one file a slot; exact unless asked otherwise."""

from strata_nb.policies.accept_moe import AcceptMoe, committed_shares
from strata_nb.policies.acceptance import Acceptance
from strata_nb.policies.controllers import BestRatio, Marginal, Purse
from strata_nb.policies.costs import Cost, Costs, CostTable
from strata_nb.policies.cutoff import CutOff, cutoff_layers, load_ms
from strata_nb.policies.evict import Evict
from strata_nb.policies.governor import Governor, Profile
from strata_nb.policies.hard_budget import HardBudget
from strata_nb.policies.history import History, recorded
from strata_nb.policies.length import (
    CONTAINED,
    FREE,
    Contained,
    Fixed,
    Free,
    Length,
    Offer,
    Paid,
)
from strata_nb.policies.lookahead import (
    Farthest,
    FromDraft,
    Lookahead,
    Phases,
    SpMoe,
    reduced,
)
from strata_nb.policies.moce import Moce
from strata_nb.policies.moe_spec import MoeSpec
from strata_nb.policies.pinning import HotTemporal
from strata_nb.policies.prefetch import (
    NO_PREFETCH,
    Ahead,
    NoPrefetch,
    Now,
    Prefetch,
    Task,
)
from strata_nb.policies.residency import Held, LeastStale, Lfu, Lru, Residency
from strata_nb.policies.roofline import Operators, Roofline
from strata_nb.policies.routes import Routes
from strata_nb.policies.routing import (
    NATURAL,
    Chosen,
    FewerExperts,
    Natural,
    Routing,
    Seen,
    sees_whole_window,
)
from strata_nb.policies.select import EcoSpec, Likeliest, Select
from strata_nb.policies.skip_tail import SkipTail, calibrated

__all__ = [
    "CONTAINED",
    "FREE",
    "NATURAL",
    "NO_PREFETCH",
    "AcceptMoe",
    "Acceptance",
    "Ahead",
    "BestRatio",
    "Chosen",
    "Contained",
    "Cost",
    "CostTable",
    "Costs",
    "CutOff",
    "EcoSpec",
    "Evict",
    "Farthest",
    "FewerExperts",
    "Fixed",
    "Free",
    "FromDraft",
    "Governor",
    "HardBudget",
    "Held",
    "History",
    "HotTemporal",
    "LeastStale",
    "Length",
    "Lfu",
    "Likeliest",
    "Lookahead",
    "Lru",
    "Marginal",
    "Moce",
    "MoeSpec",
    "Natural",
    "NoPrefetch",
    "Now",
    "Offer",
    "Operators",
    "Paid",
    "Phases",
    "Prefetch",
    "Profile",
    "Purse",
    "Residency",
    "Roofline",
    "Routes",
    "Routing",
    "Seen",
    "Select",
    "SkipTail",
    "SpMoe",
    "Task",
    "calibrated",
    "committed_shares",
    "cutoff_layers",
    "load_ms",
    "recorded",
    "reduced",
    "sees_whole_window",
]
