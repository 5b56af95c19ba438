"""Bytes of tokens, against the tokenizer's own text, and the table of beginnings."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models
from tokenizers.decoders import ByteFallback, Fuse, Metaspace, Replace, Sequence, Strip

import strata_nb
from strata_nb.errors import CheckpointError
from strata_nb.slop import pieces_of
from strata_nb.slop.pieces import PieceTable

TEXTS = ("def f(x):\n\treturn x\r\n", "naïve 漢字 🙂 \u200b\x00\x7f\xad", "  \n\n  a")


def test_the_pieces_of_a_text_are_its_bytes(trained: strata_nb.Model) -> None:
    assert trained.tokenizer is not None
    pieces = pieces_of(trained.tokenizer, vocab_size=trained.config.vocab_size)
    for text in TEXTS:
        assert b"".join(pieces[i] for i in trained.encode(text)) == text.encode()
    # Every byte is a token of its own.
    assert {bytes([b]) for b in range(256)} <= set(pieces)


def test_each_piece_is_what_the_tokenizer_shows(trained: strata_nb.Model) -> None:
    assert trained.tokenizer is not None
    pieces = pieces_of(trained.tokenizer, vocab_size=trained.config.vocab_size + 5)
    shown = [
        trained.tokenizer.decode([i], skip_special_tokens=True)
        for i in range(trained.config.vocab_size)
    ]
    assert [p.decode(errors="replace") for p in pieces[:-5]] == shown
    assert pieces[-5:] == (b"",) * 5
    for token in (*trained.stop_ids, 1):
        assert pieces[token] == b""


def made(tokens: list[str], decoder: decoders.Decoder | None) -> Tokenizer:
    """A tokenizer with `tokens` and nothing else."""
    model = models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[])
    tokenizer = Tokenizer(model)
    if decoder is not None:
        tokenizer.decoder = decoder
    return tokenizer


BYTE_FALLBACK = Sequence(
    [Replace("▁", " "), ByteFallback(), Fuse(), Strip(content=" ", left=1)]
)


def test_byte_fallback() -> None:
    tokens = ["▁the", "a▁▁b", "<0x0A>", "<0xE6>", "<0x0a>", "<0x0A>x", "é", "<0xGG>"]
    pieces = pieces_of(made(tokens, BYTE_FALLBACK), vocab_size=9)
    wanted = [b" the", b"a  b", b"\n", b"\xe6", b"\n", b"<0x0A>x", b"\xc3\xa9"]
    assert list(pieces) == [*wanted, b"<0xGG>", b""]
    # Behind a first token, which alone may lose a space.
    shown = made(tokens, BYTE_FALLBACK).decode([6, 0, 1, 2, 5])
    assert shown.encode() == b"".join(pieces[i] for i in [6, 0, 1, 2, 5])


def test_metaspace_without_bytes() -> None:
    pieces = pieces_of(made(["▁a", "b", "<0x0A>"], Metaspace()), vocab_size=3)
    assert pieces == (b" a", b"b", b"<0x0A>")


def test_added_tokens_are_what_the_decoder_shows_and_special_ones_nothing() -> None:
    tokenizer = made(["a", "é"], decoders.ByteLevel())
    tokenizer.add_tokens([AddedToken(t, special=False) for t in ("<é>", "é é", "é")])
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True)])
    pieces = pieces_of(tokenizer, vocab_size=6)
    assert pieces == (b"a", b"\xe9", b"<\xe9>", "é é".encode(), b"", b"")
    shown = [tokenizer.decode([0, token, 0]) for token in range(5)]
    assert shown == [f"a{p.decode(errors='replace')}a" for p in pieces[:5]]


def test_characters_outside_the_alphabet_stay_text() -> None:
    tokenizer = made(["字a", "Ġa"], decoders.ByteLevel())
    assert pieces_of(tokenizer, vocab_size=2) == ("字a".encode(), b" a")
    assert tokenizer.decode([0]) == "字a"


@pytest.mark.parametrize(
    "decoder",
    [
        None,
        decoders.WordPiece(),
        Sequence([Strip(content=" ", left=1), Fuse()]),
        Sequence([decoders.ByteLevel(), decoders.CTC()]),
    ],
)
def test_decoders_that_glue_tokens_are_refused(
    decoder: decoders.Decoder | None,
) -> None:
    tokenizer = made(["a"], decoder)
    with pytest.raises(CheckpointError, match="wanted a decoder with bytes"):
        pieces_of(tokenizer, vocab_size=1)


def test_a_pattern_that_is_no_text_is_refused() -> None:
    said = json.loads(made(["a"], Replace("x", " ")).to_str())
    said["decoder"]["pattern"] = {"Regex": "x+"}
    tokenizer = Tokenizer.from_str(json.dumps(said))
    with pytest.raises(CheckpointError, match="got Replace"):
        pieces_of(tokenizer, vocab_size=1)


some_bytes = st.lists(st.sampled_from([0, 97, 98, 254, 255]), max_size=4).map(bytes)


@settings(max_examples=200, deadline=None)
@given(st.lists(some_bytes, max_size=12), some_bytes)
@example([b"\xff", b"\xff\xff", b"a", b"a\xff", b"b"], b"a\xff")
@example([b"\xff", b"\xff\xff", b"\xfe"], b"\xff")
def test_the_table_against_a_plain_search(pieces: list[bytes], start: bytes) -> None:
    table = PieceTable(pieces)
    begins = [i for i, p in enumerate(pieces) if p and p.startswith(start)]
    assert sorted(table.starting(start)) == begins
    assert table.has(start) == bool(begins)
    assert sorted(table.equal(start)) == [i for i in begins if pieces[i] == start]
