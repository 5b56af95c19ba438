"""Requests: windows in a row, on an engine or in a session that remembers."""

from strata_nb.session.decode import Generated, generate
from strata_nb.session.presets import PRESETS, Preset
from strata_nb.session.reply import Reply
from strata_nb.session.session import Session

__all__ = ["PRESETS", "Generated", "Preset", "Reply", "Session", "generate"]
