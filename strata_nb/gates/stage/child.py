"""Runs a script in a process of its own, and reads what it found."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strata_nb.errors import StrataError
from strata_nb.packs import ModelConfig

BUNDLED = "strata-tiny"
_PATIENCE_S = 1800
# A second copy of larger weights might not fit beside the first.
_OWN_PARAMETERS = 1 << 29


class ChildError(StrataError):
    """The process ended without an answer; the message names the exception."""


def asked_of(config: ModelConfig) -> str:
    """Which model the process loads: "own", or the bundled one in place of a large one.

    What is looked for is done by code, whatever the weights.
    """
    expert = 3 * config.hidden_size * config.moe_intermediate_size
    experts = config.num_hidden_layers * config.num_experts * expert
    rows = config.ngram_heads * config.ngram_vocab_size_base
    tables = len(config.ple_layers) * rows * config.ngram_head_dim
    parameters = experts + 2 * config.vocab_size * config.hidden_size + tables
    return "own" if parameters <= _OWN_PARAMETERS else BUNDLED


def answer(
    script: Path,
    request: Mapping[str, Any],
    *,
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What the script found out.

    Args:
        script: a file beside the gate that asks; it prints one line of JSON.
        request: what it is told, as JSON in its first argument.
        env: variables set for it besides those of this process.

    Raises:
        ChildError: it failed, or did not end within half an hour.
    """
    path = os.pathsep.join(p for p in sys.path if p)
    try:
        # -P: its folder's modules must not take the place of others of their name.
        # -B: an import must not write files, since writing is what some look for.
        done = subprocess.run(
            [
                *(sys.executable, "-P", "-B"),
                str(script),
                json.dumps(request),
            ],
            env={**os.environ, "PYTHONPATH": path, **(env or {})},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=True,
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired as error:
        raise ChildError(
            f"{script.name} did not end within {_PATIENCE_S} s; run it with less to do"
        ) from error
    except subprocess.CalledProcessError as error:
        # The last line of a traceback names the exception; the rest has paths in it.
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise ChildError(
            f"{script.name} ended with {last.split(':')[0]}; run it alone to see why"
        ) from error
    return found
