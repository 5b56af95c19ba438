"""Approximate routings by the protocol of gate_5: quality first, work beside it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from strata_nb import prompts
from strata_nb.gates.gate_5.comparison import Comparison, Setting
from strata_nb.gates.gate_5.measured import measured
from strata_nb.model import Model
from strata_nb.policies.routing import Routing
from strata_nb.prompts import KINDS, Kind

ROWS = 8
"""Of a window under teacher forcing, as in the gate."""
_DECODED = 16


def compared(
    model: Model,
    routings: Sequence[Routing],
    *,
    kind: Kind,
    tokens: int,
    begin: Callable[[], Model],
) -> Iterator[dict[str, Any]]:
    """Each policy beside the exact model, on the text of a kind, a row for each.

    Args:
        model: encodes the text.
        routings: which experts a row uses.
        kind: of the text: its probe, or of an agent, which has none, a prompt.
        tokens: of the text, at most.
        begin: gives the model anew, as an engine is to find it.
    """
    probed = kind in KINDS
    ids = (
        model.encode(prompts.probe(kind)) if probed else prompts.prompts(model, kind)[0]
    )[:tokens]
    setting = Setting(
        texts=((kind, len(ids)),), rows=ROWS, decoded=min(_DECODED, len(ids) // 2)
    )
    for routing in routings:
        quality, exact, work = measured(begin, routing, ids, setting)
        # It refuses work without quality, and names that do not say what they are.
        made = Comparison(
            routing.name, routing.lossless, setting, {kind: quality}, exact, work
        )
        (row,) = made.rows()
        yield {
            "policy": row["policy"],
            "text": "probe" if probed else "prompt",
            "predictions": quality.predictions,
            "exact_nats": quality.exact_nats,
            "nats": quality.nats,
            "agreement": quality.agreement,
            "kl": quality.kl,
            "alike": quality.alike,
            "decoded": quality.decoded,
            "windows": work.windows,
            "experts": work.experts_read,
            "exact_experts": exact.experts_read,
            "misses": work.misses,
            "exact_misses": exact.misses,
            "bytes_read": work.bytes_read,
            "ms": work.ms,
            "exact_ms": exact.ms,
        }
