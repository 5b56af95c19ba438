import re
from typing import Any

import pytest

from strata_nb.errors import (
    AlreadyFinishedError,
    KeepError,
    NotFinishedError,
    WindowClosedError,
    WindowOpenError,
)
from strata_widgets import Stepper
from strata_widgets.stepper import view
from widgets.fake_model import HOSTILE, SCRIPT, VOCABULARY, FakeModel

PROMPT = "def f(x"


@pytest.fixture
def stepper() -> Stepper:
    return Stepper(FakeModel().engine(), prompt=PROMPT)


def click(stepper: Stepper, kind: str, **values: Any) -> dict[str, Any]:
    """Send what the page sends, and return what it is shown."""
    stepper._heard(stepper, {"kind": kind, "ask": "page-1", **values}, [])
    shown: dict[str, Any] = stepper._view
    return shown


def verdicts(shown: dict[str, Any]) -> list[str]:
    return [row["verdict"] for row in shown["rows"]]


def test_the_last_token_of_the_prompt_is_the_root(stepper: Stepper) -> None:
    shown = stepper._view
    assert [c["text"] for c in shown["text"]] == ["def", "·f"]
    assert shown["root"] == {"id": 5, "text": "(x"}
    assert shown["can"] == {
        "run": True,
        "suggest": True,
        "take": True,
        "back": False,
        "finish": False,
        "commit": False,
        "abort": False,
    }


def test_run_finish_commit_by_clicks(stepper: Stepper) -> None:
    shown = click(stepper, "run", draft="):\n    return * 2 + 1")
    assert (shown["phase"], shown["T"]) == ("run", 6)
    assert verdicts(shown) == ["root"] + ["not judged yet"] * 5
    assert shown["rows"][0]["prediction"] is None
    # The likeliest token is the answer.
    assert [row["choices"] for row in shown["rows"]] == [[]] * 6

    shown = click(stepper, "finish")
    assert shown["rows"][0]["choices"][0]["text"] == "):"
    assert verdicts(shown) == [
        "root",
        "accepted",
        "accepted",
        "accepted",
        "first mismatch",
        "never reached",
    ]
    assert (shown["keep"], shown["natural"]) == (4, 4)
    assert [row["kept"] for row in shown["rows"]] == [True] * 4 + [False] * 2
    assert [row["bonus"] for row in shown["rows"]].index(True) == 3

    shown = click(stepper, "commit", keep=4, force=False)
    assert (shown["phase"], shown["position"]) == ("committed", 6)
    assert shown["root"]["text"] == "·x"
    assert "".join(c["text"] for c in shown["text"]) == "def·f(x):↵····return"
    assert shown["answered"] == "page-1"


def test_a_click_carries_its_keep_past_a_slider_that_was_not_heard(
    stepper: Stepper,
) -> None:
    click(stepper, "run", draft="):\n")
    click(stepper, "finish")
    shown = click(stepper, "commit", keep=1, force=False)
    assert shown["keep"] == 1
    assert shown["position"] == 3
    assert verdicts(shown) == ["root", "accepted", "accepted"]
    assert [row["keeping"] for row in shown["rows"]] == ["kept", "given up", "given up"]


def test_moving_keep_moves_the_bonus(stepper: Stepper) -> None:
    click(stepper, "run", draft="):\n")
    click(stepper, "finish")
    shown = click(stepper, "keep", keep=2)
    assert [row["bonus"] for row in shown["rows"]] == [False, True, False]
    assert "keep = 2" in shown["status"]


def test_abort_leaves_the_engine_as_before_run(stepper: Stepper) -> None:
    before = stepper._engine.digests()
    click(stepper, "run", draft="):")
    shown = click(stepper, "abort")
    assert (shown["phase"], shown["rows"]) == ("aborted", [])
    assert stepper._engine.digests() == before
    assert shown["can"]["run"]
    assert stepper._union.rows[0]["note"]


def test_an_engine_s_error_is_shown_word_for_word(stepper: Stepper) -> None:
    shown = click(stepper, "run", draft="#1 " * 8)
    assert shown["message"]["kind"] == "error"
    assert "a window has 8 rows at most, got 9" in shown["message"]["text"]
    assert shown["phase"] == "ready"

    click(stepper, "run", draft=" x")
    click(stepper, "finish")
    shown = click(stepper, "commit", keep=2, force=False)
    assert "keep=2 is outside 1 to 1" in shown["message"]["text"]
    assert (shown["phase"], shown["position"]) == ("finished", 2)
    shown = click(stepper, "commit", keep=2, force=True)
    assert shown["position"] == 4
    assert [row["keeping"] for row in shown["rows"]] == ["kept", "kept by force"]


def test_a_window_that_is_not_finite_can_be_aborted() -> None:
    model = FakeModel()
    stepper = Stepper(model.engine(), prompt=PROMPT)
    model.backend.broken = True
    shown = click(stepper, "run", draft="):")
    assert shown["rows"][0]["choices"] == []
    shown = click(stepper, "finish")
    assert "NaN or infinite" in shown["message"]["text"]
    assert (shown["phase"], shown["can"]["abort"]) == ("run", True)
    assert click(stepper, "abort")["phase"] == "aborted"


def test_a_verb_out_of_order_raises_and_is_shown(stepper: Stepper) -> None:
    for verb in (stepper.finish, stepper.commit, stepper.abort):
        with pytest.raises(ValueError, match="no window is open; Run one first"):
            verb()


def test_an_error_elsewhere_still_answers_the_page(
    stepper: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(stepper._engine, "run", broken)
    with pytest.raises(RuntimeError, match="out of memory"):
        click(stepper, "run", draft="")
    assert stepper._view["answered"] == "page-1"


def test_from_python_as_by_clicks(stepper: Stepper) -> None:
    window = stepper.run(draft=[6, 1, 9])
    with pytest.raises(WindowOpenError):
        stepper.run()
    with pytest.raises(NotFinishedError):
        stepper.commit()
    result = stepper.finish()
    with pytest.raises(AlreadyFinishedError):
        stepper.finish()
    with pytest.raises(KeepError):
        stepper.commit(keep=9)
    report = stepper.commit()
    with pytest.raises(WindowClosedError):
        stepper.abort()
    assert (window.T, result.accepted, report.keep) == (4, 2, 3)
    assert report.record.drafter == "hand"


def test_commit_without_keep_takes_the_slider_s(stepper: Stepper) -> None:
    stepper.run(draft="):\n")
    stepper.finish()
    click(stepper, "keep", keep=2)
    assert stepper.commit().keep == 2


def test_charts_follow_each_window(stepper: Stepper) -> None:
    assert stepper._windows.rows[0]["note"]
    stepper.run(draft="):\n * 2")
    assert {r["label"] for r in stepper._union.rows} == {"open window, T = 4"}
    stepper.finish()
    stepper.commit()
    assert {r["label"] for r in stepper._union.rows} == {"window 1, T = 4"}
    assert [r["drafts"] for r in stepper._windows.rows] == [2, 1, 0]
    assert [r["label"] for r in stepper._positions.rows][::3] == ["1/1", "1/1", "0/1"]


def test_suggested_drafts(stepper: Stepper) -> None:
    before = stepper._engine.digests()
    assert stepper.suggest() == "):\n    return"
    assert stepper._engine.digests() == before
    stepper.run(draft=stepper.suggest(wrong=True))
    assert stepper.finish().accepted == 1
    stepper.abort()
    click(stepper, "suggest", wrong=False)
    assert stepper._preview["fill"]
    assert [c["id"] for c in stepper._preview["chips"]] == [6, 1, 7]


def test_a_stop_id_ends_suggestions_and_is_said() -> None:
    text = "".join(VOCABULARY[t] for t in SCRIPT[:-1])
    stepper = Stepper(FakeModel().engine(), prompt=text)
    with pytest.raises(ValueError, match="the model stops here"):
        stepper.suggest()
    stepper.run()
    stepper.finish()
    stepper.commit()
    assert "The root is a stop id" in stepper._view["message"]["text"]


def test_a_preview_names_tokens_or_says_what_is_wrong(stepper: Stepper) -> None:
    click(stepper, "preview", draft=HOSTILE + "\n")
    assert [c["id"] for c in stepper._preview["chips"]] == [11, 1]
    assert (stepper._preview["count"], stepper._preview["why"]) == ("2 drafts", "")
    click(stepper, "preview", draft="#99")
    assert "must be #0 to #15" in stepper._preview["error"]
    assert stepper._preview["why"] == "the draft can't be read"


def test_a_preview_shows_what_fits_and_counts_the_rest(stepper: Stepper) -> None:
    click(stepper, "preview", draft="#1 " * 9)
    shown = stepper._preview
    assert len(shown["chips"]) == 7
    assert shown["more"] == "… 2 more; a window takes at most 7 drafts"
    assert shown["why"] == "9 drafts, at most 7"


@pytest.mark.parametrize(
    ("draft", "ran", "judged"),
    [
        ("", "Ran 1 row. Finish says what becomes of the root.", "Keep 1, the root"),
        (" x", "Ran 2 rows. Finish says", "Accepted 0 of 1 draft; keep 1"),
        (" x x", "Ran 3 rows. Finish says", "Accepted 0 of 2 drafts; keep 1"),
    ],
)
def test_one_and_many_in_words(
    stepper: Stepper, draft: str, ran: str, judged: str
) -> None:
    assert click(stepper, "run", draft=draft)["message"]["text"].startswith(ran)
    assert click(stepper, "finish")["message"]["text"].startswith(judged)


def test_an_engine_without_a_root_asks_for_a_prompt() -> None:
    stepper = Stepper(FakeModel().engine())
    assert not stepper._view["can"]["run"]
    assert "pass `prompt=`" in stepper._view["message"]["text"]
    with pytest.raises(ValueError, match="pass `prompt=`"):
        stepper.run()


def test_a_root_that_was_passed_by_is_none(stepper: Stepper) -> None:
    stepper.engine.prefill([5, 6])
    assert stepper.root is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (FakeModel(), "wants an Engine, got FakeModel; use `model.engine()`"),
        (3, "wants an Engine, got int; make one with `model.engine()`"),
    ],
)
def test_what_is_no_engine_is_refused(given: Any, words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        Stepper(given)


def test_an_engine_that_knows_no_text_is_refused() -> None:
    engine = FakeModel().engine()
    engine.model = None
    with pytest.raises(ValueError, match="knows the text of tokens is wanted"):
        Stepper(engine)


@pytest.mark.parametrize("prompt", ["", []])
def test_an_empty_prompt_is_refused(prompt: Any) -> None:
    with pytest.raises(ValueError, match="at least one token"):
        Stepper(FakeModel().engine(), prompt=prompt)


def test_a_prompt_wants_a_fresh_engine(stepper: Stepper) -> None:
    with pytest.raises(ValueError, match="got one at position 2"):
        Stepper(stepper._engine, prompt=PROMPT)


def test_an_engine_under_way_is_shown_as_it_is(stepper: Stepper) -> None:
    engine = stepper._engine
    stepper.run(draft="):")
    other = Stepper(engine)
    assert (other._view["phase"], other._view["T"]) == ("run", 2)
    other.finish()
    assert other._view["rows"][0]["choices"]
    assert stepper._phase() == "finished"
    stepper.commit()
    other.refresh()
    assert other._view["position"] == 4


def test_a_fork_shows_how_many_cells_it_does_not_know(stepper: Stepper) -> None:
    stepper.run(draft="):")
    stepper.finish()
    stepper.commit()
    fork = stepper._engine.fork()
    shown = Stepper(fork)._view
    assert (shown["hidden"], shown["text"]) == (4, [])


def test_a_long_text_shows_its_end() -> None:
    shown, hidden = view.text_chips(FakeModel(), [8] * 1000)
    assert (len(shown), hidden) == (view.MOST_CHIPS, 600)


def test_the_text_in_words(stepper: Stepper) -> None:
    stepper.run(draft="): x")
    stepper.finish()
    assert stepper.text().splitlines() == [
        "Stepper(finished, position 2, root '(x', T = 3, keep = 2)",
        "text  def·f",
        "row  input  prediction   verdict         kept",
        "0    (x     ):           root            kept",
        "1    ):     ↵  (bonus)   accepted        kept",
        "2    ·x     <b>bold</b>  first mismatch  not kept",
    ]


def test_a_picture_of_any_phase(stepper: Stepper) -> None:
    assert stepper.snapshot().png().startswith(b"\x89PNG")
    stepper.run(draft="): x")
    assert "not judged yet" in repr(stepper.snapshot())
    stepper.finish()
    assert stepper.snapshot().png().startswith(b"\x89PNG")


def test_equal_logits_name_the_lowest_token_first() -> None:
    import numpy as np

    (row,) = view.top_choices(FakeModel(), np.zeros((1, len(VOCABULARY))))
    assert [choice["id"] for choice in row] == [0, 1, 2]
