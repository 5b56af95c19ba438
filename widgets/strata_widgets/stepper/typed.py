"""What a person is told about a draft while typing it."""

from typing import Any

from strata_nb.backend import Text
from strata_nb.trace.text import counted
from strata_widgets import tokens
from strata_widgets.charts import MOST_DRAFTS


def typed(model: Text, draft: str, *, vocabulary: int) -> dict[str, Any]:
    """Return a typed draft for the page.

    Args:
        model: what knows the text of tokens.
        draft: what was typed.
        vocabulary: token ids that the model knows, V.

    Returns:
        `count` in words, the first `chips` and what `more` there is, what is wrong
        (`error`), and `why` it can't be run; each empty where there is nothing to say.
    """
    shown: dict[str, Any] = {
        "count": "",
        "chips": [],
        "more": "",
        "error": "",
        "why": "",
    }
    try:
        ids = tokens.parse_draft(model, draft, vocabulary=vocabulary)
    except ValueError as error:
        return shown | {"error": str(error), "why": "the draft can't be read"}
    if ids:
        shown |= {"count": counted(len(ids), "draft")}
        shown |= {"chips": tokens.chips(model, ids[:MOST_DRAFTS])}
    over = len(ids) - MOST_DRAFTS
    if over > 0:
        more = f"… {over} more; a window takes at most {MOST_DRAFTS} drafts"
        shown |= {"more": more, "why": f"{len(ids)} drafts, at most {MOST_DRAFTS}"}
    return shown
