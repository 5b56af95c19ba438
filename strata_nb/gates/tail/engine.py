"""The tail's cases on the real engine: does its state fail where the labels say?"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, TypeAlias

import numpy as np

from strata_nb.engine import Engine
from strata_nb.faults import FAULTS
from strata_nb.gates.records import PARTS, Case, CaseResult, Finding, Profile
from strata_nb.gates.stage.places import start_of
from strata_nb.gates.stage.rig import Rig, garbage
from strata_nb.gates.tail import model as tail_model
from strata_nb.gates.tail.labels import FAULT_OF
from strata_nb.gates.tail.model import ROWS, STARTS, Mend, TailCase, wrong_blocks
from strata_nb.model import Model
from strata_nb.packs import ModelConfig
from strata_nb.packs.config import INDEXED
from strata_nb.trace import Leaf
from strata_nb.window import Committed

NAME = "tail"
TITLE = "the open block's slots: wrong pooled keys exactly where a model of labels says"

Predict: TypeAlias = Callable[[TailCase, Mend], tuple[int, ...]]
"""What says which blocks are wrong: `wrong_blocks`, or another model of the tail."""
Keys: TypeAlias = dict[int, np.ndarray]
"""Keys of each indexed layer, [rows or blocks, D_I]."""

_FAMILY: dict[Mend, str] = {
    "ring": "ring",
    "contained": "contained",
    "snapshot and replay": "replayed",
    "last row's tail": "last_row",
    "old tail": "old_tail",
}
_MEND = {family: mend for mend, family in _FAMILY.items()}
_FIRST = 8
_QUICK: dict[Mend, tuple[int, ...]] = {
    "ring": tuple(range(1, ROWS + 1)),
    "contained": tuple(range(1, ROWS + 1)),
    "snapshot and replay": (4, 8),
}


@dataclass(frozen=True)
class Agreement:
    """The engine held against the labels.

    Attributes:
        mend: what was done about slots that rejected rows had written.
        cases: windows run.
        engine: those after which the engine had a wrong pooled key.
        model: those of which the labels say so.
        disagreements: cases of which they do not say the same.
    """

    mend: Mend
    cases: int
    engine: int
    model: int
    disagreements: tuple[TailCase, ...]


def compare(
    model: Model,
    mend: Mend,
    *,
    of: Iterable[TailCase] | None = None,
    predict: Predict = wrong_blocks,
) -> Agreement:
    """Run the windows on the engine and predict each of them.

    Args:
        model: one whose engine has the fault that stands for `mend`.
        mend: "snapshot and replay" is what the engine does anyway.
        of: windows, sorted by start; one start for each residue when not given.
        predict: what the engine is held against.

    Raises:
        ValueError: the model has no indexed layers or other blocks than the cases.
    """
    ratio = model.config.indexer_compress_ratio
    cycle = tail_model.cases(first=_FIRST, starts=ratio, ratio=ratio, mend=mend)
    tried = cycle if of is None else tuple(of)
    rig = Rig(model)
    engine = said = 0
    disagreements = []
    for start, group in groupby(tried, key=lambda case: case.start):
        place = _Place(rig, start)
        for case in group:
            wrong, predicted = place.wrong(case, mend)[0], predict(case, mend)
            engine += any(wrong.values())
            said += bool(predicted)
            if _disagreement(wrong, predicted) is not None:
                disagreements.append(case)
    return Agreement(mend, len(tried), engine, said, tuple(disagreements))


def cases(config: ModelConfig, profile: Profile, context: int) -> list[Case]:
    """Windows of each family; none where the model has no indexed layer.

    quick: one start for each residue; full: the same below and past the sparse
    threshold, and the mends that do not help; exhaustive: 64 starts and the latter.

    Args:
        config: gives the cells a block and the threshold.
        profile: how many.
        context: cells that a sequence may have.
    """
    if INDEXED not in config.layer_types:
        return []
    ratio = config.indexer_compress_ratio
    firsts = [(_FIRST, STARTS if profile == "exhaustive" else ratio)]
    if profile != "quick":
        # There a row cannot see every block, so that pooled keys decide something.
        firsts.append((start_of(config, "above", 0), ratio))
    found = []
    for first, starts in firsts:
        for start in range(first, first + starts):
            found += [c for c in _at(start, ratio, profile) if c[1].end <= context]
    return [_case(mend, case) for mend, case in found]


def run(cases: Sequence[Case], rig: Rig) -> Iterator[CaseResult]:
    """A case is a fault where the engine's pooled keys and the labels disagree.

    The rig's own fault is planted in the family "replayed", where nothing may fail;
    the other families plant theirs.
    """
    place: _Place | None = None
    ratio = rig.model.config.indexer_compress_ratio
    for case in cases:
        mend = _MEND[case.family]
        start, T, keep = (int(case[name]) for name in ("start", "T", "keep"))
        if place is None or place.start != start:
            place = _Place(rig, start)
        window = TailCase(start, T, keep, ratio)
        wrong, changed = place.wrong(window, mend)
        finding = _finding(wrong, wrong_blocks(window, mend), ratio)
        yield CaseResult(case, () if finding is None else (finding,), changed)


def _at(start: int, ratio: int, profile: Profile) -> Iterator[tuple[Mend, TailCase]]:
    for mend in _QUICK if profile == "quick" else _FAMILY:
        for case in tail_model.cases(first=start, starts=1, ratio=ratio, mend=mend):
            if profile != "quick" or case.T in _QUICK[mend]:
                yield mend, case


def _case(mend: Mend, case: TailCase) -> Case:
    # A family with a fault of its own says nothing of the rig's.
    sound = FAULT_OF[mend] is None
    return Case(
        NAME,
        _FAMILY[mend],
        (("start", case.start), ("T", case.T), ("keep", case.keep)),
        touches=("qsa_tail", "qsa_blocks") if sound else (),
        group=f"{NAME}/{case.start}",
    )


def _disagreement(
    wrong: dict[int, tuple[int, ...]], predicted: tuple[int, ...]
) -> tuple[int, tuple[int, ...]] | None:
    """The first layer, and its wrong blocks, that `predicted` does not explain.

    Blocks are named in the first indexed layer alone: what feeds the later ones may
    depend on blocks that this one chose by a wrong key.
    """
    first = min(wrong)
    if wrong[first] != predicted:
        return first, wrong[first]
    more = ((layer, found) for layer, found in wrong.items() if found)
    return None if predicted else next(more, None)


def _finding(
    wrong: dict[int, tuple[int, ...]], predicted: tuple[int, ...], ratio: int
) -> Finding | None:
    found = _disagreement(wrong, predicted)
    if found is None:
        return None
    layer, blocks = found
    odd = min(set(blocks) ^ set(predicted))
    return Finding(
        "fault",
        "rule",
        "after",
        "qsa_blocks",
        layer=layer,
        cell=odd * ratio,
        note=f"wrong blocks: wanted {list(predicted)}, got {list(blocks)}",
    )


class _Place:
    """One start cell: the text, its true pooled keys, and engines before the window."""

    def __init__(self, rig: Rig, start: int) -> None:
        config = rig.model.config
        if INDEXED not in config.layer_types:
            raise ValueError(
                f"{rig.model.name} has no indexed layer, so no tail; take a model with "
                "one, such as strata-tiny"
            )
        self.rig, self.start = rig, start
        self.ratio, self.vocabulary = config.indexer_compress_ratio, config.vocab_size
        last = TailCase(start, ROWS, ROWS, self.ratio)
        self.text = rig.text(last.end)
        reference = rig.reference(self.text[:start])
        _feed(reference, self.text[start:])
        self.true = of_layers(reference.leaves(), "qsa_blocks")
        self._engines: dict[Mend, Engine] = {}

    def wrong(
        self, case: TailCase, mend: Mend
    ) -> tuple[dict[int, tuple[int, ...]], tuple[str, ...]]:
        """Wrong blocks of each indexed layer, and the parts that changed on the way.

        The window is `case`; right rows follow one at a time.
        """
        if case.ratio != self.ratio:
            raise ValueError(
                f"the cases have {case.ratio} cells a block, the model {self.ratio}; "
                f"make them with ratio={self.ratio}"
            )
        engine = self._engine(mend).fork()
        moments = [engine.leaves()]
        cells = range(case.start, case.start + case.T)
        rows = [self.text[c] if c < case.position else self._rejected(c) for c in cells]
        _commit(engine, rows, case.keep)
        moments.append(engine.leaves())
        if mend == "old tail":
            # Rows that follow would lose their own keys too; the labels' are right.
            engine = handed(engine, self.rig.engine())
        _feed(engine, self.text[case.position : case.end])
        moments.append(engine.leaves())
        found = self._compared(moments[-1], case.end // self.ratio, mend)
        return found, _changed(moments)

    def _engine(self, mend: Mend) -> Engine:
        if mend not in self._engines:
            prefix, fault = self.text[: self.start], FAULT_OF[mend]
            if fault is None:
                self._engines[mend] = self.rig.subject(prefix)
            else:
                options: dict[str, Any] = dict(FAULTS[fault].options)
                faulty = self.rig.engine(fault=fault, **options)
                sound = self.rig.reference(prefix)
                self._engines[mend] = garbage(handed(sound, faulty))
        return self._engines[mend]

    def _rejected(self, cell: int) -> int:
        """A token for a rejected row: never the one that follows in the text."""
        return (self.text[cell] + 1 + cell % (self.vocabulary - 1)) % self.vocabulary

    def _compared(
        self, leaves: Mapping[Leaf, np.ndarray], blocks: int, mend: Mend
    ) -> dict[int, tuple[int, ...]]:
        relative = tolerance(self.rig, mend=mend)
        return {
            layer: differing(keys, self.true[layer][:blocks], relative)
            for layer, keys in of_layers(leaves, "qsa_blocks").items()
        }


def handed(source: Engine, target: Engine) -> Engine:
    """An engine of the target's kind, its faults too, with the source's sequence."""
    leaves, position = source.leaves(), source.position
    state = target.backend.from_leaves(leaves, position=position)
    return Engine(
        target.backend,
        context=target.context,
        options=target.options,
        start=Committed(state, root=source.root, window=None),
        model=target.model,
    )


def _commit(engine: Engine, rows: Sequence[int], keep: int) -> None:
    window = engine.run(rows)
    engine.finish(window, stop_ids=())
    engine.commit(window, keep=keep, force=True)


def _feed(engine: Engine, ids: Sequence[int]) -> None:
    for token in ids:
        _commit(engine, [token], 1)


def of_layers(leaves: Mapping[Leaf, np.ndarray], part: str) -> Keys:
    """Keys of each indexed layer among an engine's leaves.

    Args:
        leaves: of the engine.
        part: "qsa_tail", raw keys of the open block, [n mod R, D_I]; or "qsa_blocks",
            pooled keys, [blocks, D_I].
    """
    return {
        leaf.layer: keys
        for leaf, keys in leaves.items()
        if leaf.part == part and leaf.layer is not None
    }


def tolerance(rig: Rig, *, mend: Mend = "ring") -> float:
    """Of pooled keys, relative to their root mean square; 0 where all is exact."""
    # There a pool has its keys in another order, and a mean of them rounds otherwise.
    least = 1e-5 if mend == "K and V shrunk" else 0.0
    if rig.exact:
        return least
    measured = 0.0 if rig.floor is None else rig.floor.parts.get("qsa_blocks", 0.0)
    return max(1e-3, 4 * measured)


def differing(got: np.ndarray, want: np.ndarray, relative: float) -> tuple[int, ...]:
    """Blocks whose keys differ, or that only one of the two has.

    Args:
        got: keys, [blocks, D_I].
        want: keys, [blocks, D_I]; a few blocks more or fewer.
        relative: largest difference that counts as none, in root mean squares of
            `want`.
    """
    both, longest = sorted((len(got), len(want)))
    scale = float(np.sqrt(np.mean(np.square(want, dtype=np.float64)))) if both else 0.0
    # Written so that a NaN is not near anything.
    near = np.abs(got[:both] - want[:both]) <= relative * scale
    odd = np.flatnonzero(~near.all(axis=1))
    return (*(int(b) for b in odd), *range(both, longest))


def _changed(moments: Sequence[Mapping[Leaf, np.ndarray]]) -> tuple[str, ...]:
    """Parts that are not the same in two moments in a row."""
    found = {
        leaf.part
        for before, after in pairwise(moments)
        for leaf in after
        if not np.array_equal(before[leaf], after[leaf])
    }
    return tuple(part for part in PARTS if part in found)
