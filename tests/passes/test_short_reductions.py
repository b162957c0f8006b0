"""Reductions of a few elements are written out where another reduction needs them: nothing that is computed changes,
and one kernel has both."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusebuild.ir.formula import evaluate
from fusebuild.ir.text import print_fusion
from fusebuild.ir.verify import verify
from fusebuild.passes.decompose import decompose
from fusebuild.passes.short_reductions import MOST_SLICES, short_reductions
from fusebuild.pipeline import plan_recipe
from fusebuild.planning.expectation import hbm_bytes
from fusebuild.target.table import TARGETS
from support.same_results import assert_equal
from support.small_recipes import recipe_of, text_of

pytest.importorskip("torch")

INPUTS = {"x": "float[T, 4, D]", "h": "half[T, 4, D]", "n": "int32[T, 4, D]", "share": "float[T, 4]", "w": "float[D]",
          "wide": "float[T, 2, 3, D]", "many": "float[T, 9, D]", "last": "float[T, D, 4]"}  # fmt: skip


def text(body: str, *outputs: str, inputs: Mapping[str, str] = INPUTS) -> str:
    used = {name: type_ for name, type_ in inputs.items() if name in re.findall(r"\w+", body)}
    return text_of(used, body, dict.fromkeys(outputs or ("y",), ""))


def written_out(body: str, *outputs: str) -> list[str]:
    """The ops of ``body`` after the pass, which changes no result and has nothing left to do."""
    before = decompose(recipe_of(text(body, *outputs)).fusion)
    after = verify(short_reductions(before))
    assert print_fusion(short_reductions(after)) == print_fusion(after)
    for sizes in ({"T": 5, "D": 6}, {"T": 1, "D": 1}, {"T": 0, "D": 6}):
        assert_equal(after, before, sizes)
    return [expr.op for expr in after.exprs]


TOTAL = "y = sum(s, dims=[1])"

WRITTEN = {
    "of an input": f"s = sum(x, dims=[1])\n{TOTAL}",
    "of a half": f"s = sum(h, dims=[1])\n{TOTAL}",
    "of integers": f"s = sum(n, dims=[1])\n{TOTAL}",
    "that stays": f"s = squeeze(max(x, dims=[1], keepdim=True), [1])\n{TOTAL}",
    "by any fold": f"s = max(x, dims=[1]) - min(x, dims=[1]) * prod(x, dims=[1])\n{TOTAL}",
    "of two dims": f"s = sum(wide, dims=[1, 2])\n{TOTAL}",
    "of what is computed": f"s = sum(exp(x) * w * unsqueeze(share, 2), dims=[1])\n{TOTAL}",
    "of what is small, and reduced itself": f"s = sum(x * unsqueeze(softmax(share, 1), 2), dims=[1])\n{TOTAL}",
    "that a norm needs": "s = mean(x, dims=[1])\ny = s * rsqrt(mean(s * s, dims=[1], keepdim=True) + 1.0)",
    "that a scan needs": "y = cumsum(sum(x, dims=[1]), dim=1)",
}

LEFT = {
    "that no reduction needs": "y = sum(x, dims=[1]) * w",
    "of many elements": f"s = sum(many, dims=[1])\n{TOTAL}",
    "of an unknown number": "s = sum(x, dims=[0])\ny = sum(s, dims=[1])",
    "of the last dim": f"s = sum(last, dims=[2])\n{TOTAL}",
    "with the last dim": "s = sum(x, dims=[1, 2])\ny = sum(s, dims=[0])",
    "of what another one reduced": f"e = x / sum(x, dims=[2], keepdim=True)\ns = sum(e, dims=[1])\n{TOTAL}",
    "of random numbers": f"s = sum(x * rand_like(x, rng_seed=1), dims=[1])\n{TOTAL}",
}


@pytest.mark.parametrize("body", WRITTEN.values(), ids=WRITTEN)
def test_written_out(body: str) -> None:
    assert "slice" in written_out(body)


@pytest.mark.parametrize("body", LEFT.values(), ids=LEFT)
def test_left_as_it_is(body: str) -> None:
    before = decompose(recipe_of(text(body)).fusion)
    assert print_fusion(short_reductions(before)) == print_fusion(before)


def test_what_is_also_something_else_is_left_as_it_is() -> None:
    assert "slice" not in written_out(f"e = exp(x)\ns = sum(e, dims=[1])\n{TOTAL}", "e", "y")
    assert "slice" not in written_out(f"e = exp(x)\ns = sum(e, dims=[1])\n{TOTAL}\nz = max(e, dims=[0])", "y", "z")


@pytest.mark.parametrize(("body", "hbm"), [
    ("s = sum(x * unsqueeze(share, 2), dims=[1])\ny = s / sum(s, dims=[1], keepdim=True)", "4*T*4*D + 4*T*4 + 4*T*D"),
    ("s = max(x, dims=[1])\ny = sum(s, dims=[1])", "4*T*4*D + 4*T"),
    ("s = sum(wide, dims=[1, 2])\ny = cumsum(s, dim=1)", "4*T*6*D + 4*T*D"),
])  # fmt: skip
def test_one_kernel_reads_all_of_it_once(body: str, hbm: str) -> None:
    (target,) = plan_recipe(recipe_of(text(body)), [TARGETS["sm_90"]]).plan.targets
    assert len(target.segments) == 1
    sizes = {"T": 1000, "D": 1024}
    assert evaluate(hbm_bytes(target), sizes) == eval(hbm, dict(sizes))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=2),
    st.sampled_from(["sum", "max", "min", "prod", "mean"]),
    st.sampled_from(["float", "half", "bfloat16", "double", "int32"]),
    st.booleans(),
)
def test_of_any_shape_and_dtype(counts: list[int], fold: str, dtype: str, keepdim: bool) -> None:
    dims = [*range(1, 1 + len(counts))]
    shape = ", ".join(["T", *map(str, counts), "D"])
    source = text(
        f"s = {fold}(v, dims={dims}, keepdim={keepdim})\ny = sum(s, dims=[-1])", inputs={"v": f"{dtype}[{shape}]"}
    )
    before = decompose(recipe_of(source).fusion)
    after = verify(short_reductions(before))
    assert_equal(after, before, {"T": 3, "D": 5})
    is_written = any(expr.op == "slice" for expr in after.exprs)
    count = 1
    for each in counts:
        count *= each
    assert is_written == (1 < count <= MOST_SLICES)
