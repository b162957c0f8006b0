"""Which variant a call takes where strides are the caller's: vectors where they are multiples of a vector."""

from __future__ import annotations

import pytest

from fusebuild.runtime.loader import LoadedPlan, load
from support.host_artifacts import chosen, compile_for_host

torch = pytest.importorskip("torch")

STRIDED = """\
fusion: strided
inputs:
  x: {type: "bfloat16[B, M, N]", contiguity: [false, false, true]}
body: |
  y = x * 2.0
outputs:
  y: bfloat16
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> LoadedPlan:
    folder = compile_for_host(tmp_path_factory.mktemp("strided"), {"strided": STRIDED})
    return load(folder / "strided.fuse", target="host")


SHAPE = (3, 5, 1024)


@pytest.mark.parametrize(
    ("strides", "offset", "variant"),
    [
        ((5 * 1024, 1024, 1), 0, "vec8_int32"),
        ((3 * 5 * 1024, 2048, 1), 0, "vec8_int32"),
        ((1024, 4096, 1), 8, "vec8_int32"),  # matrices lie between the rows of others
        ((5 * 1024, 0, 1), 0, "vec8_int32"),  # one row, again and again
        ((5 * 1032 + 1, 1032, 1), 0, "runs_int32"),
        ((5 * 1028, 1028, 1), 0, "runs_int32"),
        ((5 * 1024, 1024, 1), 4, "runs_int32"),
    ],
)
def test_vectors_are_taken_where_all_steps_are_multiples(
    plan: LoadedPlan, strides: tuple[int, ...], offset: int, variant: str
) -> None:
    memory = torch.randn(3 * 5 * 4096 + 64).bfloat16()
    x = memory.as_strided(SHAPE, strides, offset)
    assert chosen(plan, x) == variant
    y = plan(x)
    assert y.equal(x * 2.0)


def test_the_stride_of_a_dim_of_one_element_is_of_no_account(plan: LoadedPlan) -> None:
    x = torch.randn(40_000).bfloat16().as_strided((1, 33, 1024), (7, 1024, 1))
    assert chosen(plan, x) == "vec8_int32"
    y = plan(x)
    assert y.equal(x * 2.0)
