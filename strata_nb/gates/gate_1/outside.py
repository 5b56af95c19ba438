"""What a model does to the outside, and the outside to it: asked in another process."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx

from strata_nb.gates.records import Case, Finding
from strata_nb.gates.stage.child import ChildError, answer
from strata_nb.gates.stage.rig import Rig
from strata_nb.model import load
from strata_nb.session import generate

PREFIX = "STRATA_"
KNOWN: tuple[str, ...] = ("STRATA_KERNELS",)
"""Variables that the product documents and reads; none of them may choose a policy."""

HOSTILE = {
    "STRATA_METAL_MOCE_PROTECT": "3",
    "STRATA_METAL_MOCE_BONUS": "0.85",
    "STRATA_METAL_SPEC_MOCE_PROTECT": "1",
    "STRATA_METAL_SPEC_MOCE_BONUS": "1.2",
    "STRATA_METAL_SPEC_ROOT_PREFETCH": "1",
    "STRATA_METAL_PARTIAL": "1",
    "STRATA_METAL_ROUTE": "1",
    "STRATA_SUFFIX_DRAFT": "3",
    "STRATA_DRAFTER": "suffix",
    "STRATA_ROUTING": "fewer",
    "STRATA_FAULT": "qsa_ring",
}
"""Names under which engines of this kind take options; set to what would change a text.
Any other variable of the prefix answers "1" when it is asked for."""

_NEW = 8
_PROMPT = 24

_WATCHED = Path(__file__).with_name("watched.py")

Told = dict[str, Any]


def findings(case: Case, rig: Rig, told: dict[str, Told]) -> Iterator[Finding]:
    """What the process did that nobody asked for.

    Args:
        case: its family is one of `WATCHES`, its "model" what `asked_of` says.
        rig: gives the model.
        told: answers by model; the process is asked once for all cases.
    """
    name = str(case["model"])
    try:
        if name not in told:
            told[name] = answer(_WATCHED, _request(rig, name), env=HOSTILE)
    except ChildError as error:
        yield _wrong(str(error))
        return
    yield from WATCHES[case.family](rig, name, told[name])


def _request(rig: Rig, name: str) -> dict[str, Any]:
    own = name == "own"
    return {
        "model": str(rig.model.checkpoint.path) if own else name,
        "dtype": rig.model.dtype if own else None,
        "device": "cpu" if mx.default_device() == mx.cpu else "gpu",
        "prompt": _text_for(rig, name),
        "max_new": _NEW,
        "prefix": PREFIX,
        "known": KNOWN,
    }


def _text_for(rig: Rig, name: str) -> list[int]:
    return rig.text(_PROMPT) if name == "own" else [*range(100, 100 + _PROMPT)]


def _wrong(note: str, *, what: str = "rule") -> Finding:
    return Finding("fault", "rule", "after", what, note=note)


def _environment(rig: Rig, name: str, told: Told) -> Iterator[Finding]:
    """The same text, state and options as in this process, without the variables."""
    engine = (rig.model if name == "own" else load(name)).engine()
    *before, root = _text_for(rig, name)
    engine.prefill(before)
    text = generate(engine, root, max_new=_NEW, stop_ids=())
    if told["tokens"] != list(text.tokens):
        note = f"wanted {list(text.tokens)}, got {told['tokens']}"
        yield _wrong(note, what="token")
    if told["options"] != dict(engine.options):
        yield _wrong(f"options: wanted {dict(engine.options)}, got {told['options']}")
    if told["rows"] != [1] * _NEW:
        yield _wrong(f"rows of the windows: wanted 1 each, got {told['rows']}")
    if rig.exact and told["digests"] != engine.digests():
        yield _wrong("the state differs from that without the variables")
    for variable in told["asked"]:
        yield _wrong(f"{variable} was read; wanted no variable to be asked for")
    yield from _blind(told, "variable")


def _outside(rig: Rig, name: str, told: Told) -> Iterator[Finding]:
    """No network, no file written or changed, no process started."""
    for kind, what in told["seen"]:
        yield _wrong(f"{kind}: wanted nothing, got {what}")
    yield from _blind(told, "network", "file")


def _chance(rig: Rig, name: str, told: Told) -> Iterator[Finding]:
    """Random sources that anybody may share are where they were."""
    for source in told["drawn"]:
        yield _wrong(f"{source} was drawn from; greedy decoding needs no chance")
    yield from _blind(told, "random source")


def _blind(told: Told, *kinds: str) -> Iterator[Finding]:
    """Nothing was seen is worth something only where the same, planted, is seen."""
    for kind in kinds:
        if not told["control"][kind]:
            yield _wrong(f"the watch does not see a {kind} when there is one")


WATCHES: Mapping[str, Callable[[Rig, str, Told], Iterator[Finding]]] = {
    "environment": _environment,
    "outside": _outside,
    "chance": _chance,
}
"""Families of cases, each with what it makes of the answer."""
