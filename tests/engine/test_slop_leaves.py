"""A state as arrays: the same again, and refused where no text can have left it."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slop_texts import scanners, some_tokens
from strata_nb.errors import SavedStateError
from strata_nb.slop import START, Scanner, SlopRules

RULES = SlopRules(phrases=("one two", " three"), lines=2, shortest=3, longest=20)
ONES = Scanner([bytes([b]) for b in range(256)], RULES)
STATE = ONES.rescan(b"first line\n  second\nit is one t")

Leaves: TypeAlias = dict[str, np.ndarray]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_leaves_give_the_state_again(data: st.DataObject) -> None:
    scanner = data.draw(scanners())
    for state in [START, *scanner.states(START, data.draw(some_tokens(scanner)))]:
        leaves = scanner.leaves(state)
        assert all(a.dtype.kind in "iu" for a in leaves.values())
        again = {name: leaf.copy() for name, leaf in leaves.items()}
        assert scanner.from_leaves(again) == state


def test_phrases_in_another_order_are_the_same_rules() -> None:
    other = SlopRules(phrases=(" THREE", "one two"), lines=2, shortest=3, longest=20)
    assert Scanner([b"a"], other).from_leaves(ONES.leaves(STATE)) == STATE


@pytest.mark.parametrize(
    "change",
    [
        {"phrases": ("one two",)},
        {"ignore_case": False},
        {"lines": 3},
        {"shortest": 2},
        {"longest": 21},
    ],
)
def test_other_rules_are_refused(change: dict[str, object]) -> None:
    said = {"phrases": RULES.phrases, "lines": 2, "shortest": 3, "longest": 20}
    other = Scanner([b"a"], SlopRules(**{**said, **change}))  # type: ignore[arg-type]
    with pytest.raises(SavedStateError, match="under other rules"):
        other.from_leaves(ONES.leaves(STATE))


def text(name: str, data: bytes) -> Callable[[Leaves], None]:
    """A leaf that holds `data`."""

    def put(leaves: Leaves) -> None:
        leaves[name] = np.frombuffer(data, np.uint8)

    return put


def numbers(*ends: int) -> Callable[[Leaves], None]:
    """Other ends of the lines."""

    def put(leaves: Leaves) -> None:
        leaves["recent_ends"] = np.array(ends, np.int64)

    return put


def other(name: str, leaf: np.ndarray) -> Callable[[Leaves], None]:
    """A leaf of another form."""

    def put(leaves: Leaves) -> None:
        leaves[name] = leaf

    return put


def both(*puts: Callable[[Leaves], None]) -> Callable[[Leaves], None]:
    """One change and then another."""

    def put(leaves: Leaves) -> None:
        for one in puts:
            one(leaves)

    return put


BAD: dict[str, tuple[Callable[[Leaves], None], str]] = {
    "missing": (lambda leaves: leaves.__delitem__("tail"), "'tail' is missing"),
    "one more": (other("more", np.zeros(1, np.uint8)), "'more' does not belong"),
    "floats": (other("line", np.zeros(3)), "'line' is float64"),
    "wide": (other("line", np.zeros(3, np.int64)), "'line' is int64"),
    "two axes": (other("tail", np.zeros((1, 1), np.uint8)), "with 2 axes"),
    "no axis": (other("recent_ends", np.array(3, np.int64)), "with 0 axes"),
    "rules": (text("rules", b"short"), "under other rules"),
    "tail of no phrase": (text("tail", b"one x"), "begins no phrase"),
    "whole phrase": (text("tail", b"one two"), "begins no phrase"),
    "ends too far": (numbers(10, 17), "do not fit"),
    "ends too near": (numbers(10, 15), "do not fit"),
    "ends backwards": (numbers(12, 10, 16), "do not fit"),
    "negative ends": (numbers(-3, 16), "do not fit"),
    "no ends": (numbers(), "do not fit"),
    "three lines": (numbers(4, 9, 16), "none that counts"),
    "short line": (numbers(14, 16), "none that counts"),
    "long line": (
        both(text("recent", b"x" * 21), numbers(21)),
        "none that counts",
    ),
    "newline in a line": (
        both(text("recent", b"ab\ncd"), numbers(5)),
        "none that counts",
    ),
    "indented line": (both(text("recent", b" abc"), numbers(4)), "none that counts"),
    "indented open line": (text("line", b" one t"), "none that such a text"),
    "newline open": (text("line", b"x\none t"), "none that such a text"),
    "endless open line": (text("line", b"x" * 23), "none that such a text"),
    "tail of another text": (text("line", b"it is one"), "none that such a text"),
    "tail before the line": (
        both(text("line", b"e t"), text("tail", b"one t")),
        "none that such a text",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_content_is_refused(name: str) -> None:
    put, says = BAD[name]
    leaves = ONES.leaves(STATE)
    assert ONES.from_leaves(leaves) == STATE
    put(leaves)
    with pytest.raises(SavedStateError, match=says):
        ONES.from_leaves(leaves)


def test_without_lines_there_is_no_line() -> None:
    plain = Scanner(ONES.pieces, SlopRules(phrases=("one two",)))
    leaves = plain.leaves(plain.rescan(b"a\none t"))
    assert plain.from_leaves(leaves).tail == b"one t"
    text("line", b"one t")(leaves)
    with pytest.raises(SavedStateError, match="none that such a text"):
        plain.from_leaves(leaves)


def test_a_tail_in_the_indentation_fits_its_line() -> None:
    for shown in (b"a\n ", b"a\n  th", b"x" * 30 + b" th", b"One T"):
        state = ONES.rescan(shown)
        assert state.tail
        assert ONES.from_leaves(ONES.leaves(state)) == state
