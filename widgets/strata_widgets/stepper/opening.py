"""What a widget needs before it can show an engine."""

from collections.abc import Sequence
from typing import Any

from strata_nb import Engine
from strata_nb.backend import Text


def text_of(engine: Any) -> Text:
    """Return what knows the text of this engine's tokens.

    Raises:
        TypeError: `engine` is no engine, a model for one.
        ValueError: it knows no text.
    """
    if not isinstance(engine, Engine):
        model = hasattr(engine, "engine")
        hint = "use `model.engine()`" if model else "make one with `model.engine()`"
        raise TypeError(f"Stepper wants an Engine, got {type(engine).__name__}; {hint}")
    if engine.model is None:
        raise ValueError(
            "an engine that knows the text of tokens is wanted, got one whose "
            "`model` is None; make it with `model.engine()`"
        )
    return engine.model


def prefilled(
    engine: Engine, model: Text, prompt: str | Sequence[int]
) -> tuple[int, int]:
    """Prefill all of `prompt` but its last token.

    Returns:
        That token, and the cell that it will have.

    Raises:
        ValueError: `prompt` is empty, or the engine has seen tokens already.
        StrataError: from `prefill`, as the engine words it.
    """
    if engine.position or engine.root is not None or engine.window is not None:
        raise ValueError(
            f"`prompt` wants an engine that has seen nothing, got one at position "
            f"{engine.position}; pass a fresh `model.engine()`, or leave it out"
        )
    ids = model.encode(prompt) if isinstance(prompt, str) else list(prompt)
    if not ids:
        raise ValueError("`prompt` must hold at least one token, got none")
    if len(ids) > 1:
        engine.prefill(ids[:-1])
    return int(ids[-1]), engine.position
