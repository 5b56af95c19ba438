"""What cases run on: a model, the fault looked for, and what may be shared."""

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import mlx.core as mx
import numpy as np

from strata_nb.engine import Engine
from strata_nb.faults import FAULTS, find
from strata_nb.gates.judge.floor import Floor, measure
from strata_nb.model import Model, load

GARBAGE = 1e4
"""Fills cells that nothing live owns: large, finite, and seen wherever it is read."""

_KEPT = 24
_DEFAULTS = {"fold": "lazy", "partial": False}
Kept = TypeVar("Kept")


class Rig:
    """One model with, or without, a fault; engines at their starts are kept.

    Args:
        model: a loaded model.
        fault: planted into subjects, never into references.
        floor: the engine's rounding; None grants no near-tie.
    """

    def __init__(
        self, model: Model, *, fault: str | None = None, floor: Floor | None = None
    ) -> None:
        self.model, self.fault, self.floor = model, fault, floor
        self.head: dict[str, Any] = {"mtp": True} if model.config.has_head else {}
        self._starts: OrderedDict[Any, Engine] = OrderedDict()
        self._known: dict[str, Any] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, fault: str | None = None) -> "Rig":
        """Load the model at `path` and measure its floor."""
        model = load(path)
        return cls(model, fault=fault, floor=measure(model))

    @property
    def exact(self) -> bool:
        """Whether arithmetic does not depend on the number of rows of a window."""
        return sys.platform == "linux" and mx.default_device() == mx.cpu

    @property
    def needs(self) -> dict[str, Any]:
        """Engine options without which the fault cannot act."""
        return dict(find(self.fault).options) if self.fault else {}

    def subject(self, ids: Sequence[int], **options: Any) -> Engine:
        """An engine after `ids`, with the fault, and garbage where nothing lives.

        What the fault needs, such as fold="lazy", goes before `options`.
        """
        planted = {"fault": self.fault} if self.fault in FAULTS else {}
        return garbage(self._after(ids, {**options, **self.needs, **planted}))

    def reference(self, ids: Sequence[int], **options: Any) -> Engine:
        """An engine after `ids`, without any fault; same options as the subject's."""
        return self._after(ids, {**options, **self.needs})

    def engine(self, **options: Any) -> Engine:
        """An empty engine, with the draft head where the model has one."""
        return self.model.engine(**{**self.head, **options})

    def text(self, length: int, *, seed: int = 0) -> list[int]:
        """Random tokens, with an end-of-text token among them where PLE stops."""
        config = self.model.config
        rng = np.random.default_rng([seed, length])
        ids = [int(i) for i in rng.integers(0, config.vocab_size, length)]
        if config.eos_token_id is not None and length > 6:
            ids[length // 2] = config.eos_token_id
        return ids

    def known(self, name: str, make: Callable[[], Kept]) -> Kept:
        """A fact of the model by `name`, found out by `make` once."""
        if name not in self._known:
            self._known[name] = make()
        found: Kept = self._known[name]
        return found

    def _after(self, ids: Sequence[int], options: dict[str, Any]) -> Engine:
        context = options.pop("context", None)
        engine = self._started(ids, options)
        if context is not None:
            # Of the engine alone: what lies before has been taken in already.
            engine.context = context
        return engine

    def _started(self, ids: Sequence[int], options: dict[str, Any]) -> Engine:
        planted = options.get("fault")
        # What engines share would come from whichever case ran before this one.
        if "imposed" in options or (planted and FAULTS[planted].shared):
            return self._fresh(ids, options)
        named = {k: v for k, v in options.items() if v != _DEFAULTS.get(k)}
        key = (tuple(ids), tuple(sorted(named.items())))
        if key not in self._starts:
            self._starts[key] = self._fresh(ids, options)
            if len(self._starts) > _KEPT:
                self._starts.popitem(last=False)
        self._starts.move_to_end(key)
        return self._starts[key].fork()

    def _fresh(self, ids: Sequence[int], options: dict[str, Any]) -> Engine:
        engine = self.engine(**options)
        engine.prefill(ids)
        return engine


def garbage(engine: Engine) -> Engine:
    """Fill every stored cell of `engine` that is not live; returns it.

    A sound part stores live cells alone; a faulty one may have others, and reading one
    of them must show.
    """
    backend: Any = engine.backend
    filled = getattr(backend, "filled", None)
    if filled is not None:
        engine._now = replace(engine._now, state=filled(engine._now.state, GARBAGE))
    return engine
