import itertools

import altair as alt
import numpy as np
import pytest

from strata_widgets import theme

# Machado, Oliveira and Fernandes 2009, severity 1: what each missing cone leaves.
CONES = {
    "all": np.eye(3),
    "no red": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "no green": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "no blue": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array(
    [
        [0.4124, 0.3576, 0.1805],
        [0.2126, 0.7152, 0.0722],
        [0.0193, 0.1192, 0.9505],
    ]
)


def linear(colour: str) -> np.ndarray:
    share = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(XYZ[1] @ linear(colour))


def lab(light: np.ndarray) -> np.ndarray:
    xyz = XYZ @ np.clip(light, 0, 1) / np.array([0.9505, 1, 1.089])
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array(
        [116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])]
    )


@pytest.mark.parametrize("cones", CONES)
def test_any_two_colours_stay_apart(cones: str) -> None:
    seen = {r: lab(CONES[cones] @ linear(c)) for r, c in theme.PALETTE.items()}
    for one, other in itertools.combinations(seen, 2):
        distance = np.linalg.norm(seen[one] - seen[other])
        assert distance > 18, f"{one} and {other} look alike with {cones}"


@pytest.mark.parametrize("page", ["#ffffff", "#111111"])
def test_each_colour_stands_out_from_the_page(page: str) -> None:
    for role, colour in theme.PALETTE.items():
        light, dark = sorted((luminance(page), luminance(colour)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, role


def test_each_role_has_a_word_and_a_css_variable() -> None:
    assert set(theme.WORDS) == set(theme.PALETTE)
    for role, colour in theme.PALETTE.items():
        assert f"--strata-{role}: {colour};" in theme.css_variables()


def test_a_chart_without_description_is_refused() -> None:
    bare = alt.LayerChart(layer=[alt.Chart().mark_bar()])
    with pytest.raises(ValueError, match="`description` must say"):
        theme.dressed(bare, title="t", description=" ")


def test_the_theme_can_be_enabled_but_is_not() -> None:
    assert "strata" in alt.theme.names()
    assert alt.theme.active != "strata"
