"""A recording holds what windows of any length would have met, and its file says so."""

import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from courses import PRICES, course, recording
from strata_nb import Model
from strata_nb.bench import course_file, record
from strata_nb.bench.courses import Course, Prices, Recording, Spot
from strata_nb.bench.record import recorded, time_windows, walk
from strata_nb.cli import main
from strata_nb.draft import Draft, MtpDrafter, SuffixLookup
from strata_nb.errors import TraceError
from strata_nb.prompts import prompts
from strata_nb.trace.seal import SEAL_KEY, UNSEALED, sealed


@pytest.fixture(autouse=True)
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test looks at what a time is, so none needs a warm machine."""
    monkeypatch.setattr(record, "WARM_UP", 0)


def same(one: Recording, two: Recording) -> bool:
    return (one.prices, one.provenance) == (two.prices, two.provenance) and all(
        _fields(a) == _fields(b) and np.array_equal(a.routes, b.routes)
        for c, d in zip(one.courses, two.courses, strict=True)
        for a, b in zip(c.spots, d.spots, strict=True)
    )


def _fields(spot: Spot) -> tuple[Any, ...]:
    return (
        *(spot.position, spot.root, spot.emits, spot.draft, spot.accepted),
        *(spot.match_length, spot.chances),
    )


def test_every_place_is_a_window_that_was_run(trained: Model) -> None:
    ids = prompts(trained, "agent")[0]
    drafter = SuffixLookup(minimum=2, most=7)
    spots = walk(trained, ids, drafter, max_new=20)
    engine = trained.engine()
    engine.prefill(ids[:-1])
    assert len(spots) == 20
    assert max(len(spot.draft) for spot in spots) == 7
    for left, spot in zip(range(20, 0, -1), spots, strict=True):
        assert spot.position == engine.position
        # A shorter window there: the same experts, the same drafts as far as it goes.
        rows = min(3, 1 + len(spot.draft))
        window = engine.run((spot.root, *spot.draft[: rows - 1]))
        result = engine.finish(window, tokens_left=left)
        assert result.accepted == min(spot.accepted, rows - 1)
        record = engine.commit(window, keep=1).record
        assert record.emitted == (spot.emits,)
        for layer, one in enumerate(record.layers):
            assert np.array_equal(one.expert_ids, spot.routes[:rows, layer])


def test_a_text_ends_at_a_stop_id(trained: Model) -> None:
    ask = [{"role": "user", "content": "Replace 'b' by 'c':\ndef f(a):\n    return b"}]
    ids = trained.encode(trained.chat(ask))
    spots = walk(trained, ids, SuffixLookup(most=7), max_new=60)
    assert len(spots) < 60
    assert spots[-1].emits in trained.config.stop_ids
    Course("edit", 1, "suffix_lookup", 60, spots)


def test_the_head_is_followed(trained: Model) -> None:
    ids = prompts(trained, "code")[0]
    spots = walk(trained, ids, MtpDrafter(depth=2), max_new=6)
    assert [len(spot.draft) for spot in spots] == [2, 2, 2, 2, 1, 0]


class Fickle:
    name = "fickle"

    def assign(self, tokens: Any) -> None:
        pass

    def append(self, tokens: Any) -> None:
        pass

    def propose(self, most: int) -> Draft:
        return Draft((most,) * most)


def test_a_drafter_that_changes_its_mind_is_refused(trained: Model) -> None:
    with pytest.raises(ValueError, match="of 1 by 'fickle' at cell 3 wants to begin"):
        walk(trained, [1, 2, 3, 4], Fickle(), max_new=9)


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    made = recording(course([3, 0, 1, 0]), course([0, 2, 0], kind="prose"))
    course_file.save(made, tmp_path / "a")
    assert same(course_file.load(tmp_path / "a"), made)
    course_file.save(made, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_recording_of_the_model_repeats_but_for_times(
    trained: Model, tmp_path: Path
) -> None:
    how: dict[str, Any] = {
        "drafters": {"lookup": lambda: SuffixLookup(most=7)},
        "count": 1,
        "max_new": 4,
        "rounds": 1,
        "kinds": ("code",),
    }
    one = recorded(trained, **how)
    two = recorded(trained, **how, prices=one.prices)
    assert same(one, two)
    assert two.prices is one.prices
    other = recorded(trained, **how, prices=one.prices, held_out=True)
    (spot, *_) = other.courses[0].spots
    assert spot.position == len(prompts(trained, "code", held_out=True)[0]) - 1
    assert one.prices.expert_bytes == 3 * 128 * 32 * 2
    assert one.prices.layer_ms == one.prices.window_ms[0] / 8
    assert one.provenance["digest"] == trained.digest


def test_windows_of_every_length_are_timed(trained: Model) -> None:
    text = [i % 4000 for i in range(300)]
    times = time_windows(trained, text, rounds=1)
    assert len(times) == 8
    assert min(times) > 0


def test_the_command_writes_a_file(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Reading prompts would take the most time: a short one is enough.
    monkeypatch.setattr(record, "prompts", lambda *_, **how: [[*range(5, 21)] * 3])
    file = tmp_path / "a.parquet"
    size = ("--prompts", "1", "--max-new", "2", "--rounds", "1")
    assert main(["bench", "record", "--out", str(file), *size]) == 0
    assert capsys.readouterr().out.startswith("4 courses, 8 places, windows of 1 to 8")
    found = course_file.load(file)
    assert found.kinds == ("edit", "code", "prose", "agent")
    assert "--prompts 1 --max-new 2 --rounds 1" in found.provenance["command"]
    again = tmp_path / "b.parquet"
    few = ("--prompts", "1", "--max-new", "1", "--held-out", "--prices", str(file))
    assert main(["bench", "record", "--out", str(again), *few]) == 0
    judge = course_file.load(again)
    assert judge.prices == found.prices
    command = judge.provenance["command"]
    assert "--max-new 1 --prices a.parquet --held-out --drafter" in command


def test_what_is_no_recording_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    made = recording(course([1, 0, 0]))
    course_file.save(made, file)
    whole = file.read_bytes()
    frame, about = pl.read_parquet(whole), pl.read_parquet_metadata(whole)
    about = {k: v for k, v in about.items() if k.startswith("strata_nb.courses")}
    said = json.loads(about[course_file.ABOUT_KEY])

    def broken(frame: pl.DataFrame = frame, **metadata: str) -> str:
        changed = about | {f"strata_nb.courses.{k}": v for k, v in metadata.items()}
        # With its sum, or a child process would try it first, which takes its time.
        frame.write_parquet(
            buffer := BytesIO(), metadata=changed | {SEAL_KEY: UNSEALED}
        )
        file.write_bytes(sealed(buffer.getvalue()))
        with pytest.raises(TraceError) as caught:
            course_file.load(file)
        return str(caught.value)

    assert "wants `strata_nb.courses.version` = 1" in broken(version="2")
    assert "got others for accepted" in broken(
        frame.with_columns(pl.col("accepted").cast(pl.Int64))
    )
    assert "a value in every row of root" in broken(
        frame.with_columns(root=pl.lit(None, pl.UInt32))
    )
    less = json.dumps({**said, "window_ms": [1.0] * 7})
    assert "`window_ms` wants 8 times" in broken(about=less)
    nothing = {k: v for k, v in said.items() if k != "layers"}
    assert "no 'layers'" in broken(about=json.dumps(nothing))
    file.write_bytes(whole[:-40] + whole[-8:])
    with pytest.raises(TraceError, match=r"a.parquet .*(another one|cannot read)"):
        course_file.load(file)
    with pytest.raises(ValueError, match="wants one course or more"):
        course_file.save(Recording((), PRICES), file)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"accepted": 4}, "`accepted` wants 0 to 3, got 4"),
        ({"position": -1}, "`position` wants 0 or more"),
        ({"draft": (1,) * 8}, "`draft` wants 0 to 7 tokens"),
        ({"chances": (0.5,)}, "`chances` wants None or 3"),
        ({"chances": (0.5, 1.5, 0.0)}, "`chances` wants None or 3"),
        ({"routes": np.zeros((2, 2, 2), np.uint16)}, r"`routes` wants \[4, L, K\]"),
    ],
)
def test_a_place_that_cannot_be_is_refused(change: dict[str, Any], said: str) -> None:
    (spot, *_) = course([3, 0, 1, 0]).spots
    with pytest.raises(ValueError, match=said):
        replace(spot, **change)


def test_places_of_two_texts_are_refused() -> None:
    made = course([1, 0, 0])
    one, two, three = made.spots
    cases = (
        ((one, three), "wants them for its own, got cell 7"),
        ((one, replace(two, root=7), three), "and token 7"),
        ((replace(one, accepted=2), two, three), "want to be the text"),
        ((), "wants 1 to `max_new` = 3 places"),
    )
    for spots, said in cases:
        with pytest.raises(ValueError, match=said):
            replace(made, spots=spots)


def test_prices_are_times() -> None:
    good = PRICES.window_ms
    for change, said in (
        ({"window_ms": good[1:]}, "`window_ms` wants 8 times"),
        ({"window_ms": (*good[1:], float("nan"))}, "`window_ms` wants milliseconds"),
        ({"layer_ms": 0.0}, "`layer_ms` wants milliseconds above 0"),
        ({"draft_ms": {"a": -1.0}}, "`draft_ms` wants"),
        ({"expert_bytes": -1}, "`expert_bytes` is -1"),
    ):
        with pytest.raises(ValueError, match=said):
            replace(PRICES, **change)
    with pytest.raises(ValueError, match="a time for the drafter 'by hand'"):
        Recording((course([0]),), Prices(good, 1.0))
    with pytest.raises(ValueError, match="no course of kind 'prose'"):
        recording(course([0])).of("prose")
