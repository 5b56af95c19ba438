"""The draft head (MTP): one more layer, over pairs of a cell and the next token."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx

from strata_kernels.norms import RmsNorm
from strata_nb.draft.head import Cut, Mtp
from strata_nb.models.qwen4_exp.imposed import NOTHING
from strata_nb.models.qwen4_exp.layer import Layer
from strata_nb.models.qwen4_exp.mixer import StreamMixer
from strata_nb.models.qwen4_exp.options import EngineOptions
from strata_nb.models.qwen4_exp.weights import Linear, Weights
from strata_nb.models.qwen4_exp.window_rows import WindowRows
from strata_nb.parts import Behind, Pairs, Part, PendingBehind, Unread, WideRow
from strata_nb.policies.routing import NATURAL, Seen

WAITING = 256
"""Pairs that may wait: to read so many costs what a window or two cost."""
NONE = Unread()


@dataclass(frozen=True)
class Chain:
    """Rows of a draft so far: values of their own, which no state knows of."""

    h: mx.array  # streams behind the last row, [1, C, H]
    values: tuple[Any, ...]  # of the layer's parts
    end: int  # position of the next row


class DraftHead:
    """Drafts the token after the next (packs_spec 2), from the target's own streams.

    Pair t is the streams of cell t after the last layer, and token t + 1. Pairs of
    kept rows wait until a draft is asked for, or until they are many; in the fold mode
    "eager" all pairs of a window are read in it. What the layer makes of them nobody
    needs, and so it is not computed there.
    """

    def __init__(self, weights: Weights, options: EngineOptions, how: Mtp) -> None:
        weights.checkpoint.check_head()
        self.config = config = weights.config
        self.how = how
        eps, streams = config.rms_norm_eps, config.hc_count
        self.is_whole = how.norm == "whole"
        self.token_norm = RmsNorm(
            weights.norm("mtp.pre_fc_norm_embedding.weight"), eps=eps
        )
        scale = weights.norm("mtp.pre_fc_norm_hidden.weight")
        shape = (-1,) if self.is_whole else (streams, -1)
        self.wide_norm = RmsNorm(scale.reshape(shape), eps=eps)
        self.of_token = weights.linear("mtp.fc_embedding.weight")
        self.of_stream = weights.linear("mtp.fc_hidden.weight")
        # What an engine lets others decide is the target's alone.
        own = replace(options, routing=NATURAL, imposed=NOTHING)
        self.layer = Layer(weights, weights.head_layer, own)
        self.mixer = StreamMixer(weights, "mtp.hyper_connection_mixer", injects=False)
        later = how.position == "t+1"
        self.fewer = 0 if later else 1
        self.row = options.vary(
            WideRow(streams, config.hidden_size, weights.dtype, zero_first=later)
        )
        held = (Behind(part, cells=self.fewer) for part in self.layer.parts)
        self.pairs = Pairs() if options.fold == "lazy" else None
        last = () if self.pairs is None else (self.pairs,)
        self.parts: tuple[Part[Any, Any], ...] = (self.row, *held, *last)
        self._cuts: tuple[Cut, Linear] | None = None

    def take_in(
        self,
        committed: tuple[Any, ...],
        start: int,
        ids: Sequence[int],
        embedding: mx.array,
        h: mx.array,
    ) -> tuple[Any, ...]:
        """What is pending of a window.

        Args:
            committed: values of `parts`, in order.
            start: the window's first cell.
            ids: its tokens, T of them.
            embedding: of the tokens, [T, H].
            h: its streams after the last layer, [T, C, H].
        """
        before, row = self.row.run(committed[0], h)
        count = before.shape[0]
        fewer = h.shape[0] - count
        unmoved = [PendingBehind(None, fewer)] * len(self.layer.parts)
        if self.pairs is not None:
            return (row, *unmoved, self.pairs.run(committed[0], h, ids))
        if count == 0:
            return (row, *unmoved)
        rows = self._read(committed, self._first(start), before, embedding[fewer:])
        return (row, *(PendingBehind(r, fewer) for r in rows))

    def _read(
        self, committed: tuple[Any, ...], first: int, h: mx.array, embedding: mx.array
    ) -> tuple[Any, ...]:
        """Pending of the layer's parts, of pairs from position `first` on."""
        window = WindowRows(first, h.shape[0], self.config)
        held = committed[1 : 1 + len(self.layer.parts)]
        return self.layer.take_in(self.joined(h, embedding), held, window)

    def unread(self, committed: tuple[Any, ...]) -> Unread:
        """The pairs that wait; none in the fold mode "eager"."""
        waiting: Unread = NONE if self.pairs is None else committed[-1]
        return waiting

    def caught_up(
        self, committed: tuple[Any, ...], start: int, embedding: mx.array
    ) -> tuple[Any, ...]:
        """The same state with every pair read; it has some that wait.

        Args:
            committed: values of `parts`, in order.
            start: committed cells.
            embedding: of the tokens that wait, [N, H].
        """
        waiting = self.unread(committed)
        count = len(waiting.ids)
        rows = self._read(committed, self._first(start - count), waiting.h, embedding)
        held = zip(self.parts[1:-1], committed[1:-1], rows, strict=True)
        read = (part.commit(c, PendingBehind(r, 0), keep=count) for part, c, r in held)
        return (committed[0], *read, NONE)

    def _first(self, start: int) -> int:
        """Position of the pair whose token is at cell `start`."""
        return max(0, start - self.fewer)

    def joined(self, h: mx.array, embedding: mx.array) -> mx.array:
        """Streams [T, C, H] of pairs, from those of cells and the next tokens' [T, H].

        Every stream goes through the same map, and gets the token added.
        """
        flat = h.reshape(h.shape[0], -1) if self.is_whole else h
        normed = self.wide_norm(flat).reshape(h.shape)
        token = self.of_token(self.token_norm(embedding))
        return self.of_stream(normed) + token[:, None]

    def begin(self, committed: tuple[Any, ...], start: int) -> Chain:
        """A chain without rows, at the committed state of `start` cells, all read."""
        held = committed[1 : 1 + len(self.layer.parts)]
        return Chain(committed[0], held, self._first(start))

    def extend(self, chain: Chain, embedding: mx.array) -> tuple[mx.array, Chain]:
        """The row [1, H] that a head of logits reads, and the longer chain.

        Args:
            chain: rows so far.
            embedding: of the token that follows, [1, H].
        """
        window = WindowRows(chain.end, 1, self.config)
        h, pending, _ = self.layer(
            self.joined(chain.h, embedding),
            chain.values,
            window,
            Seen(self.layer.index, None, headless=False),
            embedding=None,
            head=True,
        )
        pairs = zip(self.layer.parts, chain.values, pending, strict=True)
        values = tuple(part.chain(value, rows) for part, value, rows in pairs)
        return self.mixer(h)[0], Chain(h, values, chain.end + 1)

    def cut(self, lm_head: Linear, cut: Cut) -> Linear:
        """The columns of `lm_head` for the tokens that may be drafted."""
        if self._cuts is None or self._cuts[0] is not cut:
            few = mx.contiguous(lm_head.weight[:, mx.array(cut.ids)])
            mx.eval(few)
            self._cuts = cut, Linear(few)
        return self._cuts[1]
