"""The prompts that come with the package."""

import numpy as np
import pytest

from strata_nb import Model
from strata_nb.prompts import KINDS, WRITTEN, probe, prompts, texts


@pytest.mark.parametrize(
    ("kind", "count"), [("edit", 20), ("code", 20), ("prose", 10), ("agent", 11)]
)
def test_there_are_so_many_and_no_two_are_alike(kind: str, count: int) -> None:
    found = texts(kind)  # type: ignore[arg-type]
    assert len(set(found)) == len(found) == count
    assert all(text.isascii() and text == text.strip() for text in found)


def test_what_is_held_out_is_in_no_other_prompt() -> None:
    for kind in WRITTEN:
        found = texts(kind, held_out=True)
        assert len(set(found)) == len(found) == 8
        assert all(text.isascii() and text == text.strip() for text in found)
        assert not set(found) & set(texts(kind))


def test_an_edit_is_asked_by_a_user(trained: Model) -> None:
    for kind in WRITTEN:
        for text, ids in zip(texts(kind), prompts(trained, kind), strict=True):
            shown = trained.decode(ids)
            assert text in shown
            assert shown.startswith("<|im_start|>user") == (kind == "edit")
            assert 16 < len(ids) < 400


def test_a_probe_is_one_text_of_its_kind(trained: Model) -> None:
    found = [probe(kind) for kind in KINDS]
    assert len(set(found)) == 3
    # An edit holds the whole conversation, what was asked and the answer.
    assert [text.startswith("<|im_start|>user") for text in found] == [
        True,
        False,
        False,
    ]
    assert all(300 <= len(trained.encode(text)) <= 600 for text in found)


def test_another_kind_is_named() -> None:
    for read, wanted in ((texts, "edit, code, prose, agent$"), (probe, "code, prose$")):
        with pytest.raises(ValueError, match=rf"is 'poem', wanted .*{wanted}"):
            read("poem")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"is 'agent', wanted edit, code, prose$"):
        probe("agent")


def test_answers_to_an_agent_hang_on_no_near_tie(trained: Model) -> None:
    for ids in prompts(trained, "agent"):
        engine = trained.engine()
        engine.prefill(ids[:-1])
        root = ids[-1]
        for _ in range(16):
            window = engine.run([root])
            engine.finish(window, stop_ids=())
            second, first = np.sort(window.logits[0])[-2:]
            assert first - second > 1e-2
            after = engine.commit(window, keep=1).root
            assert after is not None
            root = after
