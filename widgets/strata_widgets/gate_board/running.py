"""A panel with something long at work, on a thread of its own or here."""

import time
from typing import Any, TypeAlias

from strata_nb.gates import CaseResult, Report
from strata_widgets.job import Job
from strata_widgets.pace import LOOKS_HZ, Ticker
from strata_widgets.panel import Panel

GateJob: TypeAlias = Job[CaseResult, Report]


class RunningPanel(Panel):
    """Begins a job, looks at what comes of it, and ends it.

    A subclass gives `_clear`, `_take` and `_finished`.
    """

    _job: GateJob | None = None

    def __init__(self, **traits: Any) -> None:
        self._ended = ""
        self._looked_at = 0.0
        self._ticker = Ticker(self._look, hz=LOOKS_HZ)
        super().__init__(**traits)

    @property
    def running(self) -> bool:
        """Whether gates are at work."""
        return self._job is not None

    def cancel(self) -> None:
        """End after the case that is under way; what was judged stays."""
        if self._job is not None:
            self._job.stop()
            self._publish()

    def close(self) -> None:
        """Cancel what runs, and leave the page."""
        if self._job is not None:
            self._job.stop()
        super().close()

    # What a subclass does with a job.

    def _clear(self, job: GateJob) -> None:
        """Forget what `job` is going to fill."""

    def _take(self, job: GateJob) -> None:
        """Take what came of `job` since the last call."""

    def _finished(self, report: Report, job: GateJob) -> None:
        """All of `job` was taken, and this is its report."""

    # What follows runs it.

    def _run_there(self, job: GateJob) -> None:
        if not self.running:
            # It raises where there is no loop, before anything is cleared.
            self._ticker.start(instead="`run_to_end` or `plant_to_end`")
            self._begin(job)
            job.start()

    def _run_here(self, job: GateJob) -> Report:
        if self.running:
            raise RuntimeError("gates are at work already; `cancel` them, or wait")
        self._begin(job)
        try:
            return job.run(self._now_and_then)
        except BaseException as error:
            job.failed = error
            raise
        finally:
            self._end(job)

    def _begin(self, job: GateJob) -> None:
        self._job, self._ended = job, ""
        self._note = {"kind": "note", "text": ""}
        self._clear(job)
        self.update()

    def _now_and_then(self) -> None:
        """In a run that holds this thread: look as often as the ticker would."""
        job = self._job
        if job is not None and time.monotonic() - self._looked_at >= 1 / LOOKS_HZ:
            self._looked_at = time.monotonic()
            self._take(job)
            self.update()

    def _look(self) -> bool:
        job = self._job
        if job is None:
            return False
        # Asked first: what comes between the two questions is not lost.
        alive = job.alive
        if alive:
            self._take(job)
            self.update()
        else:
            self._end(job)
        return alive

    def _end(self, job: GateJob) -> None:
        self._take(job)
        self._job = None
        planting = ", planting" if job.kind == "plant" else ","
        if job.outcome is not None:
            self._finished(job.outcome, job)
        elif job.stopping or isinstance(job.failed, KeyboardInterrupt):
            self._ended = f"{planting} cancelled"
        else:
            self._ended = f"{planting} broken off"
            self._note = {"kind": "error", "text": str(job.failed)}
        self.update()
        for chart in self._live.values():
            chart.flush()
        self._pace.flush()

    def _doing(self) -> str:
        """What is at work or how it ended, after the name of what was asked."""
        if self._job is None:
            return self._ended
        if self._job.stopping:
            return ", cancelling"
        return ", planting faults" if self._job.kind == "plant" else ", running"
