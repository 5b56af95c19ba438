"""Weights of a checkpoint as MLX arrays, read once and shared by all engines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from strata_nb.experts.aside import LowBits, distances
from strata_nb.experts.record import Floats
from strata_nb.experts.streaming import Streaming
from strata_nb.models.qwen4_exp.experts import Experts, ResidentExperts, SlotExperts
from strata_nb.packs import Checkpoint
from strata_nb.packs.config import INDEXED
from strata_nb.packs.manifest import layer_stem


@dataclass(frozen=True)
class Linear:
    """`x @ weight + bias`, the weight stored (in, out).

    The CPU build multiplies twice as fast by this layout as by its transpose.
    """

    weight: mx.array
    bias: mx.array | None = None

    def __call__(self, x: mx.array) -> mx.array:
        """Rows [T, in] to [T, out]."""
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


class Weights:
    """Arrays by canonical name, in the run's dtype; each is made once."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        dtype: mx.Dtype,
        *,
        streaming: Streaming | None = None,
        slot_experts: type[SlotExperts] = SlotExperts,
    ) -> None:
        self.checkpoint = checkpoint
        self.config = checkpoint.config
        self.dtype = dtype
        self._made: dict[str, mx.array] = {}
        self._distances: dict[int, npt.NDArray[np.float64]] = {}
        # Experts in few bits, by bits and group; drafters share them.
        self.low_bits: dict[LowBits, Experts] = {}
        self.streamed: SlotExperts | None = None
        self._resident: Experts = ResidentExperts(self.experts)
        self.routed: Experts = self._resident
        if streaming is not None:
            floats: Floats = "bfloat16" if dtype == mx.bfloat16 else "float32"
            source = streaming.source(checkpoint, floats=floats)
            self.routed = self.streamed = slot_experts(streaming, source)

    @property
    def head_layer(self) -> int:
        """The draft head counts as the layer behind the last."""
        return self.config.num_hidden_layers

    def stem(self, layer: int) -> str:
        """In front of the names of a layer's tensors."""
        return layer_stem(self._of_checkpoint(layer))

    def kind(self, layer: int) -> str:
        """A layer's type; the draft head's attention is indexed."""
        is_head = layer == self.head_layer
        return INDEXED if is_head else self.config.layer_types[layer]

    def routed_of(self, layer: int) -> Experts:
        """What applies a layer's experts; the draft head's are all in memory."""
        return self._resident if layer == self.head_layer else self.routed

    def _of_checkpoint(self, layer: int) -> int | None:
        return None if layer == self.head_layer else layer

    def plain(self, name: str) -> mx.array:
        """A tensor as it lies, in the run's dtype."""
        return self._make(f"{name}:plain", lambda: self.read(name).astype(self.dtype))

    def wide(self, name: str) -> mx.array:
        """A tensor in float32."""
        return self._make(f"{name}:wide", lambda: self.read(name).astype(mx.float32))

    def norm(self, name: str, *, heads: int = 1) -> mx.array:
        """`1 + w` of a zero-centred norm, float32; [heads, D] where heads > 1."""

        def make() -> mx.array:
            scale = 1 + self.read(name).astype(mx.float32)
            return scale.reshape(heads, -1) if heads > 1 else scale

        return self._make(f"{name}:norm", make)

    def taps(self, name: str) -> mx.array:
        """A depthwise convolution (C, 1, K) as [K, C]."""
        return self._make(
            f"{name}:taps", lambda: self.read(name)[:, 0, :].T.astype(self.dtype)
        )

    def linear(self, *names: str) -> Linear:
        """The linear maps `names` side by side: one product, outputs in that order.

        Args:
            names: weights of shape (out, in), with their `.weight`.
        """

        def make() -> mx.array:
            stacked = mx.concatenate([self.read(n) for n in names])
            return stacked.T.astype(self.dtype)

        return Linear(self._make("+".join(names) + ":linear", make))

    def joined(self, key: str, parts: Callable[[], Sequence[mx.array]]) -> mx.array:
        """Rows (out, in) made by hand, stacked and stored (in, out) in the dtype."""
        return self._make(
            key, lambda: mx.concatenate(list(parts())).T.astype(self.dtype)
        )

    def experts(self, layer: int) -> tuple[mx.array, mx.array]:
        """Routed experts stored (in, out): [E, H, 2I] gate first, and [E, I, H]."""
        keys = f"layers.{layer}.experts:gate_up", f"layers.{layer}.experts:down"
        if keys[0] not in self._made:
            raw_experts = self.checkpoint.raw_experts
            gate_up, down, kind = raw_experts(self._of_checkpoint(layer))
            for key, raw in zip(keys, (gate_up, down), strict=True):
                self._make(key, lambda raw=raw: self._stored(raw, kind))  # type: ignore[misc]
        return self._made[keys[0]], self._made[keys[1]]

    def raw_experts(self, layer: int) -> tuple[mx.array, mx.array]:
        """Routed experts as they are quantised, (out, in), in the dtype; not kept."""
        gate_up, down, kind = self.checkpoint.raw_experts(self._of_checkpoint(layer))
        return (
            _from_bits(gate_up, kind).astype(self.dtype),
            _from_bits(down, kind).astype(self.dtype),
        )

    def distances(self, layer: int) -> npt.NDArray[np.float64]:
        """How far the experts of a layer lie from each other, [E, E]; kept."""
        if layer not in self._distances:
            self._distances[layer] = distances(self.checkpoint, layer)
        return self._distances[layer]

    def _stored(self, raw: np.ndarray, kind: str) -> mx.array:
        return _from_bits(raw, kind).swapaxes(-1, -2).astype(self.dtype)

    def read(self, name: str) -> mx.array:
        """A tensor as stored; not kept."""
        return _from_bits(*self.checkpoint.raw(name))

    def _make(self, key: str, make: Callable[[], mx.array]) -> mx.array:
        if key not in self._made:
            array = mx.contiguous(make())
            # Evaluated one by one, so that only one source is in memory at a time.
            mx.eval(array)
            self._made[key] = array
        return self._made[key]


def _from_bits(raw: np.ndarray, kind: str) -> mx.array:
    if kind == "bfloat16":
        return mx.array(raw).view(mx.bfloat16)
    if kind == "float16":
        return mx.array(raw).view(mx.float16)
    return mx.array(raw)
