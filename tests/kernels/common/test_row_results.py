"""What rows have one element of: when a kernel's threads store it, and which of them."""

from __future__ import annotations

import re

import pytest

from fusebuild.artifact.plan import as_formula
from fusebuild.ir.formula import evaluate
from fusebuild.pipeline import plan_recipe
from fusebuild.target.table import TARGETS
from support.small_recipes import recipe_of, text_of

ROWS = {"x": "float[M, N]", "m": "{type: 'float[M]', contiguity: [false]}"}
ONE_ROW = {"x": "float[1, N]"}
CENTERED = "s = sum(x, dims=[1], keepdim=True)\ny = x - s"
IN_PLACE = "{dtype: float, alias: m}"
"""Its elements lie as those of ``m`` do: with gaps."""


def source(body: str, outputs: dict[str, str], size: int, inputs: dict[str, str] | None = None) -> str:
    """What is compiled for rows of ``size`` elements, by the widest vectors."""
    cases = f"N: {size}" if inputs == ONE_ROW else f"M: 16384, N: {size}"
    text = text_of(inputs or {"x": ROWS["x"]}, body, outputs, cases=cases)
    planned = plan_recipe(recipe_of(text, "test.yaml"), [TARGETS["sm_90"]])
    (segment,) = planned.plan.targets[0].segments
    sizes = {"M": 16384, "N": size}

    def holds(guard: object) -> bool:
        return bool(evaluate(as_formula(guard), sizes, lambda fid, width: True))

    chosen = next(each for each in segment.variants if all(map(holds, each.guard)))
    return planned.kernels["sm_90"][chosen.launches[0].kernel].source


def after_results(text: str) -> list[str]:
    """The lines from where the last reduction has ended on."""
    _, after = re.split("fb::reduce_(?:row<|threads[(])", text)[-2:]
    return [line.strip() for line in after.splitlines()[1:]]


STORE = "fb::store_rows_of_threads<kThreads>(int(row_shift), rows, {});"
OF_REDUCTION = "fb::store_rows<kThreadsPerRow, kRowsPerBlock>(rows, {});"
"""What kernels that do nothing but reduce end with."""


@pytest.mark.parametrize("size", [64, 512])
def test_rows_that_share_a_block_are_stored_together_before_their_columns(size: int) -> None:
    text = source(CENTERED, {"y": "float", "s": "float"}, size)
    assert "constexpr int kThreads = 128;" in text
    assert after_results(text)[1:4] == [
        STORE.format("fb::row_result(T2, t1)"),
        "if (!active) return;",
        "FUSEBUILD_UNROLL",
    ]
    assert text.count("T2") == 2


def test_a_row_that_has_its_block_is_stored_by_its_first_thread_at_the_end() -> None:
    text = source(CENTERED, {"y": "float", "s": "float"}, 4096)
    assert "kRowsPerBlock = 1;" in text
    assert text.endswith("  if (lane == 0) {\n    T2[row] = t1;\n  }\n}\n" + text.splitlines()[-1] + "\n")
    assert text.count("T2") == 2


def test_a_row_of_a_cluster_is_stored_by_its_first_thread_at_the_end() -> None:
    text = source(CENTERED, {"y": "float", "s": "float"}, 65536)
    assert text.endswith("  if (rank == 0 && lane == 0) {\n    T2[row] = t1;\n  }\n}\n" + text.splitlines()[-1] + "\n")


def test_what_has_gaps_between_rows_is_stored_by_their_own_threads() -> None:
    body = f"{CENTERED}\nz = sum(x, dims=[1]) + m"
    lines = after_results(source(body, {"y": "float", "s": "float", "z": IN_PLACE}, 64, ROWS))
    assert lines[2:4] == [STORE.format("fb::row_result(T3, t2)"), "if (!active) return;"]
    assert lines[-5:-1] == ["if (lane == 0) {", "T5[row * T5_stride0] = t5;", "}", "}"]


class TestNoColumns:
    """Kernels that store nothing else."""

    BODY = "s = sum(x, dims=[1], keepdim=True)\nv = sum((x - s) * (x - s), dims=[1], keepdim=True)"

    def test_several_reductions_end_with_one_store(self) -> None:
        lines = after_results(source(self.BODY, {"s": "float", "v": "float"}, 64))
        assert lines[:3] == [
            "const float t5 = a5;",
            STORE.format("fb::row_result(T2, t1), fb::row_result(T6, t5)"),
            "}",
        ]

    def test_a_row_that_has_its_block_is_stored_by_its_first_thread(self) -> None:
        lines = after_results(source(self.BODY, {"s": "float", "v": "float"}, 4096))
        assert lines[1:6] == ["if (lane == 0) {", "T2[row] = t1;", "T6[row] = t5;", "}", "}"]

    def test_spare_threads_store_nothing_where_rows_have_gaps(self) -> None:
        body = "s = sum(x, dims=[1], keepdim=True)\nz = sum((x - s) * (x - s), dims=[1]) + m"
        lines = after_results(source(body, {"s": "float", "z": IN_PLACE}, 64, ROWS))
        assert lines[2:7] == [
            STORE.format("fb::row_result(T3, t2)"),
            "if (active && lane == 0) {",
            "T7[row * T7_stride0] = t7;",
            "}",
            "}",
        ]

    def test_one_reduction_does_so_too(self) -> None:
        lines = source("s = sum(x, dims=[1])", {"s": "half"}, 64).splitlines()
        assert lines[-4:-1] == [
            "  const __half t2 = fb::cast<__half>(t1);",
            "  fb::store_rows_of<kThreads>(row_shift, rows, fb::row_result(T2, t2));",
            "}",
        ]

    def test_one_reduction_leaves_other_threads_behind_where_rows_have_gaps(self) -> None:
        lines = source("s = sum(x, dims=[1])\nz = s + m", {"s": "float", "z": IN_PLACE}, 64, ROWS).splitlines()
        assert lines[-5:-1] == [
            "  fb::store_rows_of<kThreads>(row_shift, rows, fb::row_result(T2, t2));",
            "  if (!active || lane != 0) return;",
            "  T3[row * T3_stride0] = t3;",
            "}",
        ]

    def test_a_row_alone_has_nothing_to_share(self) -> None:
        text = source("s = sum(x, dims=[1])", {"s": "float"}, 64, ONE_ROW)
        assert "T1[0] = " in text
        assert "store_rows" not in text
