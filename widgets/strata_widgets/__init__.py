"""What a person sees: views of a trace and an engine."""

from strata_widgets._base import Still, StrataWidget
from strata_widgets.hand_drafts import HandDrafts
from strata_widgets.live_chart import LiveChart

__all__ = ["HandDrafts", "LiveChart", "Still", "StrataWidget"]
