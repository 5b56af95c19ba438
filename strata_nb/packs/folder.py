"""Which files of a folder are the checkpoint, and every tensor in them by full name."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strata_nb.errors import CheckpointError
from strata_nb.packs.json_file import quote, read_object
from strata_nb.packs.safetensors_file import Entry, SafetensorsFile, open_safetensors

INDEX = "model.safetensors.index.json"
_TEXT, _MULTIMODAL, _VISUAL = "model.", "model.language_model.", "model.visual."


@dataclass(frozen=True)
class Stored:
    """Where one tensor lies."""

    file: SafetensorsFile
    entry: Entry


def check_folder(path: str | os.PathLike[str]) -> Path:
    """The folder of that name; what is no checkpoint at all is refused.

    Raises:
        CheckpointError: no folder, or none with a `config.json`.
    """
    try:
        folder = Path(path).expanduser()
        is_folder, is_there = folder.is_dir(), folder.exists()
        has_config = (folder / "config.json").is_file()
    # No home of that user, a name that is too long, a folder that may not be entered.
    except (RuntimeError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CheckpointError(
            f"{quote(os.fspath(path))}: wanted a folder with config.json and "
            f"safetensors files, got a name that cannot be followed ({why}); give the "
            "folder of a checkpoint in Hugging Face layout"
        ) from error
    if not is_folder:
        got = "a file" if is_there else "nothing"
        raise CheckpointError(
            f"{folder}: wanted a folder with config.json and safetensors files, got "
            f"{got}; give the folder of a checkpoint in Hugging Face layout"
        )
    if not has_config:
        raise CheckpointError(
            f"{folder} has no config.json; give the folder of a checkpoint in Hugging "
            "Face layout"
        )
    return folder


def open_files(folder: Path) -> dict[str, SafetensorsFile]:
    """Open every file of the checkpoint and check it against the index.

    Raises:
        CheckpointError: files are absent or ambiguous, a tensor is in two files, or
            the index and the headers disagree.
    """
    index = folder / INDEX
    # Names with a leading dot are a file system's own, such as a Mac's resource forks.
    present = sorted(path.name for path in folder.glob("[!.]*.safetensors"))
    if index.is_file():
        weight_map = _weight_map(index)
        names = sorted(set(weight_map.values()))
        if "model.safetensors" in present and "model.safetensors" not in names:
            raise CheckpointError(
                f"{folder} holds both model.safetensors and {INDEX}, which does not "
                "name it; wanted one of them, so remove the other"
            )
        files = {name: _open_named(folder, name) for name in names}
        _check_unique(files)
        _check_index(weight_map, files)
        return files
    if len(present) > 1 or not present:
        raise CheckpointError(_no_single_file(folder, present))
    return {present[0]: open_safetensors(folder / present[0])}


def _no_single_file(folder: Path, present: list[str]) -> str:
    if present:
        return (
            f"{folder} holds {len(present)} safetensors files but no {INDEX}; wanted "
            "the index, so download it too"
        )
    pickled = any(folder.glob("*.bin")) or any(folder.glob("*.pt"))
    remedy = (
        "pickled weights are never read: convert them" if pickled else "download it"
    )
    return f"{folder} holds no safetensors file; wanted one, so {remedy}"


def _weight_map(index: Path) -> dict[str, str]:
    weight_map: Any = read_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(
            f"{index.name}: `weight_map` wants names and files, got nothing of the "
            "kind; download it again"
        )
    for name, file in weight_map.items():
        if not isinstance(file, str) or not _is_plain_name(file):
            raise CheckpointError(
                f"{index.name}: tensor {quote(name)} wants the plain name of a "
                f"safetensors file in this folder, got {quote(file)}; do not trust "
                "this index"
            )
    return weight_map


def _is_plain_name(file: str) -> bool:
    """Whether `file` names something in the folder itself, on any system."""
    return (
        file.endswith(".safetensors")
        and file.isprintable()
        and len(file) <= 255
        and not file.startswith(".")
        and not set(file) & set("/\\:")
    )


def _open_named(folder: Path, name: str) -> SafetensorsFile:
    if not (folder / name).exists():
        raise CheckpointError(
            f"{INDEX} names {quote(name)}, which is not in {folder}; download it"
        )
    return open_safetensors(folder / name)


def _check_unique(files: dict[str, SafetensorsFile]) -> None:
    owners: dict[str, str] = {}
    for file, opened in files.items():
        for name in opened.entries:
            if name in owners:
                raise CheckpointError(
                    f"tensor {quote(name)} is in {quote(owners[name])} and in "
                    f"{quote(file)}; wanted it once, so remove one"
                )
            owners[name] = file


def _check_index(weight_map: dict[str, str], files: dict[str, SafetensorsFile]) -> None:
    for name, file in weight_map.items():
        if name not in files[file].entries:
            raise CheckpointError(
                f"tensor {quote(name)} is missing: {INDEX} places it in {quote(file)}, "
                "which does not hold it; download both again"
            )
    for file, opened in files.items():
        for name in opened.entries:
            if name not in weight_map:
                raise CheckpointError(
                    f"tensor {quote(name)} in {quote(file)} is not in {INDEX}; "
                    "download both again"
                )


def canonical(files: dict[str, SafetensorsFile]) -> dict[str, Stored]:
    """Every tensor by canonical name: the prefix cut off, the vision tower left out.

    `lm_head.` and `mtp.` have no prefix in either layout. Names that fit nowhere stay
    whole, for the manifest to refuse.

    Raises:
        CheckpointError: two names come out as one.
    """
    names = [name for opened in files.values() for name in opened.entries]
    multimodal = any(name.startswith(_MULTIMODAL) for name in names)
    prefix = _MULTIMODAL if multimodal else _TEXT
    found: dict[str, Stored] = {}
    origins: dict[str, str] = {}
    for opened in files.values():
        for name, entry in opened.entries.items():
            if multimodal and name.startswith(_VISUAL):
                continue
            short = _canonical_name(name, prefix)
            if short in found:
                raise CheckpointError(
                    f"tensors {quote(origins[short])} and {quote(name)} both stand for "
                    f"{quote(short)}; wanted one, so remove the other"
                )
            found[short], origins[short] = Stored(opened, entry), name
    return found


def _canonical_name(name: str, prefix: str) -> str:
    # The head and the draft head keep their names; under the prefix they would be
    # others' tensors with the same spelling.
    short = name.removeprefix(prefix)
    return name if short.startswith(("lm_head.", "mtp.")) else short
