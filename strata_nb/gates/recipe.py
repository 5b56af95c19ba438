"""A notebook cell that does again what was done to engines, and shows what differs."""

import copy
import glob
import json
import operator
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NewType, SupportsIndex, TypeAlias

from strata_nb.errors import CheckpointError
from strata_nb.faults import of_part
from strata_nb.packs.bundled import checkpoint_folder
from strata_nb.refusals import MAX_ROWS, Tokens

Option: TypeAlias = str | bool | int | None
Name = NewType("Name", str)
"""A window's name in the cell."""

_WIDTH = 88
_INLINE = 48  # characters of a list of ids that still stands where it is used
# What a plain engine goes without: none of these changes what it computes.
_NOT_PLAIN = ("fault", "fold", "partial", "context")


@dataclass
class _Page:
    """The lines that all engines of a cell share."""

    load: str
    lines: list[str] = field(default_factory=list)
    engines: int = 0
    refused: bool = False
    lists: dict[tuple[int, ...], str] = field(default_factory=dict)
    windows: dict[Name, tuple[int, ...]] = field(default_factory=dict)
    saved: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def write(self, head: str, *inside: str) -> None:
        """One call; one that is refused stands under a line that says so."""
        margin = "    " if self.refused else ""
        if self.refused:
            self.lines.append("with suppress(strata_nb.StrataError, ValueError):")
        self.lines += [margin + line for line in _call(head, inside, len(margin))]

    def ids(self, ids: tuple[int, ...]) -> str:
        """The ids as code; a long list gets a name, and is written out once."""
        code = self._shortest(ids)
        if len(code) <= _INLINE:
            return code
        name = _numbered("ids", len(self.lists) + 1)
        rows = textwrap.wrap(code[1:-1], _WIDTH - 5)
        # The formatter would put each number on a line of its own.
        body = (f"    {row}" for row in rows)
        self.lines += [f"{name} = [", *body, "]  # fmt: skip"]
        self.lists[ids] = name
        return name

    def _shortest(self, ids: tuple[int, ...]) -> str:
        """By the longest named list that `ids` begin with."""
        for known in sorted(self.lists, key=len, reverse=True):
            if ids == known:
                return self.lists[known]
            if ids[: len(known)] == known:
                rest = ", ".join(map(str, ids[len(known) :]))
                return f"[*{self.lists[known]}, {rest}]"
        return f"[{', '.join(map(str, ids))}]"


class Recipe:
    """What was done to one engine, as a cell of plain Python.

    Its verbs are the engine's. Each writes a line and computes nothing: call it beside
    the engine's own, or alone, where what happened is known. The cell compares the
    engine with a plain one, without the fault, that takes the same committed tokens one
    row at a time.

    Args:
        load: what `strata_nb.load` takes.
        options: what `model.engine` takes, `fault` among them; None is left out.
    """

    def __init__(self, load: str, **options: Option) -> None:
        self._page = _Page(load)
        self._begin(options)

    def _begin(self, options: Mapping[str, Option]) -> None:
        self._enter()
        self._options = dict(options)
        self.tokens: tuple[int, ...] = ()  # committed so far
        self._page.write(f"{self.name} = model.engine", *_keywords(options))

    def _enter(self) -> None:
        self._page.engines += 1
        self.name = _numbered("engine", self._page.engines)

    def beside(self, **options: Option) -> "Recipe":
        """Another new engine of the same model, in the same cell."""
        other = copy.copy(self)
        other._begin(options)
        return other

    @contextmanager
    def refused(self) -> Iterator[None]:
        """What is written inside raises, and changes nothing."""
        before, self._page.refused = self.tokens, True
        try:
            yield
        finally:
            self.tokens, self._page.refused = before, False

    def prefill(self, ids: Tokens, *, chunk: int | None = None) -> None:
        """Commit a prompt."""
        tokens, rest = _ints(ids), _keywords({"chunk": chunk})
        self._page.write(f"{self.name}.prefill", self._page.ids(tokens), *rest)
        self.tokens += tokens

    def run(self, ids: Tokens, *, head: bool = True) -> Name:
        """Open a window; returns its name, for the verbs that follow."""
        tokens, rest = _ints(ids), _keywords({"head": None if head else False})
        code = self._page.ids(tokens)
        window = Name(_numbered("window", len(self._page.windows) + 1))
        self._page.windows[window] = tokens
        self._page.write(f"{window} = {self.name}.run", code, *rest)
        return window

    def finish(
        self,
        window: Name,
        *,
        stop_ids: Collection[SupportsIndex] | None = None,
        tokens_left: int | None = None,
    ) -> None:
        """Choose tokens and compare the drafts."""
        rest = _keywords({"tokens_left": tokens_left})
        if stop_ids is not None:
            rest.insert(0, f"stop_ids={self._page.ids(_ints(stop_ids))}")
        self._page.write(f"{self.name}.finish", window, *rest)

    def commit(self, window: Name, *, keep: int, force: bool = False) -> None:
        """Keep `keep` rows; the cell names the number, natural or not."""
        rest = _keywords({"keep": keep, "force": force or None})
        self._page.write(f"{self.name}.commit", window, *rest)
        self.tokens += self._page.windows[window][: max(keep, 0)]

    def abort(self, window: Name) -> None:
        """Drop the window."""
        self._page.write(f"{self.name}.abort", window)

    def save(self, file: str) -> None:
        """Save to `file`, in a new folder of the cell's own."""
        self._page.write(f"{self.name}.save", f"folder / {_literal(file)}")
        if not self._page.refused:
            self._page.saved[file] = self.tokens

    def restore(self, file: str) -> None:
        """Take what was saved to `file`."""
        self._page.write(f"{self.name}.restore", f"folder / {_literal(file)}")
        self.tokens = self._page.saved.get(file, ())

    def fork(self) -> "Recipe":
        """The recipe of a second engine, in the same cell."""
        other = copy.copy(self)
        other._enter()
        self._page.write(f"{other.name} = {self.name}.fork")
        return other

    def cell(self, *, atol: float = 0.0, watch: Sequence[str] = ()) -> str:
        """The lines of all engines, then this one compared with a plain one.

        Args:
            atol: largest absolute difference that counts as none; 0 compares exactly.
            watch: attributes of the engine to show before, such as "root".
        """
        page = copy.deepcopy(self._page)
        options = {k: v for k, v in self._options.items() if k not in _NOT_PLAIN}
        tokens = page.ids(self.tokens)
        page.lines.append("# The committed tokens, one row at a time, without a fault:")
        page.write("plain = model.engine", *_keywords(options))
        page.write("plain.prefill", tokens, "chunk=1")
        rest = [f"atol={atol!r}"] if atol else []
        compared = ", ".join((self.name, "plain", *rest))
        page.lines += [f'print(f"{{{self.name}.{name}=}}")' for name in watch]
        page.lines += [
            f'for difference in strata_nb.diff({compared}) or ["same"]:',
            "    print(difference)",
        ]
        return "\n".join([*_imports(page.lines), *_loaded(page)]) + "\n"


def of_window(
    start_ids: Tokens,
    rows: Tokens,
    keep: int,
    after_rows: Tokens = (),
    *,
    fault: str | None = None,
    options: Mapping[str, Option] | None = None,
    load: str = "strata-tiny",
    atol: float = 0.0,
) -> str:
    """The cell of one window and what follows it.

    Args:
        start_ids: committed before the window.
        rows: the window's.
        keep: how many of them are kept.
        after_rows: run and kept afterwards, in one window if 8 rows hold them.
        fault: planted into the engine, with the options it needs.
        options: what else `model.engine` takes.
        load: what `strata_nb.load` takes.
        atol: largest absolute difference that counts as none; 0 compares exactly.
    """
    return of_windows(
        start_ids,
        [(rows, keep)],
        after_rows,
        fault=fault,
        options=options,
        load=load,
        atol=atol,
    )


def of_windows(
    start_ids: Tokens,
    windows: Sequence[tuple[Tokens, int]],
    after_rows: Tokens = (),
    *,
    fault: str | None = None,
    options: Mapping[str, Option] | None = None,
    load: str = "strata-tiny",
    atol: float = 0.0,
) -> str:
    """`of_window` for several windows in a row, each with its keep."""
    planted = dict(options or {})
    if fault is not None:
        needs = of_part(fault).options
        planted |= {k: v for k, v in needs.items() if isinstance(v, str | bool | int)}
        planted["fault"] = fault
    recipe = Recipe(load, **planted)
    if len(start_ids):
        recipe.prefill(start_ids)
    after = [
        after_rows[at : at + MAX_ROWS] for at in range(0, len(after_rows), MAX_ROWS)
    ]
    for ids, keep in (*windows, *((ids, len(ids)) for ids in after)):
        window = recipe.run(ids)
        recipe.finish(window, stop_ids=())
        recipe.commit(window, keep=keep, force=True)
    return recipe.cell(atol=atol)


def of_case(
    case: str,
    *,
    load: str = "strata-tiny",
    profile: str = "quick",
    fault: str | None = None,
    dtype: str | None = None,
    slots: int | None = None,
) -> str:
    """The cell that runs one case of a gate again, alone, and shows what it finds.

    Args:
        case: its id, as reports name it.
        load: what `strata_nb.load` takes; `named` says it of a checkpoint.
        profile: one that has the case.
        fault: planted into the subject.
        dtype: of the model's weights; None: as `load` chooses.
        slots: experts in memory; None: all of them.
    """
    options = _keywords({"dtype": dtype})
    if slots is not None:
        options.append(f"experts=Streaming(slots={slots})")
    asked = {"profile": None if profile == "quick" else profile, "fault": fault}
    inside = [_literal(case.partition("/")[0]), "model=model", *_keywords(asked)]
    # A pattern: what it would take for a choice of letters is meant as it stands.
    first, *rest = map(_literal, _pieces(glob.escape(case)))
    streaming = ["from strata_nb.experts import Streaming"] * (slots is not None)
    lines = [
        "import strata_nb",
        "from strata_nb import gates",
        *streaming,
        "from strata_nb.gates.report.as_text import finding",
        "",
        *_call("model = strata_nb.load", [_literal(load), *options], 0),
        "report = gates.run(",
        *(f"    {line}," for line in inside),
        f"    only={first}" + "," * (not rest),
        *(f"    {piece}" + "," * (piece is rest[-1]) for piece in rest),
        ")",
        "(result,) = report.gates[0].results",
        'print(f"{result.case.id}: {result.verdict}")',
        'print(*map(finding, result.findings[:8]), sep="\\n")',
    ]
    return "\n".join(lines) + "\n"


def named(path: Path) -> str:
    """What `strata_nb.load` takes for a checkpoint: a name if it has one.

    Args:
        path: of the checkpoint's folder.
    """
    try:
        bundled = checkpoint_folder(path.name)
    except CheckpointError:
        return path.as_posix()
    return path.name if bundled.resolve() == path.resolve() else path.as_posix()


def _pieces(text: str) -> list[str]:
    """`text` cut after slashes, so that a line holds each piece."""
    found = [""]
    for word in text.split("/"):
        if found[-1] and len(found[-1]) + len(word) > _WIDTH - 16:
            found.append("")
        found[-1] += word + "/"
    return [*found[:-1], found[-1].removesuffix("/")]


def _ints(ids: Collection[SupportsIndex] | Tokens) -> tuple[int, ...]:
    return tuple(operator.index(i) for i in ids)


def _numbered(word: str, number: int) -> str:
    return word if number == 1 else f"{word}_{number}"


def _literal(value: object) -> str:
    """As the formatter writes it: double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)


def _keywords(options: Mapping[str, object]) -> list[str]:
    return [f"{k}={_literal(v)}" for k, v in options.items() if v is not None]


def _call(head: str, inside: Sequence[str], margin: int) -> list[str]:
    """A call on one line, or broken where the formatter would."""
    line = f"{head}({', '.join(inside)})"
    if margin + len(line) <= _WIDTH:
        return [line]
    body = ", ".join(inside)
    if margin + 4 + len(body) <= _WIDTH or len(inside) == 1:
        return [f"{head}(", f"    {body}", ")"]
    return [f"{head}(", *(f"    {part}," for part in inside), ")"]


def _imports(lines: Sequence[str]) -> list[str]:
    """Only what the lines use, standard library first."""
    text = "\n".join(lines)
    wanted = ["from contextlib import suppress"] * ("suppress(" in text)
    if "folder / " in text:
        wanted += ["from pathlib import Path", "from tempfile import mkdtemp"]
    return [*wanted, *([""] if wanted else []), "import strata_nb", ""]


def _loaded(page: _Page) -> list[str]:
    model = _call("model = strata_nb.load", [_literal(page.load)], 0)
    folder = any("folder / " in line for line in page.lines)
    return [*model, *["folder = Path(mkdtemp())"] * folder, *page.lines]
