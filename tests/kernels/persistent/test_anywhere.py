"""Rows of any length whose tensors each begin somewhere else: by vectors, in a warp, in a block or in parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.small_recipes import text_of, whole

torch = pytest.importorskip("torch")

from fusebuild.artifact.plan import FormulaArg  # noqa: E402
from fusebuild.ir.formula import MULTIPROCESSORS, Formula, evaluate  # noqa: E402
from fusebuild.kernels.common.spec import VariantSpec  # noqa: E402
from fusebuild.kernels.persistent import FAMILY as PERSISTENT  # noqa: E402
from fusebuild.runtime.loader import load  # noqa: E402
from fusebuild.target.table import TARGETS  # noqa: E402
from support.host_artifacts import beginning, chosen, compile_for_host  # noqa: E402

SOFTMAX_BODY = """\
m = max(x, dims=[1], keepdim=True)
e = exp(x - m)
y = e / sum(e, dims=[1], keepdim=True)"""
NORM_BODY = """\
m = mean(x, dims=[1], keepdim=True)
d = x - m
v = mean(d * d, dims=[1], keepdim=True)
y = d * rsqrt(v + 1.0) * w
z = y + b
s = squeeze(v, dims=[1])"""
SPREAD_BODY = """\
d = x - mean(x, dims=[1], keepdim=True)
v = mean(d * d, dims=[1])"""
SQUARES_BODY = """\
d = x - mean(x, dims=[1], keepdim=True)
q = sum(d * d, dims=[1])"""
X = {"x": "bfloat16[M, N]"}
NORM = {**X, "w": "bfloat16[N]", "b": "float[N]"}
NORMED = {"y": "bfloat16", "z": "float", "s": "float"}

LENGTHS = [1, 2, 7, 8, 9, 31, 32, 33, 39, 40, 41, 255, 256, 257, 1000, 2047, 2049, 8191, 16_383, 16_384, 32_768, 40_001]
PLACES = [(0, 1, 3), (1, 0, 0), (3, 3, 3), (5, 2, 7), (8, 7, 1)]


def last(task_inputs: dict[str, str], body: str, outputs: dict[str, str], target: str = "sm_90") -> VariantSpec:
    return PERSISTENT.schedule(whole(task_inputs, body, outputs), TARGETS[target], {"M": 512, "N": 4096})[-1]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {
        "softmax": text_of(X, SOFTMAX_BODY, {"y": "bfloat16"}, name="softmax"),
        "squares": text_of({"x": "float[M, N]"}, SQUARES_BODY, {"q": "float"}, name="squares"),
        "spread": text_of({"x": "float[M, N]"}, SPREAD_BODY, {"v": "float"}, name="spread"),
        "norm": text_of(NORM, NORM_BODY, NORMED, name="norm"),
    }
    return compile_for_host(tmp_path_factory.mktemp("anywhere"), texts)


@pytest.mark.parametrize("columns", LENGTHS)
def test_softmax_of_rows_of_any_length(artifacts: Path, columns: int) -> None:
    plan = load(artifacts / "softmax.fuse", target="host")
    own = torch.randn(3, columns, generator=torch.Generator().manual_seed(columns)).bfloat16()
    wanted = own.double().softmax(1)
    for at, to, _ in PLACES[1:]:
        x, y = beginning(at, own), beginning(to, own)
        if at % 8 or to % 8:
            assert chosen(plan, beginning(1, own)) == "anywhere_vec8_int64"
        assert plan(x, out=y) is y
        torch.testing.assert_close(y.double(), wanted, rtol=1e-2, atol=1e-6)
        assert torch.equal(plan(x, out=beginning(to, own)), y)


@pytest.mark.parametrize("columns", LENGTHS)
def test_norms_of_tensors_that_begin_in_different_places(artifacts: Path, columns: int) -> None:
    plan = load(artifacts / "norm.fuse", target="host")
    generator = torch.Generator().manual_seed(columns)
    rows = 70 if columns < 300 else 3
    x = torch.randn(rows, columns, generator=generator).bfloat16()
    w, b = torch.randn(columns, generator=generator).bfloat16(), torch.randn(columns, generator=generator)
    wide = x.double()
    spread = wide.var(1, correction=0, keepdim=True)
    wanted = (wide - wide.mean(1, keepdim=True)) * (spread + 1).rsqrt() * w.double()
    for places in PLACES:
        own = [beginning(at, each) for at, each in zip(places, (x, w, b), strict=True)]
        y, z, s = plan(*own)
        torch.testing.assert_close(y.double(), wanted, rtol=2e-2, atol=2e-2)
        torch.testing.assert_close(z.double(), wanted + b.double(), rtol=1e-2, atol=2e-2)
        torch.testing.assert_close(s.double(), spread[:, 0], rtol=1e-4, atol=1e-5)
        assert all(torch.equal(first, again) for first, again in zip((y, z, s), plan(*own), strict=True))


@pytest.mark.parametrize("columns", [1, 8, 31, 32, 45, 300, 2500, 40_001])
def test_vectors_are_aligned_in_an_input_where_no_result_has_rows(artifacts: Path, columns: int) -> None:
    plan = load(artifacts / "spread.fuse", target="host")
    x = torch.randn(5, columns, generator=torch.Generator().manual_seed(columns))
    for at in (1, 2, 3):
        assert chosen(plan, beginning(at, x)).startswith("anywhere")
        spread = plan(beginning(at, x))
        torch.testing.assert_close(spread.double(), x.double().var(1, correction=0), rtol=1e-5, atol=1e-6)


def test_squares_of_no_elements_are_none(artifacts: Path) -> None:
    plan = load(artifacts / "squares.fuse", target="host")
    assert torch.equal(plan(beginning(1, torch.ones(3, 0))), torch.zeros(3))


def test_rows_beside_stay_as_they_were(artifacts: Path) -> None:
    plan = load(artifacts / "softmax.fuse", target="host")
    for columns in (1, 31, 33, 300, 2500, 20_000):
        x = torch.randn(3, columns).bfloat16()
        memory = torch.full((3 * columns + 64,), 7.0, dtype=torch.bfloat16)
        plan(beginning(5, x), out=memory[11 : 11 + 3 * columns].view(3, columns))
        assert bool((memory[:11] == 7).all())
        assert bool((memory[11 + 3 * columns :] == 7).all())


def test_no_rows_are_no_work(artifacts: Path) -> None:
    plan = load(artifacts / "softmax.fuse", target="host")
    assert plan(beginning(1, torch.ones(0, 33).bfloat16())).shape == (0, 33)


@pytest.mark.parametrize(
    ("rows", "columns", "threads", "parts"),
    [
        (1, 1, 32, 1),
        (1, 256, 32, 1),
        (264, 257, 256, 1),
        (1 << 20, 2048, 32, 1),
        (1 << 20, 2049, 256, 1),
        (100, 2048, 256, 1),
        (1, 256_000, 256, 31),
        (8, 256_000, 256, 31),
        (64, 256_000, 256, 6),
        (64, 2_560_000, 256, 16),
        (4096, 256_000, 256, 1),
    ],
)
def test_few_long_rows_have_many_blocks_and_many_short_ones_a_warp_each(
    rows: int, columns: int, threads: int, parts: int
) -> None:
    variant = last(X, SOFTMAX_BODY, {"y": "bfloat16"})
    sizes = {"M": rows, "N": columns, MULTIPROCESSORS: 132}
    found = dict[str, Formula]()
    for parameter in variant.launches[0].kernel.parameters:
        if isinstance(parameter.arg, FormulaArg):
            found[parameter.name] = parameter.arg.formula  # type: ignore[assignment]
    assert [evaluate(found[name], sizes) for name in ("team", "parts")] == [threads, parts]
    blocks = -(-rows * parts * threads // 256)
    others = blocks if parts > 1 else 0
    assert [evaluate(launch.grid[0], sizes) for launch in variant.launches] == [blocks, others, others]


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120", "host"])
def test_nothing_is_asked_of_tensors_or_sizes(target: str) -> None:
    variant = last(NORM, NORM_BODY, NORMED, target)
    assert (variant.name, variant.guard) == ("anywhere_vec8_int64", ())
