"""The scanning family: what it takes and why it refuses the rest, its variants, guards and heuristics."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fusebuild.ir.formula import Formula, evaluate
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import INDEX_HEADROOM, LaunchSpec, Rejection, VariantSpec, any_domain
from fusebuild.kernels.families import FAMILIES, first_accepting
from fusebuild.kernels.scan import FAMILY as SCAN
from fusebuild.kernels.scan.schedule import COLUMN_THREADS, ScanHeuristics, ordered, walks
from fusebuild.segmentation import segment
from fusebuild.target.table import TARGETS
from support.small_recipes import AFFINE, primitive, text_with_lambdas, whole

SM_90, HOST = TARGETS["sm_90"], TARGETS["host"]
SCAN = SCAN
FLOATS, INTEGERS = {"x": "float[M, N]"}, {"n": "int64[M, N]"}
REDUCE_AFFINE = "{0} = reduce([n, n], init=[1, 0], combine=affine, dims=[{1}])"
SCAN_AFFINE = "{0} = scan([n, n], init=[1, 0], combine=affine, dim={1})"


def affine(inputs: Mapping[str, str], body: str, *outputs: str) -> Task:
    """The task of a recipe that combines with :data:`AFFINE`."""
    return primitive(text_with_lambdas(inputs, body, dict.fromkeys(outputs, ""), AFFINE)).whole()


def scanned(body: str, inputs: Mapping[str, str] = FLOATS, *outputs: str) -> Task:
    return whole(inputs, body, dict.fromkeys(outputs or ("y",), ""))


def variants(task: Task, **sizes: int) -> tuple[VariantSpec, ...]:
    assert SCAN.accepts(task, SM_90) is None
    return SCAN.schedule(task, SM_90, sizes)


def first_launch(task: Task, **sizes: int) -> LaunchSpec:
    (launch,) = variants(task, **sizes)[0].launches
    return launch


ROWS = scanned("y = cumsum(x, dim=1)")
COLUMNS = scanned("y = cumsum(x, dim=0)")
MIDDLE = scanned("y = cumsum(x, dim=1)", {"x": "float[A, B, C]"})
TOTAL_ROWS = affine(INTEGERS, REDUCE_AFFINE.format("_, e", 1), "e")
EVERYTHING = affine(INTEGERS, REDUCE_AFFINE.format("_, e", "0, 1"), "e")
BOTH_ROWS = affine(INTEGERS, f"{SCAN_AFFINE.format('_, s', 1)}\n{REDUCE_AFFINE.format('_, e', 1)}", "s", "e")
BOTH_COLUMNS = affine(INTEGERS, f"{SCAN_AFFINE.format('_, s', 0)}\n{REDUCE_AFFINE.format('_, e', 0)}", "s", "e")

SHORT = {"x": "float[M, 512]"}
SHARES = scanned("y = cumsum(x, dim=1) / sum(x, dims=[1], keepdim=True)", SHORT)

ACCEPTED = {
    "rows": ROWS,
    "columns": COLUMNS,
    "the middle dim": MIDDLE,
    "one row": scanned("y = cumsum(x, dim=0)", {"x": "float[N]"}),
    "elementwise before and after": scanned("y = cumsum(exp(x) * w, dim=1) / 2.0 - x", FLOATS | {"w": "float[N]"}),
    "what the rows know": scanned(
        "c = broadcast(b, [False, True])\ny = cumsum(x * c, dim=1) + c", FLOATS | {"b": "float[M]"}
    ),
    "several scans": scanned("y = cumsum(x, dim=1)\nz = cumprod(-x, dim=1)", FLOATS, "y", "z"),
    "totals of rows": TOTAL_ROWS,
    "totals of columns": affine(INTEGERS, REDUCE_AFFINE.format("_, e", 0), "e"),
    "a total of everything": EVERYTHING,
    "totals beside scans of rows": BOTH_ROWS,
    "totals beside scans of columns": BOTH_COLUMNS,
    "the end of a row at its start": affine(
        {"n": "int64[M, 512]"},
        "_, e = reduce([n, n], init=[1, 0], combine=affine, dims=[1], keepdim=True)\ny = n + e",
        "y",
    ),
    "a reduction in any order": scanned("y = cumsum(x, dim=1)\nz = sum(x, dims=[1])", FLOATS, "y", "z"),
    "a reduction of columns in any order": scanned("y = cumsum(x, dim=0)\nz = sum(x, dims=[0])", FLOATS, "y", "z"),
    "a reduction of a scan": scanned("y = max(cumsum(x, dim=1), dims=[1])"),
    "a reduction of a scan of columns": scanned("y = max(cumsum(x, dim=0), dims=[0])"),
    "a scan over a reduction": SHARES,
    "a scan of what a row gives": scanned("y = cumsum(x - max(x, dims=[1], keepdim=True), dim=1)", SHORT),
    "a scan again, of what the first one gave for the row": scanned(
        "y = cumsum(x / max(cumsum(x, dim=1), dims=[1], keepdim=True), dim=1)", SHORT
    ),
    "rows that need the end of their scan": scanned("y = x / max(cumsum(x, dim=1), dims=[1], keepdim=True)", SHORT),
    "what follows from a total": affine(
        INTEGERS | {"b": "int64[M]"}, f"{REDUCE_AFFINE.format('_, e', 1)}\ny = e * 2 + b", "y"
    ),
    "a strided operand": scanned(
        "y = cumsum(x, dim=1)", {"x": '{type: "float[M, N]", contiguity: [true, true], stride_order: [0, 1]}'}
    ),
    "an operand that repeats itself": scanned(
        "y = cumsum(x, dim=1)", {"x": '{type: "float[M, N]", contiguity: [true, null]}'}
    ),
}


@pytest.mark.parametrize("task", ACCEPTED.values(), ids=ACCEPTED)
def test_what_it_takes_no_other_family_does(task: Task) -> None:
    assert SCAN.accepts(task, SM_90) is None
    found = first_accepting(task, SM_90)
    assert not isinstance(found, tuple)
    assert found.name == "scan"


CUBE = {"x": "float[A, B, C]"}
REJECTIONS: dict[str, tuple[str, str, Task]] = {
    "nothing scanned": ("there is no scan", "test.yaml:5:7", scanned("y = x + 1.0")),
    "no order": ("there is no scan", "test.yaml:5:7", scanned("y = sum(x, dims=[1])")),
    "a reduction of other dims beside it": (
        "y runs over other dims than the rest of the task", "test.yaml:5:7",
        scanned("y = cumsum(x, dim=1)\nz = sum(x, dims=[0])", FLOATS, "y", "z"),
    ),
    "moments": (
        "z_mean is what only reduction computes", "test.yaml:6:15",
        scanned("y = cumsum(x, dim=0)\nz, z_mean = var_mean(x, dims=[0])", FLOATS, "y", "z", "z_mean"),
    ),
    "rows and columns": (
        "y runs over other dims than the rest of the task", "test.yaml:5:7",
        scanned("y = cumsum(x, dim=1)\nz = cumsum(x, dim=0)", FLOATS, "y", "z"),
    ),
    "two dims of three": (
        "t3_reduced runs over other dims than the rest of the task", "test.yaml:14:10",
        affine({"n": "int64[A, B, C]"}, REDUCE_AFFINE.format("_, e", "0, 2"), "e"),
    ),
    "more dims than are scanned": (
        "the task iterates over dims that t2 does not have", "test.yaml:6:21",
        scanned("y = x + broadcast(cumsum(b, dim=0), [False, True])", FLOATS | {"b": "float[M]"}),
    ),
    "a scan of a scan": (
        "y needs the result of another scan", "test.yaml:5:7", scanned("y = cumsum(cumsum(x, dim=1), dim=1)"),
    ),
    "a total of a scan": (
        "e_sums needs the result of another scan", "test.yaml:15:15",
        affine(
            INTEGERS,
            f"{SCAN_AFFINE.format('_, s', 1)}\ne_sums, _ = reduce([s, n], init=[1, 0], combine=affine, dims=[1])",
            "e_sums",
        ),
    ),
    "the end of a column at its start": (
        "y needs the end of a column at its start", "test.yaml:5:7",
        scanned("y = cumsum(x, dim=0) / sum(x, dims=[0])"),
    ),
    "a reduction of other rows": (
        "z has nothing to do with what is scanned", "test.yaml:7:7",
        scanned("y = cumsum(x, dim=1)\nz = sum(w, dims=[1])", FLOATS | {"w": "float[M, N]"}, "y", "z"),
    ),
    "a norm of the same rows": (
        "t2_max has nothing to do with what is scanned", "test.yaml:6:7",
        scanned("y = cumsum(x, dim=1)\nz = softmax(x, dim=1)", FLOATS, "y", "z"),
    ),
    "three walks": (
        "rows would be walked 3 times", "test.yaml:5:7", scanned("y = cumsum(softmax(x, dim=1), dim=1)"),
    ),
    "a scan that two walks need": (
        "c would be scanned twice", "test.yaml:5:7",
        scanned("c = cumsum(x, dim=1)\ny = c / max(c, dims=[1], keepdim=True)", SHORT),
    ),
    "long rows that are walked again": (
        "rows may be too long to be walked again", "test.yaml:5:7",
        scanned("y = cumsum(x, dim=1) / sum(x, dims=[1], keepdim=True)", {"x": "float[M, 4097]"}),
    ),
    "rows of any length that are walked again": (
        "rows may be too long to be walked again", "test.yaml:5:7",
        scanned("y = cumsum(x, dim=1) / sum(x, dims=[1], keepdim=True)"),
    ),
    "a scan of what a column gives": (
        "t2 needs the end of a column at its start", "test.yaml:5:14",
        scanned("y = cumsum(x - max(x, dims=[0]), dim=0)"),
    ),
    "dims in two orders": (
        "x holds the same dims in another order", "test.yaml:3:3",
        scanned(
            "a = broadcast(sum(x, dims=[0]), [False, True])\nb = broadcast(sum(x, dims=[1]), [True, False])\n"
            "y = cumsum(a + b, dim=1)"
        ),
    ),
    "a narrow result that nothing combined": (
        "c has other dims than this family writes", "test.yaml:6:7",
        scanned("c = -b\ny = cumsum(x + c, dim=1)", FLOATS | {"b": "float[N]"}, "y", "c"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "place", "task"), REJECTIONS.values(), ids=REJECTIONS)
def test_rejections(text: str, place: str, task: Task) -> None:
    rejected = SCAN.accepts(task, SM_90)
    assert isinstance(rejected, Rejection)
    assert (rejected.reason, str(rejected.location)) == (text, place)
    assert str(rejected) == f"scan: {text} ({rejected.location.short})"


@pytest.mark.parametrize(
    ("scheduler", "task", "text"),
    [
        ("pointwise", ROWS, "scan is a scan"),
        ("reduction", ROWS, "y is a scan"),
        ("inner_persistent", ROWS, "y is a scan"),
        ("reduction", TOTAL_ROWS, "t3 combines in the order of indices"),
        ("inner_persistent", TOTAL_ROWS, "t3 combines in the order of indices"),
    ],
)
def test_why_the_others_leave_it_alone(scheduler: str, task: Task, text: str) -> None:
    (other,) = (each for each in FAMILIES if each.name == scheduler)
    rejected = other.accepts(task, SM_90)
    assert rejected is not None
    assert rejected.reason == text


class TestVariants:
    SMALL: Formula = ("lt", ("mul", "M", "N"), INDEX_HEADROOM)

    def test_of_rows(self) -> None:
        found = variants(ROWS, M=64, N=512)
        vectors = (self.SMALL, ("eq", ("mod", "N", 4), 0), ("aligned", 0, 16), ("aligned", 1, 16))
        assert {variant.name: variant.guard for variant in found} == {
            "short_vec4_int32": (*vectors, ("le", "N", 512)),
            "vec4_int32": vectors,
            "short_scalar_int32": (self.SMALL, ("le", "N", 128)),
            "scalar_int32": (self.SMALL,),
            "scalar_int64": (),
        }
        launches = [launch for variant in found for launch in variant.launches]
        assert [(each.kernel.vec, each.kernel.index, each.block[0]) for each in launches] == [
            (4, "int32_t", 32), (4, "int32_t", 256), (1, "int32_t", 32), (1, "int32_t", 256), (1, "int64_t", 256),
        ]  # fmt: skip
        assert {launch.kernel.template for launch in launches} == {"scan"}
        assert all(variant.scratch == () for variant in found)

    def test_of_columns(self) -> None:
        found = variants(COLUMNS, M=64, N=512)
        assert [variant.name for variant in found] == ["vec4_int32", "scalar_int32", "scalar_int64"]
        assert found[0].guard == (self.SMALL, ("eq", ("mod", "N", 4), 0), ("aligned", 0, 16), ("aligned", 1, 16))
        assert [launch.kernel.template for variant in found for launch in variant.launches] == ["scan_outer"] * 3

    def test_a_strided_operand_is_read_one_by_one_beside_vectors(self) -> None:
        found = variants(ACCEPTED["a strided operand"], M=64, N=512)
        assert found[1].name == "vec4_int32"
        assert found[1].guard == (self.SMALL, ("eq", ("mod", "N", 4), 0), ("aligned", 1, 16))

    def test_vectors_need_a_tensor_that_has_them(self) -> None:
        strided = '{type: "float[M, N]", contiguity: [true, true], stride_order: [0, 1]}'
        task = whole({"x": strided}, "y = cumsum(x, dim=1)", {"y": "{dtype: float, alias: x}"})
        assert [variant.name for variant in variants(task)] == ["short_scalar_int32", "scalar_int32", "scalar_int64"]

    def test_vectors_shrink_until_the_states_of_a_thread_fit_its_registers(self) -> None:
        def width(count: int) -> int:
            body = "\n".join(f"y{each} = cumsum(x * {each}.0, dim=1)" for each in range(count))
            task = scanned(body, {"x": "bfloat16[M, N]"}, *(f"y{each}" for each in range(count)))
            return first_launch(task, M=64, N=4096).kernel.vec

        assert [width(count) for count in (1, 4, 5, 8, 9, 16, 17)] == [8, 8, 4, 4, 2, 2, 1]

    def test_guards_on_known_sizes_are_decided(self) -> None:
        found = variants(scanned("y = cumsum(x, dim=1)", {"x": "float[8, 7]"}))
        assert [(variant.name, variant.guard) for variant in found] == [("short_scalar_int32", ())]
        found = variants(scanned("y = cumsum(x, dim=1)", {"x": "float[65536, 65536]"}))
        assert [variant.name for variant in found] == ["scalar_int64"]

    @pytest.mark.parametrize("task", ACCEPTED.values(), ids=ACCEPTED)
    @pytest.mark.parametrize("sizes", [{}, {"M": 0, "N": 16}, {"M": 2**20, "N": 2**14}, {"M": 1, "N": 1}], ids=str)
    @pytest.mark.parametrize("target", [SM_90, HOST], ids=lambda target: target.name)
    def test_the_last_takes_everything_and_blocks_are_whole_warps(
        self, task: Task, sizes: dict[str, int], target: object
    ) -> None:
        found = SCAN.schedule(task, target, sizes)  # type: ignore[arg-type]
        assert all(variant.guard for variant in found[:-1])
        assert found[-1].guard == ()
        for launch in (launch for variant in found for launch in variant.launches):
            (threads, y, z) = launch.block
            assert (y, z, threads % 32) == (1, 1, 0)
            assert 32 <= threads <= 256
            assert launch.kernel.heuristics == ScanHeuristics(threads=threads)
            assert launch.shared_bytes == 0

    @pytest.mark.parametrize(
        ("body", "count"),
        [
            ("y = cumsum(x, dim=1)", 1),
            ("y = max(cumsum(x, dim=1), dims=[1])", 1),
            ("y = cumsum(x, dim=1) / sum(x, dims=[1], keepdim=True)", 2),
            ("y = max(cumsum(exp(x - max(x, dims=[1], keepdim=True)), dim=1), dims=[1])", 2),
            ("y = cumsum(softmax(x, dim=1), dim=1)", 3),
        ],
    )
    def test_a_row_is_walked_once_more_for_each_level_of_reductions_that_it_needs(self, body: str, count: int) -> None:
        task = scanned(body)
        assert walks(task, any_domain(task)) == count


class TestHeuristics:
    @pytest.mark.parametrize("task", [ROWS, COLUMNS, MIDDLE], ids=["rows", "columns", "middle"])
    def test_the_first_case_plays_no_part(self, task: Task) -> None:
        assert variants(task, A=1, B=2**20, C=1, M=1, N=2**20) == variants(task, A=7, B=1, C=4096, M=2**20, N=1)

    def test_rows_have_a_warp_or_a_block(self) -> None:
        grids = {launch.grid for variant in variants(ROWS) for launch in variant.launches}
        assert grids == {("M", 1, 1)}

    def test_a_thread_has_a_vector_of_columns(self) -> None:
        launch = first_launch(COLUMNS, M=64, N=512)
        assert launch.block == (COLUMN_THREADS, 1, 1)
        assert evaluate(launch.grid[0], {"M": 64, "N": 4 * COLUMN_THREADS}) == 1
        assert evaluate(launch.grid[0], {"M": 64, "N": 4 * COLUMN_THREADS + 4}) == 2

    def test_vectors_of_outer_indices_lie_behind_each_other(self) -> None:
        grid = first_launch(MIDDLE, A=3, B=64, C=512).grid[0]
        assert evaluate(grid, {"A": 3 * COLUMN_THREADS, "B": 64, "C": 4}) == 3
        assert evaluate(grid, {"A": 3 * COLUMN_THREADS, "B": 64, "C": 8}) == 6
        assert evaluate(grid, {"A": 0, "B": 64, "C": 8}) == 0

    def test_a_total_of_everything_is_one_block(self) -> None:
        assert first_launch(EVERYTHING, M=64, N=512).grid == (1, 1, 1)


def test_scans_and_ordered_reductions_are_found_in_order() -> None:
    exprs = BOTH_ROWS.fusion.exprs
    assert [exprs[index].op for index in ordered(BOTH_ROWS)] == ["scan", "reduce"]
    assert ordered(scanned("y = sum(x, dims=[1])")) == ()


class TestSegments:
    def cuts(self, task: Task) -> list[str]:
        return [each.scheduler for each in segment(task.fusion, SM_90).segments]

    def test_scans_along_two_dims_are_two_kernels(self) -> None:
        task = scanned("y = cumsum(x, dim=1)\nz = cumsum(x, dim=0)", FLOATS, "y", "z")
        assert self.cuts(task) == ["scan", "scan"]

    def test_a_scan_of_a_scan_is_two_kernels(self) -> None:
        assert self.cuts(scanned("y = cumsum(cumsum(x, dim=1) * 2.0, dim=1)")) == ["scan", "scan"]

    def test_what_needs_the_end_of_a_row_is_the_same_kernel_and_that_of_a_column_another(self) -> None:
        assert self.cuts(SHARES) == ["scan"]
        assert self.cuts(REJECTIONS["the end of a column at its start"][2]) == ["reduction", "scan"]

    def test_elementwise_work_stays_with_the_scan(self) -> None:
        assert self.cuts(ACCEPTED["elementwise before and after"]) == ["scan"]
