"""A conversation as the checkpoint's template writes it."""

import pytest

import strata_nb
from strata_nb.chat import render
from strata_nb.errors import CheckpointError

USER = {"role": "user", "content": "Hello"}


def test_the_bundled_template_ends_where_the_assistant_begins(
    trained: strata_nb.Model,
) -> None:
    start, end = "<|im_start|>", "<|im_end|>"
    begun = f"{start}user\nHello\n{end}\n{start}assistant\n"
    assert trained.chat([USER]) == begun
    whole = trained.chat([USER], add_generation_prompt=False)
    assert whole == f"{start}user\nHello\n{end}\n"


def test_a_template_sees_variables_and_may_refuse() -> None:
    refuse = "{% if messages|length > 1 %}{{ raise_exception('one!') }}{% endif %}"
    text = "{{ tools }}" + refuse
    assert render(text, [USER], name="m", tools="x") == "x"
    with pytest.raises(CheckpointError, match=r"template of m does not take.*one!"):
        render(text, [USER, USER], name="m")


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{% for i in range(10 ** 9) %}{% endfor %}",
        "{% broken",
        "{{ 1 / 0 }}",
        "{{ messages[0].content.nothing.more }}",
    ],
)
def test_a_template_cannot_reach_out(text: str) -> None:
    with pytest.raises(CheckpointError, match="change them, or give the whole prompt"):
        render(text, [USER], name="m")


def test_no_template_and_no_message_are_named() -> None:
    with pytest.raises(CheckpointError, match="m has no chat template; put chat_temp"):
        render(None, [USER], name="m")
    with pytest.raises(TypeError, match="wants 'role' and 'content', got"):
        render("x", [{"role": "user"}], name="m")
    with pytest.raises(TypeError, match="wants 'role' and 'content', got 'Hello'"):
        render("x", ["Hello"], name="m")  # type: ignore[list-item]


def test_half_a_character_is_refused_in_words(trained: strata_nb.Model) -> None:
    """As the command line hands on bytes that are no UTF-8."""
    with pytest.raises(ValueError, match=r"character 1 of the text is '\\udcff', half"):
        trained.encode("a\udcffb")
    with pytest.raises(TypeError, match="wanted text, got 5"):
        trained.encode(5)  # type: ignore[arg-type]
