"""Why drafts make a text slower: a trace's times, held against the formulas."""

from .diagnosis import Cause, Diagnosis, Number, Share
from .why import why_slower

__all__ = ["Cause", "Diagnosis", "Number", "Share", "why_slower"]
