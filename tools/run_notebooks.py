"""Execute the notebooks, or check that what is committed was executed.

    python tools/run_notebooks.py                       run all, write them back
    python tools/run_notebooks.py notebooks/02_a_window.ipynb
    python tools/run_notebooks.py --check               look, run nothing

A notebook is written back without whatever differs from run to run: times, widget
state, random names. Twice in a row gives the same bytes. Widgets leave a picture and
a text.
"""

import argparse
import base64
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat

from strata_widgets.still import VIEW

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
LARGEST_NOTEBOOK = 300_000
LARGEST_PICTURE = 56_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run or check; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="all if none named")
    parser.add_argument("--check", action="store_true", help="look, run nothing")
    options = parser.parse_args(arguments)
    paths = options.notebooks or sorted(FOLDER.glob("*.ipynb"))
    if not options.check:
        for path in paths:
            execute(path)
    found = [f"{path.name}: {problem}" for path in paths for problem in problems(path)]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


def execute(path: Path) -> None:
    """Run one notebook in a fresh kernel and write it back, normalised."""
    from nbclient import NotebookClient

    # Each widget is one output, for a page without a kernel.
    os.environ["STRATA_STILLS"] = "1"
    notebook = nbformat.read(path, 4)
    # Widget state is stored here and dropped below: without it, a cell that captures
    # output into a widget fails.
    NotebookClient(
        notebook,
        timeout=300,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    nbformat.write(normalised(notebook), path)


def normalised(notebook: Any) -> Any:
    """Take out of `notebook` whatever differs from run to run; returns it."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    # Replaced whole: the widget state goes as well.
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": kernel, "language_info": {"name": "python"}}
    )
    _name_cells(notebook.cells)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if "outputs" in cell:
            cell.outputs = _joined(cell.outputs)
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            data.pop(VIEW, None)
    return notebook


def _name_cells(cells: Sequence[Any]) -> None:
    """Name new cells; a name stays where it is, since other pages point to it."""
    taken = [cell.get("id", "") for cell in cells]
    free = (n for n in itertools.count(1) if f"cell-{n}" not in taken)
    for index, cell in enumerate(cells):
        named = cell.get("id", "").startswith("cell-")
        if not named or cell.id in taken[:index]:
            cell.id = f"cell-{next(free)}"


def _joined(outputs: Sequence[Any]) -> list[Any]:
    """Join pieces of one stream: where they break is a matter of time."""
    joined: list[Any] = []
    for output in outputs:
        last: Any = joined[-1] if joined else {}
        same = output.output_type == last.get("output_type") == "stream"
        if same and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def problems(path: Path) -> Iterator[str]:
    """Say what is wrong with a committed notebook; nothing when it is fine."""
    size = path.stat().st_size
    if size > LARGEST_NOTEBOOK:
        yield f"{size} bytes, wanted {LARGEST_NOTEBOOK} at most"
    notebook = nbformat.read(path, 4)
    if "widgets" in notebook.metadata:
        yield "holds widget state; run it with this tool"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in code]
    if counts != list(range(1, len(code) + 1)):
        yield f"cells were not run once and in order: {counts}"
    for number, cell in enumerate(code, 1):
        yield from (f"cell [{number}] {what}" for what in _cell_problems(cell))


def _cell_problems(cell: Any) -> Iterator[str]:
    allowed = "raises-exception" in cell.metadata.get("tags", ())
    for output in cell.outputs:
        if output.output_type == "error" and not allowed:
            yield f"ends in {output.ename}"
        if output.get("name") == "stderr":
            yield "writes to stderr"
        data = output.get("data", {})
        if VIEW in data:
            yield "holds a widget's random name; run it with this tool"
        if len(base64.b64decode(data.get("image/png", ""))) > LARGEST_PICTURE:
            yield f"has a picture of more than {LARGEST_PICTURE} bytes"
        text = output.get("text", "") + data.get("text/plain", "")
        for home in (str(ROOT), str(Path.home()), "/tmp/"):
            if home in text:
                yield f"shows a path of one machine, {home}"


if __name__ == "__main__":
    sys.exit(main())
