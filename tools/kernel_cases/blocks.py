"""The indexer, and attention over what it chooses."""

import mlx.core as mx
import numpy as np

from strata_kernels._prelude.kernel import Target
from strata_kernels.block_attention.launch import attend_kernel
from strata_kernels.block_attention.reference import attend
from strata_kernels.index_blocks.launch import (
    choose_kernel,
    pool_kernel,
    score_kernel,
)
from strata_kernels.index_blocks.reference import (
    choose_blocks,
    pool_blocks,
    score_blocks,
)
from strata_kernels.norms import RmsNorm
from strata_kernels.rope import angles
from tools.kernel_cases.case import Arrays, Case, Sizes


def pooled(sizes: Sizes, rows: int) -> Case:
    """Keys of the blocks that so many rows can complete."""
    rng = np.random.default_rng(rows)
    blocks, dim = -(-rows // 4), sizes.index_dim
    raw = mx.array(rng.normal(size=(blocks, 4, dim)).astype(np.float32))
    norm = RmsNorm(mx.array(rng.normal(size=dim).astype(np.float32)), eps=1e-6)
    at = angles(np.arange(blocks) * 4 + 8000, dims=dim // 4 * 2, theta=1e7)
    return Case(
        name=f"keys of {blocks} blocks, T = {rows}",
        rows=rows,
        start=raw,
        kernel=lambda start, target: [pool_kernel(start, norm, at, target=target)],
        wanted=lambda start: [pool_blocks(start, norm, at)],
        rel=1e-5,
        plain={"reference": lambda start: [pool_blocks(start, norm, at)]},
    )


def scored(sizes: Sizes, rows: int) -> Case:
    """Scores of all blocks of a context."""
    rng = np.random.default_rng(rows)
    heads, dim = sizes.index_heads, sizes.index_dim
    queries = mx.array(rng.normal(size=(rows, heads, dim)).astype(np.float32))
    keys = mx.array(rng.normal(size=(sizes.blocks, dim)).astype(np.float32))

    def wanted(start: mx.array) -> Arrays:
        q, k = (np.array(a).astype(np.float64) for a in (start, keys))
        summed = np.maximum(np.einsum("thd,bd->thb", q, k), 0).sum(axis=1)
        return [mx.array((summed / dim**0.5).astype(np.float32))]

    return Case(
        name=f"scores of {sizes.blocks} blocks, T = {rows}",
        rows=rows,
        start=queries,
        kernel=lambda start, target: [score_kernel(start, keys, target=target)],
        wanted=wanted,
        rel=1e-5,
        plain={"reference": lambda start: [score_blocks(start, keys)]},
    )


def blocks_chosen(sizes: Sizes, rows: int) -> Case:
    """The best blocks of each row; many scores are equal."""
    rng = np.random.default_rng(rows)
    drawn = np.maximum(rng.normal(size=(rows, sizes.blocks)), 0)
    scores = mx.array(np.round(drawn, 2).astype(np.float32))
    ends = sizes.blocks - rows + 1 + np.arange(rows)
    complete, budget = mx.array(ends.astype(np.int32)), sizes.budget

    def by_kernel(start: mx.array, target: Target) -> Arrays:
        chosen, doubt = choose_kernel(start, complete, budget=budget, target=target)
        return doubt, chosen

    def plain(start: mx.array) -> Arrays:
        chosen, doubt = choose_blocks(start, complete, budget=budget)
        return doubt, chosen

    def wanted(start: mx.array) -> Arrays:
        found = [
            np.sort(np.argsort(-row[:end], kind="stable")[:budget])
            for row, end in zip(np.array(start), ends, strict=True)
        ]
        return mx.zeros((rows,)), mx.array(np.stack(found).astype(np.int32))

    return Case(
        name=f"{budget} of {sizes.blocks} blocks, T = {rows}",
        rows=rows,
        start=scores,
        kernel=by_kernel,
        wanted=wanted,
        rel=0.0,
        exact=frozenset({0, 1}),
        plain={"reference": plain},
    )


def attended(sizes: Sizes, rows: int) -> Case:
    """Attention over the chosen blocks and the open one, of four cells each."""
    rng = np.random.default_rng(rows)
    context, listed = 4 * sizes.blocks, 4 * sizes.budget + 3
    q = mx.array(rng.normal(size=(rows, sizes.heads, sizes.dim)).astype(np.float32))
    shape = (context, sizes.kv_heads, sizes.dim)
    k, v = (mx.array(rng.normal(size=shape).astype(np.float32)) for _ in range(2))
    chosen = np.stack([np.sort(rng.permutation(context)[:listed]) for _ in range(rows)])
    chosen[:, -1] = -1
    cells = mx.array(chosen.astype(np.int32))
    there, visible = mx.maximum(cells, 0), cells >= 0

    def wanted(start: mx.array) -> Arrays:
        share = sizes.heads // sizes.kv_heads
        queries, found = np.array(start).astype(np.float64), np.zeros(q.shape)
        keys, values = (np.array(a).astype(np.float64) for a in (k, v))
        for t, h in np.ndindex(rows, sizes.heads):
            at = chosen[t, :-1]
            dots = keys[at, h // share] @ queries[t, h] / sizes.dim**0.5
            weights = np.exp(dots - dots.max())
            found[t, h] = weights @ values[at, h // share] / weights.sum()
        return [mx.array(found.astype(np.float32))]

    return Case(
        name=f"attention, {listed} of {context} cells, T = {rows}",
        rows=rows,
        start=q,
        kernel=lambda start, target: [attend_kernel(start, k, v, cells, target=target)],
        wanted=wanted,
        rel=2e-5,
        plain={"reference": lambda start: [attend(start, k[there], v[there], visible)]},
    )
