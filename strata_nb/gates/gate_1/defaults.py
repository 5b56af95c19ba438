"""gate_1: what nobody asked for is off, and stays off whatever was done before."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from strata_kernels.index_blocks import choose_blocks
from strata_nb.engine import Engine
from strata_nb.gates.gate_1.outside import WATCHES, findings
from strata_nb.gates.records import Case, CaseResult, Finding, Profile
from strata_nb.gates.stage.child import asked_of
from strata_nb.gates.stage.places import CONTEXTS, start_of
from strata_nb.gates.stage.rig import Rig
from strata_nb.models.qwen4_exp import NOTHING, as_built
from strata_nb.models.qwen4_exp.evaluation import best_tokens
from strata_nb.packs import ModelConfig
from strata_nb.policies.routing import NATURAL, Seen
from strata_nb.session import generate
from strata_nb.trace import WindowRecord
from strata_nb.window import Window

NAME = "gate_1"
TITLE = "defaults: no draft, no approximation, nothing fetched, unless asked"

_NEW = 8
_PROMPT = 24
_WIDTHS = (1, 4, 8)


def cases(config: ModelConfig, profile: Profile, context: int) -> list[Case]:
    """All cases of `profile`, in a fixed order.

    Args:
        config: of the model.
        profile: "quick" looks at choices at one residue, the others at all.
        context: cells that the sequence may have.
    """
    found = [_case("options"), _case("ties"), _case("windows")]
    found += [_case("after", verb=verb) for verb in VERBS]
    residues = range(1 if profile == "quick" else config.indexer_compress_ratio)
    found += [
        _case("choices", context=place, residue=residue)
        for place in CONTEXTS
        for residue in residues
        if start_of(config, place, residue) + max(_WIDTHS) <= context
    ]
    return found + [_case(name, model=asked_of(config)) for name in WATCHES]


def _case(family: str, **params: Any) -> Case:
    group = "outside" if family in WATCHES else "engine"
    # Nothing is planted into what gets no options: no part is looked for here.
    return Case(NAME, family, tuple(params.items()), touches=(), group=group)


def run(cases: Sequence[Case], rig: Rig) -> Iterator[CaseResult]:
    """Run cases of one group.

    Args:
        cases: all of one group.
        rig: gives the model; a fault of it is of no account here.
    """
    told: dict[str, dict[str, Any]] = {}
    for case in cases:
        if case.family in WATCHES:
            yield CaseResult(case, tuple(findings(case, rig, told)))
            continue
        engine = rig.model.engine()
        found, engine = _FAMILIES[case.family](case, rig, engine)
        yield CaseResult(case, tuple(found), _changed(rig, engine))


def _changed(rig: Rig, engine: Engine) -> tuple[str, ...]:
    now, empty = engine.digests(), rig.known("empty", rig.model.engine().digests)
    return tuple(p for p in now if p != "position" and now[p] != empty[p])


Found = tuple[list[Finding], Engine]


def wrong(note: str, *, what: str = "rule", layer: int | None = None) -> Finding:
    """A default that was not kept; `note` says what was wanted and what came."""
    return Finding("fault", "rule", "after", what, layer=layer, note=note)


def _options(case: Case, rig: Rig, engine: Engine) -> Found:
    found = unasked(engine)
    fresh = (engine.position, engine.root, engine.window, len(engine.trace))
    if fresh != (0, None, None, 0):
        found.append(wrong("a new engine wanted empty: no cell, root, window, record"))
    return found, engine


def unasked(engine: Engine) -> list[Finding]:
    """Options of `engine` that nobody asked for."""
    found = [
        wrong(f"option {name}: wanted none, got {engine.options[name]!r}")
        for name in sorted({*engine.options} - {"fold", "partial", "kv", "dtype"})
    ]
    backend: Any = engine.backend
    options = getattr(backend, "options", None)
    if options is None:
        return found
    checks = (
        ("routing", options.routing is NATURAL, options.routing.name),
        ("lossless", options.routing.lossless is True, options.routing.lossless),
        ("parts as built", options.vary is as_built, "a variant"),
        ("imposed decisions", options.imposed is NOTHING, "some"),
    )
    found += [
        wrong(f"{n}: the default wanted, got {got}") for n, ok, got in checks if not ok
    ]
    return found


def _windows(case: Case, rig: Rig, engine: Engine) -> Found:
    engine.prefill(rig.text(_PROMPT))
    return _plain(engine, rig.text(1, seed=77)[0]), engine


def _plain(engine: Engine, root: int) -> list[Finding]:
    """Generate without asking for drafts: every window is one of plain decoding."""
    first = len(engine.trace)
    text = generate(engine, root, max_new=_NEW, stop_ids=())
    records = list(engine.trace)[first:]
    found = [f for record in records for f in undrafted(record)]
    counts = (len(text.tokens), text.windows, text.offered, text.accepted)
    if counts != (_NEW, _NEW, 0, 0):
        found.append(
            wrong(
                f"tokens, windows, offered, accepted: wanted {_NEW}, {_NEW}, 0, 0, got "
                f"{', '.join(map(str, counts))}"
            )
        )
    return found


def undrafted(record: WindowRecord) -> list[Finding]:
    """What in the record of a window is not plain, exact, greedy decoding."""
    wanted = {
        "T": 1,
        "drafter": "none",
        "offered": 0,
        "accepted": 0,
        "rule": "greedy",
        "forced": False,
        "approximate": (),
    }
    return [
        wrong(f"{name} of a window: wanted {right!r}, got {getattr(record, name)!r}")
        for name, right in wanted.items()
        if getattr(record, name) != right
    ]


def _after(case: Case, rig: Rig, engine: Engine) -> Found:
    """Do something with `engine`; then it has to decode as if nothing had been done."""
    engine.prefill(rig.text(_PROMPT))
    engine = VERBS[str(case["verb"])](rig, engine)
    found = unasked(engine)
    root = rig.text(1, seed=78)[0]
    before = [*rig.text(_PROMPT), *_more(rig)][: engine.position]
    want = rig.known(f"after {len(before)}", lambda: _decoded(rig, before, root))
    found += _plain(engine, root)
    got = [record.emitted[-1] for record in list(engine.trace)[-_NEW:]]
    if tuple(got) != want:
        found.append(wrong(f"wanted {want}, got {tuple(got)}", what="token"))
    return found, engine


def _decoded(rig: Rig, before: Sequence[int], root: int) -> tuple[int, ...]:
    engine = rig.model.engine()
    engine.prefill(before)
    return generate(engine, root, max_new=_NEW, stop_ids=()).tokens


def _more(rig: Rig) -> list[int]:
    return rig.text(8, seed=3)


def _forced(rig: Rig, engine: Engine) -> Engine:
    for rows in (_more(rig)[:3], _more(rig)[3:8]):
        window = engine.run(rows, drafter="somebody")
        engine.finish(window, stop_ids=())
        engine.commit(window, keep=window.T, force=True)
    return engine


def _rejected(rig: Rig, engine: Engine) -> Engine:
    for token in _more(rig)[:3]:
        window = engine.run([token, *rig.text(5, seed=4)], drafter="somebody")
        engine.finish(window, stop_ids=())
        engine.commit(window, keep=1)
    return engine


def _aborted(rig: Rig, engine: Engine) -> Engine:
    engine.abort(engine.run(_more(rig)))
    window = engine.run(_more(rig)[:4])
    engine.finish(window)
    engine.abort(window)
    return engine


def _forked(rig: Rig, engine: Engine) -> Engine:
    other = engine.fork()
    generate(engine, 0, max_new=3, drafts=lambda text: rig.text(3), stop_ids=())
    return _forced(rig, other).fork()


def _drafted(rig: Rig, engine: Engine) -> Engine:
    other = engine.fork()
    generate(other, 0, max_new=4, drafts=lambda text: rig.text(7), stop_ids=())
    return _rejected(rig, engine)


def _restored(rig: Rig, engine: Engine) -> Engine:
    _rejected(rig, engine)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        engine.save(path)
        other = rig.model.engine()
        other.restore(path)
    return other


VERBS: Mapping[str, Callable[[Rig, Engine], Engine]] = {
    "drafted": _drafted,
    "forced": _forced,
    "rejected": _rejected,
    "aborted": _aborted,
    "forked": _forked,
    "restored": _restored,
}
"""What may come before; each leaves some of the same tokens committed."""


def _choices(case: Case, rig: Rig, engine: Engine) -> Found:
    place, residue = str(case["context"]), int(case["residue"])
    engine.prefill(rig.text(start_of(rig.model.config, place, residue)))
    found = []
    for width in _WIDTHS:
        other = engine.fork()
        window = other.run(rig.text(width, seed=6))
        found += unnatural(window, rig.model.config)
        other.abort(window)
    return found, engine


def unnatural(window: Window, config: ModelConfig) -> list[Finding]:
    """Experts, blocks and predictions that the model's own scores do not give.

    Worked out a second time, on the host: a stable sort takes the lowest of equals.
    """
    found = []
    for layer, made in enumerate(window.layers):
        if made.router_logits is not None:
            want = _best(made.router_logits, config.num_experts_per_tok)
            if not np.array_equal(want, made.expert_ids):
                note = f"wanted {want.tolist()}, got {made.expert_ids.tolist()}"
                found.append(wrong(note, what="experts", layer=layer))
        if made.blocks is not None and made.block_scores is not None:
            want = _best_blocks(made.block_scores, config.indexer_blocks)
            if not np.array_equal(want, made.blocks):
                note = f"wanted {want.tolist()}, got {made.blocks.tolist()}"
                found.append(wrong(note, what="blocks", layer=layer))
    want, got = window.logits.argmax(axis=-1).tolist(), window.forward.greedy()[0]
    if want != got:
        found.append(wrong(f"wanted {want}, got {got}", what="token"))
    return found


def _best(scores: np.ndarray, count: int) -> np.ndarray:
    order: np.ndarray = np.argsort(-scores, axis=-1, kind="stable")
    return order[:, :count]


def _best_blocks(scores: np.ndarray, count: int) -> np.ndarray:
    """Ascending, then -1 where a row sees fewer; [T, at most `count`]."""
    order = _best(scores, count)
    seen = np.isfinite(np.take_along_axis(scores, order, axis=-1))
    past = scores.shape[1]
    ascending = np.sort(np.where(seen, order, past), axis=-1)
    return np.where(ascending < past, ascending, -1)


def _ties(case: Case, rig: Rig, engine: Engine) -> Found:
    """Equal scores, planted: the lowest expert, block and token has to win."""
    backend: Any = engine.backend
    count = rig.model.config.num_experts
    chosen = backend.options.routing.choose(
        mx.ones((2, count)), top_k=count // 2, seen=Seen(0, None)
    )
    blocks, _ = choose_blocks(mx.ones((1, 6)), mx.array([5]), budget=3)
    tokens, _ = best_tokens(mx.array([[1.0, 3.0, 3.0, 3.0]]))
    checks = (
        ("experts", chosen.recorded()[1].tolist(), [*range(count // 2)]),
        ("blocks", np.array(blocks)[0].tolist(), [0, 1, 2]),
        ("token", np.array(tokens).tolist(), [1]),
    )
    found = [
        wrong(f"of equals wanted {want}, got {got}", what=what)
        for what, got, want in checks
        if got != want
    ]
    return found, engine


_FAMILIES: Mapping[str, Callable[[Case, Rig, Engine], Found]] = {
    "options": _options,
    "ties": _ties,
    "windows": _windows,
    "after": _after,
    "choices": _choices,
}
