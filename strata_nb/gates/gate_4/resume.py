"""gate_4: going on from a saved, forked or padded place is going on from a cold run."""

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open

from strata_nb.engine import Engine
from strata_nb.errors import StrataError
from strata_nb.gates.gate_4 import series
from strata_nb.gates.gate_4.branches import apart, branches
from strata_nb.gates.gate_4.spoiled import spoiled
from strata_nb.gates.records import Case, CaseResult, Finding, Profile
from strata_nb.gates.stage.child import asked_of
from strata_nb.gates.stage.onward import (
    against,
    around,
    cold,
    fits,
    grown,
    keep_on,
    pad_of,
    past_page,
    resumed,
    text_of,
)
from strata_nb.gates.stage.rig import Rig, garbage
from strata_nb.gates.stage.travel import Windows
from strata_nb.packs import ModelConfig
from strata_nb.parts import KV_KINDS

NAME = "gate_4"
TITLE = "resume: a saved, forked or padded text goes on like a cold run"

MODES = tuple(itertools.product(("lazy", "eager"), (False, True)))
HOWS = ("fork", "restore", "restore over")
"""How turn 2 comes back to what it shares with turn 1: by a fork made there, by a file
saved there into a new engine, or into the engine that went on with turn 1."""

_REJECTING = (6, 2)  # a window before the save: a fold stays pending
_TURN_1 = ((4, 2), (6, 1), (5, 5), (3, 2))
_DECODED = 4


def cases(config: ModelConfig, profile: Profile, context: int) -> list[Case]:
    """All cases of `profile`, in a fixed order.

    Args:
        config: of the model.
        profile: "quick" has every residue on either side of the sparse threshold, with
            the modes of the fold taking turns; the others have the product.
        context: cells that the sequence may have.
    """
    whole = profile != "quick"
    found = [
        *_saved_cases(config, whole=whole),
        *_diverged_cases(config, whole=whole),
        *_padded_cases(config, whole=whole),
        *_branch_cases(config, whole=whole),
    ]
    found = [c for c in found if fits(config, int(c["cells"]), context)]
    found += [
        Case(
            NAME,
            "requests",
            tuple(params.items()),
            touches=series.TOUCHES,
            group=f"requests/{params['series']}",
        )
        for params in series.settings(config, profile, context)
    ]
    found.append(_case("spoiled", how="no folder"))
    found.append(_case("spoiled", how="full disk", model=asked_of(config)))
    return found


def _case(family: str, **params: Any) -> Case:
    more = {"touches": ()} if family == "spoiled" else {}
    group = family if "cells" not in params else f"{family}/{params.get('fold')}"
    return Case(NAME, family, tuple(params.items()), group=group, **more)


def _saved_cases(config: ModelConfig, *, whole: bool) -> list[Case]:
    ratio = config.indexer_compress_ratio
    places = around(config, below=ratio - 1, above=2 * ratio if whole else ratio)
    if whole:
        places = [*range(1, ratio + 2), *places]
    places = [*places, past_page(config)]
    found = []
    for index, cells in enumerate(places):
        turn = MODES[index % len(MODES)]
        for fold, partial in MODES if whole else (turn,):
            params = {"cells": cells, "fold": fold, "partial": partial}
            pending = (False, True) if whole else (index != 1,)
            found += [_case("saved", **params, pending=p, decode=4) for p in pending]
            if whole and (fold, partial) == turn:
                found.append(
                    _case("saved", **params, pending=True, decode=20, into="other")
                )
    kinds = [k for k in KV_KINDS if k != "int8" or config.head_dim % 32 == 0]
    params = {"fold": "lazy", "partial": False, "pending": True, "decode": 4}
    for cells in around(config, below=1, above=2) if whole else places[-4:-3]:
        found += [_case("saved", cells=cells, **params, kv=kv) for kv in kinds]
    return [c for c in found if not c["pending"] or int(c["cells"]) >= _REJECTING[1]]


def _diverged_cases(config: ModelConfig, *, whole: bool) -> list[Case]:
    ratio = config.indexer_compress_ratio
    places = around(config, below=1, above=ratio - 2)
    return [
        _case("diverged", cells=cells, fold=fold, partial=partial, how=how)
        for index, cells in enumerate(places)
        for fold, partial in (MODES[index % 2 :: 2] if whole else MODES[:1])
        for how in (HOWS if whole else (HOWS[index % 3],))
    ]


def _padded_cases(config: ModelConfig, *, whole: bool) -> list[Case]:
    ratio = config.indexer_compress_ratio
    places = around(config, below=ratio - 1, above=0 if not whole else ratio)
    counts = range(1, ratio + 3)
    return [
        _case("padded", cells=cells, fold="lazy", partial=False, pads=pads)
        for index, cells in enumerate(places)
        for pads in (counts if whole else (counts[(5 * index + 2) % len(counts)],))
    ]


def _branch_cases(config: ModelConfig, *, whole: bool) -> list[Case]:
    ratio = config.indexer_compress_ratio
    places = around(config, below=ratio, above=ratio)[:: 2 if whole else 2 * ratio]
    places = [*places, past_page(config)]
    found = []
    for index, cells in enumerate(places):
        modes = MODES[index % 2 :: 2] if whole else (MODES[2 * index % len(MODES)],)
        for fold, partial in modes:
            params = {"cells": cells, "fold": fold, "partial": partial}
            params["decode"] = 20 if whole and cells in places[-2:] else 4
            counts = (2, 3) if whole else (2 + index % 2,)
            found += [_case("branches", **params, count=n) for n in counts]
            if whole or index == 0:
                found.append(_case("sessions", **params, count=2))
    return found


def run(cases: Sequence[Case], rig: Rig) -> Iterator[CaseResult]:
    """Run cases of one group.

    Args:
        cases: all of one group.
        rig: the model, the fault in question, the floor.
    """
    for case in cases:
        try:
            yield _FAMILIES[case.family](case, rig)
        except StrataError as error:
            # Its message may name a folder, and folders differ from run to run.
            note = f"refused with {type(error).__name__}, wanted it to go on"
            yield CaseResult(case, (_wrong(note),))


def options_of(case: Case) -> dict[str, Any]:
    """Of the engines of a case."""
    params = dict(case.params)
    return {name: params[name] for name in ("fold", "partial", "kv") if name in params}


def _rest(rig: Rig) -> Windows:
    """Rows that follow: they pass the end of whatever block is open."""
    ratio = min(rig.model.config.indexer_compress_ratio, 8)
    rows = rig.text(ratio + 2, seed=5)
    return [(rows[:ratio], ratio), (rows[ratio:], 2)]


def _saved(case: Case, rig: Rig) -> CaseResult:
    """Save, take the file into a new engine, and go on."""
    options, cells = options_of(case), int(case["cells"])
    text = text_of(rig)
    engine, ids = _reached(rig, text, cells, pending=bool(case["pending"]), **options)
    start = rig.known("gate_4 empty", rig.engine().leaves)
    into = dict(options)
    if "into" in dict(case.params):
        into |= {"fold": "eager", "partial": True}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        engine.save(path)
        found = list(_absent(path, engine))
        other = _restored(rig, path, into)
    if other.root != engine.root:
        found.append(_wrong(f"root: wanted {engine.root}, got {other.root}"))
    way, fed = resumed(other, start, _rest(rig), int(case["decode"]), rig)
    found += against(way, cold(rig, ids, **options), (), fed, rig)
    return CaseResult(case, tuple(found), way.changed)


def _reached(
    rig: Rig, text: Sequence[int], cells: int, *, pending: bool, **options: Any
) -> tuple[Engine, list[int]]:
    """An engine of `cells` cells, with or without a fold pending, and its tokens."""
    if not pending:
        return grown(rig.subject, text[:cells], **options), list(text[:cells])
    width, keep = _REJECTING
    before = text[: cells - keep]
    engine = grown(rig.subject, before, **options)
    rows = rig.text(width, seed=7)
    keep_on(engine, [(rows, keep)], rig)
    return engine, [*before, *rows[:keep]]


def _restored(rig: Rig, path: Path, options: Mapping[str, Any]) -> Engine:
    engine = rig.subject([], **options)
    engine.restore(path)
    return garbage(engine)


def _absent(path: Path, engine: Engine) -> Iterator[Finding]:
    """Parts of the engine that are not in the file, or not whole."""
    with safe_open(path, framework="np") as file:
        held = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    for leaf, array in engine.leaves().items():
        layer = "-" if leaf.layer is None else leaf.layer
        got = held.get(f"{leaf.part}/{layer}/{leaf.field}")
        if got is None or tuple(got) != array.shape:
            note = f"in the file {leaf.field} has shape {got}, wanted {array.shape}"
            yield Finding(
                "fault", "rule", "commit", leaf.part, layer=leaf.layer, note=note
            )


def _diverged(case: Case, rig: Rig) -> CaseResult:
    """Turn 2 shares only the prompt: nothing of turn 1 may be left."""
    options, cells, how = options_of(case), int(case["cells"]), str(case["how"])
    ids = text_of(rig)[:cells]
    engine = grown(rig.subject, ids, **options)
    start = engine.leaves()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        engine.save(path)
        shared = engine.fork()
        rows = rig.text(6, seed=12)
        keep_on(engine, [(rows[:width], keep) for width, keep in _TURN_1], rig)
        if how == "restore":
            shared = _restored(rig, path, options)
        elif how == "restore over":
            engine.restore(path)
            shared = garbage(engine)
    rest = [*_rest(rig), (rig.text(8, seed=11), 8)]
    way, fed = resumed(shared, start, rest, _DECODED, rig)
    found = against(way, cold(rig, ids, **options), (), fed, rig)
    return CaseResult(case, tuple(found), way.changed)


def _padded(case: Case, rig: Rig) -> CaseResult:
    """Pads are ordinary cells; saved among them, the text goes on as it would."""
    options, cells, pads = options_of(case), int(case["cells"]), int(case["pads"])
    pad = rig.known("gate_4 pad", lambda: pad_of(rig.model))
    before = [*text_of(rig)[:cells], *[pad] * (pads // 2)]
    engine = grown(rig.subject, before, **options)
    start = engine.leaves()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        engine.save(path)
        other = _restored(rig, path, options)
    rest: Windows = [([pad] * (pads - pads // 2), pads - pads // 2), *_rest(rig)]
    way, fed = resumed(other, start, rest, _DECODED, rig)
    found = against(way, cold(rig, before, **options), (), fed, rig)
    return CaseResult(case, tuple(found), way.changed)


def _wrong(note: str) -> Finding:
    return Finding("fault", "rule", "commit", "rule", note=note)


_FAMILIES: Mapping[str, Callable[[Case, Rig], CaseResult]] = {
    "saved": _saved,
    "diverged": _diverged,
    "padded": _padded,
    "branches": branches,
    "sessions": apart,
    "requests": series.requests,
    "spoiled": spoiled,
}
