"""Draw the badges of the README: two from pyproject.toml, two from this file.

python tools/make_badges.py
"""

import sys
import tomllib
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "docs" / "badges"
# Pixels of a letter, about, and of the air beside a word.
_LETTER, _AIR = 7, 12


def badges() -> dict[str, str]:
    """Each badge as SVG, by the name of its file."""
    file = ROOT / "pyproject.toml"
    project: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    words = {
        "python": project["requires-python"].removeprefix(">=") + " or newer",
        "licence": str(project["license"]),
        "runs": "offline, on Linux; macOS untried",
        "binder": "files here, not built yet",
    }
    return {f"{name}.svg": drawn(name, value) for name, value in words.items()}


def drawn(name: str, value: str) -> str:
    """One badge: a name on ink, its value on grey; legible on light and dark."""
    first, second = (len(word) * _LETTER + _AIR for word in (name, value))
    name, value = escape(name), escape(value)
    text = 'font-family="sans-serif" font-size="12" text-anchor="middle"'
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" '
        f'width="{first + second}" height="20" role="img">\n'
        f"<title>{name}: {value}</title>\n"
        f'<rect width="{first}" height="20" fill="#333333"/>\n'
        f'<rect x="{first}" width="{second}" height="20" fill="#0653f8"/>\n'
        f'<g fill="#ffffff" {text}>\n'
        f'<text x="{first / 2}" y="14">{name}</text>\n'
        f'<text x="{first + second / 2}" y="14">{value}</text>\n'
        "</g>\n</svg>\n"
    )


def main() -> None:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in badges().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
