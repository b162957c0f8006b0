"""Pointwise kernels whose threads keep columns and walk rows: when they are made, their layout, what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from fusebuild.artifact.plan import FormulaArg, as_formula
from fusebuild.errors import KnobError
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import Tuned
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.pointwise import FAMILY as POINTWISE
from fusebuild.kernels.pointwise.rows import PointwiseRowsHeuristics, RowsChoice
from fusebuild.kernels.pointwise.thread_elements import PointwiseHeuristics
from fusebuild.kernels.render import Origin, render
from fusebuild.target.table import TARGETS
from support.small_recipes import whole

SM_90 = TARGETS["sm_90"]
NOT_TUNED: Tuned = {}
BIAS = whole({"x": "bfloat16[M, N]", "b": "bfloat16[N]"}, "y = x + b", {"y": "bfloat16"})
PER_BATCH = whole({"x": "bfloat16[B, H, N]", "b": "bfloat16[B, 1, N]"}, "y = x + b", {"y": "bfloat16"})
BATCHED = whole(
    {"x": "bfloat16[B, S, D]", "scale": "float[B, 1, D]", "bias": "bfloat16[D]"},
    "y = x * scale + bias",
    {"y": "bfloat16"},
)
GATHERED = whole(
    {"table": "bfloat16[V, D]", "p": "bfloat16[S, D]", "ids": "int64[B, S]"}, "y = embedding(table, ids) + p",
    {"y": "bfloat16"},
)  # fmt: skip
TURNING = whole(
    {"x": "half[B, H, D]", "cos": "float[B, D]", "sin": "float[B, D]"},
    """first = slice(x, [0, 0, 0], [B, H, D // 2])
second = slice(x, [0, 0, D // 2], [B, H, D])
turned = cat([-second, first], 2)
y = x * broadcast(cos, [False, True, False]) + turned * broadcast(sin, [False, True, False])""",
    {"y": "half"},
)
HEADS = whole(
    {"x": "float[B, S, H, D]", "cos": "float[S, 1, D]"}, "y = x * broadcast(cos, [True, False, False, False])",
    {"y": "float"},
)  # fmt: skip


def for_many(task: Task, sizes: Mapping[str, int], tuned: Tuned = NOT_TUNED) -> list[VariantSpec]:
    """The variants but the one for a few elements."""
    return [each for each in POINTWISE.schedule(task, SM_90, sizes, tuned) if not each.name.startswith("few")]


def first(task: Task, **sizes: int) -> VariantSpec:
    return for_many(task, sizes)[0]


def rows(task: Task, **sizes: int) -> PointwiseRowsHeuristics:
    heuristics = first(task, **sizes).launches[0].kernel.heuristics
    assert isinstance(heuristics, PointwiseRowsHeuristics)
    return heuristics


def rendered(variant: VariantSpec) -> str:
    origin = Origin(recipe="test", segment=0, fid_map={}, scheduler="pointwise", variant=variant.name)
    return render(variant.launches[0].kernel, origin).text


def walks_of(task: Task) -> VariantSpec:
    (walks,) = [each for each in for_many(task, {"B": 8, "H": 32, "D": 1024}) if each.name == "walks_int32"]
    return walks


def text(task: Task, **sizes: int) -> str:
    return rendered(first(task, **sizes))


class TestWhichAxisIsWalked:
    @pytest.mark.parametrize(
        ("task", "sizes", "walked"),
        [
            (BIAS, {"M": 4096, "N": 4096}, 0),
            (BATCHED, {"B": 8, "S": 4096, "D": 1024}, 1),  # scale and bias repeat along S, bias alone along B
            (HEADS, {"B": 8, "S": 4096, "H": 32, "D": 128}, 2),  # along B and along H; H is nearer
            (HEADS, {"B": 8, "S": 4096, "H": 2, "D": 128}, 0),  # two heads are too few
        ],
    )
    def test_the_one_along_which_most_bytes_repeat(self, task: Task, sizes: dict[str, int], walked: int) -> None:
        assert rows(task, **sizes).walked == walked

    @pytest.mark.parametrize(
        ("inputs", "body"),
        [
            ({"x": "float[M, N]"}, "y = -x"),  # nothing repeats
            ({"x": "float[M, N]", "r": "float[M, 1]"}, "y = x + r"),  # one number a row
            ({"x": "float[M, N]", "s": "float[1, 1]"}, "y = x + s"),
        ],
    )
    def test_none_where_no_vector_repeats(self, inputs: dict[str, str], body: str) -> None:
        found = first(whole(inputs, body, {"y": "float"}), M=4096, N=4096)
        assert isinstance(found.launches[0].kernel.heuristics, PointwiseHeuristics)

    def test_none_where_what_repeats_stays_near(self) -> None:
        assert first(BIAS, M=65536, N=2048).name == "vec8_int32"
        assert first(BIAS, M=65536, N=2056).name == "rows_vec8_int32"

    def test_none_where_rows_are_few(self) -> None:
        assert first(BIAS, M=3, N=4096).name == "vec8_int32"
        assert first(BIAS, M=4, N=4096).name == "rows_vec8_int32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a call shares out its domain: threads of a block along columns, along rows, and along what is before them;
    rows of a thread; and blocks."""

    columns: int
    rows: int
    before: int
    each: int
    blocks: int


def layout(task: Task, **sizes: int) -> Layout:
    """That of the kernel made for a large case, at the given sizes of a call."""
    variant = first(task, B=8, S=4096, H=32, M=65536, N=4096, D=1024)
    (launch,) = variant.launches
    given = sizes | {MULTIPROCESSORS: 132}
    columns, rows, each = (
        found.value if found.value is not None else evaluate(as_formula(found.arg.formula), given)
        for name in ("column_shift", "row_shift", "each")
        for found in launch.kernel.parameters
        if found.name == name and isinstance(found.arg, FormulaArg)
    )
    blocks = evaluate(launch.grid[0], given)
    return Layout(columns=1 << columns, rows=1 << rows, before=128 >> columns + rows, each=each, blocks=blocks)


class TestLayout:
    def test_the_whole_of_it(self) -> None:
        assert rows(BIAS, M=65536, N=4096) == PointwiseRowsHeuristics(
            threads=128, rows=8, unroll=1, min_blocks=11, walked=0
        )

    def test_the_first_case_decides_nothing(self) -> None:
        one, other = (first(BIAS, M=m, N=n).launches for m, n in [(65536, 4096), (1000, 16384)])
        assert one == other

    @pytest.mark.parametrize(
        ("columns", "threads"), [(8, 1), (64, 8), (768, 32), (1024, 128), (4096, 128), (5120, 128), (8 * 255, 128)]
    )
    def test_few_threads_have_no_columns(self, columns: int, threads: int) -> None:
        found = layout(BIAS, M=4096, N=columns)
        assert (found.columns, found.rows) == (threads, 128 // threads)

    @pytest.mark.parametrize(
        ("sizes", "found"),
        [
            ({"M": 1600, "N": 64}, Layout(columns=8, rows=16, before=1, each=1, blocks=100)),
            ({"M": 65536, "N": 4096}, Layout(columns=128, rows=1, before=1, each=8, blocks=4 * 65536 // 8)),
            ({"M": 512, "N": 4096}, Layout(columns=128, rows=1, before=1, each=2, blocks=4 * 512 // 2)),
            ({"M": 1, "N": 2**20}, Layout(columns=128, rows=1, before=1, each=1, blocks=1024)),
            ({"M": 0, "N": 4096}, Layout(columns=128, rows=1, before=1, each=1, blocks=0)),
        ],
    )
    def test_by_the_sizes_of_a_call(self, sizes: dict[str, int], found: Layout) -> None:
        assert layout(BIAS, **sizes) == found

    @pytest.mark.parametrize(
        ("sizes", "found"),
        [
            ({"B": 8, "S": 4096, "H": 32, "D": 128}, Layout(columns=32, rows=4, before=1, each=8, blocks=2**15)),
            ({"B": 8, "S": 4096, "H": 1, "D": 128}, Layout(columns=32, rows=1, before=4, each=1, blocks=2**13)),
            ({"B": 8, "S": 4096, "H": 22, "D": 1024}, Layout(columns=128, rows=1, before=1, each=8, blocks=3 * 2**16)),
            ({"B": 39, "S": 1, "H": 1, "D": 80448}, Layout(columns=128, rows=1, before=1, each=1, blocks=39 * 158)),
        ],
    )
    def test_threads_lie_along_what_there_is_much_of(self, sizes: dict[str, int], found: Layout) -> None:
        assert layout(HEADS, **sizes) == found

    def test_what_is_kept_takes_registers_from_other_blocks(self) -> None:
        names = [f"b{index}" for index in range(6)]
        inputs = {"x": "float[M, N]", **dict.fromkeys(names, "float[N]")}
        kept = whole(inputs, "y = x" + "".join(f" + {name}" for name in names), {"y": "float"})
        assert rows(kept, M=65536, N=4096).min_blocks == 8
        assert rows(BIAS, M=65536, N=4096).min_blocks == 11


class TestText:
    def test_threads_of_a_kernel_that_walks_backwards_count_from_the_last_block(self) -> None:
        divided = "fb::divided((fb::grid_x() - 1 - fb::block_x()) * kThreads + fb::thread_x(), others"
        assert divided in " ".join(rendered(walks_of(TURNING).backwards()).split())

    def test_what_repeats_is_loaded_before_the_rows(self) -> None:
        before, _, walk = text(BATCHED, B=8, S=4096, D=1024).partition("for (Index top")
        assert "p1 = fb::load_packed<kVec>(T1 + (before * Index(n2) + i));" in before
        assert "p2 = fb::load_packed<kVec>(T2 + i);" in before
        assert "T1" not in walk
        assert "p0[u] = fb::load_packed<kVec>(T0 + ((before * Index(n1) + row) * Index(n2) + i));" in walk

    def test_what_follows_from_it_alone_is_computed_before_the_rows(self) -> None:
        task = whole({"x": "float[M, N]", "v": "float[N]"}, "y = x * rsqrt(v + 1.0)", {"y": "float"})
        before, _, walk = text(task, M=4096, N=4096).partition("for (Index top")
        assert "fb::rsqrt" in before
        assert "fb::rsqrt" not in walk

    def test_a_row_has_numbers_of_its_own(self) -> None:
        task = whole({"x": "float[M, N]", "v": "float[N]", "r": "float[M, 1]"}, "y = x * v + r", {"y": "float"})
        _, _, walk = text(task, M=4096, N=4096).partition("for (Index top")
        assert "const float t2 = T2[row];  // r" in walk

    def test_an_index_is_taken_apart_once(self) -> None:
        task = whole(
            {"x": "float[B, S, D]", "bias": "float[S, D]", "row": "float[S, 1]"}, "y = x * row + bias", {"y": "float"}
        )
        before, _, walk = text(task, B=64, S=128, D=1024).partition("for (Index top")
        assert "const Index i1 = fb::divided(i, Index(n2), n2_reciprocal).quotient;" in before
        assert "const float t2 = T2[i1];  // row" in before
        assert "/" not in walk.replace("//", "")

    def test_other_variants_of_the_same_task_are_flat(self) -> None:
        names = [variant.name for variant in for_many(BIAS, {"M": 4096, "N": 4096})]
        assert names == ["rows_vec8_int32", "shifted_vec8_int32", "scalar_int64"]

    def test_folded_rows_are_walked_from_vectors_that_begin_again_with_them(self) -> None:
        inputs = {"x": "bfloat16[N, C, P]", "w": "float[1, C, 1]", "b": "float[1, C, P]"}
        task = whole(inputs, "y = x * w + b", {"y": "bfloat16"})
        (folded,) = [each for each in for_many(task, {}) if each.name == "folded_vec8_int32"]
        before, _, walk = rendered(folded).partition("for (Index vector")
        assert "v1 = fb::load_runs<kVec>(T1, place, Index(n1), Index(n2));" in before
        assert "v2 = fb::load_around<kVec>(T2, place % Index(n1 * n2), Index(n1 * n2));" in before
        assert "T1" not in walk
        assert "T2" not in walk

    @pytest.mark.parametrize(
        ("rows", "columns", "step"),
        [
            (8, 3, 3),  # a vector for each thread
            (1000003, 7, 7 * 15626),  # eight of them
            (300, 7001, 7001 * 13),  # three, since there are no more for each multiprocessor
            (3, 100001, 37501),  # all there are
            (0, 5, 0),
        ],
    )
    def test_vectors_of_a_thread_are_whole_folded_rows_apart(self, rows: int, columns: int, step: int) -> None:
        task = whole({"x": "bfloat16[M, N]", "b": "float[N]"}, "y = exp(x + b)", {"y": "bfloat16"})
        (folded,) = [each for each in for_many(task, {}) if each.name == "folded_vec8_int32"]
        (found,) = [known for known in folded.launches[0].kernel.parameters if known.name == "step"]
        assert isinstance(found.arg, FormulaArg)
        sizes = {"M": rows, "N": columns, MULTIPROCESSORS: 132}
        assert evaluate(as_formula(found.arg.formula), sizes) == step
        assert evaluate(folded.launches[0].grid[0], sizes) == -(-step // 128)

    def test_what_takes_few_instructions_and_bytes_is_not_folded(self) -> None:
        found = for_many(whole({"x": "half[M, N]", "b": "half[N]"}, "y = x + b", {"y": "half"}), {})
        assert [each.name for each in found][1:] == ["shifted_vec8_int32", "scalar_int64"]

    @pytest.mark.parametrize(
        ("inputs", "body"),
        [
            ({"x": "bfloat16[M, N]", "r": "float[M, 1]"}, "y = exp(x * r)"),  # a number of each row
            ({"x": "bfloat16[M, N]", "w": "float[N]"}, "y = exp(x * w + iota(N))"),  # columns are counted
            ({"x": "bfloat16[B, S, N]", "w": "float[B, 1, N]"}, "y = exp(x * w)"),  # repeats along the second axis
        ],
    )
    def test_only_what_repeats_with_each_row_is_folded(self, inputs: dict[str, str], body: str) -> None:
        found = for_many(whole(inputs, body, {"y": "bfloat16"}), {})
        assert "folded_vec8_int32" not in [each.name for each in found]

    def test_rows_of_any_length_are_walked_element_by_element_where_vectors_would_take_too_much(self) -> None:
        walks = walks_of(TURNING)
        before, _, walk = rendered(walks).partition("for (Index top")
        assert "const Index before = place.quotient, i = place.remainder;" in before
        assert "T1[" not in walk
        assert walks.guard[1:] == (("ge", "D", 192), ("ge", "H", 4))

    @pytest.mark.parametrize(
        ("rows", "each", "chunks"), [(1, 1, 1), (16, 16, 1), (17, 9, 2), (33, 11, 3), (0, 0, 0), (1000, 16, 63)]
    )
    def test_threads_that_walk_have_as_many_rows_each(self, rows: int, each: int, chunks: int) -> None:
        walks = walks_of(TURNING)
        sizes = {"B": 10**6, "H": rows, "D": 3, MULTIPROCESSORS: 132}
        (found,) = [known for known in walks.launches[0].kernel.parameters if known.name == "each"]
        assert isinstance(found.arg, FormulaArg)
        assert evaluate(as_formula(found.arg.formula), sizes) == each
        assert evaluate(walks.launches[0].grid[0], sizes) == -(-3 * 10**6 * chunks // 128)

    def test_rows_of_several_vectors_are_loaded_where_they_are_computed(self) -> None:
        before, _, walk = text(TURNING, B=64, H=32, D=1024).partition("for (Index top")
        assert "p0[u] = " not in before
        assert walk.index("p0[u] = ") < walk.index("fb::unpack(p0[u])") < walk.index("top += ")

    def test_rows_of_one_vector_are_loaded_a_turn_before(self) -> None:
        before, _, walk = text(BIAS, M=4096, N=4096).partition("for (Index top")
        assert before.index("p1 = ") < before.index("p0[u] = ") < before.index("fb::unpack(p1)")
        assert walk.index("fb::unpack(p0[u])") < walk.index("top += ") < walk.index("p0[u] = ")

    def test_positions_come_a_turn_before_the_rows_that_they_name(self) -> None:
        before, _, walk = text(GATHERED, V=50304, B=16, S=2048, D=4096).partition("for (Index top")
        places = [before.index(each) for each in ("j2[u] = T2[", "p1 = ", "q3[u] = ", "fb::unpack(p1)")]
        assert places == sorted(places)
        assert before.index("q3[u] = ") < before.rindex("j2[u] = T2[") < before.index("fb::unpack(p1)")
        places = [walk.index(each) for each in ("fb::store(", "top += ", "q3[u] = ", "j2[u] = T2[")]
        assert places == sorted(places)

    def test_threads_that_wait_for_positions_have_one_row_for_longer(self) -> None:
        sizes = {"B": 4032, "S": 1, "D": 320}
        given = {**sizes, "V": 1, MULTIPROCESSORS: 132}
        for task, rows_of_thread in ((GATHERED, 1), (whole({"x": "half[B, S, D]", "p": "half[S, D]"}, "y = x + p",
                                                           {"y": "half"}), 2)):  # fmt: skip
            (launch,) = first(task, V=50304, B=16, S=2048, D=4096).launches
            (each,) = [found for found in launch.kernel.parameters if found.name == "each"]
            assert isinstance(each.arg, FormulaArg)
            assert evaluate(as_formula(each.arg.formula), given) == rows_of_thread

    def test_a_position_that_a_row_is_computed_with_stays_beside_it(self) -> None:
        inputs = {"table": "half[V, D]", "p": "half[S, D]", "ids": "int64[B, S]"}
        body = "y = where(broadcast(ids == 0, [False, False, True]), 0.0, embedding(table, ids) + p)"
        walk = text(whole(inputs, body, {"y": "half"}), V=50304, B=16, S=2048, D=4096).partition("for (Index top")[2]
        assert walk.index("t2 = s2[u];") < walk.index("top += ") < walk.index("s2[u] = t2;")


class TestChoice:
    def test_the_one_next_to_it_has_as_many_threads_on_a_multiprocessor(self) -> None:
        choice = RowsChoice(threads=256, rows=8, unroll=4, min_blocks=4)
        assert choice.stepped("threads", 512) == replace(choice, threads=512, min_blocks=2)
        assert choice.stepped("rows", 16) == replace(choice, rows=16)

    def test_a_choice_that_is_given_makes_the_kernel(self) -> None:
        given = {"threads": 64, "rows": 16, "unroll": 2, "min_blocks": 8}
        found = for_many(BIAS, {"M": 4096, "N": 4096}, {"rows_vec8_int32": given})[0]
        assert found.launches[0].block == (64, 1, 1)
        assert evaluate(found.launches[0].grid[0], {"M": 65536, "N": 4096, MULTIPROCESSORS: 132}) == 8 * 65536 // 16
        assert found.launches[0].kernel.heuristics == PointwiseRowsHeuristics(**given, walked=0)

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"threads": 48}, "threads: it is 48, no power of two from 32 to 1024"),
            ({"rows": 128}, "rows: it is 128, no power of two from 1 to 64"),
            ({"unroll": 16}, "unroll: it is 16, but a thread has 8 rows"),
            ({"min_blocks": 16}, "min_blocks: 16 blocks of 256 threads are more than the 2048 threads of a"
                                 " multiprocessor"),
        ],
    )  # fmt: skip
    def test_one_that_no_kernel_can_be_made_with_is_an_error(self, changed: dict[str, int], message: str) -> None:
        given = {"threads": 256, "rows": 8, "unroll": 4, "min_blocks": 4} | changed
        with pytest.raises(KnobError) as caught:
            POINTWISE.schedule(BIAS, SM_90, {"M": 4096, "N": 4096}, {"rows_vec8_int32": given})
        assert f"{caught.value.knob}: {caught.value.reason}" == message
