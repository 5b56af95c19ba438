"""The ways to decode that `strata-nb bench policies` sets side by side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from strata_nb.draft import Drafter, Hybrid, MtpDrafter, SuffixLookup, SuffixTrees
from strata_nb.policies import (
    AcceptMoe,
    BestRatio,
    Evict,
    FewerExperts,
    Fixed,
    Governor,
    HardBudget,
    Length,
    Marginal,
    Moce,
    MoeSpec,
    Roofline,
)
from strata_nb.policies.routing import Routing
from strata_nb.sampling import GREEDY, RECOMMENDED, Sampling

SAMPLINGS: Mapping[str, Sampling] = MappingProxyType(
    {
        "greedy": GREEDY,
        "equality": RECOMMENDED,
        "ratio": replace(RECOMMENDED, rule="ratio"),
    }
)
"""By name: greedy, and the advised sampling under each of its two rules."""

PLAIN = "no drafts"


@dataclass(frozen=True)
class Arm:
    """One way to decode that leaves the text, or its law, as it is.

    Attributes:
        name: in the table.
        drafter: makes the drafter of a session for a sampling, or None.
        length: makes its length policy, one for all of a case's prompts; None: free.
        preset: of the session, or None.
        greedy_only: it is for greedy decoding alone.
    """

    name: str
    drafter: Callable[[Sampling], Drafter] | None = None
    length: Callable[[], Length] | None = None
    preset: str | None = None
    greedy_only: bool = False


def lookup(_: Sampling) -> Drafter:
    """The lookup that offers all it has: how much is taken is the policy's."""
    return SuffixLookup(minimum=2, most=7)


def _trees(_: Sampling) -> Drafter:
    return SuffixTrees()


def _head(sampling: Sampling) -> Drafter:
    # Drafts of certain tokens go with equality; the ratio rule wants them drawn.
    drawn = sampling.temperature > 0 and sampling.rule == "ratio"
    return MtpDrafter(depth=2, sampling=sampling if drawn else GREEDY)


def _hybrid(sampling: Sampling) -> Drafter:
    return Hybrid(SuffixLookup(most=7), _head(sampling))


CONTROLLERS: Mapping[str, Callable[[], Length]] = MappingProxyType(
    {
        "best ratio": BestRatio,
        "marginal": Marginal,
        "evict": Evict,
        "governor": Governor,
        "roofline": Roofline,
    }
)
"""Length policies that look at a draft and learn; by name."""


def _fixed(rows: int) -> Callable[[], Length]:
    return lambda: Fixed(rows)


ARMS: tuple[Arm, ...] = (
    Arm(PLAIN),
    Arm("seed_stage1", preset="seed_stage1", greedy_only=True),
    *(Arm(f"lookup, T = {n}", lookup, _fixed(n)) for n in (2, 3, 4, 6, 8)),
    *(Arm(f"lookup, {name}", lookup, make) for name, make in CONTROLLERS.items()),
    Arm("suffix trees", _trees),
    Arm("suffix trees, best ratio", _trees, BestRatio),
    Arm("head", _head),
    Arm("head, best ratio", _head, BestRatio),
    Arm("hybrid", _hybrid),
    Arm("hybrid, best ratio", _hybrid, BestRatio),
)
"""The first is what the others are compared with."""

QUICK = (PLAIN, "lookup, T = 4", "lookup, best ratio")
"""Arms of `--quick`."""

_PHAT = tuple(0.8**place for place in range(8))

ROUTINGS: tuple[Routing, ...] = (
    FewerExperts(),
    Moce(),
    Moce(draft_protect=1, draft_bonus=1.2),
    HardBudget(),
    MoeSpec(16),
    MoeSpec(32),
    AcceptMoe(_PHAT),
)
"""Approximate: which experts a row uses; never in one table with the others."""
