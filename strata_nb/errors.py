"""What can go wrong, by kind; a message says what was wanted, what came, what to do."""


class StrataError(Exception):
    """Any error of this package that a caller can act on."""


class CheckpointError(StrataError):
    """A checkpoint cannot be read; the message names file or tensor and remedy."""


class SavedStateError(StrataError):
    """A saved engine cannot be restored; the message names what does not fit."""


class TraceError(StrataError):
    """A trace file does not follow its schema; the message names the column."""


class ExpertFileError(StrataError):
    """An expert file cannot be used or made; the message names what does not fit."""


class ExpertReadError(StrataError):
    """An expert could not be read; the message names file, layer and expert."""


class SlotPoolError(StrataError):
    """Expert slots cannot be had: the pool is closed, or nobody could free one."""


class TakeCancelledError(StrataError):
    """Whoever waited for experts was told to stop; nothing stays pinned."""


class PhraseFileError(StrataError, ValueError):
    """A file of phrases cannot be read; the message names its line."""


class GateError(StrataError):
    """A gate missed, could not run, or its report cannot be read; the message says."""


class EngineBusyError(StrataError):
    """Another thread is inside a verb of this engine."""


class NotFiniteError(StrataError):
    """The model produced a NaN or an infinity; the window was discarded."""


class TransactionError(StrataError):
    """A verb was called out of order; nothing has changed."""


class WindowOpenError(TransactionError):
    """`run`, `prefill`, `save`, `fork` … while a window is open."""


class AlreadyFinishedError(TransactionError):
    """`finish` was called twice for one window."""


class NotFinishedError(TransactionError):
    """`commit` was called before `finish`."""


class WindowClosedError(TransactionError):
    """The window was already committed or aborted."""


class ForeignWindowError(TransactionError):
    """The window belongs to another engine."""


class KeepError(TransactionError, ValueError):
    """`keep` is outside what this window allows."""


class NoDraftError(StrataError):
    """The draft head is off, or has nothing to draft from; the message says what."""


class ContextLimitError(StrataError, ValueError):
    """The window would pass the end of the context."""
