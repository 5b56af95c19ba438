"""Defects of a drafter's history, around any drafter."""

from collections.abc import Sequence

from strata_nb.draft import Draft, Drafter, history_of
from strata_nb.faults.policy import PolicyFault


class _Around:
    """A drafter that does what another one does."""

    def __init__(self, sound: Drafter) -> None:
        self._sound = sound

    @property
    def drafters(self) -> Sequence[Drafter]:
        """The other one."""
        return (self._sound,)

    @property
    def name(self) -> str:
        """The other one's."""
        return self._sound.name

    @property
    def history(self) -> Sequence[int] | None:
        """The other one's; None where it does not show it."""
        return history_of(self._sound)

    def assign(self, tokens: Sequence[int]) -> None:
        """As the other one."""
        self._sound.assign(tokens)

    def append(self, tokens: Sequence[int]) -> None:
        """As the other one."""
        self._sound.append(tokens)

    def propose(self, most: int) -> Draft:
        """As the other one."""
        return self._sound.propose(most)


class KeepsRejected(_Around):
    """A drafter that takes its own rejected drafts for text."""

    def __init__(self, sound: Drafter) -> None:
        super().__init__(sound)
        self._drafts: tuple[int, ...] = ()

    def propose(self, most: int) -> Draft:
        """As the other one; what it proposes is remembered."""
        draft = super().propose(most)
        self._drafts = draft.tokens[:most]
        return draft

    def append(self, tokens: Sequence[int]) -> None:
        """The rejected drafts too, before the token that came instead of them."""
        accepted = max(len(tokens) - 1, 0)
        rejected, self._drafts = self._drafts[accepted:], ()
        super().append([*tokens[:accepted], *rejected, *tokens[accepted:]])


class KeepsRequests(_Around):
    """A drafter that goes on with what earlier requests said."""

    def assign(self, tokens: Sequence[int]) -> None:
        """Append the new text to the old one."""
        super().append(tokens)


FAULTS = (
    PolicyFault(
        name="drafter_rejected_kept",
        part="drafter",
        what="rejected drafts stay in the history that drafts are looked up in",
        shows="after every rejection; the text is right, the drafts are worse",
        report="https://github.com/ggml-org/llama.cpp/issues/22105",
        families=("choices",),
        drafter=KeepsRejected,
    ),
    PolicyFault(
        name="drafter_across_requests",
        part="drafter",
        what="a request's drafts are looked up in the texts of earlier requests too",
        shows="from the second request on: drafts made of somebody else's text",
        report="https://github.com/ggml-org/llama.cpp/issues/27852",
        families=("requests",),
        drafter=KeepsRequests,
    ),
)
