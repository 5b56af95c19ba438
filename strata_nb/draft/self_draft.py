"""Drafters that are the target itself, with fewer or smaller experts."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypedDict, Unpack

import numpy as np

from strata_nb.draft.head import Drafted, best
from strata_nb.draft.protocol import NO_DRAFT, Draft
from strata_nb.draft.tokens import checked
from strata_nb.errors import NoDraftError
from strata_nb.experts.aside import AsideHow, FewExperts, LowBits
from strata_nb.experts.pool import SlotPool
from strata_nb.experts.record import Kind
from strata_nb.policies.lookahead import FromDraft, Lookahead
from strata_nb.policies.pinning import HotTemporal
from strata_nb.sampling import GREEDY, Sampling, draw, law, uniform
from strata_nb.trace import Trace

DEEPEST = 7
"""Tokens of the longest draft: a window has 8 rows."""


class Beside(Protocol):
    """The target beside itself, as a backend's `aside` makes it."""

    pool: SlotPool | None
    top_k: int
    watch: Callable[[Any], None] | None

    def ready(
        self, pinned: Callable[[int], Sequence[int]]
    ) -> AbstractContextManager[None]:
        """A block in which rows can be drafted."""


class Followed(Protocol):
    """An engine, as far as drafting beside it goes."""

    backend: Any
    trace: Trace

    def draft(self, most: int, *, root: int, **how: Any) -> Drafted:
        """Up to `most` tokens behind `root`."""


class Drafting(TypedDict, total=False):
    """What every `SelfDrafter` takes, whatever its experts; see there.

    Attributes:
        depth: tokens of a draft.
        stop_below: a draft ends below this chance.
        sampling: how a token is drawn.
        prefetch: what is read for what was foretold.
        buffer: what was foretold.
    """

    depth: int
    stop_below: float
    sampling: Sampling
    prefetch: FromDraft | None
    buffer: Lookahead | None


class SelfDrafter:
    """The target drafts for itself, from its own committed state.

    `SpecMoe` and `MoeSpeq` are two of these. It follows an engine, as a session tells
    it to; what it drafts leaves nothing behind in that. Routers, attention, shared
    experts and state are the target's, so that each row it drafts foretells experts of
    the next window: they are in `buffer`, and what `prefetch` makes of them is read
    while the draft goes on, where the target's experts are in slots.

    Args:
        name: for records and charts.
        how: its routed experts.
        depth: tokens of a draft, 1 to 7.
        stop_below: a draft ends where the likeliest token is less probable than this.
        sampling: how a token is drawn from the drafter's law; drafts of a temperature
            above 0 carry their laws, as the rule "ratio" wants them.
        prefetch: what is read for what was foretold; None: nothing.
        buffer: what was foretold of the last draft; of its own when not given.
        pins: the experts that a `FewExperts` drafts with; it learns from the windows of
            the engine that is followed.

    Raises:
        ValueError: a setting is out of its range.
    """

    def __init__(
        self,
        name: str,
        how: AsideHow,
        *,
        depth: int = 4,
        stop_below: float = 0.0,
        sampling: Sampling = GREEDY,
        prefetch: FromDraft | None = None,
        buffer: Lookahead | None = None,
        pins: HotTemporal | None = None,
    ) -> None:
        if isinstance(depth, bool) or not 1 <= depth <= DEEPEST:
            raise ValueError(f"`depth` is {depth}, wanted 1 to {DEEPEST}")
        if not 0 <= stop_below <= 1:
            raise ValueError(f"`stop_below` is {stop_below}, wanted 0 to 1")
        self.name, self.depth, self.stop_below = name, depth, stop_below
        self.how, self.prefetch, self.pins = how, prefetch, pins
        self.buffer = Lookahead() if buffer is None else buffer
        self._sampling = sampling
        self._text: list[int] = []
        self._engine: Followed | None = None
        self._beside: Beside | None = None
        self._backend: Any = None
        self._learnt = 0

    @property
    def history(self) -> Sequence[int]:
        """The text, of which the last token alone is used: the engine has the rest."""
        return tuple(self._text)

    def follow(self, engine: Followed) -> None:
        """Draft beside `engine`, which holds the text but for its last token.

        Raises:
            NoDraftError: its model cannot compute with other experts.
            ValueError: the experts do not go with its model.
        """
        if engine.backend is not self._backend or self._beside is None:
            make = getattr(engine.backend, "aside", None)
            if make is None:
                raise NoDraftError(
                    f"{type(engine.backend).__name__} cannot draft beside itself; load "
                    "the model with backend='mlx', or use another drafter"
                )
            self._beside, self._backend = make(self.how), engine.backend
        self._engine, self._learnt = engine, 0

    def assign(self, tokens: Sequence[int]) -> None:
        """The history is `tokens` now."""
        self._text = list(checked(tokens))

    def append(self, tokens: Sequence[int]) -> None:
        """`tokens` follow."""
        self._text += checked(tokens)

    def propose(self, most: int) -> Draft:
        """What the target makes of its state with the drafter's experts.

        Raises:
            NoDraftError: no engine was named.
            NotFiniteError: a logit is NaN or infinite.
        """
        engine, beside = self._engine, self._beside
        if engine is None or beside is None:
            raise NoDraftError(
                f"{self.name} drafts from an engine's state, and was told of none; "
                "call `follow(engine)`, as a session does"
            )
        self._learn(engine.trace)
        self.buffer.begin(beside.top_k)
        if most < 1 or not self._text:
            return NO_DRAFT
        laws: list[np.ndarray] = []
        beside.watch = self._seen
        planned = min(most, self.depth)
        with beside.ready(_no_pins if self.pins is None else self.pins.pinned):
            drafted = engine.draft(
                planned,
                root=self._text[-1],
                by=beside,
                stop_below=self.stop_below,
                pick=self._picker(laws),
            )
        if self.prefetch is not None:
            self._read(self.prefetch.at_end(self.buffer))
        count = len(drafted.tokens)
        return Draft(
            drafted.tokens,
            laws=np.stack(laws[:count]) if laws and count else None,
            chances=drafted.probabilities,
            planned=planned,
        )

    def _picker(
        self, laws: list[np.ndarray]
    ) -> Callable[[np.ndarray, int], tuple[int, float]]:
        """Chooses a token of a row; `laws` gains what it was drawn from."""
        if self._sampling.temperature == 0:
            return best

        def drawn(logits: np.ndarray, number: int) -> tuple[int, float]:
            # The chance is the likeliest token's: where a draft ends must not hang on
            # which token was drawn there.
            found = law(logits, self._sampling)
            laws.append(found)
            place = len(self._text) + number
            token = draw(found, uniform(self._sampling.seed, "draft", place))
            return token, float(found.max())

        return drawn

    def _learn(self, trace: Trace) -> None:
        """Let the pins learn from the windows since they last did."""
        if self.pins is None:
            return
        # What an interrupted request took back is not counted again.
        self._learnt = min(self._learnt, len(trace))
        while self._learnt < len(trace):
            self.pins.learn(trace[self._learnt])
            self._learnt += 1

    def _seen(self, scores: np.ndarray) -> None:
        """A row was drafted: its router logits, [L, E]."""
        self.buffer.add(scores)
        if self.prefetch is not None:
            self._read(self.prefetch.during(self.buffer))

    def _read(self, tasks: Sequence[tuple[int, list[int]]]) -> None:
        pool = None if self._beside is None else self._beside.pool
        if pool is not None:
            for layer, experts in tasks:
                pool.hint(layer, experts)


class SpecMoe(SelfDrafter):
    """The target with a few pinned experts a layer (SpecMoE).

    After SpecMoE (arXiv 2604.10152): the pinned experts are those that recent windows
    used most; a choice of the router that is not pinned is computed with the pinned
    expert whose weights are nearest, so that nothing is fetched while drafting. Where
    the target's experts are in slots, give the same pins as `residency`, so that the
    pinned ones stay there.

    Args:
        pins: the pinned experts of each layer; or how many.
        how: as `SelfDrafter` takes it.

    Raises:
        ValueError: a setting is out of its range.
    """

    def __init__(self, pins: HotTemporal | int = 4, **how: Unpack[Drafting]) -> None:
        hot = pins if isinstance(pins, HotTemporal) else HotTemporal(pins)
        super().__init__("specmoe", FewExperts(hot.count), pins=hot, **how)


class MoeSpeq(SelfDrafter):
    """The target with its routed experts in few bits, all in memory (MoE-SpeQ).

    After MoE-SpeQ (arXiv 2511.14102), which quantises symmetrically in groups of 128;
    here MLX's affine kinds, with a bias, in groups of 32. Routers, attention and shared
    experts stay as they are, and so its routing foretells the target's.

    Args:
        kind: "q2" to "q8", affine.
        group: numbers of a row that share a scale: 32, 64 or 128.
        how: as `SelfDrafter` takes it.

    Raises:
        ValueError: a setting is out of its range.
    """

    def __init__(
        self, *, kind: Kind = "q4", group: int = 32, **how: Unpack[Drafting]
    ) -> None:
        super().__init__("moe-speq", LowBits(kind, group), **how)


def _no_pins(layer: int) -> Sequence[int]:
    return ()
