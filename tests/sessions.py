"""What tests of sessions compare with: plain decoding."""

from collections.abc import Sequence
from typing import Any

from helpers import after, assert_same, greedy
from strata_nb import Model, Session

OPEN: dict[str, Any] = {"stop_ids": ()}


def cold(model: Model, session: Session) -> None:
    """The engine is where plain decoding of the same tokens is."""
    assert_same(session.engine(), after(model, session.tokens[:-1]))


def reference(model: Model, ids: Sequence[int], count: int) -> tuple[int, ...]:
    return tuple(greedy(after(model, ids[:-1]), ids[-1], count))
