"""What is penalised, against its definition, and states that nothing changes."""

import random
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slop_texts import EOS, SPECIAL, forbidden, scanners, some_tokens
from strata_nb.slop import START, Scanner, SlopRules, SlopState


def scanner_of(table: list[bytes], **rules: object) -> Scanner:
    """Of `table` behind the two tokens without bytes."""
    return Scanner([b"", b"", *table], SlopRules(**rules), eos_ids=[EOS])  # type: ignore[arg-type]


def penalised(scanner: Scanner, *text: bytes) -> set[bytes]:
    """Pieces that should not follow `text`, given piece by piece."""
    state = scanner.rescan([scanner.pieces.index(piece) for piece in text])
    return {scanner.pieces[token] for token in scanner.penalised(state)}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_penalised_tokens_are_those_of_the_definition(data: st.DataObject) -> None:
    scanner = data.draw(scanners())
    tokens = data.draw(some_tokens(scanner))
    for end in range(len(tokens) + 1):
        ids = scanner.penalised(scanner.rescan(tokens[:end]))
        assert ids.dtype == np.int64
        assert list(ids) == sorted(forbidden(scanner, tokens[:end]))


def test_long_texts_keep_to_the_definition() -> None:
    """Texts made of a few lines and phrases again and again."""
    table = [
        *(b"one", b" two", b"\n", b"\r\n", b"\n  ", b"\tone", b" ", b"t", b"w", b"o"),
        *(b"one two\n", b"wo\nx", b"\none two", b"two\r\n", b"ONE", b"a\none two\nb"),
        *(b"\r", b"\rone", b"\n one\r", b"\r\rone\n"),
    ]
    scanner = scanner_of(
        table, phrases=("one t", "Oé", "oo", "oow", "wow"), lines=2, shortest=3
    )
    rng, hits = random.Random(5), 0
    tokens: list[int] = []
    for _ in range(2500):
        tokens.append(rng.choice(range(1, len(scanner.pieces))))
        tokens = [] if rng.random() < 0.01 else tokens[-60:]
        found = set(scanner.penalised(scanner.rescan(tokens)))
        assert found == forbidden(scanner, tokens)
        hits += bool(found)
    assert hits > 500


def test_every_remainder_of_every_end_counts() -> None:
    scanner = scanner_of(
        [b"x", b"in a", b" ", b"a", b"word", b" word", b"words ", b"wor", b"d", b"in "],
        phrases=("in a word", "a word", "words"),
    )
    always = {b"words "}
    assert penalised(scanner) == always
    assert penalised(scanner, b"in a") == always | {b" word"}
    assert penalised(scanner, b"x", b"a") == always | {b" word"}
    assert penalised(scanner, b"a", b" ") == always | {b"word"}
    assert penalised(scanner, b"in a", b" ", b"wor") == always | {b"d"}
    assert penalised(scanner, b"in ", b"x") == always


def test_a_phrase_in_pieces_of_characters() -> None:
    scanner = scanner_of(
        [b"na\xc3", b"\xafve", b"\xaf", b"ve", b"\xc3"], phrases=("naïve",)
    )
    assert penalised(scanner, b"na\xc3") == {b"\xafve"}
    assert penalised(scanner, b"na\xc3", b"\xaf") == {b"ve"}


def test_only_letters_of_ascii_lose_their_case() -> None:
    table = ["Élan".encode(), "élan".encode(), b"Delve", b"delve", b"DELVE"]
    both = scanner_of(table, phrases=("élan", "delve"))
    assert penalised(both) == {"élan".encode(), b"Delve", b"delve", b"DELVE"}
    exact = scanner_of(table, phrases=("élan", "delve"), ignore_case=False)
    assert penalised(exact) == {"élan".encode(), b"delve"}


def test_a_line_again_whatever_its_indentation() -> None:
    table = [b"x = 1", b"x", b" = 1", b" = 1\n", b" = 1\r\n", b"\n", b"\r\n", b"\r"]
    table += [b"    ", b"\tx = 1", b"\n\n", b" = 12", b"  x = 1\n  y", b"z"]
    scanner = scanner_of(table, lines=4, shortest=3)
    again = {b"x = 1", b"\tx = 1", b"  x = 1\n  y"}
    assert penalised(scanner, b"x = 1") == set()
    for before in ((b"x = 1", b"\n"), (b"    ", b"x = 1", b"\r\n")):
        assert penalised(scanner, *before) == again
        assert penalised(scanner, *before, b"    ") == again
        ends = {b" = 1", b" = 1\n", b" = 1\r\n"}
        assert penalised(scanner, *before, b"    ", b"x") == ends
        whole = {b"\n", b"\r\n", b"\n\n"}
        assert penalised(scanner, *before, b"\tx = 1") == whole
        assert penalised(scanner, *before, b"x = 1", b"\r") == {b"\n", b"\n\n"}
        assert penalised(scanner, *before, b"z", b"x") == set()


def test_only_the_last_lines_are_remembered() -> None:
    scanner = scanner_of(
        [b"aaa", b"bbb", b"cc", b"dddd", b"\n", b"  "], lines=1, shortest=3
    )
    nl = b"\n"
    assert penalised(scanner, b"aaa", nl) == {b"aaa"}
    assert penalised(scanner, b"aaa", nl, b"bbb", nl) == {b"bbb"}
    # A short line, a line of spaces and an empty one are none.
    assert penalised(scanner, b"aaa", nl, b"cc", nl, b"  ", nl, nl) == {b"aaa"}


def test_over_long_lines_count_as_none() -> None:
    scanner = scanner_of([b"aaaa", b"\n", b"\r", b"a"], lines=2, shortest=1, longest=5)
    long = [b"aaaa", b"a", b"a"]
    assert penalised(scanner, *long, b"\n") == set()
    assert penalised(scanner, b"aaaa", b"a", b"\r", b"\n", b"aaaa") == {b"a"}
    state = scanner.rescan([scanner.pieces.index(b"aaaa")] * 300)
    assert len(state.line) == 7


def test_an_end_of_text_forgets_everything() -> None:
    scanner = scanner_of(
        [b"one two", b"one", b" two", b"\n"], phrases=("one two",), lines=3, shortest=1
    )
    text = [scanner.pieces.index(p) for p in (b"one", b"\n", b"one")]
    assert set(scanner.penalised(scanner.rescan(text))) > {2}
    assert scanner.rescan([*text, EOS]) == START
    assert scanner.rescan([*text, EOS, *text]) == scanner.rescan(text)
    # Another special token stands in no text and changes nothing.
    assert scanner.rescan([*text, SPECIAL]) == scanner.rescan(text)


def test_no_rules_penalise_nothing() -> None:
    scanner = scanner_of([b"a", b"\n"])
    assert len(scanner.penalised(scanner.rescan([2, 3, 2, 3, 2]))) == 0


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_advance_is_pure_and_rescan_is_many_of_it(data: st.DataObject) -> None:
    scanner = data.draw(scanners())
    tokens = data.draw(some_tokens(scanner))
    states = scanner.states(START, tokens)
    kept = [(s.tail, s.line, s.recent) for s in states]
    for token in range(scanner.vocab_size):
        for state in states:
            assert scanner.advance(state, token) == scanner.advance(state, token)
    assert [(s.tail, s.line, s.recent) for s in states] == kept
    for end, state in enumerate(states, start=1):
        assert scanner.rescan(tokens[:end]) == state
    with pytest.raises(FrozenInstanceError):
        START.tail = b"x"  # type: ignore[misc]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_where_a_text_is_cut_into_tokens_does_not_matter(data: st.DataObject) -> None:
    """The same bytes, one by one, leave the same state."""
    scanner = data.draw(scanners())
    tokens = data.draw(some_tokens(scanner))
    tokens = [t for t in tokens if t not in (EOS, SPECIAL)]
    single = Scanner([bytes([b]) for b in range(256)], scanner.rules)
    text = b"".join(scanner.pieces[t] for t in tokens)
    assert single.rescan(text) == scanner.rescan(tokens)


def test_what_is_given_out_cannot_be_changed() -> None:
    scanner = scanner_of([b"delve"], phrases=("delve",))
    ids = scanner.penalised(START)
    with pytest.raises(ValueError, match="read-only"):
        ids[0] = 1


def test_many_states_do_not_pile_up_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """More ends of text than are kept; the answers stay right."""
    monkeypatch.setattr("strata_nb.slop.phrases._ROOM", 3)
    scanner = scanner_of([b"x", b"y"], phrases=("ax", "by", "cx", "dy", "exy"))
    wanted = {b"a": [2], b"b": [3], b"c": [2], b"d": [3], b"ex": [3], b"": []}
    for _ in range(3):
        for tail, ids in wanted.items():
            assert list(scanner.penalised(SlopState(tail=tail))) == ids


@pytest.mark.parametrize("token", [-1, 4, 10**9])
def test_a_token_without_a_piece_is_refused(token: int) -> None:
    scanner = scanner_of([b"a", b"b"])
    with pytest.raises(ValueError, match=f"token {token} has no piece"):
        scanner.advance(START, token)
    with pytest.raises(ValueError, match="has no piece"):
        Scanner([b"a"], SlopRules(), eos_ids=[token])
