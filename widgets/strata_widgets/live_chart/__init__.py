"""`LiveChart`: an Altair chart whose rows change while it is on the page.

Altair's own live chart brings a copy of Vega to every chart and keeps each old drawing
alive. Here one library model a kernel carries Vega, all charts ask for that one, and a
change sends rows and not a chart.
"""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import altair as alt
import anywidget
import traitlets

from strata_widgets import pace
from strata_widgets._base import StrataWidget, module

_HERE = Path(__file__).parent
_DATASET: Final = "live"


class _VegaLibrary(anywidget.AnyWidget):
    """Carries the shared bundle; its licences lie beside it."""

    _esm = (_HERE / "vega_lib.js").read_text(encoding="utf-8")

    def __repr__(self) -> str:
        return "VegaLibrary()"


_library: _VegaLibrary | None = None


def _shared_library() -> _VegaLibrary:
    global _library
    # `Widget.close_all()` takes the comm away; a closed model can't be opened again.
    if _library is None or _library.comm is None:
        _library = _VegaLibrary()
    return _library


class _Copied(traitlets.Dict):
    """A dict that nobody changes in place: what is given and what is got are copies.

    Otherwise a list changed in place and given again would equal what is there
    already, since it is the same list, and the page would never hear of it.
    """

    def validate(self, obj: Any, value: Any) -> Any:
        return copy.deepcopy(super().validate(obj, value))

    def get(self, obj: Any, cls: Any = None) -> Any:
        return copy.deepcopy(super().get(obj, cls))


class LiveChart(StrataWidget):
    """A chart on the page that follows `show`, `replace` and `append`.

    Example:
        >>> chart = LiveChart(charts.acceptance_over_windows(engine.trace))
        >>> chart.show(charts.acceptance_over_windows(engine.trace))  # later
    """

    _esm = module(_HERE / "live_chart.js")
    _css = (_HERE / "live_chart.css").read_text(encoding="utf-8")

    spec = _Copied().tag(sync=True)
    """The chart as Vega-Lite, its data taken out and named `live`."""

    renderer = traitlets.Enum(["svg", "canvas"], "svg").tag(sync=True)
    """`svg` gives each mark a label that can be read; `canvas` suits 2,000 marks up."""

    selection = _Copied().tag(sync=True)
    """What a person picked, by the name of the chart's parameter."""

    values = _Copied().tag(sync=True)
    """Values of the chart's parameters, by name: what is selected, for one."""

    HZ: Final = pace.HZ

    _lib = anywidget.WidgetTrait().tag(sync=True)
    _watch: traitlets.List[str] = traitlets.List().tag(sync=True)
    # Rows that a page has before it can ask: while cells run, nobody would answer.
    _first = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        chart: alt.TopLevelMixin | dict[str, Any],
        *,
        limit: int | None = None,
        **traits: Any,
    ) -> None:
        """Take `chart` apart into its drawing and its rows.

        Args:
            chart: an Altair chart, or Vega-Lite as a dict, with one data set.
            limit: rows to keep, the newest; None keeps all.
            **traits: `renderer`, `values`.

        Raises:
            TypeError: `chart` is no chart.
            ValueError: the chart's rows are neither inside it nor named.
        """
        spec, rows = _taken_apart(chart)
        self.limit = limit
        self._rows: list[dict[str, Any]] = rows
        self._pending: list[dict[str, Any]] = []
        self._sequence, self._reset_sent = 0, False
        self._pace = pace.Pace(self._send_rows)
        self._clicks: list[Callable[[dict[str, Any]], None]] = []
        # With the first message: a page under load may draw before a second one.
        private = {"_lib": _shared_library(), "_watch": _selections(spec)}
        super().__init__(spec=spec, _first=self._message("reset"), **private, **traits)
        self.on_msg(self._answer)

    def __repr__(self) -> str:
        title = self.spec.get("title", "")
        words = title.get("text", "") if isinstance(title, dict) else title
        return f"LiveChart({words!r}, rows={len(self._rows)})"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A copy of the rows that the chart has now."""
        return list(self._rows)

    def show(self, chart: alt.TopLevelMixin | dict[str, Any]) -> None:
        """Show `chart` instead; when it is drawn the same way, only rows travel."""
        spec, rows = _taken_apart(chart)
        if spec != self.spec:
            self._watch = _selections(spec)
            self.spec = spec
        self.replace(rows)

    def replace(self, rows: list[dict[str, Any]]) -> None:
        """Put `rows` in the place of all others."""
        self._rows, self._pending, self._reset_sent = list(rows), [], False
        self._soon()

    def append(self, *rows: dict[str, Any]) -> None:
        """Add `rows` at the end; with a limit the oldest go."""
        self._rows += rows
        self._pending += rows
        if self.limit:
            del self._rows[: -self.limit]
            del self._pending[: -self.limit]
        self._soon()

    def flush(self) -> None:
        """Send what is waiting; a plain thread calls this when it ends."""
        self._pace.flush()

    def begin(self) -> None:
        """Give the rows of now to pages that are still to be opened; they need not ask.

        A page that is open takes them like any others.
        """
        self._pending, self._reset_sent = [], True
        self._sequence += 1
        self._first = self._message("reset")

    def _settle(self) -> None:
        self.begin()

    def on_click(self, heard: Callable[[dict[str, Any]], None]) -> None:
        """Call `heard` with the row of a mark that a person clicks."""
        self._clicks.append(heard)

    def _soon(self) -> None:
        self._pace.soon()

    def _send_rows(self) -> None:
        if not self._reset_sent:
            self._reset_sent, self._pending = True, []
            self._post("reset")
        elif self._pending:
            rows, self._pending = self._pending, []
            self._post("append", rows)

    def _post(
        self, operation: str, rows: Sequence[dict[str, Any]] | None = None
    ) -> None:
        self._sequence += 1
        self.send(self._message(operation, rows))

    def _message(
        self, operation: str, rows: Sequence[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        return {
            "kind": "rows",
            "op": operation,
            "rows": list(self._rows if rows is None else rows),
            "limit": self.limit,
            "seq": self._sequence,
        }

    def _answer(self, _: Any, message: dict[str, Any], __: Any) -> None:
        # A page that was reloaded has lost its rows and says hello.
        if message.get("kind") == "hello":
            self._pending = []
            self._reset_sent = True
            self._post("reset")
        elif message.get("kind") == "click":
            for heard in self._clicks:
                heard(dict(message["row"]))

    def _picture(self) -> dict[str, Any]:
        spec = {**self.spec, "data": {"values": self._rows}}
        if "params" in spec:
            spec["params"] = [_valued(p, self.values) for p in spec["params"]]
        return spec


def _taken_apart(
    chart: alt.TopLevelMixin | dict[str, Any],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Split `chart` into its drawing, data named `live`, and its rows."""
    if not isinstance(chart, dict) and not hasattr(chart, "to_dict"):
        raise TypeError(
            "a live chart wants an Altair chart, or Vega-Lite as a dict, got "
            f"{type(chart).__name__}"
        )
    # Altair has checked the chart when it was made; once more costs 20 ms an update.
    spec = dict(chart) if isinstance(chart, dict) else chart.to_dict(validate=False)
    sets = spec.pop("datasets", {})
    data = spec.get("data", {})
    rows = sets.get(data.get("name")) or data.get("values", [])
    if len(sets) > 1 or "url" in data:
        raise ValueError(
            f"a live chart wants one data set with its rows inside, got {len(sets)} "
            f"sets and {data or 'no data'}; give `alt.layer` the data, not each layer"
        )
    spec["data"] = {"name": _DATASET}
    # Without these two, axis labels that grow with the data are cut off.
    spec.setdefault("autosize", {"type": "pad", "resize": True})
    return spec, list(rows)


def _valued(param: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    name = param["name"]
    return {**param, "value": values[name]} if name in values else param


def _selections(spec: dict[str, Any]) -> list[str]:
    return [p["name"] for p in spec.get("params", []) if "select" in p]
