"""What the page shows of a stepper, and what it is made from."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

import altair as alt
import anywidget
import traitlets

from strata_nb import Engine, Window
from strata_nb.backend import Text
from strata_nb.draft import Drafter
from strata_widgets import tokens
from strata_widgets._base import StrataWidget
from strata_widgets.live_chart import LiveChart
from strata_widgets.stepper import view, words
from strata_widgets.stepper.checkpoints import Checkpoints
from strata_widgets.stepper.drawn import chart
from strata_widgets.stepper.opening import prefilled, text_of
from strata_widgets.stepper.picture import picture
from strata_widgets.stepper.proposals import Proposals
from strata_widgets.stepper.typed import typed


class Shown(StrataWidget):
    """The state of a stepper, as traits for the page, words and a picture."""

    _view = traitlets.Dict().tag(sync=True)
    _preview = traitlets.Dict().tag(sync=True)
    _windows = anywidget.WidgetTrait().tag(sync=True)
    _positions = anywidget.WidgetTrait().tag(sync=True)
    _union = anywidget.WidgetTrait().tag(sync=True)

    def __init__(
        self,
        engine: Engine,
        *,
        prompt: str | Sequence[int] | None,
        drafter: Drafter | None,
        most: SupportsIndex,
    ) -> None:
        self._model: Text = text_of(engine)
        self._engine = engine
        self._proposals = Proposals(drafter)
        self._checkpoints = Checkpoints(most)
        self._cells = view.Cells()
        # The prompt's last token, and the cell that it will have.
        self._first_root: tuple[int, int] | None = None
        # One that is open already is adopted with its likeliest tokens.
        self._window: Window | None = None
        self._choices: list[list[dict[str, Any]]] = []
        # The slider, once somebody moved it; None is the natural keep.
        self._moved: int | None = None
        self._round = 0
        self._message = {"kind": "note", "text": ""}
        self._answered = ""
        self._fills = 0
        if prompt is not None:
            self._first_root = prefilled(engine, self._model, prompt)
        super().__init__()
        self._windows = LiveChart(self._chart("windows"))
        self._positions = LiveChart(self._chart("positions"))
        self._union = LiveChart(self._chart("union"))

    def __repr__(self) -> str:
        return f"Stepper({self._status()})"

    @property
    def engine(self) -> Engine:
        """The engine that is shown."""
        return self._engine

    @property
    def root(self) -> int | None:
        """The token that the next window starts with."""
        if self._engine.root is not None or self._first_root is None:
            return self._engine.root
        token, cell = self._first_root
        return token if cell == self._engine.position else None

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Cells that `back` can go to, the oldest first."""
        places = self._checkpoints.behind(self._engine)
        return tuple(place.position for place in reversed(places))

    def text(self) -> str:
        """Return the state in words: phase, position, root, text, the window's rows."""
        lines = [repr(self), f"text  {view.tail(self._text()[0])}"]
        rows = self._rows()
        return "\n".join([*lines, view.table_text(rows)] if rows else lines)

    @property
    def _vocabulary(self) -> int:
        return int(self._engine.backend.config.vocab_size)

    def _history(self) -> list[int]:
        """What is known of the text, the root last."""
        root, cells = self.root, self._known_cells()
        return [*view.known_end(cells), *([] if root is None else [root])]

    def _keep(self) -> int:
        """Rows that are kept, or that a commit would keep."""
        result = None if self._window is None else self._window.result
        return self._moved or (1 if result is None else int(result.keep))

    def _say(self, text: str, *, kind: str = "note") -> None:
        self._message = {"kind": kind, "text": text}
        self._publish()

    def _show_preview(self, draft: str, *, fill: bool = False) -> None:
        shown = typed(self._model, draft, vocabulary=self._vocabulary)
        # The same draft twice must reach the page twice.
        known = {"draft": draft, "fill": fill, "turn": self._fills}
        self._preview = {**shown, **known}

    def _fill(self, draft: str) -> None:
        """Put `draft` into the field, on every page."""
        self._fills += 1
        self._show_preview(draft, fill=True)

    def _phase(self) -> str:
        return "ready" if self._window is None else str(self._window.phase)

    def _status(self) -> str:
        window, root = self._window, self.root
        said = [self._phase(), f"position {self._engine.position}"]
        if root is not None:
            said.append(f"root {tokens.chip(self._model, root)['text']!r}")
        if window is not None and window.phase in ("run", "finished"):
            said.append(f"T = {window.T}")
        if window is not None and window.phase == "finished":
            said.append(f"keep = {self._keep()}")
        return ", ".join(said)

    def _rows(self) -> list[dict[str, Any]]:
        window = self._window
        if window is None or window.phase == "aborted":
            return []
        return view.window_rows(self._model, window, self._choices, self._keep())

    def _publish(self) -> None:
        engine, window, phase = self._engine, self._window, self._phase()
        shown, hidden = self._text()
        is_open = phase in ("run", "finished")
        can_run = not is_open and self.root is not None
        result = None if window is None else window.result
        note = words.NO_ROOT if self.root is None else ""
        places = self._places()
        self._view = {
            "answered": self._answered,
            "round": self._round,
            "phase": phase,
            "status": self._status(),
            "position": engine.position,
            "T": 0 if window is None else window.T,
            "keep": self._keep(),
            "natural": 1 if result is None else result.keep,
            "text": shown,
            "hidden": hidden,
            "root": None if self.root is None else tokens.chip(self._model, self.root),
            "rows": self._rows(),
            "message": {"kind": "error", "text": note} if note else self._message,
            "can": {
                "run": can_run,
                "suggest": can_run,
                "take": can_run,
                "finish": phase == "run",
                "commit": phase == "finished",
                "abort": is_open,
                "back": bool(places) and not is_open,
            },
            "drafter": self._proposals.name,
            "places": places,
            "no_back": words.OPEN if is_open else "" if places else words.NOWHERE,
        }

    def _places(self) -> list[dict[str, Any]]:
        """Where one can go back to, the newest first."""
        return [
            {"position": c.position, "label": words.place(c.position, c.windows)}
            for c in self._checkpoints.behind(self._engine)
        ]

    def _text(self) -> tuple[list[tokens.Chip], int]:
        return view.text_chips(self._model, self._known_cells())

    def _known_cells(self) -> list[int | None]:
        return self._cells.below(self._engine.position, self._engine.trace)

    def _chart(self, name: str) -> alt.LayerChart:
        return chart(name, self._engine, self._window)

    def _redraw(self, *names: str) -> None:
        for name in names:
            getattr(self, f"_{name}").show(self._chart(name))

    def _picture(self) -> dict[str, Any]:
        return picture(
            self._rows(),
            heading=self._status(),
            text=view.tail(self._text()[0]),
            charts=[self._chart("windows"), self._chart("union")],
            description=self.text(),
        )
