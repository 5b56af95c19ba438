"""Open the notebooks in JupyterLab, without a word to the network."""

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from strata_nb.errors import StrataError

FIRST = "01_hand_drafts.ipynb"

# The news, the check for updates and the list of extensions each ask a server.
_QUIET = (
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
)
# Without it JupyterLab still asks whether we want its news. Defaults, which a person's
# own settings override, and for this start only.
_DEFAULTS = Path(__file__).parent / "_jupyter"


def start(
    *, folder: Path | None, port: int | None, browser: bool, more: Sequence[str] = ()
) -> NoReturn:
    """Become JupyterLab on the notebooks; this process does not come back.

    Args:
        folder: where the notebooks are; None: this clone's.
        port: where to listen; the next free one is taken if it is not.
        browser: open a browser window.
        more: further options for JupyterLab.

    Raises:
        StrataError: JupyterLab is not installed, or there are no notebooks.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise StrataError(
            "JupyterLab is not installed here; `pip install 'strata-nb[lab]'`, in a "
            "clone `make lab`"
        )
    arguments = command(notebooks(folder), port=port, browser=browser)
    arguments += more
    sys.stdout.flush()
    os.execve(arguments[0], arguments, environment(os.environ))


def notebooks(folder: Path | None) -> Path:
    """The folder of the notebooks.

    Raises:
        StrataError: there is none; the message says how to get them.
    """
    if folder is not None:
        if not folder.is_dir():
            raise StrataError(f"--dir must be a folder, got {folder}")
        return folder.resolve()
    clone = Path(__file__).resolve().parent.parent
    for place in (clone / "notebooks", Path.cwd() / "notebooks", Path.cwd()):
        if (place / FIRST).is_file():
            return place.resolve()
    raise StrataError(
        "the notebooks are in the repository and not in the installed package; clone "
        "it and run `make lab` there, or name their folder with --dir"
    )


def command(folder: Path, *, port: int | None, browser: bool) -> list[str]:
    """The command line that opens the first notebook of `folder`.

    It holds no token: Jupyter makes one, and other users can read command lines.
    """
    arguments = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder}"]
    arguments += _QUIET
    if (folder / FIRST).is_file():
        arguments.append(f"--LabApp.default_url=/lab/tree/{FIRST}")
    if port is not None:
        arguments.append(f"--ServerApp.port={port}")
    if not browser:
        arguments.append("--no-browser")
    # JupyterLab refuses to run as root, and in a container root is all there is.
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--allow-root")
    return arguments


def environment(current: Mapping[str, str]) -> dict[str, str]:
    """`current` with kernels and terminals of this Python, and our defaults."""
    here = str(Path(sys.executable).parent)
    configuration = (current.get("JUPYTER_CONFIG_PATH"), str(_DEFAULTS))
    return {
        **current,
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, configuration)),
        "PATH": os.pathsep.join(filter(None, (here, current.get("PATH")))),
        # Or a kernel called python3 in the home folder would win over ours.
        "JUPYTER_PREFER_ENV_PATH": current.get("JUPYTER_PREFER_ENV_PATH", "1"),
    }
