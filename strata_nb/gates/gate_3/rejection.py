"""gate_3: force a rejection everywhere, and compare what is left with three others."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from strata_nb.gates.gate_3.endings import ENDINGS, ending_cases
from strata_nb.gates.records import (
    HEAD_PARTS,
    PARTS,
    By,
    Case,
    CaseResult,
    Finding,
    Profile,
    Scalar,
)
from strata_nb.gates.stage.places import CONTEXTS, LONGEST, start_of
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.script import Script
from strata_nb.gates.stage.travel import Way, Windows, compare, travel
from strata_nb.models.qwen4_exp import Imposed
from strata_nb.packs import ModelConfig

NAME = "gate_3"
TITLE = "forced rejection: what was rejected left nothing behind"

WIDTHS = range(2, 9)
DRAFTS = ("wrong", "half-right", "loud")
MODES = tuple(itertools.product(("lazy", "eager"), (False, True)))
DRAFTED = ((4, 1), (5, 3), (8, 4), (2, 2))
"""Width and keep of a window that follows a draft of the model's own head."""
CHAINS = (
    ((4, 2), (1, 1), (1, 1), (4, 1)),
    ((4, 1), (4, 3), (4, 2), (4, 4)),
    ((8, 3), (2, 1), (2, 1), (8, 7), (1, 1)),
    ((3, 2), (5, 1), (3, 1), (5, 4), (3, 2)),
    tuple((2, 1) for _ in range(10)),
    ((6, 5), (1, 1), (6, 1), (1, 1), (6, 6), (7, 2)),
)
"""Width and keep of windows in a row: a fault may need a second one to show."""


def cases(config: ModelConfig, profile: Profile, context: int) -> list[Case]:
    """All cases of `profile`, in a fixed order.

    Args:
        config: of the model.
        profile: "quick" takes a slice through the product, "full" every width, keep,
            start, mode and kind of draft, "exhaustive" these with every ending.
        context: cells that the sequence may have.
    """
    ratio = config.indexer_compress_ratio
    places = [(c, r) for c in CONTEXTS for r in range(ratio)]
    places = [p for p in places if start_of(config, *p) + LONGEST <= context]
    found = _slice(places) if profile == "quick" else _product(places)
    for index, (context_name, residue) in enumerate(places):
        modes = MODES if profile != "quick" else MODES[index % 4 :][:1]
        chains = range(len(CHAINS)) if profile != "quick" else (index % len(CHAINS),)
        found += [
            _case("chain", context_name, residue, fold, partial, chain=chain)
            for (fold, partial), chain in itertools.product(modes, chains)
        ]
        if config.has_head:
            pairs = _pairs() if profile != "quick" else DRAFTED[index % 4 :][:1]
            found += [
                _case("drafted", context_name, residue, *MODES[i % 4], T=t, keep=keep)
                for i, (t, keep) in enumerate(pairs, start=index)
            ]
        found += ending_cases(NAME, context_name, residue, profile, index)
    return found


def _pairs() -> list[tuple[int, int]]:
    """Every width and keep."""
    return [(width, keep) for width in WIDTHS for keep in range(1, width + 1)]


def _product(places: Sequence[tuple[str, int]]) -> list[Case]:
    return [
        _case("reject", *place, fold, partial, T=width, keep=keep, drafts=drafts)
        for place in places
        for fold, partial in MODES
        for drafts in DRAFTS
        for width in WIDTHS
        for keep in range(1, width + 1)
    ]


def _slice(places: Sequence[tuple[str, int]]) -> list[Case]:
    """Every width and keep at every residue; the rest in turn, each with each."""
    found = []
    pairs = _pairs()
    for p, place in enumerate(places):
        for i, (width, keep) in enumerate(pairs):
            # A third of the pairs at each place, another third at the next context;
            # fewer at the end of a page, which is just one more.
            turn = CONTEXTS.index(place[0])
            if (i + turn) % (len(CONTEXTS) - 1) or (turn == 3 and i % 2):
                continue
            # What lies before a page's end is long: one mode there, and not four.
            fold, partial = MODES[(p if turn == 3 else i + p) % len(MODES)]
            drafts = DRAFTS[(i // 3 + p) % len(DRAFTS)]
            found.append(
                _case(
                    "reject", *place, fold, partial, T=width, keep=keep, drafts=drafts
                )
            )
    return found


def _case(
    family: str, context: str, residue: int, fold: str, partial: bool, **more: Any
) -> Case:
    params: dict[str, Scalar] = {"context": context, "residue": residue}
    params |= {"fold": fold, "partial": partial, **more}
    return Case(
        gate=NAME,
        family=family,
        params=tuple(params.items()),
        touches=(*PARTS, *HEAD_PARTS),
        group=f"{context}/{residue}",
    )


def run(cases: Sequence[Case], rig: Rig) -> Iterator[CaseResult]:
    """Run cases of one group; references that several of them need are made once.

    Args:
        cases: all of one group.
        rig: the model, the fault in question, the floor.
    """
    if not cases:
        return
    place = str(cases[0]["context"]), int(cases[0]["residue"])
    script = Script(rig, start_of(rig.model.config, *place))
    for case in cases:
        family = _FAMILIES.get(case.family)
        if family is not None:
            yield family(case, rig, script)
        else:
            yield ENDINGS[case.family](case, rig, script)


def _reject(case: Case, rig: Rig, script: Script) -> CaseResult:
    width, keep = int(case["T"]), int(case["keep"])
    rows = script.rows(str(case["drafts"]), width)
    return judged(case, rig, script, [(rows, keep)], **modes(case))


def _chain(case: Case, rig: Rig, script: Script) -> CaseResult:
    windows = []
    for number, (width, keep) in enumerate(CHAINS[int(case["chain"])]):
        windows.append((rig.text(width, seed=number + 1), keep))
    return judged(case, rig, script, windows, **modes(case))


def _drafted(case: Case, rig: Rig, script: Script) -> CaseResult:
    """The head drafts before a window; what it drafted leaves nothing behind."""
    width, keep = int(case["T"]), int(case["keep"])
    rows = script.rows("half-right", width)
    return judged(case, rig, script, [(rows, keep)], drafts=4, **modes(case))


def modes(case: Case) -> dict[str, Any]:
    """The engine options among a case's parameters."""
    return {"fold": case["fold"], "partial": case["partial"]}


def judged(
    case: Case,
    rig: Rig,
    script: Script,
    windows: Windows,
    *,
    drafts: int = 0,
    **options: Any,
) -> CaseResult:
    """Take the subject along `windows` and compare it with twin, replay and serial.

    Args:
        case: whose result it is.
        rig: the model, the fault in question, the floor.
        script: what lies before the windows, and the rows after them.
        windows: rows and keep of each.
        drafts: tokens that the subject's head drafts before each of them.
        options: of the engines.
    """
    engine = rig.subject(script.ids, **options)
    subject = travel(engine, windows, script.after, rig=rig, drafts=drafts)
    found: list[Finding] = []
    for by, again in _references(script, windows, options):
        found += compare(subject, again, by=by, rig=rig)
    return CaseResult(case, tuple(found), subject.changed)


def _references(
    script: Script, windows: Windows, options: dict[str, Any]
) -> Iterator[tuple[By, Callable[[Imposed], Way]]]:
    """The window with other rejected rows, the kept rows alone, and row by row."""
    vocabulary = script.rig.model.config.vocab_size
    if any(keep < len(ids) for ids, keep in windows):
        twin = [(other_rows(ids, keep, vocabulary), keep) for ids, keep in windows]
        yield "twin", lambda imposed: script.way(twin, options, imposed)
    kept = [(tuple(ids[:keep]), keep) for ids, keep in windows]
    yield "replay", lambda imposed: script.shared(kept, options, imposed)
    single = [((token,), 1) for ids, keep in kept for token in ids]
    # The modes of the fold give the same bits; the kind of K and V does not.
    plain = {k: v for k, v in options.items() if k == "kv"}
    yield "serial", lambda imposed: script.shared(single, plain, imposed)


def other_rows(ids: Sequence[int], keep: int, vocabulary: int) -> tuple[int, ...]:
    """`ids` with another token in every rejected row."""
    changed = ((token * 7 + 13) % vocabulary for token in ids[keep:])
    return (
        *ids[:keep],
        *(
            new if new != old else (new + 1) % vocabulary
            for new, old in zip(changed, ids[keep:], strict=True)
        ),
    )


_FAMILIES = {"reject": _reject, "chain": _chain, "drafted": _drafted}
