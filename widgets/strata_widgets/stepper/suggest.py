"""Drafts to start from: what the model itself would write, and a plausible miss."""

import numpy as np

from strata_nb import Engine


def own_tokens(engine: Engine, root: int, count: int) -> tuple[list[int], list[int]]:
    """Decode serially on a fork; `engine` does not move.

    Args:
        engine: an engine without an open window.
        root: the token that the first window would start with.
        count: tokens to decode, at most; a stop id ends it earlier and is left out.

    Returns:
        The model's own next tokens, and for each the runner-up at its place.
    """
    fork = engine.fork()
    own: list[int] = []
    second: list[int] = []
    while len(own) < count:
        window = fork.run([root])
        result = fork.finish(window)
        # Stable, of the negated row: the lowest index wins a tie, as in the engine.
        ranks = np.argsort(-np.asarray(window.logits[0]), kind="stable")
        root = int(result.predictions[0])
        fork.commit(window)
        if result.stop is not None:
            break
        own.append(root)
        second.append(int(next(t for t in ranks if t != root)))
    return own, second
