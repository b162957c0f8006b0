"""Reductions and scans with lambdas in primitives: their form, and that nothing that torch computes changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.text import print_expr
from fusebuild.ir.verify import verify
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.table import OPS, Kind
from fusebuild.oracle.bounds import compare
from fusebuild.oracle.reference import evaluate, evaluate_fp64, random_inputs, torch_dtype
from fusebuild.passes import run_passes
from fusebuild.passes.decompose import decompose
from fusebuild.passes.decompose_lambdas import dim_runs
from support.small_recipes import AFFINE, COUNTED_SUM, WELFORD, recipe_of, text_of, text_with_lambdas

torch = pytest.importorskip("torch")

INF, NAN = math.inf, math.nan
EXTENTS = {"A": 3, "B": 4, "C": 5, "M": 6, "N": 7}
ONCE = "reduce([x, 0.0, 1.0], init=[0.0, 0.0, 0.0], combine=welford"
COUNT = "([x, 1], init=[0.0, 0], combine=counted_sum"


def fusion_of(inputs: Mapping[str, str], body: str, *outputs: str, **aliases: str) -> Fusion:
    """The Fusion of a recipe with the lambdas that its body names; ``aliases`` are written after their outputs."""
    named = {"welford": WELFORD, "affine": AFFINE, "counted_sum": COUNTED_SUM}
    used = [text for name, text in named.items() if f"combine={name}" in body]
    given = dict.fromkeys(outputs, "") | aliases
    text = text_with_lambdas(inputs, body, given, *used) if used else text_of(inputs, body, given)
    return recipe_of(text).fusion


def body(fusion: Fusion) -> list[str]:
    return [print_expr(fusion, expr) for expr in fusion.exprs]


def forms(fusion: Fusion) -> list[str]:
    """Each expr's op with the dims that it is about."""
    named = [(expr.op, dict(expr.attributes)) for expr in fusion.exprs]
    return [f"{op} {list(of['dims'])}" if "dims" in of else op for op, of in named]  # type: ignore[call-overload]


def assert_unchanged(fusion: Fusion, inputs: Sequence[Any] | None = None) -> None:
    """Decomposed, and after all passes, the oracle gives what it gave before."""
    arguments = random_inputs(fusion, EXTENTS, seed=2) if inputs is None else inputs
    for after in (verify(decompose(fusion)), run_passes(fusion)):
        for evaluation in (evaluate, evaluate_fp64):
            for got, want, output in zip(
                evaluation(after, arguments), evaluation(fusion, arguments), fusion.outputs, strict=True
            ):
                assert (got.dtype, got.shape) == (want.dtype, want.shape)
                dtype = fusion.value(output.fid).dtype
                assert compare(got, want, dtype if dtype.is_floating else DType.INT64).ok


class TestForms:
    def test_parts_stay_one_expr_and_keep_their_fids(self) -> None:
        fusion = fusion_of({"x": "float[M, N]"}, f"mean, m2, n = {ONCE}, dims=[1])", "mean", "m2", "n")
        assert body(decompose(fusion)) == [
            "%6 mean: float[M], %7 m2: float[M], %8 n: float[M] = reduce(%0, %1, %2, %3, %4, %5, combine=welford, "
            "dims=[1], keepdim=false, ordered=false, state=[float, float, float])"
        ]
        assert_unchanged(fusion)

    def test_keepdim_is_a_broadcast_of_each_part(self) -> None:
        fusion = fusion_of({"x": "float[M, N]"}, f"mean, m2, n = {ONCE}, dims=[1], keepdim=True)", "mean", "m2", "n")
        after = decompose(fusion)
        assert forms(after) == ["reduce [1]", "broadcast", "broadcast", "broadcast"]
        assert [expr.outputs for expr in after.exprs[1:]] == [(fid,) for fid in fusion.output_fids]
        assert [after.value(fid).name for fid in after.exprs[0].outputs] == ["mean_reduced", "m2_reduced", "n_reduced"]
        assert_unchanged(fusion)

    @pytest.mark.parametrize("keepdim", [False, True])
    def test_dims_apart_are_reduced_one_run_at_a_time_the_innermost_first(self, keepdim: bool) -> None:
        inputs = {"x": "float[A, B, 1, C, M, N]"}
        fusion = fusion_of(inputs, f"s, n = reduce{COUNT}, dims=[0, 1, 3, 5], keepdim={keepdim})", "s", "n")
        after = decompose(fusion)
        assert forms(after)[:2] == ["reduce [5]", "reduce [0, 1, 3]"]
        assert len(after.exprs) == (4 if keepdim else 2)
        assert_unchanged(fusion)

    def test_ordered_runs_combine_as_the_indices_run(self) -> None:
        body_ = "s, o = reduce([n, n], init=[1, 0], combine=affine, dims=[2, 0])"
        fusion = fusion_of({"n": "int64[A, B, C]"}, body_, "s", "o")
        (n,) = random_inputs(fusion, EXTENTS, seed=4)
        assert forms(decompose(fusion)) == ["reduce [2]", "reduce [0]"]
        slope, offset = evaluate(decompose(fusion), [n])
        for middle in range(EXTENTS["B"]):
            want = (1, 0)
            for x in n[:, middle].flatten().tolist():  # type: ignore[union-attr]
                want = (want[0] * x, want[1] * x + x)
            wrapped = [(each + 2**63) % 2**64 - 2**63 for each in want]
            assert [int(slope[middle]), int(offset[middle])] == wrapped

    def test_operands_of_lower_rank_are_broadcast_and_constants_stay(self) -> None:
        inputs = {"x": "float[M, N]", "w": "int64[N]"}
        fusion = fusion_of(inputs, "s, n = scan([x, w], init=[0.0, 0], combine=counted_sum, dim=0)", "s", "n")
        after = decompose(fusion)
        assert forms(after) == ["broadcast", "scan"]
        assert [after.value(fid).tensor.rank for fid in after.exprs[1].inputs[:2]] == [2, 2]
        assert_unchanged(fusion)
        fusion = fusion_of(inputs | {"x": "float[N]"}, f"s, n = scan{COUNT}, dim=0)\nm = n + w", "s", "m")
        assert [after.op for after in decompose(fusion).exprs] == ["scan", "add"]

    @pytest.mark.parametrize("dims", ["[0]", "[1]", "[0, 1]", "[0, 1, 2]"])
    def test_ranks_and_dims_of_size_one_mix(self, dims: str) -> None:
        inputs = {"x": "float[A, B, C]", "w": "float[B, 1]", "k": "int64[C]"}
        for op, where in (("reduce", f"dims={dims}"), ("scan", f"dim={dims[1]}")):
            call = f"s, n = {op}([w, k], init=[0.0, 0], combine=counted_sum, {where.replace('2', '1')})"
            if "0, 1, 2" not in dims:
                assert_unchanged(fusion_of({key: inputs[key] for key in "wk"}, call, "s", "n"))
            call = f"s, n = {op}([x * 2.0 + w, k], init=[0.0, 0], combine=counted_sum, {where})"
            assert_unchanged(fusion_of(inputs, call, "s", "n"))

    def test_what_has_size_one_alone_is_as_it_was(self) -> None:
        inputs = {"x": "int32[M, 1, N]", "y": "int64[1, N]"}
        call = "s, n = reduce([x, y], init=[0.0, 0], combine=counted_sum, dims=[1])"
        after = decompose(fusion_of(inputs, call, "s", "n"))
        assert forms(after) == ["broadcast", "cast", "squeeze [1]", "expand", "squeeze [1]"]
        assert_unchanged(fusion_of(inputs, call, "s", "n"))
        assert_unchanged(fusion_of(inputs, call.replace("dims=[1]", "dims=[1], keepdim=True"), "s", "n"))
        assert_unchanged(fusion_of(inputs, call.replace("reduce", "scan").replace("dims=[1]", "dim=1"), "s", "n"))
        call = f"s, n = reduce{COUNT}, dims=[0])"
        assert forms(decompose(fusion_of({"x": "float[1, N]"}, call, "s", "n"))) == ["squeeze [0]", "full"]
        assert_unchanged(fusion_of({"x": "float[1, N]"}, call, "s", "n"))

    def test_a_run_of_size_one_beside_a_long_one(self) -> None:
        assert_unchanged(fusion_of({"x": "float[1, M, N]"}, f"s, n = reduce{COUNT}, dims=[0, 2])", "s", "n"))
        assert_unchanged(
            fusion_of({"x": "float[1, M, N]"}, f"s, n = reduce{COUNT}, dims=[0, 2], keepdim=True)", "s", "n")
        )

    @pytest.mark.parametrize(
        ("shape", "dims", "runs"),
        [
            (("A", "B", "C"), (0, 1, 2), [[0, 1, 2]]),
            (("A", "B", "C"), (0, 2), [[0], [2]]),
            (("A", 1, "C"), (0, 2), [[0, 2]]),
            (("A", 1, "B", 1, "C"), (0, 1, 4), [[0, 1], [4]]),
            ((), (), []),
        ],
    )
    def test_runs_of_dims(self, shape: tuple[Formula, ...], dims: tuple[int, ...], runs: list[list[int]]) -> None:
        assert dim_runs(shape, dims) == runs

    def test_what_is_left_is_primitive(self) -> None:
        calls = [f"{op}(x, dim=1)" for op in ("argmax", "argmin", "cumsum", "cumprod", "logcumsumexp")]
        calls += [f"{op}(x, dims=[0, 2], keepdim=True)" for op in ("any", "all", "logsumexp")]
        lines = [f"y{index} = {call}" for index, call in enumerate(calls)]
        fusion = run_passes(fusion_of({"x": "float[A, B, C]"}, "\n".join(lines), *(f"y{i}" for i in range(len(calls)))))
        for expr in fusion.exprs:
            op, named = OPS[expr.op], dict(expr.attributes)
            assert op.kind is not Kind.COMPOSITE
            assert not named.get("keepdim")
            if op.is_generalized:
                tensors = [fusion.value(fid) for fid in expr.inputs if fusion.value(fid).is_tensor]
                assert len({value.tensor.rank for value in tensors}) == 1


class TestInPlace:
    """One expr writes over one input at most."""

    def test_one_part_overwrites_its_input_itself(self) -> None:
        fusion = fusion_of({"n": "int64[M, N]"}, "s = cumsum(n, dim=1)", s="{dtype: int64, alias: n}")
        assert forms(decompose(fusion)) == ["scan"]
        assert_unchanged(fusion)

    def test_several_parts_are_copied_over_theirs(self) -> None:
        call = "s, n = scan([x, k], init=[0.0, 0], combine=counted_sum, dim=1)"
        fusion = fusion_of({"x": "float[M, N]", "k": "int64[M, N]"}, call,
                           s="{dtype: float, alias: x}", n="{dtype: int64, alias: k}")  # fmt: skip
        after = decompose(fusion)
        assert forms(after) == ["scan", "set", "set"]
        assert [expr.outputs for expr in after.exprs[1:]] == [(fid,) for fid in fusion.output_fids]
        assert [after.value(fid).name for fid in after.exprs[0].outputs] == ["s_computed", "n_computed"]
        assert_unchanged(fusion)

    def test_swapped_inputs_are_read_before_they_are_overwritten(self) -> None:
        call = "s, n = scan([k, cast(x, int64)], init=[0.0, 0], combine=counted_sum, dim=0)\nt = cast(n, float)"
        fusion = fusion_of({"x": "float[M, N]", "k": "float[M, N]"}, call,
                           s="{dtype: float, alias: x}", t="{dtype: float, alias: k}")  # fmt: skip
        assert_unchanged(fusion)

    def test_what_is_unchanged_is_copied_too(self) -> None:
        call = f"s, n = scan{COUNT}, dim=1)"
        fusion = fusion_of({"x": "float[M, 1]"}, call, "n", s="{dtype: float, alias: x}")
        assert forms(decompose(fusion)) == ["set", "full", "set", "set"]
        assert_unchanged(fusion)


ROWS = {
    "ties": [[1.0, 2.0, 2.0, 1.0], [3.0, 3.0, 3.0, 3.0], [0.0, -0.0, 0.0, -1.0]],
    "infinities": [[INF, -INF, -INF, INF], [-INF] * 4, [INF] * 4],
    "nan": [[NAN, INF, NAN, 0.0], [1.0, NAN, -INF, NAN], [NAN] * 4],
    "one element": [[5.0], [NAN], [-INF], [INF]],
}
DTYPES = (DType.DOUBLE, DType.FLOAT, DType.HALF, DType.BFLOAT16, DType.INT64, DType.INT32, DType.BOOL)


def built_in(op: str, dtype: DType, shape: tuple[Formula, ...] = ("M", "N"), **named: Any) -> Fusion:
    builder = FusionBuilder("built_in")
    for result in builder.call(op, [builder.tensor(dtype, shape)], named):
        builder.output(result)
    return builder.finish()


def results(fusion: Fusion, x: Any) -> list[Any]:
    """What the oracle gives for the op itself and for what the passes make of it; they agree."""
    written, decomposed = evaluate(fusion, [x]), evaluate(run_passes(fusion), [x])
    for got, want in zip(decomposed, written, strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, equal_nan=True)
    return list(decomposed)


class TestArgExtremes:
    @pytest.mark.parametrize("op", ["argmax", "argmin"])
    @pytest.mark.parametrize("dtype", [DType.DOUBLE, DType.FLOAT, DType.BFLOAT16, DType.HALF])
    @pytest.mark.parametrize("rows", ROWS)
    def test_the_first_of_equals_and_nan_before_everything(self, op: str, dtype: DType, rows: str) -> None:
        x = torch.tensor(ROWS[rows], dtype=torch_dtype(dtype))
        (got,) = results(built_in(op, dtype, dim=1), x)
        assert got.tolist() == getattr(torch, op)(x, 1).tolist()

    @pytest.mark.parametrize(("op", "first"), [("argmax", [1, 0, 0, 1]), ("argmin", [0, 0, 0, 0])])
    def test_of_bools(self, op: str, first: list[int]) -> None:
        x = torch.tensor([[0, 1, 0], [1, 1, 1], [0, 0, 0], [0, 1, 1]]).bool()
        assert results(built_in(op, DType.BOOL, dim=1), x)[0].tolist() == first

    @pytest.mark.parametrize(("op", "places"), [("argmax", [2, 0, 0]), ("argmin", [0, 1, 0])])
    @pytest.mark.parametrize(("dtype", "bits"), [(DType.INT32, 32), (DType.INT64, 64)])
    def test_of_the_least_and_the_largest_integers(self, op: str, places: list[int], dtype: DType, bits: int) -> None:
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        x = torch.tensor([[low, 0, high], [high, low, low], [low, low, low]], dtype=torch_dtype(dtype))
        assert results(built_in(op, dtype, dim=1), x)[0].tolist() == places

    @pytest.mark.parametrize("op", ["argmax", "argmin"])
    @pytest.mark.parametrize("keepdim", [False, True])
    @pytest.mark.parametrize("dim", [0, 1, 2, -1])
    def test_along_every_dim(self, op: str, keepdim: bool, dim: int) -> None:
        x = torch.randint(-3, 4, (3, 4, 5), generator=torch.Generator().manual_seed(1)).float()
        (got,) = results(built_in(op, DType.FLOAT, ("A", "B", "C"), dim=dim, keepdim=keepdim), x)
        assert torch.equal(got, getattr(torch, op)(x, dim, keepdim))

    def test_over_a_dim_of_size_one(self) -> None:
        x = torch.tensor([[NAN], [1.0]])
        assert results(built_in("argmax", DType.FLOAT, ("M", 1), dim=1), x)[0].tolist() == [0, 0]


class TestAnyAndAll:
    @pytest.mark.parametrize("op", ["any", "all"])
    @pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.value)
    def test_of_every_dtype(self, op: str, dtype: DType) -> None:
        x = torch.tensor([[0, 0], [2, 0], [1, 3], [256, 256]], dtype=torch_dtype(dtype))
        (got,) = results(built_in(op, dtype, dims=(1,)), x)
        assert got.tolist() == getattr(x != 0, op)(dim=1).tolist()

    @pytest.mark.parametrize("op", ["any", "all"])
    def test_nan_is_true_and_negative_zero_is_not(self, op: str) -> None:
        x = torch.tensor([[NAN, NAN], [-0.0, 0.0], [INF, -0.0], [1e-45, -1e-45]])
        (got,) = results(built_in(op, DType.FLOAT, dims=(1,)), x)
        assert got.tolist() == getattr(torch, op)(x, dim=1).tolist()

    @pytest.mark.parametrize(("op", "nothing"), [("any", False), ("all", True)])
    def test_of_nothing_and_over_every_dim(self, op: str, nothing: bool) -> None:
        assert results(built_in(op, DType.FLOAT, dims=(1,)), torch.empty(2, 0))[0].tolist() == [nothing, nothing]
        assert results(built_in(op, DType.INT32, dims=()), torch.tensor([[0, 4]]).int())[0].tolist() == [[False, True]]
        x = torch.tensor([[[0.0, 1.0]], [[1.0, 1.0]]])
        for dims in (None, (0, 2), (0, 1, 2)):
            (got,) = results(built_in(op, DType.FLOAT, ("A", 1, "C"), dims=dims, keepdim=True), x)
            assert torch.equal(got, torch.full((1, 1, 1), op == "any"))


class TestLogSumExp:
    @pytest.mark.parametrize("dtype", [DType.DOUBLE, DType.FLOAT, DType.BFLOAT16, DType.HALF, DType.INT32])
    def test_rows_that_would_overflow(self, dtype: DType) -> None:
        x = torch.tensor([[800, 800, 0], [-800, -900, -800], [1, 2, 3]], dtype=torch_dtype(dtype))
        (got,) = results(built_in("logsumexp", dtype, dims=(1,)), x)
        wide = x.to(got.dtype)
        assert got.dtype == (torch.float64 if dtype is DType.DOUBLE else torch.float32)
        torch.testing.assert_close(got, torch.logsumexp(wide, 1))

    @pytest.mark.parametrize("shape", [("M", "N"), ("M", 1)], ids=str)
    @pytest.mark.parametrize("rows", ["infinities", "nan", "one element"])
    def test_rows_of_infinities_and_nan(self, rows: str, shape: tuple[Formula, ...]) -> None:
        x = torch.tensor(ROWS[rows])
        x = x[:, :1] if shape[1] == 1 else x
        (got,) = results(built_in("logsumexp", DType.FLOAT, shape, dims=(1,)), x)
        torch.testing.assert_close(got, torch.logsumexp(x, 1), equal_nan=True)

    def test_of_nothing_over_no_dims_and_of_a_number(self) -> None:
        assert results(built_in("logsumexp", DType.FLOAT, dims=(1,)), torch.empty(2, 0))[0].tolist() == [-INF, -INF]
        x = torch.tensor([[-INF, 2.0, INF]])
        assert torch.equal(results(built_in("logsumexp", DType.FLOAT, dims=()), x)[0], x)
        assert results(built_in("logsumexp", DType.DOUBLE, ()), torch.tensor(-INF).double())[0].item() == -INF

    @pytest.mark.parametrize("shape", [("M", "N"), ("M", 1)], ids=str)
    @pytest.mark.parametrize("rows", ["ties", "infinities", "nan", "one element"])
    def test_statistics_of_a_softmax(self, rows: str, shape: tuple[Formula, ...]) -> None:
        x = torch.tensor(ROWS[rows])
        x = x[:, :1] if shape[1] == 1 else x
        largest, total = results(built_in("online_softmax_statistics", DType.FLOAT, shape, dims=(1,)), x)
        torch.testing.assert_close(largest, x.amax(1), equal_nan=True)
        is_finite = largest.isfinite()
        softmax = (x - largest[:, None]).exp() / total[:, None]
        torch.testing.assert_close(softmax[is_finite], x.softmax(1)[is_finite])

    @pytest.mark.parametrize("keepdim", [False, True])
    @pytest.mark.parametrize("dims", [(0,), (2,), (0, 2), (0, 1, 2)])
    def test_over_several_dims(self, dims: tuple[int, ...], keepdim: bool) -> None:
        x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(2))
        (got,) = results(built_in("logsumexp", DType.FLOAT, ("A", "B", "C"), dims=dims, keepdim=keepdim), x)
        torch.testing.assert_close(got, torch.logsumexp(x, dims, keepdim))


class TestRunning:
    @pytest.mark.parametrize("op", ["cumsum", "cumprod"])
    @pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.value)
    def test_dtypes_are_those_of_sums_and_products(self, op: str, dtype: DType) -> None:
        x = torch.tensor([[2, 3, -1], [0, 1, 4]]).to(torch_dtype(dtype))
        (got,) = results(built_in(op, dtype, dim=1), x)
        wide = torch.float64 if dtype is DType.DOUBLE else torch.float32 if dtype.is_floating else torch.int64
        assert got.dtype == wide
        assert torch.equal(got, getattr(torch, op)(x, 1, dtype=wide))

    @pytest.mark.parametrize("op", ["cumsum", "cumprod"])
    @pytest.mark.parametrize("dim", [0, 1, -1])
    @pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 7, 1), (0, 3, 2), (2, 0, 3)])
    def test_along_every_dim_of_every_size(self, op: str, dim: int, sizes: tuple[int, ...]) -> None:
        x = torch.randn(sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        (got,) = results(built_in(op, DType.DOUBLE, ("A", "B", "C"), dim=dim), x)
        torch.testing.assert_close(got, getattr(torch, op)(x, dim))

    def test_integers_wrap(self) -> None:
        x = torch.tensor([2**62, 2**62, 2**62])
        assert torch.equal(results(built_in("cumsum", DType.INT64, ("N",), dim=0), x)[0], x.cumsum(0))

    @pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.INT32, DType.FLOAT])
    def test_along_a_dim_of_size_one(self, dtype: DType) -> None:
        x = torch.tensor([[2], [0]]).to(torch_dtype(dtype))
        (got,) = results(built_in("cumsum", dtype, ("M", 1), dim=1), x)
        assert torch.equal(got, x.to(got.dtype))


class TestRunningExtremes:
    SPECIAL = (1.0, -1.0, 0.0, -0.0, math.nan, math.inf, -math.inf)

    @pytest.mark.parametrize("op", ["cummax", "cummin"])
    @pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.value)
    def test_values_and_the_last_index_of_equals(self, op: str, dtype: DType) -> None:
        numbers = torch.tensor(self.SPECIAL if dtype.is_floating else (3, -1, 0, 2))
        drawn = torch.randint(0, len(numbers), (40, 23), generator=torch.Generator().manual_seed(1))
        x = numbers[drawn].to(torch_dtype(dtype))
        values, indices = results(built_in(op, dtype, dim=1), x)
        wanted = getattr(torch, op)(x, 1)
        assert torch.equal(indices, wanted.indices)
        torch.testing.assert_close(values, wanted.values.to(values.dtype), rtol=0, atol=0, equal_nan=True)

    @pytest.mark.parametrize("dim", [0, 1, -1])
    @pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 7, 1), (0, 3, 2), (2, 0, 3)])
    def test_along_every_dim_of_every_size(self, dim: int, sizes: tuple[int, ...]) -> None:
        x = torch.randn(sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        for op in ("cummax", "cummin"):
            values, indices = results(built_in(op, DType.DOUBLE, ("A", "B", "C"), dim=dim), x)
            wanted = getattr(torch, op)(x, dim)
            assert torch.equal(values, wanted.values)
            assert torch.equal(indices, wanted.indices)

    def test_both_parts_may_overwrite_inputs(self) -> None:
        fusion = fusion_of({"x": "float[M, N]", "n": "int64[M, N]"}, "v, i = cummax(x, dim=1)\n_ = set(n)",
                           v="{dtype: float, alias: x}", i="{dtype: int64, alias: n}")  # fmt: skip
        assert forms(run_passes(fusion)) == ["iota", "broadcast", "scan", "set"]
        assert_unchanged(fusion)

    def test_statistics_may_overwrite_two_inputs_as_well(self) -> None:
        fusion = fusion_of({"x": "float[M, N]", "a": "float[M]", "b": "float[M]"},
                           "m, s = online_softmax_statistics(x, dims=[1])\n_ = a + b",
                           m="{dtype: float, alias: a}", s="{dtype: float, alias: b}")  # fmt: skip
        assert forms(run_passes(fusion)) == ["reduce [1]", "set"]
        assert_unchanged(fusion)


class TestRunningSumsOfExponentials:
    @pytest.mark.parametrize("dim", [0, 1, 2])
    @pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 7, 1), (0, 3, 2), (2, 0, 3)])
    def test_along_every_dim_of_every_size(self, dim: int, sizes: tuple[int, ...]) -> None:
        x = 50 * torch.randn(sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        (got,) = results(built_in("logcumsumexp", DType.DOUBLE, ("A", "B", "C"), dim=dim), x)
        torch.testing.assert_close(got, torch.logcumsumexp(x, dim))

    def test_infinities(self) -> None:
        rows = [[-math.inf, -math.inf, 1.0, math.inf, 2.0], [-math.inf, math.inf, -math.inf, math.nan, 1.0]]
        x = torch.tensor(rows, dtype=torch.float64)
        for own, dim in ((x, 1), (x.t().contiguous(), 0), (x[:, :1], 1)):
            shape = ("M", 1) if own.shape[1] == 1 else ("M", "N")
            (got,) = results(built_in("logcumsumexp", DType.DOUBLE, shape, dim=dim), own)
            torch.testing.assert_close(got, torch.logcumsumexp(own, dim), equal_nan=True)


PRODUCT = """\
builtin_cumsum_float:
  left: {a: float}
  right: {b: float}
  body: |
    r = a * b
  results: [r]
"""


def test_ops_of_one_dtype_share_a_lambda_and_an_authors_name_is_left_alone() -> None:
    lines = ["a = cumsum(x, 0)", "b = cumsum(x, 1)", "c = reduce(x, init=1, combine=builtin_cumsum_float, dims=[0])"]
    text = text_with_lambdas({"x": "float[M, N]"}, "\n".join(lines), dict.fromkeys("abc", ""), PRODUCT)
    fusion = run_passes(recipe_of(text).fusion)
    assert sorted(fusion.lambdas) == ["builtin_cumsum_float", "builtin_cumsum_float_"]
    assert [expr.combine for expr in fusion.exprs] == [
        "builtin_cumsum_float_", "builtin_cumsum_float_", "builtin_cumsum_float",
    ]  # fmt: skip
