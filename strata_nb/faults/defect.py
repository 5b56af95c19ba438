"""What every planted defect says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Defect:
    """One defect, of a part or of a policy.

    Attributes:
        name: what it is asked for by.
        part: the kind of state in which it starts.
        what: the defect, in one sentence.
        shows: when it can be seen.
        report: address of a public report of its kind; empty for one of your own.
        families: of the gates' cases, those in which it can show.
        context: where in a text it shows at least cost, as the gates name places; None:
            anywhere.
        options: engine options without which it cannot act, such as fold="lazy".
        planted_by: the call that plants one of this kind.
    """

    planted_by: ClassVar[str]

    name: str
    part: str
    what: str
    shows: str
    report: str = ""
    families: tuple[str, ...] = ()
    context: str | None = None
    options: Mapping[str, object] = field(default_factory=dict, hash=False)
