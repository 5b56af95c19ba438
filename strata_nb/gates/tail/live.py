"""An engine's own tail held against the labels: every window of its trace, played."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from strata_nb.engine import Engine
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.tail.engine import differing, of_layers, tolerance
from strata_nb.gates.tail.labels import FAULT_OF, REMEMBERED, Mend, Tail, raw
from strata_nb.gates.tail.model import TailCase
from strata_nb.gates.tail.moments import BEHAVIOURS, SOUND, slots_of
from strata_nb.model import Model
from strata_nb.packs.config import INDEXED
from strata_nb.refusals import MAX_ROWS
from strata_nb.trace import WindowRecord


@dataclass(frozen=True)
class Held:
    """One thing that the labels say of an engine, and what the engine says.

    Attributes:
        what: "raw tail", wrong slots, or "pooled keys", wrong blocks.
        layer: 0-based.
        claimed: what is wrong by the labels, as slots or blocks.
        found: what differs from a sound engine after the same tokens.
        judged: whether the labels must be right here. A layer behind one whose keys
            are wrong may choose other blocks, and then anything can differ; and a
            rejected row whose token came again has left the right key.
    """

    what: Literal["raw tail", "pooled keys"]
    layer: int
    claimed: tuple[int, ...]
    found: tuple[int, ...]
    judged: bool

    @property
    def equal(self) -> bool:
        """Whether both say the same."""
        return self.claimed == self.found


class History:
    """The slots through all windows of a trace, under one mend.

    Args:
        ratio: cells a block.
        mend: what each commit does.

    Attributes:
        tail: the slots and pooled keys now.
        position: committed cells now.
        whole: every cell from 0 on came in a window that was taken in.
        wrong: complete blocks whose pool is not the true one, ascending.
        window: the newest window that is no prompt, None before there is one.
        before: the tail before it.
        repeated: the first row that a window rejected came again, the same token.
    """

    def __init__(self, ratio: int, mend: Mend) -> None:
        self.tail = Tail(ratio, mend)
        self.position = 0
        self.whole = True
        self.wrong: list[int] = []
        self.window: TailCase | None = None
        self.before: Tail | None = None
        self.repeated = False
        self._begun = False
        self._rejected: int | None = None  # token of the last window's first such row

    def take(self, record: WindowRecord) -> None:
        """Take in the next window of the trace."""
        if record.position != self.position:
            self._jump(record.position)
        ratio, rows, keep = len(self.tail.slots), record.T, record.keep
        self.repeated = self.repeated or record.inputs[0] == self._rejected
        self._rejected = record.inputs[keep] if keep < rows else None
        start, end = record.position, record.position + record.keep
        if not record.headless:
            self.window = TailCase(start, rows, keep, ratio)
            self.before = self.tail.copy()
        before = tuple(self.tail.slots)
        for row in range(rows):
            self.tail.write(start + row, raw(start + row, kept=row < keep))
        # A faulty tail is not told what is a prompt, and keeps what looks like one.
        prompt = not self._begun or rows > MAX_ROWS
        if not (prompt and self.tail.mend == "old tail"):
            self.tail.commit(before, start, rows, keep)
        self._begun, self.position = True, end
        self._judge(start // ratio, end // ratio)

    def _jump(self, position: int) -> None:
        """Cells came from elsewhere: a fork, or a restored file. They may be right."""
        ratio = len(self.tail.slots)
        self.tail = Tail(ratio, self.tail.mend)
        self.tail.pools = [()] * (position // ratio)
        for cell in range(position // ratio * ratio, position):
            self.tail.write(cell, raw(cell))
        self.whole, self.wrong = False, []

    def _judge(self, first: int, end: int) -> None:
        self.wrong += [b for b in range(first, end) if self.tail.wrong(b)]
        # Only their verdict is wanted of blocks long past.
        for block in range(max(0, first - REMEMBERED), end - REMEMBERED):
            self.tail.pools[block] = ()


def mend_of(engine: Engine) -> Mend:
    """What the labels call the engine's commit; right unless a fault says otherwise."""
    return BEHAVIOURS.get(str(engine.options.get("fault", SOUND)), SOUND)


def indexed_layers(engine: Engine) -> tuple[int, ...]:
    """Layers that have a tail."""
    kinds = engine.backend.config.layer_types
    return tuple(i for i, kind in enumerate(kinds) if kind == INDEXED)


def held(engine: Engine, history: History) -> tuple[Held, ...]:
    """Compare the engine's tail and pooled keys with a sound engine's, and the labels.

    A second engine is given all tokens that the first has kept; the first is only read.

    Args:
        engine: the trace of which `history` has taken in.
        history: says what must be wrong.

    Raises:
        ValueError: it cannot be compared; the message says why.
    """
    model = _comparable(engine, history)
    kept = [t for record in engine.trace for t in record.inputs[: record.keep]]
    sound = model.engine(kv=engine.options["kv"], context=engine.context)  # type: ignore[arg-type]
    sound.prefill(kept)
    mine, right = engine.leaves(), sound.leaves()
    rows, wanted_rows = of_layers(mine, "qsa_tail"), of_layers(right, "qsa_tail")
    keys, wanted_keys = of_layers(mine, "qsa_blocks"), of_layers(right, "qsa_blocks")
    relative = tolerance(Rig(model), mend=history.tail.mend)
    slots = slots_of(history.tail, history.position)
    odd = tuple(i for i, slot in enumerate(slots) if slot.counts and not slot.right)
    found: list[Held] = []
    for layer in indexed_layers(engine):
        # What the first layer is fed depends on no key of another one.
        claims = bool(odd or history.wrong)
        judged = not claims or not (found or history.repeated)
        differ = differing(rows[layer], wanted_rows[layer], relative)
        one = [Held("raw tail", layer, odd, differ, judged)]
        differ = differing(keys[layer], wanted_keys[layer], relative)
        wrong = tuple(history.wrong)
        one.append(Held("pooled keys", layer, wrong, differ, judged))
        found += one
    return tuple(found)


def _comparable(engine: Engine, history: History) -> Model:
    options, model = engine.options, engine.model
    fault = options.get("fault")
    refused: Sequence[tuple[bool, str]] = (
        (
            not history.whole or history.position != engine.position,
            f"its trace does not tell all tokens of its {engine.position} cells; take "
            "an engine whose trace begins at cell 0",
        ),
        (
            fault is not None and fault not in FAULT_OF.values(),
            f"it has the fault {fault!r}, of which the labels know nothing; take one "
            f"of {', '.join(name for name in BEHAVIOURS if name != SOUND)}, or none",
        ),
        (
            "routing" in options or "imposed" in options,
            "its experts are chosen in another way; take an engine with the model's "
            "own choice",
        ),
        (not isinstance(model, Model), "it has no model; make it by `model.engine()`"),
    )
    for unfit, why in refused:
        if unfit:
            raise ValueError(f"this engine cannot be compared: {why}")
    assert isinstance(model, Model)
    return model
