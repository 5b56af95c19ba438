"""A conversation as one text: the checkpoint's own template."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from strata_nb.errors import CheckpointError


def render(
    template: str | None,
    messages: Sequence[Mapping[str, object]],
    *,
    name: str,
    **variables: object,
) -> str:
    """Fill in a chat template, in a sandbox: it is content of a file from outside.

    Args:
        template: Jinja text; None: the checkpoint has none.
        messages: each with "role" and "content", oldest first.
        name: of the checkpoint, for errors.
        variables: others that the template knows, such as tools; the text ends where
            the assistant begins unless `add_generation_prompt` is False.

    Raises:
        CheckpointError: no template, or it cannot be filled in.
        TypeError: a message without role or content.
    """
    if template is None:
        raise CheckpointError(
            f"{name} has no chat template; put chat_template.jinja beside config.json, "
            "or give the whole prompt as text"
        )
    for message in messages:
        if not isinstance(message, Mapping) or not {"role", "content"} <= set(message):
            raise TypeError(
                f"a message wants 'role' and 'content', got {message!r}; for example "
                "{'role': 'user', 'content': 'Hello'}"
            )
    sandbox = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    sandbox.globals.update(raise_exception=_refuse, strftime_now=_now)
    try:
        return sandbox.from_string(template).render(
            **{"messages": list(messages), "add_generation_prompt": True, **variables}
        )
    except Exception as error:  # code from outside raises what it likes
        raise CheckpointError(
            f"the chat template of {name} does not take these messages ({error}); "
            "change them, or give the whole prompt as text"
        ) from error


def _refuse(message: str) -> NoReturn:
    """What templates call where they refuse a message."""
    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)
