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
from strata_widgets import HandDrafts
from strata_widgets.hand_drafts import view
from widgets.fake_model import HOSTILE, SCRIPT, VOCABULARY, FakeModel

PROMPT = "def f(x"


@pytest.fixture
def hands() -> HandDrafts:
    return HandDrafts(FakeModel().engine(), prompt=PROMPT)


def click(hands: HandDrafts, kind: str, **values: Any) -> dict[str, Any]:
    """Send what the page sends, and return what it is shown."""
    hands._heard(hands, {"kind": kind, "ask": "page-1", **values}, [])
    shown: dict[str, Any] = hands._view
    return shown


def verdicts(shown: dict[str, Any]) -> list[str]:
    return [row["verdict"] for row in shown["rows"]]


def test_the_last_token_of_the_prompt_is_the_root(hands: HandDrafts) -> None:
    shown = hands._view
    assert [c["text"] for c in shown["text"]] == ["def", "·f"]
    assert shown["root"] == {"id": 5, "text": "(x"}
    assert shown["can"] == {
        "run": True,
        "suggest": True,
        "finish": False,
        "commit": False,
        "abort": False,
    }


def test_run_finish_commit_by_clicks(hands: HandDrafts) -> None:
    shown = click(hands, "run", draft="):\n    return * 2 + 1")
    assert (shown["phase"], shown["T"]) == ("run", 6)
    assert verdicts(shown) == ["root"] + ["not judged yet"] * 5
    assert shown["rows"][0]["prediction"] is None
    # The likeliest token is the answer.
    assert [row["choices"] for row in shown["rows"]] == [[]] * 6

    shown = click(hands, "finish")
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

    shown = click(hands, "commit", keep=4, force=False)
    assert (shown["phase"], shown["position"]) == ("committed", 6)
    assert shown["root"]["text"] == "·x"
    assert "".join(c["text"] for c in shown["text"]) == "def·f(x):↵····return"
    assert shown["answered"] == "page-1"


def test_a_click_carries_its_keep_past_a_slider_that_was_not_heard(
    hands: HandDrafts,
) -> None:
    click(hands, "run", draft="):\n")
    click(hands, "finish")
    shown = click(hands, "commit", keep=1, force=False)
    assert shown["keep"] == 1
    assert shown["position"] == 3
    assert verdicts(shown) == ["root", "accepted", "accepted"]
    assert [row["keeping"] for row in shown["rows"]] == ["kept", "given up", "given up"]


def test_moving_keep_moves_the_bonus(hands: HandDrafts) -> None:
    click(hands, "run", draft="):\n")
    click(hands, "finish")
    shown = click(hands, "keep", keep=2)
    assert [row["bonus"] for row in shown["rows"]] == [False, True, False]
    assert "keep = 2" in shown["status"]


def test_abort_leaves_the_engine_as_before_run(hands: HandDrafts) -> None:
    before = hands._engine.digests()
    click(hands, "run", draft="):")
    shown = click(hands, "abort")
    assert (shown["phase"], shown["rows"]) == ("aborted", [])
    assert hands._engine.digests() == before
    assert shown["can"]["run"]
    assert hands._union.rows[0]["note"]


def test_an_engine_s_error_is_shown_word_for_word(hands: HandDrafts) -> None:
    shown = click(hands, "run", draft="#1 " * 8)
    assert shown["message"]["kind"] == "error"
    assert "a window has 8 rows at most, got 9" in shown["message"]["text"]
    assert shown["phase"] == "ready"

    click(hands, "run", draft=" x")
    click(hands, "finish")
    shown = click(hands, "commit", keep=2, force=False)
    assert "keep=2 is outside 1 to 1" in shown["message"]["text"]
    assert (shown["phase"], shown["position"]) == ("finished", 2)
    shown = click(hands, "commit", keep=2, force=True)
    assert shown["position"] == 4
    assert [row["keeping"] for row in shown["rows"]] == ["kept", "kept by force"]


def test_a_window_that_is_not_finite_can_be_aborted() -> None:
    model = FakeModel()
    hands = HandDrafts(model.engine(), prompt=PROMPT)
    model.backend.broken = True
    shown = click(hands, "run", draft="):")
    assert shown["rows"][0]["choices"] == []
    shown = click(hands, "finish")
    assert "NaN or infinite" in shown["message"]["text"]
    assert (shown["phase"], shown["can"]["abort"]) == ("run", True)
    assert click(hands, "abort")["phase"] == "aborted"


def test_a_verb_out_of_order_raises_and_is_shown(hands: HandDrafts) -> None:
    for verb in (hands.finish, hands.commit, hands.abort):
        with pytest.raises(ValueError, match="no window is open; Run one first"):
            verb()


def test_an_error_elsewhere_still_answers_the_page(
    hands: HandDrafts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(hands._engine, "run", broken)
    with pytest.raises(RuntimeError, match="out of memory"):
        click(hands, "run", draft="")
    assert hands._view["answered"] == "page-1"


def test_from_python_as_by_clicks(hands: HandDrafts) -> None:
    window = hands.run(draft=[6, 1, 9])
    with pytest.raises(WindowOpenError):
        hands.run()
    with pytest.raises(NotFinishedError):
        hands.commit()
    result = hands.finish()
    with pytest.raises(AlreadyFinishedError):
        hands.finish()
    with pytest.raises(KeepError):
        hands.commit(keep=9)
    report = hands.commit()
    with pytest.raises(WindowClosedError):
        hands.abort()
    assert (window.T, result.accepted, report.keep) == (4, 2, 3)
    assert report.record.drafter == "hand"


def test_commit_without_keep_takes_the_slider_s(hands: HandDrafts) -> None:
    hands.run(draft="):\n")
    hands.finish()
    click(hands, "keep", keep=2)
    assert hands.commit().keep == 2


def test_charts_follow_each_window(hands: HandDrafts) -> None:
    assert hands._windows.rows[0]["note"]
    hands.run(draft="):\n * 2")
    assert {r["label"] for r in hands._union.rows} == {"open window, T = 4"}
    hands.finish()
    hands.commit()
    assert {r["label"] for r in hands._union.rows} == {"window 1, T = 4"}
    assert [r["drafts"] for r in hands._windows.rows] == [2, 1, 0]
    assert [r["label"] for r in hands._positions.rows][::3] == ["1/1", "1/1", "0/1"]


def test_suggested_drafts(hands: HandDrafts) -> None:
    before = hands._engine.digests()
    assert hands.suggest() == "):\n    return"
    assert hands._engine.digests() == before
    hands.run(draft=hands.suggest(wrong=True))
    assert hands.finish().accepted == 1
    hands.abort()
    click(hands, "suggest", wrong=False)
    assert hands._preview["fill"]
    assert [c["id"] for c in hands._preview["chips"]] == [6, 1, 7]


def test_a_stop_id_ends_suggestions_and_is_said() -> None:
    text = "".join(VOCABULARY[t] for t in SCRIPT[:-1])
    hands = HandDrafts(FakeModel().engine(), prompt=text)
    with pytest.raises(ValueError, match="the model stops here"):
        hands.suggest()
    hands.run()
    hands.finish()
    hands.commit()
    assert "The root is a stop id" in hands._view["message"]["text"]


def test_a_preview_names_tokens_or_says_what_is_wrong(hands: HandDrafts) -> None:
    click(hands, "preview", draft=HOSTILE + "\n")
    assert [c["id"] for c in hands._preview["chips"]] == [11, 1]
    assert (hands._preview["count"], hands._preview["why"]) == ("2 drafts", "")
    click(hands, "preview", draft="#99")
    assert "must be #0 to #15" in hands._preview["error"]
    assert hands._preview["why"] == "the draft can't be read"


def test_a_preview_shows_what_fits_and_counts_the_rest(hands: HandDrafts) -> None:
    click(hands, "preview", draft="#1 " * 9)
    shown = hands._preview
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
    hands: HandDrafts, draft: str, ran: str, judged: str
) -> None:
    assert click(hands, "run", draft=draft)["message"]["text"].startswith(ran)
    assert click(hands, "finish")["message"]["text"].startswith(judged)


def test_an_engine_without_a_root_asks_for_a_prompt() -> None:
    hands = HandDrafts(FakeModel().engine())
    assert not hands._view["can"]["run"]
    assert "pass `prompt=`" in hands._view["message"]["text"]
    with pytest.raises(ValueError, match="pass `prompt=`"):
        hands.run()


def test_a_root_that_was_passed_by_is_none(hands: HandDrafts) -> None:
    hands.engine.prefill([5, 6])
    assert hands.root is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (FakeModel(), "wants an Engine, got FakeModel; use `model.engine()`"),
        (3, "wants an Engine, got int; make one with `model.engine()`"),
    ],
)
def test_what_is_no_engine_is_refused(given: Any, words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        HandDrafts(given)


def test_an_engine_that_knows_no_text_is_refused() -> None:
    engine = FakeModel().engine()
    engine.model = None
    with pytest.raises(ValueError, match="knows the text of tokens is wanted"):
        HandDrafts(engine)


@pytest.mark.parametrize("prompt", ["", []])
def test_an_empty_prompt_is_refused(prompt: Any) -> None:
    with pytest.raises(ValueError, match="at least one token"):
        HandDrafts(FakeModel().engine(), prompt=prompt)


def test_a_prompt_wants_a_fresh_engine(hands: HandDrafts) -> None:
    with pytest.raises(ValueError, match="got one at position 2"):
        HandDrafts(hands._engine, prompt=PROMPT)


def test_an_engine_under_way_is_shown_as_it_is(hands: HandDrafts) -> None:
    engine = hands._engine
    hands.run(draft="):")
    other = HandDrafts(engine)
    assert (other._view["phase"], other._view["T"]) == ("run", 2)
    other.finish()
    assert hands._phase() == "finished"
    hands.commit()
    other.refresh()
    assert other._view["position"] == 4


def test_a_fork_shows_how_many_cells_it_does_not_know(hands: HandDrafts) -> None:
    hands.run(draft="):")
    hands.finish()
    hands.commit()
    fork = hands._engine.fork()
    shown = HandDrafts(fork)._view
    assert (shown["hidden"], shown["text"]) == (4, [])


def test_a_long_text_shows_its_end() -> None:
    shown, hidden = view.text_chips(FakeModel(), [8] * 1000)
    assert (len(shown), hidden) == (view.MOST_CHIPS, 600)


def test_the_text_in_words(hands: HandDrafts) -> None:
    hands.run(draft="): x")
    hands.finish()
    assert hands.text().splitlines() == [
        "HandDrafts(finished, position 2, root '(x', T = 3, keep = 2)",
        "text  def·f",
        "row  input  prediction   verdict         kept",
        "0    (x     ):           root            kept",
        "1    ):     ↵  (bonus)   accepted        kept",
        "2    ·x     <b>bold</b>  first mismatch  not kept",
    ]


def test_a_picture_of_any_phase(hands: HandDrafts) -> None:
    assert hands.snapshot().png().startswith(b"\x89PNG")
    hands.run(draft="): x")
    assert "not judged yet" in repr(hands.snapshot())
    hands.finish()
    assert hands.snapshot().png().startswith(b"\x89PNG")


def test_equal_logits_name_the_lowest_token_first() -> None:
    import numpy as np

    (row,) = view.top_choices(FakeModel(), np.zeros((1, len(VOCABULARY))))
    assert [choice["id"] for choice in row] == [0, 1, 2]
