"""An artifact by hand: a plan of two segments, and its members, whole and damaged."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from fusebuild.artifact import stored_zip
from fusebuild.artifact.file import Manifest, MemberRecord, open_artifact, write_artifact
from fusebuild.artifact.plan import (
    ExtentArg,
    FormulaArg,
    Launch,
    Plan,
    PlanExtent,
    PlanFact,
    PlanOutput,
    PlanSegment,
    PlanValue,
    ScalarArg,
    Slot,
    StrideArg,
    TargetPlan,
    TensorArg,
    Variant,
    WorkspaceArg,
)
from fusebuild.errors import ArtifactError
from support.tiny_elf import CUDA, X86_64, tiny_elf

KERNEL = "axpy_3f2a"


def a_segment(**changes: object) -> PlanSegment:
    launch = Launch(
        kernel=KERNEL,
        grid=(("ceil_div", ("mul", "M", "N"), 256), 1, 1),
        block=(256, 1, 1),
        args=(TensorArg(0), TensorArg(3), ScalarArg(1), ExtentArg(-1), FormulaArg(("mul", "M", "N")), WorkspaceArg(0)),
    )
    fields: dict[str, object] = {
        "id": 0,
        "scheduler": "pointwise",
        "fid_map": {0: 0, 1: 1, 2: 3},
        "inputs": (0, 1),
        "outputs": (3,),
        "hbm_bytes": ("mul", 8, "M", "N"),
        "variants": (
            Variant(name="vec4", guard=(("aligned", 0, 16), ("eq", ("mod", "N", 4), 0)), launches=(launch,)),
            Variant(name="any", guard=(), launches=(launch,)),
        ),
    }
    return PlanSegment(**(fields | changes))  # type: ignore[arg-type]


def a_second_segment(**changes: object) -> PlanSegment:
    launch = Launch(kernel=KERNEL, grid=(1, 1, 1), block=(32, 1, 1), args=(TensorArg(3), TensorArg(4), StrideArg(0, 1)))
    fields: dict[str, object] = {
        "id": 1,
        "scheduler": "pointwise",
        "fid_map": {0: 0, 1: 3, 2: 4},
        "inputs": (0, 3),
        "outputs": (4,),
        "frees": (3,),
        "variants": (Variant(name="any", guard=(), launches=(launch,)),),
    }
    return PlanSegment(**(fields | changes))  # type: ignore[arg-type]


def a_target(name: str = "sm_90", **changes: object) -> TargetPlan:
    fields: dict[str, object] = {
        "target": name,
        "segments": (a_segment(), a_second_segment()),
        "workspace": (
            Slot(id=0, fid=None, bytes=1024, first=0, last=0),
            Slot(id=1, fid=3, bytes=("mul", 4, "M", "N"), first=0, last=1),
        ),
    }
    return TargetPlan(**(fields | changes))  # type: ignore[arg-type]


def a_plan(**changes: object) -> Plan:
    """x: float[M, N] and a scalar to t3 (in the workspace), then to the output t4."""
    fields: dict[str, object] = {
        "format": 1,
        "fusion": "axpy",
        "digest": "d1",
        "values": (
            PlanValue(fid=0, name="x", kind="tensor", dtype="float", shape=("M", "N"), strides=("N", 1)),
            PlanValue(fid=1, name="a", kind="scalar", dtype="double"),
            PlanValue(fid=3, name="t3", kind="tensor", dtype="float", shape=("M", "N"), strides=("N", 1)),
            PlanValue(fid=4, name="y", kind="tensor", dtype="float", shape=("M", "N"), strides=("N", 1)),
        ),
        "extents": (
            PlanExtent(fid=-1, input=0, dim=0, extent="M"),
            PlanExtent(fid=-2, input=0, dim=1, extent="N"),
        ),
        "facts": (PlanFact(symbol="N", multiple_of=8),),
        "inputs": (0, 1),
        "outputs": (PlanOutput(fid=4, name="y"),),
        "targets": (a_target("sm_90"), a_target("host")),
    }
    return Plan(**(fields | changes))  # type: ignore[arg-type]


def contents() -> dict[str, object]:
    return {
        "plan": a_plan(),
        "recipe": b"fusion: axpy\n",
        "kernels": {KERNEL: f'extern "C" __global__ void {KERNEL}() {{}}\n'},
        "objects": {
            ("sm_90", KERNEL): tiny_elf(CUDA, KERNEL),
            ("host", KERNEL): tiny_elf(X86_64, KERNEL),
        },
        "toolchain": {"nvcc": "13.0.88"},
        "sources": {"axpy.yaml": "0f0f"},
    }


def write(path: Path, **changes: object) -> bool:
    return write_artifact(path, **(contents() | changes))  # type: ignore[arg-type]


def members_of(path: Path) -> dict[str, bytes]:
    return dict(open_artifact(path).members)


def refused(path: Path, data: bytes) -> ArtifactError:
    path.write_bytes(data)
    with pytest.raises(ArtifactError) as caught:
        open_artifact(path)
    assert caught.value.path == str(path)
    return caught.value


def resealed(members: dict[str, bytes], **manifest_changes: object) -> bytes:
    """``members`` with a manifest that fits them: what a tool could write that knows the format but not the rules."""
    manifest = msgspec.json.decode(members["manifest.json"], type=Manifest)
    records = {
        name: MemberRecord(sha256=hashlib.sha256(data).hexdigest(), size=len(data))
        for name, data in members.items()
        if name != "manifest.json"
    }
    manifest = msgspec.structs.replace(manifest, **({"members": records} | manifest_changes))
    text = msgspec.json.format(msgspec.json.encode(manifest, order="deterministic"), indent=2) + b"\n"
    return stored_zip.encode(members | {"manifest.json": text})
