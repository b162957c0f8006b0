"""Short rows in tiles of warps: which tasks have them, how a call lays them out."""

from __future__ import annotations

import pytest

from fusebuild.artifact.plan import FormulaArg, as_formula
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.inner_outer import FAMILY
from fusebuild.kernels.inner_outer.tiled import TiledHeuristics
from fusebuild.kernels.render import Origin, render
from fusebuild.target.table import TARGETS
from support.small_recipes import whole

SM_90 = TARGETS["sm_90"]
PAIR = {"x": "bfloat16[M, N]", "g": "bfloat16[M, N]"}
BODY = "y = g - mean(g, dims=[1], keepdim=True)\ndw = sum(g * x, dims=[0])"
NORM = whole(PAIR, BODY, {"y": "bfloat16", "dw": "float"})
SAMPLES = whole({"x": "bfloat16[B, S, D]"}, "y = -x\na = sum(x, dims=[1])\nb = sum(x, dims=[0, 1])",
                {"y": "bfloat16", "a": "float", "b": "float"})  # fmt: skip


def tiled(task: Task) -> list[VariantSpec]:
    return [each for each in FAMILY.schedule(task, SM_90, {}) if each.name.startswith("tiled")]


def sized(variant: VariantSpec, multiprocessors: int = 132, **sizes: int) -> tuple[int, int, int]:
    """The blocks of the walk, the pieces that share an outer index, and the bytes of scratch."""
    every = {**sizes, MULTIPROCESSORS: multiprocessors}
    kernel, grid = variant.launches[0].kernel, variant.launches[0].grid[0]
    (parts,) = (each for each in kernel.parameters if each.name == "parts")
    shared = parts.value
    if shared is None:
        assert isinstance(parts.arg, FormulaArg)
        shared = evaluate(as_formula(parts.arg.formula), every)
    return evaluate(grid, every), shared, sum(evaluate(each, every) for each in variant.scratch)


def test_one_for_whole_vectors_and_one_for_the_others() -> None:
    assert [(each.name, each.guard[-1]) for each in tiled(NORM)] == [
        ("tiled_vec8_int32", ("le", "N", 128)),
        ("tiled_scalar_int32", ("le", "N", 256)),
    ]
    aligned = whole(PAIR, BODY, {"y": "bfloat16", "dw": "float"}, extents="N: {multiple_of: 8}")
    assert [each.name for each in tiled(aligned)] == ["tiled_vec8_int32"]


@pytest.mark.parametrize(
    ("inputs", "body", "outputs"),
    [
        (PAIR, "y = g - x\ndw = logsumexp(cast(x, float), dims=[0])", {"y": "bfloat16", "dw": "float"}),
        ({**PAIR, "w": "float[N]"}, f"{BODY} + w", {"y": "bfloat16", "dw": "{dtype: float, alias: w}"}),
    ],
    ids=["lambda", "overwritten"],
)
def test_tasks_that_have_none(inputs: dict[str, str], body: str, outputs: dict[str, str]) -> None:
    assert tiled(whole(inputs, body, outputs)) == []


def test_rows_of_one_thread_are_walked_in_straight_lines_where_they_may_be_odd() -> None:
    origin = Origin(recipe="test", segment=0, fid_map={}, scheduler="inner_outer", variant="tiled")
    for task in (NORM, SAMPLES):
        whole_vectors, odd = (render(each.launches[0].kernel, origin).text for each in tiled(task))
        assert "if (threads == 1) {  // straight lines for each length" in odd
        assert "fb::with_constant<kVec, kVec / 2 + 1>(most, " in odd
        assert "straight" not in whole_vectors


def test_what_follows_bools_in_a_tile_begins_where_a_vector_may() -> None:
    """A vector of bools is half of 16 bytes, so that an odd number of them is filled up; tiles have room for that."""
    origin = Origin(recipe="test", segment=0, fid_map={}, scheduler="inner_outer", variant="tiled")
    masked = whole({"x": "bool[M, N]", "g": "half[M, N]"}, BODY.replace("g * x", "g * cast(x, float)"),
                   {"y": "half", "dw": "float"})  # fmt: skip
    for variant in tiled(masked):
        kernel = variant.launches[0].kernel
        assert "= reinterpret_cast<__half*>(tile0 + (places + 15) / 16 * 16);" in render(kernel, origin).text
        assert isinstance(kernel.heuristics, TiledHeuristics)
        assert kernel.heuristics.edge_bytes == 2 * 8 * (1 + 2) + 8
    assert all("+ 15" not in render(each.launches[0].kernel, origin).text for each in tiled(NORM))


def test_blocks_fill_the_gpu_once_and_each_warp_has_something_to_do() -> None:
    (_, odd) = tiled(NORM)
    assert odd.launches[0].block == (256, 1, 1)
    assert sized(odd, M=10**6, N=7)[0] == 3 * 132
    assert sized(odd, multiprocessors=78, M=10**6, N=7)[0] == 3 * 78
    assert sized(odd, M=200, N=7)[0] == 2
    assert sized(odd, M=1, N=1)[0] == 1


def test_samples_are_shared_where_they_are_few_and_long() -> None:
    (_, odd) = tiled(SAMPLES)
    _, finish = odd.launches
    warps = sized(odd, B=10**6, S=4, D=15)[0] * odd.launches[0].block[0] // 32
    for sizes, parts in (
        ({"B": 10**6, "S": 2, "D": 15}, 1),
        ({"B": 3, "S": 20, "D": 15}, 1),
        ({"B": 256, "S": 768, "D": 15}, min(warps // 256, 768 * 15 // 512)),
        ({"B": 1, "S": 10**6, "D": 15}, warps),
    ):
        blocks, found, scratch = sized(odd, **sizes)
        assert found == parts
        assert scratch == 4 * sizes["D"] * (blocks + (found * sizes["B"] if found > 1 else 0))
        grid = evaluate(finish.grid[0], {**sizes, MULTIPROCESSORS: 132})
        own = -(-sizes["D"] // 8)  # blocks that finish what is reduced over all samples
        assert (grid > own) == (found > 1)
