"""What each family of kernels takes and why it refuses the rest, its variants, guards and heuristics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, evaluate, symbols
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.rows import RowThreads, levels, next_power_of_two, row_threads
from fusebuild.kernels.common.spec import (
    INDEX_HEADROOM,
    KernelSpec,
    LaunchSpec,
    Rejection,
    VariantSpec,
    axis_domain,
    hint,
    usable,
)
from fusebuild.kernels.common.sweeps import cached_inputs, input_sweeps, kept_values
from fusebuild.kernels.families import FAMILIES, first_accepting
from fusebuild.kernels.persistent import FAMILY as PERSISTENT
from fusebuild.kernels.persistent.long_rows import EDGED_RUNGS
from fusebuild.kernels.persistent.registers import REGISTER_BYTES
from fusebuild.kernels.persistent.way import PersistentHeuristics
from fusebuild.kernels.pointwise.thread_elements import PointwiseHeuristics
from fusebuild.kernels.reduction.schedule import InnerHeuristics, OuterHeuristics
from fusebuild.segmentation import segment
from fusebuild.target.table import TARGETS
from support.small_recipes import primitive, recipe_of, text_of, whole

SM_90, HOST = TARGETS["sm_90"], TARGETS["host"]
BY_NAME = {scheduler.name: scheduler for scheduler in FAMILIES}

POINTWISE = whole({"x": "bfloat16[M, N]", "b": "bfloat16[N]"}, "y = x + b", {"y": "bfloat16"})
ROW_SUM = whole({"x": "float[M, N]"}, "y = sum(x, dims=[1])", {"y": "float"})
COLUMN_SUM = whole({"x": "bfloat16[M, N]"}, "y = sum(x, dims=[0])", {"y": "float"})
FULL_SUM = whole({"x": "float[M, N]"}, "y = sum(x, dims=[0, 1])", {"y": "float"})
SOFTMAX_BODY = "m = max(x, dims=[1], keepdim=True)\ne = exp(x - m)\ns = sum(e, dims=[1], keepdim=True)\ny = e / s"
SOFTMAX = whole({"x": "bfloat16[M, N]"}, SOFTMAX_BODY, {"y": "bfloat16"})


def reason(scheduler: str, task: Task) -> str | None:
    rejected = BY_NAME[scheduler].accepts(task, SM_90)
    return None if rejected is None else rejected.reason


def variants(scheduler: str, task: Task, **sizes: int) -> tuple[VariantSpec, ...]:
    return BY_NAME[scheduler].schedule(task, SM_90, sizes)


def names(found: tuple[VariantSpec, ...]) -> list[str]:
    return [variant.name for variant in found]


def kernels(variant: VariantSpec) -> list[KernelSpec]:
    return [launch.kernel for launch in variant.launches]


def test_the_order_in_which_they_are_asked() -> None:
    names = [scheduler.name for scheduler in FAMILIES]
    assert names == [
        "alias",
        "transpose",
        "pointwise",
        "reduction",
        "inner_persistent",
        "outer_persistent",
        "inner_outer_persistent",
        "storing_reduction",
        "repeating_pointwise",
        "scan",
        "scatter",
        "order",
        "library",
    ]


@pytest.mark.parametrize(
    ("task", "scheduler"),
    [(POINTWISE, "pointwise"), (ROW_SUM, "reduction"), (COLUMN_SUM, "reduction"), (FULL_SUM, "reduction"),
     (SOFTMAX, "inner_persistent")],
)  # fmt: skip
def test_who_takes_what(task: Task, scheduler: str) -> None:
    found = first_accepting(task, SM_90)
    assert not isinstance(found, tuple)
    assert found.name == scheduler


OVER_BOTH = "a = sum(x, dims=[0], keepdim=True)\nb = sum(x, dims=[1], keepdim=True)\ny = a + b"
RANK3 = {"x": "float[B, M, N]"}
REJECTIONS: list[tuple[str, str, str, Task]] = [
    ("alias", "neg computes", "test.yaml:5:7", whole({"x": "float[M]"}, "y = -x", {"y": "float"})),
    ("alias", "output y would share memory with another tensor", "test.yaml:5:7",
     whole({"x": "float[M, 1]"}, "y = squeeze(x, dims=[1])", {"y": "float"})),
    (
        "alias",
        "x has strides known only at run time",
        "test.yaml:5:7",
        whole({"x": '{dtype: "float[M, 1, N]", contiguity: [false, null, true]}'}, "y = squeeze(x, dims=[1])",
              {"y": "float"}),
    ),
    ("pointwise", "sum is a reduction", "test.yaml:5:7", ROW_SUM),
    ("pointwise", "b does not span the whole iteration domain", "test.yaml:6:7",
     whole({"x": "float[M, N]", "c": "float[N]"}, "b = -c\ny = x + b", {"y": "float", "b": "float"})),
    ("reduction", "there is no reduction", "test.yaml:6:7", POINTWISE),
    ("reduction", "y needs the result of another reduction", "test.yaml:6:7",
     whole({"x": "float[M, N]"}, "m = max(x, dims=[1], keepdim=True)\ny = sum(x - m, dims=[1])", {"y": "float"})),
    ("reduction", "y has other dims than this family writes", "test.yaml:6:7",
     whole({"x": "float[M, N]"}, "m = max(x, dims=[1], keepdim=True)\ny = x - m", {"y": "float"})),
    ("reduction", "the reduced dims are not neighbours", "test.yaml:5:7",
     recipe_of(text_of({"x": "float[A, B, C, D]"}, "y = sum(x, dims=[0, 2])", {"y": "float"})).fusion.whole()),
    ("reduction", "a reduces over other dims than the rest of the task", "test.yaml:5:7",
     whole(RANK3, "a = sum(x, dims=[2])\nb = sum(x, dims=[1, 2])", {"a": "float", "b": "float"})),
    ("inner_persistent", "there is no reduction", "test.yaml:6:7", POINTWISE),
    ("inner_persistent", "m is what only reduction computes", "test.yaml:5:13",
     recipe_of(text_of(RANK3, "m, s, _ = welford(x, dims=[2])", {"m": "float", "s": "float"})).fusion.whole()),
    ("inner_outer_persistent", "v_mean is what only reduction computes", "test.yaml:5:7",
     whole(RANK3, "v = var(x, dims=[0, 1])\nt = sum(x, dims=[2])", {"v": "float", "t": "float"})),
    ("inner_persistent", "the reduced dims are not the innermost ones", "test.yaml:5:7",
     whole({"x": "float[M, N]"}, "m = max(x, dims=[0], keepdim=True)\ny = x - m", {"y": "float"})),
]  # fmt: skip


@pytest.mark.parametrize(
    ("scheduler", "text", "place", "task"), REJECTIONS, ids=[f"{r[0]}: {r[1]}" for r in REJECTIONS]
)
def test_rejections(scheduler: str, text: str, place: str, task: Task) -> None:
    rejected = BY_NAME[scheduler].accepts(task, SM_90)
    assert isinstance(rejected, Rejection)
    assert (rejected.reason, str(rejected.location)) == (text, place)
    assert str(rejected) == f"{scheduler}: {text} ({rejected.location.short})"


class TestOtherDims:
    def test_more_loops_than_the_reduction_has(self) -> None:
        body = "t = sum(x, dims=[1], keepdim=True)\nz = y + t"
        task = whole({"x": "float[2, 32]", "y": "float[2, 128]"}, body, {"z": "float"})
        for scheduler in ("reduction", "inner_persistent"):
            assert reason(scheduler, task) == "the task iterates over dims that the reduction t_sum does not have"

    def test_reductions_over_different_dims(self) -> None:
        task = whole({"x": "float[M, N]"}, OVER_BOTH, {"y": "float"})
        assert reason("reduction", task) == "a_sum reduces over other dims than the rest of the task"
        assert reason("inner_persistent", task) == "a_sum reduces over other dims than the rest of the task"

    def test_orders_that_disagree_are_a_rejection_too(self) -> None:
        body = (
            "row = sum(x, dims=[0])\ncolumn = sum(x, dims=[1])\na = broadcast(row, is_broadcast_dim=[False, True])\n"
            "b = broadcast(column, is_broadcast_dim=[True, False])\ny = a + b"
        )
        task = whole({"x": "float[M, N]"}, body, {"y": "float"})
        assert reason("inner_persistent", task) == "x holds the same dims in another order"


class TestAlias:
    def test_takes_views_of_intermediates_and_launches_nothing(self) -> None:
        text = text_of({"x": "float[M, N]"}, "s = sum(x, dims=[1])\nv = segment_set(s)\ny = -v", {"y": "float"})
        fusion = primitive(text)
        view = Task(fusion=fusion, exprs=(1,))
        assert fusion.exprs[1].op == "segment_set"
        assert reason("alias", view) is None
        (variant,) = variants("alias", view)
        assert (variant.name, variant.guard, variant.launches) == ("view", (), ())


SMALL: Formula = ("lt", ("mul", "M", "N"), INDEX_HEADROOM)


def named(found: Sequence[VariantSpec], name: str) -> VariantSpec:
    """The variant called ``name``."""
    return next(each for each in found if each.name == name)


class TestPointwise:
    def test_variants_and_guards(self) -> None:
        found = variants("pointwise", POINTWISE, M=1024, N=4096)
        assert {variant.name: variant.guard for variant in found} == {
            "few_scalar_int64": (("le", ("mul", "M", "N"), 270336),),
            "rows_vec8_int32": (
                SMALL, ("eq", ("mod", "N", 8), 0), ("aligned", 0, 16), ("aligned", 1, 16), ("aligned", 3, 16),
            ),
            "shifted_vec8_int32": (SMALL, ("aligned", 0, 16), ("aligned", 3, 16)),
            "scalar_int64": (),
        }  # fmt: skip
        few, *others = [kernel for variant in found for kernel in kernels(variant)]
        assert few == others[-1], "few elements take the kernel of the last variant"
        assert [(k.vec, k.index) for k in others] == [(8, "int32_t"), (8, "int32_t"), (1, "int64_t")]
        assert [k.is_shifted for k in others] == [False, True, False]

    def test_the_narrowest_tensor_decides_the_vector(self) -> None:
        def width(inputs: Mapping[str, str], output: str) -> int:
            body = "y = " + " + ".join(inputs)
            return max(kernels(each)[0].vec for each in variants("pointwise", whole(inputs, body, {"y": output})))

        assert width({"x": "float[M]"} | {"z": "float[M]"}, "float") == 4
        assert width({"x": "double[M]", "z": "double[M]"}, "double") == 2
        assert width({"x": "double[M]", "z": "bfloat16[M]"}, "double") == 8

    def test_a_strided_innermost_dim_has_no_vectors(self) -> None:
        layout = '{dtype: "float[M, N]", contiguity: [true, true], stride_order: [0, 1]}'
        task = whole({"x": layout}, "y = -x", {"y": "{dtype: float, alias: x}"})
        assert names(variants("pointwise", task)) == ["scalar_int32", "scalar_int64"]

    def test_constant_guards_are_decided(self) -> None:
        def of(size: int) -> tuple[VariantSpec, ...]:
            return variants("pointwise", whole({"x": f"float[{size}]"}, "y = -x", {"y": "float"}))

        assert [(v.name, v.guard) for v in of(128)] == [
            ("vec4_int32", (("aligned", 0, 16), ("aligned", 1, 16))), ("scalar_int32", ()),
        ]  # fmt: skip
        assert [(v.name, v.guard) for v in of(15)] == [("scalar_int32", ())]
        assert [(v.name, v.guard) for v in of(100001)] == [
            ("vec4_int32", (("aligned", 0, 16), ("aligned", 1, 16))), ("scalar_int64", ()),
        ]  # fmt: skip
        assert names(of(2**31)) == ["scalar_int64"]

    def test_a_zero_dim_result_is_one_scalar_kernel(self) -> None:
        (variant,) = variants("pointwise", whole({"x": "float[]"}, "y = -x", {"y": "float"}))
        assert (variant.name, variant.guard) == ("scalar_int32", ())
        assert variant.launches[0].grid == (1, 1, 1)

    @pytest.mark.parametrize(
        ("inputs", "size", "heuristics"),
        [
            (1, 2**26, PointwiseHeuristics(threads=128, unroll=1, min_blocks=16)),
            (3, 2**26, PointwiseHeuristics(threads=128, unroll=1, min_blocks=16)),
            (4, 2**26, PointwiseHeuristics(threads=128, unroll=1, min_blocks=8)),
            (1, 132 * 128 * 4, PointwiseHeuristics(threads=128, unroll=1, min_blocks=16)),
            (1, 132 * 128 * 4 - 1, PointwiseHeuristics(threads=64, unroll=1, min_blocks=32)),
            (1, 4, PointwiseHeuristics(threads=64, unroll=1, min_blocks=32)),
        ],
    )
    def test_heuristics(self, inputs: int, size: int, heuristics: PointwiseHeuristics) -> None:
        tensors = {f"x{index}": "float[M]" for index in range(inputs)}
        task = whole(tensors, "y = 1.0 + " + " + ".join(tensors), {"y": "float"})
        (launch,) = named(variants("pointwise", task, M=size), "vec4_int32").launches
        assert launch.kernel.heuristics == heuristics
        assert launch.block == (heuristics.threads, 1, 1)
        shares = ("add", ("floor_div", "M", 4), ("mod", "M", 4))
        assert launch.grid == (("ceil_div", shares, heuristics.threads * heuristics.unroll), 1, 1)

    def test_threads_that_hold_much_are_fewer_at_a_time(self) -> None:
        def of(outputs: int) -> list[int]:
            body = "\n".join(f"y{each} = x + {each}.5" for each in range(outputs))
            task = whole({"x": "bfloat16[M, N]"}, body, {f"y{each}": "float" for each in range(outputs)})
            found = variants("pointwise", task, M=2**23, N=8)[1:]  # after the one for few elements
            chosen = [variant.launches[0].kernel.heuristics for variant in found]
            assert all(isinstance(each, PointwiseHeuristics) for each in chosen)
            return [each.min_blocks for each in chosen if isinstance(each, PointwiseHeuristics)]

        # 16 registers, a vector of 4 for x and one of 8 for each output; 32 registers for 16 blocks of 128 threads
        assert of(1) == [16, 16]
        assert of(2) == [8, 16]
        assert of(6) == [4, 16]
        assert of(14) == [2, 16]


class TestReduction:
    def test_inner(self) -> None:
        found = variants("reduction", ROW_SUM, M=16384, N=4096)
        assert names(found) == ["vec4_int32", "tiled_int64", "shifted_vec4_int32", "scalar_int64"]
        long = ("lt", "N", 2**30)
        assert found[0].guard == (SMALL, ("eq", ("mod", "N", 4), 0), ("aligned", 0, 16), long)
        assert found[1].guard == (("le", 1, "N"), ("le", "N", 128))
        assert found[2].guard == (("aligned", 0, 16), ("ge", "N", 2), long)
        launch = found[0].launches[0]
        heuristics = InnerHeuristics(threads=128, unroll=8, is_split=True, can_cluster=True, alone=8)
        assert launch.kernel.heuristics == heuristics
        assert launch.block == (128, 1, 1)

    @pytest.mark.parametrize(
        ("rows", "columns", "blocks", "splits"),
        [(16384, 4096, 16384, 1), (10**6, 64, 31250, 1), (10**7, 4, 9766, 1), (10**6, 512, 62500, 1),
         (10**4, 512, 1250, 1),
         (1, 10**8, 1, 1056), (3, 3 * 10**7, 3, 352), (2000, 2**20, 2000, 4), (0, 4096, 0, 1), (5, 0, 1, 1)],
    )  # fmt: skip
    def test_threads_and_blocks_share_rows_as_a_call_has_them(
        self, rows: int, columns: int, blocks: int, splits: int
    ) -> None:
        first, finish = variants("reduction", ROW_SUM, M=7, N=7)[0].launches
        sizes = {"M": rows, "N": columns, MULTIPROCESSORS: 132}
        assert [evaluate(each, sizes) for each in first.grid] == [blocks, splits, 1]
        assert (evaluate(finish.grid[0], sizes) > 0) == (splits > 1)

    def test_a_full_reduction_is_split_and_finished_in_order(self) -> None:
        variant = variants("reduction", FULL_SUM, M=16384, N=8192)[0]
        assert variant.name == "vec4_int32"
        first, finish = variant.launches
        assert first.kernel.template == "reduction_inner"
        sizes = {"M": 16384, "N": 8192, MULTIPROCESSORS: 132}
        assert [evaluate(each, sizes) for each in first.grid] == [1, 1056, 1]
        assert (first.starts_early, finish.starts_early) == (False, True)
        assert [evaluate(each, sizes) for each in variant.scratch] == [1056 * 4]

    @pytest.mark.parametrize(
        ("rows", "columns", "tiles", "splits"),
        [(32768, 4096, 16, 33), (4194304, 64, 1, 528), (64, 4096, 32, 1), (256, 1024, 32, 1), (257, 1024, 43, 1),
         (10**6, 8, 1, 528), (0, 64, 1, 1), (64, 0, 0, 1), (4096, 2**18, 521, 1),
         (4096, 2**21, 1024, 4)],
    )  # fmt: skip
    def test_outer(self, rows: int, columns: int, tiles: int, splits: int) -> None:
        found = variants("reduction", COLUMN_SUM, M=7, N=7)
        assert names(found) == [
            "small_scalar_int64", "vec8_int32", "folded_vec8_int32", "realigned_vec8_int32", "scalar_int64",
        ]  # fmt: skip
        own = named(found, "vec8_int32")
        first, finish = own.launches
        assert first.kernel.heuristics == OuterHeuristics(threads=256, unroll=4, is_split=True, widest=8)
        sizes = {"M": rows, "N": columns, MULTIPROCESSORS: 132}
        assert [evaluate(each, sizes) for each in first.grid] == [tiles, splits, 1]
        assert (evaluate(finish.grid[0], sizes) > 0) == (splits > 1 and columns > 0)
        assert [evaluate(each, sizes) for each in own.scratch] == [max(1, splits) * columns * 4]

    def test_rows_of_a_vector_are_combined_before_they_leave_partial_results(self) -> None:
        folded = named(variants("reduction", COLUMN_SUM, M=7, N=7), "folded_vec8_int32")
        sizes = {"M": 10**6, "N": 100, MULTIPROCESSORS: 132}
        assert [evaluate(each, sizes) for each in folded.launches[0].grid] == [1, 264, 1]
        assert [evaluate(each, sizes) for each in folded.scratch] == [264 * 100 * 4]

    def test_which_variant_runs_is_the_same_on_every_card(self) -> None:
        for task in (ROW_SUM, COLUMN_SUM, FULL_SUM):
            guards = [guard for variant in variants("reduction", task, M=7, N=7) for guard in variant.guard]
            assert MULTIPROCESSORS not in {symbol for guard in guards for symbol in symbols(guard)}

    @given(
        task=st.sampled_from(["row", "column", "full"]), rows=st.integers(0, 2**33), columns=st.integers(0, 2**33),
        is_aligned=st.booleans(),
    )  # fmt: skip
    def test_every_size_has_a_variant_whose_launches_fit(
        self, task: str, rows: int, columns: int, *, is_aligned: bool
    ) -> None:
        """Its indices reach the last step, and its grid is that of a GPU."""
        own = {"row": ROW_SUM, "column": COLUMN_SUM, "full": FULL_SUM}[task]
        sizes = {"M": rows, "N": columns, MULTIPROCESSORS: 132}
        found = variants("reduction", own, M=7, N=7)
        taken = next(each for each in found if all(evaluate(guard, sizes, lambda fid, size: is_aligned)
                                                   for guard in each.guard))  # fmt: skip
        first = taken.launches[0]
        x, splits, _ = (evaluate(each, sizes) for each in first.grid)
        assert x <= 2**35
        assert 1 <= splits <= 8 * 132
        if first.kernel.index == "int32_t":
            reduced = {"row": columns, "column": rows, "full": rows * columns}[task]
            assert reduced + reduced // 2 < 2**31


def kept(*names: str) -> tuple[int, ...]:
    """Values of the softmax by name."""
    return tuple(fid for fid, value in SOFTMAX.fusion.values.items() if value.name in names)


def persistent(spec: KernelSpec) -> PersistentHeuristics:
    assert isinstance(spec.heuristics, PersistentHeuristics)
    return spec.heuristics


EDGED = ("edged1", "edged8192", "edged32768", "edged65536", "edged131072", "edged262144")
WAYS = ("short", "registers4096", "registers", *EDGED, "tiled")
WHOLE = "N: {multiple_of: 8}"
"""Rows that are whole vectors."""


def longest(variant: VariantSpec) -> int:
    """The elements of the longest row that a variant takes, of many rows."""
    lengths = (1 << power for power in range(20, -1, -1))
    return next(size for size in lengths if all(evaluate(guard, {"M": 16384, "N": size}, lambda fid, size: True)
                                                for guard in variant.guard))  # fmt: skip


def taken(found: Sequence[VariantSpec], columns: int) -> VariantSpec:
    """The variant that aligned rows of so many ``columns`` take."""
    sizes = {"M": 16384, "N": columns}
    return next(each for each in found if all(evaluate(guard, sizes, lambda fid, size: True) for guard in each.guard))


class TestInnerPersistent:
    def test_variants_and_guards(self) -> None:
        found = variants("inner_persistent", SOFTMAX, M=16384, N=8192)
        assert names(found) == [*(f"{way}_vec8_int32" for way in WAYS), "anywhere_vec8_int64"]
        small: Formula = ("lt", "N", INDEX_HEADROOM)
        (y,) = SOFTMAX.outputs
        dense: tuple[Formula, ...] = (small, ("eq", ("mod", "N", 8), 0), ("aligned", 0, 16), ("aligned", y, 16))
        few: Formula = ("le", ("mul", ("le", "M", 1320), "N"), 256)
        assert found[0].guard == (*dense, ("le", "N", 1024), few)
        assert [variant.guard for variant in found[1:3]] == [(*dense, ("le", "N", most)) for most in (4096, 8192)]
        odd: tuple[Formula, ...] = (small, ("aligned", 0, 16), ("aligned", y, 16))
        assert [variant.guard[:-2] for variant in found[3:9]] == [odd] * 6
        assert [variant.guard[-1] for variant in found[3:9]] == [
            ("le", ("mul", ("add", ("le", "M", rows), ("mul", 2, ("le", "M", rows // 2)), 1), "N"), most + 15)
            if rows
            else ("le", "N", most + 15)
            for most, rows in zip(sorted((*EDGED_RUNGS, 65536)), (528, 264, 66, 66, 33, 0), strict=True)
        ]
        assert [variant.guard for variant in found[9:]] == [(*odd, ("le", 1, "N"), ("le", "N", 32 * 34)), ()]

    @pytest.mark.parametrize("size", [1, 64, 1000, 4096, 20000, 65536])
    def test_rows_of_whole_vectors_have_the_same_ladder_whatever_the_first_case_is(self, size: int) -> None:
        task = whole({"x": "bfloat16[M, N]"}, SOFTMAX_BODY, {"y": "bfloat16"}, extents=WHOLE)
        held = [longest(variant) for variant in variants("inner_persistent", task, M=16, N=size)[:-1]]
        assert {1024, 4096, 16384, 65536, 262144} <= {*held}
        assert held == sorted(held)

    @pytest.mark.parametrize(
        ("facts", "first", "held"),
        [
            ("max: 3000", 64, [1024, 4096]),
            ("max: 4096", 64, [1024, 4096]),
            ("max: 20000", 64, [1024, 4096, 16384, 65536]),
            ("min: 5000", 5000, [1024, 8192, 16384, 65536, 262144]),
        ],
    )
    def test_there_are_no_kernels_for_rows_that_there_cannot_be(self, facts: str, first: int, held: list[int]) -> None:
        extents = f"N: {{multiple_of: 8, {facts}}}"
        task = whole({"x": "bfloat16[M, N]"}, SOFTMAX_BODY, {"y": "bfloat16"}, extents=extents)
        found = variants("inner_persistent", task, M=16, N=first)
        assert [longest(each) for each in found if "vec8_int32" in each.name] == held

    def test_registers_hold_the_row(self) -> None:
        (launch,) = variants("inner_persistent", SOFTMAX, M=16384, N=8192)[2].launches
        threads = RowThreads(per_row=256, rows=1)
        assert launch.kernel.heuristics == PersistentHeuristics(
            threads=threads, storage="registers", chunks=4, cached=(0,), kept=kept("e")
        )
        assert launch.shared_bytes == 0

    def test_shared_memory_is_as_long_as_the_row(self) -> None:
        found = {each.name: each for each in PERSISTENT.schedule(SOFTMAX, TARGETS["sm_80"], {"M": 16384, "N": 8192})}
        shared = found["shared_vec8_int32"]
        assert shared.launches[0].shared_bytes == ("mul", 2, "N")
        assert shared.guard[-1] == ("le", ("mul", 2, "N"), TARGETS["sm_80"].shared_bytes - 2048)

    def test_a_row_too_long_for_registers_and_shared_memory_is_read_again(self) -> None:
        task = whole({"x": "float[4, 100000]"}, SOFTMAX_BODY, {"y": "float"})
        found = PERSISTENT.schedule(task, TARGETS["sm_80"], {})
        assert names(found)[-1] == "anywhere_vec4_int64"
        assert "shared_vec4_int32" not in names(found)

    def test_rows_that_may_be_too_long_are_read_again_by_vectors(self) -> None:
        for size in (128256, 80000):
            found = PERSISTENT.schedule(SOFTMAX, TARGETS["sm_80"], {"M": 8192, "N": size})
            assert names(found)[-1] == "anywhere_vec8_int64"

    def test_only_what_several_sweeps_read_is_kept(self) -> None:
        body = "m = mean(x, dims=[1], keepdim=True)\ny = (x - m) * w + z"
        task = whole({"x": "float[M, N]", "w": "float[N]", "z": "float[M, N]"}, body, {"y": "float"})
        assert cached_inputs(task, axis_domain(task)) == (0,)
        assert {fid: sweeps for fid, sweeps in input_sweeps(task).items() if fid < 3} == {0: {0, 1}, 1: {1}, 2: {1}}

    def test_costly_values_are_kept_while_registers_last(self) -> None:
        found = {size: taken(variants("inner_persistent", SOFTMAX, M=4096, N=size), size)
                 for size in (64, 16384, 65536, 262144)}  # fmt: skip
        specs = {size: variant.launches[0].kernel for size, variant in found.items()}
        assert {size: persistent(spec).kept for size, spec in specs.items()} == {
            64: kept("e"), 16384: kept("e"), 65536: (), 262144: (),
        }  # fmt: skip
        assert all(persistent(spec).threads.block * spec.vec * 4 <= 65536 for spec in specs.values())

    def test_values_by_the_element_take_a_register_each(self) -> None:
        inputs = {"x": "bfloat16[M, K, N]", "w": "bfloat16[1, 1, N]"}
        body = SOFTMAX_BODY.replace("[1]", "[1, 2]").replace("exp(x", "exp(x * w")
        task = whole(inputs, body, {"y": "bfloat16"})
        found = {variant.name: variant for variant in variants("inner_persistent", task, M=16, K=1, N=65536)}
        heuristics = persistent(kernels(found["registers_vec1_int32"])[0])
        assert (heuristics.threads.per_row, heuristics.chunks) == (1024, REGISTER_BYTES // 8)

    def test_of_a_chain_the_last_costly_value_is_kept(self) -> None:
        body = "e = tanh(exp(x))\nd = e * 2.0\ns = sum(d, dims=[1], keepdim=True)\ny = d / s"
        task = whole({"x": "float[M, N]"}, body, {"y": "float"})
        named = {task.fusion.value(fid).name: sweep for fid, sweep in kept_values(task, axis_domain(task)).items()}
        assert named == {"e": 0}

    def test_what_one_sweep_alone_needs_is_not_kept(self) -> None:
        body = "m = max(x, dims=[1], keepdim=True)\ny = exp(x - m)"
        task = whole({"x": "float[M, N]"}, body, {"y": "float"})
        assert kept_values(task, axis_domain(task)) == {}

    def test_levels_count_reductions_on_the_longest_path(self) -> None:
        level = levels(SOFTMAX)
        by_name = {SOFTMAX.fusion.value(fid).name: number for fid, number in level.items()}
        assert (by_name["e"], max(level.values())) == (1, 2)


@pytest.mark.parametrize("target", [SM_90, HOST], ids=lambda target: target.name)
@pytest.mark.parametrize("task", [POINTWISE, ROW_SUM, COLUMN_SUM, FULL_SUM, SOFTMAX])
@pytest.mark.parametrize("sizes", [{}, {"M": 1, "N": 1}, {"M": 0, "N": 16}, {"M": 2**20, "N": 2**14}], ids=str)
class TestEveryVariant:
    def test_only_the_last_is_unguarded(self, target: object, task: Task, sizes: dict[str, int]) -> None:
        found = self._variants(target, task, sizes)
        assert all(variant.guard for variant in found[:-1])
        assert found[-1].guard == ()
        assert len(set(names(found))) == len(found)

    def test_blocks_fit_the_hardware(self, target: object, task: Task, sizes: dict[str, int]) -> None:
        for launch in (launch for variant in self._variants(target, task, sizes) for launch in variant.launches):
            x, y, z = launch.block
            assert 32 <= x * y * z <= 1024
            assert isinstance(launch, LaunchSpec)

    @staticmethod
    def _variants(target: object, task: Task, sizes: dict[str, int]) -> tuple[VariantSpec, ...]:
        scheduler = first_accepting(task, target)  # type: ignore[arg-type]
        assert not isinstance(scheduler, tuple)
        return scheduler.schedule(task, target, sizes)  # type: ignore[arg-type]


class TestHelpers:
    def test_usable_decides_constants_and_stops_at_the_first_unguarded(self) -> None:
        def variant(name: str, *guard: Formula) -> VariantSpec:
            return VariantSpec(name=name, guard=guard, launches=())

        found = usable(
            [
                variant("never", ("lt", 2, 1), ("aligned", 0, 16)),
                variant("kept", ("lt", 1, 2), ("lt", "M", 2), ("aligned", 0, 16)),
                variant("always", ("lt", 1, 2)),
                variant("late"),
            ]
        )
        assert [(v.name, v.guard) for v in found] == [("kept", (("lt", "M", 2), ("aligned", 0, 16))), ("always", ())]

    @pytest.mark.parametrize(
        ("earlier", "later", "is_kept"),
        [
            ([("le", "N", 512)], [("le", "N", 512)], False),
            ([("le", "N", 512)], [("aligned", 0, 16), ("le", "N", 256)], False),
            ([("le", "N", 512)], [("le", "N", 513)], True),
            ([("le", "N", 512), ("aligned", 0, 16)], [("le", "N", 256)], True),
            ([("le", "N", 512)], [("le", "M", 256)], True),
            ([("le", "N", "M")], [("le", "N", 256)], True),
            ([("le", 2, "N")], [("le", 3, "N")], True),
        ],
    )
    def test_usable_drops_what_an_earlier_variant_takes(
        self, earlier: list[Formula], later: list[Formula], is_kept: bool
    ) -> None:
        first = VariantSpec(name="first", guard=tuple(earlier), launches=())
        second = VariantSpec(name="second", guard=tuple(later), launches=())
        last = VariantSpec(name="last", guard=(), launches=())
        assert [v.name for v in usable([first, second, last])] == ["first", *(["second"] if is_kept else []), "last"]

    def test_hints(self) -> None:
        assert hint(("mul", "M", "N"), {"M": 3}) == 3 * 1024
        assert hint("M", {"M": 0}) == 1

    @pytest.mark.parametrize(("number", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (1024, 1024), (1025, 2048)])
    def test_powers_of_two(self, number: int, power: int) -> None:
        assert next_power_of_two(number) == power

    @pytest.mark.parametrize(
        ("columns", "vec", "threads"),
        [
            (1, 1, RowThreads(per_row=8, rows=16)),
            (4096, 8, RowThreads(per_row=128, rows=1)),
            (1024, 8, RowThreads(per_row=32, rows=4)),
            (10**6, 8, RowThreads(per_row=1024, rows=1)),
        ],
    )
    def test_row_threads(self, columns: int, vec: int, threads: RowThreads) -> None:
        assert row_threads(columns, vec, 4) == threads
        assert threads.block >= 128


def test_a_scheduler_that_accepts_a_segment_can_run_it() -> None:
    for task in (POINTWISE, ROW_SUM, SOFTMAX):
        (only,) = segment(task.fusion, SM_90).segments
        assert BY_NAME[only.scheduler].schedule(only.fusion.whole(), SM_90, {})


class TestWholeTensorsReducedAndReadAgain:
    """``x / max(x)``: one kernel would be one block."""

    BODY = "y = x / max(abs(x))"

    @pytest.mark.parametrize("shape", ["M, N", "N", "512, 512"])
    def test_large_ones_are_left_to_a_reduction_and_what_follows(self, shape: str) -> None:
        task = whole({"x": f"float[{shape}]"}, self.BODY, {"y": "float"})
        rejected = PERSISTENT.accepts(task, SM_90)
        assert rejected is not None
        assert rejected.reason == "every dim is reduced, and one block would walk the whole tensor"

    def test_small_ones_are_one_block(self) -> None:
        task = whole({"x": "float[16, 1024]"}, self.BODY, {"y": "float"})
        assert PERSISTENT.accepts(task, SM_90) is None
