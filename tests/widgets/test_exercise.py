"""`Exercise`: right, wrong, unreadable answers, and a fresh beginning."""

from strata_widgets import Exercise


def small(bench: list[int], answer: object) -> str | None:
    bench.append(0)
    return None if answer == 3 else f"{answer} is not the number of rows"


def made() -> Exercise[list[int]]:
    return Exercise(lambda: [1], check=small, right="a root and two drafts")


def test_right_wrong_and_again() -> None:
    task = made()
    assert task.marked is None
    wrong = task.check(2)
    assert not wrong
    assert repr(wrong) == "Not yet: 2 is not the number of rows"
    right = task.check(3)
    assert right
    assert task.marked is right
    assert repr(right) == "Right: a root and two drafts"
    assert task.bench == [1, 0, 0]
    assert task.reset() == [1]
    assert task.bench == [1]
    assert task.marked is None


def test_an_answer_that_cannot_be_read_is_words() -> None:
    task: Exercise[list[int]] = Exercise(
        list, check=lambda _, answer: answer["rows"], right=""
    )
    said = task.check(None)
    assert not said
    assert "the check could not read None" in repr(said)
