"""What every policy has to keep: lossless ones the text, approximate ones their word.

An approximate routing is another model. What is compared is that model with itself: a
window with other rejected rows (twin) and one of the kept rows alone (replay), with the
experts of the kept rows imposed as they were recorded.
"""

from collections.abc import Sequence
from inspect import signature
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from helpers import EXACT, after, greedy, prompt
from routed import seen
from self_drafts import drafted_way, even_model
from strata_nb import Model, Sampling, Session, load, policies
from strata_nb.draft import MoeSpeq, SpecMoe
from strata_nb.experts import Streaming
from strata_nb.gates.gate_3.rejection import other_rows
from strata_nb.gates.judge.floor import measure
from strata_nb.gates.records import By
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.travel import Way, Windows, compare
from strata_nb.models.qwen4_exp import Imposed
from strata_nb.policies import (
    NATURAL,
    AcceptMoe,
    Ahead,
    Farthest,
    FewerExperts,
    HardBudget,
    HotTemporal,
    LeastStale,
    Lfu,
    Lookahead,
    Moce,
    MoeSpec,
    Phases,
    Routing,
    SkipTail,
    SpMoe,
    sees_whole_window,
)
from strata_nb.policies.routing import Seen

EXPERTS, K, START = 16, 4, 27
PHAT = (1.0, 0.8, 0.5, 0.3, 0.2)
APPROXIMATE: tuple[Routing, ...] = (
    FewerExperts(),
    Moce(),
    Moce(2, 1.0, draft_protect=1, draft_bonus=4.0, rank_1_bonus=0.5),
    HardBudget(),
    HardBudget(1),
    MoeSpec(5),
    MoeSpec(5, "truncate"),
    MoeSpec(5, "truncate", keep_mass=False),
    AcceptMoe(PHAT),
    AcceptMoe(PHAT, protect_anchors=False),
    SkipTail(((0.03, 0.12, 0.3),) * 8),
    SkipTail(((0.1, 0.3),) * 8, ratio="pairwise", keep_mass=False),
    SkipTail(((0.05, 0.2),) * 8, drafts_only=True),
)
BY_ROW = tuple(
    routing
    for routing in APPROXIMATE
    if isinstance(routing, FewerExperts | SkipTail)
    and not getattr(routing, "drafts_only", False)
)
"""A row's own router logits decide, and nothing else."""
RESIDENT = (Moce, HardBudget)
"""They go by what was ready in a slot when the window began."""
WINDOWS = (((3, 4, 5, 6, 7), 2), ((9, 10, 11), 1))


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return even_model(tmp_path_factory.mktemp("even"))


@pytest.fixture(scope="module")
def slots(even: Model) -> Model:
    """Room for 7 of 16 experts a layer."""
    return load(even.checkpoint.path, experts=Streaming(slots=7))


def name(routing: Routing) -> str:
    return routing.name


# ------------------------------------------------------------------ lossless


def lossless(kind: str) -> tuple[dict[str, Any], Any]:
    """How the experts are kept, and who drafts."""
    buffer, pins = Lookahead(), HotTemporal(3, by="decay")
    slots: dict[str, Any] = {"slots": 7}
    found: dict[str, tuple[dict[str, Any], Any]] = {
        "specmoe": ({}, SpecMoe(3)),
        "specmoe, windows": ({}, SpecMoe(HotTemporal(2, windows=4), depth=7)),
        "moe-speq": ({}, MoeSpeq(depth=2)),
        "specmoe in slots": (slots | {"residency": pins}, SpecMoe(pins)),
        "sp-moe": (slots, SpecMoe(3, prefetch=SpMoe(4, "max"))),
        "phases": (
            slots | {"residency": Farthest(buffer)},
            MoeSpeq(buffer=buffer, prefetch=Phases(priming=0, confidence=0.2)),
        ),
        "ahead, too": (
            slots | {"residency": Lfu(), "prefetch": Ahead(2)},
            MoeSpeq(kind="q2", prefetch=SpMoe(8)),
        ),
        "stale": (slots | {"residency": LeastStale()}, SpecMoe(7, stop_below=0.01)),
    }
    return found[kind]


LOSSLESS = (
    "specmoe",
    "specmoe, windows",
    "moe-speq",
    "specmoe in slots",
    "sp-moe",
    "phases",
    "ahead, too",
    "stale",
)


DRAWN = Sampling(temperature=1.0, top_k=8, seed=4)


@pytest.fixture(scope="module")
def serial(even: Model) -> tuple[list[int], tuple[int, ...]]:
    """What is said without drafts: greedily, and drawn."""
    ids = prompt(even, START)
    drawn = Session(even, sampling=DRAWN).reply(ids, max_new=5, stop_ids=())
    return greedy(after(even, ids[:-1]), ids[-1], 8), drawn.tokens


@pytest.mark.parametrize("kind", LOSSLESS)
def test_the_text_is_that_of_serial_decoding(
    even: Model, kind: str, serial: tuple[list[int], tuple[int, ...]]
) -> None:
    """Greedy, and drawn under the rule that keeps the text."""
    ids = prompt(even, START)
    how, drafter = lossless(kind)
    model = load(even.checkpoint.path, experts=Streaming(**how)) if how else even
    session = Session(model, drafter=drafter)
    reply = session.reply(ids, max_new=8, stop_ids=())
    assert list(reply.tokens) == serial[0]
    assert reply.offered > 0
    assert all(record.approximate == () for record in session.trace)
    drawn = Session(model, drafter=drafter, sampling=DRAWN)
    assert drawn.reply(ids, max_new=5, stop_ids=()).tokens == serial[1]


# ------------------------------------------------------------------ approximate


def whole_way(rig: Rig, windows: Windows, **options: Any) -> Way:
    ids = rig.text(START)
    engine = rig.subject([], **options)
    # Naturally routed, whatever the policy: rows of a prompt may not be thinned alike.
    engine._now = rig.reference(ids)._now
    return drafted_way(engine, None, ids, windows, rig.text(3, seed=5))


def recorded(way: Way) -> Imposed:
    """The experts of all rows that were kept."""
    return Imposed(
        {
            (layer, cell): made.experts
            for cell, row in way.after.rows.items()
            for layer, made in enumerate(row.layers)
        }
    )


@pytest.fixture
def rig(routing: Routing, even: Model, slots: Model) -> Rig:
    """The model that a routing shows what it does on."""
    model = slots if isinstance(routing, RESIDENT) else even
    # Where rows matter to the bits, a near-tie is told by the engine's rounding.
    return Rig(model, floor=None if EXACT else measure(model))


def same_as(way: Way, other: Way, by: By, rig: Rig) -> bool:
    return compare(way, lambda _: other, by=by, rig=rig) == []


@pytest.mark.parametrize("routing", APPROXIMATE, ids=name)
def test_twin_and_replay_are_equal_with_the_experts_imposed(
    rig: Rig, routing: Routing
) -> None:
    way = whole_way(rig, WINDOWS, routing=routing)
    imposed = recorded(way)
    size = rig.model.config.vocab_size
    twin = [(other_rows(ids, keep, size), keep) for ids, keep in WINDOWS]
    kept = [(ids[:keep], keep) for ids, keep in WINDOWS]
    both: tuple[tuple[By, Windows], ...] = (("twin", twin), ("replay", kept))
    for by, windows in both:
        again = whole_way(rig, windows, routing=routing, imposed=imposed)
        assert same_as(way, again, by, rig), by
    assert not same_as(way, whole_way(rig, WINDOWS), "twin", rig), "it changes nothing"


@pytest.mark.parametrize("routing", APPROXIMATE, ids=name)
def test_without_the_experts_imposed_a_twin_is_the_same_if_rows_are_their_own(
    rig: Rig, routing: Routing
) -> None:
    """A twin of a routing that looks at the whole window is another computation."""
    ids, keep = WINDOWS[0]
    ready = {
        (layer, START): np.flatnonzero(
            np.random.default_rng(layer).random(EXPERTS) < 0.5
        )
        for layer in range(8)
    }
    more: dict[str, Any] = (
        {"imposed": Imposed(resident=ready)} if isinstance(routing, RESIDENT) else {}
    )
    size = rig.model.config.vocab_size
    way, twin = (
        whole_way(rig, [(rows, keep)], routing=routing, **more).commit.rows
        for rows in (ids, other_rows(ids, keep, size))
    )
    same = all(np.array_equal(way[cell].logits, twin[cell].logits) for cell in way)
    assert same != sees_whole_window(routing)


@pytest.mark.parametrize("routing", BY_ROW, ids=name)
def test_what_goes_by_each_row_alone_is_its_own_serial_decoding(
    rig: Rig, routing: Routing
) -> None:
    """Others go by the root, the window or its residents."""
    way = whole_way(rig, WINDOWS, routing=routing)
    single = [((token,), 1) for ids, keep in WINDOWS for token in ids[:keep]]
    assert same_as(way, whole_way(rig, single, routing=routing), "serial", rig)


# ------------------------------------------------------------------ the property


def changed(routing: Routing, *, tries: int) -> bool:
    """Whether other rejected rows ever change the experts of kept ones."""
    for seed in range(tries):
        rng = np.random.default_rng(seed)
        logits = 2 * rng.standard_normal((5, EXPERTS))
        keep = int(rng.integers(1, 5))
        view = Seen(0, rng.random(EXPERTS) < 0.6)
        other = logits.copy()
        other[keep:] = 2 * rng.standard_normal((5 - keep, EXPERTS))
        pair = [
            routing.choose(mx.array(one, mx.float32), top_k=K, seen=view).recorded()
            for one in (logits, other)
        ]
        if (pair[0][:keep] != pair[1][:keep]).any():
            return True
    return False


@pytest.mark.parametrize("routing", [NATURAL, *APPROXIMATE], ids=name)
def test_rejected_rows_change_kept_ones_where_the_policy_says_so(
    routing: Routing,
) -> None:
    """One case is enough for those that look at all rows; others have none."""
    assert changed(routing, tries=60) == sees_whole_window(routing)


def test_those_that_look_at_the_whole_window_are_these() -> None:
    found = {type(r).__name__ for r in APPROXIMATE if sees_whole_window(r)}
    assert found == {"MoeSpec", "AcceptMoe"}


# ------------------------------------------------------------------ their word


def _routes(kind: type) -> bool:
    """A policy that selects drafts chooses, too; it knows nothing of top K."""
    choose = getattr(kind, "choose", None)
    return choose is not None and "top_k" in signature(choose).parameters


def test_every_routing_of_the_package_is_held_to_this() -> None:
    held = {type(routing) for routing in (NATURAL, *APPROXIMATE)}
    kinds = [getattr(policies, n) for n in policies.__all__]
    routings = {
        kind
        for kind in kinds
        if isinstance(kind, type) and kind is not Routing and _routes(kind)
    }
    assert routings == held


@pytest.mark.parametrize("routing", [NATURAL, *APPROXIMATE], ids=name)
def test_it_says_whether_it_is_exact(even: Model, routing: Routing) -> None:
    assert ("approximate" in routing.name) == (not routing.lossless)
    engine = after(even, prompt(even, 5), routing=routing)
    window = engine.run([3, 4, 5])
    engine.finish(window, stop_ids=())
    record = engine.commit(window).record
    assert record.approximate == (() if routing.lossless else (routing.name,))


@pytest.mark.parametrize("routing", [NATURAL, *APPROXIMATE], ids=name)
def test_what_was_recorded_decides_once_more(rig: Rig, routing: Routing) -> None:
    """Router logits and residents of a record give its experts again, offline."""
    engine = after(rig.model, prompt(rig.model, START), routing=routing)
    for number in range(2):
        window = engine.run(prompt(rig.model, 5, seed=number))
        engine.finish(window, stop_ids=())
        for layer, made in enumerate(window.layers):
            ready: Sequence[int] | None = (
                None if made.resident_ids is None else made.resident_ids.tolist()
            )
            view = seen(ready, experts=EXPERTS)
            view = Seen(layer, view.resident)
            assert made.router_logits is not None
            logits = mx.array(made.router_logits)
            again = routing.choose(logits, top_k=K, seen=view)
            np.testing.assert_array_equal(again.recorded(), made.expert_ids)
        engine.commit(window, keep=2, force=True)
