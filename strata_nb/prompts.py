"""Texts written for this project, edits, code, prose, tool calls: prompts and probes.

Drafts are measured on prompts, and settings of policies may be tuned on them; those
that are held out judge what was tuned. A probe is held out as well: whoever predicts
it, an approximate policy beside the exact model, has met it nowhere else.
"""

import json
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from strata_nb.model import Model

Kind: TypeAlias = Literal["edit", "code", "prose", "agent"]
WRITTEN: tuple[Kind, ...] = get_args(Kind)
"""Every kind there are prompts of."""
KINDS: tuple[Kind, ...] = ("edit", "code", "prose")
"""The kinds that have a probe as well: what is compared by quality is compared here."""

_FOLDER = Path(__file__).parent / "data" / "prompts"


def texts(kind: Kind, *, held_out: bool = False) -> list[str]:
    """The prompts of a kind: 20 edits, 20 pieces of code, 10 of prose, 11 of an agent.

    An edit is what a user asks, the others are texts to go on from; those of an agent
    are transcripts of tool calls and what the tools answered.

    Args:
        kind: of the prompts.
        held_out: 8 others of the kind, on which nothing may be tuned.

    Raises:
        ValueError: there is no such kind.
    """
    folder = "held_out/" if held_out else ""
    found: list[str] = json.loads(_read(kind, WRITTEN, f"{folder}{kind}.json"))
    return found


def prompts(model: Model, kind: Kind, *, held_out: bool = False) -> list[list[int]]:
    """The same as tokens of `model`, an edit in its chat template.

    Raises:
        ValueError: there is no such kind.
        CheckpointError: the model has no tokenizer, or no chat template for edits.
    """
    asked = texts(kind, held_out=held_out)
    if kind == "edit":
        asked = [model.chat([{"role": "user", "content": text}]) for text in asked]
    return [model.encode(text) for text in asked]


def probe(kind: Kind) -> str:
    """The text of a kind to compare quality on, a few hundred tokens long.

    In no prompt, test or notebook, so that nothing was ever fitted to it.

    Raises:
        ValueError: there is no such kind, or it has no probe.
    """
    return _read(kind, KINDS, f"probes/{kind}.txt")


def _read(kind: Kind, kinds: tuple[Kind, ...], name: str) -> str:
    if kind not in kinds:
        raise ValueError(f"`kind` is {kind!r}, wanted {', '.join(kinds)}")
    return (_FOLDER / name).read_text(encoding="utf-8")
