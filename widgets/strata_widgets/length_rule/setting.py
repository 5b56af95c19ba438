"""What windows of each length bring and cost by the formulas, for one setting."""

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from strata_nb import theory
from strata_nb.refusals import MAX_ROWS

LAYERS: Final = {
    "512 experts, 10 a row": (512, 10),
    "128 experts, 8 a row": (128, 8),
    "64 experts, 8 a row": (64, 8),
    "8 experts, 2 a row": (8, 2),
}
BOUNDS: Final = {
    "acceptance": (0, 100),
    "fall": (0, 50),
    "dense_ms": (1, 200),
    "experts_ms": (0, 200),
    "row_ms": (0, 50),
    "draft_ms": (0, 50),
}
"""Of each whole number of a setting, the least and the most."""


@dataclass(frozen=True)
class Setting:
    """One machine, one model and one drafter, as the formulas know them.

    Attributes:
        acceptance: of the first draft, percent.
        fall: by how much each further draft is accepted less often than the one before
            it, percent of that one's.
        dense_ms: of a window, ms: what its rows share, read once.
        experts_ms: of the experts of one row, ms.
        row_ms: of each further row, ms: what rows do not share.
        draft_ms: of drafting one token, ms.
        layer: experts of a layer and how many of them a row uses, a key of `LAYERS`.
    """

    acceptance: int = 70
    fall: int = 0
    dense_ms: int = 38
    experts_ms: int = 6
    row_ms: int = 0
    draft_ms: int = 0
    layer: str = "512 experts, 10 a row"

    def __post_init__(self) -> None:
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value <= most:
                raise ValueError(
                    f"`{name}` is {value!r}, wanted a whole number, {least} to {most}"
                )
        if self.layer not in LAYERS:
            raise ValueError(
                f"`layer` is {self.layer!r}, wanted one of {', '.join(LAYERS)}"
            )

    def with_(self, **changed: Any) -> "Setting":
        """This setting with other numbers.

        Raises:
            TypeError: there is no such number.
            ValueError: a number is out of its bounds.
        """
        return replace(self, **changed)

    def chances(self) -> list[float]:
        """Acceptance of drafts 1 to 7, given that those before were accepted."""
        first, keeps = self.acceptance / 100, 1 - self.fall / 100
        return [first * keeps**place for place in range(MAX_ROWS - 1)]


class Length(NamedTuple):
    """One length of a window.

    Attributes:
        rows: T.
        brings: E[keep], tokens.
        union: experts of a layer that its rows need if each draws its own at random.
        cost_ms: of the window.
        even_ms: it may take so long, to be as fast as plain decoding.
        gain: how many times as fast as plain decoding.
    """

    rows: int
    brings: float
    union: float
    cost_ms: float
    even_ms: float
    gain: float


class Answer(NamedTuple):
    """All lengths of a setting, and which of them the rules choose.

    Attributes:
        lengths: T = 1 to 8.
        best: the T with the highest E / C.
        marginal: the T at which the marginal rule stops.
        sure: whether the two must agree.
    """

    lengths: list[Length]
    best: int
    marginal: int
    sure: bool


def answer(setting: Setting) -> Answer:
    """What the formulas of `strata_nb.theory` say of `setting`."""
    chances = setting.chances()
    experts, each = LAYERS[setting.layer]
    serial_ms = float(setting.dense_ms + setting.experts_ms)
    lengths = []
    for rows in range(1, MAX_ROWS + 1):
        union = theory.uniform_union(experts, each, rows)
        cost_ms = setting.draft_ms * (rows - 1) + theory.window_ms(
            rows,
            union,
            dense_ms=setting.dense_ms,
            expert_ms=setting.experts_ms / each,
            row_ms=setting.row_ms,
        )
        brings = theory.expected_keep(chances[: rows - 1])
        even_ms = theory.break_even_ms(serial_ms, chances[: rows - 1])
        gain = even_ms / cost_ms
        lengths.append(Length(rows, brings, union, cost_ms, even_ms, gain))
    keeps = [length.brings for length in lengths]
    costs = [length.cost_ms for length in lengths]
    return Answer(
        lengths,
        best=theory.best_rows(keeps, costs),
        marginal=theory.marginal_rows(keeps, costs),
        sure=theory.rules_agree(keeps, costs),
    )
