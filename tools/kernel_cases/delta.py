"""The gated delta rule: windows, prompts, and replays of kept rows."""

from typing import Any

import mlx.core as mx
import numpy as np

from strata_kernels._prelude.kernel import Target
from strata_kernels.gated_delta.launch import (
    MOST_ROWS,
    gated_delta_fast,
    replay_kernel,
    window_kernel,
)
from strata_kernels.gated_delta.reference import (
    gated_delta_reference,
    replay_reference,
)
from tools.kernel_cases.case import Arrays, Case, Sizes


def delta_window(sizes: Sizes, rows: int) -> Case:
    """The gated delta rule over a window, against its row-by-row reference."""
    q, *others, state = _delta_inputs(sizes, rows)
    inputs = (q, *others)
    reference: Any = gated_delta_reference
    fast: Any = gated_delta_fast
    window: Any = window_kernel

    def by_kernel(start: mx.array, target: Target) -> Arrays:
        y, root, last = window(*inputs, start, target=target)
        return last, y, root

    def in_two(advance: Any, start: mx.array) -> Arrays:
        first, root = advance(*(a[:1] for a in inputs), start)
        if rows == 1:
            return root, first, root
        rest, last = advance(*(a[1:] for a in inputs), root)
        return last, mx.concatenate([first, rest]), root

    def split(target: Target) -> tuple[Arrays, Arrays]:
        found, memory = [], state
        for t in range(rows):
            piece = (a[t : t + 1] for a in inputs)
            y, _, memory = window(*piece, memory, target=target)
            found.append(y)
        last, y, _ = by_kernel(state, target)
        return (memory, mx.concatenate(found)), (last, y)

    return Case(
        name=f"gated_delta window, T = {rows}",
        rows=rows,
        start=state,
        kernel=by_kernel,
        wanted=lambda start: _in_float64((q, *others), start, keep=rows),
        rel=1e-5,
        plain={
            "reference": lambda start: in_two(reference, start),
            "mx.fast": lambda start: in_two(fast, start),
        },
        bits={"one window is its rows one by one": split},
    )


def delta_prompt(sizes: Sizes, rows: int) -> Case:
    """A prompt's rows in pieces of at most eight, as the engine has them."""
    *inputs, state = _delta_inputs(sizes, rows)
    fast: Any = gated_delta_fast
    window: Any = window_kernel

    def by_kernel(start: mx.array, target: Target) -> Arrays:
        found = []
        for first in range(0, rows, MOST_ROWS):
            piece = (a[first : first + MOST_ROWS] for a in inputs)
            y, _, start = window(*piece, start, target=target)
            found.append(y)
        return start, mx.concatenate(found)

    def by_mlx(start: mx.array) -> Arrays:
        y, last = fast(*inputs, start)
        return last, y

    return Case(
        name=f"gated_delta prompt, T = {rows}",
        rows=rows,
        start=state,
        kernel=by_kernel,
        wanted=lambda start: _in_float64(inputs, start, keep=rows)[:2],
        rel=1e-5,
        plain={"mx.fast": by_mlx},
    )


def delta_replay(sizes: Sizes, rows: int) -> Case:
    """The state after kept rows, against the reference and against the window."""
    q, *inputs, state = _delta_inputs(sizes, rows)
    keep = max(1, rows - 1)
    replayed: Any = replay_reference
    again: Any = replay_kernel
    window: Any = window_kernel

    def whole(target: Target) -> tuple[Arrays, Arrays]:
        _, root, last = window(q, *inputs, state, target=target)
        found = [
            again(*inputs, state, target=target),
            again(*inputs, root, target=target, first=1),
            again(*inputs, state, target=target, keep=1),
        ]
        return found, [last, last, root]

    def poisoned(target: Target) -> tuple[Arrays, Arrays]:
        spoilt = [mx.concatenate([a[:keep], a[keep:] * float("nan")]) for a in inputs]
        one = again(*inputs, state, target=target, keep=keep)
        return [one], [again(*spoilt, state, target=target, keep=keep)]

    def reference(start: mx.array) -> Arrays:
        return [replayed(*(a[:keep] for a in inputs), start)]

    def wanted(start: mx.array) -> Arrays:
        return _in_float64((q, *inputs), start, keep=keep)[:1]

    return Case(
        name=f"gated_delta replay, {keep} of {rows} rows",
        rows=rows,
        start=state,
        kernel=lambda start, target: [again(*inputs, start, target=target, keep=keep)],
        wanted=wanted,
        rel=1e-5,
        plain={"reference": reference},
        bits={
            "a replay from row 0 or 1 is the window": whole,
            "rejected rows change nothing": poisoned,
        },
    )


def _delta_inputs(sizes: Sizes, rows: int) -> list[mx.array]:
    rng = np.random.default_rng(rows)
    heads, dims = sizes.value_heads, (sizes.value_dim, sizes.key_dim)
    q, k = rng.normal(size=(2, rows, sizes.key_heads, sizes.key_dim))
    made: list[Any] = [a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (q, k)]
    made += [
        rng.normal(size=(rows, heads, sizes.value_dim)),
        rng.uniform(0.5, 1, (rows, heads)),
        rng.uniform(0, 1, (rows, heads)),
        rng.normal(size=(heads, *dims)),
    ]
    return [mx.array(a.astype(np.float32)) for a in made]


def _in_float64(inputs: Arrays, start: mx.array, *, keep: int) -> Arrays:
    """State after `keep` rows, outputs, state after row 0: no GPU has a hand in it."""
    q, k, v, decay, beta = (np.array(a).astype(np.float64) for a in inputs)
    state, share = np.array(start).astype(np.float64), v.shape[1] // k.shape[1]
    outputs, root = np.zeros((keep, *v.shape[1:])), state
    for t in range(keep):
        key, query = (np.repeat(a[t], share, axis=0) for a in (k, q))
        state = state * decay[t][:, None, None]
        error = v[t] - np.einsum("hvk,hk->hv", state, key)
        state = state + (beta[t][:, None] * error)[:, :, None] * key[:, None, :]
        outputs[t] = np.einsum("hvk,hk->hv", state, query)
        root = state if t == 0 else root
    return [mx.array(a.astype(np.float32)) for a in (state, outputs, root)]
