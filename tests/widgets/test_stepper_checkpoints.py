"""Going back: engine, trace, text, charts and drafter are as they were."""

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

import strata_nb
from strata_nb.draft import SuffixLookup, history_of
from strata_nb.errors import WindowOpenError
from strata_widgets import Stepper
from strata_widgets.stepper.checkpoints import NEWEST
from widgets.fake_model import FakeModel
from widgets.test_stepper import PROMPT, click


def window(stepper: Stepper, draft: str, **commit: Any) -> None:
    stepper.run(draft=draft)
    stepper.finish()
    stepper.commit(**commit)


@pytest.fixture
def stepper() -> Stepper:
    """Cells 2, 5 and 9, and the root of cell 9."""
    stepper = Stepper(FakeModel().engine(), prompt=PROMPT)
    window(stepper, "):\n")
    window(stepper, " x + 1\n")
    return stepper


def seen(stepper: Stepper) -> dict[str, Any]:
    """All that a person sees of an engine, and the engine itself."""
    engine = stepper.engine
    shown = {name: stepper._view[name] for name in ("text", "root", "position")}
    charts = [stepper._windows.rows, stepper._positions.rows, stepper._union.rows]
    return {
        "digests": engine.digests(),
        "root": engine.root,
        "trace": list(engine.trace),
        "charts": charts,
        **shown,
    }


def test_each_committed_window_leaves_a_checkpoint(stepper: Stepper) -> None:
    assert stepper.engine.position == 9
    assert stepper.checkpoints == (2, 5)
    assert [p["label"] for p in stepper._view["places"]] == [
        "5, after window 1",
        "2, the start",
    ]
    # A window that is aborted leaves none.
    stepper.run()
    stepper.abort()
    assert stepper.checkpoints == (2, 5)


@pytest.mark.parametrize("windows", [1, 2, 3])
def test_all_is_as_it_was(windows: int) -> None:
    engine = FakeModel().engine()
    stepper = Stepper(engine, prompt=PROMPT)
    was = [seen(stepper)]
    for draft in ("):\n", " x + 1\n", " x x")[:windows]:
        window(stepper, draft)
        was.append(seen(stepper))
    for before in was[-2::-1]:
        position = stepper.back(position=before["position"])
        assert stepper.engine is engine
        assert position == engine.position == before["position"]
        assert seen(stepper) == before
        assert stepper._view["rows"] == []
        assert stepper._phase() == "ready"


def test_the_same_windows_again_give_the_same(stepper: Stepper) -> None:
    end = seen(stepper)
    assert stepper.back(position=2) == 2
    window(stepper, "):\n")
    window(stepper, " x + 1\n")
    again = seen(stepper)
    assert [r.inputs for r in again.pop("trace")] == [
        r.inputs for r in end.pop("trace")
    ]
    assert again == end
    assert stepper.checkpoints == (2, 5)


def test_without_a_position_it_is_one_window(stepper: Stepper) -> None:
    assert stepper.back() == 5
    assert stepper._view["message"]["text"] == "Back at cell 5: 1 window is undone."
    assert stepper.back() == 2
    with pytest.raises(ValueError, match="a checkpoint before this cell is wanted; C"):
        stepper.back()
    assert stepper._view["no_back"] == "no checkpoint lies before this cell"
    assert stepper.root == 5
    # What is undone is let go at once, and not only with the next window.
    assert len(stepper._checkpoints._kept) == 1


def test_another_way_on_drops_the_places_of_the_first(stepper: Stepper) -> None:
    stepper.back(position=2)
    window(stepper, "):", keep=1)
    window(stepper, "")
    assert stepper.checkpoints == (2, 3)
    with pytest.raises(ValueError, match="wanted one of 2, 3"):
        stepper.back(position=5)


def test_by_clicks(stepper: Stepper) -> None:
    shown = click(stepper, "back", position=2)
    assert shown["message"] == {
        "kind": "note",
        "text": "Back at cell 2: 2 windows are undone.",
    }
    assert (shown["phase"], shown["position"]) == ("ready", 2)
    assert not shown["can"]["back"]


def test_a_cell_without_a_checkpoint_is_refused(stepper: Stepper) -> None:
    before = seen(stepper)
    words = "cell 7 has no checkpoint to go back to; wanted one of 2, 5 (the newest"
    with pytest.raises(ValueError, match=re.escape(words)):
        stepper.back(position=7)
    shown = click(stepper, "back", position=7)
    assert shown["message"]["kind"] == "error"
    assert words in shown["message"]["text"]
    # Where the engine is, it need not go back to.
    with pytest.raises(ValueError, match="cell 9 has no checkpoint"):
        stepper.back(position=9)
    assert seen(stepper) == before


def test_an_open_window_is_refused_in_words(stepper: Stepper) -> None:
    stepper.run()
    assert stepper._view["no_back"] == "a window is open: Commit or Abort it first"
    assert not stepper._view["can"]["back"]
    words = "back while the window of cells 9 to 9 is open; `commit` or `abort` it"
    with pytest.raises(WindowOpenError, match=re.escape(words)):
        stepper.back()
    shown = click(stepper, "back", position=2)
    assert words in shown["message"]["text"]
    assert (shown["phase"], shown["position"]) == ("run", 9)


def test_the_oldest_is_dropped() -> None:
    stepper = Stepper(FakeModel().engine(), prompt=PROMPT, checkpoints=2)
    for _ in range(4):
        window(stepper, "")
    # The place where the engine is now is one of the two.
    assert stepper.checkpoints == (5,)
    assert len(stepper._checkpoints._kept) == 2


def test_how_many_there_are() -> None:
    stepper = Stepper(FakeModel().engine(), prompt=PROMPT)
    for _ in range(NEWEST + 4):
        window(stepper, "")
    assert len(stepper._checkpoints._kept) == NEWEST == 32
    none = Stepper(FakeModel().engine(), prompt=PROMPT, checkpoints=0)
    window(none, "")
    assert none.checkpoints == ()
    with pytest.raises(ValueError, match="`checkpoints` is -1, wanted 0 or more"):
        Stepper(FakeModel().engine(), checkpoints=-1)


def test_windows_of_a_cell_are_known_after_refresh(stepper: Stepper) -> None:
    engine = stepper.engine
    assert engine.root is not None
    one = engine.run([engine.root])
    engine.finish(one)
    engine.commit(one)
    stepper.refresh()
    stepper.refresh()
    assert stepper.checkpoints == (2, 5, 9)
    window(stepper, "")
    # Each place once, however often somebody looked.
    assert list(stepper.checkpoints) == [2, 5, 9, 10]
    assert stepper.back(position=9) == 9


def test_what_another_view_undid_is_no_place_any_more(stepper: Stepper) -> None:
    other = Stepper(stepper.engine)
    window(other, "")
    stepper.refresh()
    assert stepper.checkpoints == (2, 5, 9)
    other.back(position=9)
    stepper.back(position=2)
    window(stepper, "", keep=1)
    # Of nine cells, but of another text than that which the other view remembers.
    for _ in range(9):
        window(stepper, "")
    assert 9 not in other.checkpoints


def test_an_engine_under_way_goes_back_to_where_it_was_found(stepper: Stepper) -> None:
    fork = stepper.engine.fork()
    before = fork.digests()
    other = Stepper(fork)
    window(other, "")
    assert other.back() == 9
    assert (fork.digests(), fork.root, len(fork.trace)) == (
        before,
        stepper.root,
        0,
    )


def test_no_room_for_the_state_is_said(
    stepper: Stepper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = seen(stepper)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(OSError, match=r"takes a file in .*gone for a moment"):
        stepper.back()
    shown = click(stepper, "back", position=2)
    assert shown["message"]["kind"] == "error"
    assert "name another folder with TMPDIR" in shown["message"]["text"]
    assert seen(stepper) == before


def test_nothing_is_left_on_disk(
    stepper: Stepper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stepper.back()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kv", ["float32", "int8"])
@pytest.mark.parametrize("fold", ["lazy", "eager"])
def test_every_part_of_the_bundled_model_goes_back(
    trained: strata_nb.Model, kv: Any, fold: Any
) -> None:
    engine = trained.engine(kv=kv, fold=fold)
    drafter = SuffixLookup()
    prompt = "def area(w, h):\n    return w * h\n\n\ndef area(w"
    stepper = Stepper(engine, prompt=prompt, drafter=drafter)
    plain = engine.fork()
    was, logits = [], []
    for keep in (None, 1, 3):
        was.append((engine.digests(), stepper.root, drafter.history))
        logits.append(stepper.run(draft=", h):\n").logits)
        stepper.finish()
        stepper.commit(keep=keep, force=True)
    for place, made in reversed(list(zip(was, logits, strict=True))):
        stepper.back()
        digests, root, history = place
        assert engine.digests() == digests
        assert (stepper.root, history_of(drafter)) == (root, history)
        assert (stepper.run(draft=", h):\n").logits == made).all()
        stepper.abort()
    # To the bit what the engine was before the widget had a single window.
    assert engine.digests() == plain.digests()
