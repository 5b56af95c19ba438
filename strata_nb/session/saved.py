"""A session on disk: the engine's file, and beside it the tokens of the cells."""

import os
from pathlib import Path

import numpy as np

from strata_nb.engine import Engine
from strata_nb.errors import SavedStateError
from strata_nb.session.request import Transcript
from strata_nb.state import Leaves
from strata_nb.trace import Leaf

_IDS = Leaf("session", None, "tokens")
_PROMPT = Leaf("session", None, "prompt")


def save(path: str | os.PathLike[str], engine: Engine, text: Transcript) -> None:
    """Write a session, whole or not at all.

    All that belongs to a request beside the engine follows from its tokens: the
    histories of drafter, penalties and sampler. So they are not saved, and a file
    cannot hold one that does not fit.

    Args:
        path: of the file.
        engine: holds all tokens but the last.
        text: its tokens.

    Raises:
        OSError: the file cannot be written; an older one survives.
    """
    beside = {
        _IDS: np.array(text.ids, np.int64),
        _PROMPT: np.array([text.prompt], np.int64),
    }
    engine.save(path, beside=beside)


def restore(path: str | os.PathLike[str], engine: Engine) -> Transcript:
    """Bring `engine` to the place that a file holds, and give back its tokens.

    Raises:
        SavedStateError: no such file, a damaged or altered one, one of another model,
            kind of K and V, hash seed or format, or one that no session wrote; the
            message names what does not fit.
        ContextLimitError: the text is longer than the engine's context.
    """
    beside = engine.restore(path)
    text = _text(beside, Path(path).name)
    fits = len(text.ids) == engine.position + 1 or not (text.ids or engine.position)
    vocabulary = engine.backend.config.vocab_size
    if not (
        fits
        and 0 <= text.prompt <= len(text.ids)
        and all(0 <= token < vocabulary for token in text.ids)
    ):
        raise SavedStateError(
            f"session in {Path(path).name} does not fit its engine: {len(text.ids)} "
            f"tokens for {engine.position} cells; save the session again"
        )
    return text


def _text(beside: Leaves, name: str) -> Transcript:
    if set(beside) != {_IDS, _PROMPT}:
        raise SavedStateError(
            f"{name} holds an engine and no session; restore it with `Engine.restore`"
        )
    ids, prompt = beside[_IDS], beside[_PROMPT]
    kinds = {ids.dtype.kind, prompt.dtype.kind}
    if ids.ndim != 1 or prompt.shape != (1,) or kinds != {"i"}:
        raise SavedStateError(
            f"session in {name} is no list of tokens; save the session again"
        )
    return Transcript(tuple(int(i) for i in ids), int(prompt[0]))
