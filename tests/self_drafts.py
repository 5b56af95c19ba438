"""What the tests of self-drafting need: a drafter beside an engine, and its way."""

from collections.abc import Sequence
from pathlib import Path

from helpers import after
from strata_nb import Model, load
from strata_nb.draft import SelfDrafter
from strata_nb.engine import Engine
from strata_nb.gates.judge.observed import Observed, RowSeen, see
from strata_nb.gates.stage.travel import Way, Windows
from tiny import tiny_config, write_checkpoint


def even_model(folder: Path) -> Model:
    """TINY with experts of 32 features, which a group of 32 divides."""
    config = tiny_config(moe_intermediate_size=32)
    return load(write_checkpoint(folder, config, seed=5))


def beside(
    model: Model, drafter: SelfDrafter, ids: Sequence[int], **options: object
) -> Engine:
    """An engine that holds `ids` but for the last, which `drafter` follows."""
    engine = after(model, ids[:-1], **options)
    drafter.assign(ids)
    drafter.follow(engine)
    return engine


def drafted_way(
    engine: Engine,
    drafter: SelfDrafter | None,
    text: Sequence[int],
    windows: Windows,
    rest: Sequence[int],
) -> Way:
    """Windows kept in part by force, with a draft made before each and left aside.

    Args:
        engine: holds `text`.
        drafter: follows it; None: nothing is drafted.
        text: what the engine holds.
        windows: rows and keep of each.
        rest: rows that follow, all kept.
    """
    start = engine.leaves()
    rows: dict[int, RowSeen] = {}
    held = list(text)
    for ids, keep in windows:
        if drafter is not None:
            drafter.assign([*held, ids[0]])
            assert len(drafter.propose(4).tokens) == 4
        rows |= see(engine, ids, keep=keep)
        held += ids[:keep]
    commit = Observed(engine.position, engine.leaves(), dict(rows))
    rows |= see(engine, rest, keep=len(rest))
    return Way(start, commit, Observed(engine.position, engine.leaves(), rows))
