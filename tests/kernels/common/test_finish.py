"""Finishing kernels: how groups of reductions share out the blocks of one launch."""

from __future__ import annotations

import pytest

from fusebuild.artifact.plan import FormulaArg, as_formula
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.finish import FinishGroup, FinishHeuristics, FinishPart
from fusebuild.kernels.common.spec import LaunchSpec, reductions
from fusebuild.kernels.common.specialization import taken_variant
from fusebuild.kernels.inner_outer import FAMILY as INNER_OUTER
from fusebuild.kernels.reduction import FAMILY as REDUCTION
from fusebuild.passes import run_passes
from fusebuild.pipeline import load_recipe
from fusebuild.target.table import TARGETS
from support.places import ROOT
from support.small_recipes import whole

SM_90 = TARGETS["sm_90"]
SHIPPED = ROOT / "recipes"
ADALN = run_passes(load_recipe(SHIPPED / "adaln_backward.yaml").fusion).whole()
LAYERNORM = run_passes(load_recipe(SHIPPED / "layernorm_backward.yaml").fusion).whole()
COLUMN_SUM = whole({"x": "bfloat16[M, N]"}, "y = sum(x, dims=[0])", {"y": "float"})
FULL_SUM = whole({"x": "float[M, N]"}, "y = sum(x)", {"y": "float"})


def finish_of(task: Task, variant: str, **sizes: int) -> LaunchSpec:
    scheduler = REDUCTION if task in (COLUMN_SUM, FULL_SUM) else INNER_OUTER
    found = {each.name: each for each in scheduler.schedule(task, SM_90, sizes)}
    return found[variant].launches[-1]


def parts(launch: LaunchSpec) -> tuple[FinishPart, ...]:
    assert isinstance(launch.kernel.heuristics, FinishHeuristics)
    assert launch.block == (launch.kernel.heuristics.threads, 1, 1)
    return launch.kernel.heuristics.parts


def test_scaled_sums_are_made_from_the_results_of_others() -> None:
    """8 partial results of two sums are on their way at once."""
    launch = finish_of(ADALN, "registers1024_vec8_int32", B=56, S=1024, D=1024)
    (part,) = parts(launch)
    assert part.source is not None
    assert (part.group.kept, part.source.kept) == ((2,), (0, 2))
    assert (part.block_x, part.ahead, launch.block) == (0, 8, (512, 1, 1))


@pytest.mark.parametrize(
    ("samples", "rows", "columns", "width"),
    [(56, 1024, 1024, 8), (320, 54, 2112, 8), (40, 300, 5000, 24), (7, 13, 63395, 128), (1, 17, 3392, 24),
     (1, 10**6, 5, 5), (0, 7, 64, 8), (2, 100, 10**6, 128)],
)  # fmt: skip
def test_a_block_has_few_columns_where_its_threads_have_many_samples(
    samples: int, rows: int, columns: int, width: int
) -> None:
    """A thread has one sample of the first, where all blocks run at a time."""
    launch = finish_of(ADALN, "scratch_scalar_int64", B=56, S=1024, D=1024)
    given = {each.name: each.arg for each in launch.kernel.parameters if isinstance(each.arg, FormulaArg)}
    sizes = {"B": samples, "S": rows, "D": columns, MULTIPROCESSORS: 132}
    assert evaluate(as_formula(given["block_width"].formula), sizes) == width
    assert evaluate(launch.grid[0], sizes) == -(-columns // width)


@pytest.mark.parametrize(("samples", "is_nested"), [(8, False), (17, False), (18, True), (128, True), (129, False)])
def test_not_where_a_sample_has_many_partial_results_or_threads_too_many_samples(samples: int, is_nested: bool) -> None:
    found = parts(finish_of(ADALN, "registers1024_vec8_int32", B=samples, S=1024, D=1024))
    assert [part.source is not None for part in found] == ([True] if is_nested else [False, False])
    assert [part.group.partials for part in found] == sorted((p.group.partials for p in found), reverse=True)


def test_groups_share_out_the_blocks_of_one_launch() -> None:
    sizes = {"B": 8, "S": 4096, "D": 3072}
    launch = finish_of(ADALN, "registers4096_vec8_int32", **sizes)
    assert [part.group.kept for part in parts(launch)] == [(2,), (0, 2)]
    widths = [part.block_x for part in parts(launch)]
    grid = evaluate(launch.grid[0], {**sizes, MULTIPROCESSORS: 132})
    assert grid == 3072 // widths[0] + 8 * 3072 // widths[1]


@pytest.mark.parametrize(
    ("variant", "rows", "columns", "width", "blocks"),
    [("vec8_int32", 32768, 4096, 24, 171), ("vec8_int32", 4194304, 64, 8, 8), ("vec8_int32", 10**6, 8, 8, 1),
     ("folded_vec8_int32", 3 * 10**6, 17, 8, 3), ("folded_vec8_int32", 10**8, 1, 1, 1)],
)  # fmt: skip
def test_all_partial_results_of_a_thread_are_on_their_way_at_once(
    variant: str, rows: int, columns: int, width: int, blocks: int
) -> None:
    """Where only a call knows how many there are."""
    launch = finish_of(COLUMN_SUM, variant, M=7, N=7)
    (part,) = parts(launch)
    sizes = {"M": rows, "N": columns, MULTIPROCESSORS: 132}
    given = {each.name: each.arg for each in launch.kernel.parameters if isinstance(each.arg, FormulaArg)}
    splits, own = (evaluate(as_formula(given[name].formula), sizes) for name in ("splits", "block_width"))
    assert (own, evaluate(launch.grid[0], sizes)) == (width, blocks)
    assert (part.block_x, part.ahead, launch.block) == (0, 20, (256, 1, 1))
    assert part.ahead * (launch.block[0] // own) >= splits


@pytest.mark.parametrize(
    ("rows", "columns", "width"), [(2560, 8064, 24), (1280, 10368, 48), (17, 7303, 48), (10**6, 256, 8), (9, 1024, 8)]
)
def test_a_block_has_fewer_columns_where_its_threads_could_not_load_all_at_once(
    rows: int, columns: int, width: int
) -> None:
    """Rows of 10368 are those of 66 clusters, 5 threads for each column of which load 14 partial results."""
    sizes = {"M": rows, "N": columns, MULTIPROCESSORS: 132}
    found = [*INNER_OUTER.schedule(LAYERNORM, SM_90, {})]
    launch = taken_variant(found, LAYERNORM.fusion, {"M": rows, "N": columns}).launches[-1]
    given = {each.name: each.arg for each in launch.kernel.parameters if isinstance(each.arg, FormulaArg)}
    assert evaluate(as_formula(given["block_width"].formula), sizes) == width


def test_one_block_finishes_a_full_reduction() -> None:
    launch = finish_of(FULL_SUM, "vec4_int32", M=16384, N=8192)
    (part,) = parts(launch)
    assert part.group == FinishGroup(reductions=reductions(FULL_SUM), kept=(), is_last=True)
    assert evaluate(launch.grid[0], {"M": 16384, "N": 8192, MULTIPROCESSORS: 132}) == 1


def test_many_columns_of_few_rows_need_none() -> None:
    found = {each.name: each for each in REDUCTION.schedule(COLUMN_SUM, SM_90, {"M": 7, "N": 7})}
    first, finish = found["vec8_int32"].launches
    sizes = {"M": 40, "N": 10**6, MULTIPROCESSORS: 132}
    assert [evaluate(each, sizes) for each in first.grid] == [528, 1, 1]  # of 237 threads side by side
    assert evaluate(finish.grid[0], sizes) == 0


def test_turns_are_equally_long() -> None:
    """Where a thread has more of them than registers."""
    sums = {"a": "sum(x", "b": "max(x", "c": "min(x", "d": "sum(x * x", "e": "max(x * x"}
    body = "".join(f"\n{name} = {text}, dims=[1])" for name, text in sums.items())
    wide = whole({"x": "double[B, M, N]"}, f"y = -x{body}", dict.fromkeys(("y", *sums), "double"))
    launch = finish_of(wide, "scratch_scalar_int64", B=1, M=10**6, N=64)
    (part,) = parts(launch)
    of_thread = -(-part.group.partials * part.block_x // 512)
    turns = -(-of_thread // part.ahead)
    assert (turns > 1, part.ahead) == (True, -(-of_thread // turns))
