import pytest

from strata_widgets import tokens
from widgets.fake_model import HOSTILE, FakeModel


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b", "a·b"),
        ("\n\t", "↵⇥"),
        ("\u202egnp", "\\u202egnp"),
        ("\x00\x1b[31m", "\\u0000\\u001b[31m"),
        ("\u2028", "\\u2028"),
        ("é漢", "é漢"),
        ("<b>", "<b>"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert tokens.visible(text) == shown


@pytest.mark.parametrize(
    ("draft", "ids"),
    [
        ("", []),
        (" x + 1", [8, 9]),
        ("#8 #9", [8, 9]),
        ("  #8\n#9 ", [8, 9]),
        (HOSTILE, [11]),
    ],
)
def test_a_draft_is_text_or_ids(draft: str, ids: list[int]) -> None:
    assert tokens.parse_draft(FakeModel(), draft, vocabulary=16) == ids


def test_an_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="must be #0 to #15, got #16"):
        tokens.parse_draft(FakeModel(), "#3 #16", vocabulary=16)


def test_a_draft_comes_back_as_text_only_where_the_text_gives_its_ids() -> None:
    model = FakeModel()
    assert tokens.draft_text(model, [8, 9]) == " x + 1"
    assert tokens.draft_text(model, []) == ""
    model.decode = lambda ids: "?"  # type: ignore[method-assign]
    model.encode = lambda text: [1]  # type: ignore[method-assign]
    assert tokens.draft_text(model, [8, 9]) == "#8 #9"


def test_a_token_without_text_goes_by_its_name_or_number() -> None:
    class Names:
        def id_to_token(self, token: int) -> str | None:
            return {3: "<|end|>"}.get(token)

    model = FakeModel()
    model.decode = lambda ids: ""  # type: ignore[method-assign]
    assert tokens.piece(model, 3) == "#3"
    model.tokenizer = Names()  # type: ignore[attr-defined]
    assert tokens.piece(model, 3) == "<|end|>"
    assert tokens.piece(model, 4) == "#4"
