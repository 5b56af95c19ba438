"""`HandDrafts`: type a draft, run it, judge it, keep what you like.

The widget is a view of an engine. Each button calls the verb of its name and shows what
came back; an error is the engine's own, word for word, and changes nothing. Field,
slider and buttons are one model and a click carries their values, so that a quick
Commit can't overtake the slider.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import altair as alt
import anywidget
import traitlets

from strata_nb import CommitReport, Engine, Result, StrataError, Window
from strata_nb.backend import Text
from strata_widgets import charts, theme, tokens
from strata_widgets._base import StrataWidget
from strata_widgets.hand_drafts import view, words
from strata_widgets.hand_drafts.picture import picture
from strata_widgets.hand_drafts.suggest import own_tokens
from strata_widgets.hand_drafts.typed import typed
from strata_widgets.live_chart import LiveChart

_HERE = Path(__file__).parent
_SUGGESTED: Final = 3


class HandDrafts(StrataWidget):
    """Speculative decoding where the drafts are typed by hand.

    Example:
        >>> hands = HandDrafts(model.engine(), prompt="def area(r):")
        >>> hands  # type a draft, Run, Finish, move the slider, Commit

    Without a page the same verbs are methods, and show the same state:
        >>> hands.run(draft=" return"), hands.finish(), hands.commit(keep=1)
    """

    _esm = (_HERE / "hand_drafts.js").read_text(encoding="utf-8")
    _css = theme.css_variables() + (_HERE / "hand_drafts.css").read_text(
        encoding="utf-8"
    )

    _view = traitlets.Dict().tag(sync=True)
    _preview = traitlets.Dict().tag(sync=True)
    _windows = anywidget.WidgetTrait().tag(sync=True)
    _positions = anywidget.WidgetTrait().tag(sync=True)
    _union = anywidget.WidgetTrait().tag(sync=True)

    def __init__(
        self, engine: Engine, *, prompt: str | Sequence[int] | None = None
    ) -> None:
        """Look at `engine`, after prefilling all of `prompt` but its last token.

        Args:
            engine: what `model.engine()` returned.
            prompt: text or token ids for an engine that has seen nothing; None for one
                that is under way.

        Raises:
            TypeError: `engine` is no engine, a model for one.
            ValueError: `prompt` is empty, the engine has seen tokens already, or it
                does not know the text of tokens.
            StrataError: from `prefill`, as the engine words it.
        """
        _check_engine(engine)
        if engine.model is None:
            raise ValueError(
                "an engine that knows the text of tokens is wanted, got one whose "
                "`model` is None; make it with `model.engine()`"
            )
        self._engine = engine
        self._model: Text = engine.model
        # The prompt's last token, and the cell that it will have.
        self._first_root: tuple[int, int] | None = None
        self._window: Window | None = engine.window
        self._choices: list[list[dict[str, Any]]] = []
        # The slider, once somebody moved it; None is the natural keep.
        self._moved: int | None = None
        self._round = 0
        self._message = {"kind": "note", "text": ""}
        self._answered = ""
        super().__init__()
        if prompt is not None:
            self._prefill(prompt)
        self._windows = LiveChart(self._chart("windows"))
        self._positions = LiveChart(self._chart("positions"))
        self._union = LiveChart(self._chart("union"))
        self.on_msg(self._heard)
        self.refresh()

    def __repr__(self) -> str:
        return f"HandDrafts({self._status()})"

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

    def run(self, *, draft: str | Sequence[int] = "") -> Window:
        """Run the root and `draft`; nothing committed changes.

        Args:
            draft: text, ids such as `"#12 #345"`, or a list of token ids.

        Returns:
            The engine's window.

        Raises:
            ValueError: no root yet, or a draft that the engine refuses.
            StrataError: as the engine words it.
        """
        if self.root is None:
            raise ValueError(words.NO_ROOT)
        ids = self._read(draft) if isinstance(draft, str) else list(draft)
        window = self._engine.run([self.root, *ids], drafter="hand")
        self._adopt(window)
        self._say(words.ran(window.T))
        self._redraw()
        return window

    def finish(self) -> Result:
        """Judge the rows of the open window.

        Returns:
            The engine's result.

        Raises:
            ValueError: nothing was run.
            StrataError: as the engine words it.
        """
        result = self._engine.finish(self._opened())
        self._moved = None
        self._round += 1
        self._say(words.judged(result))
        return result

    def commit(self, *, keep: int | None = None, force: bool = False) -> CommitReport:
        """Keep the first `keep` rows of the finished window.

        Args:
            keep: rows to keep, 1 to T; None keeps what the slider says, the natural
                keep unless somebody moved it.
            force: allow more than the natural keep.

        Returns:
            The engine's report.

        Raises:
            ValueError: nothing was run.
            StrataError: as the engine words it.
        """
        window = self._opened()
        if keep is None:
            keep = self._moved
        report = self._engine.commit(window, keep=keep, force=force)
        self._moved = report.keep
        stopped = self.root in self._model.stop_ids
        self._say(words.kept(report, stopped=stopped))
        self._redraw()
        return report

    def abort(self) -> None:
        """Close the open window as if it had not been run.

        Raises:
            ValueError: nothing was run.
            StrataError: as the engine words it.
        """
        self._engine.abort(self._opened())
        self._say("Aborted: the engine is as before Run.")
        self._redraw()

    def suggest(self, *, count: int = _SUGGESTED, wrong: bool = False) -> str:
        """Return a draft to type: the model's own next tokens, decoded on a fork.

        Args:
            count: tokens, at most; a stop id ends the draft earlier.
            wrong: put the runner-up in the middle, so that the draft stops there.

        Raises:
            ValueError: no root yet, or the model would stop at once.
            StrataError: as the engine words it, an open window for one.
        """
        if self.root is None:
            raise ValueError(words.NO_ROOT)
        own, second = own_tokens(self._engine, self.root, count)
        if not own:
            raise ValueError("the model stops here, so it has no draft to suggest")
        if wrong:
            own[len(own) // 2] = second[len(own) // 2]
        return tokens.draft_text(self._model, own)

    def refresh(self) -> None:
        """Look at the engine again, after a cell has moved it."""
        if self._engine.window is not None and self._engine.window is not self._window:
            self._adopt(self._engine.window)
        self._publish()
        self._redraw()

    def text(self) -> str:
        """Return the state in words: phase, position, root, text, the window's rows."""
        lines = [repr(self), f"text  {view.tail(self._text()[0])}"]
        rows = self._rows()
        return "\n".join([*lines, view.table_text(rows)] if rows else lines)

    # What follows serves the page.

    def _heard(self, _: Any, message: dict[str, Any], __: Any) -> None:
        kind = message.get("kind")
        self._answered = str(message.get("ask", ""))
        try:
            self._do(str(kind), message)
        except (StrataError, ValueError) as error:
            self._message = {"kind": "error", "text": str(error)}
        finally:
            # Whatever happened, the page must hear an answer, or its buttons stay off.
            self._publish()

    def _do(self, kind: str, message: dict[str, Any]) -> None:
        draft = str(message.get("draft", ""))
        match kind:
            case "preview":
                self._show_preview(draft)
            case "keep":
                self._move_keep(int(message["keep"]))
            case "run":
                self.run(draft=draft)
            case "finish":
                self.finish()
            case "commit":
                self.commit(keep=int(message["keep"]), force=bool(message["force"]))
            case "abort":
                self.abort()
            case "suggest":
                self._show_preview(
                    self.suggest(wrong=bool(message["wrong"])), fill=True
                )

    def _prefill(self, prompt: str | Sequence[int]) -> None:
        engine = self._engine
        if engine.position or engine.root is not None or engine.window is not None:
            raise ValueError(
                f"`prompt` wants an engine that has seen nothing, got one at position "
                f"{engine.position}; pass a fresh `model.engine()`, or leave it out"
            )
        ids = self._model.encode(prompt) if isinstance(prompt, str) else list(prompt)
        if not ids:
            raise ValueError("`prompt` must hold at least one token, got none")
        if len(ids) > 1:
            engine.prefill(ids[:-1])
        self._first_root = (int(ids[-1]), engine.position)

    def _read(self, draft: str) -> list[int]:
        return tokens.parse_draft(self._model, draft, vocabulary=self._vocabulary)

    @property
    def _vocabulary(self) -> int:
        return int(self._engine.backend.config.vocab_size)

    def _opened(self) -> Window:
        """The window that Finish, Commit and Abort act on, open or not."""
        window = self._engine.window or self._window
        if window is None:
            raise ValueError("no window is open; Run one first")
        return window

    def _adopt(self, window: Window) -> None:
        self._window = window
        self._moved = None
        self._round += 1
        self._choices = view.top_choices(self._model, window.logits)

    def _move_keep(self, keep: int) -> None:
        window = self._window
        if window is not None and window.phase == "finished":
            self._moved = min(max(keep, 1), window.T)

    def _keep(self) -> int:
        """Rows that are kept, or that a commit would keep."""
        result = None if self._window is None else self._window.result
        return self._moved or (1 if result is None else int(result.keep))

    def _say(self, text: str) -> None:
        self._message = {"kind": "note", "text": text}
        self._publish()

    def _show_preview(self, draft: str, *, fill: bool = False) -> None:
        shown = typed(self._model, draft, vocabulary=self._vocabulary)
        # The same draft twice must reach the page twice.
        known = {"draft": draft, "fill": fill, "ask": self._answered}
        self._preview = {**shown, **known}

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
                "finish": phase == "run",
                "commit": phase == "finished",
                "abort": is_open,
            },
        }

    def _text(self) -> tuple[list[tokens.Chip], int]:
        cells = view.committed_tokens(self._engine.trace, self._engine.position)
        return view.text_chips(self._model, cells)

    def _chart(self, name: str) -> alt.LayerChart:
        trace, config = self._engine.trace, self._engine.backend.config
        if name == "windows":
            return charts.acceptance_over_windows(trace)
        if name == "positions":
            return charts.acceptance_by_position(trace)
        sizes = {
            "experts": config.num_experts,
            "chosen": config.num_experts_per_tok,
            "depth": config.num_hidden_layers,
        }
        window = self._window
        if window is not None and window.phase in ("run", "finished"):
            # Experts are paid for by `run`, whatever becomes of the drafts.
            label = f"open window, T = {window.T}"
            layers = view.open_layers(window)
            return charts.union_of_layers(layers, label=label, **sizes)
        return charts.expert_union(trace, **sizes)

    def _redraw(self) -> None:
        self._windows.show(self._chart("windows"))
        self._positions.show(self._chart("positions"))
        self._union.show(self._chart("union"))

    def _picture(self) -> dict[str, Any]:
        return picture(
            self._rows(),
            heading=self._status(),
            text=view.tail(self._text()[0]),
            charts=[self._chart("windows"), self._chart("union")],
            description=self.text(),
        )


def _check_engine(engine: Any) -> None:
    if isinstance(engine, Engine):
        return
    model = hasattr(engine, "engine")
    hint = "use `model.engine()`" if model else "make one with `model.engine()`"
    raise TypeError(f"HandDrafts wants an Engine, got {type(engine).__name__}; {hint}")
