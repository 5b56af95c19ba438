"""Plants a mistake into the engine: the package imported anew with edited source.

No file is touched. An edit whose text is not found exactly once is an error.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

PACKAGES = ("strata_nb", "strata_kernels")


@dataclass(frozen=True)
class Mistake:
    """A wrong reading of the model.

    Attributes:
        name: what is done wrong.
        module: whose source is edited.
        edits: pairs of text and replacement.
        case: of `vectors.cases`, on which it shows.
    """

    name: str
    module: str
    edits: tuple[tuple[str, str], ...]
    case: str = "mistakes"


class StaleEditError(Exception):
    """The text to be replaced is not in the module exactly once."""


class _Edited(importlib.machinery.SourceFileLoader):
    """Compiles the module from its edited text, past any cached bytecode."""

    def __init__(self, mistake: Mistake, path: str) -> None:
        super().__init__(mistake.module, path)
        self._mistake = mistake

    def get_code(self, fullname: str) -> CodeType:
        text = self.get_data(self.path).decode()
        for old, new in self._mistake.edits:
            if text.count(old) != 1:
                raise StaleEditError(
                    f"{self._mistake.name!r}: wanted the text once in {fullname}, "
                    f"found it {text.count(old)} times; take it from the source "
                    f"again:\n{old}"
                )
            text = text.replace(old, new)
        return compile(text, f"<{self._mistake.name}>", "exec")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the edited module and leaves the others to the usual finders."""

    def __init__(self, mistake: Mistake) -> None:
        self._mistake = mistake

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._mistake.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None:
            return None
        return importlib.util.spec_from_file_location(
            fullname,
            spec.origin,
            loader=_Edited(self._mistake, spec.origin),
            submodule_search_locations=spec.submodule_search_locations,
        )


@contextlib.contextmanager
def planted(mistake: Mistake) -> Iterator[Any]:
    """`strata_nb` with the mistake in it; the sound one is back after the block.

    Raises:
        StaleEditError: the source has moved on from the table below.
    """
    finder = _Finder(mistake)
    sound = _take_out()
    sys.meta_path.insert(0, finder)
    try:
        package = importlib.import_module("strata_nb")
        # The package loads its rooms on first use, and this one uses all of them.
        importlib.import_module("strata_nb.model")
        if mistake.module not in sys.modules:
            raise StaleEditError(f"{mistake.module} is no part of the package any more")
        yield package
    finally:
        sys.meta_path.remove(finder)
        _take_out()
        sys.modules.update(sound)


def _take_out() -> dict[str, ModuleType]:
    """Remove our packages from the imported modules; returns what was there."""
    ours = [name for name in sys.modules if name.split(".")[0] in PACKAGES]
    return {name: sys.modules.pop(name) for name in ours}
