"""Reductions that also store what they reduce: which tasks are such, and that every element is stored once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.kernels.families import first_accepting
from fusebuild.kernels.reduction import STORING
from fusebuild.kernels.reduction.schedule import MOST_LOADED, InnerHeuristics
from fusebuild.oracle.verification import VerifyOptions, verify_artifact
from fusebuild.pipeline import plan_recipe
from fusebuild.runtime.loader import LoadedPlan, load
from fusebuild.segmentation import segment
from fusebuild.segmentation.segmenter import Search
from fusebuild.target.table import TARGETS
from support.host_artifacts import compile_for_host
from support.sampled import sampled
from support.small_recipes import primitive, recipe_of, text_of, whole
from support.stored_reductions import stored_reduction

torch = pytest.importorskip("torch")

SM_90 = TARGETS["sm_90"]
X, IMAGES = {"x": "bfloat16[M, N]"}, {"x": "bfloat16[N, C, S]"}
Y = {"y": "half"}
IN_PLACE = "q = p * 2.0\ntotal = sum(q)"
DOUBLED = {"q": "{dtype: float, alias: p}", "total": "float"}
CHOSEN = "q = p * 2.0\nchosen = sum(where(iota(N) == place, p, 0.0))"
SCALED = """\
y = x / scale
amax = max(abs(x))
"""


@pytest.mark.parametrize(
    ("inputs", "body", "results"),
    [
        (X, "y = exp(x)\ntop = max(y)", {"top": "float"}),
        (IMAGES, "y = exp(x)\ntop = max(x, dims=[0, 2])", {"top": "float"}),
        ({**X, "scale": "float[]"}, SCALED, {"amax": "{dtype: float, alias: scale}"}),
    ],
)
@pytest.mark.parametrize("search", get_args(Search))
def test_both_searches_leave_an_elementwise_result_to_the_reduction(
    inputs: dict[str, str], body: str, results: dict[str, str], search: Search
) -> None:
    found = segment(primitive(text_of(inputs, body, {**Y, **results})), SM_90, search).segments
    assert [each.scheduler for each in found] == ["storing_reduction"]


@pytest.mark.parametrize(("inputs", "dims"), [(X, [0]), (X, [0, 1]), (IMAGES, [0, 2]), (IMAGES, [1])])
def test_so_it_is_where_moments_are_reduced(inputs: dict[str, str], dims: list[int]) -> None:
    body = f"y = exp(x)\nv, m = var_mean(y, dims={dims}, correction=0)"
    task = whole(inputs, body, {**Y, "v": "float", "m": "float"})
    assert first_accepting(task, SM_90) is STORING


@pytest.mark.parametrize(("dim", "scheduler"), [(1, "inner_persistent"), (0, "inner_outer_persistent")])
def test_families_that_keep_rows_on_chip_come_first(dim: int, scheduler: str) -> None:
    task = whole(X, f"y = exp(x)\nr = max(y, dims=[{dim}])", {**Y, "r": "float"})
    family = first_accepting(task, SM_90)
    assert not isinstance(family, tuple)
    assert family.name == scheduler


@pytest.mark.parametrize(
    ("inputs", "body", "reason"),
    [
        (X, "r = max(x)\ny = x - r", "y needs the result of a reduction"),
        ({**X, "w": "float[N]"}, "y = neg(w)\nr = max(x * y)", "y has other dims than this family writes"),
        (X, "r = max(x)\ny = permute(x, [1, 0])", "x holds the same dims in another order"),
        (X, "r = max(x, dims=[1])\ny = sum(x)", "r reduces over other dims than the rest of the task"),
    ],
)
def test_what_it_does_not_take(inputs: dict[str, str], body: str, reason: str) -> None:
    with pytest.raises(UnfitError) as raised:
        STORING.check(whole(inputs, body, {"y": "float", "r": "float"}))
    assert str(raised.value) == reason


def test_a_thread_that_stores_loads_no_more_than_registers_hold() -> None:
    three = dict.fromkeys(("a", "b", "c"), "float[N]")
    task = whole(three, "y = a * b + c\nr = sum(y)", {"y": "float", "r": "float"})
    for variant in STORING.schedule(task, SM_90, {}):
        kernel = variant.launches[0].kernel
        assert isinstance(kernel.heuristics, InnerHeuristics)
        assert kernel.heuristics.stored == task.outputs[:1]
        assert kernel.heuristics.unroll * kernel.vec * 3 * 4 <= MOST_LOADED


def test_the_kernel_that_finishes_writes_only_what_it_combines() -> None:
    text = text_of(X, "y = exp(x)\ntop = max(y)", {**Y, "top": "float"})
    kernels = plan_recipe(recipe_of(text), [SM_90]).kernels["sm_90"]
    finishing = [kernel.text for name, kernel in kernels.items() if name.startswith("reduction_finish")]
    assert finishing
    for each in finishing:
        (tensor,) = re.findall(r"float\* __restrict__ (T\d+)", each)
        assert {*re.findall(r"\bT\d+", each)} == {tensor}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {
        "doubled": text_of({"p": "float[N]"}, IN_PLACE, DOUBLED, name="doubled"),
        "chosen": text_of(
            {"p": "float[N]", "place": "int64[]"}, CHOSEN, {**DOUBLED, "chosen": "float"}, name="chosen"
        ).replace("  total: float\n", ""),
        "columns": text_of(
            {"x": "float[M, N]"}, "y = x + 1.0\nv, m = var_mean(x, dims=[0], correction=0)",
            {"y": "half", "v": "float", "m": "float"}, name="columns",
        ),
        "images": text_of(
            IMAGES, "y = x + 1.0\nr = sum(x, dims=[0, 2])", {"y": "bfloat16", "r": "float"}, name="images"
        ),
    }  # fmt: skip
    return compile_for_host(tmp_path_factory.mktemp("stores"), texts)


def opened(artifacts: Path, name: str) -> LoadedPlan:
    return load(artifacts / f"{name}.fuse", target="host")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 31, 33, 127, 1023, 1025, 24_577, 70_001, 140_000])
def test_an_element_that_is_overwritten_is_so_once_whoever_shares_the_reduction(artifacts: Path, size: int) -> None:
    """Few elements have few threads, and the block's other threads no element."""
    plan = opened(artifacts, "doubled")
    for variant in plan.variants_for(torch.empty(size))[0]:
        p = torch.randint(-4, 5, (size,)).float()
        wanted = p * 2
        q, total = plan(p, variant=variant)
        assert torch.equal(q, wanted)
        assert q.data_ptr() == p.data_ptr()
        assert total == wanted.sum()


def test_the_only_element_that_counts_is_read_before_it_is_overwritten(artifacts: Path) -> None:
    plan = opened(artifacts, "chosen")
    for place in (0, 1, 40_000, 69_999):
        p = torch.arange(70_000).float()
        _, chosen = plan(p, torch.tensor(place))
        assert chosen == place


def between(values: Any) -> tuple[Any, Any]:
    """Memory of sevens, and a part of it like ``values`` that begins aligned."""
    memory = values.new_full((values.numel() + 128,), 7)
    return memory, memory[64 : 64 + values.numel()].view(values.shape)


@pytest.mark.parametrize("name", ["columns", "images"])
@pytest.mark.parametrize("last", [1, 3, 5, 8, 13, 24, 33, 77])
def test_nothing_beside_an_output_is_written(artifacts: Path, name: str, last: int) -> None:
    plan = opened(artifacts, name)
    x = torch.randn((517, last) if name == "columns" else (11, 5, last))
    x = x if name == "columns" else x.bfloat16()
    for variant in plan.variants_for(x)[0]:
        memory, y = between((x + 1).half() if name == "columns" else x + 1)
        plan(x, out=(y, *[None] * (len(plan.plan.outputs) - 1)), variant=variant)
        torch.testing.assert_close(y, (x + 1).to(y.dtype))
        assert bool((memory[:64] == 7).all())
        assert bool((memory[64 + y.numel() :] == 7).all())


@pytest.mark.parametrize("seed", sampled([*range(40)], 13))
def test_drawn_compositions_agree_with_the_oracle(seed: int, tmp_path: Path) -> None:
    folder = compile_for_host(tmp_path, {f"stored_{seed}": stored_reduction(seed)})
    verdicts = list(verify_artifact(folder / f"stored_{seed}.fuse", target="host", options=VerifyOptions()))
    assert verdicts
    assert [verdict for verdict in verdicts if not verdict.ok] == []
