"""Computing what is still lazy, in one go."""

import functools
from dataclasses import fields, is_dataclass
from typing import Any

import mlx.core as mx


def best_tokens(logits: mx.array) -> tuple[mx.array, mx.array]:
    """Argmax of each row [T, V], the lowest index on a tie; whether all are finite."""
    return mx.argmax(logits, axis=-1), mx.isfinite(logits).all()


def evaluate(*values: Any) -> None:
    """Evaluate every array inside parts' values, which may be dataclasses."""
    mx.eval(_arrays(values))


def _arrays(value: Any) -> list[mx.array]:
    if isinstance(value, mx.array):
        return [value]
    if isinstance(value, (tuple, list)):
        return [a for v in value for a in _arrays(v)]
    kind: Any = type(value)
    return [a for name in _fields(kind) for a in _arrays(getattr(value, name))]


@functools.cache
def _fields(kind: Any) -> tuple[str, ...]:
    """Fields of a dataclass, none of anything else; looked up once a type."""
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()
