"""A trace from a seed, without an engine: windows, verdicts, experts, times."""

import numpy as np

from strata_nb.trace import LayerDecisions, Trace, WindowRecord, window_record

LAYERS, EXPERTS, CHOSEN = 4, 16, 2


def record(rng: np.random.Generator, position: int) -> WindowRecord:
    """Return one window of the greedy rule with up to seven drafts."""
    drafts = int(rng.integers(0, 8))
    accepted = int(rng.integers(0, drafts + 1))
    inputs = [int(token) for token in rng.integers(0, 16, drafts + 1)]
    # What a row predicts is the next input as far as drafts are accepted, else not.
    predictions = [
        inputs[row + 1] if row < accepted else (inputs[min(row + 1, drafts)] + 1) % 16
        for row in range(drafts + 1)
    ]
    decisions = [
        LayerDecisions(expert_ids=rng.integers(0, EXPERTS, (drafts + 1, CHOSEN)))
        for _ in range(LAYERS)
    ]
    return window_record(
        position=position,
        inputs=inputs,
        keep=accepted + 1,
        predictions=predictions,
        emitted=[*inputs[1 : accepted + 1], predictions[accepted]],
        offered=drafts,
        accepted=accepted,
        rule="greedy",
        drafter="fake" if drafts else "none",
        match_length=int(rng.integers(4, 12)) if drafts else None,
        decisions=decisions,
        draft_ms=0.1,
        run_ms=10.0 + drafts,
        finish_ms=0.2,
        commit_ms=0.5,
    )


def trace(windows: int, *, seed: int = 1) -> Trace:
    """Return `windows` windows, one after the other."""
    rng = np.random.default_rng(seed)
    made = Trace()
    position = 0
    for _ in range(windows):
        made.append(record(rng, position))
        position += made[-1].keep
    return made
