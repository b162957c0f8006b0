"""Pointwise kernels with outputs that lack the innermost dims: which tasks have such, and that each is written once."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.kernels.pointwise import REPEATING
from fusebuild.oracle.verification import VerifyOptions, verify_artifact
from fusebuild.runtime.loader import load
from fusebuild.segmentation import segment
from fusebuild.segmentation.segmenter import Search
from fusebuild.target.table import TARGETS
from support.host_artifacts import compile_for_host
from support.small_recipes import primitive, text_of, whole

torch = pytest.importorskip("torch")

SM_90 = TARGETS["sm_90"]
ROWS = {"x": "bfloat16[M, N]", "a": "float[M]"}
SCALED = "w = exp(a)\ny = x * broadcast(w, [False, True])"
BOTH = {"y": "bfloat16", "w": "float"}
CASES = """\
cases:
  - {M: 7, N: 64}
  - {M: 33, N: 5}
  - {M: 1, N: 1}
  - {M: 5, N: 0}
  - {M: 0, N: 3}
  - {M: 700, N: 77}
"""


@pytest.mark.parametrize("search", get_args(Search))
def test_both_searches_leave_an_output_that_lacks_the_inner_dim_to_its_reader(search: Search) -> None:
    found = segment(primitive(text_of(ROWS, SCALED, BOTH)), SM_90, search).segments
    assert [each.scheduler for each in found] == ["repeating_pointwise"]


@pytest.mark.parametrize(
    ("inputs", "body", "outputs", "reason"),
    [
        (ROWS, SCALED, {"y": "float"}, "no output lacks dims that another one has"),
        (ROWS, SCALED, {"y": "float", "w": "{dtype: float, alias: a}"}, "w overwrites a, which other threads read"),
        ({"x": "float[M, N]", "b": "float[N]"}, "w = exp(b)\ny = x * w", {"y": "float", "w": "float"},
         "w has other dims than this family writes"),
        ({**ROWS, "b": "float[N]"}, f"{SCALED} + b", BOTH, "b is not dense along the first dims"),
        ({"x": "float[M, N]"}, "w = sum(x, dims=[1])\ny = x * 2.0", BOTH, "sum is a reduction"),
    ],
)  # fmt: skip
def test_what_it_does_not_take(inputs: dict[str, str], body: str, outputs: dict[str, str], reason: str) -> None:
    with pytest.raises(UnfitError) as raised:
        REPEATING.check(whole(inputs, body, outputs))
    assert str(raised.value) == reason


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {
        "rows": text_of(ROWS, SCALED, BOTH, name="rows") + CASES,
        "several": text_of(
            {"x": "half[K, M, N]", "a": "half[K, M]", "s": "float[]"},
            "w = a * s\nv = w > 0.0\ny = x + broadcast(w, [False, False, True])\nz = relu(y)",
            {"w": "float", "v": "bool", "y": "{dtype: half, alias: x}", "z": "float"},
            name="several",
        )
        + CASES.replace("{M", "{K: 3, M"),
        "number": text_of(
            {"x": "float[N]", "s": "float[]"}, "t = s * 0.5\ny = x * t", {"y": "float", "t": "float"}, name="number"
        )
        + "cases:\n" + "".join(f"  - {{N: {size}}}\n" for size in (0, 1, 3, 8, 77, 4096, 5001)),
    }  # fmt: skip
    return compile_for_host(tmp_path_factory.mktemp("repeated"), texts)


@pytest.mark.parametrize("name", ["rows", "several", "number"])
def test_every_size_and_variant_agrees_with_the_oracle(artifacts: Path, name: str) -> None:
    for options in (VerifyOptions(), VerifyOptions(sweep=4, seed=1, max_elements=20_000)):
        verdicts = list(verify_artifact(artifacts / f"{name}.fuse", target="host", options=options))
        assert verdicts
        assert [verdict for verdict in verdicts if not verdict.ok] == []


def test_it_is_written_where_the_dims_that_it_lacks_have_no_elements(artifacts: Path) -> None:
    plan = load(artifacts / "rows.fuse", target="host")
    a = torch.randn(5)
    y, w = plan(torch.empty(5, 0).bfloat16(), a)
    assert y.shape == (5, 0)
    torch.testing.assert_close(w, a.exp())
