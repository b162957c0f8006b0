"""Cubins say what their kernels take, and a plan that gives them something else is refused when it is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fusebuild.artifact import elf, plan_check
from fusebuild.artifact.file import PLAN, Artifact, decode_artifact, open_artifact
from fusebuild.artifact.plan import Plan, ScalarArg, encode
from fusebuild.errors import ArtifactError
from fusebuild.pipeline import compile_recipes
from fusebuild.target.table import TARGETS
from support.axpy_artifact import members_of, resealed
from support.host_artifacts import require_toolchain
from support.many_tensors import decay_text
from support.small_recipes import NORM, NORM_INPUTS, PAIR, text_of

SCALED = """\
fusion: scaled
inputs:
  x: bfloat16[M, N]
scalars:
  alpha: {dtype: float}
body: |
  y = x * alpha
outputs:
  y: bfloat16
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_toolchain("sm_90")
    folder = tmp_path_factory.mktemp("parameters")
    texts = {
        "scaled": SCALED,
        "pair": PAIR,
        "norm": text_of(NORM_INPUTS, NORM, {"y": "bfloat16"}, name="norm"),
        "few": decay_text(["M", "N"], name="few"),
        "many": decay_text(["M", "N"] * 100, name="many"),  # whose tables take more than 4 KiB
    }
    paths = [folder / f"{name}.yaml" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    compile_recipes(paths, [TARGETS["sm_90"]], folder)
    return folder


def with_args(plan: Plan, change: Callable[[Any], Any]) -> Plan:
    """``plan`` with other arguments in every launch of its first segment."""
    (target,) = plan.targets
    first, *rest = target.segments
    variants = tuple(
        msgspec.structs.replace(
            variant,
            launches=tuple(msgspec.structs.replace(each, args=change(each.args)) for each in variant.launches),
        )
        for variant in first.variants
    )
    segments = (msgspec.structs.replace(first, variants=variants), *rest)
    return msgspec.structs.replace(plan, targets=(msgspec.structs.replace(target, segments=segments),))


@pytest.mark.parametrize("name", ["scaled", "pair", "norm", "few", "many"])
def test_what_cubins_take_is_what_their_plan_gives(folder: Path, name: str) -> None:
    (path,) = folder.glob(f"{name}*.fuse")
    artifact: Artifact = open_artifact(path)
    (target,) = artifact.plan.targets
    given = plan_check.argument_sizes(artifact.plan, target)
    assert given
    for kernel, lists in given.items():
        assert lists == (elf.parameter_sizes(artifact.object_bytes("sm_90", kernel), kernel),)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "one fewer": lambda args: args[:-1],
    "one more": lambda args: (*args, args[0]),
    "a scalar for a pointer": lambda args: (ScalarArg(1), *args[1:]),
    "a pointer for a scalar": lambda args: tuple(args[0] if isinstance(arg, ScalarArg) else arg for arg in args),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_arguments_that_a_cubin_does_not_take(folder: Path, change: Callable[[Any], Any]) -> None:
    path = folder / "scaled.fuse"
    plan = open_artifact(path).plan
    assert any(isinstance(arg, ScalarArg) for arg in plan.targets[0].segments[0].variants[0].launches[0].args)
    data = resealed(members_of(path) | {PLAN: encode(with_args(plan, change))})
    with pytest.raises(ArtifactError, match=r"it takes parameters of \[.*\] bytes, and the plan gives it \[") as caught:
        decode_artifact(data, path)
    assert caught.value.member is not None
    assert caught.value.member.startswith("sm_90/")
