"""Each wrong kind of penalties is caught, and by what is said to catch it."""

import functools

import numpy as np
import pytest

from slop_law import SCANNER, check_branches, check_every_keep, check_states
from strata_nb.faults import PolicyFault, penalties
from strata_nb.sampling import Sampling
from strata_nb.slop import Scanner, Slop

FAULTS = {fault.name: fault for fault in penalties.FAULTS}


def made(fault: PolicyFault, scanner: Scanner, *, strength: float) -> Slop:
    """The faulty penalties in the place of sound ones."""
    sampler = fault.sampler(Sampling(), [Slop(scanner, strength=strength)])
    (wrong,) = sampler.adjustments
    assert isinstance(wrong, Slop)
    assert type(wrong) is not Slop
    return wrong


def caught(name: str) -> set[str]:
    """The checks that fail under the fault."""
    make, found = functools.partial(made, FAULTS[name]), set()
    for check in (check_every_keep, check_branches):
        for seed in range(3):
            try:
                check(make, seed=seed)
            except AssertionError:
                found.add(check.__name__)
    return found


def test_each_is_caught_where_it_shows() -> None:
    assert {name: caught(name) for name in FAULTS} == {
        "slop_not_restored": {"check_branches"},
        "slop_in_place": {"check_every_keep", "check_branches"},
        "slop_once_per_window": {"check_every_keep", "check_branches"},
    }


@pytest.mark.parametrize("name", FAULTS)
def test_none_shows_in_plain_decoding(name: str) -> None:
    """Row by row and on one text, all are like the sound ones."""
    slop = made(FAULTS[name], SCANNER, strength=2.0)
    history = [2, 4, 5, 2, 4]
    slop.assign(history)
    for token in (3, 5, 2, 4, 3):
        slop.adjust(history[-1:], np.zeros((1, SCANNER.vocab_size)))
        slop.append([token])
        history.append(token)
    check_states(slop, history)
