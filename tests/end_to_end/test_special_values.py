"""Kernels on the CPU give for NaN, infinities and subnormals what torch does without them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fusebuild.ir.dtype import DType
from fusebuild.ir.types import tensor_type
from fusebuild.ops.op_def import OpDef
from fusebuild.ops.table import OPS, Kind
from fusebuild.ops.type_rules import TypeRuleError
from fusebuild.runtime.loader import load
from support.host_artifacts import compile_for_host
from support.small_recipes import text_of
from support.special_values import DTYPES, TEXTS, check_pairs, check_rows, values

torch = pytest.importorskip("torch")

MOMENTS = {
    f"moments_{which}": text_of(
        {"x": "float[M, N]"}, f"v, m = var_mean(x, dims={dims})", {"v": "float", "m": "float"}, name=f"moments_{which}"
    )
    for which, dims in (("outer", [0]), ("all", [0, 1]))
}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(tmp_path_factory.mktemp("special"), {**TEXTS, **MOMENTS})


@pytest.mark.parametrize("dtype", DTYPES)
def test_pointwise_results_are_those_of_eager_torch(artifacts: Path, dtype: str) -> None:
    check_pairs(artifacts, dtype, target="host", device="cpu")


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_reduced_as_eager_torch_does(artifacts: Path, dtype: str) -> None:
    check_rows(artifacts, dtype, target="host", device="cpu")


@pytest.mark.parametrize("rows", [3, 64])
@pytest.mark.parametrize("name", MOMENTS)
def test_variances_of_numbers_whose_squares_a_float_cannot_hold(artifacts: Path, name: str, rows: int) -> None:
    x = 5e19 + 1e17 * torch.randn(rows, 5, generator=torch.Generator().manual_seed(rows))
    variance, mean = torch.var_mean(x.double(), 0 if name == "moments_outer" else None)
    got = load(artifacts / f"{name}.fuse", target="host")(x)
    torch.testing.assert_close(got, (variance.float(), mean.float()), rtol=1e-3, atol=0)


def takes_floats(op: OpDef) -> bool:
    """Whether it is pointwise, of one or two floats, and needs nothing else."""
    if op.kind is not Kind.POINTWISE or op.is_random or len(op.operands) > 2 or op.name == "cast":
        return False
    with suppress(TypeRuleError):
        return bool(op.infer([tensor_type(DType.FLOAT, ("M",))] * len(op.operands), {}))
    return False


TORCH_IS_WRONG = {"erfcinv", "fmod", "mod", "remainder"}
"""For erfcinv torch has only erfinv(1 - x); its vectors' fmod is NaN where the quotient is large. Tests of the device
header hold these to numbers."""
FLOAT_OPS = [op for op in OPS.values() if takes_floats(op) and op.name not in TORCH_IS_WRONG]
NUMBERS = values(torch.float32, "cpu")
PAIRS = tuple(part.flatten() for part in torch.meshgrid(NUMBERS, NUMBERS, indexing="ij"))


@pytest.fixture(scope="module")
def each_op(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The results of all ops that take floats, for every pair of hard numbers, in one plan."""
    names = [f"y_{op.name}" for op in FLOAT_OPS]
    lines = [f"y_{op.name} = {op.name}({', '.join(('a', 'b')[: len(op.operands)])})" for op in FLOAT_OPS]
    inputs = {"a": "float[M]", "b": "float[M]"}
    text = text_of(inputs, "\n".join(lines), dict.fromkeys(names, ""), name="each_op")
    folder = compile_for_host(tmp_path_factory.mktemp("ops"), {"each_op": text})
    return dict(zip(names, load(folder / "each_op.fuse", target="host")(*PAIRS), strict=True))


@pytest.mark.parametrize("op", [op.name for op in FLOAT_OPS])
def test_every_op_of_floats_gives_what_its_reference_does(each_op: dict[str, Any], op: str) -> None:
    """An op that is added to the table is among them."""
    want = OPS[op].reference(torch, *PAIRS[: len(OPS[op].operands)])
    torch.testing.assert_close(each_op[f"y_{op}"], want, rtol=1e-5, atol=1e-6, equal_nan=True)
