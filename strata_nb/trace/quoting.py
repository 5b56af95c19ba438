"""Text of a file, quoted where a person reads it: nothing in it moves a cursor."""


def escaped(text: str) -> str:
    """`text` with an escape, as `repr` has it, for whatever cannot be printed."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def shown(value: object, *, length: int = 120) -> str:
    """`repr` of `value`, escaped and cut; its type where it is too deep or large."""
    try:
        text = repr(value)
    # Numbers of thousands of digits, lists in lists in lists …
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} too large to show"
    return escaped(text if len(text) <= length else text[: length - 1] + "…")
