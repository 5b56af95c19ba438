"""The file of experts: its format, and that a damaged one is refused by name."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expert_samples import checkpoint, empty, flip, forged, header_of, packed
from strata_nb.errors import ExpertFileError, ExpertReadError
from strata_nb.experts import KINDS, ExpertFile, FileSource, Kind
from strata_nb.experts.header import MAGIC, PREAMBLE, Header
from strata_nb.experts.record import find_kind, layout_of
from strata_nb.packs import Checkpoint

# A function's own folder is fine: every example makes its own file in it.
EXAMPLES = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return checkpoint(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def original(source: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A sound file of the smallest kind."""
    path = tmp_path_factory.mktemp("file") / "experts"
    return packed(source, path, "mxfp4").read_bytes()


@pytest.fixture
def sound(original: bytes, tmp_path: Path) -> Path:
    """A copy to be spoiled."""
    path = tmp_path / "sound.experts"
    path.write_bytes(original)
    return path


# ------------------------------------------------------------------ the record

SHAPES: dict[str, list[tuple[str, str, tuple[int, ...]]]] = {
    "float32": [("gate_up", "float32", (128, 128)), ("down", "float32", (64, 128))],
    "bfloat16": [("gate_up", "uint16", (128, 128)), ("down", "uint16", (64, 128))],
    "q3": [
        ("gate_up/weight", "uint32", (128, 12)),
        ("gate_up/scales", "uint16", (128, 2)),
        ("gate_up/biases", "uint16", (128, 2)),
        ("down/weight", "uint32", (128, 6)),
        ("down/scales", "uint16", (128, 1)),
        ("down/biases", "uint16", (128, 1)),
    ],
    "mxfp4": [
        ("gate_up/weight", "uint32", (128, 16)),
        ("gate_up/scales", "uint8", (128, 4)),
        ("down/weight", "uint32", (128, 8)),
        ("down/scales", "uint8", (128, 2)),
    ],
}


@pytest.mark.parametrize("kind", SHAPES)
def test_the_fields_of_a_record(kind: Kind) -> None:
    layout = layout_of(kind, hidden=128, inner=64, floats="bfloat16")
    assert [(f.name, f.dtype, f.shape) for f in layout.fields] == SHAPES[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("hidden", "inner"), [(128, 64), (2560, 640), (96, 32)])
@pytest.mark.parametrize("floats", ["float32", "bfloat16"])
def test_fields_are_aligned_and_fill_the_record(
    kind: Kind, hidden: int, inner: int, floats: Any
) -> None:
    layout = layout_of(kind, hidden=hidden, inner=inner, floats=floats)
    end = 0
    for field, gap in zip(layout.fields, layout.gaps, strict=True):
        assert field.offset == end
        assert 0 <= gap < 64
        end += field.nbytes + gap
        assert end % 64 == 0
    assert end == layout.record_bytes


@pytest.mark.parametrize(
    ("kind", "hidden", "inner", "group"),
    [
        ("q4", 128, 64, 64),
        ("q4", 128, 32, 32),
        ("q4", 96, 64, 32),
        ("q4", 2560, 640, 64),
        ("mxfp4", 128, 64, 32),
        ("float32", 7, 5, 0),
    ],
)
def test_the_group_is_the_largest_that_divides(
    kind: Kind, hidden: int, inner: int, group: int
) -> None:
    layout = layout_of(kind, hidden=hidden, inner=inner, floats="float32")
    assert layout.group == group


@pytest.mark.parametrize("kind", KINDS[2:])
def test_a_shape_that_no_group_divides_is_named(kind: Kind) -> None:
    message = rf"{kind} wants rows that 32 divides, got .* \[32, 40\] .* \[40, 16\]; "
    with pytest.raises(ExpertFileError, match=message + "pack .* as float32 or bf"):
        layout_of(kind, hidden=40, inner=16, floats="float32")


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="`kind` is 'q5', wanted one of float32, bfl"):
        find_kind("q5")


# ------------------------------------------------------------------ a sound file


def test_a_file_says_what_it_holds(source: Checkpoint, sound: Path) -> None:
    with ExpertFile.open(sound, checkpoint=source) as file:
        header = file.header
        assert repr(file) == "ExpertFile('sound.experts', mxfp4, 2 x 3)"
        assert (header.model, header.model_digest) == (source.name, source.digest)
        assert (header.layers, header.experts) == (2, 3)
        assert (header.hidden, header.inner) == (64, 32)
        assert file.nbytes == sound.stat().st_size
        assert header.start % 4096 == 0
        assert file.layout.record_bytes % 64 == 0
        assert len({file.digest(*divmod(i, 3)) for i in range(6)}) == 6


def test_the_header_is_plain_json(sound: Path) -> None:
    data = sound.read_bytes()
    magic, version, length, _ = PREAMBLE.unpack_from(data)
    assert (magic, version) == (MAGIC, 1)
    value = json.loads(data[PREAMBLE.size :][:length])
    assert value["gate_up"] == [64, 64]
    assert value["down"] == [64, 32]
    assert value["fields"][0] == ["gate_up/weight", "uint32", [64, 8], 0]
    assert (value["kind"], value["group"]) == ("mxfp4", 32)


def test_verify_counts_the_records(sound: Path) -> None:
    seen: list[tuple[int, int]] = []
    with ExpertFile.open(sound) as file:
        file.verify(progress=lambda done, total: seen.append((done, total)))
        assert all(file.is_checked(*divmod(i, 3)) for i in range(6))
    assert seen == [(done, 6) for done in range(1, 7)]


def test_closing_twice_is_harmless_and_reading_then_is_named(sound: Path) -> None:
    file = ExpertFile.open(sound)
    file.close()
    file.close()
    with pytest.raises(ExpertReadError, match=r"layer 1, expert 2: the file was close"):
        FileSource(file).read(1, 2, empty(file.layout))


# ------------------------------------------------------------------ damage


@EXAMPLES
@given(data=st.data())
def test_any_flipped_byte_is_refused_or_named(
    data: st.DataObject, original: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "flipped.experts"
    path.write_bytes(original)
    header = header_of(path)
    # The beginning is small beside the records: look at both alike.
    low, high = data.draw(
        st.sampled_from([(0, header.start), (header.start, len(original))])
    )
    position = data.draw(st.integers(low, high - 1))
    flip(path, position, data.draw(st.integers(1, 255)))
    if position < header.start:
        with pytest.raises(ExpertFileError, match=r"flipped.experts"):
            ExpertFile.open(path)
        return
    layer, expert = divmod((position - low) // header.layout.record_bytes, 3)
    with ExpertFile.open(path) as file:
        with pytest.raises(ExpertReadError, match=f": layer {layer}, expert {expert} "):
            file.verify()
        for other in range(6):
            intact = divmod(other, 3) != (layer, expert)
            assert file.is_checked(*divmod(other, 3)) == intact


@EXAMPLES
@given(data=st.data())
def test_any_other_length_is_refused(
    data: st.DataObject, original: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "cut.experts"
    path.write_bytes(original)
    start = header_of(path).start
    cut = data.draw(st.integers(0, start) | st.integers(0, len(original) - 1))
    path.write_bytes(original[:cut])
    wanted = "is truncated" if cut else "is no expert file"
    with pytest.raises(ExpertFileError, match=f"cut.experts {wanted}"):
        ExpertFile.open(path)


@EXAMPLES
@given(rest=st.binary(max_size=300), length=st.integers(0, 300))
def test_nonsense_behind_a_good_beginning_is_refused(
    rest: bytes, length: int, tmp_path: Path
) -> None:
    path = tmp_path / "nonsense.experts"
    path.write_bytes(PREAMBLE.pack(MAGIC, 1, length, bytes(16)) + rest)
    with pytest.raises(ExpertFileError, match=r"nonsense.experts"):
        ExpertFile.open(path)


def test_several_damaged_records_are_counted(sound: Path) -> None:
    header = header_of(sound)
    for record in (0, 2, 3, 4, 5):
        flip(sound, header.place(record) + 7)
    message = (
        "is damaged: layer 0, expert 0; layer 0, expert 2; layer 1, expert 0 and 2 "
        "more records differ from their digests; copy it again, or pack"
    )
    with ExpertFile.open(sound) as file, pytest.raises(ExpertReadError, match=message):
        file.verify()


def test_what_was_added_is_refused(sound: Path) -> None:
    with sound.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ExpertFileError, match=r"wanted \d+ bytes, got \d+: something"):
        ExpertFile.open(sound)


def test_a_file_that_shrinks_later_is_named(sound: Path) -> None:
    with ExpertFile.open(sound) as file:
        os.truncate(sound, file.nbytes - 1)
        into = empty(file.layout)
        FileSource(file).read(1, 1, into)
        message = r"layer 1, expert 2: the file has become shorter, got \d+ of \d+"
        with pytest.raises(ExpertReadError, match=message):
            FileSource(file).read(1, 2, into)


def test_another_version_is_refused(sound: Path) -> None:
    flip(sound, 8, 3)
    message = "is of version 2, wanted 1; pack the checkpoint again"
    with pytest.raises(ExpertFileError, match=message):
        ExpertFile.open(sound)


def test_a_header_that_is_too_large_is_refused(sound: Path) -> None:
    data = sound.read_bytes()
    sound.write_bytes(data[:12] + (65537).to_bytes(4, "little") + data[16:])
    message = "wanted a header of at most 65536 bytes, got 65537; it is damaged"
    with pytest.raises(ExpertFileError, match=message):
        ExpertFile.open(sound)


def test_a_file_without_a_seal_is_not_finished(sound: Path) -> None:
    data = sound.read_bytes()
    sound.write_bytes(data[:16] + bytes(16) + data[32:])
    with pytest.raises(ExpertFileError, match=r"is not finished; .* so run it again"):
        ExpertFile.open(sound)


def test_a_broken_seal_is_damage(sound: Path) -> None:
    flip(sound, header_of(sound).start - 1)
    with pytest.raises(ExpertFileError, match="is damaged: its header and table diff"):
        ExpertFile.open(sound)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b'"mxfp4"', b'"iq2_x"', "kind is `iq2_x`, wanted one of float32"),
        (b'"mxfp4"', b"[[[[4]]]]"[:7], "wanted JSON|kind is"),
        (b'"group":32', b'"group":64', "not what the kind gives"),
        (b'"bfloat16"', b'"bfloat32"', "floats is `bfloat32`"),
        (b'"layers":2', b'"layers":0', "layers is `0`, wanted 1 to"),
        (b'"layers":2', b'"layers":true', "layers is `True`"),
        (b'"layers":2', b'"layers":2.0', "layers is `2.0`"),
        (b'"layers":2', b'"layers":NaN', "layers is `nan`"),
        (b'"layers":2', b'"layers":16777216', "50331648 records, wanted at most"),
        (b'"layers":2', b'"layers":"2"', "layers is `2`"),
        (b'"experts":3', b'"experts":-3', "experts is `-3`"),
        (b'"experts":3', b'"experts":3,"experts":3', "appears twice"),
        (b'"experts":3', b'"experts":3,"more":0', "not what the kind gives"),
        (b'"experts":3,', b"", "no 'experts'"),
        (b'"down":[64,32]', b'"down":[64,16]', "wants rows that 32 divides"),
        (b'"down":[64,32]', b'"down":[64]', r"down is `\[64\]`, wanted two sizes"),
        (b'"down":[64,32]', b'"down":64', "down is `64`, wanted two sizes"),
        (b'"model":{', b'"model":0,"a":{', "header is not understood"),
        (b'"digest":"', b'"digest":0,"a":"', "the model is `0`, wanted texts"),
    ],
)
def test_a_header_that_does_not_fit_itself_is_refused(
    sound: Path, old: bytes, new: bytes, words: str
) -> None:
    assert old in header_of(sound).encoded
    forged(sound, lambda text: text.replace(old, new, 1))
    with pytest.raises(ExpertFileError, match=words) as caught:
        ExpertFile.open(sound)
    assert str(sound) in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"[" * 60_000,
        lambda text: b'{"layers":' + b"9" * 5_000 + b"}",
        lambda text: b"\xff" + text,
        lambda text: text + b" ",
        lambda text: json.dumps(json.loads(text)).encode(),
        lambda text: b"null",
    ],
    ids=["deep", "long", "not UTF-8", "a space", "other spelling", "null"],
)
def test_a_header_that_nobody_wrote_is_refused(
    sound: Path, change: Callable[[bytes], bytes]
) -> None:
    data = sound.read_bytes()
    _, version, length, seal = PREAMBLE.unpack_from(data)
    text = change(data[PREAMBLE.size :][:length])
    begins = PREAMBLE.pack(MAGIC, version, len(text), seal)
    sound.write_bytes(begins + text + data[PREAMBLE.size + length :])
    with pytest.raises(ExpertFileError, match="its header is not understood"):
        ExpertFile.open(sound)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"layers":2', b'"layers":3'), (b'"experts":3', b'"experts":4')],
    ids=["layers", "experts"],
)
def test_wrong_counts_are_refused(sound: Path, old: bytes, new: bytes) -> None:
    forged(sound, lambda text: text.replace(old, new))
    with pytest.raises(ExpertFileError, match=r"is truncated: wanted \d+ bytes, got"):
        ExpertFile.open(sound)


def test_a_file_of_another_model_is_refused(sound: Path, tmp_path: Path) -> None:
    other = checkpoint(tmp_path / "other", seed=6)
    message = r"holds the experts of model.* wanted those of other \([0-9a-f]{32}\); p"
    with pytest.raises(ExpertFileError, match=message):
        ExpertFile.open(sound, checkpoint=other)


def test_a_file_that_lies_about_its_model_is_refused(
    sound: Path, tmp_path: Path
) -> None:
    other = checkpoint(tmp_path / "other", experts=4)
    theirs = header_of(sound).model_digest.encode()
    forged(sound, lambda text: text.replace(theirs, other.digest.encode()))
    with pytest.raises(ExpertFileError, match=r"has \(2, 3, 64, 32, .* other \(2, 4, "):
        ExpertFile.open(sound, checkpoint=other)


@pytest.mark.parametrize("what", ["nothing", "a folder", "a pipe", "a NUL"])
def test_what_is_no_file_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / ("x\0" if what == "a NUL" else "x")
    if what == "a folder":
        path.mkdir()
    if what == "a pipe":
        os.mkfifo(path)
    with pytest.raises(ExpertFileError, match=r"wanted a(n expert| plain) file"):
        ExpertFile.open(path)


def test_another_file_is_no_expert_file(tmp_path: Path) -> None:
    for content in (b"", b"x", b"STRATEXQ" * 9, b"\x89PNG\r\n"):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(ExpertFileError, match="x is no expert file; `strata-nb pa"):
            ExpertFile.open(tmp_path / "x")


def test_opening_leaves_no_descriptor_behind(sound: Path) -> None:
    flip(sound, 40)
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208 - of this process
    for _ in range(20):
        with pytest.raises(ExpertFileError, match=r"sound.experts"):
            ExpertFile.open(sound)
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208


def test_headers_are_equal_to_the_byte(source: Checkpoint) -> None:
    for kind in KINDS:
        assert Header.of(source, kind).encoded == Header.of(source, kind).encoded
