"""What an engine refuses, in which words; a refusal comes before any change."""

import operator
import threading
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from strata_nb.errors import (
    AlreadyFinishedError,
    ContextLimitError,
    EngineBusyError,
    ForeignWindowError,
    KeepError,
    NoDraftError,
    NotFinishedError,
    WindowClosedError,
    WindowOpenError,
)
from strata_nb.window import Result, Window

Tokens: TypeAlias = Sequence[SupportsIndex] | npt.NDArray[np.integer[Any]]
"""Token ids, T of them."""

MAX_ROWS = 8
"""Rows of a window that predicts."""


def named(window: Window) -> str:
    """How messages speak of a window."""
    last = window.start + window.T - 1
    return f"the window of cells {window.start} to {last}"


def tokens(ids: Tokens, *, vocabulary: int) -> tuple[int, ...]:
    """The ids as integers.

    Raises:
        TypeError: text, or something that is no integer.
        ValueError: none, or one outside the vocabulary.
    """
    if isinstance(ids, (str, bytes)):
        raise TypeError("wanted token ids, got text; use `model.encode(text)`")
    if isinstance(ids, (Mapping, Set)):
        raise TypeError(f"wanted token ids in order, got a {type(ids).__name__}")
    if len(ids) == 0:
        raise ValueError("a window needs at least its root, got no tokens")
    found = tuple(operator.index(i) for i in ids)
    for token in found:
        if not 0 <= token < vocabulary:
            raise ValueError(
                f"token {token} is outside the vocabulary; wanted 0 to {vocabulary - 1}"
            )
    return found


def prompt(ids: Tokens, *, vocabulary: int) -> tuple[int, ...]:
    """`tokens`, or none at all."""
    if not isinstance(ids, (str, bytes)) and len(ids) == 0:
        return ()
    return tokens(ids, vocabulary=vocabulary)


def pad(pad_id: object, *, vocabulary: int) -> None:
    """What a session takes for a pad: a token, or None.

    Raises:
        ValueError: something else.
    """
    index = getattr(pad_id, "__index__", None)
    is_token = index is not None and 0 <= index() < vocabulary
    if pad_id is not None and not is_token:
        raise ValueError(
            f"`pad_id` is {pad_id!r}, wanted a token of 0 to {vocabulary - 1}, or None"
        )


def chosen(ids: Sequence[int], rows: int, vocabulary: int) -> tuple[int, ...]:
    """What a choice answered: one token for each row.

    Raises:
        ValueError: another number of them, or a token outside the vocabulary.
    """
    found = tuple(operator.index(i) for i in ids)
    outside = [token for token in found if not 0 <= token < vocabulary]
    if len(found) != rows or outside:
        got = f"token {outside[0]}" if outside else f"{len(found)} tokens"
        raise ValueError(
            f"`choose` answered {got} for {rows} rows; wanted one token of 0 to "
            f"{vocabulary - 1} for each row"
        )
    return found


def stop_ids(ids: Collection[SupportsIndex]) -> frozenset[int]:
    """Stop ids as a set; read once, so that an iterator serves too.

    Raises:
        TypeError: text, or something that is no integer.
    """
    if isinstance(ids, (str, bytes)):
        raise TypeError(
            "`stop_ids` wants token ids, got text; use `model.encode(text)`"
        )
    return frozenset(operator.index(i) for i in ids)


def flag(name: str, value: object) -> bool:
    """A switch, True or False and nothing that only counts as one.

    Raises:
        TypeError: it is neither.
    """
    if not isinstance(value, bool):
        raise TypeError(f"`{name}` wants True or False, got {value!r}")
    return value


def busy(lock: threading.Lock) -> None:
    """Nobody is inside a verb.

    Only a look: the verb then takes the lock by `with`, which no interrupt can leave
    locked.

    Raises:
        EngineBusyError: somebody is.
    """
    if lock.locked():
        raise EngineBusyError(
            "this engine is inside a verb, called by another thread or by `progress`; "
            "wait for it to return, or work on a fork made before"
        )


def width(rows: int) -> None:
    """A window that predicts has 8 rows at most.

    Raises:
        ValueError: it has more.
    """
    if rows > MAX_ROWS:
        raise ValueError(
            f"a window has {MAX_ROWS} rows at most, got {rows}; cut the drafts to "
            f"{MAX_ROWS - 1}, or use `prefill` for a prompt"
        )


def room(rows: int, position: int, context: int) -> None:
    """The rows fit in the context.

    Raises:
        ContextLimitError: they do not.
    """
    if position + rows > context:
        raise ContextLimitError(
            f"{rows} rows from cell {position} on pass the end of the context "
            f"({context} cells); run {context - position} at most, or make the engine "
            "with a larger `context`"
        )


def saved_room(cells: int, context: int) -> None:
    """A saved state fits in the context.

    Raises:
        ContextLimitError: it does not.
    """
    if cells > context:
        raise ContextLimitError(
            f"the saved state has {cells} cells, this engine takes {context}; make one "
            f"with context={cells}"
        )


def draft(engine: Any, root: int | None, most: int, *, by_head: bool = True) -> int:
    """The token to draft behind, where there is a head and something to draft from.

    Args:
        engine: holds the text.
        root: the token; None: what the engine's last commit decided.
        most: tokens to draft.
        by_head: whether the draft head drafts; another needs none.

    Raises:
        NoDraftError: there is not; the message says what is missing.
        ValueError: `most` or `root` is out of range.
    """
    if operator.index(most) < 0:
        raise ValueError(f"`most` is {most}, wanted 0 or more tokens")
    if by_head and "mtp" not in engine.options:
        raise NoDraftError(
            "this engine runs without the draft head; make one with "
            "`model.engine(mtp=True)`"
        )
    if by_head and engine.position == 0:
        raise NoDraftError(
            "nothing is committed, so the draft head has no cell to draft from; "
            "`prefill` a prompt first"
        )
    found = engine.root if root is None else root
    if found is None:
        raise NoDraftError(
            "no root is decided; name the last token of the prompt by `root`, as "
            "`run` will be given it"
        )
    (token,) = tokens([found], vocabulary=engine.backend.config.vocab_size)
    return token


def open_window(window: Window | None, verb: str) -> None:
    """No window is open.

    Raises:
        WindowOpenError: `window` is.
    """
    if window is not None:
        raise WindowOpenError(
            f"{verb} while {named(window)} is open; `commit` or `abort` it first "
            "(`engine.window`)"
        )


def not_ours(engine: Any, window: Window, verb: str) -> None:
    """`window` is the open window of `engine`.

    Raises:
        TypeError: it is no window.
        ForeignWindowError: it is another engine's.
        WindowClosedError: it was committed or aborted.
    """
    if not isinstance(window, Window):
        raise TypeError(f"{verb} wants a Window, got {type(window).__name__}")
    if window.owner is not engine:
        raise ForeignWindowError(
            f"{named(window)} belongs to another engine; {verb} it there"
        )
    if window is not engine.window:
        ended = window.phase in ("committed", "aborted")
        what = f"is {window.phase} already" if ended else "was undone"
        raise WindowClosedError(
            f"{named(window)} {what}; {verb} wants the open window, "
            "run a new one with `engine.run`"
        )


def finished(window: Window) -> None:
    """`window` has not passed `finish`.

    Raises:
        AlreadyFinishedError: it has.
    """
    if window.phase == "finished":
        raise AlreadyFinishedError(
            f"{named(window)} is finished already; use its `result`, or `commit` or "
            "`abort` it"
        )


def not_finished(window: Window) -> Result:
    """The result of `window`, which has passed `finish`.

    Raises:
        NotFinishedError: it has not.
    """
    if window.result is None:
        raise NotFinishedError(
            f"{named(window)} is not finished; call `engine.finish(window)` before "
            "`engine.commit(window)`"
        )
    return window.result


def keep(
    window: Window, result: Result, rows: SupportsIndex | None, *, force: bool
) -> int:
    """Rows to keep, within what the window allows; None is the natural keep.

    Raises:
        KeepError: outside it.
    """
    wanted = result.keep if rows is None else operator.index(rows)
    if window.headless and wanted != window.T:
        raise KeepError(
            f"a headless window keeps all its {window.T} rows, got keep={wanted}; use "
            "`run(..., head=True)` for rows that may be rejected"
        )
    limit = window.T if force else result.keep
    if not 1 <= wanted <= limit:
        more = ", or pass force=True to keep rejected rows"
        useful = not force and 1 <= wanted <= window.T
        raise KeepError(
            f"keep={wanted} is outside 1 to {limit}; keep {result.keep} rows (the "
            f"natural keep) or fewer{more if useful else ''}; abort the "
            "window to keep none"
        )
    return wanted
