"""A report's pieces as JSON and back: sorted, repeatable, and refused by name."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from strata_nb.errors import GateError
from strata_nb.gates.judge.floor import Floor
from strata_nb.gates.records import By, Finding, Moment, Scalar
from strata_nb.gates.report.provenance import About, Provenance
from strata_nb.gates.report.tally import VERDICTS, Counts, GateReport, Listed, Planted
from strata_nb.trace.quoting import shown

Json = dict[str, Any]
Read = TypeVar("Read")
Choice = TypeVar("Choice", bound=str)

MAX_BYTES = 200_000_000
_SPECIAL = ("inf", "-inf", "nan")  # JSON has no such numbers

# ------------------------------------------------------------------ writing


def encoded(value: Json) -> bytes:
    """JSON with sorted keys, one value a line; floats as Python's `repr` has them."""
    # ASCII: half a surrogate pair in a name is an escape, and reads back as it was.
    text = json.dumps(value, sort_keys=True, indent=1, allow_nan=False)
    return text.encode("ascii") + b"\n"


def gate(found: GateReport) -> Json:
    """What one gate found."""
    return {
        "name": found.name,
        "title": found.title,
        "verdict": found.verdict,
        "families": [
            {"family": family, "same": n.same, "near-tie": n.near_tie, "fault": n.fault}
            for family, n in found.families.items()
        ],
        "changed": dict(found.changed),
        "idle": list(found.idle),
        "listed": [_listed(case) for case in found.listed],
        "unlisted": found.unlisted,
        "cases_digest": found.cases_digest,
    }


def planted(row: Planted) -> Json:
    """One row of the matrix."""
    caught = {part: dict(counts) for part, counts in row.caught.items()}
    return {"fault": row.fault, "part": row.part, "caught": caught}


def floor(found: Floor) -> Json:
    """The engine's rounding."""
    return {
        "logits": _number(found.logits),
        "experts": _number(found.experts),
        "blocks": _number(found.blocks),
        "parts": {part: _number(size) for part, size in found.parts.items()},
        "rows": int(found.rows),
    }


def provenance(found: Provenance) -> Json:
    """Where a report comes from."""
    return asdict(found)


def about(found: About) -> Json:
    """When and where it ran."""
    return asdict(found)


def _listed(case: Listed) -> Json:
    return {
        "id": case.id,
        "verdict": case.verdict,
        "findings": [_finding(finding) for finding in case.findings],
        "more": case.more,
    }


def _finding(found: Finding) -> Json:
    """What says nothing is left out, so that files stay small."""
    rest = {
        "layer": None if found.layer is None else int(found.layer),
        "cell": None if found.cell is None else int(found.cell),
        "gap": None if found.gap is None else _number(found.gap),
        "note": found.note or None,
    }
    return {
        "kind": found.kind,
        "by": found.by,
        "moment": found.moment,
        "what": found.what,
        "size": _number(found.size),
        **{key: value for key, value in rest.items() if value is not None},
    }


def _number(value: float) -> float | str:
    # NumPy's scalars have another `repr` than Python's floats.
    number = float(value)
    return number if math.isfinite(number) else str(number)


# ------------------------------------------------------------------ reading


@dataclass(frozen=True)
class Node:
    """A value in a file, and the words that name its place.

    Its methods return the value as what they are called, or raise `GateError`.
    """

    value: Any
    where: str

    def refuse(self, wanted: str) -> GateError:
        """The error that says what was wanted here."""
        return GateError(
            f"{self.where}: wanted {wanted}, got {shown(self.value)}; it is no report "
            "of a gate, or was altered: run the gate again"
        )

    def object(self, *keys: str, maybe: Sequence[str] = ()) -> "dict[str, Node]":
        """Its members: all of `keys`, perhaps some of `maybe`, no others."""
        for key in keys:
            if key not in self._mapping():
                raise self.refuse(f"an object with a member {key!r}")
        for key in self._mapping():
            if key not in keys and key not in maybe:
                raise self.refuse(f"no member {shown(key)}")
        return self.members()

    def members(self) -> "dict[str, Node]":
        """Its members, whatever their names."""
        return {k: Node(v, f"{self.where}.{k}") for k, v in self._mapping().items()}

    def list(self) -> "tuple[Node, ...]":
        """The items of a list."""
        if not isinstance(self.value, list):
            raise self.refuse("a list")
        return tuple(Node(v, f"{self.where}[{i}]") for i, v in enumerate(self.value))

    def text(self) -> str:
        """A text."""
        if not isinstance(self.value, str):
            raise self.refuse("a text")
        return self.value

    def choice(self, choices: Sequence[Choice]) -> Choice:
        """One of `choices`."""
        for choice in choices:
            if self.value == choice and isinstance(self.value, str):
                return choice
        raise self.refuse(f"one of {', '.join(choices)}")

    def whole(self) -> int:
        """A whole number of 0 or more."""
        if type(self.value) is not int or self.value < 0:
            raise self.refuse("a whole number of 0 or more")
        return self.value

    def number(self) -> float:
        """A number; "inf" and "nan" stand for what JSON does not have."""
        if self.value in _SPECIAL or type(self.value) in (int, float):
            try:
                return float(self.value)
            except OverflowError:
                pass
        raise self.refuse("a number")

    def scalar(self) -> Scalar:
        """A text, a number, true or false."""
        if not isinstance(self.value, str | int | float):
            raise self.refuse("a text, a number, true or false")
        return self.value

    def optional(self, read: "Callable[[Node], Read]") -> Read | None:
        """None for null, else what `read` makes of it."""
        return None if self.value is None else read(self)

    def _mapping(self) -> Mapping[str, Any]:
        if not isinstance(self.value, dict):
            raise self.refuse("an object")
        return self.value


def opened(path: str | os.PathLike[str], form: str) -> dict[str, Node]:
    """The members of the file at `path`, which has to say that it has this `form`.

    Raises:
        GateError: there is no file, no JSON, or one of another form.
        OSError: the file cannot be read.
    """
    file = Path(path)
    if not file.is_file():
        raise GateError(f"there is no report at {shown(str(file))}; name a file")
    if file.stat().st_size > MAX_BYTES:
        raise GateError(
            f"{file.name}: wanted at most {MAX_BYTES} bytes, got more; it is no report "
            "of a gate"
        )
    try:
        value = json.loads(file.read_bytes().decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise GateError(
            f"{file.name} cannot be read as JSON ({error}): it is no report, or is "
            "damaged; run the gate again"
        ) from error
    whole = Node(value, file.name)
    found = whole.members().get("format")
    if found is None or found.value != form:
        got = None if found is None else found.value
        raise GateError(
            f"{file.name} has format {shown(got)}, wanted {form!r}; run the gate again "
            "with this version"
        )
    return whole.object("format", "compared", "about")


def read_gate(node: Node) -> GateReport:
    """What one gate found, without the cases that were the same."""
    told = node.object(
        "name",
        "title",
        "verdict",
        "families",
        "changed",
        "idle",
        "listed",
        "unlisted",
        "cases_digest",
    )
    found = GateReport(
        name=told["name"].text(),
        title=told["title"].text(),
        families=dict(_family(family) for family in told["families"].list()),
        changed={part: n.whole() for part, n in told["changed"].members().items()},
        idle=tuple(part.text() for part in told["idle"].list()),
        listed=tuple(_read_listed(case) for case in told["listed"].list()),
        unlisted=told["unlisted"].whole(),
        cases_digest=told["cases_digest"].text(),
    )
    said = told["verdict"].choice(VERDICTS)
    if said != found.verdict:
        raise told["verdict"].refuse(f"{found.verdict!r}, as its cases have it")
    return found


def read_planted(node: Node) -> Planted:
    """One row of the matrix."""
    told = node.object("fault", "part", "caught")
    caught = {
        part: {by: n.whole() for by, n in counts.members().items()}
        for part, counts in told["caught"].members().items()
    }
    return Planted(told["fault"].text(), told["part"].text(), caught)


def read_floor(node: Node) -> Floor:
    """The engine's rounding."""
    told = node.object("logits", "experts", "blocks", "parts", "rows")
    return Floor(
        logits=told["logits"].number(),
        experts=told["experts"].number(),
        blocks=told["blocks"].number(),
        parts={part: n.number() for part, n in told["parts"].members().items()},
        rows=told["rows"].whole(),
    )


def read_provenance(node: Node) -> Provenance:
    """Where a report comes from."""
    told = node.object(
        "model", "model_digest", "source_digest", "versions", "device", "options"
    )
    return Provenance(
        model=told["model"].text(),
        model_digest=told["model_digest"].text(),
        source_digest=told["source_digest"].text(),
        versions={k: v.text() for k, v in told["versions"].members().items()},
        device=told["device"].text(),
        options={k: v.scalar() for k, v in told["options"].members().items()},
    )


def read_about(node: Node) -> About:
    """When and where it ran."""
    told = node.object("date", "seconds", "workers", "system", "path")
    return About(
        date=told["date"].text(),
        seconds=told["seconds"].number(),
        workers=told["workers"].whole(),
        system=told["system"].text(),
        path=told["path"].text(),
    )


def _family(node: Node) -> tuple[str, Counts]:
    told = node.object("family", "same", "near-tie", "fault")
    counts = (told[kind].whole() for kind in ("same", "near-tie", "fault"))
    return told["family"].text(), Counts(*counts)


def _read_listed(node: Node) -> Listed:
    told = node.object("id", "verdict", "findings", "more")
    return Listed(
        id=told["id"].text(),
        verdict=told["verdict"].choice(("near-tie", "fault")),
        findings=tuple(_read_finding(f) for f in told["findings"].list()),
        more=told["more"].whole(),
    )


def _read_finding(node: Node) -> Finding:
    maybe = ("layer", "cell", "gap", "note")
    told = node.object("kind", "by", "moment", "what", "size", maybe=maybe)
    return Finding(
        kind=told["kind"].choice(("near-tie", "fault")),
        by=told["by"].choice(get_args(By)),
        moment=told["moment"].choice(get_args(Moment)),
        what=told["what"].text(),
        layer=told["layer"].whole() if "layer" in told else None,
        cell=told["cell"].whole() if "cell" in told else None,
        size=told["size"].number(),
        gap=told["gap"].number() if "gap" in told else None,
        note=told["note"].text() if "note" in told else "",
    )


def _once(pairs: list[tuple[str, Any]]) -> Json:
    """An object; JSON's own reader would silently keep the last of two equal keys."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{shown(twice)} appears twice in one object")
    return found
