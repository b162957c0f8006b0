"""Every kernel of every recipe, shipped and made for tests, on the CPU against the fp64 oracle.

The host target runs the rendered CUDA text itself. ``host-asan`` is the same under AddressSanitizer and UBSan; it needs
libasan loaded first, so it is verified in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fusebuild.oracle.reference import random_inputs
from fusebuild.oracle.verification import VerifyOptions, bits_of, largest_tensor, read_recipe, verify_artifact
from fusebuild.pipeline import compile_recipes
from fusebuild.runtime.loader import load
from fusebuild.target.table import TARGETS
from support.host_artifacts import require_toolchain
from support.places import FUSIONS, RECIPES
from support.sampled import sampled
from support.sanitized import SANITIZED

torch = pytest.importorskip("torch")

LIMIT = 300_000

ArtifactOf = Callable[[str], Path]


@pytest.mark.parametrize("recipe", sampled([*FUSIONS, *RECIPES], 27), ids=lambda path: path.stem)
def test_every_case_and_variant_agrees_with_the_oracle(recipe: Path, artifact_of: ArtifactOf) -> None:
    path = artifact_of(recipe.stem)
    verdicts = list(verify_artifact(path, target="host", options=VerifyOptions(max_elements=LIMIT)))
    assert verdicts
    assert [verdict for verdict in verdicts if not verdict.ok] == []


COMBINING = ("welford", "argmax", "logsumexp", "scans", "ordered", "built_in_lambdas", "lambdas_full", "lambdas_outer",
             "batches_cluster", "batches_inner", "batches_outer", "batches_split", "cluster_softmax", "moments",
             "moments_split")  # fmt: skip
"""Recipes that reduce and scan with lambdas, the author's and those of built-in ops, and that merge variances."""


@pytest.mark.parametrize("name", sampled(COMBINING, 5))
def test_lambdas_give_the_same_bits_on_every_run(name: str, artifact_of: ArtifactOf) -> None:
    path = artifact_of(name)
    plan, fusion = load(path, target="host"), read_recipe(path).fusion
    for case in fusion.cases:
        if largest_tensor(fusion, case) > LIMIT // 4:
            continue
        inputs = random_inputs(fusion, case, seed=3)
        for variant in (None, *set.intersection(*map(set, plan.variants_for(*inputs)))):
            first = plan(*inputs, variant=variant)
            again = plan(*(value.clone() if hasattr(value, "clone") else value for value in inputs), variant=variant)
            for one, other in zip(*(result if isinstance(result, tuple) else (result,) for result in (first, again)),
                                  strict=True):  # fmt: skip
                assert torch.equal(bits_of(one), bits_of(other))


def special_rows(columns: int) -> Any:
    """Rows of bfloat16 with ties, infinities and NaN in many places, and rows of nothing else."""
    x = torch.randn(12, columns, generator=torch.Generator().manual_seed(1)).bfloat16()
    inf, nan = float("inf"), float("nan")
    x[0], x[1], x[2], x[3] = inf, -inf, nan, 2.0
    for row, value in ((4, inf), (5, -inf), (6, nan), (7, 9.0)):
        x[row, columns // 3 :: max(1, columns // 5)] = value
    x[8, 0], x[8, -1] = nan, inf
    x[9, 0], x[9, -1] = -inf, nan
    x[10, ::2] = -inf
    return x


@pytest.mark.parametrize("columns", [1, 2, 40, 1003, 4096])
def test_built_in_lambdas_meet_infinities_and_nan_as_torch_does(columns: int, artifact_of: ArtifactOf) -> None:
    x = special_rows(columns)
    index = load(artifact_of("argmax"), target="host")(x)
    assert torch.equal(index, x.float().argmax(1))
    y = load(artifact_of("logsumexp"), target="host")(x)
    torch.testing.assert_close(y, torch.logsumexp(x.float(), 1), equal_nan=True)


@pytest.mark.parametrize("columns", [1, 2, 40, 1003, 4096])
@pytest.mark.parametrize("name", ["batches_inner", "batches_split"])
def test_batches_of_rows_meet_infinities_and_nan_as_torch_does(
    name: str, columns: int, artifact_of: ArtifactOf
) -> None:
    x = special_rows(columns)
    place = torch.arange(len(x)) * columns // len(x)
    place[0], place[3] = -1, columns  # neither is there
    plan = load(artifact_of(name), target="host")
    inputs = (x, place.int() if name == "batches_inner" else place)
    y = x.float() * 0.5 + 1 if name == "batches_inner" else x.float()
    one_hot = torch.arange(columns) == place[:, None]
    there = torch.where(one_hot, y, 0.0).sum(1)
    for variant in (None, *set.intersection(*map(set, plan.variants_for(*inputs)))):
        log_sum, largest, *found = plan(*inputs, variant=variant)
        torch.testing.assert_close(log_sum, torch.logsumexp(y, 1), equal_nan=True)
        assert torch.equal(largest, y.argmax(1))
        if name == "batches_inner":
            least, first, *found = found
            assert torch.equal(first, y.argmin(1))
            torch.testing.assert_close(least, y.amin(1), rtol=0.0, atol=0.0, equal_nan=True)
        torch.testing.assert_close(found[0], there, rtol=0.0, atol=0.0, equal_nan=True)


@pytest.mark.parametrize("rows", [1, 2, 40, 1003])
def test_batches_of_columns_meet_infinities_and_nan_as_torch_does(rows: int, artifact_of: ArtifactOf) -> None:
    x = special_rows(rows).T.contiguous()
    plan = load(artifact_of("batches_outer"), target="host")
    inputs = (x, x.double())
    for variant in (None, *set.intersection(*map(set, plan.variants_for(*inputs)))):
        top, total, log_sum, largest, smallest, _ = plan(*inputs, variant=variant)
        torch.testing.assert_close(top, x.float().amax(0), rtol=0.0, atol=0.0, equal_nan=True)
        shift = torch.where(top.isinf(), 0.0, top)
        torch.testing.assert_close(total, (x.float() - shift).exp().sum(0), equal_nan=True)
        torch.testing.assert_close(log_sum, torch.logsumexp(x.double(), 0), equal_nan=True)
        assert torch.equal(largest, x.float().argmax(0))
        assert torch.equal(smallest[0], x.float().argmin(0))


def hard_batch(rows: int, columns: int) -> Any:
    """Columns far from zero, with outliers first and last, of two clusters, and the same everywhere."""
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(2))
    x[:, 1] += 1e4
    x[0, 2], x[-1, 3] = 1e5, -1e5
    x[rows // 2 :, 4] += 3e4
    x[:, 5] = 0.1
    x[:, 6] *= 1e-6
    return x.bfloat16()


@pytest.mark.parametrize("rows", [2, 37, 1000, 20000])
@pytest.mark.parametrize("images", [False, True])
def test_batch_norm_is_that_of_torch_where_variances_are_hard(images: bool, rows: int, artifact_of: ArtifactOf) -> None:
    x = hard_batch(rows, 8)
    if images:
        x = x.view(rows // 2 if rows % 2 == 0 else 1, -1, 8).transpose(1, 2).contiguous()
    weight, bias = torch.linspace(0.5, 2, 8), torch.linspace(-1, 1, 8)
    running = [torch.linspace(-3, 3, 8), torch.linspace(1, 2, 8)]
    wanted_running = [value.double() for value in running]
    wanted = torch.nn.functional.batch_norm(
        x.double(), *wanted_running, weight.double(), bias.double(), training=True, momentum=0.1, eps=1e-5
    )
    name = "batchnorm_train_nchw" if images else "batchnorm_train"
    y, mean, rstd, *moved = load(artifact_of(name), target="host")(x, weight, bias, *running)
    others = (0, 2) if images else (0,)
    variance, wanted_mean = torch.var_mean(x.double(), others, correction=0)
    assert ((mean.double() - wanted_mean).abs() <= 1e-6 * (wanted_mean.abs() + variance.sqrt())).all()
    torch.testing.assert_close(rstd.double(), torch.rsqrt(variance + 1e-5), rtol=1e-5, atol=0.0)
    for got, own, want in zip(moved, running, wanted_running, strict=True):
        assert got.data_ptr() == own.data_ptr()
        torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(y.double(), wanted, rtol=2**-7, atol=2e-3)


@pytest.mark.parametrize("classes", [1, 1003, 4096])
def test_cross_entropy_is_that_of_torch_and_ignores_what_it_is_told_to(classes: int, artifact_of: ArtifactOf) -> None:
    generator = torch.Generator().manual_seed(4)
    logits = (10 * torch.randn(9, classes, generator=generator)).bfloat16()
    target = torch.randint(0, classes, (9,), generator=generator)
    target[2], target[3], target[5] = 0, classes - 1, -100
    wide = logits.double().requires_grad_()
    wanted = torch.nn.functional.cross_entropy(wide, target, reduction="none")
    (3.0 * wanted).sum().backward()
    loss, lse = load(artifact_of("cross_entropy"), target="host")(logits, target)
    torch.testing.assert_close(loss.double(), wanted.detach(), rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(lse, torch.logsumexp(logits.float(), 1))
    loss, grad = load(artifact_of("cross_entropy_grad"), target="host")(logits, target, torch.tensor([3.0]))
    torch.testing.assert_close(loss.double(), wanted.detach(), rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(grad.double(), wide.grad, rtol=2**-8, atol=1e-6)
    assert loss[5] == 0
    assert not grad[5].any()


@pytest.mark.parametrize("recipe", sampled(SANITIZED, 29), ids=lambda path: path.stem)
def test_no_sanitizer_finds_anything(recipe: Path, tmp_path: Path) -> None:
    require_toolchain("host-asan")
    compile_recipes([recipe], [TARGETS["host-asan"]], tmp_path)
    library = subprocess.run(
        ["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    done = subprocess.run(
        [sys.executable, "-m", "fusebuild.cli", "verify", str(tmp_path), "--target", "host-asan",
         "--max-elements", str(LIMIT), "--json"],
        env=os.environ | {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    rows = json.loads(done.stdout)
    assert {row["fusion"] for row in rows} == {recipe.stem}
    assert [row for row in rows if not row["ok"]] == []
