"""The checkpoints that come with the package, by name."""

import os
from pathlib import Path

from strata_nb.errors import CheckpointError

_DATA = Path(__file__).parents[1] / "data"


def checkpoint_folder(name: str | os.PathLike[str]) -> Path:
    """The folder that `name` stands for: a bundled model, or a folder itself.

    Raises:
        CheckpointError: there is neither.
    """
    bundled = sorted(path.parent.name for path in _DATA.glob("*/config.json"))
    if isinstance(name, str) and name in bundled:
        return _DATA / name
    try:
        folder = Path(name).expanduser()
        there = folder.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{name!r} names no folder: {error}") from error
    if not there:
        raise CheckpointError(
            f"there is no folder {folder}; wanted one with config.json and safetensors "
            f"files, or a bundled model ({', '.join(bundled)})"
        )
    return folder
