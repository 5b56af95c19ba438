"""Text for others to read: no folders, no names of people and hosts."""

import contextlib
import getpass
import re
import socket
import sys
from pathlib import Path


def scrubbed(words: str) -> str:
    """`words` without folders and without the names of this user and this host."""
    # Whole ones before the pattern below, which stops at a space in a folder's name.
    for folder in (str(Path.home()), sys.prefix, str(Path.cwd())):
        if len(folder) > 1:
            words = words.replace(folder, "…")
    words = re.sub(r"…?(?:[A-Za-z]:)?(?:[/\\][^/\\\s:'\"]+)+(?=[/\\])", "…", words)
    for name in _names():
        words = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "…", words)
    return words


def _names() -> list[str]:
    """This user and this host, as far as they have names."""
    names = [socket.gethostname(), socket.gethostname().split(".")[0]]
    # A container's user may have no entry in the system's list.
    with contextlib.suppress(KeyError, OSError):
        names.append(getpass.getuser())
    return [name for name in names if name]
