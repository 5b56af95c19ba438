"""What is remembered of a text beside the engine: by the sampler and the drafter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from strata_nb import faults
from strata_nb.accept import Choice
from strata_nb.draft import Draft, Drafter, history_of
from strata_nb.sampling import Adjustment, Remembers, Sampler, Sampling
from strata_nb.session.request import Transcript
from strata_nb.state import Leaves
from strata_nb.trace import Leaf


@dataclass(frozen=True)
class Histories:
    """A sampler and a drafter that are told of one text: what it was given and emitted.

    Both hear of the same tokens in the same call, of no pad and of nothing rejected.

    Attributes:
        sampler: chooses tokens, with its penalties.
        drafter: None: no drafts.
        pad_id: this token of a prompt is not told.
    """

    sampler: Sampler
    drafter: Drafter | None = None
    pad_id: int | None = None

    @classmethod
    def made(
        cls,
        sampling: Sampling,
        adjustments: Sequence[Adjustment] = (),
        *,
        drafter: Drafter | None = None,
        pad_id: int | None = None,
        fault: str | None = None,
    ) -> "Histories":
        """Those of these settings, with the defect `fault` in them.

        Raises:
            ValueError: no such defect of a policy, or nothing here could have it.
        """
        if fault is None:
            return cls(Sampler(sampling, adjustments), drafter, pad_id)
        planted = faults.POLICY_FAULTS[fault]
        if planted.drafter is not None:
            if drafter is None:
                raise ValueError(
                    f"the fault {fault!r} is in a drafter, and there is none; name "
                    "one with `drafter`"
                )
            drafter = planted.drafter(drafter)
        return cls(planted.sampler(sampling, adjustments), drafter, pad_id)

    @property
    def is_plain(self) -> bool:
        """Whether the choice is greedy and nothing changes the logits."""
        return self.sampler.sampling.temperature == 0 and not self.sampler.adjustments

    @property
    def propose(self) -> Callable[[int], Draft] | None:
        """The drafter's."""
        return None if self.drafter is None else self.drafter.propose

    @property
    def choose(self) -> Callable[[Draft], Choice] | None:
        """The choice for a window with a draft; None is greedy."""
        return None if self.is_plain else self._choice

    def assign(self, text: Transcript) -> None:
        """All of it is `text`, whatever it was."""
        prompt, emitted = text.without(self.pad_id)
        self.sampler.assign(prompt, emitted)
        if self.drafter is not None:
            self.drafter.assign([*prompt, *emitted])

    def append(self, emitted: Sequence[int]) -> None:
        """`emitted` follow, and nothing else."""
        self.sampler.append(emitted)
        if self.drafter is not None:
            self.drafter.append(emitted)

    def leaves(self) -> Leaves:
        """What is remembered, by part: "penalties" and "drafter".

        The sampler itself remembers nothing: its numbers follow from its seed and the
        cell. Adjustments and drafters that do not show their history are left out.
        """
        found = {
            Leaf("penalties", None, f"{number} {name}"): array
            for number, adjustment in enumerate(self.sampler.adjustments)
            if isinstance(adjustment, Remembers)
            for name, array in adjustment.leaves().items()
        }
        history = None if self.drafter is None else history_of(self.drafter)
        if history is not None:
            found[Leaf("drafter", None, "history")] = np.array(history, np.int64)
        return found

    def _choice(self, draft: Draft) -> Choice:
        return self.sampler.choice(draft.laws)
