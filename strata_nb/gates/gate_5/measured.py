"""Quality of a policy on one text: under teacher forcing, and decoding freely."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from strata_nb.engine import Engine
from strata_nb.gates.gate_5.comparison import Quality, Setting, Work
from strata_nb.model import Model
from strata_nb.policies.routing import NATURAL, Routing
from strata_nb.session import generate

Array = npt.NDArray[np.float64]


def measured(
    begin: Callable[[], Model], policy: Routing, ids: Sequence[int], setting: Setting
) -> tuple[Quality, Work, Work]:
    """Take both models over `ids`, then let both decode after the first half of it.

    Args:
        begin: gives the model that an engine begins with, its experts where each
            engine is to find them: what one reads must not help the other.
        policy: which experts a row uses.
        ids: tokens of the text, two or more.
        setting: rows of a window, and tokens to decode.

    Returns:
        The quality of the policy; the exact model's work; the policy's.
    """
    exact, other = begin().engine(), begin().engine(routing=policy)
    seen = [
        _forced(exact, other, ids[at : at + setting.rows + 1], setting.rows)
        for at in range(0, len(ids) - 1, setting.rows)
    ]
    rows = sum(len(row) for row in seen)
    exact_nats, nats, kl, agreed = np.concatenate(seen).sum(axis=0) / rows
    one, work_one = _freely(begin(), NATURAL, ids, setting.decoded)
    two, work_two = _freely(begin(), policy, ids, setting.decoded)
    quality = Quality(
        predictions=rows,
        exact_nats=float(exact_nats),
        nats=float(nats),
        agreement=float(agreed),
        kl=float(kl),
        alike=_alike(one, two),
        decoded=setting.decoded,
    )
    return quality, work(exact) + work_one, work(other) + work_two


def work(engine: Engine) -> Work:
    """What the windows of `engine` so far took."""
    records = list(engine.trace)
    return Work(
        windows=len(records),
        experts_read=sum(layer.union_size for r in records for layer in r.layers),
        ms=sum(r.total_ms or 0.0 for r in records),
        misses=sum(layer.miss or 0 for r in records for layer in r.layers),
        bytes_read=sum(layer.bytes_read or 0 for r in records for layer in r.layers),
    )


def _forced(exact: Engine, other: Engine, ids: Sequence[int], width: int) -> Array:
    """One window on both; of each row that has a next token in `ids`, [rows, 4].

    The columns: nats of the next token, exact and under the policy; the divergence;
    whether both would choose the same token.
    """
    p, q = (_log_probabilities(engine, ids[:width]) for engine in (exact, other))
    after = np.asarray(ids[1 : width + 1])
    p, q = p[: len(after)], q[: len(after)]
    each = np.arange(len(after))
    columns = (
        -p[each, after],
        -q[each, after],
        (np.exp(p) * (p - q)).sum(axis=-1),
        p.argmax(axis=-1) == q.argmax(axis=-1),
    )
    return np.stack(columns, axis=-1).astype(np.float64)


def _log_probabilities(engine: Engine, rows: Sequence[int]) -> Array:
    """Run and keep all `rows`; float64 [T, V]."""
    window = engine.run(rows)
    engine.finish(window, stop_ids=())
    logits = window.logits
    engine.commit(window, keep=window.T, force=True)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    found: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return found


def _freely(
    model: Model, policy: Routing, ids: Sequence[int], count: int
) -> tuple[tuple[int, ...], Work]:
    engine = model.engine(routing=policy)
    if not count:
        return (), work(engine)
    half = len(ids) // 2
    engine.prefill(ids[:half])
    text = generate(engine, ids[half], max_new=count, stop_ids=())
    return text.tokens, work(engine)


def _alike(one: Sequence[int], two: Sequence[int]) -> int:
    """Tokens before the first that differs."""
    differ = (i for i, (a, b) in enumerate(zip(one, two, strict=True)) if a != b)
    return next(differ, len(one))
