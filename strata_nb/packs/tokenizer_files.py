"""What a checkpoint says about text: its stop ids, its chat template, its tokenizer."""

from pathlib import Path
from typing import Any

from strata_nb.errors import CheckpointError
from strata_nb.packs.config_keys import ConfigKeys
from strata_nb.packs.json_file import quote, read_object


def stop_ids(
    folder: Path, outer: dict[str, Any], keys: ConfigKeys, vocab_size: int
) -> tuple[int, ...]:
    """The union of every source in the folder, ascending.

    Args:
        folder: of the checkpoint.
        outer: the whole `config.json`.
        keys: the text decoder's part of it; notes are added to it.
        vocab_size: ids are below it.

    Raises:
        CheckpointError: a source holds something that is no id of this model.
    """
    sources = [keys, ConfigKeys(outer)]
    if (folder / "generation_config.json").is_file():
        name = "generation_config.json"
        sources.append(ConfigKeys(read_object(folder / name), where=name))
    found: set[int] = set()
    for source in sources:
        found.update(source.integers("eos_token_id", low=0, high=vocab_size - 1))
    if (folder / "tokenizer_config.json").is_file():
        found.update(_tokenizer_stop(folder, keys.notes, vocab_size))
    if not found:
        keys.notes.append("no stop id in any file: generation ends at its limit")
    return tuple(sorted(found))


def _tokenizer_stop(folder: Path, notes: list[str], vocab_size: int) -> set[int]:
    """The id of `eos_token`, which is often the end of a turn and not of a text."""
    config = read_object(folder / "tokenizer_config.json")
    token = _content(config.get("eos_token"))
    if token is None:
        return set()
    number = _listed_id(config, token)
    if number is None and (folder / "tokenizer.json").is_file():
        number = _vocabulary_id(read_object(folder / "tokenizer.json"), token)
    if number is None:
        notes.append(f"eos_token {quote(token)} has no id in the folder: not a stop id")
        return set()
    if type(number) is not int or not 0 <= number < vocab_size:
        raise CheckpointError(
            f"tokenizer_config.json: `eos_token` wants an id below {vocab_size}, got "
            f"{quote(number)}; the tokenizer belongs to another model"
        )
    return {number}


def _content(token: object) -> str | None:
    """A token's text: a plain string, or an object that holds it."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _listed_id(config: dict[str, Any], token: str) -> Any:
    listed = config.get("added_tokens_decoder")
    if isinstance(listed, dict):
        for number, entry in listed.items():
            if _content(entry) == token and number.isdecimal() and len(number) < 10:
                return int(number)
    return None


def _vocabulary_id(tokenizer: dict[str, Any], token: str) -> Any:
    added = tokenizer.get("added_tokens")
    for entry in added if isinstance(added, list) else []:
        if isinstance(entry, dict) and entry.get("content") == token:
            return entry.get("id")
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    return vocabulary.get(token) if isinstance(vocabulary, dict) else None


def chat_template(folder: Path) -> str | None:
    """The Jinja text of the chat template, from its own file or the tokenizer's."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"chat_template.jinja cannot be read ({error}); wanted UTF-8 text, so "
                "download it again or remove it"
            ) from error
    for name in ("chat_template.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            template = _template(read_object(folder / name).get("chat_template"))
            if template is not None:
                return template
    return None


def _template(value: object) -> str | None:
    """One template, or the default of several named ones."""
    if isinstance(value, list):
        for entry in value:
            if isinstance(entry, dict) and entry.get("name") == "default":
                value = entry.get("template")
    return value if isinstance(value, str) else None
