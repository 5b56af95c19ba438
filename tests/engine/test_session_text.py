"""Text as it comes: whole characters, stop strings across token borders."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_nb import Model, Session
from strata_nb.draft import Perfect
from strata_nb.session.text import TextStream

words = st.text("ab\n é漢🎉<|", max_size=24)


def streamed(
    model: Model, tokens: Sequence[int], stop: Sequence[str] = ()
) -> tuple[TextStream, list[str], int]:
    shown: list[str] = []
    stream = TextStream(model.tokenizer, stop=stop, show=shown.append)
    taken = 0
    for token in tokens:
        taken += stream.feed([token])
        if stream.stopped_by is not None:
            break
    stream.close()
    return stream, shown, taken


@given(text=words)
def test_pieces_are_whole_characters_and_the_text(trained: Model, text: str) -> None:
    tokens = trained.encode(text)
    stream, shown, taken = streamed(trained, tokens)
    assert "".join(shown) == stream.text == text
    assert taken == len(tokens)
    assert all(shown)
    assert "\ufffd" not in "".join(shown)


@given(
    text=words, stop=st.lists(st.text("ab\n é漢", min_size=1, max_size=4), max_size=3)
)
def test_a_stop_string_ends_the_text_wherever_borders_lie(
    trained: Model, text: str, stop: list[str]
) -> None:
    tokens = trained.encode(text)
    stream, shown, taken = streamed(trained, tokens, stop)
    # The definition: the shortest run of tokens whose text has a stop string.
    for count in range(len(tokens) + 1):
        so_far = whole(trained, tokens[:count])
        found = [(so_far.find(s), -len(s), s) for s in stop if s in so_far]
        if found:
            at, _, by = min(found)
            assert (stream.stopped_by, taken) == (by, count)
            assert "".join(shown) == stream.text == so_far[:at]
            return
    assert stream.stopped_by is None
    assert "".join(shown) == stream.text == text


def whole(model: Model, tokens: Sequence[int]) -> str:
    """Text of the characters that are complete."""
    return model.decode(tokens).rstrip("\ufffd")


def test_what_may_begin_a_stop_string_waits(trained: Model) -> None:
    shown: list[str] = []
    stream = TextStream(trained.tokenizer, stop=["abc"], show=shown.append)
    for letter in "xab":
        stream.feed(trained.encode(letter))
    assert "".join(shown) == "x"
    stream.feed(trained.encode("d"))
    assert "".join(shown) == "xabd"
    stream.feed(trained.encode("a"))
    stream.close()
    assert "".join(shown) == stream.text == "xabda"


def test_a_long_stop_string_costs_what_waits(trained: Model) -> None:
    class Counted(str):
        slices = 0

        def __getitem__(self, key: Any) -> str:
            Counted.slices += 1
            return super().__getitem__(key)

    stream = TextStream(trained.tokenizer, stop=[Counted("ab" * 1000)])
    for letter in "xyabz":
        stream.feed(trained.encode(letter))
    # One for each letter that waits, the new one included: 1, 1, 1, 2 and 3.
    assert (stream.text, Counted.slices) == ("xyabz", 8)


def test_of_two_in_one_piece_the_first_in_the_text_counts(trained: Model) -> None:
    (token,) = trained.encode(" return")
    for stop, by in ((["tu", "re"], "re"), (["ret", "re"], "ret"), (["n", "t"], "t")):
        stream = TextStream(trained.tokenizer, stop=stop)
        assert stream.feed([token, token]) == 1
        assert stream.stopped_by == by
        assert stream.text == " return"[: " return".find(by)]


def test_an_unfinished_character_is_left_out(trained: Model) -> None:
    tokens = trained.encode("é漢")
    stream, shown, _ = streamed(trained, tokens[:-1])
    assert stream.text == "".join(shown) == "é"


def test_special_tokens_have_no_text(trained: Model) -> None:
    tokens = trained.encode("a<|im_end|>b")
    assert streamed(trained, tokens)[0].text == "ab"


def test_without_a_tokenizer_there_is_no_text() -> None:
    stream = TextStream(None, stop=["a"])
    assert stream.feed([1, 2, 3]) == 3
    stream.close()
    assert (stream.text, stream.stopped_by) == ("", None)


class Heard(Perfect):
    """Perfect, and remembers its history."""

    def assign(self, tokens: Sequence[int]) -> None:
        super().assign(tokens)
        self.tokens = list(tokens)

    def append(self, tokens: Sequence[int]) -> None:
        super().append(tokens)
        self.tokens += tokens


@pytest.mark.parametrize("drafts", [False, True])
@pytest.mark.parametrize("stop", ["re", "return", "\n    return", ":", "a + b\n"])
def test_a_stop_string_inside_a_draft_cuts_the_window(
    trained: Model, stop: str, drafts: bool
) -> None:
    prompt = "def add(a, b):\n    return a + b\n\ndef add(a, b"
    free = Session(trained).reply(prompt, max_new=24)
    assert stop in free.text
    text = [*trained.encode(prompt), *free.tokens]
    heard = Heard(text if drafts else [])
    session = Session(trained, drafter=heard)
    shown: list[str] = []
    reply = session.reply(prompt, max_new=24, stop=["zzz", stop], show=shown.append)
    assert (reply.stop, reply.stop_string) == ("text", stop)
    assert reply.text == "".join(shown) == free.text[: free.text.find(stop)]
    # Emitted up to the token that completed it, and nothing behind.
    assert reply.tokens == free.tokens[: len(reply.tokens)]
    assert stop in trained.decode(reply.tokens)
    assert stop not in trained.decode(reply.tokens[:-1])
    assert session.position == len(trained.encode(prompt)) + len(reply.tokens) - 1
    counted = [r for r in session.trace if not r.headless]
    assert sum(len(r.emitted) for r in counted) == len(reply.tokens)
    assert reply.accepted <= reply.offered
    # What was cut off is in no history.
    assert tuple(heard.tokens) == session.tokens
    # And it goes on as if it had not stopped.
    more = session.go_on(max_new=24 - len(reply.tokens))
    assert (*reply.tokens, *more.tokens) == free.tokens
