"""Requests of one session, each held to a session that never had another one."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from strata_nb.draft import Drafter, SuffixLookup, SuffixTrees
from strata_nb.gates.records import HISTORIES, PARTS, Case, CaseResult, Finding, Profile
from strata_nb.gates.stage.beside import moved, penalties, remembered
from strata_nb.gates.stage.onward import against, around, cold, pad_of, resumed, text_of
from strata_nb.gates.stage.rig import Rig
from strata_nb.packs import ModelConfig
from strata_nb.sampling import GREEDY, Sampling
from strata_nb.session import Reply, Session
from strata_nb.state import Leaves

TOUCHES = (*PARTS, *HISTORIES)
NEW = 6
"""Tokens of an answer."""

SERIES = ("resume", "diverge", "between", "short", "pads", "file")
"""What the requests have in common with those before them: the whole text; half of it;
a place between two checkpoints; nothing; all of it, and pads; a text from a file."""

DRAFTERS: Mapping[str, Callable[[], Drafter]] = {
    "lookup": lambda: SuffixLookup(minimum=2, most=5),
    "trees": SuffixTrees,
}
SAMPLINGS = {
    "greedy": GREEDY,
    "equality": Sampling(temperature=0.8, top_p=0.95, seed=3),
}


def settings(
    config: ModelConfig, profile: Profile, context: int
) -> list[dict[str, Any]]:
    """A series of requests at a place, with a drafter, a rule and a ring.

    Args:
        config: of the model.
        profile: "quick" has each series once, with the others in turn.
        context: cells that the sequence may have.
    """
    whole = profile != "quick"
    last = around(config, below=1, above=1)
    places = [21, 24, *(last if whole else last[:1])]
    found: list[dict[str, Any]] = []
    for s, series in enumerate(SERIES):
        for p, cells in enumerate(places):
            for r, ring in enumerate((0, 1, 3)):
                turn = s + p + r
                if not whole and (p != s % len(places) or r != (s + 1) % 3):
                    continue
                found.append(
                    {
                        "series": series,
                        "cells": cells,
                        "checkpoints": ring,
                        "drafter": list(DRAFTERS)[turn % 2],
                        "rule": list(SAMPLINGS)[turn // 2 % 2],
                    }
                )
    return [c for c in found if int(c["cells"]) + 64 <= context]


def requests(case: Case, rig: Rig) -> CaseResult:
    """Ask one after another, and look at everything after each."""
    session = _session(case, rig, fault=rig.fault)
    start = session.leaves()
    found: list[Finding] = []
    changed: dict[str, None] = {}
    seen: list[tuple[int, ...]] = []
    for number, ids in enumerate(_asked(case, rig, session)):
        before = session.leaves()
        reply = session.reply(ids, max_new=NEW, stop_ids=())
        fresh = _session(case, rig, fault=None)
        wanted = fresh.reply(ids, max_new=NEW, stop_ids=())
        of_request = [
            *_replies(reply, wanted, rig, cell=len(ids)),
            *_beside(session, fresh, cell=len(ids)),
            *_reused(reply, session, seen, ids, int(case["checkpoints"])),
        ]
        way, fed = resumed(session.engine(), start, [(rig.text(4, seed=5), 4)], 1, rig)
        ran = cold(rig, session.tokens[:-1])
        of_request += against(way, ran, (), fed, rig)
        found += [_of(number, finding) for finding in of_request]
        changed |= dict.fromkeys((*way.changed, *moved(before, session.leaves())))
        seen.append(session.tokens)
        if of_request:
            break  # what follows it would be its effect
    if SAMPLINGS[str(case["rule"])].temperature:
        changed["sampler"] = None
    return CaseResult(case, tuple(found), tuple(p for p in TOUCHES if p in changed))


def _session(case: Case, rig: Rig, *, fault: str | None) -> Session:
    return Session(
        rig.model,
        drafter=DRAFTERS[str(case["drafter"])](),
        sampling=SAMPLINGS[str(case["rule"])],
        adjustments=penalties(rig, rig.known("gate_4 spoken", lambda: _spoken(rig))),
        pad_id=rig.known("gate_4 pad", lambda: pad_of(rig.model)),
        checkpoints=int(case["checkpoints"]),
        fault=fault,
        **rig.head,
        **rig.needs,
    )


def _spoken(rig: Rig) -> list[int]:
    """Tokens that answers of this model have, for phrases that come up in them."""
    session = Session(rig.model)
    return [*session.reply(text_of(rig)[:24], max_new=12, stop_ids=()).tokens]


def _asked(case: Case, rig: Rig, session: Session) -> Iterator[Sequence[int]]:
    """The prompts of the series; each is made when those before have been answered."""
    text, series = text_of(rig)[: int(case["cells"])], str(case["series"])
    other = rig.text(9, seed=31)
    pad = rig.known("gate_4 pad", lambda: pad_of(rig.model))
    first = [t for t in text if t != pad]
    yield first
    answered = list(session.tokens)
    if series == "resume":
        yield [*answered, *other]
        yield [*answered, *other[:3]]
    elif series == "diverge":
        yield [*first[: len(first) // 2], *other]
        yield first
    elif series == "between":
        yield [*answered[:-2], *other]
        yield [*answered[:-2], *other[::-1]]
    elif series == "short":
        yield rig.text(5, seed=33)
        yield first
    elif series == "pads":
        yield [*answered, pad, pad, *other]
        yield [*answered, pad, *other]
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "saved"
            session.save(path)
            yield rig.text(7, seed=34)
            session.restore(path)
            yield [*answered, *other]


def _replies(got: Reply, wanted: Reply, rig: Rig, *, cell: int) -> Iterator[Finding]:
    """What was said, and what it took; windows are the same, so all of it is."""
    if not rig.exact and got.reused:
        return  # the prompt was read in other pieces, and may round otherwise
    if got.tokens != wanted.tokens:
        note = f"wanted {list(wanted.tokens)}, got {list(got.tokens)}"
        yield Finding("fault", "serial", "after", "token", cell=cell, note=note)
    counts = [(r.windows, r.offered, r.accepted) for r in (got, wanted)]
    if counts[0] != counts[1]:
        note = f"windows, offered, accepted: wanted {counts[1]}, got {counts[0]}"
        yield Finding("fault", "serial", "commit", "drafter", cell=cell, note=note)


def _beside(session: Session, fresh: Session, *, cell: int) -> Iterator[Finding]:
    def beside(one: Session) -> Leaves:
        return one.histories.leaves()

    yield from remembered(beside(session), beside(fresh), cell=cell)


def _reused(
    reply: Reply,
    session: Session,
    seen: Sequence[tuple[int, ...]],
    ids: Sequence[int],
    most: int,
) -> Iterator[Finding]:
    """Cells taken from before are cells of this prompt; the ring has its bound."""
    shared = max((_alike(before[:-1], ids[:-1]) for before in seen), default=0)
    newest = seen[-1] if seen else ()
    goes_on = bool(newest) and tuple(ids[: len(newest) - 1]) == newest[:-1]
    least = len(newest) - 1 if goes_on else 0
    if not least <= reply.reused <= shared:
        note = f"{reply.reused} cells were reused, wanted {least} to {shared}"
        yield Finding("fault", "rule", "commit", "rule", note=note)
    if len(session.checkpoints) > most:
        note = f"{len(session.checkpoints)} checkpoints, wanted {most} at most"
        yield Finding("fault", "rule", "commit", "rule", note=note)


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return at
    return min(len(one), len(other))


def _of(number: int, finding: Finding) -> Finding:
    note = f"request {number + 1}" + (f": {finding.note}" if finding.note else "")
    return replace(finding, note=note)
