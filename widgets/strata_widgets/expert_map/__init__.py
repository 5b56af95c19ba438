"""`ExpertMap`: which experts a window uses, layer by layer, and for whom."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import altair as alt

from strata_nb import LayerRecord, WindowRecord
from strata_nb.refusals import MAX_ROWS
from strata_nb.theory import largest_union, uniform_union
from strata_widgets.drawing import Row, nothing
from strata_widgets.expert_map import words
from strata_widgets.expert_map.drawings import height_of, the_map, unions
from strata_widgets.expert_map.size import model_of, sized
from strata_widgets.expert_map.users import users
from strata_widgets.panel.control import Control, Table, button
from strata_widgets.selection import Dimension
from strata_widgets.trace_view import TraceView

# Marks that a page takes as SVG.
_MANY_MARKS: Final = 2_000
# A message stays under 20 kB, of which a layer's frame takes some 40 bytes.
_MOST_TEXT: Final = 18_500
_FRAME: Final = 40


class ExpertMap(TraceView):
    """The experts of a window: of the root, of drafts, or of both; and their slots.

    Example:
        >>> view = ExpertMap(engine.trace, model=model)
        >>> view.select(window=12, layer=3)
    """

    TITLE = "Expert unions"
    SELECTS: ClassVar[tuple[Dimension, ...]] = ("window", "layer")

    def __init__(
        self,
        source: Any,
        *,
        model: Any = None,
        experts: int | None = None,
        chosen: int | None = None,
        **traits: Any,
    ) -> None:
        """Look at `source`.

        Args:
            source: a trace, or what has one, or window records.
            model: the model, for the size of a layer and the slots of now; None: that
                of `source`, if it has one.
            experts: of a layer, E; None: the model's, else one more than the largest
                index in the trace.
            chosen: experts that a row uses, K; None as `experts`.
            **traits: `selection`.

        Raises:
            TypeError: `source` has no trace.
            ValueError: the trace has an expert that the layer has not, or a size is
                none.
        """
        model = model_of(source) if model is None else model
        self._size = sized(model, experts=experts, chosen=chosen)
        self._pool = getattr(model, "pool", None)
        super().__init__(source, **traits)
        size = self._size
        if size.layers * min(size.experts, MAX_ROWS * size.chosen) > _MANY_MARKS:
            self._live["map"].renderer = "canvas"

    @property
    def experts(self) -> int:
        """Experts of a layer, E, as far as known."""
        return self._size.experts

    @property
    def chosen(self) -> int:
        """Experts that a row uses, K, as far as known."""
        return self._size.chosen

    def refresh(self) -> None:
        """Look again, after windows came, or slots changed hands."""
        if self._read() or self._pool is not None:
            self.update()

    def _forget(self) -> None:
        self._size = self._size.cleared()
        self._shown: tuple[Any, ...] | None = None

    def _take(self, records: Sequence[WindowRecord], *, first: int) -> None:
        self._size = self._size.seen(records, first=first)

    def _specs(self) -> Mapping[str, alt.LayerChart]:
        self._height = height_of(self._size.layers)
        return {"map": the_map(self._height), "unions": unions(self._height)}

    def _values(self) -> dict[str, Any]:
        size, record = self._size, self._record()
        # The axis beside the map holds all rows of a decode window.
        wide = size.union(largest_union, MAX_ROWS)
        limits = {"uniform": 0.0, "bound": 0}
        slots = record is not None and any(map(_slots, record.layers))
        if record is not None and record.layers:
            limits = {
                "uniform": round(size.union(uniform_union, record.T), 3),
                "bound": size.union(largest_union, record.T),
            }
        return {
            **super()._values(),
            "experts": size.axis,
            "layers": size.layers or 4,
            "most": max(wide, limits["bound"]) or 16,
            "slots": slots,
            **limits,
        }

    def _bounds(self, dimension: Dimension) -> tuple[int, int] | None:
        # A window of one's choice may have layers that the newest lacks.
        record = self._record()
        if dimension != "layer" or record is None:
            return super()._bounds(dimension)
        layers = [layer.layer for layer in record.layers]
        return (min(layers), max(layers)) if layers else None

    def _record(self) -> WindowRecord | None:
        window = self._window()
        return None if window is None else self._trace[window]

    def _layer(self) -> LayerRecord | None:
        """The selected layer of the window shown."""
        record, chosen = self._record(), self.selection["layer"]
        layers = () if record is None else record.layers
        return next((layer for layer in layers if layer.layer == chosen), None)

    def _held(self) -> tuple[frozenset[int], ...]:
        """Experts in a slot now, of each layer; none where that is not known."""
        return () if self._pool is None else self._pool.snapshot()

    def _draw(self) -> None:
        record, held = self._record(), self._held()
        was, self._shown = self._shown, (record, self.selection["layer"], held)
        if was is not None and was[0] is record and was[1:] == self._shown[1:]:
            return
        if self._height != height_of(self._size.layers):
            # Before the first window nobody knew how many layers there are.
            for name, drawing in self._specs().items():
                self._live[name].show(drawing)
        if record is None or not record.layers:
            why = words.RUN if record is None else words.NO_EXPERTS
            self._live["map"].replace(nothing(why))
            self._live["unions"].replace([])
            return
        self._live["map"].replace(self._boxes(record, held))
        self._live["unions"].replace([_bar(record, layer) for layer in record.layers])

    def _boxes(self, record: WindowRecord, held: Sequence[frozenset[int]]) -> list[Row]:
        rows: list[Row] = [
            {
                "layer": layer.layer,
                "experts": users(layer, headless=record.headless).packed(
                    held[layer.layer] if layer.layer < len(held) else ()
                ),
            }
            for layer in record.layers
        ]
        if sum(_FRAME + len(row["experts"]) for row in rows) <= _MOST_TEXT:
            return rows
        # A long prompt: the layer that is looked at, and an empty line for each other.
        chosen = self._layer()
        for row in rows:
            if chosen is None or row["layer"] != chosen.layer:
                del row["experts"]
        return rows if chosen is not None else [*rows, *nothing(words.TOO_MANY)]

    def _controls(self) -> Sequence[Control]:
        if self._pool is None:
            return ()
        return [button("slots", "Look at the slots now")]

    def _act(self, name: str, value: Any, values: Mapping[str, Any]) -> None:
        self.refresh()

    def _status(self) -> str:
        window, record = self._window(), self._record()
        if window is None or record is None:
            return f"no windows yet; {self._size.words}"
        layer = self.selection["layer"]
        newest = window == self._seen - 1
        said = [*self._lacking(), words.of_window(window, record, newest=newest)]
        if record.layers:
            said.append(words.of_unions(record, self._size))
        found = self._layer()
        if found is not None:
            said.append(words.of_layer(record, found))
            said += words.of_now(found.layer, self._pool)
        elif layer is not None:
            said.append(f"layer {layer} is selected, which has no experts here")
        return "; ".join([*said, self._size.words])

    def _tables(self) -> Sequence[Table]:
        record, layer = self._record(), self._layer()
        if record is None or layer is None:
            return ()
        return [words.table(record, layer, self._pool)]


def _bar(record: WindowRecord, layer: LayerRecord) -> Row:
    row: Row = {"layer": layer.layer, "union": layer.union_size}
    if record.headless:
        row["prompt"] = layer.union_size
    else:
        row["root"] = layer.root_only_size
        row["added"] = layer.union_size - layer.root_only_size
    return row | _slots(layer)


def _slots(layer: LayerRecord) -> Row:
    """Where its experts were; in part the counts would not add up to the union."""
    counts = {"here": layer.resident, "late": layer.late, "read": layer.miss}
    return {} if None in counts.values() else counts
