"""Reductions over outer dims that are broadcast back: which tasks are taken, in how many launches, and the numbers."""

from __future__ import annotations

from itertools import product
from math import gcd
from pathlib import Path
from typing import Any

import pytest

from fusebuild.artifact.plan import FormulaArg, as_formula
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.outer_persistent import FAMILY
from fusebuild.kernels.outer_persistent.whole import WholeHeuristics
from fusebuild.pipeline import plan_recipe
from fusebuild.recipe.recipe import load_recipe
from fusebuild.segmentation import segment
from fusebuild.target.table import TARGETS
from support.host_artifacts import beginning, chosen, compile_for_host
from support.places import ROOT
from support.small_recipes import primitive, text_of, whole

torch = pytest.importorskip("torch")

from fusebuild.runtime.loader import LoadedPlan, load  # noqa: E402

SM_90 = TARGETS["sm_90"]
X = {"x": "float[R, C]"}
CENTERED = "s = sum(x, dims=[0])\ny = x - s"
BOTH = {"s": "float", "y": "float"}
SEVERAL = "s = sum(x * w, dims=[0])\ntop = max(x, dims=[0])\ny = (x - s) * w + top"
RESIDUAL = """
xf = cast(x, float) + r
mean, m2, _ = welford(xf, dims=[0, 2, 3])
shown = broadcast(mean, is_broadcast_dim=[True, False, True, True])
y = (xf - shown) * factor
"""
GROUPED = """
s = sum(x, dims=[0, 3], keepdim=True)
y = x * broadcast(w, is_broadcast_dim=[True, True, False, True]) - s
"""
MOMENTS = """
m, m2, _ = welford({x}, dims=[0, 2])
y = ({x} - broadcast(m, is_broadcast_dim=[False, True])) * factor
"""
SHIFTED = "shifted = x + broadcast(b, is_broadcast_dim=[False, True])" + MOMENTS.format(x="shifted")
NORMALIZED = "lse = logsumexp(x, dims=[0])\ny = x - lse"
ROWS = (1, 2, 3, 31, 33, 256, 257, 512, 513, 2049)


def family_of(inputs: dict[str, str], body: str, outputs: dict[str, str]) -> list[str]:
    """The schedulers of the segments of a small recipe."""
    return [each.scheduler for each in segment(primitive(text_of(inputs, body, outputs)), SM_90).segments]


def reason(task: Task) -> str:
    rejection = FAMILY.accepts(task, SM_90)
    assert rejection is not None
    return rejection.reason


class TestWhatIsTaken:
    @pytest.mark.parametrize("name", ["batchnorm_train", "batchnorm_train_nchw"])
    def test_batch_norms_are_one_segment(self, name: str) -> None:
        planned = plan_recipe(load_recipe(ROOT / "recipes" / f"{name}.yaml"), [SM_90])
        (found,) = planned.plan.targets[0].segments
        assert found.scheduler == "outer_persistent"
        assert [len(each.launches) for each in found.variants][:1] == [1]

    def test_results_that_are_no_outputs_are_left_to_two_segments(self) -> None:
        assert family_of(X, CENTERED, BOTH) == ["outer_persistent"]
        assert family_of(X, CENTERED, {"y": "float"}) == ["reduction", "pointwise"]
        assert reason(whole(X, CENTERED, {"y": "float"})) == "s is broadcast back and no output"

    def test_nothing_is_drawn_twice(self) -> None:
        body = "u = x * rand_like(x, rng_seed=7)\ns = sum(u, dims=[0])\ny = u - s"
        assert "random, and would be drawn twice" in reason(whole(X, body, BOTH))

    def test_many_tensors_are_not_read_twice(self) -> None:
        inputs = dict.fromkeys("abc", "float[R, C]")
        body = "u = a * b + c\ns = sum(u, dims=[0])\ny = u - s"
        assert reason(whole(inputs, body, BOTH)) == "3 tensors would be read twice"

    @pytest.mark.parametrize(
        ("body", "outputs", "expected"),
        [
            ("s = sum(x, dims=[1], keepdim=True)\ny = x - s", BOTH, "no reduction runs over outer dims alone"),
            ("s = sum(x, dims=[0])\ny = x * 2.0", BOTH, "nothing that a reduction gives is broadcast back"),
            ("t = max(x, dims=[0])\ns = sum(x - t, dims=[0])\ny = x - s", {**BOTH, "t": "float"},
             "s needs the result of another reduction"),
        ],
    )  # fmt: skip
    def test_other_tasks_are_not(self, body: str, outputs: dict[str, str], expected: str) -> None:
        assert reason(whole(X, body, outputs)) == expected


class TestBlocks:
    @pytest.mark.parametrize("threads", [64, 512])
    def test_no_block_has_more_channels_than_threads_or_more_elements_than_room(self, threads: int) -> None:
        tuned = {"whole_int32": {"threads": threads, "min_blocks": 1}}
        found = FAMILY.schedule(whole(X, CENTERED, BOTH), SM_90, {"R": 7, "C": 9}, tuned)
        (launch,) = next(each.launches for each in found if each.name == "whole_int32")
        heuristics = launch.kernel.heuristics
        assert isinstance(heuristics, WholeHeuristics)
        (channels,) = (each.arg for each in launch.kernel.parameters if each.name == "block_channels")
        assert isinstance(channels, FormulaArg)
        for rows, columns in ((1, 1), (1, 10**7), (5, 10**6), (300, 5000), (512, 3000), (2048, 3), (2048, 1)):
            sizes = {"R": rows, "C": columns, MULTIPROCESSORS: 132}
            own = evaluate(as_formula(channels.formula), sizes)
            assert 1 <= own <= threads
            assert own * rows <= heuristics.elements
            assert (evaluate(launch.grid[0], sizes) - 1) * own < columns <= evaluate(launch.grid[0], sizes) * own


class TestColumns:
    @pytest.mark.parametrize("threads", [64, 512])
    def test_all_runs_that_begin_alike_have_threads(self, threads: int) -> None:
        """Those of a block begin at up to 8 places of a vector, and none has less than a thread for each vector."""
        task = whole({"x": "bfloat16[N, C, HW]"}, "m, m2, _ = welford(cast(x, float), dims=[0, 2])\n"
                     "y = x - broadcast(m, is_broadcast_dim=[False, True])",
                     {"m": "float", "m2": "float", "y": "bfloat16"})  # fmt: skip
        tuned = {"whole_int32": {"threads": threads, "min_blocks": 1}}
        found = FAMILY.schedule(task, SM_90, {"N": 7, "C": 9, "HW": 5}, tuned)
        (launch,) = next(each.launches for each in found if each.name == "whole_int32")
        named = {each.name: each.arg for each in launch.kernel.parameters}

        def value(name: str, sizes: dict[str, int]) -> int:
            argument = named[name]
            assert isinstance(argument, FormulaArg)
            return evaluate(as_formula(argument.formula), sizes)

        added = 0
        for outer, channels, inner in product((32, 43, 128, 384, 1023), (701, 2**14, 20001, 10**5 + 2), (1, 9, 20, 31)):
            sizes = {"N": outer, "C": channels, "HW": inner, MULTIPROCESSORS: 132}
            kinds = 8 // gcd(8, channels * inner)
            if value("adds_columns", sizes):
                assert value("run_vectors", sizes) * min(outer, kinds) <= threads
                added += 1
        assert added > 20


class TestThreads:
    """Those of blocks that have a channel alone."""

    @pytest.mark.parametrize(
        ("shape", "name"),
        [
            ((35, 256, 14), "alone128_int32"),
            ((8, 47, 170), "alone256_int32"),
            ((1, 277, 3351), "alone256_int32"),
            ((1, 190, 3351), "alone_int32"),
            ((3, 1707, 123), "alone64_int32"),
            ((64, 9216, 64), "alone64_int32"),
            ((1, 9216, 4104), "alone64_int32"),
            ((1, 12883, 8901), "alone128_int32"),
            ((1, 12883, 16392), "alone256_int32"),
            ((1, 100_000, 24), "whole_int32"),  # short, and many
            ((1, 1000, 24), "alone64_int32"),
            ((64, 256, 3136), "clustered_int32"),
        ],
    )
    def test_follow_from_vectors_and_channels(self, shape: tuple[int, int, int], name: str) -> None:
        sizes = dict(zip(("N", "C", "HW"), shape, strict=True))
        task = whole({"x": "bfloat16[N, C, HW]"}, MOMENTS.format(x="cast(x, float)").replace(" * factor", ""),
                     {"m": "float", "m2": "float", "y": "bfloat16"})  # fmt: skip
        found = FAMILY.schedule(task, SM_90, {})
        taken = next(each for each in found if all(evaluate(guard, sizes, lambda *_: True) for guard in each.guard))
        assert taken.name == name


class TestTwoParts:
    """Statistics, then elements."""

    def pairs(self) -> tuple[VariantSpec, ...]:
        found = FAMILY.schedule(whole(X, CENTERED, BOTH), SM_90, {"R": 65536, "C": 1024})
        return tuple(each for each in found if each.name != "whole_int32")

    def test_the_last_one_runs_always(self) -> None:
        *guarded, last = self.pairs()
        assert last.guard == ()
        assert all(each.guard for each in guarded)

    def test_elements_are_walked_backwards_when_statistics_are_there(self) -> None:
        for variant in self.pairs():
            *statistics, elements = variant.launches
            assert elements.kernel.order.backwards
            assert elements.starts_early
            assert not any(each.kernel.order.backwards for each in statistics)


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    four = "bfloat16[N, C, H, W]"
    texts = {
        "several": text_of(
            {**X, "w": "half[C]"}, SEVERAL, {**BOTH, "top": "float"}, name="several"
        ),
        "residual": text_of(
            {"x": four, "r": four}, RESIDUAL, {"mean": "float", "m2": "float", "y": "bfloat16"},
            name="residual", scalars={"factor": "float"},
        ),
        "grouped": text_of({"x": "double[N, A, B, H]", "w": "double[B]"}, GROUPED, {"s": "double", "y": "double"},
                           name="grouped"),
        "shifted": text_of({"x": "float[N, C, HW]", "b": "float[C]"}, SHIFTED,
                           {"m": "float", "m2": "float", "y": "float"}, name="shifted", scalars={"factor": "float"}),
        "wide": text_of({"x": "double[N, C, HW]"}, MOMENTS.format(x="x"),
                        {"m": "double", "m2": "double", "y": "double"}, name="wide", scalars={"factor": "double"}),
        "normalized": text_of(X, NORMALIZED, {"lse": "float", "y": "float"}, name="normalized"),
        "in_place": text_of(X, CENTERED, {"s": "float", "y": "{dtype: float, alias: x}"}, name="in_place"),
        **{name: (ROOT / "recipes" / f"{name}.yaml").read_text() for name in
           ("batchnorm_train", "batchnorm_train_nchw")},
    }  # fmt: skip
    return compile_for_host(tmp_path_factory.mktemp("channels"), texts)


def is_whole(outer: int, channels: int, inner: int = 1, most: int = 32768, vec: int = 8) -> bool:
    """Whether blocks have channels to themselves: the vectors around a run of 16 neighbours in memory, or of 64 where
    many begin anywhere, have room in a block for each outer index, which is ``most`` elements, or less of few."""
    points, is_odd = outer * channels * inner, (channels if inner == 1 else inner) % vec != 0
    are_many = points > 2**18
    run = max(16 + 48 * (points > 2**20 and is_odd), inner)
    return outer * vec * ((run + (vec - 1) * (1 + is_odd)) // vec) <= (most if are_many else min(most, 2**13))


WAYS = ("alone", "whole", "clustered")
"""Those in which elements are read once."""


def vectors_of(outer: int, inner: int) -> int:
    """The aligned vectors around the runs of a channel."""
    return outer * ((inner + 7 + 7 * (inner % 8 > 0)) // 8)


def is_alone(outer: int, channels: int, inner: int) -> bool:
    """Whether a block has one channel, whose vectors have room: of many channels no short ones."""
    points, vectors = outer * channels * inner, vectors_of(outer, inner)
    least = 16 + 48 * (points > 2**20 and inner % 8 > 0) if points > 2**18 else 4
    has_room = 8 * vectors <= (32768 if points > 2**18 else 8192)
    return has_room and inner >= least and (vectors >= 32 or channels <= 1024)


def is_clustered(outer: int, channels: int, inner: int) -> bool:
    """Whether a cluster has a channel."""
    elements = 8 * vectors_of(outer, inner)
    return inner >= 8 and elements <= 2**18 and (elements <= 2**17 or channels >= 16)


def way(variant: str) -> str:
    """How the blocks of a variant have channels, without their threads."""
    return variant.removesuffix("_int32").rstrip("0123456789")


def opened(artifacts: Path, name: str) -> LoadedPlan:
    return load(artifacts / f"{name}.fuse", target="host")


def numbers(*shape: int, dtype: Any = torch.float) -> Any:
    """Numbers whose mean is not zero."""
    return (torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))) + 3.0).to(dtype)


def batch_norm(artifacts: Path, x: Any, name: str) -> tuple[str, Any]:
    """The variant that runs for ``x``, and how far its results are from exact ones, in parts of what is allowed."""
    plan, (channels, dims) = opened(artifacts, name), (x.shape[1], (0, 2) if x.dim() == 3 else (0,))
    weight, bias, mean, var = (numbers(channels + number)[:channels] for number in range(4))
    before = mean.clone(), var.clone()
    variant = chosen(plan, x, weight, bias, mean, var)
    y, got_mean, rstd, new_mean, new_var = plan(x, weight, bias, mean, var)
    exact, shape = x.double(), (1, channels, 1)[: x.dim()]
    wanted = exact.mean(dims)
    deviation = exact.var(dims, correction=0)
    torch.testing.assert_close(got_mean.double(), wanted, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(rstd.double(), (deviation + 1e-5).rsqrt(), rtol=1e-4, atol=0)
    torch.testing.assert_close(new_mean.double(), before[0] + 0.1 * (wanted - before[0]), rtol=1e-5, atol=1e-5)
    if x[:, 0].numel() > 1:
        unbiased = exact.var(dims, correction=1)
        torch.testing.assert_close(new_var.double(), before[1] + 0.1 * (unbiased - before[1]), rtol=1e-5, atol=1e-5)
    scaled = (exact - wanted.view(shape)) * rstd.double().view(shape) * weight.double().view(shape)
    torch.testing.assert_close(y.double(), scaled + bias.double().view(shape), rtol=1e-2, atol=1e-2)
    return variant, y


class TestBatchNorms:
    @pytest.mark.parametrize("rows", ROWS)
    @pytest.mark.parametrize("columns", [1, 15, 17, 40])
    def test_few_rows_take_one_launch(self, artifacts: Path, rows: int, columns: int) -> None:
        variant, _ = batch_norm(artifacts, numbers(rows, columns, dtype=torch.bfloat16), "batchnorm_train")
        assert (variant == "whole_int32") == is_whole(rows, columns)

    @pytest.mark.parametrize(
        "shape",
        [(1, 1, 1), (1, 700, 5), (2, 1500, 2), (79, 61, 1), (11, 41, 79), (1, 3, 4096), (1, 3, 4097), (4, 2, 1024),
         (32, 5, 128), (31, 5, 129), (32, 5, 129), (5, 513, 3), (33, 1025, 1), (3, 5, 49), (7, 2, 513), (2048, 3, 2),
         (1, 17, 16384), (1, 17, 16385), (128, 17, 128), (1024, 257, 1), (1025, 257, 1), (2, 17, 16376), (2, 17, 16377),
         (9, 3, 4099), (1, 15, 131072), (1, 2, 131073), (3, 1, 43700), (33, 16, 4001)],
    )  # fmt: skip
    def test_images_with_few_elements_a_channel_do(self, artifacts: Path, shape: tuple[int, int, int]) -> None:
        variant, _ = batch_norm(artifacts, numbers(*shape, dtype=torch.bfloat16), "batchnorm_train_nchw")
        expected = {"alone": is_alone(*shape), "whole": is_whole(*shape), "clustered": is_clustered(*shape)}
        assert not any(expected.values()) or way(variant) == next(name for name, holds in expected.items() if holds)

    @pytest.mark.parametrize("shape", [(33, 16, 5001), (32, 20, 960), (300, 24), (1000, 265)])
    @pytest.mark.parametrize("center", [0.0, 1e-5, 3.0, 1000.0])
    def test_means_are_exact_wherever_they_lie(self, artifacts: Path, shape: tuple[int, ...], center: float) -> None:
        name = "batchnorm_train_nchw" if len(shape) == 3 else "batchnorm_train"
        x = (torch.randn(shape, generator=torch.Generator().manual_seed(7)) + center).bfloat16()
        floats = [torch.ones(shape[1]) for _ in range(4)]
        plan, dims = opened(artifacts, name), (0, 2)[: len(shape) - 1]
        assert way(chosen(plan, x, *floats)) in WAYS
        _, mean, rstd, _, _ = plan(x, *floats)
        exact = x.double()
        torch.testing.assert_close(mean.double(), exact.mean(dims), rtol=1e-6, atol=2e-9)
        wanted = (exact.var(dims, correction=0) + 1e-5).rsqrt()
        torch.testing.assert_close(rstd.double(), wanted, rtol=2e-6, atol=0)

    def test_many_elements_do_where_columns_have_few_or_are_added_up_first(self, artifacts: Path) -> None:
        plan = opened(artifacts, "batchnorm_train")
        sizes = {(8, 2**18 + 1): True, (9, 2**18): False, (26, 53888): True, (64, 2**16): False,
                 (119, 2**16 + 1): False, (120, 2**16 + 1): True, (120, 2**16): False, (767, 2**13): False,
                 (768, 2**13): True, (832, 2**13): True, (833, 2**13): False,
                 (128, 2**18 - 1): True, (128, 2**18 + 1): False}  # fmt: skip
        for (rows, columns), expected in sizes.items():
            inputs = [torch.empty(rows, columns, dtype=torch.bfloat16), *[torch.empty(columns)] * 4]
            assert (chosen(plan, *inputs) == "whole_int32") == expected, (rows, columns)

    @pytest.mark.parametrize("shape", [(400, 657), (512, 521), (1000, 263), (1023, 300), (500, 529, 1), (800, 331, 1),
                                       (43, 4440, 22), (37, 12601, 9), (127, 1100, 31)])  # fmt: skip
    def test_columns_are_added_up_first(self, artifacts: Path, shape: tuple[int, ...]) -> None:
        x = numbers(*shape, dtype=torch.bfloat16)
        variant, _ = batch_norm(artifacts, x, "batchnorm_train_nchw" if len(shape) == 3 else "batchnorm_train")
        assert variant == "whole_int32"

    def test_others_read_tensors_that_begin_anywhere(self, artifacts: Path) -> None:
        x = numbers(3, 37, 7, dtype=torch.bfloat16)
        for at in range(1, 8):
            variant, _ = batch_norm(artifacts, beginning(at, x), "batchnorm_train_nchw")
            assert way(variant) not in WAYS

    def test_no_rows_have_no_mean(self, artifacts: Path) -> None:
        plan = opened(artifacts, "batchnorm_train")
        x, floats = torch.empty(0, 3, dtype=torch.bfloat16), [numbers(3) for _ in range(4)]
        assert chosen(plan, x, *floats) != "whole_int32"
        y, mean, *_ = plan(x, *floats)
        assert y.shape == (0, 3)
        assert bool(mean.isnan().all())

    def test_no_channels_are_nothing_to_do(self, artifacts: Path) -> None:
        y, mean, *_ = opened(artifacts, "batchnorm_train")(
            torch.empty(5, 0, dtype=torch.bfloat16), *[torch.empty(0) for _ in range(4)]
        )
        assert (y.shape, mean.shape) == ((5, 0), (0,))

    def test_equal_elements_have_no_variance(self, artifacts: Path) -> None:
        x, floats = torch.full((300, 19), 7.125, dtype=torch.bfloat16), [torch.ones(19) for _ in range(4)]
        _, mean, rstd, _, _ = opened(artifacts, "batchnorm_train")(x, *floats)
        assert bool((mean == 7.125).all())
        assert bool((rstd == torch.tensor(1e-5).rsqrt()).all())


class TestOtherTasks:
    @pytest.mark.parametrize("rows", [1, 5, 100, 511, 2048, 2049])
    @pytest.mark.parametrize("columns", [1, 9, 333])
    def test_several_reductions_of_products(self, artifacts: Path, rows: int, columns: int) -> None:
        plan, x, w = opened(artifacts, "several"), numbers(rows, columns), numbers(columns).half()
        y, s, top = (dict(zip((each.name for each in plan.plan.outputs), plan(x, w), strict=True))[name]
                     for name in ("y", "s", "top"))  # fmt: skip
        assert (chosen(plan, x, w) == "whole_int32") == is_whole(rows, columns, most=16384)
        wide = w.double()
        torch.testing.assert_close(s.double(), (x.double() * wide).sum(0), rtol=1e-5, atol=1e-4)
        assert torch.equal(top, x.amax(0))
        wanted = (x.double() - s.double()) * wide + top.double()
        torch.testing.assert_close(y.double(), wanted, rtol=1e-5, atol=1e-3)

    @pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 20, 5, 7), (64, 3, 1, 1), (2, 9, 32, 64)])
    def test_two_tensors_of_four_dims(self, artifacts: Path, shape: tuple[int, ...]) -> None:
        plan, x, r = opened(artifacts, "residual"), numbers(*shape).bfloat16(), numbers(*shape[::-1]).bfloat16()
        r = r.reshape(shape)
        mean, m2, y = plan(x, r, 0.5)
        assert way(chosen(plan, x, r, 0.5)) in ("alone", "whole")
        exact = x.double() + r.double()
        torch.testing.assert_close(mean.double(), exact.mean((0, 2, 3)), rtol=1e-6, atol=1e-6)
        around = exact - exact.mean((0, 2, 3), keepdim=True)
        torch.testing.assert_close(m2.double(), around.square().sum((0, 2, 3)), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(y.double(), around * 0.5, rtol=1e-2, atol=1e-2)

    @pytest.mark.parametrize("shape", [(1, 1, 1, 1), (5, 3, 7, 2), (64, 2, 33, 4)])
    def test_channels_of_two_dims_of_which_one_has_weights(self, artifacts: Path, shape: tuple[int, ...]) -> None:
        plan = opened(artifacts, "grouped")
        x, w = numbers(*shape, dtype=torch.double), numbers(shape[2], dtype=torch.double)
        s, y = plan(x, w)
        assert way(chosen(plan, x, w)) in ("alone", "whole")
        torch.testing.assert_close(s, x.sum((0, 3), keepdim=True))
        torch.testing.assert_close(y, x * w.view(1, 1, -1, 1) - s)

    @pytest.mark.parametrize("shape", [(1, 1, 1), (3, 700, 5), (64, 3, 1), (7, 20, 123), (50, 33, 2)])
    @pytest.mark.parametrize("name", ["shifted", "wide"])
    def test_moments_of_other_elements(self, artifacts: Path, name: str, shape: tuple[int, int, int]) -> None:
        plan, x, shifts = opened(artifacts, name), numbers(*shape), numbers(shape[1])
        inputs = [x, shifts] if name == "shifted" else [x.double()]
        exact = (x + shifts.view(1, -1, 1)).double() if name == "shifted" else x.double()
        assert way(chosen(plan, *inputs, 0.5)) in ("alone", "whole")
        mean, m2, y = plan(*inputs, 0.5)
        bound = 1e-5 if name == "shifted" else 1e-12
        around = exact - exact.mean((0, 2), keepdim=True)
        torch.testing.assert_close(mean.double(), exact.mean((0, 2)), rtol=bound, atol=bound)
        torch.testing.assert_close(m2.double(), around.square().sum((0, 2)), rtol=bound, atol=bound)
        torch.testing.assert_close(y.double(), around * 0.5, rtol=bound, atol=bound)

    @pytest.mark.parametrize("shape", [(1, 1), (340, 3), (77, 1000)])
    def test_states_of_lambdas(self, artifacts: Path, shape: tuple[int, int]) -> None:
        plan, x = opened(artifacts, "normalized"), numbers(*shape)
        lse, y = plan(x)
        assert chosen(plan, x) == "whole_int32"
        torch.testing.assert_close(lse, x.logsumexp(0), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(y, x.log_softmax(0), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("shape", [(1, 1), (300, 41), (600, 9)])
    def test_what_is_read_may_be_overwritten(self, artifacts: Path, shape: tuple[int, int]) -> None:
        x = numbers(*shape)
        wanted = x.double() - x.double().sum(0)
        opened(artifacts, "in_place")(x)
        torch.testing.assert_close(x.double(), wanted, rtol=1e-5, atol=1e-3)
