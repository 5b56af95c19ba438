"""`Histories`: cells against hand counts, what is held, what differs, and misuse."""

import re
from typing import Any

import numpy as np
import pytest
import vl_convert

import strata_nb
from strata_nb import Engine, Session, Trace
from strata_nb.draft import SuffixLookup
from strata_nb.sampling import Penalties
from strata_nb.slop import Scanner, Slop, SlopRules, pieces_of
from strata_widgets import Histories, Timeline, link
from widgets.fake_model import HOSTILE, SCRIPT, VOCABULARY, FakeModel

TEXT = "def mean(values):\n    return sum(values) / len(values)\n\n\ndef mean("
WRONG = 9


@pytest.fixture(scope="module")
def model() -> strata_nb.Model:
    return strata_nb.load("strata-tiny")


def penalties(model: strata_nb.Model) -> Slop:
    assert model.tokenizer is not None
    pieces = pieces_of(model.tokenizer, vocab_size=model.config.vocab_size)
    rules = SlopRules(phrases=("values) / len",), lines=4)
    return Slop(Scanner(pieces, rules, eos_ids=model.stop_ids), strength=4.0)


def moved(engine: Engine, right: list[int], *, rows: int = 1) -> None:
    """Keep `right`, and reject what is behind it."""
    window = engine.run([*right, *[WRONG] * (rows - len(right))])
    engine.finish(window)
    engine.commit(window, keep=len(right), force=True)


def column(view: Histories, name: str) -> list[Any]:
    table = view._tables()[0]
    cells = [row[table.head.index(name)] for row in table.rows]
    return [cell["text"] if isinstance(cell, dict) else cell for cell in cells]


def lanes(view: Histories) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in view._live["cells"].rows:
        found.setdefault(row["lane"], []).append(row["cell"])
    return found


def test_prompt_pads_emitted_and_root_by_hand(model: strata_nb.Model) -> None:
    ids, pad = model.encode(TEXT), model.encode("<|pad|>")[0]
    session = Session(model, pad_id=pad, adjustments=[penalties(model)])
    session.reply([*ids[:4], pad, pad, *ids[4:]], max_new=5)
    view = Histories(session)
    n = len(ids) + 2
    # The last token of the prompt is row 0 of the first window, and not emitted.
    assert lanes(view) == {
        "prompt": [0, 1, 2, 3, *range(6, n)],
        "pad": [4, 5],
        "emitted": [n, n + 1, n + 2, n + 3],
    }
    assert column(view, "what")[-1] == "root, not run yet"
    assert column(view, "cell")[-1] == session.position == n + 4
    assert column(view, "window")[n - 2 : n + 2] == [0, 1, 2, 3]
    shown = [model.decode([token]) for token in session.tokens]
    held = [s.told.token for s in view._shown if s.told.token is not None]
    assert [model.decode([t]) for t in held] == shown


def test_ple_holds_the_last_two_tokens_and_counts_behind_an_eos(
    model: strata_nb.Model,
) -> None:
    eos = model.config.eos_token_id
    assert isinstance(eos, int)
    engine = model.engine()
    ids = [20, 21, 22, eos, 23, 24]
    engine.prefill(ids)
    view = Histories(engine)
    held = [seen.told.held for seen in view._shown]
    assert held == [(eos, 20), (20, 21), (21, 22), (22, eos), (eos, 23), (23, 24)]
    assert column(view, "that count") == [f"{n} of 2" for n in (1, 2, 2, 0, 1, 2)]
    # Only the end was read from the state.
    assert column(view, "PLE from") == ["tokens"] * 5 + ["state"]
    assert engine.leaves()["ple_tokens", None, "ids"].tolist() == [23, 24]  # type: ignore[index]
    row = view._tables()[0].rows[3]
    assert [cell.get("role") for cell in row[4:6] if isinstance(cell, dict)] == [
        "unreached",
        "unreached",
    ]


def test_the_penalties_are_those_that_slop_holds(model: strata_nb.Model) -> None:
    ids, pad = model.encode(TEXT), model.encode("<|pad|>")[0]
    slop = penalties(model)
    session = Session(
        model, pad_id=pad, drafter=SuffixLookup(minimum=2), adjustments=[slop]
    )
    session.reply([*ids[:10], pad, *ids[10:]], max_new=12)
    view = Histories(session)
    tokens = [t for t in session.tokens if t != pad]
    seen = [each.told for each in view._shown]
    text = [told for told in seen if told.what != "pad"]
    assert [told.token for told in text] == tokens
    for count, told in enumerate(text, 1):
        state = slop.scanner.rescan(tokens[:count])
        assert told.penalties == state == slop.at(count)
        assert told.penalised == len(slop.scanner.penalised(state))
    # A pad is a cell, and the penalties stay what they were before it.
    assert seen[10].what == "pad"
    assert seen[10].penalties == seen[9].penalties
    begun = {row["cell"]: row["size"] for row in view._live["progress"].rows}
    assert begun == {t.cell: len(t.penalties.tail) for t in seen[:-1] if t.penalties}
    assert max(begun.values()) == len("values) /")
    counts = {row["cell"]: row["size"] for row in view._live["penalised"].rows}
    assert counts == {told.cell: told.penalised for told in seen[:-1]}


def test_a_fault_is_marked_where_it_differs(model: strata_nb.Model) -> None:
    ids = model.encode(TEXT)
    sound, broken = model.engine(), model.engine(fault="ple_tokens_kept")
    for engine in (sound, broken):
        engine.prefill(ids[:10])
    view = Histories(broken, beside=sound)
    assert "no shown cell differs" in repr(view)
    for right, rows in ((ids[10:12], 4), (ids[12:13], 1), (ids[13:14], 1)):
        for engine in (sound, broken):
            moved(engine, right, rows=rows)
        view.refresh()
    assert lanes(view)["differs"] == [11, 12]
    assert "2 shown cells differ, the first is 11 (PLE)" in repr(view)
    assert "after cell 11 PLE holds tokens that the text has not" in repr(view)
    assert view._shown[11].told.held == (WRONG, WRONG)
    assert view._shown[12].told.held == (WRONG, ids[12])
    beside = column(view, "beside")
    assert beside[13] == "equal"
    want = " ".join(view._word(token) for token in ids[10:12])
    assert beside[11] == f"PLE {want}"
    row = view._tables()[0].rows[12]
    roles = [cell.get("role") for cell in row[4:6] if isinstance(cell, dict)]
    assert roles == ["mismatch", None]


def test_faulty_penalties_differ_from_sound_ones(model: strata_nb.Model) -> None:
    drafter = SuffixLookup(minimum=2, most=7)
    text = "x = a + b\n" * 3 + "total = a + b\ntotal = a +"
    made = []
    for fault in (None, "slop_in_place"):
        session = Session(
            model, drafter=drafter, adjustments=[penalties(model)], fault=fault
        )
        session.reply(text, max_new=24)
        made.append(session)
    view = Histories(made[1], beside=made[0])
    prompt = len(model.encode(text))
    apart = lanes(view)["differs"]
    # The last token of the prompt is the root of the first window, whose rows move it.
    assert apart[0] == prompt - 1
    parts = {name for seen in view._shown for name in seen.apart}
    assert "penalties" in parts
    assert all(seen.apart == () for seen in view._shown[: apart[0] - view.span[0]])


def test_rows_of_the_open_window_are_pending(model: strata_nb.Model) -> None:
    ids, slop = model.encode(TEXT), penalties(model)
    engine = model.engine()
    engine.prefill(ids[:12])
    slop.assign(ids[:13])
    view = Histories(engine, penalties=slop)
    window = engine.run([*ids[12:15], WRONG])
    view.refresh()
    assert lanes(view)["open window"] == [12, 13, 14, 15]
    assert "4 rows of the open window are pending" in repr(view)
    states = [each.told.penalties for each in view._shown[12:]]
    want = [slop.scanner.rescan([*ids[:15], WRONG][:n]) for n in range(13, 17)]
    assert states == want
    engine.abort(window)
    view.refresh()
    assert "open window" not in lanes(view)
    # Beside an engine without penalties, they are no difference.
    other = model.engine()
    other.prefill(ids[:12])
    both = Histories(engine, penalties=slop, beside=other)
    assert "no shown cell differs" in repr(both)
    # Told up to the root, or up to the last cell: both are this text. No other is.
    slop.assign(ids[:12])
    assert Histories(engine, penalties=slop)._shown[3].told.penalties is not None
    slop.assign(ids[:5])
    view = Histories(engine, penalties=slop)
    assert view._shown[3].told.penalties is None
    # What could not be told in the middle of a request can be told after it.
    slop.assign(ids[:13])
    view.refresh()
    assert view._shown[3].told.penalties == slop.at(4)


def test_only_the_newest_cells_are_shown_and_the_others_said(
    model: strata_nb.Model,
) -> None:
    engine = model.engine()
    engine.prefill(range(20, 120))
    view = Histories(engine)
    assert view.span == (36, 99)
    assert "… 36 more" in view.text()
    view.select(cell=10)
    assert view.span == (0, 63)
    assert view._tables()[0].marked == 10
    view.select(cell=50)
    assert view.span == (0, 63), "a cell on the page moves nothing"
    view.select(cell=70)
    assert view.span == (36, 99)
    view.select(cell=500)
    assert "cell 500 is selected, which is not there" in repr(view)
    assert view.span == (36, 99)
    view.select(cell=None)
    moved(engine, [30])
    view.refresh()
    assert view.span == (38, 101)


def test_a_window_selected_elsewhere_moves_the_page(model: strata_nb.Model) -> None:
    engine = model.engine()
    engine.prefill(range(20, 40))
    for token in range(100, 180):
        moved(engine, [token])
    view, line = Histories(engine), Timeline(engine)
    link(line, view)
    line.select(window=3)
    assert view.span[0] <= engine.trace[3].position <= view.span[1]
    view.select(cell=90)
    assert line.selection == {"window": 3, "layer": None, "cell": 90}
    assert view.span[0] <= 90 <= view.span[1]
    line.select(window=2)
    assert view.span[0] <= engine.trace[2].position <= view.span[1]
    assert "which is not there" not in repr(view)
    view._clicked({"cell": 23, "end": 24, "lane": "emitted", "window": 4})
    assert line.selection == {"window": 4, "layer": None, "cell": 23}
    line.select(window=4000)
    assert "window 4000 is selected, which this trace lacks" in repr(view)


def test_growth_sends_only_new_cells_and_stays_bounded() -> None:
    model = FakeModel()
    engine = model.engine(context=20_000)
    engine.prefill([3] * 70)
    view = Histories(engine)
    sent: list[int] = []
    chart = view._live["cells"]
    append = chart.append

    def counted(*rows: dict[str, Any]) -> None:
        sent.append(len(rows))
        append(*rows)

    chart.append = counted  # type: ignore[method-assign]
    chart.replace = None  # type: ignore[method-assign, assignment]
    for _ in range(3000):
        moved(engine, [4, 5], rows=3)
        view.refresh()
    assert sent == [2] * 3000
    assert len(view._live["cells"].rows) == 64
    assert len(view._own._known) <= 256
    assert [row["cell"] for row in view._live["cells"].rows][-1] == 6069


def test_windows_that_are_taken_back_are_forgotten(model: strata_nb.Model) -> None:
    engine = model.engine()
    engine.prefill(range(20, 30))
    moved(engine, [40, 41], rows=3)
    before = engine.fork()
    view = Histories(engine)
    moved(engine, [42])
    view.refresh()
    assert column(view, "cell")[-2:] == [12, 13]
    session = Session(model)
    session.reply(range(20, 40), max_new=8)
    told = Histories(session)
    session.reply([*range(20, 30), 77, 78], max_new=3)
    told.refresh()
    told.look()
    fresh = Histories(session)
    assert told.text() == fresh.text()
    assert [s.told.token for s in told._shown] == list(session.tokens)
    # A fork has no trace: what is in its cells is not known, and it is said.
    other = Histories(before)
    assert "the trace ends at cell 0, the state holds 12" in repr(other)
    assert lanes(other) == {"not in the trace": list(range(12))}


def test_a_restored_session_tells_its_tokens(
    model: strata_nb.Model, tmp_path: Any
) -> None:
    session = Session(model, adjustments=[penalties(model)])
    session.reply(model.encode(TEXT), max_new=4)
    session.save(tmp_path / "kept")
    taken = Session(model, adjustments=[penalties(model)])
    taken.restore(tmp_path / "kept")
    view = Histories(taken)
    assert [s.told.token for s in view._shown] == list(session.tokens)
    assert {s.told.what for s in view._shown[:-1]} == {"not in the trace"}
    whole = [s.told.penalties for s in Histories(session)._shown]
    assert [s.told.penalties for s in view._shown] == whole


def test_counting_penalties_list_what_they_hold(model: strata_nb.Model) -> None:
    session = Session(model, adjustments=[Penalties(frequency=0.5)])
    reply = session.reply([30, 31, 30, 32], max_new=3)
    table = Histories(session)._tables()[1]
    told = [30, 31, 30, 32, *reply.tokens]
    for cells in table.rows:
        chip, seen, out = cells
        assert isinstance(chip, dict)
        assert seen == told.count(chip["id"])
        assert out == reply.tokens.count(chip["id"])
    times = [int(str(row[1])) for row in table.rows]
    assert times == sorted(times, reverse=True)
    assert len(table.rows) + table.hidden == len(set(told))


def test_tokens_that_look_like_html_stay_text() -> None:
    engine = FakeModel().engine()
    engine.prefill([VOCABULARY.index(HOSTILE), *SCRIPT[:3]])
    view = Histories(engine)
    cell = view._tables()[0].rows[0][1]
    assert cell == {"id": 11, "text": '<img·src=x·onerror="window.hacked=1">'}
    assert "PLE 1 back" not in view.text()


def test_few_cells_have_a_short_axis_and_no_penalty_is_said(
    model: strata_nb.Model,
) -> None:
    engine = model.engine()
    for cells, last in ((3, 15), (17, 31), (40, 63), (70, 69)):
        engine.prefill([3] * (cells - engine.position))
        assert Histories(engine)._live["cells"].values["last"] == last
    slop, few = penalties(model), model.engine()
    ids = model.encode("def mean(values):\n    return sum(values) / len")
    few.prefill(ids[:3])
    slop.assign(ids[:3])
    view = Histories(few, penalties=slop)
    for name, said in (("penalised", "No token is"), ("progress", "No unwanted")):
        assert view._live[name].values["quiet"] is True
        assert said in vl_convert.vegalite_to_svg(view._live[name]._picture())
    few.prefill(ids[3:])
    slop.assign(ids)
    view.refresh()
    for name in ("penalised", "progress"):
        assert view._live[name].values["quiet"] is False
        picture = vl_convert.vegalite_to_svg(view._live[name]._picture())
        assert "No token is" not in picture
        assert "No unwanted" not in picture
    nothing = Histories(model.engine(), penalties=penalties(model))
    assert not any(chart.values["quiet"] for chart in nothing._live.values())


def test_nothing_yet_says_what_to_do(model: strata_nb.Model) -> None:
    view = Histories(model.engine())
    assert repr(view) == "Histories(no cell yet)"
    assert view._live["cells"].rows == [
        {"note": "No cell yet: prefill, or run a window."}
    ]
    assert view.text() == repr(view)
    assert view._bounds("cell") is None


def test_the_button_reads_the_state(model: strata_nb.Model) -> None:
    engine = model.engine()
    engine.prefill(range(20, 30))
    view = Histories(engine)
    moved(engine, [40])
    view.refresh()
    assert column(view, "PLE from")[-2:] == ["tokens", "-"]
    drawn: list[None] = []
    draw = view._draw
    view._draw = lambda: drawn.append(draw())  # type: ignore[method-assign]
    view._heard(None, {"kind": "control", "name": "look", "value": True}, None)
    assert column(view, "PLE from")[-3:] == ["state", "state", "-"]
    assert len(drawn) == 1


def test_misuse_is_refused_with_a_remedy(model: strata_nb.Model) -> None:
    wanted = "an engine or a session is wanted, which hold their histories; got Trace"
    with pytest.raises(TypeError, match=re.escape(wanted)):
        Histories(Trace())
    with pytest.raises(TypeError, match=r"got dict"):
        Histories(model.engine(), beside={"leaves": np.zeros(2)})
