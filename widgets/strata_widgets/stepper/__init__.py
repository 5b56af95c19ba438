"""`Stepper`: draft, run, judge, keep what you like, and go back.

The widget is a view of an engine. Each button calls the verb of its name and shows what
came back; an error is the engine's own, word for word, and changes nothing. Field,
slider and buttons are one model and a click carries their values, so that a quick
Commit can't overtake the slider.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, SupportsIndex

from strata_nb import CommitReport, Engine, Result, StrataError, Window, refusals
from strata_nb.draft import Drafter
from strata_nb.errors import EngineBusyError, WindowOpenError
from strata_nb.trace.summary import predicting
from strata_widgets import theme, tokens
from strata_widgets._base import module
from strata_widgets.charts import MOST_DRAFTS
from strata_widgets.stepper import view, words
from strata_widgets.stepper.checkpoints import NEWEST
from strata_widgets.stepper.drawn import CHARTS
from strata_widgets.stepper.shown import Shown
from strata_widgets.stepper.suggest import own_tokens

_HERE = Path(__file__).parent
_SUGGESTED: Final = 3


class Stepper(Shown):
    """Speculative decoding by hand, window by window.

    Drafts are typed, as text or as ids, or taken from a drafter. Each committed window
    leaves a checkpoint to go back to.

    Example:
        >>> stepper = Stepper(model.engine(), prompt="def area(r):")
        >>> stepper  # type a draft, Run, Finish, move the slider, Commit

    Without a page the same verbs are methods, and show the same state:
        >>> stepper.run(draft=" return"), stepper.finish(), stepper.commit(keep=1)
        >>> stepper.back()
    """

    _esm = module(_HERE / "stepper.js")
    _css = theme.css_variables() + (_HERE / "stepper.css").read_text(encoding="utf-8")

    def __init__(
        self,
        engine: Engine,
        *,
        prompt: str | Sequence[int] | None = None,
        drafter: Drafter | None = None,
        checkpoints: SupportsIndex = NEWEST,
    ) -> None:
        """Look at `engine`, after prefilling all of `prompt` but its last token.

        Args:
            engine: what `model.engine()` returned.
            prompt: text or token ids for an engine that has seen nothing; None for one
                that is under way.
            drafter: one of `strata_nb.draft`, or your own, to take drafts from. It is
                told what is known of the text, and of no rejected draft.
            checkpoints: places kept to go back to, the oldest dropped. Each holds the
                recurrent states, and up to 256 cells of keys and values that no other
                holds. Since it is a fork, each commit does a pending fold at once,
                with the same bits; 0 keeps no place and leaves the fold pending.

        Raises:
            TypeError: `engine` is no engine, a model for one, or `drafter` no drafter.
            ValueError: `prompt` is empty, the engine has seen tokens already, or it
                does not know the text of tokens; `checkpoints` is below 0.
            StrataError: from `prefill`, as the engine words it.
        """
        super().__init__(engine, prompt=prompt, drafter=drafter, most=checkpoints)
        self.on_msg(self._heard)
        self._look()

    def take(self) -> str:
        """Fill the draft field with what the drafter proposes for the committed text.

        Returns:
            The draft, as one would type it; empty where it proposes nothing.

        Raises:
            ValueError: no drafter, no root yet, or what it proposes is no draft here.
            StrataError: a window is open, or the drafter raised.
        """
        if self.root is None:
            raise ValueError(words.NO_ROOT)
        engine = self._engine
        refusals.open_window(engine.window, "take")
        draft = self._proposals.take(
            self._history(),
            most=max(0, min(MOST_DRAFTS, engine.context - engine.position - 1)),
            vocabulary=self._vocabulary,
        )
        text = tokens.draft_text(self._model, draft.tokens)
        self._fill(text)
        self._say(words.took(self._proposals.name, len(draft.tokens)))
        return text

    def run(self, *, draft: str | Sequence[int] | None = None) -> Window:
        """Run the root and `draft`; nothing committed changes.

        The record names the drafter if these are the tokens that it proposed for this
        text when `take` asked it last, and "hand" otherwise.

        Args:
            draft: text, ids such as `"#12 #345"`, or a list of token ids; None runs
                what is in the draft field.

        Returns:
            The engine's window.

        Raises:
            ValueError: no root yet, or a draft that the engine refuses.
            StrataError: as the engine words it.
        """
        if self.root is None:
            raise ValueError(words.NO_ROOT)
        if draft is None:
            draft = str(self._preview.get("draft", ""))
        ids = self._read(draft) if isinstance(draft, str) else list(draft)
        origin = self._proposals.origin(self._history(), ids)
        window = self._engine.run(
            [self.root, *ids],
            drafter=origin.drafter,
            match_length=origin.match_length,
            draft_ms=origin.draft_ms,
        )
        self._adopt(window)
        self._say(words.ran(window.T))
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
        self._remember()
        # What was committed is no draft any more.
        self._fill("")
        stopped = self.root in self._model.stop_ids
        self._say(words.kept(report, stopped=stopped))
        self._redraw(*CHARTS)
        return report

    def abort(self) -> None:
        """Close the open window as if it had not been run.

        Raises:
            ValueError: nothing was run.
            StrataError: as the engine words it.
        """
        self._engine.abort(self._opened())
        self._say("Aborted: the engine is as before Run.")
        self._redraw("union")

    def back(self, *, position: SupportsIndex | None = None) -> int:
        """Go back to a checkpoint, as if what was committed since had never been.

        The engine that was passed here is the one that goes back: its state, its root
        and its trace. Text, charts and the drafter's history follow, and the
        checkpoints behind that place are dropped. The state travels as `engine.save`
        writes it, all live cells and nothing else: so a planted fault that hides in
        other cells may be mended on the way.

        Args:
            position: committed cells there, one of `checkpoints`; None goes to the
                newest.

        Returns:
            The position.

        Raises:
            ValueError: no checkpoint is there.
            WindowOpenError: a window is open.
            OSError: there is no room for the file that hands the state over.
        """
        engine = self._engine
        refusals.open_window(engine.window, "back")
        before = len(predicting(engine.trace))
        self._checkpoints.go_back(engine, position)
        self._window, self._choices, self._moved = None, [], None
        self._round += 1
        self._proposals.follow(self._history())
        undone = before - len(predicting(engine.trace))
        self._say(words.went_back(engine.position, undone))
        self._redraw(*CHARTS)
        return engine.position

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
        self._look()
        self._redraw(*CHARTS)

    # What follows serves the page.

    def _look(self) -> None:
        if self._engine.window is not None and self._engine.window is not self._window:
            self._adopt(self._engine.window)
        # Where a verb is under way, or a window open, there is nothing to go back to.
        with contextlib.suppress(WindowOpenError, EngineBusyError):
            self._remember()
        self._publish()

    def _heard(self, _: Any, message: dict[str, Any], __: Any) -> None:
        kind, before = str(message.get("kind")), self._view
        self._answered = str(message.get("ask", ""))
        try:
            self._do(kind, message)
        except (StrataError, ValueError, OSError) as error:
            self._say(str(error), kind="error")
        finally:
            # Whatever happened, the page must hear an answer, or its buttons stay off.
            # Only a draft that is being typed has its preview, and nobody waits.
            if self._view is before and kind != "preview":
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
            case "take":
                self.take()
            case "back":
                self.back(position=int(message["position"]))
            case "suggest":
                draft = self.suggest(wrong=bool(message["wrong"]))
                self._proposals.forget()
                self._fill(draft)

    def _opened(self) -> Window:
        """The window that Finish, Commit and Abort act on, open or not."""
        window = self._engine.window or self._window
        if window is None:
            raise ValueError("no window is open; Run one first")
        return window

    def _remember(self) -> None:
        """Leave a checkpoint here, and tell the drafter of the text."""
        self._checkpoints.add(self._engine)
        self._proposals.follow(self._history())

    def _read(self, draft: str) -> list[int]:
        return tokens.parse_draft(self._model, draft, vocabulary=self._vocabulary)

    def _adopt(self, window: Window) -> None:
        self._window = window
        self._moved = None
        self._round += 1
        self._choices = view.top_choices(self._model, window.logits)
        # The trace is as it was, and the other charts with it.
        self._redraw("union")

    def _move_keep(self, keep: int) -> None:
        window = self._window
        if window is not None and window.phase == "finished":
            self._moved = min(max(keep, 1), window.T)
