"""Several sequences of one model that take turns: each goes on as if it were alone."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from strata_nb.engine import Engine
from strata_nb.gates.judge.observed import Observed, RowSeen
from strata_nb.gates.records import Case, CaseResult, Finding
from strata_nb.gates.stage.onward import against, alone, grown, keep_on, text_of
from strata_nb.gates.stage.rig import Rig, garbage
from strata_nb.gates.stage.travel import Way, Windows
from strata_nb.models.qwen4_exp import Imposed

KEEPS = (1, 3, 5)
"""Of the branches in one round; in the next they change places."""

ROUNDS = 3
_ROWS = 6

Begin = Callable[[Imposed], Engine]


def branches(case: Case, rig: Rig) -> CaseResult:
    """Forks of one engine, each against its own cold run."""
    options = _options(case)
    ids = text_of(rig)[: int(case["cells"])]
    engine = grown(rig.subject, ids, **options)
    forks = [garbage(engine.fork()) for _ in range(int(case["count"]) - 1)]
    begin = alone(rig, ids, **options)
    return _in_turn(case, rig, [*forks, engine], [begin] * (len(forks) + 1))


def apart(case: Case, rig: Rig) -> CaseResult:
    """Sessions of one loaded model with different prompts, each against a run alone."""
    options, cells = _options(case), int(case["cells"])
    prompts = [text_of(rig)[:cells], rig.text(cells + 3, seed=6)]
    engines = [rig.subject(ids, **options) for ids in prompts]
    return _in_turn(case, rig, engines, [alone(rig, i, **options) for i in prompts])


def _options(case: Case) -> dict[str, Any]:
    return {"fold": case["fold"], "partial": case["partial"]}


def _in_turn(
    case: Case, rig: Rig, engines: Sequence[Engine], begins: Sequence[Begin]
) -> CaseResult:
    """Let `engines` take turns, then compare each with its own run alone."""
    starts = [engine.leaves() for engine in engines]
    windows = _rounds(rig, engines)
    commits = [Observed.of(engine, {}) for engine in engines]
    rows, fed = _decoded(rig, engines, int(case["decode"]))
    found: list[Finding] = []
    changed: dict[str, None] = {}
    for number, engine in enumerate(engines):
        after = Observed.of(engine, rows[number])
        way = Way(starts[number], commits[number], after)
        parted = against(way, begins[number], windows[number], fed[number], rig)
        found += [_of(number, finding) for finding in parted]
        changed |= dict.fromkeys(way.changed)
    return CaseResult(case, tuple(found), tuple(changed))


def _rounds(rig: Rig, engines: Sequence[Engine]) -> list[list[Any]]:
    """Rounds in which all have a window open at once; what each ran and kept."""
    done: list[list[Any]] = [[] for _ in engines]
    for number in range(ROUNDS):
        opened = []
        for branch, engine in enumerate(engines):
            rows = rig.text(_ROWS, seed=20 + number * len(KEEPS) + branch)
            keep = KEEPS[(branch + number) % len(KEEPS)]
            opened.append((engine, engine.run(rows), keep))
            done[branch].append((rows, keep))
        for engine, window, _ in opened:
            engine.finish(window, stop_ids=())
        # The last one first: an order that no engine could have counted on.
        for engine, window, keep in reversed(opened):
            engine.commit(window, keep=keep, force=True)
    return done


def _decoded(
    rig: Rig, engines: Sequence[Engine], count: int
) -> tuple[list[dict[int, RowSeen]], list[Windows]]:
    """Greedy decoding, one token each in turn; rows and what was fed, by engine."""
    rows: list[dict[int, RowSeen]] = [{} for _ in engines]
    fed: list[list[tuple[tuple[int], int]]] = [[] for _ in engines]
    for _ in range(count):
        for branch, engine in enumerate(engines):
            assert engine.root is not None
            window = ((engine.root,), 1)
            rows[branch] |= keep_on(engine, [window], rig)
            fed[branch].append(window)
    return rows, [*fed]


def _of(number: int, finding: Finding) -> Finding:
    note = f"sequence {number + 1}" + (f": {finding.note}" if finding.note else "")
    return replace(finding, note=note)
