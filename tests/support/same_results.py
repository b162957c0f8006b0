"""Whether two Fusions compute the same, as what a pass changed must."""

from __future__ import annotations

from collections.abc import Mapping

from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.oracle.bounds import compare
from fusebuild.oracle.reference import evaluate_fp64, random_inputs


def assert_equal(after: Fusion, before: Fusion, sizes: Mapping[str, int]) -> None:
    """``after`` gives what ``before`` does on random inputs of ``sizes``."""
    inputs = random_inputs(before, sizes, seed=5)
    pairs = zip(evaluate_fp64(after, inputs), evaluate_fp64(before, inputs), before.outputs, strict=True)
    for got, want, output in pairs:
        assert got.shape == want.shape
        dtype = before.value(output.fid).dtype
        assert compare(got, want, dtype if dtype.is_floating else DType.INT64).ok
