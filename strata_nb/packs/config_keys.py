"""Typed look-ups in one JSON object of a configuration."""

from typing import Any, NoReturn

from strata_nb.errors import CheckpointError
from strata_nb.packs.json_file import quote

# No size of this family comes near; sums and products of a few stay exact in int64.
MAX_SIZE = 2**31 - 1


class ConfigKeys:
    """Look-ups that check type and range, and note each default that was taken.

    A key whose value is null counts as absent, as in the reference.
    """

    def __init__(self, values: dict[str, Any], *, where: str = "config.json") -> None:
        self.values = values
        self.where = where
        self.notes: list[str] = []

    def get(self, key: str) -> Any:
        """The value as it is; None when absent."""
        return self.values.get(key)

    def integer(
        self, key: str, default: int | None, *, low: int = 1, high: int = MAX_SIZE
    ) -> int:
        """A whole number from `low` to `high`; required when `default` is None."""
        value = self._value(key, default)
        if type(value) is not int or not low <= value <= high:
            self.refuse(key, f"a whole number from {low} to {high}", value)
        return value

    def number(self, key: str, default: float) -> float:
        """A finite number above zero."""
        value = self._value(key, default)
        if type(value) not in (int, float) or not 0 < value < 1e18:
            self.refuse(key, "a finite number above zero", value)
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._value(key, default)
        if type(value) is not bool:
            self.refuse(key, "true or false", value)
        return value

    def choice(self, key: str, default: str, choices: tuple[str, ...]) -> str:
        """One of a few words."""
        value = self._value(key, default)
        if value not in choices:
            self.refuse(key, f"one of {', '.join(choices)}", value)
        return str(value)

    def integers(self, key: str, *, low: int, high: int) -> tuple[int, ...]:
        """A list of whole numbers, or one alone; empty when absent."""
        value = self.get(key)
        items = [] if value is None else value if isinstance(value, list) else [value]
        if not all(type(item) is int and low <= item <= high for item in items):
            self.refuse(key, f"whole numbers from {low} to {high}", value)
        return tuple(items)

    def refuse(
        self, key: str, wanted: str, got: object, *, remedy: str = ""
    ) -> NoReturn:
        """Raise what is wrong with one key."""
        remedy = remedy or "correct it or use another checkpoint"
        shown = "nothing" if got is None else quote(got)
        raise CheckpointError(
            f"{self.where}: `{key}` wants {wanted}, got {shown}; {remedy}"
        )

    def _value(self, key: str, default: Any) -> Any:
        value = self.get(key)
        if value is None and default is not None:
            text = str(default).lower() if isinstance(default, bool) else default
            self.notes.append(f"{key} absent: {text}")
            return default
        return value
