"""gate_2: two ways to the same place, such as windows of eight rows and of one.

`PAIRS` is the registry. A room that adds a second way to compute what another way
computes already adds its pair here: experts streamed or resident, a router fused or
not, knobs for all rows or for drafts alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from strata_nb.engine import Engine
from strata_nb.gates.gate_2 import budget, choices, law, routers, streamed
from strata_nb.gates.gate_2.pair import Pair, Settings, not_asked, two_ways
from strata_nb.gates.gate_2.prompts import chunked, row_by_row
from strata_nb.gates.judge.floor import fits
from strata_nb.gates.judge.observed import Observed, RowSeen, see
from strata_nb.gates.judge.verdict import judge
from strata_nb.gates.records import Case, CaseResult, Profile, Scalar
from strata_nb.gates.stage.places import CONTEXTS, start_of
from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.travel import Way, Windows, travel
from strata_nb.model import load
from strata_nb.models.qwen4_exp import NOTHING, Imposed
from strata_nb.packs import ModelConfig
from strata_nb.parts import KV_KINDS, KvKind

NAME = "gate_2"
TITLE = "the same text whatever the window"

ROWS = 10
"""Rows that windows of each width share out among themselves."""

CHUNKS: dict[str, tuple[int | str, ...]] = {
    "below": (1, 3, 8, 31, "all"),
    "at": (),
    "above": (8, 31, "all"),
    "page": (),
}
"""Rows of a prompt window, of the quick profile by context; the others take all. A
prompt that ends at the threshold has no row that chooses; one that ends with a page is
taken in all the same by the windows that begin there."""

WINDOWS: Windows = tuple(
    (tuple(range(3 * i, 3 * i + width)), keep)
    for i, (width, keep) in enumerate(((4, 2), (1, 1), (8, 8), (3, 1), (6, 2)))
)
"""Rows, given as places in a text, and keep of windows in a row: before one of them
there is a fold of every kind to be taken in, and there is none."""

_WIDTHS = range(2, 9)
_AFTER = 4
_GROUP, _REWOUND = 64, 6
_KEEPS = range(1, _REWOUND + 1)
_MODES = (("lazy", True), ("eager", False), ("eager", True))


def cases(config: ModelConfig, profile: Profile, context: int) -> list[Case]:
    """All cases of `profile`, pair by pair.

    Args:
        config: of the model.
        profile: "quick" takes one residue a context, the others all.
        context: cells that the sequence may have.
    """
    return [
        Case(NAME, name, tuple(params.items()), touches=pair.touches, group=name)
        for name, pair in PAIRS.items()
        for params in pair.settings(config, profile, context)
    ]


def run(cases: Sequence[Case], rig: Rig) -> Iterator[CaseResult]:
    """Run cases of one group.

    Args:
        cases: all of one group.
        rig: the model, the fault in question, the floor.
    """
    for case in cases:
        yield PAIRS[case.family].ask(case, rig)


def _places(config: ModelConfig, profile: Profile, context: int) -> Settings:
    """Contexts and residues of the first window; a quick profile has one residue."""
    ratio = config.indexer_compress_ratio
    found: Settings = []
    for name in CONTEXTS:
        for residue in [3 % ratio] if profile == "quick" else range(ratio):
            start = start_of(config, name, residue)
            if start + 2 * ROWS + _AFTER <= context:
                found.append({"context": name, "residue": residue})
    return found


def _start(case: Case, rig: Rig) -> list[int]:
    """What lies before the windows: the beginning of one text for all of them."""
    config = rig.model.config
    residue = config.indexer_compress_ratio - 1
    last = max(start_of(config, context, residue) for context in CONTEXTS)
    return rig.text(last)[
        : start_of(config, str(case["context"]), int(case["residue"]))
    ]


def _begin(ids: Sequence[int], rig: Rig, imposed: Imposed, **options: Scalar) -> Engine:
    if imposed is NOTHING:
        return rig.reference(ids, **options)
    return rig.reference(ids, **options, imposed=imposed)


def _in_windows_of(rig: Rig, width: int) -> Windows:
    rows = rig.text(ROWS, seed=8)
    pieces = [rows[i : i + width] for i in range(0, ROWS, width)]
    return [(piece, len(piece)) for piece in pieces]


# ---------------------------------------------------------------- windows of any width


def _widths(config: ModelConfig, profile: Profile, context: int) -> Settings:
    found: Settings = []
    for place in _places(config, profile, context):
        for kv in _kinds(config):
            widths: Sequence[int] = _WIDTHS
            if profile == "quick" and kv != "float32":
                widths = (3, 8) if place["context"] == "at" else ()
            found += [{**place, "kv": kv, "T": width} for width in widths]
    return found


def _kinds(config: ModelConfig) -> list[KvKind]:
    """Those that the model can have, the plainest first."""
    return [k for k in KV_KINDS if k != "int8" or config.head_dim % 32 == 0]


def _wide(case: Case, rig: Rig) -> Way:
    engine = rig.subject(_start(case, rig), kv=case["kv"])
    windows = _in_windows_of(rig, int(case["T"]))
    return travel(engine, windows, rig.text(_AFTER, seed=5), rig=rig)


def _narrow(case: Case, rig: Rig, imposed: Imposed) -> Way:
    def go() -> Way:
        engine = _begin(_start(case, rig), rig, imposed, kv=case["kv"])
        windows = _in_windows_of(rig, 1)
        return travel(engine, windows, rig.text(_AFTER, seed=5), rig=rig)

    if imposed is not NOTHING:
        return go()
    place = "/".join(str(case[name]) for name in ("context", "residue", "kv"))
    return rig.known(f"gate_2 rows {place}", go)


# ---------------------------------------------------------------- pieces of a prompt


def _chunks(config: ModelConfig, profile: Profile, context: int) -> Settings:
    found: Settings = []
    for place in _places(config, profile, context):
        name = str(place["context"])
        length = start_of(config, name, int(place["residue"]))
        sizes = CHUNKS[name if profile == "quick" else "below"]
        found += [
            {**place, "chunk": size}
            for size in sizes
            if isinstance(size, str) or size < length
        ]
    return found


def _chunked(case: Case, rig: Rig) -> Way:
    ids, size = _start(case, rig), case["chunk"]
    rows = len(ids) if size == "all" else int(size)
    return chunked(rig, ids, rows, rig.text(_AFTER, seed=5))


def _unchunked(case: Case, rig: Rig, imposed: Imposed) -> Way:
    ids, config = _start(case, rig), rig.model.config
    starts = sorted(start_of(config, c, int(case["residue"])) for c in CONTEXTS)
    shorter = [start for start in starts if start < len(ids)]
    after = rig.text(_AFTER, seed=5)
    return row_by_row(rig, ids, after, imposed, shorter=shorter)


# ---------------------------------------------------------------- modes of the fold


def _folds(config: ModelConfig, profile: Profile, context: int) -> Settings:
    return [
        {**place, "fold": fold, "partial": partial}
        for place in _places(config, profile, context)
        for fold, partial in _MODES
    ]


def _folded(case: Case, rig: Rig) -> Way:
    options = {"fold": case["fold"], "partial": case["partial"]}
    return _rejecting(rig, rig.subject(_start(case, rig), **options))


def _plainly(case: Case, rig: Rig, imposed: Imposed) -> Way:
    def go() -> Way:
        engine = _begin(_start(case, rig), rig, imposed, fold="lazy", partial=False)
        return _rejecting(rig, engine)

    if imposed is not NOTHING:
        return go()
    return rig.known(f"gate_2 folds {case['context']}/{case['residue']}", go)


def _rejecting(rig: Rig, engine: Engine) -> Way:
    text = rig.text(32, seed=9)
    windows = [([text[i] for i in places], keep) for places, keep in WINDOWS]
    return travel(engine, windows, rig.text(_AFTER, seed=5), rig=rig)


# ---------------------------------------------------------------- rewinds of K and V


def _rewinds(config: ModelConfig, profile: Profile, context: int) -> Settings:
    """Kept ends before, on and past the 64th cell: where groups of cells would end."""
    found: Settings = []
    for index, cells in enumerate(range(_GROUP - 4, _GROUP + 5)):
        keeps = (index % _REWOUND + 1,) if profile == "quick" else _KEEPS
        for kv in _kinds(config)[1:] if profile != "quick" else _kinds(config)[-1:]:
            found += [{"cells": cells, "kv": kv, "keep": keep} for keep in keeps]
    return [f for f in found if int(f["cells"]) + _REWOUND + _AFTER <= context]


def _rewound(case: Case, rig: Rig) -> Way:
    rows = rig.text(_REWOUND, seed=10)
    engine = rig.subject(rig.text(int(case["cells"])), kv=case["kv"])
    windows = [(rows, int(case["keep"]))]
    return travel(engine, windows, rig.text(_AFTER, seed=5), rig=rig)


def _never_run(case: Case, rig: Rig, imposed: Imposed) -> Way:
    """The kept rows alone: the others were never there to change a scale."""
    rows = rig.text(_REWOUND, seed=10)[: int(case["keep"])]
    engine = _begin(rig.text(int(case["cells"])), rig, imposed, kv=case["kv"])
    return travel(engine, [(rows, len(rows))], rig.text(_AFTER, seed=5), rig=rig)


# ---------------------------------------------------------------- float64


def _oracle_settings(config: ModelConfig, profile: Profile, context: int) -> Settings:
    # One cell short of a block's end, so that the open block has keys to compare.
    cells = start_of(config, "above", config.indexer_compress_ratio - 1) + 8
    widths = (8,) if profile == "quick" else range(1, 9)
    return [{"cells": min(cells, context), "T": width} for width in widths]


def _against_oracle(case: Case, rig: Rig) -> CaseResult:
    """Every row from the first on, so that all that decides anything is compared.

    The oracle decides for itself; where rounding turned a choice over, the engine runs
    again with the oracle's.
    """
    if rig.model.kind == "oracle" or not fits(rig.model.checkpoint):
        return not_asked(case, "the float64 oracle cannot hold this model")
    ids = rig.text(int(case["cells"]))
    oracle = rig.known(f"gate_2 oracle {len(ids)}", lambda: _of_oracle(rig, ids))
    start = rig.subject([]).leaves()

    def ours(imposed: Imposed) -> Observed:
        more = {} if imposed is NOTHING else {"imposed": imposed}
        return _all_seen(rig.subject([], **more), ids, int(case["T"]))

    seen = ours(NOTHING)
    found = judge(
        oracle,
        lambda imposed: seen if imposed is NOTHING else ours(imposed),
        by="serial",
        moment="after",
        ratio=rig.model.config.indexer_compress_ratio,
        floor=rig.floor,
        exact=False,
    )
    told = [
        replace(f, note=f"of the oracle: {f.note}" if f.note else "") for f in found
    ]
    return CaseResult(case, tuple(told), Way(start, seen, seen).changed)


def _of_oracle(rig: Rig, ids: Sequence[int]) -> Observed:
    model = load(rig.model.checkpoint.path, backend="oracle")
    return _all_seen(model.engine(**rig.head), ids, 8)


def _all_seen(engine: Engine, ids: Sequence[int], width: int) -> Observed:
    rows: dict[int, RowSeen] = {}
    for at in range(0, len(ids), width):
        piece = ids[at : at + width]
        rows |= see(engine, piece, keep=len(piece))
    return Observed(engine.position, engine.leaves(), rows)


PAIRS: dict[str, Pair] = {
    "windows": Pair(
        "windows of 2 to 8 rows, and rows one at a time",
        _widths,
        two_ways(_wide, _narrow, by="serial"),
    ),
    "chunks": Pair(
        "a prompt in pieces of any size, and row by row with predictions",
        _chunks,
        two_ways(_chunked, _unchunked, by="serial"),
    ),
    "folds": Pair(
        "the fold lazy or eager, from the root's state or not",
        _folds,
        two_ways(_folded, _plainly, by="replay"),
    ),
    "rewinds": Pair(
        "K and V of each kind after a window kept in part, and its kept rows alone",
        _rewinds,
        two_ways(_rewound, _never_run, by="replay"),
    ),
    "oracle": Pair(
        "the engine, and the same mathematics in float64",
        _oracle_settings,
        _against_oracle,
    ),
    "choices": Pair(
        "tokens chosen in windows with drafts, under penalties, and row by row",
        choices.settings,
        choices.ask,
        choices.TOUCHES,
    ),
    "streamed": Pair(
        "experts in slots, read as they are wanted, and all of them in memory",
        streamed.settings,
        streamed.ask,
        streamed.TOUCHES,
    ),
    "budget": Pair(
        "drafts under a hard budget, and the experts that it leaves them",
        budget.settings,
        budget.ask,
        budget.TOUCHES,
    ),
    "routers": Pair(
        "the router's kernels in one launch, in three, and the rule in float64",
        routers.settings,
        routers.ask,
        routers.TOUCHES,
    ),
    "kernels": Pair(
        "an engine by its kernels, and by the references beside them",
        routers.engine_settings,
        routers.ask_engine,
    ),
    "law": Pair(
        "tokens chosen in windows with drafts, by counts, and the law they have alone",
        law.settings,
        law.ask,
        law.TOUCHES,
    ),
}
