"""What torch is measured on: every op as torch calls with the oracle's results, sizes from shapes, no graph breaks; and
the references of recipes, built from their syntax trees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, reject, settings

from support.places import RECIPES
from support.small_recipes import recipe_of, text_of
from support.strategies import EXTENTS, exact_inputs, fusions

torch = pytest.importorskip("torch")

from torch.overrides import TorchFunctionMode  # noqa: E402

from fusebuild.bench.exactness import as_results, random_fids, same_distribution  # noqa: E402
from fusebuild.bench.torch_expression import expression_module  # noqa: E402
from fusebuild.bench.torch_module import divide, reciprocal_root, square_root, torch_module  # noqa: E402
from fusebuild.errors import NoReferenceError  # noqa: E402
from fusebuild.ir.dtype import DType  # noqa: E402
from fusebuild.ir.fusion import Fusion  # noqa: E402
from fusebuild.ops.builder import FusionBuilder  # noqa: E402
from fusebuild.ops.table import OPS, Kind  # noqa: E402
from fusebuild.oracle.bounds import bound_for, compare  # noqa: E402
from fusebuild.oracle.reference import evaluate, random_inputs  # noqa: E402
from fusebuild.oracle.verification import largest_tensor, recipe_inputs  # noqa: E402
from fusebuild.recipe.bench import TENSOR_METHODS, TORCH_DTYPES, TORCH_FUNCTIONS  # noqa: E402
from fusebuild.recipe.recipe import Recipe, load_recipe  # noqa: E402

MOST_ELEMENTS = 10**6
REFERENCED = [path for path in RECIPES if load_recipe(path).bench.reference]
NO_REFERENCE = {"argmax", "logsumexp", "welford"}
"""Recipes that reduce with lambdas of their own."""
BOOL, I32, I64, BF16, F32, F64 = (
    DType.BOOL, DType.INT32, DType.INT64, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE,
)  # fmt: skip
OTHERWISE = {"cast", "imag", "philox_uniform", "philox_normal", "uniform_between", "normal_around"}
"""Pointwise ops that take operands of certain dtypes, or none at all."""
POINTWISE = sorted(op.name for op in OPS.values() if op.kind is Kind.POINTWISE and op.name not in OTHERWISE)
OF_INTEGERS = {op for op in POINTWISE if op.startswith(("bitwise", "logical_right")) or op == "gcd"}


def small_cases(recipe: Recipe) -> list[Any]:
    return [case for case in recipe.fusion.cases if largest_tensor(recipe.fusion, case) <= MOST_ELEMENTS]


def clones(inputs: Sequence[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]


def check(fusion: Fusion, inputs: Sequence[Any], module: Any = None) -> None:
    """The module's results are the oracle's, in dtype as well, and what it overwrites holds them too; what follows from
    random numbers is distributed like the oracle's."""
    module = torch_module(fusion) if module is None else module
    wanted, own = evaluate(fusion, inputs), clones(inputs)
    results = module(*own)
    assert len(results) == len(wanted)
    for output, got, want in zip(fusion.outputs, results, wanted, strict=True):
        assert got.dtype == want.dtype
        if output.fid in random_fids(fusion):
            assert got.shape == want.shape
            assert same_distribution(got, want), output.name
            continue
        bound = 8 * bound_for(fusion, output.fid)  # sums in another order, and torch's own variance
        assert compare(got, want, fusion.value(output.fid).dtype, bound=bound).ok, output.name
        if output.alias is not None:
            assert results[fusion.outputs.index(output)] is own[fusion.inputs.index(output.alias)]


class TestRecipes:
    @pytest.mark.parametrize("path", [path for path in RECIPES if path.stem not in NO_REFERENCE], ids=lambda p: p.stem)
    def test_every_recipe_is_a_module_with_the_oracles_results(self, path: Path) -> None:
        recipe = load_recipe(path)
        module = torch_module(recipe.fusion)
        compiled = torch.compile(module.forward, backend="eager", fullgraph=True, dynamic=False)
        for case in small_cases(recipe):
            inputs = recipe_inputs(recipe, case, seed=3, device="cpu")
            check(recipe.fusion, inputs, module)
            check(recipe.fusion, inputs, compiled)

    @pytest.mark.parametrize("path", [path for path in RECIPES if path.stem in NO_REFERENCE], ids=lambda p: p.stem)
    def test_a_lambda_has_no_torch_function_and_the_message_shows_where(self, path: Path) -> None:
        with pytest.raises(NoReferenceError) as caught:
            torch_module(load_recipe(path).fusion)
        (found,) = caught.value.diagnostics
        assert found.message == "reduce with a lambda has no torch function"
        assert "reduce([" in found.location.text

    @pytest.mark.parametrize(
        "path", [path for path in RECIPES if load_recipe(path).bench.reference], ids=lambda p: p.stem
    )
    def test_the_reference_of_a_recipe_computes_its_first_outputs(self, path: Path) -> None:
        recipe = load_recipe(path)
        assert recipe.bench.reference is not None
        module = expression_module(recipe.fusion, recipe.bench.reference)
        compiled = torch.compile(module.forward, backend="eager", fullgraph=True, dynamic=False)
        for case in small_cases(recipe):
            inputs = recipe_inputs(recipe, case, seed=3, device="cpu")
            results, wanted = as_results(compiled(*inputs)), evaluate(recipe.fusion, inputs)
            assert 0 < len(results) <= len(wanted)
            for output, got, want in zip(recipe.fusion.outputs, results, wanted, strict=False):
                dtype = recipe.fusion.value(output.fid).dtype
                if path.stem == "layernorm" and output.name != "y":  # torch's are float on GPUs alone
                    want, dtype = want.to(got.dtype), DType.BFLOAT16
                assert got.dtype == want.dtype
                assert compare(got, want, dtype).ok

    def test_layernorm_reads_as_a_torch_user_writes_it(self) -> None:
        code = torch_module(load_recipe(next(path for path in RECIPES if path.stem == "layernorm")).fusion).code
        lines = [line.split(";")[0].strip() for line in code.splitlines() if "=" in line]
        assert lines[:4] == [
            "to = x.to(torch.float32)",
            "var_mean = torch.var_mean(to, dim = (1,), correction = 0, keepdim = True)",
            "getitem = var_mean[0]",
            "getitem_1 = var_mean[1]",
        ]


def test_a_permuted_output_is_a_tensor_of_its_own_also_where_no_element_moves() -> None:
    swapped = recipe_of(text_of({"x": "float[M, N]"}, "y = permute(x, [1, 0])", {"y": "float"}, cases="M: 2, N: 3"))
    for shape in ((2, 3), (1, 3)):
        x = torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape)
        (y,) = as_results(torch_module(swapped.fusion)(x))
        assert y.is_contiguous()
        assert y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
        assert y.equal(x.t())


def test_tensors_of_several_dtypes_meet_in_that_of_the_result() -> None:
    builder = FusionBuilder("joined")
    x = builder.tensor(BF16, ("M", "N"))
    builder.output(*builder.call("cat", [x, *builder.call("logical_not", [x])], {"dim": 0}))
    check(builder.finish(), [torch.tensor([[1.5, 0.0]]).bfloat16()])


def taken_from_outside() -> Fusion:
    """Reads each row's elements at the negatives of their columns, all but the first of which lie before it."""
    builder = FusionBuilder("outside")
    x, index = builder.tensor(F32, ("M", "N")), builder.tensor(I64, ("M", "N"))
    (before,) = builder.call("neg", builder.call("abs", [index], {}), {})
    builder.output(*builder.call("take_along_axis", [x, before], {"dim": 1}))
    return builder.finish()


class RefusedBelowZero(TorchFunctionMode):
    """Torch counts negative indices from the end. Here it refuses them, as it does those beyond the last."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        indices = args[1] if func in (torch.take_along_dim, torch.Tensor.__getitem__) else ()
        for index in indices if isinstance(indices, tuple) else (indices,):
            if isinstance(index, torch.Tensor) and bool((index < 0).any()):
                raise IndexError(index)
        return func(*args, **kwargs or {})


@settings(max_examples=60, deadline=None)
@given(fusion=fusions())
@example(fusion=taken_from_outside())
def test_random_fusions_compute_what_the_oracle_does(fusion: Fusion) -> None:
    inputs = exact_inputs(fusion)
    try:
        with RefusedBelowZero():
            torch_module(fusion)(*clones(inputs))
    except IndexError:  # the oracle takes the nearest elements to indices that lie outside
        reject()
    check(fusion, inputs)


def test_what_no_output_follows_from_is_not_computed() -> None:
    builder = FusionBuilder("dead")
    x, index = builder.tensor(F32, ("M", "N")), builder.tensor(I64, ("N",))
    builder.call("take", [x, index], {"dim": 0})
    builder.output(*builder.call("neg", [x], {}))
    calls = [node for node in torch_module(builder.finish()).graph.nodes if node.op.startswith("call")]
    assert len(calls) == 1


def one_op(op: str, inputs: Sequence[tuple[DType, tuple[Any, ...]]], **named: Any) -> Fusion:
    builder = FusionBuilder("one")
    operands = [builder.tensor(dtype, shape) for dtype, shape in inputs]
    for result in builder.call(op, operands, named):
        builder.output(result)
    return builder.finish()


class TestOps:
    @pytest.mark.parametrize("op", POINTWISE)
    def test_pointwise_ops_of_tensors(self, op: str) -> None:
        count = len(OPS[op].operands)
        for dtype in (I32, I64) if op in OF_INTEGERS or "shift" in op else (F32, BF16, I64):
            check_accepted(op, [(dtype, ("M", "N")), (dtype, ("N",)), (dtype, ("M", 1)), (dtype, ())][:count])

    @pytest.mark.parametrize("op", [op for op in POINTWISE if len(OPS[op].operands) > 1])
    @pytest.mark.parametrize("position", range(4))
    def test_pointwise_ops_with_a_number_and_a_run_time_number_at_each_operand(self, op: str, position: int) -> None:
        count = len(OPS[op].operands)
        if position >= count:
            position = count - 1
        number: Any = 3 if op in OF_INTEGERS or "shift" in op else 0.25
        dtype = I64 if isinstance(number, int) else F32
        for is_constant in (True, False):
            builder = FusionBuilder("one")
            operands = [builder.tensor(dtype, ("M", "N")) for _ in range(count)]
            scalar_dtype = I64 if dtype is I64 else F64
            operands[position] = (
                builder.constant(number, dtype=scalar_dtype) if is_constant else builder.scalar(scalar_dtype)
            )
            (result,) = builder.call(op, operands)
            builder.output(result)
            fusion = builder.finish()
            check(fusion, random_inputs(fusion, EXTENTS, seed=1))

    @pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "mean", "var", "var_mean", "welford", "logsumexp",
                                    "online_softmax_statistics", "any", "all"])  # fmt: skip
    @pytest.mark.parametrize("dims", [(0,), (1,), (0, 1), ()])
    @pytest.mark.parametrize("keepdim", [False, True])
    def test_reductions(self, op: str, dims: tuple[int, ...], keepdim: bool) -> None:
        for dtype in (F32, BF16, I64):
            check_accepted(op, [(dtype, ("M", "N"))], dims=dims, keepdim=keepdim)

    def test_reductions_in_other_dtypes(self) -> None:
        check_accepted("sum", [(BF16, ("M", "N"))], dims=(1,), dtype=BF16)
        check_accepted("sum", [(BOOL, ("M", "N"))], dims=(1,), dtype=F32)
        check_accepted("mean", [(I64, ("M", "N"))], dims=(1,), dtype=I64)
        check_accepted("prod", [(BF16, ("M", "N"))], dims=(1,), dtype=F64)

    def test_positions_and_scans(self) -> None:
        for op in ("argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"):
            for dtype in (F32, BF16, I32, BOOL):
                check_accepted(op, [(dtype, ("M", "N"))], dim=1)

    def test_views_creation_and_sizes(self) -> None:
        text = text_of(
            {"x": "float[M, N]", "n": "int64[N]", "t": '{type: "float[]", cpu: true}'},
            "row = broadcast(n, is_broadcast_dim=[True, False])\n"
            "wide = broadcast_in_dim(n, shape=[M, N], broadcast_dims=[1])\n"
            "again = expand(row, shape=[M, N])\n"
            "flat = squeeze(sum(x, dims=[0], keepdim=True), dims=[0])\n"
            "filled = full([M, N], 0.5, dtype=float)\n"
            "steps = iota(N, 3, 2, dtype=int32)\n"
            "y = x * filled * t + flat / cast(size(M), float) + cast(wide + again + steps, float)\n"
            "z = set(x)",
            {"y": "float", "z": "float"},
        )
        fusion = recipe_of(text).fusion
        inputs = random_inputs(fusion, {"M": 4, "N": 6}, seed=2)
        check(fusion, inputs)
        _, z = torch_module(fusion)(*inputs)
        assert z.data_ptr() != inputs[0].data_ptr()


def check_accepted(op: str, inputs: Sequence[tuple[DType, tuple[Any, ...]]], **named: Any) -> None:
    fusion = one_op(op, inputs, **named)
    check(fusion, random_inputs(fusion, EXTENTS, seed=1))


class TestRandomNumbers:
    INPUTS = {"x": "float[M, N]", "h": "bfloat16[N]"}  # noqa: RUF012
    SCALARS = {"seed": "int64", "p": "{dtype: double, value: 0.25}"}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("body", "outputs"),
        [
            ("u = rand_like(x, seed)", {"u": "float"}),
            ("u = rand_like(h, seed)", {"u": "bfloat16"}),
            ("u = uniform(-1.0, p, [M, 2, N], seed, dtype=half)", {"u": "half"}),
            ("u = randn_like(x, seed)", {"u": "float"}),
            ("u = randn_like(h, seed)", {"u": "bfloat16"}),
            ("u = normal(-1.0, p, [M, 2, N], seed, dtype=half)", {"u": "half"}),
            ("y, m = dropout(x, p, seed)", {"y": "float", "m": "bool"}),
            ("y, m = dropout(h, 0.9, seed)", {"y": "bfloat16", "m": "bool"}),
            ("y = linear_index([M, N]) + x", {"y": "float"}),
        ],
    )
    def test_torchs_are_distributed_like_ours(self, body: str, outputs: dict[str, str]) -> None:
        used = "".join(f"\n_ = set({name})" for name in ("x", "h", "seed", "p"))
        fusion = recipe_of(text_of(self.INPUTS, body + used, outputs, scalars=self.SCALARS)).fusion
        torch.manual_seed(0)
        check(fusion, random_inputs(fusion, {"M": 64, "N": 512}, seed=1))

    def test_other_distributions_are_told_apart(self) -> None:
        generator = torch.Generator().manual_seed(1)
        u, v = torch.rand(2, 100_000, generator=generator)
        assert same_distribution(u, v)
        assert not same_distribution(u, v + 0.01)
        assert not same_distribution(u, (v - 0.5) * 1.1 + 0.5)
        assert not same_distribution(u >= 0.1, v >= 0.11)
        assert same_distribution(torch.ones(3), torch.ones(3))
        assert not same_distribution(torch.ones(3), torch.full((3,), 1.1))

    @pytest.mark.parametrize("op", ["philox_uniform", "philox_normal"])
    def test_the_draws_of_our_counter_have_no_torch_function(self, op: str) -> None:
        text = text_of({"x": "int64[N]"}, f"u = {op}(x, 1)", {"u": "float"})
        with pytest.raises(NoReferenceError) as caught:
            torch_module(recipe_of(text).fusion)
        (found,) = caught.value.diagnostics
        assert found.message == "torch cannot be asked for the random numbers of " + op

    @pytest.mark.parametrize("op", ["uniform_between", "normal_around"])
    def test_bounds_are_met_as_the_oracle_meets_them(self, op: str) -> None:
        text = text_of({"x": "float[N]"}, f"u = {op}(x, -2.0, s)", {"u": "float"}, scalars={"s": "double"})
        fusion = recipe_of(text).fusion
        check(fusion, random_inputs(fusion, {"N": 99}, seed=1))


class TestNumbers:
    def test_numbers_are_computed_as_ieee_754_has_them(self) -> None:
        assert [divide(1.0, 0.0), divide(-1.0, 0.0), divide(1.0, -0.0)] == [math.inf, -math.inf, -math.inf]
        assert math.isnan(divide(0.0, 0.0))
        assert divide(6, 4) == 1.5
        assert square_root(9.0) == 3.0
        assert math.isnan(square_root(-1.0))
        assert reciprocal_root(0.0) == math.inf
        assert reciprocal_root(4.0) == 0.5

    def test_a_chain_of_scalars_stays_on_the_host_and_what_python_has_not_goes_to_torch(self) -> None:
        text = text_of(
            {"x": "float[M, N]"},
            "n = cast(size(N), double)\nscale = rsqrt(n + eps) * reciprocal(n)\ny = x * scale\nz = x * tanh(scale)",
            {"y": "float", "z": "float"},
            scalars={"eps": "double"},
        )
        fusion = recipe_of(text).fusion
        module = torch_module(fusion)
        check(fusion, random_inputs(fusion, {"M": 3, "N": 7}, seed=1), module)
        assert module.code.count("torch.full") == module.code.count("torch.tanh") == 1

    def test_a_fusion_without_tensor_inputs_names_no_device(self) -> None:
        builder = FusionBuilder("nothing")
        (filled,) = builder.call("full", [builder.constant(1.0)], {"shape": (3,), "dtype": F32})
        builder.output(filled)
        with pytest.raises(NoReferenceError, match="fusion nothing has no tensor input to name a device"):
            torch_module(builder.finish())


def test_outputs_in_place_are_written_after_everything_was_read() -> None:
    text = text_of(
        {"x": "float[M, N]", "y": "float[M, N]"},
        "a = set(y)\nb = set(x)",
        {"a": "{dtype: float, alias: x}", "b": "{dtype: float, alias: y}"},
    )
    x, y = torch.ones(2, 3), torch.zeros(2, 3)
    a, b = torch_module(recipe_of(text).fusion)(x, y)
    assert a is x
    assert b is y
    assert (x == 0).all()
    assert (y == 1).all()


def test_no_two_outputs_are_one_tensor() -> None:
    text = text_of({"x": "float[M]"}, "a = cast(x, half)\nb = cast(x, half)\nc = set(b)\nd = exp(x)",
                   {"a": "half", "b": "half", "c": "half", "d": "float"})  # fmt: skip
    results = torch_module(recipe_of(text).fusion)(torch.ones(4))
    assert len({result.data_ptr() for result in results}) == 4


def referenced(reference: str) -> Recipe:
    text = text_of({"x": "float[M, N]", "w": "float[N]"}, "y = x * w * eps * s", {"y": "float"},
                   scalars={"eps": "{dtype: double, value: 0.5}", "s": "double"})  # fmt: skip
    return recipe_of(f"{text}bench:\n  reference: {reference}\n", "r.yaml")


def expression(reference: str) -> Any:
    recipe = referenced(reference)
    assert recipe.bench.reference is not None
    return expression_module(recipe.fusion, recipe.bench.reference)


class TestExpressions:
    def test_what_is_accepted_exists_in_torch(self) -> None:
        assert [name for name in TORCH_FUNCTIONS if not callable(getattr(torch, name, None))] == []
        assert [name for name in TENSOR_METHODS if not callable(getattr(torch.Tensor, name, None))] == []
        assert [name for name in TORCH_DTYPES if not isinstance(getattr(torch, name, None), torch.dtype)] == []

    def test_names_are_inputs_constants_and_sizes(self) -> None:
        module = expression("(x @ w) ** 2 / N + (-eps * s) * M, [x.sum(dim=(0, 1)).to(torch.float64)]")
        x, w = torch.randn(3, 4), torch.randn(4)
        first, second = as_results(module(x, w, 3.0))
        assert torch.equal(first, (x @ w) ** 2 / 4 + (-0.5 * 3.0) * 3)
        assert torch.equal(second, x.sum().double())

    def test_numbers_alone_are_computed_when_the_module_is_made(self) -> None:
        module = expression("x * (2 ** 3 - 7 // 2)")
        assert "x * 5.0" in module.code

    def test_a_tower_of_powers_overflows_and_is_no_endless_number(self) -> None:
        assert refusal("x * 9 ** 9 ** 9 ** 9") == "the reference cannot be computed: math range error"
        assert refusal("x * (1 / 0)") == "the reference cannot be computed: division by zero"

    def test_functions_that_this_torch_does_not_have(self) -> None:
        assert refusal("F.layernorm(x, [N])") == f"torch.nn.functional {torch.__version__} has no function 'layernorm'"
        assert refusal("F.Optional(x)") == "torch.nn.functional.Optional is no function of torch"
        assert refusal("F.warnings(x)") == "torch.nn.functional.warnings is no function of torch"


def refusal(reference: str) -> str:
    with pytest.raises(NoReferenceError) as caught:
        expression(reference)
    (found,) = caught.value.diagnostics
    assert found.location.text == f"  reference: {reference}"
    return found.message
