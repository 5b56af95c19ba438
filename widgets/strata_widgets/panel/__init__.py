"""`Panel`: charts, controls, words and tables on one page element.

Its subclasses say what is on it; the page's half is one and the same for all. Controls
are one model, and each message carries the values of all of them, so that no click can
overtake a slider.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import altair as alt
import anywidget
import traitlets

from strata_nb import StrataError
from strata_widgets import theme
from strata_widgets._base import StrataWidget, module
from strata_widgets.live_chart import LiveChart
from strata_widgets.pace import Pace
from strata_widgets.panel.control import Control, Table
from strata_widgets.panel.picture import picture
from strata_widgets.selection import DIMENSIONS, Dimension, Selected
from strata_widgets.still import Still
from strata_widgets.together import together

_HERE = Path(__file__).parent
_SMALL: Final = 1.5
_SLOTS: Final = ("_chart_1", "_chart_2", "_chart_3", "_chart_4")


class Panel(StrataWidget):
    """What every panel has: charts that live, controls, a status line, tables.

    A subclass gives `TITLE`, `_specs`, `_draw`, `_status`, and where it wants
    `_controls`, `_act`, `_tables`, `_bounds`.
    """

    _esm = module(_HERE / "panel.js")
    _css = theme.css_variables() + (_HERE / "panel.css").read_text(encoding="utf-8")

    selection = Selected()
    """What is looked at: `window`, `layer`, `cell`; set it, or `link` it."""

    TITLE: ClassVar[str] = ""
    SELECTS: ClassVar[tuple[Dimension, ...]] = ()
    """What of a selection the panel shows; each gets a labelled control."""

    _page = traitlets.Dict().tag(sync=True)
    _chart_1 = anywidget.WidgetTrait().tag(sync=True)
    _chart_2 = anywidget.WidgetTrait().tag(sync=True)
    _chart_3 = anywidget.WidgetTrait().tag(sync=True)
    _chart_4 = anywidget.WidgetTrait().tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        self._note = {"kind": "note", "text": ""}
        self._answered = ""
        self._answering = False
        self._pace = Pace(self._send_page)
        self._updating = self._again = False
        super().__init__(**traits)
        self._live = {
            name: LiveChart(spec, values=self._values())
            for name, spec in self._specs().items()
        }
        for slot, chart in zip(_SLOTS, self._live.values(), strict=False):
            self.set_trait(slot, chart)
            chart.on_click(self._clicked)
        self.on_msg(self._heard)
        self.observe(self._moved, "selection")
        self.update()
        # Inside a box, nobody says when it is shown.
        self._settle()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._status()})"

    def select(self, **chosen: int | None) -> None:
        """Change the named parts of the selection and leave the others.

        Raises:
            TraitError: no such part, or no such number.
        """
        self.selection = {**self.selection, **chosen}

    def update(self) -> None:
        """Draw again, from what is known."""
        self._again = True
        if self._updating:
            # Something on the way selects: what is under way would end as it began.
            return
        self._updating = True
        try:
            with together():
                while self._again:
                    self._again = False
                    self._redraw()
        finally:
            self._updating = False

    def _redraw(self) -> None:
        for name, values in self._chart_values().items():
            self._live[name].values = values
        self._draw()
        self._publish()

    def _settle(self) -> None:
        self._pace.flush()
        for chart in self._live.values():
            chart.begin()

    def snapshot(self) -> Still:
        """Return a picture of the state now; show it as the last line of a cell."""
        still = super().snapshot()
        # Charts and tables at twice their size are more bytes than they tell.
        many = len(self._live) + bool(self._tables()) > 2
        still.scale = _SMALL if many else still.scale
        return still

    def text(self) -> str:
        """Return what is shown, in words."""
        tables = [table.text() for table in self._tables()]
        prose = self._prose()
        return "\n".join([repr(self), *([prose] if prose else []), *tables])

    # What a subclass says of itself.

    def _specs(self) -> Mapping[str, alt.TopLevelMixin | dict[str, Any]]:
        """Each chart by its name, without rows; four at most."""
        return {}

    def _draw(self) -> None:
        """Hand the rows of the moment to `self._live[name].replace` or `append`."""

    def _status(self) -> str:
        """What is shown, in one line."""
        return ""

    def _controls(self) -> Sequence[Control]:
        """What a person can set, besides the selection."""
        return ()

    def _act(self, name: str, value: Any, values: Mapping[str, Any]) -> None:
        """A person used control `name`; `values` has all controls of the page."""

    def _prose(self) -> str:
        """Running text below the status, its lines as they are."""
        return ""

    def _tables(self) -> Sequence[Table]:
        """Tables below the charts."""
        return ()

    def _bounds(self, dimension: Dimension) -> tuple[int, int] | None:
        """The least and the most that can be selected; None while nothing can."""
        return None

    # What follows serves the page.

    def _selectors(self) -> list[Control]:
        made = []
        for name in self.SELECTS:
            bounds = self._bounds(name)
            least, most = bounds or (0, 0)
            value = self.selection[name]
            inside = value is not None and bounds is not None and least <= value <= most
            made.append(
                Control(
                    "range",
                    name,
                    name.capitalize(),
                    value if inside else None,
                    least=least,
                    most=most,
                    enabled=bounds is not None,
                    clears=True,
                )
            )
        return made

    def _values(self) -> dict[str, Any]:
        """Parameters of all charts: the selection, where -1 is "none"."""
        return {n: -1 if (v := self.selection[n]) is None else v for n in DIMENSIONS}

    def _chart_values(self) -> Mapping[str, dict[str, Any]]:
        """Parameters by the name of the chart, where one has some of its own."""
        return dict.fromkeys(self._live, self._values())

    def _moved(self, _: Any) -> None:
        self.update()

    def _clicked(self, row: dict[str, Any]) -> None:
        chosen = {
            name: int(row[name])
            for name in self.SELECTS
            if isinstance(row.get(name), int | float) and row[name] >= 0
        }
        if chosen:
            self.select(**chosen)

    def _heard(self, _: Any, message: dict[str, Any], __: Any) -> None:
        if message.get("kind") == "control":
            # Linked views hear of it too, and answer in the same message.
            with together():
                self._used(message)

    def _used(self, message: dict[str, Any]) -> None:
        self._answered = str(message.get("ask", ""))
        self._answering = True
        name, value = str(message.get("name")), message.get("value")
        try:
            self._note = {"kind": "note", "text": ""}
            if name in self.SELECTS:
                self.select(**{name: None if value is None else int(value)})
            else:
                self._act(name, value, dict(message.get("values", {})))
        except (StrataError, ValueError, traitlets.TraitError) as error:
            self._note = {"kind": "error", "text": str(error)}
        finally:
            # Whatever happened, the page must hear an answer; one is enough.
            self._answering = False
            self._publish()

    def _say(self, text: str, *, kind: str = "note") -> None:
        """Put one line beside the controls; `kind` is "note" or "error"."""
        self._note = {"kind": kind, "text": text}
        self._publish()

    def _publish(self) -> None:
        if not self._answering:
            self._pace.soon()

    def _send_page(self) -> None:
        chosen = {name: self.selection[name] for name in self.SELECTS}
        self._page = {
            "title": self.TITLE,
            "kind": type(self).__name__.lower(),
            "answered": self._answered,
            "controls": [c.for_page() for c in (*self._selectors(), *self._controls())],
            "note": dict(self._note),
            "status": self._status(),
            "prose": self._prose(),
            "selection": chosen,
            "tables": [table.for_page() for table in self._tables()],
            "charts": list(self._live),
        }

    def _picture(self) -> dict[str, Any]:
        charts = {name: chart._picture() for name, chart in self._live.items()}
        text = self.text()
        return picture(
            charts,
            heading=self.TITLE,
            status=self._status(),
            lines=text.splitlines()[1:],
            description=text,
        )
