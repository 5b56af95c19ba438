"""Sessions on disk: what does not fit is named, and an old file survives."""

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from helpers import assert_same, prompt
from strata_nb import Model, Sampling, Session, load
from strata_nb.draft import SuffixLookup
from strata_nb.errors import ContextLimitError, SavedStateError
from strata_nb.sampling import Penalties
from tiny import small_config, write_checkpoint

OPEN: dict[str, Any] = {"stop_ids": ()}


def made(model: Model, **options: Any) -> Session:
    return Session(
        model,
        drafter=SuffixLookup(minimum=2),
        sampling=Sampling(temperature=0.8, seed=5),
        adjustments=[Penalties(frequency=0.3)],
        **options,
    )


@pytest.fixture
def session(small: Model) -> Session:
    session = made(small)
    session.reply(prompt(small, 21), max_new=9, **OPEN)
    return session


@pytest.mark.parametrize("cells", range(18, 26))
def test_a_session_goes_on_where_it_was_saved(
    small: Model, tmp_path: Path, cells: int
) -> None:
    one, other = made(small), made(small)
    one.reply(prompt(small, cells), max_new=3, **OPEN)
    one.save(tmp_path / "a")
    other.reply([3, 4, 5], max_new=6, **OPEN)
    other.restore(tmp_path / "a")
    assert other.tokens == one.tokens
    assert_same(other.engine(), one.engine())
    assert isinstance(other.histories.drafter, SuffixLookup)
    assert len(other.histories.drafter) == len(one.tokens)
    got, wanted = (s.go_on(max_new=20, **OPEN) for s in (other, one))
    assert (got.tokens, got.offered, got.accepted) == (
        wanted.tokens,
        wanted.offered,
        wanted.accepted,
    )
    assert_same(other.engine(), one.engine())


def test_a_restored_place_is_a_checkpoint(small: Model, tmp_path: Path) -> None:
    session = made(small)
    ids = prompt(small, 21)
    first = session.reply(ids, max_new=4, **OPEN)
    session.save(tmp_path / "a")
    fresh = made(small)
    fresh.restore(tmp_path / "a")
    longer = [*ids, *first.tokens, 1]
    assert fresh.reply(longer, max_new=2, **OPEN).reused == 24
    assert fresh.checkpoints[0] == 24


def test_an_empty_session_is_saved_too(small: Model, tmp_path: Path) -> None:
    made(small).save(tmp_path / "a")
    other = made(small)
    other.reply([1, 2], max_new=2, **OPEN)
    other.restore(tmp_path / "a")
    assert (other.tokens, other.position) == ((), 0)


def content(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    with safe_open(path, framework="np") as file:
        names = file.keys()
        arrays = {name: file.get_tensor(name) for name in names}
        return arrays, json.loads(file.metadata()["strata"])


def test_each_altered_part_is_named(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "a"
    session.save(path)
    arrays, head = content(path)
    before = session.engine().digests()
    parts = {name.split("/")[0] for name in arrays}
    assert {"session", "gdn_state", "kv", "qsa_tail", "ple_tokens"} <= parts
    for name, array in arrays.items():
        if not array.size:
            continue
        changed = array.copy()
        flat = changed.view(np.uint8).reshape(-1)
        flat[0] ^= 1
        save_file({**arrays, name: changed}, path, {"strata": json.dumps(head)})
        with pytest.raises(SavedStateError, match=f"{name.split('/')[0]} in a is not"):
            session.restore(path)
    assert session.engine().digests() == before


def test_a_truncated_file_is_refused(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "a"
    session.save(path)
    whole = path.read_bytes()
    for size in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(SavedStateError, match="truncated or damaged"):
            session.restore(path)


def test_a_file_of_another_model_or_kind_is_refused(
    session: Session, small: Model, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    session.save(path)
    config = small_config()
    others = {
        "model": (load(write_checkpoint(tmp_path / "m", config, seed=9)), {}),
        "hash seed": (
            load(write_checkpoint(tmp_path / "s", {**config, "seed": 7}, seed=2)),
            {},
        ),
        "kv": (small, {"kv": "bfloat16"}),
    }
    for name, (model, options) in others.items():
        other = made(model, **options)
        with pytest.raises(SavedStateError, match=f"was saved with {name} '"):
            other.restore(path)
        assert other.tokens == ()
    arrays, head = content(path)
    head["format"] = "strata-nb state 1"
    save_file(arrays, path, {"strata": json.dumps(head)})
    with pytest.raises(SavedStateError, match="has format 'strata-nb state 1', wanted"):
        session.restore(path)


def test_an_engine_file_is_no_session(session: Session, tmp_path: Path) -> None:
    session.engine().save(tmp_path / "a")
    with pytest.raises(SavedStateError, match="holds an engine and no session"):
        session.restore(tmp_path / "a")
    # The other way round: an engine takes what is an engine's.
    session.save(tmp_path / "b")
    engine = session.model.engine()
    engine.restore(tmp_path / "b")
    assert_same(engine, session.engine())


def test_a_longer_text_than_the_context_is_refused(
    session: Session, small: Model, tmp_path: Path
) -> None:
    session.save(tmp_path / "a")
    short = made(small, context=20)
    with pytest.raises(ContextLimitError, match="has 29 cells, this engine takes 20"):
        short.restore(tmp_path / "a")


@pytest.mark.parametrize(
    ("ids", "prompt_"), [([1, 2], 1), ([-1] * 30, 1), ([1] * 30, 31), ([99] * 30, 1)]
)
def test_tokens_that_do_not_fit_are_refused(
    session: Session, tmp_path: Path, ids: list[int], prompt_: int
) -> None:
    from strata_nb.session.request import Transcript
    from strata_nb.session.saved import save

    save(tmp_path / "a", session.engine(), Transcript(tuple(ids), prompt_))
    with pytest.raises(SavedStateError, match="session in a does not fit its engine"):
        session.restore(tmp_path / "a")


def test_a_full_disk_is_an_error_and_the_old_file_survives(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    session.save(path)
    old = path.read_bytes()
    session.go_on(max_new=3, **OPEN)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        session.save(path)
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    with pytest.raises(OSError, match="nowhere"):
        session.save(tmp_path / "nowhere" / "a")
