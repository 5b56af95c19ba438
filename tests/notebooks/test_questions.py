"""Each notebook has three questions, each with the answer expected and a reader's."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
PAGE = FOLDER / "QUESTIONS.md"


def sections() -> dict[str, str]:
    parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
    return {name: text for name, text in (part.split("\n", 1) for part in parts)}


def test_every_notebook_is_there_in_order() -> None:
    assert list(sections()) == sorted(path.stem for path in FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("name", sorted(sections()))
def test_three_questions_with_both_answers(name: str) -> None:
    text = sections()[name]
    questions = re.findall(r"^(\d)\. \*\*(.+\?)\*\*$", text, re.M)
    assert [number for number, _ in questions] == ["1", "2", "3"]
    for kind in ("Expected", "Reader"):
        answers = re.findall(rf"^   {kind}: (.+)$", text, re.M)
        assert len(answers) == 3
        assert min(map(len, answers)) > 20
