"""The ways to decode that `strata-nb bench policies` sets side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from strata_nb.draft import (
    Drafter,
    Hybrid,
    MoeSpeq,
    MtpDrafter,
    Selecting,
    SpecMoe,
    SuffixLookup,
    SuffixTrees,
)
from strata_nb.model import Model
from strata_nb.policies import (
    AcceptMoe,
    BestRatio,
    EcoSpec,
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
    SkipTail,
    SpMoe,
    calibrated,
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

PINNED = 16
"""Experts of a layer that SpecMoE drafts with: half of the slots that there are."""
DEPTH = 3
"""Tokens that the target drafts for itself: each takes a row of it."""
AHEAD = 4
"""Layers that SP-MoE reads ahead for: half of those of the bundled model."""


@dataclass(frozen=True)
class Arm:
    """One way to decode that leaves the text, or its law, as it is.

    Attributes:
        name: in the table.
        drafter: makes the drafter of a session for a sampling, or None.
        length: makes its length policy, one for all of a case's prompts; None: free.
        preset: of the session, or None.
        greedy_only: it is for greedy decoding alone.
        once: one drafter answers all prompts of a case: what it learns or builds stays.
        what: whose idea it is and in which slot. All are lossless: under greedy and
            equality the tokens are those without drafts, under ratio their law is.
    """

    name: str
    drafter: Callable[[Sampling], Drafter] | None = None
    length: Callable[[], Length] | None = None
    preset: str | None = None
    greedy_only: bool = False
    once: bool = False
    what: str = ""


def lookup(_: Sampling) -> Drafter:
    """The lookup that offers all it has: how much is taken is the policy's."""
    return SuffixLookup(minimum=2, most=7)


def _trees(_: Sampling) -> Drafter:
    return SuffixTrees()


def _drawing(sampling: Sampling) -> Sampling:
    """Drafts of certain tokens go with equality; the ratio rule wants them drawn."""
    drawn = sampling.temperature > 0 and sampling.rule == "ratio"
    return sampling if drawn else GREEDY


def _head(sampling: Sampling) -> Drafter:
    return MtpDrafter(depth=2, sampling=_drawing(sampling))


def _economical(_: Sampling) -> Drafter:
    return Selecting(SuffixLookup(minimum=2, most=7), EcoSpec())


def _few(sampling: Sampling) -> Drafter:
    return SpecMoe(PINNED, depth=DEPTH, sampling=_drawing(sampling))


def _few_bits(sampling: Sampling) -> Drafter:
    return MoeSpeq(depth=DEPTH, sampling=_drawing(sampling))


def _ahead(sampling: Sampling) -> Drafter:
    return MoeSpeq(depth=DEPTH, sampling=_drawing(sampling), prefetch=SpMoe(AHEAD))


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

WHOSE: Mapping[str, str] = MappingProxyType(
    {
        "best ratio": "the rule, length",
        "marginal": "the rule, length",
        "evict": "EVICT, length",
        "governor": "MoE-SpeQ, length",
        "roofline": "SpecMoEOff, length",
    }
)
"""Whose idea each of them is."""


def _fixed(rows: int) -> Callable[[], Length]:
    return lambda: Fixed(rows)


ARMS: tuple[Arm, ...] = (
    Arm(PLAIN),
    Arm("seed_stage1", preset="seed_stage1", greedy_only=True),
    *(Arm(f"lookup, T = {n}", lookup, _fixed(n)) for n in (2, 3, 4, 6, 8)),
    *(
        Arm(f"lookup, {name}", lookup, make, what=WHOSE[name])
        for name, make in CONTROLLERS.items()
    ),
    Arm("suffix trees", _trees, what="SuffixDecoding, drafter"),
    Arm("suffix trees, best ratio", _trees, BestRatio, what="SuffixDecoding, drafter"),
    Arm("head", _head, what="the model's own draft head"),
    Arm("head, best ratio", _head, BestRatio, what="the model's own draft head"),
    Arm("hybrid", _hybrid),
    Arm("hybrid, best ratio", _hybrid, BestRatio),
    Arm("ecospec", _economical, once=True, what="EcoSpec, select"),
    Arm(
        "ecospec, best ratio",
        _economical,
        BestRatio,
        once=True,
        what="EcoSpec, select",
    ),
    Arm("specmoe", _few, once=True, what="SpecMoE, drafter"),
    Arm("moe-speq", _few_bits, once=True, what="MoE-SpeQ, drafter"),
    Arm(
        "moe-speq, sp-moe",
        _ahead,
        once=True,
        what="MoE-SpeQ, drafter; SP-MoE, prefetch",
    ),
    Arm(
        "moe-speq, best ratio",
        _few_bits,
        BestRatio,
        once=True,
        what="MoE-SpeQ, drafter",
    ),
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

_ROWS = 8
_FEWEST = 64


def skip_tail(model: Model, ids: Sequence[int]) -> SkipTail:
    """Sparse verification (approximate), with thresholds measured on a text.

    Args:
        model: whose thresholds they are, with all experts in memory.
        ids: a text of 9 tokens or more, another one than what is compared on.
    """
    engine = model.engine()
    engine.prefill(ids[:1])
    windows = []
    for at in range(1, min(len(ids), _FEWEST) - _ROWS + 1, _ROWS):
        window = engine.run(ids[at : at + _ROWS])
        windows.append(window.layers)
        engine.finish(window, stop_ids=())
        engine.commit(window, keep=window.T, force=True)
    return SkipTail(calibrated(windows, top_k=model.config.num_experts_per_tok))
