"""`LengthRule`: sliders for what decides how many drafts pay, by the formulas alone."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt

from strata_widgets.length_rule.drawings import LEAST_GAIN, TOP, brings, gains
from strata_widgets.length_rule.setting import (
    BOUNDS,
    LAYERS,
    Answer,
    Length,
    Setting,
    answer,
)
from strata_widgets.panel import Panel
from strata_widgets.panel.control import Control, Table, button, choice

_LABELS: Final = {
    "acceptance": "Acceptance of the first draft (%)",
    "fall": "Each further one is less often right by (%)",
    "dense_ms": "What rows share (ms)",
    "experts_ms": "Experts of one row (ms)",
    "row_ms": "A further row, of its own (ms)",
    "draft_ms": "Drafting a token (ms)",
}
_HEAD: Final = ("T", "brings", "union", "costs", "may cost", "times as fast")


class LengthRule(Panel):
    """How many rows pay, for a machine, a model and a drafter of your choice.

    Nothing is measured here: `strata_nb.theory` has the formulas.

    Example:
        >>> rule = LengthRule(acceptance=90, row_ms=12)
        >>> rule.set(acceptance=50)
    """

    TITLE = "How many rows pay"

    def __init__(self, **numbers: Any) -> None:
        """Begin with `numbers`, those of `Setting`.

        Raises:
            TypeError: there is no such number.
            ValueError: a number is out of its bounds.
        """
        self._first = Setting(**numbers)
        self._setting, self._answer = self._first, answer(self._first)
        self._top = LEAST_GAIN
        super().__init__()

    @property
    def setting(self) -> Setting:
        """What the controls say."""
        return self._setting

    @property
    def best(self) -> int:
        """The rows T with the highest E[keep] / C."""
        return self._answer.best

    @property
    def marginal(self) -> int:
        """The rows T at which the marginal rule stops."""
        return self._answer.marginal

    @property
    def lengths(self) -> list[Length]:
        """What each length brings and costs."""
        return list(self._answer.lengths)

    def set(self, **numbers: Any) -> None:
        """Set some numbers, and draw again.

        Raises:
            TypeError: there is no such number; nothing has changed.
            ValueError: a number is out of its bounds; nothing has changed.
        """
        self._setting = self._setting.with_(**numbers)
        self._answer = answer(self._setting)
        self.update()

    def _specs(self) -> Mapping[str, alt.LayerChart]:
        return {"brings": brings(), "gains": gains()}

    def _values(self) -> dict[str, Any]:
        return {}

    def _chart_values(self) -> Mapping[str, dict[str, Any]]:
        # Doubled when it is full, and never lowered, so that the axis seldom moves.
        while self._top < 1.1 * max(length.gain for length in self._answer.lengths):
            self._top *= 2
        return {"gains": {"top_gain": self._top}}

    def _draw(self) -> None:
        one = self._answer.lengths[0]
        self._live["brings"].replace(
            [
                {
                    "rows": length.rows,
                    "brings": round(length.brings, 4),
                    "price": round(length.cost_ms / one.cost_ms, 4),
                    "beyond": length.cost_ms > TOP * one.cost_ms,
                }
                for length in self._answer.lengths
            ]
        )
        self._live["gains"].replace(
            [
                {
                    "rows": length.rows,
                    "gain": round(length.gain, 4),
                    "word": _word(self._answer, length.rows),
                }
                for length in self._answer.lengths
            ]
        )

    def _status(self) -> str:
        found = self._answer
        gain = found.lengths[found.best - 1].gain
        said = f"best T = {found.best}, {gain:.2f} times as fast as plain decoding"
        if found.best == 1:
            said = "no draft pays: T = 1 is best"
        if found.marginal == found.best:
            return f"{said}; the marginal rule finds it"
        return f"{said}; the marginal rule stops at T = {found.marginal}"

    def _controls(self) -> Sequence[Control]:
        made = [
            Control("range", name, label, getattr(self._setting, name), *BOUNDS[name])
            for name, label in _LABELS.items()
        ]
        layers = choice("layer", "A layer has", self._setting.layer, tuple(LAYERS))
        return [*made, layers, button("reset", "As at the beginning")]

    def _act(self, name: str, value: Any, values: Mapping[str, Any]) -> None:
        if name == "reset":
            self.set(**vars(self._first))
        elif name == "layer":
            self.set(layer=str(value))
        elif name in BOUNDS:
            self.set(**{name: int(value)})

    def _tables(self) -> Sequence[Table]:
        rows = [
            (
                str(length.rows),
                f"{length.brings:.3f} tokens",
                f"{length.union:.1f} experts",
                f"{length.cost_ms:.1f} ms",
                f"{length.even_ms:.1f} ms",
                f"{length.gain:.2f}",
            )
            for length in self._answer.lengths
        ]
        return [
            Table("Windows by their rows", _HEAD, rows, marked=self._answer.best - 1)
        ]


def _word(found: Answer, rows: int) -> str:
    if rows == found.best:
        return "best"
    return "marginal rule" if rows == found.marginal else ""
