"""How rows of logits are compared: same, near-tie or fault."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from strata_nb.gates.records import By, Finding, Moment

Rows = npt.NDArray[np.float64]

TOLERANCE = 1e-3
"""Logits of two runs may differ by this much, relative to their root mean square."""

LARGEST_FLOOR = 0.1
"""No rounding is larger than this, relative to the logits' root mean square."""


@dataclass(frozen=True)
class Bounds:
    """How far two runs of one engine may part.

    Attributes:
        scale: root mean square of its logits.
        floor: absolute difference of two logits that rounding makes; None where it is
            not known, and then no near-tie is granted.
    """

    scale: float
    floor: float | None = None

    @property
    def limit(self) -> float:
        """The largest absolute difference of logits that is no fault."""
        return max(TOLERANCE * self.scale, self.floor or 0.0)


@dataclass
class Judge:
    """Compares rows until the first fault, which later rows only repeat.

    Attributes:
        bounds: how far rows may part.
        findings: near-ties in order, then at most one fault.
        largest: the largest difference of logits that was seen.
    """

    bounds: Bounds
    findings: list[Finding] = field(default_factory=list)
    largest: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether a fault was found."""
        return any(f.kind == "fault" for f in self.findings)

    def rows(
        self,
        got: Rows,
        want: Rows,
        *,
        cell: int,
        by: By = "replay",
        moment: Moment = "after",
        note: str = "",
    ) -> None:
        """Compare rows [T, V] whose first has the absolute cell `cell`.

        Args:
            got: of the engine, after whatever the experiment did to it.
            want: of the same tokens in a run that it was not done to.
            cell: of the first row.
            by: the kind of comparison.
            moment: in the window itself, or in rows that follow.
            note: words to begin a finding's note with.
        """
        for row, (g, w) in enumerate(zip(got, want, strict=True)):
            if self.failed:
                return
            self._row(g, w, cell=cell + row, by=by, moment=moment, note=note)

    def _row(
        self, got: Rows, want: Rows, *, cell: int, by: By, moment: Moment, note: str
    ) -> None:
        size = _distance(got, want)
        self.largest = max(self.largest, size)
        # The lowest index wins a tie on both sides.
        token, right = int(got.argmax()), int(want.argmax())
        if size <= self.bounds.limit and token == right:
            return
        floor = self.bounds.floor
        near = floor is not None and size <= floor
        words = (
            f"logits differ by {size:.1e}, {size / self.bounds.scale:.1e} of their size"
        )
        if token != right:
            words = f"{token} comes next and not {right}; {words}"
        if not near and size <= self.bounds.limit:
            # Too little for a fault by itself; only the token says that it is one.
            words += (
                "; how much rounding makes is unknown"
                if floor is None
                else f"; rounding makes {floor:.1e}"
            )
        self.findings.append(
            Finding(
                kind="near-tie" if near else "fault",
                by=by,
                moment=moment,
                what="logits" if token == right else "token",
                cell=cell,
                size=size,
                gap=float(want[right] - want[token]) if near else None,
                note=note + words,
            )
        )

    def rule(self, note: str) -> None:
        """Record that the engine broke a rule, said in words."""
        self.findings.append(
            Finding(kind="fault", by="rule", moment="after", what="rule", note=note)
        )


def _distance(got: Rows, want: Rows) -> float:
    """Largest absolute difference; infinite where one of the two is not finite."""
    size = float(np.abs(got - want).max())
    return size if np.isfinite(size) else float("inf")
