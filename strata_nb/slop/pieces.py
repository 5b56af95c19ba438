"""The bytes of every token, and which tokens begin in which way."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

from strata_nb.errors import CheckpointError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_NONE = np.zeros(0, np.int64)


def pieces_of(tokenizer: Tokenizer, *, vocab_size: int) -> tuple[bytes, ...]:
    """The bytes that each token adds to a text, by id.

    A special token adds none, nor does an id without a token. What a decoder takes
    off the very start of a text (a space, in some vocabularies) is not taken off here.

    Args:
        tokenizer: of the checkpoint.
        vocab_size: ids of the model, often a few more than the tokenizer has.

    Raises:
        CheckpointError: a decoder whose tokens have no bytes of their own.
    """
    plain = _bytes_of(json.loads(tokenizer.to_str())["decoder"])
    added = tokenizer.get_added_tokens_decoder()
    found = []
    for token in range(vocab_size):
        text = tokenizer.id_to_token(token)
        if text is None or (token in added and added[token].special):
            found.append(b"")
        else:
            # An added token too goes through the decoder.
            found.append(plain(text))
    return tuple(found)


def _bytes_of(decoder: Any) -> Callable[[str], bytes]:
    """What turns one token's text into its bytes."""
    is_list = isinstance(decoder, dict) and decoder["type"] == "Sequence"
    parts = decoder["decoders"] if is_list else [decoder]
    kinds = [part["type"] if part else None for part in parts]
    if kinds == ["ByteLevel"]:
        return _byte_level()
    replaced: list[tuple[str, str]] = []
    for index, (kind, part) in enumerate(zip(kinds, parts, strict=True)):
        if kind == "Metaspace":
            replaced.append((part["replacement"], " "))
        elif kind == "Replace" and "String" in part["pattern"]:
            replaced.append((part["pattern"]["String"], part["content"]))
        elif kind == "Strip" and "Fuse" in kinds[:index]:
            continue  # of the whole text: its start only
        elif kind not in ("ByteFallback", "Fuse"):
            raise CheckpointError(
                f"tokenizer.json: wanted a decoder with bytes for each token (ByteLevel"
                f", or Replace and ByteFallback), got {kind}; give the pieces yourself"
            )
    return _replacing(replaced, has_bytes="ByteFallback" in kinds)


def _byte_level() -> Callable[[str], bytes]:
    alphabet = sorted(ByteLevel.alphabet())
    values = {c: ord(c) for c in alphabet if ord(c) < 256}
    # The other bytes have no visible character; they got those from 256 on, in order.
    others = sorted({*range(256)} - {*values.values()})
    values.update(zip((c for c in alphabet if ord(c) > 255), others, strict=True))

    def read(text: str) -> bytes:
        if all(c in values for c in text):
            return bytes(values[c] for c in text)
        return text.encode()

    return read


def _replacing(
    replaced: Sequence[tuple[str, str]], *, has_bytes: bool
) -> Callable[[str], bytes]:
    def read(text: str) -> bytes:
        byte = _BYTE_TOKEN.fullmatch(text) if has_bytes else None
        if byte:
            return bytes([int(byte[1], 16)])
        for old, new in replaced:
            text = text.replace(old, new)
        return text.encode()

    return read


class PieceTable:
    """Pieces in the order of their bytes, so that equal beginnings lie side by side.

    Args:
        pieces: bytes by id; an empty piece is left out.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        order = sorted(
            (i for i, piece in enumerate(pieces) if piece), key=pieces.__getitem__
        )
        self._pieces = [pieces[i] for i in order]
        self._ids = np.array(order, np.int64)
        self._longest = max(map(len, self._pieces), default=0)

    def has(self, start: bytes) -> bool:
        """Whether any piece begins with `start`."""
        if len(start) > self._longest:
            return False
        at = bisect_left(self._pieces, start)
        return at < len(self._pieces) and self._pieces[at].startswith(start)

    def starting(self, start: bytes) -> np.ndarray:
        """Ids of the pieces that begin with `start`: int64, a view, in no order."""
        if len(start) > self._longest:
            return _NONE
        low = bisect_left(self._pieces, start)
        high = len(self._pieces)
        stem = start.rstrip(b"\xff")  # a byte of 255 has no next one
        if stem:
            high = bisect_left(self._pieces, stem[:-1] + bytes([stem[-1] + 1]), low)
        return self._ids[low:high]

    def equal(self, piece: bytes) -> np.ndarray:
        """Ids of the pieces that are `piece`: int64, a view, in no order."""
        low = bisect_left(self._pieces, piece)
        return self._ids[low : bisect_right(self._pieces, piece, low)]
