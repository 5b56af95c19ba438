"""More experts than slots are taken in groups."""

from collections.abc import Collection, Sequence

from strata_nb.experts.budget import at_least


def groups(
    wanted: Sequence[int], slots: int, resident: Collection[int]
) -> list[tuple[int, ...]]:
    """Split `wanted` into as few groups as fit, those with resident experts first.

    So no slot of an expert that is still to be used is given away, as long as no more
    are resident than there are slots.

    Args:
        wanted: distinct experts, the order is kept among equals.
        slots: of the layer, 1 or more.
        resident: experts that need not be read.

    Raises:
        ValueError: no slots, or an expert twice.
    """
    at_least(1, slots=slots)
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"`wanted` names an expert twice: {list(wanted)}")
    ordered = sorted(wanted, key=lambda expert: expert not in resident)
    return [tuple(ordered[at : at + slots]) for at in range(0, len(ordered), slots)]
