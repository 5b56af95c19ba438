"""What can go wrong, by kind; a message says what was wanted, what came, what to do."""


class StrataError(Exception):
    """Any error of this package that a caller can act on."""


class CheckpointError(StrataError):
    """A checkpoint cannot be read; the message names file or tensor and remedy."""


class SavedStateError(StrataError):
    """A saved engine cannot be restored; the message names what does not fit."""


class TraceError(StrataError):
    """A trace file does not follow its schema; the message names the column."""


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


class ContextLimitError(StrataError, ValueError):
    """The window would pass the end of the context."""
