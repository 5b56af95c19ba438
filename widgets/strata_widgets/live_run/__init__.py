"""`LiveRun`: a request that runs while its views are drawn.

The request has a thread of its own and never waits for the page: it writes records into
the session's trace, and the kernel's loop looks there a few times a second.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from strata_nb import Reply, Session
from strata_widgets.job import Job
from strata_widgets.pace import LOOKS_HZ, Ticker
from strata_widgets.panel import Panel
from strata_widgets.panel.control import Control, button
from strata_widgets.together import together

RequestJob: TypeAlias = Job[str, Reply]

# Characters of the text that stay on the page.
_SHOWN: Final = 2000


class View(Protocol):
    """What follows a run."""

    def refresh(self) -> None:
        """Look at the trace again."""


class LiveRun(Panel):
    """Run and Cancel for one request, and views that move while it runs.

    Example:
        >>> line = Timeline(session)
        >>> live = LiveRun(session, prompt="def area(r):", views=[line])
        >>> ipywidgets.VBox([live, line])
        >>> live.run()  # the same without a page: waits for the end
    """

    TITLE = "Live run"

    # Here too: a widget that could not be made is closed all the same.
    _job: RequestJob | None = None

    def __init__(
        self,
        session: Session,
        *,
        prompt: str | Sequence[int],
        max_new: int = 256,
        views: Sequence[View] = (),
        **how: Any,
    ) -> None:
        """Make a request ready; nothing runs yet.

        Args:
            session: answers it.
            prompt: its whole text, or its tokens.
            max_new: tokens to emit at most.
            views: widgets that follow.
            **how: as `Session.reply` takes it, without `show` and `cancel`.

        Raises:
            TypeError: `session` is none, or a view can't be refreshed.
        """
        if not isinstance(session, Session):
            raise TypeError(
                f"a Session is wanted, got {type(session).__name__}; make one with "
                "`Session(model)`"
            )
        for view in views:
            if not callable(getattr(view, "refresh", None)):
                raise TypeError(
                    f"a view wants a method `refresh`, got {type(view).__name__}"
                )
        self._session, self._views = session, tuple(views)
        self._prompt, self._most, self._how = prompt, max_new, how
        # The end of the text, as much as the page shows.
        self._said = ""
        self._reply: Reply | None = None
        self._ticker = Ticker(self._look, hz=LOOKS_HZ)
        super().__init__()

    @property
    def running(self) -> bool:
        """Whether a request is under way."""
        return self._job is not None

    @property
    def reply(self) -> Reply | None:
        """What came of the last request; None before its end."""
        return self._reply

    def start(self) -> None:
        """Run the request on a thread of its own; nothing while one is under way.

        Raises:
            RuntimeError: outside a notebook, where nobody would look; use `run`.
        """
        if self.running:
            return
        # It raises where there is no loop, before anything is forgotten.
        self._ticker.start(instead="`run`")
        self._begin().start()
        self.update()

    def cancel(self) -> None:
        """End the request after the window that is under way; what it gave stays."""
        if self._job is not None:
            self._job.stop()

    def close(self) -> None:
        """Cancel what runs, and leave the page."""
        self.cancel()
        super().close()

    def run(self) -> Reply:
        """Run the request here, to its end, and show it.

        Raises:
            RuntimeError: one is under way.
            StrataError: as the session words it.
        """
        if self.running:
            raise RuntimeError("a request is under way; `cancel` it, or wait")
        job = self._begin()
        try:
            return job.run()
        finally:
            self._end(job)

    def _begin(self) -> RequestJob:
        self._said, self._reply = "", None
        self._note = {"kind": "note", "text": ""}
        self._job = job = Job(self._ask, kind="request", name="strata-live-run")
        return job

    def _ask(self, show: Callable[[str], None], cancel: Callable[[], bool]) -> Reply:
        return self._session.reply(
            self._prompt, max_new=self._most, show=show, cancel=cancel, **self._how
        )

    def _look(self) -> bool:
        job = self._job
        if job is None:
            return False
        # Asked first: what comes between the two questions is not lost.
        alive = job.alive
        if alive:
            self._show(job)
        else:
            self._end(job)
        return alive

    def _end(self, job: RequestJob) -> None:
        self._job, self._reply = None, job.outcome
        if job.failed is not None:
            self._note = {"kind": "error", "text": str(job.failed)}
        self._show(job)

    def _show(self, job: RequestJob) -> None:
        self._said = (self._said + "".join(job.taken()))[-_SHOWN:]
        with together():
            for view in self._views:
                view.refresh()
            self.update()

    def _controls(self) -> Sequence[Control]:
        return [
            button("run", "Run", enabled=not self.running),
            button("cancel", "Cancel", enabled=self.running),
        ]

    def _act(self, name: str, value: Any, values: Mapping[str, Any]) -> None:
        if name == "run":
            self.start()
        elif name == "cancel":
            self.cancel()

    def _prose(self) -> str:
        return self._said

    def _status(self) -> str:
        if self.running:
            return f"running: {len(self._session.trace)} windows"
        reply = self._reply
        if reply is None:
            return "ready"
        said = f"{len(reply.tokens)} tokens in {reply.windows} windows"
        if reply.offered:
            said += f", {reply.accepted} of {reply.offered} drafts accepted"
        return f"{said}; ended by {reply.stop}"
