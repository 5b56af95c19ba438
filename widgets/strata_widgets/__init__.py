"""What a person sees: views of a trace and an engine."""

from strata_widgets._base import StrataWidget
from strata_widgets.hand_drafts import HandDrafts
from strata_widgets.live_chart import LiveChart
from strata_widgets.still import Still

__all__ = ["HandDrafts", "LiveChart", "Still", "StrataWidget"]
