"""Going on from a place: the same rows again after an interruption and without one."""

from collections.abc import Callable, Sequence
from typing import Any

from strata_nb.engine import Engine
from strata_nb.gates.judge.observed import Observed, RowSeen, see
from strata_nb.gates.records import Finding
from strata_nb.gates.stage.places import start_of, threshold
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.travel import Way, Windows, compare
from strata_nb.model import Model
from strata_nb.models.qwen4_exp import NOTHING, Imposed
from strata_nb.packs import ModelConfig
from strata_nb.packs.json_file import read_object
from strata_nb.state import Leaves

LONGEST = 64
"""Cells that the text of these cases has past the last place they start from."""

_BASE = 32  # prompts that differ by a few cells share what lies before


def text_of(rig: Rig) -> list[int]:
    """One text; prompts of all lengths are its beginnings."""
    return rig.text(_last(rig.model.config) + LONGEST, seed=4)


def _last(config: ModelConfig) -> int:
    return max(threshold(config), past_page(config))


def past_page(config: ModelConfig) -> int:
    """Cells of a text whose first page of K and V is sealed, the next one begun."""
    return start_of(config, "page", 0) + config.indexer_compress_ratio + 1


def fits(config: ModelConfig, cells: int, context: int) -> bool:
    """Whether `cells` and all that follows in a case find room."""
    past = cells - _last(config) < LONGEST
    return cells >= 0 and past and cells + LONGEST <= context


def grown(make: Callable[..., Engine], ids: Sequence[int], **options: Any) -> Engine:
    """An engine after `ids`, made of a shorter one that other cases start from, too.

    Args:
        make: `rig.subject` or `rig.reference`.
        ids: beginning of a text.
        options: of the engine.
    """
    base = len(ids) // _BASE * _BASE
    engine = make(ids[:base], **options)
    engine.prefill(ids[base:])
    return engine


def keep_on(engine: Engine, windows: Windows, rig: Rig) -> dict[int, RowSeen]:
    """Run `windows`, keep of each what it says, and return the kept rows."""
    rows: dict[int, RowSeen] = {}
    for ids, keep in windows:
        rows |= see(engine, ids, keep=keep, decisions=not rig.exact)
    return rows


def onward(
    engine: Engine, rest: Windows, count: int, rig: Rig
) -> tuple[dict[int, RowSeen], Windows]:
    """Run `rest`, then decode greedily; the rows, and all that was fed.

    Args:
        engine: it is moved on.
        rest: windows given beforehand, one at least.
        count: tokens to decode after them, one row a window.
        rig: says whether decisions have to be seen.
    """
    rows, fed = keep_on(engine, rest, rig), list(rest)
    for _ in range(count):
        assert engine.root is not None
        window = ((engine.root,), 1)
        rows |= keep_on(engine, [window], rig)
        fed.append(window)
    return rows, fed


def resumed(
    engine: Engine, start: Leaves, rest: Windows, count: int, rig: Rig
) -> tuple[Way, Windows]:
    """What is seen of `engine` where it resumes and further on, and what it was fed."""
    commit = Observed.of(engine, {})
    rows, fed = onward(engine, rest, count, rig)
    return Way(start, commit, Observed.of(engine, rows)), fed


def against(
    way: Way,
    begin: Callable[[Imposed], Engine],
    before: Windows,
    fed: Windows,
    rig: Rig,
) -> list[Finding]:
    """Compare `way` with that of a sound engine which nobody interrupts.

    Args:
        way: of the engine in question.
        begin: makes the sound engine, with decisions imposed where that is called for.
        before: its windows up to the first look.
        fed: its windows after that.
        rig: gives the floor, and whether arithmetic depends on the rows of a window.
    """

    def uninterrupted(imposed: Imposed) -> Way:
        engine = begin(imposed)
        rows = keep_on(engine, before, rig)
        commit = Observed.of(engine, dict(rows))
        rows |= keep_on(engine, fed, rig)
        return Way(way.start, commit, Observed.of(engine, rows))

    return compare(way, uninterrupted, by="replay", rig=rig)


def cold(rig: Rig, ids: Sequence[int], **options: Any) -> Callable[[Imposed], Engine]:
    """What makes a sound engine after `ids`, with a fault's options where one is."""

    def begin(imposed: Imposed) -> Engine:
        more = {} if imposed is NOTHING else {"imposed": imposed}
        return grown(rig.reference, ids, **options, **more)

    return begin


def alone(rig: Rig, ids: Sequence[int], **options: Any) -> Callable[[Imposed], Engine]:
    """As `cold`, but no fork has part in it."""

    def begin(imposed: Imposed) -> Engine:
        engine = rig.engine(**{**options, **rig.needs}, imposed=imposed)
        engine.prefill(ids)
        return engine

    return begin


def around(config: ModelConfig, *, below: int, above: int) -> list[int]:
    """Cells from `below` under the sparse threshold to `above` over it."""
    last = threshold(config)
    return [n for n in range(last - below, last + above + 1) if n > 0]


def pad_of(model: Model) -> int:
    """The pad token that config.json names, or token 0."""
    config = read_object(model.checkpoint.path / "config.json")
    text = config.get("text_config", config)
    pad = text.get("pad_token_id") if isinstance(text, dict) else None
    if isinstance(pad, int) and 0 <= pad < model.config.vocab_size:
        return int(pad)
    return 0
