"""Where a text ends inside a window: a stop id, the last token allowed, the context."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from strata_nb.engine import Engine
from strata_nb.errors import ContextLimitError
from strata_nb.gates.judge.verdict import Observed
from strata_nb.gates.records import Case, CaseResult, Finding, Profile, Scalar
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.script import Script
from strata_nb.gates.stage.travel import Way, compare
from strata_nb.state import Leaves
from strata_nb.window import CommitReport, Result

Params: TypeAlias = dict[str, Scalar]

WIDTHS = range(1, 9)
MODES = tuple(itertools.product(("lazy", "eager"), (False, True)))
MARGINS = (-1, 0, 1)


def ending_cases(
    gate: str, context: str, residue: int, profile: Profile, index: int
) -> list[Case]:
    """Every output position that can be the last one, at one start.

    Args:
        gate: whose cases they are.
        context: of the start, as `places.CONTEXTS` names it.
        residue: of the start.
        profile: "exhaustive" takes all modes and kinds of drafts, the others one each.
        index: number of the place, so that the modes take turns.
    """
    found = []
    for width in WIDTHS:
        if profile == "quick" and (width + index) % 8:
            continue
        turn = index if profile == "quick" else width + index
        modes = MODES[turn % 4 :][:1]
        kinds: tuple[str, ...] = ("right",)
        if profile == "exhaustive":
            modes, kinds = MODES, ("right", "half-right", "loud")
        for (fold, partial), drafts in itertools.product(modes, kinds):
            base: Params = {"context": context, "residue": residue, "fold": fold}
            base |= {"partial": partial, "drafts": drafts, "T": width}
            ends = _ends(width)
            if profile == "exhaustive":
                ends += _forced_ends(width)
            found += [
                Case(
                    gate,
                    family,
                    tuple((base | more).items()),
                    group=f"{context}/{residue}",
                )
                for family, more in ends
            ]
    return found


def _ends(width: int) -> list[tuple[str, Params]]:
    ends: list[tuple[str, Params]] = [("eos", {"at": at}) for at in range(width)]
    ends += [("max_new", {"left": left}) for left in range(1, width + 2)]
    ends += [("margin", {"room": width + margin}) for margin in MARGINS]
    return [*ends, ("abort", {})]


def _forced_ends(width: int) -> list[tuple[str, Params]]:
    """Every ending with every keep, with room behind the window and with none."""
    ends = [{"eos": at, "left": 0} for at in range(width)]
    ends += [{"eos": -1, "left": left} for left in range(1, width + 1)]
    return [
        ("forced-end", {"keep": keep, **end, "tight": tight})
        for keep in range(1, width + 1)
        for end in ends
        for tight in (False, True)
    ]


def _natural(
    case: Case, rig: Rig, script: Script, *, stop_ids: Sequence[int], left: int | None
) -> tuple[Way, Result, CommitReport]:
    """Run the case's window and keep what `finish` says."""
    engine = rig.subject(script.ids, fold=case["fold"], partial=case["partial"])
    start = engine.leaves()
    window = engine.run(script.rows(str(case["drafts"]), int(case["T"])))
    result = engine.finish(window, stop_ids=stop_ids, tokens_left=left)
    report = engine.commit(window)
    return onward(engine, start, script), result, report


def onward(engine: Engine, start: Leaves, script: Script) -> Way:
    """What is seen of `engine` now, and after the rows that follow."""
    commit = Observed(engine.position, engine.leaves(), {})
    window = engine.run(script.after)
    engine.finish(window, stop_ids=())
    engine.commit(window, keep=window.T, force=True)
    after = Observed(engine.position, engine.leaves(), {})
    return Way(start, commit, after)


def _ended(
    case: Case,
    rig: Rig,
    script: Script,
    *,
    stop_ids: Sequence[int] = (),
    left: int | None = None,
) -> CaseResult:
    """Compare tokens and counters with plain decoding, and the state with its state."""
    way, result, report = _natural(case, rig, script, stop_ids=stop_ids, left=left)
    rows = script.rows(str(case["drafts"]), int(case["T"]))
    want = plain_ending(rows, script.right, stop_ids=stop_ids, left=left)
    found = [
        *wrong("emitted", report.emitted, want.emitted),
        *wrong("recorded tokens", report.record.emitted, want.emitted),
        *wrong("stop", result.stop, want.stop),
        *wrong("accepted", report.record.accepted, len(want.emitted) - 1),
        *wrong("cells", report.position - len(script.ids), len(want.emitted)),
        *wrong("next root", report.root, want.emitted[-1]),
    ]
    if len(want.emitted) <= len(rows):
        kept = [((token,), 1) for token in rows[: len(want.emitted)]]
        found += compare(
            way,
            lambda imposed: bare(script.shared(kept, {}, imposed)),
            by="serial",
            rig=rig,
        )
    return CaseResult(case, tuple(found), way.changed)


def bare(way: Way) -> Way:
    """Its states alone: here the rows themselves are judged by their tokens."""
    return Way(way.start, replace(way.commit, rows={}), replace(way.after, rows={}))


class Ending:
    """What plain decoding emits with these drafts, and why it ends.

    Written apart from `accept`: one token after the other, as somebody would who has
    never heard of windows.
    """

    def __init__(self, emitted: tuple[int, ...], stop: str | None) -> None:
        self.emitted, self.stop = emitted, stop


def plain_ending(
    rows: Sequence[int],
    right: Sequence[int],
    *,
    stop_ids: Sequence[int],
    left: int | None,
) -> Ending:
    """Decode row by row as long as the next draft is the token just decided.

    Args:
        rows: root and drafts.
        right: tokens of plain decoding after the root.
        stop_ids: tokens that end the text.
        left: tokens that may be emitted, None for no limit.
    """
    emitted: list[int] = []
    for row in range(len(rows)):
        token = right[row]
        emitted.append(token)
        if token in stop_ids:
            return Ending(tuple(emitted), "stop")
        if left is not None and len(emitted) == left:
            return Ending(tuple(emitted), "limit")
        if row + 1 == len(rows) or rows[row + 1] != token:
            break
    return Ending(tuple(emitted), None)


def wrong(what: str, got: object, want: object) -> list[Finding]:
    """A finding where `got` is not what the case itself says is right."""
    if got == want:
        return []
    note = f"{what}: wanted {want}, got {got}"
    return [Finding("fault", "rule", "commit", "rule", note=note)]


def _eos(case: Case, rig: Rig, script: Script) -> CaseResult:
    return _ended(case, rig, script, stop_ids=(script.right[int(case["at"])],))


def _max_new(case: Case, rig: Rig, script: Script) -> CaseResult:
    return _ended(case, rig, script, left=int(case["left"]))


def _margin(case: Case, rig: Rig, script: Script) -> CaseResult:
    """A window that ends before, at, or one cell past the end of the context."""
    room, width = int(case["room"]), int(case["T"])
    options = {"fold": case["fold"], "partial": case["partial"]}
    engine = rig.subject(script.ids, context=len(script.ids) + room, **options)
    before = engine.digests()
    rows = script.rows(str(case["drafts"]), width)
    found = []
    if width <= room:
        window = engine.run(rows)
        engine.finish(window, stop_ids=())
        engine.commit(window, keep=width, force=True)
        found += wrong("room left", engine.context - engine.position, room - width)
        before = engine.digests()
        rows = (*script.after, *script.rows("wrong", 8))[: room - width + 1]
    refused = False
    try:
        engine.abort(engine.run(rows))
    except ContextLimitError:
        refused = True
    found += wrong("refused past the end of the context", refused, True)
    found += wrong("state after the refusal", engine.digests(), before)
    return CaseResult(case, tuple(found))


def _abort(case: Case, rig: Rig, script: Script) -> CaseResult:
    """A window dropped before and after `finish`: as if it had not been run."""
    options = {"fold": case["fold"], "partial": case["partial"]}
    engine = rig.subject(script.ids, **options)
    start = engine.leaves()
    rows = script.rows("wrong", int(case["T"]))
    engine.abort(engine.run(rows))
    window = engine.run(rows)
    engine.finish(window, stop_ids=())
    engine.abort(window)
    subject = onward(engine, start, script)
    found = compare(
        subject,
        lambda imposed: bare(script.shared((), {}, imposed)),
        by="serial",
        rig=rig,
    )
    return CaseResult(case, tuple(found), subject.changed)


def _forced_end(case: Case, rig: Rig, script: Script) -> CaseResult:
    """An ending that the caller overrules: other rows are kept than `finish` says."""
    options = {"fold": case["fold"], "partial": case["partial"]}
    engine = rig.subject(script.ids, **options)
    start, roomy = engine.leaves(), engine.context
    rows = script.rows(str(case["drafts"]), int(case["T"]))
    if case["tight"]:
        engine.context = len(script.ids) + len(rows)
    stops = (script.right[int(case["eos"])],) if int(case["eos"]) >= 0 else ()
    left = int(case["left"]) or None
    window = engine.run(rows)
    result = engine.finish(window, stop_ids=stops, tokens_left=left)
    keep = int(case["keep"])
    report = engine.commit(window, keep=keep, force=True)
    engine.context = roomy
    want = plain_ending(rows, script.right, stop_ids=stops, left=left)
    found = [
        *wrong("emitted", result.emitted, want.emitted),
        *wrong("stop", result.stop, want.stop),
        *wrong("kept tokens", report.emitted[:-1], rows[1:keep]),
    ]
    way = onward(engine, start, script)
    kept = [((token,), 1) for token in rows[:keep]]
    found += compare(
        way,
        lambda imposed: bare(script.shared(kept, {}, imposed)),
        by="serial",
        rig=rig,
    )
    return CaseResult(case, tuple(found), way.changed)


ENDINGS: dict[str, Callable[[Case, Rig, Script], CaseResult]] = {
    "eos": _eos,
    "max_new": _max_new,
    "margin": _margin,
    "abort": _abort,
    "forced-end": _forced_end,
}
