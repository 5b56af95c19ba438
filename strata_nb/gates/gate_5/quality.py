"""gate_5: an approximate policy beside the exact one, never by its speed alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strata_nb import prompts
from strata_nb.engine import Engine
from strata_nb.gates.gate_5.comparison import APPROXIMATE, Comparison, Setting, Work
from strata_nb.gates.gate_5.measured import measured
from strata_nb.gates.judge.observed import Observed
from strata_nb.gates.records import By, Case, CaseResult, Finding, Profile
from strata_nb.gates.stage.onward import keep_on
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.travel import Way, Windows, compare
from strata_nb.model import Model
from strata_nb.models.qwen4_exp import Imposed
from strata_nb.packs import ModelConfig
from strata_nb.policies.routing import NATURAL, FewerExperts, Routing

NAME = "gate_5"
TITLE = "an approximate policy is shown with what it costs in quality"

POLICIES: dict[str, Routing] = {"natural": NATURAL, "fewer experts": FewerExperts()}
"""What is compared with the exact model; a room adds the policies that it builds."""

TEXTS = prompts.KINDS
"""The package's probes, written for this and for nothing else."""

_ROWS = 8
_QUICK, _WHOLE = 64, 256
_DECODED = 16


@dataclass(frozen=True)
class Probe:
    """A text to predict, as tokens."""

    name: str
    ids: tuple[int, ...]


def probes(model: Model, *, tokens: int) -> tuple[Probe, ...]:
    """The held-out texts; random tokens where the model has no tokenizer.

    Args:
        model: encodes them.
        tokens: of each text, at most.
    """
    if model.tokenizer is None:
        rig = Rig(model)
        return tuple(
            Probe(name, tuple(rig.text(tokens, seed=60 + i)))
            for i, name in enumerate(TEXTS)
        )
    return tuple(
        Probe(name, tuple(model.encode(prompts.probe(name))[:tokens])) for name in TEXTS
    )


def compared(
    model: Model,
    policy: Routing,
    *,
    tokens: int = _WHOLE,
    decoded: int = _DECODED,
    texts: Sequence[str] = TEXTS,
    begin: Callable[[], Model] | None = None,
    start: str = Setting.start,
) -> Comparison:
    """Run `policy` and the exact model over the same texts from the same start.

    Args:
        model: any; both engines share its weights.
        policy: which experts a row uses.
        tokens: of each text, at most.
        decoded: tokens to decode freely after the first half of each text.
        texts: names, of `TEXTS`.
        begin: gives the same model anew, with its experts in slots as an engine is to
            find them; every engine gets its own. None: `model` itself.
        start: what `begin` finds, for the record.
    """
    chosen = [p for p in probes(model, tokens=tokens) if p.name in texts]
    setting = Setting(
        texts=tuple((p.name, len(p.ids)) for p in chosen),
        rows=_ROWS,
        decoded=decoded,
        start=start,
    )
    found = {}
    ours, theirs = Work(), Work()
    for probe in chosen:
        quality, exact, other = measured(
            begin or (lambda: model), policy, probe.ids, setting
        )
        found[probe.name] = quality
        theirs, ours = theirs + exact, ours + other
    return Comparison(
        policy=policy.name,
        lossless=policy.lossless,
        setting=setting,
        quality=found,
        exact_work=theirs,
        work=ours,
    )


def cases(config: ModelConfig, profile: Profile, context: int) -> list[Case]:
    """All cases of `profile`, in a fixed order.

    Args:
        config: of the model; a policy that cannot change it is left out.
        profile: "quick" reads the beginning of each text, the others all of it.
        context: cells that the sequence may have.
    """
    tokens = min(_QUICK if profile == "quick" else _WHOLE, context - _DECODED)
    found = [_case("alone")]
    for name, policy in POLICIES.items():
        if isinstance(policy, FewerExperts) and config.num_experts_per_tok < 2:
            continue
        found.append(_case("declared", policy=name))
        family = "lossless" if policy.lossless else "approximate"
        found += [
            _case(family, policy=name, text=text, tokens=tokens) for text in TEXTS
        ]
    return found


def _case(family: str, **params: Any) -> Case:
    # Nothing is planted here: what differs is the policy, and it differs by design.
    return Case(
        NAME,
        family,
        tuple(params.items()),
        touches=(),
        group=str(params.get("policy", "")),
    )


def run(cases: Sequence[Case], rig: Rig) -> Iterator[CaseResult]:
    """Run cases of one group.

    Args:
        cases: all of one group.
        rig: gives the model; a fault of it is of no account here.
    """
    for case in cases:
        yield _FAMILIES[case.family](case, rig)


def _wrong(note: str) -> Finding:
    return Finding("fault", "rule", "after", "rule", note=note)


def _alone(case: Case, rig: Rig) -> CaseResult:
    """A comparison by speed alone must not be possible."""
    setting = Setting(texts=(), rows=_ROWS, decoded=0)
    try:
        Comparison("any", True, setting, {}, Work(windows=2), Work(windows=1))
    except ValueError:
        return CaseResult(case)
    return CaseResult(case, (_wrong("work was compared without a word on quality"),))


def _declared(case: Case, rig: Rig) -> CaseResult:
    """What a policy says of itself is in its options, its records and its name."""
    policy = POLICIES[str(case["policy"])]
    engine = rig.model.engine(routing=policy)
    start = engine.leaves()
    keep_on(engine, [(rig.text(3), 2)], rig)
    wanted = () if policy.lossless else (policy.name,)
    told = engine.options.get(APPROXIMATE)
    checks = (
        ("name says approximate", APPROXIMATE in policy.name, not policy.lossless),
        ("option of the engine", (told,) if told else (), wanted),
        ("records", engine.trace[0].approximate, wanted),
    )
    found = [
        _wrong(f"{what}: wanted {right}, got {got}")
        for what, got, right in checks
        if got != right
    ]
    here = Observed.of(engine, {})
    return CaseResult(case, tuple(found), Way(start, here, here).changed)


def _lossless(case: Case, rig: Rig) -> CaseResult:
    """A policy that claims to change nothing, judged as any other engine is."""
    policy = POLICIES[str(case["policy"])]
    windows = _windows(case, rig)
    way = _went(rig, rig.model.engine(routing=policy), windows)

    def exact(imposed: Imposed) -> Way:
        return _went(rig, rig.model.engine(imposed=imposed), windows)

    # The exact policy against itself: the same kernels, so the same bits everywhere.
    by: By = "twin" if policy is NATURAL else "replay"
    found = compare(way, exact, by=by, rig=rig)
    return CaseResult(case, tuple(found), way.changed)


def _windows(case: Case, rig: Rig) -> Windows:
    tokens = int(case["tokens"])
    chosen = {p.name: p.ids for p in probes(rig.model, tokens=tokens)}
    ids = chosen[str(case["text"])]
    pieces = [ids[i : i + _ROWS] for i in range(0, len(ids), _ROWS)]
    return [(piece, len(piece)) for piece in pieces]


def _went(rig: Rig, engine: Engine, windows: Windows) -> Way:
    start = engine.leaves()
    rows = keep_on(engine, windows, rig)
    seen = Observed.of(engine, rows)
    return Way(start, seen, seen)


def _approximate(case: Case, rig: Rig) -> CaseResult:
    """It may differ, and has to; the comparison says so, with quality in it."""
    policy = POLICIES[str(case["policy"])]
    if APPROXIMATE not in policy.name:
        return CaseResult(
            case, (_wrong(f"{policy.name!r} does not say it approximates"),)
        )
    found = []
    told = compared(
        rig.model, policy, tokens=int(case["tokens"]), texts=(str(case["text"]),)
    )
    quality = told.quality[str(case["text"])]
    if quality.kl == 0:
        found.append(_wrong("it changed no probability, so nothing was compared"))
    if told.work.windows != told.exact_work.windows:
        found.append(_wrong("the policy and the exact model ran other windows"))
    way = _went(rig, rig.model.engine(routing=policy), _windows(case, rig)[:1])
    return CaseResult(case, tuple(found), way.changed)


_FAMILIES: Mapping[str, Callable[[Case, Rig], CaseResult]] = {
    "alone": _alone,
    "declared": _declared,
    "lossless": _lossless,
    "approximate": _approximate,
}
