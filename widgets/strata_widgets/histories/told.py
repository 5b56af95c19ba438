"""What is remembered at one cell, as plain data."""

from dataclasses import dataclass

from strata_nb.slop import SlopState

PROMPT, EMITTED, PAD = "prompt", "emitted", "pad"
OPEN, ROOT, UNKNOWN = "row of the open window", "root, not run yet", "not in the trace"


@dataclass(frozen=True)
class Told:
    """A cell, and what the histories hold after it.

    Attributes:
        cell: absolute.
        token: None where nothing tells it.
        what: "prompt", "emitted", "pad" and so on.
        window: in which it was committed.
        held: what the part `ple_tokens` holds, the latest last; None: not known.
        is_read: `held` was read from the state; else it follows from the tokens.
        text: the ids of the tokens themselves, as `held`.
        penalties: the state of the penalties, None where there are none.
        penalised: how many tokens they would penalise next.
    """

    cell: int
    token: int | None
    what: str
    window: int | None = None
    held: tuple[int, ...] | None = None
    is_read: bool = False
    text: tuple[int, ...] | None = None
    penalties: SlopState | None = None
    penalised: int | None = None

    @property
    def is_stale(self) -> bool:
        """Whether the part holds other tokens than those of the text."""
        return None not in (self.held, self.text) and self.held != self.text

    def parts_from(self, other: "Told | None") -> tuple[str, ...]:
        """What is another thing at the same cell of `other`; None: no such cell."""
        if other is None:
            return ("no such cell",)
        named = {
            "token": (self.token, other.token),
            "PLE": (self.held, other.held),
            "penalties": (self.penalties, other.penalties),
        }
        return tuple(name for name, (one, two) in named.items() if one != two)
