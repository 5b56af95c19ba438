"""Tokens chosen in windows with drafts, and the same choices row by row."""

from collections.abc import Iterator, Sequence

import numpy as np

from strata_nb.gates.records import (
    HISTORIES,
    PARTS,
    Case,
    CaseResult,
    Finding,
    Profile,
    Scalar,
)
from strata_nb.gates.stage.beside import (
    Planned,
    Watch,
    in_question,
    moved,
    penalties,
    remembered,
    told,
)
from strata_nb.gates.stage.onward import against, cold, resumed
from strata_nb.gates.stage.places import start_of
from strata_nb.gates.stage.rig import Rig
from strata_nb.packs import ModelConfig
from strata_nb.sampling import Sampler, Sampling
from strata_nb.session.histories import Histories
from strata_nb.session.request import Transcript
from strata_nb.session.window import How, advance

TOUCHES = (*PARTS, *HISTORIES)
COUNT = 12
"""Tokens of a case."""

SAMPLINGS = {
    "greedy": Sampling(),
    "equality": Sampling(temperature=0.8, top_p=0.97, top_k=40, seed=11),
}
_CONTEXTS = ("below", "above")


def settings(
    config: ModelConfig, profile: Profile, context: int
) -> list[dict[str, Scalar]]:
    """Rule, width, kind of drafts, and tokens kept of a window at most.

    Args:
        config: of the model.
        profile: "quick" takes some of the product, the others all.
        context: cells that the sequence may have.
    """
    found: list[dict[str, Scalar]] = []
    for name in _CONTEXTS:
        if start_of(config, name, 1) + 2 * COUNT + 16 > context:
            continue
        for rule in SAMPLINGS:
            for width in range(2, 9):
                for drafts in ("right", "half-right", "wrong", "likely"):
                    for most in (8, 1, 2):
                        one: dict[str, Scalar] = {"context": name, "rule": rule}
                        one |= {"T": width, "drafts": drafts, "kept at most": most}
                        found.append(one)
    return found if profile != "quick" else found[:: len(found) // 12 + 1]


def ask(case: Case, rig: Rig) -> CaseResult:
    """Decode in windows, and judge every row of every window by itself."""
    ids, spoken, plain, likely = _plain(case, rig)
    sampling = SAMPLINGS[str(case["rule"])]
    raw, adjusted = Watch(), Watch()
    drafter = Planned(plain, str(case["drafts"]), rig.model.config.vocab_size, likely)
    histories = in_question(
        rig, sampling, [raw, *penalties(rig, spoken), adjusted], drafter
    )
    engine = rig.subject(ids[:-1])
    start = engine.leaves()
    text = Transcript(tuple(ids), len(ids))
    histories.assign(text)
    before = histories.leaves()
    found: list[Finding] = []
    most = int(case["kept at most"])
    how = How(
        propose=histories.propose,
        choose=histories.choose,
        stop_ids=(),
        cut=lambda emitted: min(most, len(emitted)),
    )
    width = int(case["T"])
    while (new := len(text.ids) - len(ids)) < COUNT:
        done = advance(engine, text.ids[-1], left=min(width, COUNT - new), how=how)
        assert done is not None
        sound = Histories.made(sampling, penalties(rig, spoken))
        found += _rows(raw, adjusted, done.result.predictions, text, sound)
        emitted = done.report.record.emitted
        histories.append(emitted)
        text = Transcript((*text.ids, *emitted), len(ids))
        fresh = told(_fresh(rig, sampling, spoken), text)
        found += remembered(histories.leaves(), fresh.leaves(), cell=len(text.ids) - 1)
    if not found and rig.exact:
        found += _texts(text.ids[-COUNT:], plain[-COUNT:], len(ids))
    changed = moved(before, histories.leaves())
    if sampling.temperature:
        changed.append("sampler")
    way, fed = resumed(engine, start, [(rig.text(4, seed=5), 4)], 1, rig)
    found += against(way, cold(rig, text.ids[:-1]), (), fed, rig)
    return CaseResult(case, tuple(found), (*way.changed, *changed))


def _plain(case: Case, rig: Rig) -> tuple[list[int], ...]:
    """The prompt; what is said; prompt and what is said under penalties; the likeliest.

    Penalties are made for a text that is known: so for the text without any.
    """
    name = str(case["context"])
    ids = [*rig.text(start_of(rig.model.config, name, 1)), rig.text(1, seed=77)[0]]
    sampling = SAMPLINGS[str(case["rule"])]

    def decode() -> tuple[list[int], ...]:
        spoken = _decoded(rig, ids, Histories.made(sampling))[-COUNT:]
        watch = Watch()
        penalised = Histories.made(sampling, [*penalties(rig, spoken), watch])
        text = _decoded(rig, ids, penalised)
        return spoken, text, [int(rows[0].argmax()) for _, rows in watch.seen]

    return ids, *rig.known(f"gate_2 choices {name} {case['rule']}", decode)


def _decoded(rig: Rig, ids: Sequence[int], histories: Histories) -> list[int]:
    engine, text = rig.reference(ids[:-1]), list(ids)
    histories.assign(Transcript(tuple(ids), len(ids)))
    for _ in range(COUNT):
        how = How(choose=histories.choose, stop_ids=())
        done = advance(engine, text[-1], left=1, how=how)
        assert done is not None
        histories.append(done.report.record.emitted)
        text += done.report.record.emitted
    return text


def _fresh(rig: Rig, sampling: Sampling, spoken: Sequence[int]) -> Histories:
    """Sound ones of the same kinds, the watches too: they are counted."""
    drafter = Planned((), "right", rig.model.config.vocab_size)
    adjustments = [Watch(), *penalties(rig, spoken), Watch()]
    return Histories.made(sampling, adjustments, drafter=drafter)


def _rows(
    raw: Watch,
    adjusted: Watch,
    predictions: Sequence[int],
    text: Transcript,
    sound: Histories,
) -> Iterator[Finding]:
    """Each row of the last window by itself: its penalties, then its token."""
    (inputs, logits), (_, got) = raw.seen[-1], adjusted.seen[-1]
    rule = Sampler(sound.sampler.sampling)
    for row, prediction in enumerate(predictions):
        cell = len(text.ids) - 1 + row
        sound.assign(Transcript((*text.ids, *inputs[1 : row + 1]), text.prompt))
        wanted = logits[row : row + 1]
        for adjustment in sound.sampler.adjustments:
            wanted = adjustment.adjust(inputs[row : row + 1], wanted)
        size = float(np.abs(wanted[0] - got[row]).max())
        if size:
            note = f"row {row} of {len(inputs)}: not those of its own text"
            yield Finding(
                "fault",
                "serial",
                "commit",
                "penalties",
                cell=cell,
                size=size,
                note=note,
            )
        (want,) = rule.choice()(inputs[row : row + 1], got[row : row + 1], start=cell)
        if prediction != want:
            note = f"row {row} of {len(inputs)}: wanted token {want}, got {prediction}"
            yield Finding("fault", "serial", "commit", "sampler", cell=cell, note=note)


def _texts(got: Sequence[int], wanted: Sequence[int], prompt: int) -> Iterator[Finding]:
    """Both texts, where arithmetic does not depend on the window."""
    for at, (one, other) in enumerate(zip(got, wanted, strict=True)):
        if one != other:
            note = f"wanted {other}, got {one}"
            yield Finding(
                "fault", "serial", "after", "token", cell=prompt + at, note=note
            )
            return
