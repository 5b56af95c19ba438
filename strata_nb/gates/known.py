"""Defects that were reported of other engines, each as a case with a right answer.

Saving, resuming, diverging and branching are gate_4's; a dropped window is gate_3's.
"""

from collections.abc import Callable, Iterator, Sequence

from strata_nb.gates.gate_3.endings import bare, onward, wrong
from strata_nb.gates.gate_3.rejection import judged
from strata_nb.gates.records import Case, CaseResult, Finding, Profile
from strata_nb.gates.stage.places import threshold
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.script import Script
from strata_nb.gates.stage.travel import compare
from strata_nb.packs import ModelConfig
from strata_nb.session import generate

NAME = "known"
TITLE = "what was reported of other engines does not happen here"

REPORTS = {
    "rewind-did-nothing": "https://github.com/ml-explore/mlx-lm/issues/846",
    "index-left-ahead": "https://github.com/Atlas-Inf/atlas/issues/23",
    "more-than-asked-for": "https://github.com/ohdearquant/lattice/issues/242",
    "rewind-in-a-group": "https://github.com/Blaizzy/mlx-vlm/issues/1986",
    "stale-after-plain": "https://github.com/ggml-org/llama.cpp/issues/29117",
    "convolutions-kept": "https://github.com/ggml-org/llama.cpp/issues/28123",
    "replay-saw-less": "https://github.com/Pushkinist/rMLX/issues/436",
}
"""Family of cases, and the address of the report."""

ROUNDS = 20
LIMITS = 13


def cases(config: ModelConfig, profile: Profile, context: int) -> list[Case]:
    """All cases of `profile`, in a fixed order.

    Args:
        config: of the model.
        profile: "quick" takes some widths and places, the others all of them.
        context: cells that the sequence may have.
    """
    quick = profile == "quick"
    some = (2, 5, 8) if quick else tuple(range(2, 9))
    sparse = threshold(config) + 1
    beyond = range(sparse, sparse + (4 if quick else 8))
    prefixes = range(62, 66) if quick else range(60, 69)
    keeps = (1, 4) if quick else range(1, 7)
    rows: list[tuple[str, dict[str, int]]] = []
    rows += [("rewind-did-nothing", {"cells": 24, "T": width}) for width in some]
    rows += [("index-left-ahead", {"cells": cells}) for cells in beyond]
    rows += [("more-than-asked-for", {"cells": 21, "T": width}) for width in some]
    if config.head_dim % 32 == 0:
        rows += [
            ("rewind-in-a-group", {"cells": cells, "keep": keep})
            for cells in prefixes
            for keep in keeps
        ]
    plain = (1, 4, 10) if quick else range(1, 11)
    rows += [("stale-after-plain", {"cells": 24, "plain": count}) for count in plain]
    rows += [("convolutions-kept", {"cells": cells}) for cells in (7, sparse)]
    rows += [("replay-saw-less", {"cells": 200, "keep": keep}) for keep in keeps]
    longest = ROUNDS + 16
    return [
        Case(NAME, family, tuple(params.items()), group=f"{params['cells']}")
        for family, params in rows
        if params["cells"] + longest <= context
    ]


def run(cases: Sequence[Case], rig: Rig) -> Iterator[CaseResult]:
    """Run cases of one group.

    Args:
        cases: all at one start.
        rig: the model, the fault in question, the floor.
    """
    scripts: dict[int, Script] = {}
    for case in cases:
        cells = int(case["cells"])
        script = scripts.setdefault(cells, Script(rig, cells))
        yield _FAMILIES[case.family](case, rig, script)


def _rewind_did_nothing(case: Case, rig: Rig, script: Script) -> CaseResult:
    """Every draft wrong, round after round: the text of plain decoding all the same."""
    width, vocabulary = int(case["T"]), rig.model.config.vocab_size
    right = _greedy(rig, script, ROUNDS + width)
    engine = rig.subject(script.ids)
    start = engine.leaves()
    found: list[int] = []
    accepted = 0
    for number in range(ROUNDS):
        drafts = [(t + 1) % vocabulary for t in right[number : number + width - 1]]
        window = engine.run([[script.root, *right][number], *drafts])
        accepted += engine.finish(window, stop_ids=()).accepted
        found += engine.commit(window, keep=1).emitted
    way = onward(engine, start, script)
    kept = [((token,), 1) for token in (script.root, *right)[:ROUNDS]]
    findings = [
        *wrong("text", tuple(found), tuple(right[:ROUNDS])),
        *wrong("drafts accepted", accepted, 0),
        *compare(
            way,
            lambda imposed: bare(script.shared(kept, {}, imposed)),
            by="serial",
            rig=rig,
        ),
    ]
    return CaseResult(case, tuple(findings), way.changed)


def _greedy(rig: Rig, script: Script, count: int) -> list[int]:
    engine = rig.reference(script.ids)
    return list(generate(engine, script.root, max_new=count, stop_ids=()).tokens)


def _index_left_ahead(case: Case, rig: Rig, script: Script) -> CaseResult:
    """A rejected window of drafts with large index keys, then eight plain rows."""
    windows: list[tuple[Sequence[int], int]] = [(script.rows("loud", 6), 1)]
    windows += [((token,), 1) for token in rig.text(8, seed=3)]
    return judged(case, rig, script, windows)


def _more_than_asked_for(case: Case, rig: Rig, script: Script) -> CaseResult:
    """Limits from none to twelve with drafts that are all right."""
    right = _greedy(rig, script, LIMITS)
    width = int(case["T"])

    def perfect(text: Sequence[int]) -> list[int]:
        return right[len(text) - 1 :][: width - 1]

    found: list[Finding] = []
    engine = rig.subject(script.ids)
    start = engine.leaves()
    for limit in range(LIMITS):
        engine = rig.subject(script.ids)
        got = generate(engine, script.root, max_new=limit, drafts=perfect, stop_ids=())
        cells = engine.position - len(script.ids)
        found += wrong(f"text of {limit}", got.tokens, tuple(right[:limit]))
        found += wrong(f"cells after {limit}", cells, limit)
        found += wrong("counters", got.windows + got.accepted, limit)
    way = onward(engine, start, script)
    kept = [((token,), 1) for token in (script.root, *right)[: LIMITS - 1]]
    found += compare(
        way,
        lambda imposed: bare(script.shared(kept, {}, imposed)),
        by="serial",
        rig=rig,
    )
    return CaseResult(case, tuple(found), way.changed)


def _rewind_in_a_group(case: Case, rig: Rig, script: Script) -> CaseResult:
    """K and V in 8 bits, the kept end before, on and after a border of 64 cells."""
    windows = [(script.rows("wrong", 6), int(case["keep"]))]
    return judged(case, rig, script, windows, kv="int8")


def _stale_after_plain(case: Case, rig: Rig, script: Script) -> CaseResult:
    """A window kept in part, plain rows, and another one."""
    plain = rig.text(int(case["plain"]), seed=4)
    windows: list[tuple[Sequence[int], int]] = [(script.rows("wrong", 4), 2)]
    windows += [((token,), 1) for token in plain]
    windows += [(tuple(rig.text(4, seed=6)), 1)]
    return judged(case, rig, script, windows)


def _convolutions_kept(case: Case, rig: Rig, script: Script) -> CaseResult:
    """One row of four kept: both convolutions look back on it alone."""
    windows = [(script.rows("half-right", 4), 1)]
    return judged(case, rig, script, windows, fold="eager")


def _replay_saw_less(case: Case, rig: Rig, script: Script) -> CaseResult:
    """Delta nets behind an attention layer must have seen the whole prefix."""
    windows = [(script.rows("wrong", 6), int(case["keep"]))]
    return judged(case, rig, script, windows)


_FAMILIES: dict[str, Callable[[Case, Rig, Script], CaseResult]] = {
    "rewind-did-nothing": _rewind_did_nothing,
    "index-left-ahead": _index_left_ahead,
    "more-than-asked-for": _more_than_asked_for,
    "rewind-in-a-group": _rewind_in_a_group,
    "stale-after-plain": _stale_after_plain,
    "convolutions-kept": _convolutions_kept,
    "replay-saw-less": _replay_saw_less,
}
