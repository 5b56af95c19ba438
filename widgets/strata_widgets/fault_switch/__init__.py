"""`FaultSwitch`: a picture of a real engine, and a control that plants a defect in it.

The widget knows neither the engine nor what the picture shows: a function of yours is
called with the fault, or with None for the sound engine, and returns the picture of
what it saw and a sentence about it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import altair as alt
import anywidget
import traitlets

from strata_nb import faults as registry
from strata_widgets import theme
from strata_widgets._base import StrataWidget, module
from strata_widgets.live_chart import LiveChart

_HERE: Final = Path(__file__).parent

Drawn: TypeAlias = tuple[alt.TopLevelMixin | dict[str, Any], str]
"""A picture, and what is to be seen on it in a sentence."""
Draw: TypeAlias = Callable[[str | None], Drawn]


class FaultSwitch(StrataWidget):
    """A picture of an engine with a fault switched on and off.

    Example:
        >>> switch = FaultSwitch(draw, faults="qsa_ring")
        >>> switch  # off; the control on the page switches it on

    Without a page the control is a method, and shows the same state:
        >>> switch.plant("qsa_ring"), switch.plant(None)
    """

    _esm = module(_HERE / "fault_switch.js")
    _css = theme.css_variables() + (_HERE / "fault_switch.css").read_text(
        encoding="utf-8"
    )

    _view = traitlets.Dict().tag(sync=True)
    _chart = anywidget.WidgetTrait().tag(sync=True)

    def __init__(
        self, draw: Draw, *, faults: str | Sequence[str], planted: str | None = None
    ) -> None:
        """Draw the first picture.

        Args:
            draw: called with the name of a fault, or None for the sound engine; runs
                an engine and returns a chart and a sentence. The charts of this
                package give a picture that does not jump when it changes.
            faults: name of the fault, or of several to choose from; as
                `strata_nb.faults.FAULTS` has them.
            planted: the one that is on at first; None for none.

        Raises:
            ValueError: no fault, an unknown one, or `planted` is none of them.
            TypeError: `draw` returned something else than a chart and a sentence.
        """
        names = [faults] if isinstance(faults, str) else list(faults)
        if not names:
            raise ValueError(
                "`faults` must name at least one fault, got none; "
                f"there are {', '.join(registry.FAULTS)}"
            )
        self._draw = draw
        self._faults = {name: registry.find(name) for name in names}
        self._fault: str | None = None
        self._words, self._error, self._answered = "", "", ""
        chart, self._words = self._drawn(planted)
        self._fault = planted
        # With the first message: a page under load may draw before a second one.
        super().__init__(_chart=LiveChart(chart), _view=self._seen())
        self.on_msg(self._heard)

    def __repr__(self) -> str:
        return f"FaultSwitch({self._status()})"

    @property
    def fault(self) -> str | None:
        """The fault that is on; None while the engine is sound."""
        return self._fault

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults that can be switched on."""
        return tuple(self._faults)

    @property
    def words(self) -> str:
        """What is to be seen on the picture."""
        return self._words

    def plant(self, fault: str | None) -> None:
        """Switch `fault` on, and what was on off; None switches all off.

        Args:
            fault: one of `faults`, or None.

        Raises:
            ValueError: it is not offered here; the picture stays.
            TypeError: `draw` returned something else than a chart and a sentence.
        """
        chart, words = self._drawn(fault)
        self._chart.show(chart)
        self._fault, self._words, self._error = fault, words, ""
        self._view = self._seen()

    def text(self) -> str:
        """Return the state in words: the fault, what it does, what is to be seen."""
        lines = [repr(self)]
        if self._fault is not None:
            lines.append(f"fault  {self._faults[self._fault].what}")
        return "\n".join([*lines, f"seen   {self._words}"])

    # What follows serves the page.

    def _heard(self, _: Any, message: dict[str, Any], __: Any) -> None:
        self._answered = str(message.get("ask", ""))
        try:
            if message.get("kind") == "plant":
                self.plant(message.get("fault") or None)
        except Exception as error:  # the reader's own function may raise anything
            self._error = f"{type(error).__name__}: {error}"
        finally:
            # Whatever happened, the page must hear an answer, or it waits for ever.
            self._view = self._seen()

    def _drawn(self, fault: str | None) -> Drawn:
        if fault is not None and fault not in self._faults:
            raise ValueError(
                f"`fault` is {fault!r}, wanted None or one of {', '.join(self._faults)}"
            )
        return _checked(self._draw(fault))

    def _status(self) -> str:
        return "no fault" if self._fault is None else f"fault {self._fault} is on"

    def _seen(self) -> dict[str, Any]:
        return {
            "answered": self._answered,
            "fault": self._fault or "",
            "faults": [
                {"name": name, "what": fault.what}
                for name, fault in self._faults.items()
            ],
            "status": self._status(),
            "words": self._words,
            "error": self._error,
        }

    def _picture(self) -> dict[str, Any]:
        spec: dict[str, Any] = self._chart._picture()
        return {**spec, "title": _titled(spec.get("title"), self._status())}


def _checked(drawn: Any) -> Drawn:
    if not (isinstance(drawn, tuple) and len(drawn) == 2 and isinstance(drawn[1], str)):
        raise TypeError(
            "`draw` must return a chart and a sentence about it, as a tuple, got "
            f"{type(drawn).__name__}; end it with `return chart, words`"
        )
    return drawn


def _titled(title: Any, status: str) -> dict[str, Any]:
    """Return `title` with `status` as the first of its smaller lines."""
    whole = title if isinstance(title, dict) else {"text": title or ""}
    lines = whole.get("subtitle") or []
    below = [lines] if isinstance(lines, str) else list(lines)
    return {**whole, "subtitle": [f"switch: {status}", *below]}
