"""Draw each widget once, for docs/gallery.md.

    python tools/make_gallery.py            all pictures and the page
    python tools/make_gallery.py Timeline   one picture, and the page
    python tools/make_gallery.py --record   the run with times, anew

Economics shows the recorded run beside the pictures. The waits in SlotsAndIO are those
of the machine that draws them; the rest comes out the same again.
"""

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import strata_nb
import strata_widgets
from strata_nb import Session, Trace
from strata_nb.draft import SuffixLookup
from strata_nb.experts import Streaming
from strata_nb.trace import Leaf
from strata_widgets import StrataWidget, state_charts
from strata_widgets.state_charts import Box

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "gallery.md"
FOLDER: Final = ROOT / "docs" / "gallery"
RECORDED: Final = FOLDER / "run.parquet"
PROMPT: Final = "def area(w, h):\n    return w * h\n\n\ndef area2(w"


def session(**how: Any) -> Session:
    """A session that has answered one request with drafts."""
    made = Session(strata_nb.load("strata-tiny", **how), drafter=SuffixLookup(most=7))
    made.reply(PROMPT, max_new=96)
    return made


def stepper() -> StrataWidget:
    """A window with a mismatch."""
    model = strata_nb.load("strata-tiny")
    made = strata_widgets.Stepper(model.engine(), prompt=PROMPT)
    made.run(draft=", h):\n    return 2")
    made.finish()
    return made


def timeline() -> StrataWidget:
    """A run, one of its windows selected."""
    made = strata_widgets.Timeline(session())
    made.select(window=8)
    return made


def live_run() -> StrataWidget:
    """A request at its end."""
    made = strata_widgets.LiveRun(
        Session(strata_nb.load("strata-tiny"), preset="seed_stage1"),
        prompt=PROMPT,
        max_new=48,
    )
    made.run()
    return made


def slots_io() -> StrataWidget:
    """A run whose experts come from disk."""
    run = session(experts=Streaming(slots=32))
    return strata_widgets.SlotsAndIO(run, model=run.model)


def expert_map() -> StrataWidget:
    """One window of eight rows."""
    made = strata_widgets.ExpertMap(session())
    widest = max(range(len(made.trace)), key=lambda n: made.trace[n].offered)
    made.select(window=widest, layer=2)
    return made


def qsa_tail() -> StrataWidget:
    """The worked counterexample at its last moment."""
    return strata_widgets.TailView(behaviour="qsa_ring", start=5, T=4, keep=1)


def fold() -> StrataWidget:
    """Folds of a run."""
    return strata_widgets.FoldView(session())


def rejected(fault: str | None) -> strata_nb.Engine:
    """An engine after a window of which the root alone stays."""
    model = strata_nb.load("strata-tiny")
    engine, ids = model.engine(fault=fault), model.encode(PROMPT)
    engine.prefill(ids[:-1])
    window = engine.run([ids[-1], 5, 6, 7])
    engine.finish(window)
    engine.commit(window, keep=1)
    return engine


def state_diff() -> StrataWidget:
    """Where a defect has left its mark."""
    return strata_widgets.StateDiff(rejected(None), rejected("ple_tokens_kept"))


def histories() -> StrataWidget:
    """The same defect, cell by cell."""
    return strata_widgets.Histories(rejected("ple_tokens_kept"), beside=rejected(None))


def fault_switch() -> StrataWidget:
    """Whose tokens PLE remembers after a rejection."""

    def draw(fault: str | None) -> Any:
        ids = rejected(fault).leaves()[Leaf("ple_tokens", None, "ids")].tolist()
        kept = strata_nb.load("strata-tiny").encode(PROMPT)[-len(ids) :]
        boxes = [
            Box("now", f"{len(ids) - at} back", f"#{token}", state(token == kept[at]))
            for at, token in enumerate(ids)
        ]
        words = "Tokens that PLE remembers after a rejected draft"
        drawn = state_charts.boxes(
            boxes, title=words, description=f"{words}.", down="token"
        )
        return drawn, f"{sum(b.state == 'rejected' for b in boxes)} of them rejected"

    def state(right: bool) -> Any:
        return "committed" if right else "rejected"

    return strata_widgets.FaultSwitch(
        draw, faults="ple_tokens_kept", planted="ple_tokens_kept"
    )


def gate_board() -> StrataWidget:
    """A gate at its end."""
    made = strata_widgets.GateBoard("gate_1")
    made.run_to_end()
    return made


MAKERS: Final[dict[str, Callable[[], StrataWidget]]] = {
    "Stepper": stepper,
    "Timeline": timeline,
    "Acceptance": lambda: strata_widgets.Acceptance(session()),
    "Economics": lambda: strata_widgets.Economics(Trace.load(RECORDED), times=True),
    "LengthRule": lambda: strata_widgets.LengthRule(acceptance=80, row_ms=6),
    "ExpertMap": expert_map,
    "SlotsAndIO": slots_io,
    "TailView": qsa_tail,
    "FoldView": fold,
    "Histories": histories,
    "StateDiff": state_diff,
    "GateBoard": gate_board,
    "LiveRun": live_run,
    "FaultSwitch": fault_switch,
}


def main(names: Sequence[str]) -> None:
    """Draw the named widgets, or all, and write the page."""
    FOLDER.mkdir(exist_ok=True)
    if "--record" in names:
        session().trace.save(RECORDED)
        return
    for name in names or MAKERS:
        picture = MAKERS[name]().snapshot().png()
        (FOLDER / f"{name}.png").write_bytes(picture)
        sys.stdout.write(f"{name}: {len(picture)} bytes\n")
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The gallery as Markdown: each widget's own words, an example, a picture."""
    parts = [
        "# Gallery",
        "Each widget as it stands in a page without a kernel. `python "
        "tools/make_gallery.py` draws them again.",
    ]
    for name in MAKERS:
        words = inspect.getdoc(getattr(strata_widgets, name)) or ""
        first, _, rest = words.partition("\n\n")
        lines = [line[4:] for line in rest.splitlines() if line[:8] == "    >>> "]
        code = "\n".join(line[4:] for line in lines)
        example = f"```python\n{code}\n```" if code else ""
        picture = f"![{first}](gallery/{name}.png)"
        parts += [f"## {name}", first, *([example] if example else []), picture]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
