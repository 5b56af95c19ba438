"""Build the one Vega bundle that every chart shares.

The bytes repeat with the same vl-convert, so a test compares the committed file with
the digest in the file beside it. Needs the `lab` extra; run it after changing a
version here.
"""

import hashlib
from pathlib import Path

TARGET = (
    Path(__file__).resolve().parents[1]
    / "widgets/strata_widgets/live_chart/vega_lib.js"
)
VEGA_LITE = "6.4"
# anywidget hands what `initialize` returns to any widget that asks its host for it.
SOURCE = "export default { initialize() { return { vegaEmbed }; } };\n"


def bundle() -> str:
    """Return the bundle as JavaScript text: vega, vega-lite and vega-embed."""
    import vl_convert

    return str(vl_convert.javascript_bundle(SOURCE, vl_version=VEGA_LITE))


def digest(text: str) -> str:
    """Return the SHA-256 of `text`, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    """Write the bundle and its digest beside it."""
    text = bundle()
    TARGET.write_text(text, encoding="utf-8")
    TARGET.with_suffix(".sha256").write_text(digest(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
