"""Ready-made settings of a session, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from strata_nb.draft import Drafter, SuffixLookup
from strata_nb.policies.length import CONTAINED, Length
from strata_nb.sampling import Sampling


@dataclass(frozen=True)
class Preset:
    """What a session takes from a name.

    Attributes:
        drafter: makes the drafter.
        length: how many rows a window has.
        greedy_only: sampling is refused.
    """

    drafter: Callable[[], Drafter]
    length: Length
    greedy_only: bool


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        # Suffix lookup, minimum match 4, at most 3 drafts, windows inside a block.
        "seed_stage1": Preset(
            drafter=lambda: SuffixLookup(minimum=4, most=3),
            length=CONTAINED,
            greedy_only=True,
        )
    }
)
"""Every preset; `seed_stage1` is the careful first stage for an engine in doubt."""


def find(name: str, sampling: Sampling) -> Preset:
    """The preset called `name`.

    Args:
        name: of `PRESETS`.
        sampling: that it is to go with.

    Raises:
        ValueError: there is none, or it is for greedy decoding alone.
    """
    if name not in PRESETS:
        raise ValueError(f"no preset is named {name!r}; wanted {', '.join(PRESETS)}")
    if PRESETS[name].greedy_only and sampling.temperature > 0:
        raise ValueError(
            f"the preset {name!r} is for greedy decoding, got temperature "
            f"{sampling.temperature}; leave `sampling` out, or name drafter and length "
            "yourself"
        )
    return PRESETS[name]
