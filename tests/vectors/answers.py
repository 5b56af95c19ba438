"""Puts a golden case's prompt to a model: in one window, or in windows of 1 to 8."""

from itertools import cycle

import numpy as np

from strata_nb import Model
from vectors.golden import Answer, Golden, collect


def in_one_window(model: Model, golden: Golden) -> Answer:
    """The whole prompt at once, with predictions.

    An engine gives them for 8 rows at most, so this asks what is behind the engine.
    """
    backend = model.engine().backend
    ids = golden.ids.tolist()
    forward = backend.run(backend.initial(), ids, head=True)
    window = (np.array(forward.logits), forward.layers())
    return collect([window], golden, model.config.indexer_compress_ratio)


def in_many_windows(model: Model, golden: Golden) -> Answer:
    """The prompt through the engine's verbs in windows of 1, 2, … 8, 1, 2, … rows.

    Every row is kept by force, whatever the model would have said in its place.
    """
    engine, windows = model.engine(), []
    ids, sizes = golden.ids.tolist(), cycle(range(1, 9))
    while ids:
        size = next(sizes)
        window = engine.run(ids[:size])
        windows.append((np.array(window.logits), window.layers))
        engine.finish(window, stop_ids=())
        engine.commit(window, keep=window.T, force=True)
        ids = ids[size:]
    return collect(windows, golden, model.config.indexer_compress_ratio)
