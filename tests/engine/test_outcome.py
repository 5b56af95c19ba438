"""What `finish` finds when the caller chooses the tokens."""

from collections.abc import Sequence

import numpy as np
import pytest

from helpers import after, prompt
from strata_nb import Model
from strata_nb.engine import Engine


class Second:
    """The second best token of each row."""

    rule = "equality"

    def __init__(self) -> None:
        self.seen: list[tuple[tuple[int, ...], np.ndarray, int]] = []

    def __call__(
        self, inputs: Sequence[int], logits: np.ndarray, *, start: int
    ) -> list[int]:
        self.seen.append((tuple(inputs), logits, start))
        return [int(i) for i in np.argsort(-logits, axis=1, kind="stable")[:, 1]]


class Answers:
    rule = "greedy"

    def __init__(self, *tokens: int) -> None:
        self.tokens = tokens

    def __call__(self, inputs: object, logits: object, *, start: int) -> Sequence[int]:
        return self.tokens


@pytest.fixture
def engine(small: Model) -> Engine:
    return after(small, prompt(small, 9))


def test_a_choice_decides_every_row_and_is_named(engine: Engine) -> None:
    choose = Second()
    window = engine.run([3, 4, 5])
    result = engine.finish(window, stop_ids=(), choose=choose)  # type: ignore[arg-type]
    ((inputs, logits, start),) = choose.seen
    assert (inputs, start) == ((3, 4, 5), 9)
    assert logits.shape == (3, engine.backend.config.vocab_size)
    assert result.predictions == tuple(choose((), logits, start=0))
    assert result.rule == "equality"
    assert engine.commit(window).record.rule == "equality"


def test_a_draft_is_accepted_when_it_is_the_choice(engine: Engine) -> None:
    window = engine.run([3, 4, 5, 6])
    choose = Answers(4, 5, 9, 1)
    result = engine.finish(window, stop_ids=(), choose=choose)  # type: ignore[arg-type]
    assert (result.accepted, result.emitted) == (2, (4, 5, 9))


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        ((1,), "1 tokens"),
        ((1, 2, 3), "3 tokens"),
        ((1, 17), "token 17"),
        ((-1, 1), "-1"),
    ],
)
def test_another_answer_is_refused_and_changes_nothing(
    engine: Engine, answer: tuple[int, ...], got: str
) -> None:
    window = engine.run([3, 4])
    with pytest.raises(ValueError, match=f"{got} for 2 rows; wanted one token of 0 to"):
        engine.finish(window, choose=Answers(*answer))  # type: ignore[arg-type]
    assert window.phase == "run"
    assert engine.finish(window).rule == "greedy"
