"""What a person looks at: a window, a layer, a cell; linked views share it."""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, get_args

import traitlets

Dimension: TypeAlias = Literal["window", "layer", "cell"]
Selection: TypeAlias = dict[Dimension, int | None]

DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)

MEANING: Final[dict[Dimension, str]] = {
    "window": "an index in the trace, 0 the first",
    "layer": "a layer of the model, 0 the first",
    "cell": "an absolute position, 0 the first",
}


class Selected(traitlets.TraitType[Any, Any]):
    """A selection as a trait; what is not named is not selected."""

    info_text = "a dict of `window`, `layer`, `cell`, each None or a number from 0"

    def make_dynamic_default(self) -> Selection:
        """Nothing is selected."""
        return dict.fromkeys(DIMENSIONS)

    def get(self, obj: Any, cls: Any = None) -> Selection:
        """Return a copy: a dict changed in place and given again must be news."""
        return {**super().get(obj, cls)}  # type: ignore[dict-item]

    def validate(self, obj: Any, value: Any) -> Selection:
        """Return `value` with all three names.

        Raises:
            TraitError: it is no dict, or has another name, or no such number.
        """
        if not isinstance(value, dict):
            raise traitlets.TraitError(
                f"`selection` must be {self.info_text}, got {value!r}"
            )
        for name, number in value.items():
            if name not in DIMENSIONS:
                raise traitlets.TraitError(
                    f"`selection` knows {', '.join(DIMENSIONS)}, got {name!r}"
                )
            whole = isinstance(number, int) and not isinstance(number, bool)
            if number is not None and not (whole and number >= 0):
                raise traitlets.TraitError(
                    f"`{name}` must be None or {MEANING[name]}, got {number!r}"
                )
        return {name: value.get(name) for name in DIMENSIONS}


def link(*views: traitlets.HasTraits) -> Callable[[], None]:
    """Let a selection in one of `views` move all others; return what undoes it.

    The first view's selection is taken by the others. A view whose trace lacks what was
    selected says so and keeps what it shows.

    Raises:
        TypeError: one has no `selection`.
        ValueError: fewer than two.
    """
    for view in views:
        if not view.has_trait("selection"):
            raise TypeError(
                f"`link` wants widgets with a `selection`, got {type(view).__name__}"
            )
    views = tuple(dict.fromkeys(views))
    if len(views) < 2:
        raise ValueError(f"`link` wants two widgets or more, got {len(views)}")

    def follow(change: Any) -> None:
        for view in views:
            # Equal selections end the round: no trait tells of a change that is none.
            # What is selected now, since one of them may have wanted something else.
            view.set_trait("selection", change["owner"].selection)

    for view in views:
        view.observe(follow, "selection")
    for view in views[1:]:
        view.set_trait("selection", getattr(views[0], "selection"))  # noqa: B009

    linked = list(views)

    def unlink() -> None:
        # Nothing is left to undo the second time.
        while linked:
            linked.pop().unobserve(follow, "selection")

    return unlink
