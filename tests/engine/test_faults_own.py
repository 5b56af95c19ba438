"""A fault of one's own: registered, planted, caught by the gates, withdrawn."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest

from helpers import advance, prompt
from strata_nb import Model, Session, diff, faults, gates
from strata_nb.faults import DEFECTS, FAULTS, Fault, extending
from strata_nb.parts import Cells, KeyValues
from strata_nb.parts.cells import Rows


class NextRow(KeyValues):
    """The last kept cell takes the first rejected row."""

    def commit(self, committed: Cells, pending: Rows, *, keep: int) -> Cells:
        """As the sound part, but for one row."""
        if keep < pending[0].shape[0]:
            pending = tuple(mx.concatenate([a[: keep - 1], a[keep:]]) for a in pending)
        return super().commit(committed, pending, keep=keep)


NEXT_ROW = Fault(
    name="next_row",
    part="kv",
    what="the last kept cell takes the first rejected row",
    shows="after every rejection",
    variant=extending(NextRow),
)


@pytest.fixture
def registered() -> Iterator[Fault]:
    yield faults.register(NEXT_ROW)
    faults.withdraw("next_row")


def rejected(model: Model, **options: Any) -> Any:
    engine = model.engine(**options)
    engine.prefill(prompt(model, 21, seed=2))
    advance(engine, [1, 2, 3, 4], keep=2)
    return engine


def test_an_engine_and_a_session_take_it(registered: Fault, tiny: Model) -> None:
    assert FAULTS["next_row"] is DEFECTS["next_row"] is registered
    found = diff(rejected(tiny, fault="next_row"), rejected(tiny))
    assert {(d.part, d.layer, d.cell) for d in found} == {
        ("kv", 3, 22),
        ("kv", 7, 22),
    }
    assert Session(tiny, fault="next_row").engine().options["fault"] == "next_row"


def test_a_gate_names_its_part_and_the_gate_of_gates_too(
    registered: Fault, trained: Model
) -> None:
    some = "gate_3/reject/context=below/residue=1/*/T=4/*"
    report = gates.run("gate_3", model=trained, fault="next_row", only=some)
    assert report.verdict == "fault"
    assert report.gates[0].listed[0].findings[0].what == "kv"
    own = "faults/planted/fault=next_row"
    assert gates.run("faults", model=trained, only=own).verdict == "same"


def test_again_it_replaces_itself(registered: Fault, small: Model) -> None:
    before = rejected(small, fault="next_row")
    faults.register(replace(registered, variant=lambda part: part))
    assert diff(rejected(small, fault="next_row"), rejected(small)) == []
    assert diff(before, rejected(small)) != []


def test_withdrawn_it_is_unknown(small: Model) -> None:
    names = tuple(DEFECTS)
    faults.register(NEXT_ROW)
    faults.withdraw("next_row")
    assert tuple(DEFECTS) == names
    assert "next_row" not in FAULTS
    with pytest.raises(ValueError, match="no fault is named 'next_row'; wanted one of"):
        small.engine(fault="next_row")
    with pytest.raises(ValueError, match="no fault is named 'next_row'; wanted one of"):
        faults.withdraw("next_row")


def test_those_of_the_package_stay() -> None:
    ours = "'qsa_ring' is a fault of the package and stays; give yours another name"
    ring = FAULTS["qsa_ring"]
    with pytest.raises(ValueError, match=ours):
        faults.register(replace(NEXT_ROW, name="qsa_ring"))
    with pytest.raises(ValueError, match=ours):
        faults.withdraw("qsa_ring")
    with pytest.raises(ValueError, match="'slop_in_place' is a fault of the package"):
        faults.register(replace(NEXT_ROW, name="slop_in_place"))
    assert FAULTS["qsa_ring"] is ring


def test_what_could_never_act_is_refused() -> None:
    names = tuple(DEFECTS)
    never = r"no part is named 'KV', so .*'next_row' would never act; .* kv, qsa_tail"
    with pytest.raises(ValueError, match=never):
        faults.register(replace(NEXT_ROW, part="KV"))
    with pytest.raises(ValueError, match=r"by one word .*, got 'next row'; rename it"):
        faults.register(replace(NEXT_ROW, name="next row"))
    policy = faults.POLICY_FAULTS["drafter_across_requests"]
    with pytest.raises(TypeError, match="wanted a Fault of a part, got PolicyFault"):
        faults.register(policy)  # type: ignore[arg-type]
    assert tuple(DEFECTS) == names


def test_the_help_is_a_fault_that_works() -> None:
    """In a process of its own, since what it shows is registered for good."""
    before, _, lines = (faults.__doc__ or "").partition("does something wrong:\n\n")
    assert before
    code = "\n".join(line.removeprefix("    ") for line in lines.splitlines())
    made = (
        "import strata_nb\n"
        "from strata_nb.faults import *\n"
        "from strata_nb.parts import RowHistory\n"
        f"{code}\n"
        "model = strata_nb.load('strata-tiny')\n"
        "engines = model.engine(fault='forgetful'), model.engine()\n"
        "for engine in engines: engine.prefill([5, 6, 7])\n"
        "print(sorted({d.part for d in strata_nb.diff(*engines)}))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", made], capture_output=True, text=True, check=False
    )
    assert "gdn_conv" in ran.stdout, ran.stderr
