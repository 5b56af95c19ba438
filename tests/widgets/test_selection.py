"""What is selected: its names and numbers, and views that share it."""

import pytest
import traitlets

from strata_widgets import Timeline, link
from strata_widgets.selection import Selected
from widgets.fake_trace import trace


class Looks(traitlets.HasTraits):
    selection = Selected()


def test_nothing_is_selected_at_first_and_parts_may_be_left_out() -> None:
    view = Looks()
    assert view.selection == {"window": None, "layer": None, "cell": None}
    view.selection = {"layer": 3}
    assert view.selection == {"window": None, "layer": 3, "cell": None}
    assert Looks().selection["layer"] is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"row": 1}, "`selection` knows window, layer, cell, got 'row'"),
        ({"window": -1}, "`window` must be None or an index in the trace"),
        ({"cell": 1.5}, "`cell` must be None or an absolute position"),
        ({"layer": True}, "`layer` must be None or a layer of the model"),
        (7, "must be a dict of `window`, `layer`, `cell`"),
    ],
)
def test_what_is_no_selection_is_refused(wrong: object, words: str) -> None:
    view = Looks()
    view.selection = {"window": 2}
    with pytest.raises(traitlets.TraitError, match=words):
        view.selection = wrong
    assert view.selection["window"] == 2


def test_linked_views_move_each_other_until_they_are_unlinked() -> None:
    one, two, three = Looks(), Looks(), Looks()
    one.selection = {"window": 1}
    unlink = link(one, two, three)
    assert two.selection == three.selection == one.selection
    two.selection = {"window": 4, "cell": 9}
    assert one.selection == three.selection == {"window": 4, "layer": None, "cell": 9}
    unlink()
    one.selection = {}
    assert two.selection["window"] == 4


def test_a_view_with_a_shorter_trace_says_so_and_keeps_what_it_shows() -> None:
    long, short = Timeline(trace(40)), Timeline(trace(3))
    link(long, short)
    long.select(window=30)
    assert short.selection["window"] == 30
    assert "window 30 is selected, which this trace lacks" in repr(short)
    assert short.span == (0, 63)


def test_link_wants_two_views() -> None:
    with pytest.raises(ValueError, match="two widgets or more, got 1"):
        link(Looks())
    with pytest.raises(TypeError, match="with a `selection`, got HasTraits"):
        link(Looks(), traitlets.HasTraits())
