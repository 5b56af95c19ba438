"""Files of phrases: what is read, and which files are refused, with the line."""

import os
from pathlib import Path

import pytest

from strata_nb.errors import PhraseFileError, StrataError
from strata_nb.slop import Scanner, SlopRules, read_phrases
from strata_nb.slop.phrase_file import MAX_BYTES
from strata_nb.slop.rules import MAX_PHRASE


def written(folder: Path, data: bytes) -> Path:
    file = folder / "phrases.txt"
    file.write_bytes(data)
    return file


def test_phrases_comments_and_blank_lines(tmp_path: Path) -> None:
    text = "# what I do not want\n\na tapestry of\n  delve into  \n   # more\nélan 🙂\n"
    file = written(tmp_path, text.encode())
    assert read_phrases(file) == ("a tapestry of", "delve into", "élan 🙂")
    assert read_phrases(str(file)) == read_phrases(file)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", ()),
        (b"\n\n  \n#\n", ()),
        (b"one", ("one",)),
        (b"one\r\ntwo\r\n\r\n", ("one", "two")),
        (b"\xef\xbb\xbfone\n", ("one",)),
        (b"one\ntwo\none\n", ("one", "two")),
        (b"C# is # fine\n", ("C# is # fine",)),
        (b"x" * MAX_PHRASE, ("x" * MAX_PHRASE,)),
    ],
)
def test_what_is_read(tmp_path: Path, data: bytes, wanted: tuple[str, ...]) -> None:
    assert read_phrases(written(tmp_path, data)) == wanted


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"a\xff\xfe", "wanted UTF-8, got byte 0xff"),
        (b"a\xc3", "wanted UTF-8, got byte 0xc3"),
        (b"# even in a comment \x80", "wanted UTF-8"),
        (b"\xed\xa0\x80", "wanted UTF-8"),
        (b"nul\x00", r"control character U\+0000"),
        (b"a\tb", r"control character U\+0009"),
        (b"\tindented", r"control character U\+0009"),
        (b"one\rtwo", r"control character U\+000D"),
        (b"\x1b[2Jgone", r"control character U\+001B"),
        ("a\u0085b".encode(), r"control character U\+0085"),
        ("a\u2028b".encode(), r"control character U\+2028"),
        ("a\u202eb".encode(), r"control character U\+202E"),
        ("a\u2067b".encode(), r"control character U\+2067"),
        ("a\ufeffb".encode(), r"control character U\+FEFF"),
        (b"x" * (MAX_PHRASE + 1), f"has {MAX_PHRASE + 1} bytes, wanted at most"),
        ("é".encode() * MAX_PHRASE, f"has {2 * MAX_PHRASE} bytes"),
    ],
)
def test_hostile_lines_are_refused_by_number(
    tmp_path: Path, line: bytes, says: str
) -> None:
    file = written(tmp_path, b"fine\n# note\n\n" + line + b"\nfine too\n")
    with pytest.raises(PhraseFileError, match=rf"phrases.txt line 4: .*{says}") as hit:
        read_phrases(file)
    # No message carries what would act on a terminal.
    assert str(hit.value).isprintable()


def test_files_that_are_none(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (Path("/dev/zero"), tmp_path, pipe):
        with pytest.raises(PhraseFileError, match="is no plain file"):
            read_phrases(path)
    for bad in (tmp_path / "none", "a\0b", tmp_path / ("x" * 5000)):
        with pytest.raises(PhraseFileError, match="cannot be read"):
            read_phrases(bad)


def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    full = written(tmp_path, b"ab\n" * (MAX_BYTES // 3) + b"#")
    assert read_phrases(full) == ("ab",)
    with pytest.raises(PhraseFileError, match="wanted at most"):
        read_phrases(written(tmp_path, b"ab\n" * (MAX_BYTES // 3) + b"##"))


def test_it_is_an_error_that_callers_catch() -> None:
    assert issubclass(PhraseFileError, StrataError)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"phrases": ("",)}, "is empty"),
        ({"phrases": ("  ",)}, "is empty"),
        ({"phrases": ("fine", "a\nb")}, r"control character U\+000A"),
        ({"phrases": ("\ud800",)}, "half of a surrogate pair"),
        ({"phrases": ("x" * 257,)}, "has 257 bytes"),
        ({"lines": -1}, "`lines` is -1"),
        ({"lines": 10_001}, "`lines` is 10001"),
        ({"shortest": 0}, "`shortest` is 0"),
        ({"shortest": 9, "longest": 8}, "`longest` 8"),
    ],
)
def test_rules_that_are_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SlopRules(**settings)  # type: ignore[arg-type]


def test_one_text_is_no_list_of_phrases() -> None:
    with pytest.raises(TypeError, match="wanted a tuple"):
        SlopRules(phrases="delve")  # type: ignore[arg-type]


def test_what_was_read_is_penalised(tmp_path: Path) -> None:
    phrases = read_phrases(written(tmp_path, b"Delve\ndelve\n"))
    scanner = Scanner([b"del", b"ve", b"VE"], SlopRules(phrases=phrases))
    assert list(scanner.penalised(scanner.rescan([0]))) == [1, 2]
