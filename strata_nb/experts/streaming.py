"""How a model's experts are kept: where they come from, and how many are in memory."""

import os
from dataclasses import dataclass, field
from typing import get_args

from strata_nb.experts.file import ExpertFile
from strata_nb.experts.record import Floats
from strata_nb.experts.source import Check, CheckpointSource, ExpertSource, FileSource
from strata_nb.experts.throttle import Throttle
from strata_nb.packs import Checkpoint
from strata_nb.policies.prefetch import NO_PREFETCH, Prefetch
from strata_nb.policies.residency import Lru, Residency


@dataclass(frozen=True)
class Streaming:
    """Experts in slots; `strata_nb.load(name, experts=Streaming(slots=8))`.

    The text is the same as with all experts in memory, whatever is set here.

    Attributes:
        file: an expert file, as `strata-nb pack` writes it; None: straight from the
            checkpoint.
        slots: of each layer; or
        budget_bytes: for all layers together. Neither: a slot for every expert.
        residency: which expert gives its slot to another.
        prefetch: which experts are read before a layer asks for them.
        prefetch_most: experts on their way ahead of need, of all layers together; None:
            as many as slots allow.
        threads: reads at once; more than two pay where the disk is slow to answer.
        throttle: the speed of a slower disk, where the page cache hides the real one.
        check: when a record of a file is compared with its digest: at its "first" read,
            "always" or "never".

    Raises:
        ValueError: both `slots` and `budget_bytes` are given, or `check` is unknown.
        TypeError: a policy or the throttle is none.
    """

    file: str | os.PathLike[str] | None = None
    slots: int | None = None
    budget_bytes: int | None = None
    residency: Residency = field(default_factory=Lru)
    prefetch: Prefetch = NO_PREFETCH
    prefetch_most: int | None = None
    threads: int = 2
    throttle: Throttle | None = None
    check: Check = "first"

    def __post_init__(self) -> None:
        if self.slots is not None and self.budget_bytes is not None:
            raise ValueError(
                "`slots` and `budget_bytes` both say how much memory experts may "
                "have; give one of them"
            )
        if self.check not in get_args(Check):
            raise ValueError(
                f"`check` is {self.check!r}, wanted 'first', 'always' or 'never'"
            )
        # Seen only when a slot is needed, or on a thread that reads, if not here.
        for name, has, example in (
            ("residency", "worth", "`Lru()`"),
            ("prefetch", "asks", "`NO_PREFETCH`"),
            ("throttle", "due", "`Throttle(500)`, or None"),
        ):
            value = getattr(self, name)
            if not hasattr(value, has) and not (value is None and name == "throttle"):
                raise TypeError(f"`{name}` is {value!r}, wanted {example}")

    def source(self, checkpoint: Checkpoint, *, floats: Floats) -> ExpertSource:
        """Where the experts of `checkpoint` come from.

        Args:
            checkpoint: the model.
            floats: type of the run, for experts straight from the checkpoint.

        Raises:
            ExpertFileError: the file is damaged, or of another model.
        """
        if self.file is None:
            return CheckpointSource(checkpoint, kind=floats)
        opened = ExpertFile.open(self.file, checkpoint=checkpoint)
        return FileSource(opened, check=self.check)
