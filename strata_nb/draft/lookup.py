"""Suffix lookup: what followed the last time that the text read like this."""

import operator
from array import array
from collections.abc import Sequence

from strata_nb.draft.protocol import NO_DRAFT, Draft
from strata_nb.draft.tokens import alike, checked

ORDER = 3
"""Tokens that the index knows together."""

# Packed, so that a run of tokens is copied, hashed and compared as one thing.
PACKED = "i"
BITS = 8 * array(PACKED).itemsize


class SuffixLookup:
    """Proposes what followed the longest earlier match of the history's end.

    An index of trigrams names where the last three tokens came before; the newest few
    of these places are extended backward, the longest match wins, the newest of equal
    ones. No model, no weights: a copy machine that the target checks.

    Args:
        minimum: tokens that have to match; below 3 the index knows so many together.
        most: tokens proposed at most.
        occurrences: earlier places looked at, the newest.
        extension: tokens at which a match counts as long enough.

    Raises:
        ValueError: one of them is below 1, or `extension` below `minimum`.
    """

    name = "suffix_lookup"

    def __init__(
        self,
        *,
        minimum: int = 4,
        most: int = 3,
        occurrences: int = 4,
        extension: int = 64,
    ) -> None:
        given = {"minimum": minimum, "most": most, "occurrences": occurrences}
        for name, value in {**given, "extension": extension}.items():
            if operator.index(value) < 1:
                raise ValueError(f"`{name}` is {value}, wanted 1 or more")
        if extension < minimum:
            raise ValueError(
                f"`extension` is {extension}, wanted `minimum` ({minimum}) or more: no "
                "match could be long enough"
            )
        self._minimum, self._most = minimum, most
        self._occurrences, self._extension = occurrences, extension
        self._order = min(minimum, ORDER)
        self._forget()

    def __len__(self) -> int:
        return len(self._text)

    @property
    def history(self) -> Sequence[int]:
        """The tokens that drafts are looked up in."""
        return tuple(self._text)

    def assign(self, tokens: Sequence[int]) -> None:
        """The history is `tokens` now: what differs is undone, the rest appended.

        Raises:
            TypeError: text, or something that is no integer; nothing has changed.
            ValueError: an integer too large for a token; nothing has changed.
        """
        new = _packed(tokens)
        shared = alike(self._text, new)
        try:
            self._undo(shared)
            self._add(new[shared:])
        except BaseException:
            self._forget()
            raise

    def append(self, tokens: Sequence[int]) -> None:
        """`tokens` follow the history.

        Raises:
            TypeError: as in `assign`.
            ValueError: as in `assign`.
        """
        new = _packed(tokens)
        try:
            self._add(new)
        except BaseException:
            self._forget()
            raise

    def propose(self, most: int) -> Draft:
        """What followed the best match, at most `most` tokens."""
        count = min(most, self._most)
        text, end = self._text, len(self._text)
        # The last place is the end of the history itself.
        places = self._behind.get(text[-self._order :].tobytes(), ())
        if len(places) < 2 or count < 1:
            return NO_DRAFT
        # What is shorter than the minimum need not be measured.
        best, where = self._minimum - 1, 0
        reach = min(self._extension, end)
        last = _number(text[end - reach :])
        for place in places[-2 : -2 - self._occurrences : -1]:
            # An older place has to be better than a newer one: by a token more, which
            # most places are not.
            if place > best and text[place - best - 1] == text[end - best - 1]:
                # Where the numbers differ first, seen from the last token: a single
                # look and not a loop.
                length = min(place, reach)
                there = _number(text[place - length : place])
                apart = there ^ (last >> BITS * (reach - length))
                length -= -(-apart.bit_length() // BITS)
                if length > best:
                    best, where = length, place
                    if best == reach:
                        break
        if best < self._minimum:
            return NO_DRAFT
        return Draft(tuple(text[where : where + count]), match_length=best)

    def candidates(self, most: int) -> list[Draft]:
        """What followed each of the matches looked at, each continuation once.

        The longest match first, the newest of equals: so the first is what `propose`
        proposes. At most `most` tokens each.
        """
        count = min(most, self._most)
        text, end = self._text, len(self._text)
        places = self._behind.get(text[-self._order :].tobytes(), ())
        if len(places) < 2 or count < 1:
            return []
        found: dict[tuple[int, ...], int] = {}
        for place in places[-2 : -2 - self._occurrences : -1]:
            reach = min(self._extension, end, place)
            before = reversed(text[place - reach : place])
            last = reversed(text[end - reach :])
            length = alike([*before], [*last])
            follows = tuple(text[place : place + count])
            if length >= self._minimum and length > found.get(follows, 0):
                # A longer match of the same tokens takes its own place in the order.
                found.pop(follows, None)
                found[follows] = length
        drafts = [Draft(tokens, match_length=n) for tokens, n in found.items()]
        return sorted(drafts, key=lambda draft: -(draft.match_length or 0))

    def _forget(self) -> None:
        """Begin anew: whatever interrupts a change leaves no half of an index."""
        self._text = array(PACKED)
        # Where the token behind each n-gram stands, in order.
        self._behind: dict[bytes, list[int]] = {}

    def _add(self, tokens: "array[int]") -> None:
        text, behind, order = self._text, self._behind, self._order
        first = max(len(text) + 1, order)
        text.extend(tokens)
        for end in range(first, len(text) + 1):
            gram = text[end - order : end].tobytes()
            places = behind.get(gram)
            if places is None:
                behind[gram] = [end]
            else:
                places.append(end)

    def _undo(self, length: int) -> None:
        """Forget all tokens after the first `length`."""
        text, behind, order = self._text, self._behind, self._order
        for end in range(len(text), max(length, order - 1), -1):
            gram = text[end - order : end].tobytes()
            places = behind[gram]
            places.pop()
            if not places:
                del behind[gram]
        del text[length:]


def _packed(tokens: Sequence[int]) -> "array[int]":
    # A list or tuple is checked by the array itself, in less time.
    found = tokens if isinstance(tokens, (list, tuple)) else checked(tokens)
    try:
        return array(PACKED, found)
    except OverflowError as error:
        raise ValueError(
            f"token {max(found, key=abs)} is outside any vocabulary; wanted 0 to "
            f"{2 ** (BITS - 1) - 1}"
        ) from error


def _number(tokens: "array[int]") -> int:
    """The tokens as one number, the last of them its highest digit."""
    return int.from_bytes(tokens.tobytes(), "little")
