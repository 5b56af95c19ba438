"""The tokens of a group's cases, and the references that they share."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from strata_nb.gates.stage.rig import Rig
from strata_nb.gates.stage.travel import Way, Windows, travel
from strata_nb.models.qwen4_exp import NOTHING, Imposed

MOST = 8
_TRIED = 48


class Script:
    """One start: what lies before it, the root, drafts of each kind, rows after.

    Args:
        rig: the model.
        start: the first cell of the windows.
    """

    def __init__(self, rig: Rig, start: int) -> None:
        self.rig = rig
        self.ids = rig.text(start)
        self.root = rig.text(1, seed=77)[0]
        # As many rows as a block has cells: whatever block is open will be pooled.
        ratio = rig.model.config.indexer_compress_ratio
        self.after = rig.text(min(ratio, MOST), seed=5)
        self._shared: dict[Any, Way] = {}

    @cached_property
    def right(self) -> tuple[int, ...]:
        """What plain decoding says after the root, 8 tokens."""
        engine = self.rig.reference(self.ids)
        found: list[int] = []
        while len(found) < MOST:
            window = engine.run([found[-1] if found else self.root])
            engine.finish(window, stop_ids=())
            report = engine.commit(window)
            assert report.root is not None
            found.append(report.root)
        return tuple(found)

    def rows(self, drafts: str, width: int) -> tuple[int, ...]:
        """The root and `width` - 1 drafts.

        Args:
            drafts: "right", "wrong" (each the right token + 1), "half-right"
                (the first half right), or "loud" (tokens with large index keys).
            width: rows, T.
        """
        vocabulary = self.rig.model.config.vocab_size
        wrong = tuple((token + 1) % vocabulary for token in self.right)
        half = width // 2
        kinds = {
            "right": self.right,
            "wrong": wrong,
            "half-right": (*self.right[:half], *wrong[half:]),
            "loud": self.rig.known("loud", lambda: _loudest(self.rig)),
        }
        return (self.root, *kinds[drafts][: width - 1])

    def way(self, windows: Windows, options: dict[str, Any], imposed: Imposed) -> Way:
        """Take a sound engine along `windows` and the rows after them."""
        extra = {} if imposed is NOTHING else {"imposed": imposed}
        engine = self.rig.reference(self.ids, **options, **extra)
        return travel(engine, windows, self.after, rig=self.rig)

    def shared(
        self, windows: Windows, options: dict[str, Any], imposed: Imposed
    ) -> Way:
        """`way`, made once for all cases that need the same one."""
        if imposed is not NOTHING:
            return self.way(windows, options, imposed)
        key = (
            tuple((tuple(ids), keep) for ids, keep in windows),
            *sorted(options.items()),
        )
        if key not in self._shared:
            self._shared[key] = self.way(windows, options, imposed)
        return self._shared[key]


def _loudest(rig: Rig) -> tuple[int, ...]:
    """Of some tokens those with the longest raw index keys at the first QSA layer."""
    ratio = rig.model.config.indexer_compress_ratio
    tokens = sorted(set(rig.text(_TRIED, seed=9)))
    sizes: list[tuple[float, int]] = []
    # The open block shows its raw keys: one row fewer than a block at a time.
    for first in range(0, len(tokens), max(1, ratio - 1)):
        some = tokens[first : first + max(1, ratio - 1)]
        sizes += zip(_key_sizes(rig, some), some, strict=False)
    return tuple(token for _, token in sorted(sizes, reverse=True)[:MOST])


def _key_sizes(rig: Rig, ids: Sequence[int]) -> list[float]:
    engine = rig.model.engine()
    engine.prefill(ids)
    tails = [a for leaf, a in engine.leaves().items() if leaf.part == "qsa_tail"]
    if not tails or len(tails[0]) != len(ids):
        return [0.0] * len(ids)
    return [float(x) for x in np.linalg.norm(tails[0], axis=-1)]
