"""Short rows of whole vectors: how many threads have one, and what kernels make of rows of any length; and which kernel
rows of any length take, whatever the first case is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusebuild.artifact.plan import FormulaArg
from fusebuild.ir.formula import MULTIPROCESSORS, Formula, evaluate
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.persistent import FAMILY as PERSISTENT
from fusebuild.kernels.persistent.long_rows import EDGED_RUNGS
from fusebuild.kernels.persistent.short_rows import ShortRowsHeuristics
from fusebuild.target.table import TARGETS
from support.small_recipes import NORM, NORM_INPUTS, text_of, whole

torch = pytest.importorskip("torch")

from fusebuild.runtime.loader import load  # noqa: E402
from support.host_artifacts import compile_for_host, norm_operands  # noqa: E402

SM_90 = TARGETS["sm_90"]
GROUPED = whole(
    {"x": "bfloat16[M, K, N]", "w": "bfloat16[1, 1, N]"},
    "y = (x - max(x, dims=[1, 2], keepdim=True)) * w",
    {"y": "bfloat16"},
)


def variants(columns: int, extents: str = "") -> Sequence[VariantSpec]:
    task = whole(NORM_INPUTS, NORM, {"y": "bfloat16"}, extents=extents)
    return PERSISTENT.schedule(task, SM_90, {"M": 4096, "N": columns})


def taken(found: Sequence[VariantSpec], **sizes: int) -> VariantSpec:
    """The variant that aligned tensors of these sizes take."""
    return next(each for each in found if all(evaluate(guard, sizes, lambda fid, size: True) for guard in each.guard))


def formula_of(variant: VariantSpec, name: str) -> Formula:
    (formula,) = (
        parameter.arg.formula
        for parameter in variant.launches[0].kernel.parameters
        if parameter.name == name and isinstance(parameter.arg, FormulaArg)
    )
    return formula  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("columns", "threads", "threads_of_few"),
    [(0, 1, 1), (8, 1, 1), (16, 2, 2), (24, 4, 4), (32, 4, 4), (40, 4, 8), (64, 4, 8), (72, 4, 16), (128, 4, 16),
     (136, 4, 32), (160, 4, 32), (168, 8, 32), (320, 8, 32), (328, 16, 32), (640, 16, 32),
     (648, 32, 32), (768, 32, 32), (1024, 32, 32)],
)  # fmt: skip
def test_a_row_has_as_many_threads_as_vectors_up_to_four_and_then_up_to_five_for_each(
    columns: int, threads: int, threads_of_few: int
) -> None:
    """Of few rows, twice as many threads have each as soon as it has more vectors."""
    (short,) = (each for each in variants(4096) if each.name == "short_vec8_int32")
    for rows, own in ((0, threads_of_few), (1, threads_of_few), (64 * 132, threads_of_few), (64 * 132 + 1, threads)):
        sizes = {"M": rows, "N": columns, MULTIPROCESSORS: 132}
        assert 1 << evaluate(formula_of(short, "row_shift"), sizes) == own
        assert evaluate(short.launches[0].grid[0], sizes) == -(-rows * own // 128)


@pytest.mark.parametrize(
    ("rows", "columns", "name"),
    [(1320, 256, "short"), (1320, 264, "registers4096"), (1321, 264, "short"), (1321, 1024, "short")],
)
def test_few_rows_that_are_more_than_a_vector_for_each_lane_have_blocks_of_their_own(
    rows: int, columns: int, name: str
) -> None:
    assert taken(variants(256), M=rows, N=columns).name == f"{name}_vec8_int32"


@pytest.mark.parametrize(
    ("first", "columns", "name"),
    [(1000, 516, "registers"), (1000, 1024, "registers"), (1000, 512, "short"), (1000, 8, "short"), (600, 8, "short")],
)  # fmt: skip
def test_the_kernel_of_the_first_case_takes_no_much_shorter_rows(first: int, columns: int, name: str) -> None:
    task = whole({"x": "float[M, N]"}, "y = round(x / max(x, dims=[1], keepdim=True))", {"y": "float"})
    found = PERSISTENT.schedule(task, SM_90, {"M": 4096, "N": first})
    assert taken(found, M=4096, N=columns).name == f"{name}_vec4_int32"


@pytest.mark.parametrize(("columns", "threads"), [(1, 1), (2, 2), (3, 4), (7, 8), (17, 32), (512, 32)])
def test_by_elements_as_many_threads_have_a_row_as_it_has_elements(columns: int, threads: int) -> None:
    found = PERSISTENT.schedule(GROUPED, SM_90, {"M": 64, "K": 8, "N": 1024})
    (short,) = (each for each in found if each.name == "short_vec1_int32")
    sizes = {"M": 64, "K": 1, "N": columns, MULTIPROCESSORS: 132}
    assert 1 << evaluate(formula_of(short, "row_shift"), sizes) == threads


@given(
    first=st.integers(1, 300_000),
    rows=st.integers(1, 1 << 20),
    columns=st.integers(1, EDGED_RUNGS[-1]),
    extents=st.sampled_from(["", "N: {multiple_of: 8}"]),
)
def test_rows_of_any_length_take_a_kernel_that_keeps_them(first: int, rows: int, columns: int, extents: str) -> None:
    """Whatever the first case is, no row of up to 131072 elements is read again from memory."""
    columns, first = (-(-size // 8) * 8 if extents else size for size in (columns, first))
    assert not taken(variants(first, extents), M=rows, N=columns).name.startswith("reread")


# --- What runs


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = text_of(NORM_INPUTS, NORM, {"y": "bfloat16"}, name="norm", cases="M: 4, N: 4096")
    return compile_for_host(tmp_path_factory.mktemp("short"), {"norm": text}) / "norm.fuse"


@pytest.mark.parametrize("columns", [0, 1, 3, 7, 8, 16, 24, 40, 64, 72, 256, 264, 520, 1001, 1024])
def test_every_kernel_that_takes_rows_is_right(artifact: Path, columns: int) -> None:
    plan = load(artifact, target="host")
    for rows in (0, 1, 5, 67):
        x, w, b = norm_operands(rows, max(1, columns))
        x, w, b = x[:, :columns].contiguous(), w[:columns], b[:columns]
        if columns == 0:
            assert plan(x, w, b).numel() == 0
            continue
        wide = x.double()
        wanted = (wide - wide.amax(1, keepdim=True)).exp() * w.double() + b.double() if rows else wide
        for index in plan.variants_for(x, w, b)[0]:
            torch.testing.assert_close(plan(x, w, b, variant=index).double(), wanted, rtol=8e-3, atol=8e-3)


@pytest.mark.parametrize(
    ("body", "skips"),
    [
        ("y = x / max(x, dims=[1], keepdim=True) * w", True),
        ("y = x / max(x, dims=[1], keepdim=True) * w * u * v", False),  # a thread has much to do with a vector
        ("y = x / max(x, dims=[1], keepdim=True) * rand_like(x, rng_seed=1, rng_offset=2)", False),
    ],
)
def test_rows_of_an_odd_number_of_vectors_lie_in_whole_sectors_where_that_pays(body: str, skips: bool) -> None:
    inputs = {"x": "bfloat16[M, N]", **{name: "bfloat16[N]" for name in "wuv" if f"* {name}" in body}}
    found = PERSISTENT.schedule(whole(inputs, body, {"y": "bfloat16"}), SM_90, {"M": 4096, "N": 4096})
    (short,) = (each for each in found if each.name == "short_vec8_int32")
    heuristics = short.launches[0].kernel.heuristics
    assert isinstance(heuristics, ShortRowsHeuristics)
    assert heuristics.skips == skips
