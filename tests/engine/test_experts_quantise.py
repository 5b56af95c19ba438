"""The numbers in a file of experts: those of the model, as exact as the kind is."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from expert_samples import checkpoint, empty, header_of, packed
from strata_nb.experts import KINDS, ExpertFile, FileSource, Kind
from strata_nb.experts.record import bits_of
from strata_nb.packs import Checkpoint

# Largest error of y relative to the largest |y|: random weights, float32 scales.
ERRORS = {
    "float32": 0.0,
    "bfloat16": 0.0025,
    "q8": 0.006,
    "q6": 0.03,
    "q4": 0.11,
    "mxfp4": 0.14,
    "q3": 0.25,
    "q2": 0.50,
}
# Rounding scales and biases shows beside 255 levels, not beside 15.
NARROW = ERRORS | {"bfloat16": 0.0, "q8": 0.011}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return checkpoint(tmp_path_factory.mktemp("model"))


def stacked(path: Path, layer: int) -> list[mx.array]:
    """A layer's records as one table a field."""
    with ExpertFile.open(path) as file:
        source, rows = FileSource(file), []
        for expert in range(file.header.experts):
            rows.append(empty(file.layout))
            source.read(layer, expert, rows[-1])
        fields = file.layout.fields
        narrow = file.header.floats == "bfloat16"
    tables = [mx.array(np.stack(column)) for column in zip(*rows, strict=True)]
    return [
        table.view(mx.bfloat16) if narrow and field.dtype == "uint16" else table
        for table, field in zip(tables, fields, strict=True)
    ]


def products(path: Path, layer: int, x: mx.array, down: bool) -> tuple[Any, Any]:
    """Rows [N, in] through every expert: by the fast product, and in two halves."""
    header, tables = header_of(path), stacked(path, layer)
    layout, count = header.layout, header.experts
    each = len(tables) // 2
    tables = tables[each:] if down else tables[:each]
    chosen = mx.broadcast_to(mx.arange(count, dtype=mx.uint32), (len(x), count))
    rows = mx.expand_dims(x, (1, 2))  # [N, 1, 1, in]
    if layout.group == 0:
        fast = mx.gather_mm(rows, tables[0].astype(mx.float32), rhs_indices=chosen)
        full = np.asarray(tables[0].astype(mx.float32), np.float64)
        return fast[:, :, 0], np.einsum("ni,eio->neo", np.asarray(x, np.float64), full)
    multiply: Any = mx.gather_qmm
    widen: Any = mx.dequantize
    how = {
        "group_size": layout.group,
        "bits": bits_of(header.kind),
        "mode": "mxfp4" if header.kind == "mxfp4" else "affine",
    }
    fast = multiply(rows, *tables, rhs_indices=chosen, transpose=True, **how)
    # Scales in float32: in bfloat16 the numbers themselves would be rounded.
    words, *rest = tables
    if header.kind != "mxfp4":
        rest = [array.astype(mx.float32) for array in rest]
    full = np.asarray(widen(words, *rest, dtype=mx.float32, **how), np.float64)
    exact = np.einsum("ni,eoi->neo", np.asarray(x, np.float64), full)
    return fast[:, :, 0], exact


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("hidden", "inner"), [(128, 64), (96, 32)])
def test_products_of_records_are_those_of_the_model(
    tmp_path: Path, kind: Kind, dtype: str, hidden: int, inner: int
) -> None:
    model = checkpoint(
        tmp_path / "m", hidden=hidden, inner=inner, experts=5, dtype=dtype
    )
    path = packed(model, tmp_path / "f", kind)
    rng = np.random.default_rng(7)
    limit = (NARROW if dtype == "bfloat16" else ERRORS)[kind]
    for layer in range(2):
        for down, weights in enumerate(model.experts(layer)):
            x = mx.array(rng.standard_normal((8, weights.shape[-1])), mx.float32)
            fast, exact = products(path, layer, x, bool(down))
            true = np.einsum("ni,eoi->neo", np.asarray(x, np.float64), weights)
            top = np.abs(true).max()
            error = np.abs(exact - true).max() / top
            assert np.abs(np.asarray(fast, np.float64) - exact).max() < 2e-6 * top
            assert error <= limit + 1e-14
            # And it is that kind, not a finer one.
            assert error >= limit / 3


@pytest.mark.parametrize("kind", KINDS[2:])
def test_a_record_is_its_matrix_quantised_alone(
    tmp_path: Path, source: Checkpoint, kind: Kind
) -> None:
    path = packed(source, tmp_path / "f", kind)
    for layer in range(2):
        tables = stacked(path, layer)
        each = len(tables) // 2
        for half, matrices in enumerate(source.raw_experts(layer)[:2]):
            parts = tables[half * each :][:each]
            for expert in range(3):
                alone = mx.quantize(
                    mx.array(matrices[expert]).view(mx.bfloat16),
                    group_size=32,
                    bits=bits_of(kind),
                    mode="mxfp4" if kind == "mxfp4" else "affine",
                )
                for part, wanted in zip(parts, alone, strict=True):
                    assert part.dtype == wanted.dtype
                    assert mx.array_equal(part[expert], wanted).item()


def test_scales_have_the_floats_of_the_checkpoint(tmp_path: Path) -> None:
    for dtype, wanted in (("float32", "float32"), ("bfloat16", "uint16")):
        model = checkpoint(tmp_path / dtype, dtype=dtype)
        header = header_of(packed(model, tmp_path / f"{dtype}.x", "q4"))
        assert header.floats == dtype
        assert {f.dtype for f in header.layout.fields} == {"uint32", wanted}
