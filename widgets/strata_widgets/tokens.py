"""Tokens as a person reads and types them."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final

from strata_nb.backend import Text

Chip = dict[str, Any]

_SIGNS: Final = {" ": "·", "\n": "↵", "\t": "⇥"}
_IDS: Final = re.compile(r"\s*#\d+(\s+#\d+)*\s*")
# Characters of a token that are shown; a longer one would fill a page, and a picture.
_MOST: Final = 64
# Not a character, but the sign that a token ends inside one.
_BROKEN: Final = "\N{REPLACEMENT CHARACTER}"


def visible(text: str) -> str:
    """Return `text` with spaces as dots and newlines as return signs.

    Control characters, and those that turn the direction of a line, come as escapes:
    a page would hide them or obey them.
    """
    return "".join(_SIGNS.get(letter) or _shown(letter) for letter in text)


def piece(model: Text, token: int) -> str:
    """Return the text of one token, never empty.

    Args:
        model: what knows the text of tokens.
        token: a token id, 0 to V - 1.
    """
    text = str(model.decode([token]))
    tokenizer = getattr(model, "tokenizer", None)
    if (not text or _BROKEN in text) and tokenizer is not None:
        # A special token, or a part of a character: its name in the vocabulary.
        text = tokenizer.id_to_token(token) or text
    return text or f"#{token}"


def chip(model: Text, token: int) -> Chip:
    """Return a token for the page: its id and its visible text.

    A long one ends with its length in place of the rest.
    """
    text = piece(model, token)
    rest = f"… ({len(text)} characters)" if len(text) > _MOST else ""
    return {"id": token, "text": visible(text[:_MOST]) + rest}


def chips(model: Text, tokens: Sequence[int]) -> list[Chip]:
    """Return `tokens` for the page, each with its id and its visible text."""
    return [chip(model, token) for token in tokens]


def parse_draft(model: Text, draft: str, *, vocabulary: int) -> list[int]:
    """Read a typed draft: ids such as `#12 #345`, anything else as text.

    Args:
        model: what knows the text of tokens.
        draft: what was typed, spaces and newlines included; may be empty.
        vocabulary: token ids that the model knows, V.

    Returns:
        Token ids, as many as the text needs.

    Raises:
        ValueError: an id is outside the vocabulary.
    """
    if not _IDS.fullmatch(draft):
        return list(model.encode(draft)) if draft else []
    ids = [int(word[1:]) for word in draft.split()]
    for token in ids:
        if token >= vocabulary:
            raise ValueError(
                f"a token id must be #0 to #{vocabulary - 1}, got #{token}; "
                "type text to have it turned into ids"
            )
    return ids


def draft_text(model: Text, tokens: Sequence[int]) -> str:
    """Return what one types to draft exactly `tokens`: text if it gives them back."""
    text = str(model.decode(list(tokens)))
    if model.encode(text) == list(tokens) and not _IDS.fullmatch(text):
        return text
    return " ".join(f"#{token}" for token in tokens)


def _shown(letter: str) -> str:
    if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp"):
        return f"\\u{ord(letter):04x}"
    return letter
