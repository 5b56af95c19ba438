"""How many slots fit."""

import operator

from strata_nb.experts.source import ExpertSource


def slots_per_layer(
    source: ExpertSource, *, slots: int | None = None, budget_bytes: int | None = None
) -> int:
    """Slots of each layer, never more than it has experts.

    Args:
        source: where experts come from.
        slots: of each layer; or
        budget_bytes: for all layers together, split evenly.

    Raises:
        ValueError: both or neither are given, or they are not enough for one slot a
            layer.
    """
    if (slots is None) == (budget_bytes is None):
        raise ValueError(
            "wanted one of `slots` and `budget_bytes`, got both or neither"
        )
    if slots is None:
        one_each = source.layers * source.layout.record_bytes
        slots = operator.index(budget_bytes or 0) // one_each
        if slots < 1:
            raise ValueError(
                f"`budget_bytes` is {budget_bytes}, but one slot for each of the "
                f"{source.layers} layers of {source.name} takes {one_each} bytes; give "
                "at least that"
            )
    return min(at_least(1, slots=slots), source.experts)


def at_least(least: int, **named: int) -> int:
    """The one number given by its name.

    Raises:
        ValueError: it is below `least`.
    """
    ((name, value),) = named.items()
    value = operator.index(value)
    if value < least:
        raise ValueError(f"`{name}` is {value}, wanted {least} or more")
    return value
