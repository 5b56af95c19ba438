"""What `finish` finds: a token for each row, and the drafts that this accepts."""

from collections.abc import Collection

from strata_nb import refusals
from strata_nb.accept import Choice, accept
from strata_nb.errors import NotFiniteError
from strata_nb.window import Result, Window


def outcome(
    window: Window,
    *,
    choose: Choice | None,
    stop_ids: Collection[int],
    tokens_left: int | None,
    vocabulary: int,
) -> Result:
    """Choose a token for each row and compare the drafts with them.

    Args:
        window: a window that has run; a headless one has nothing to choose.
        choose: the rule; None takes the best token of each row.
        stop_ids: tokens that end the text.
        tokens_left: tokens that may still be emitted.
        vocabulary: tokens there are, V.

    Raises:
        NotFiniteError: a logit is NaN or infinite.
        ValueError: `choose` answers with anything but a token for each row.
    """
    if window.headless:
        return Result((), 0, 0, window.T, (), None)
    best, finite = window.forward.greedy()
    if not finite:
        raise NotFiniteError(
            f"{refusals.named(window)} has logits that are NaN or infinite; "
            "`abort` it and check the checkpoint"
        )
    if choose is None:
        predictions = tuple(best)
    else:
        chosen = choose(window.inputs, window.logits, start=window.start)
        predictions = refusals.chosen(chosen, window.T, vocabulary)
    found = accept(
        window.inputs, predictions, stop_ids=stop_ids, tokens_left=tokens_left
    )
    keep = found.accepted + 1
    return Result(
        predictions=predictions,
        accepted=found.accepted,
        offered=found.offered,
        keep=keep,
        emitted=predictions[:keep],
        stop=found.stop,
        rule="greedy" if choose is None else choose.rule,
    )
