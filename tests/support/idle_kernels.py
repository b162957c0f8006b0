"""Artifacts whose kernels do nothing: a call of one is the host's work alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from fusebuild.artifact.file import Artifact
from fusebuild.artifact.plan import Arg, Plan, ScalarArg, TensorArg, WorkspaceArg
from fusebuild.ir.dtype import DType
from fusebuild.ir.fid import OriginalFid
from support.runtime_plans import ENTRY, HandMadeArtifact


def idle(artifact: Artifact, target: str, folder: Path) -> HandMadeArtifact:
    """``artifact`` with the plan for ``target`` as code for the CPU, which is compiled in ``folder`` and does nothing:
    variants, grids and arguments are those of ``target``."""
    chosen = artifact.plan.target(target)
    assert chosen is not None, f"{artifact.path} has no code for {target}"
    variants = [variant for segment in chosen.segments for variant in segment.variants]
    parameters = {
        launch.kernel: "".join(_type_of(arg, artifact.plan) for arg in launch.args)
        for variant in variants
        for launch in variant.launches
    }
    kernels = [f'KERNEL({name}, "{types}") {{ return 0; }}\n' for name, types in parameters.items()]
    source = folder / "idle.cc"
    source.write_text(ENTRY + "".join(kernels))
    subprocess.run(["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-o", f"{source}.so", source], check=True)
    library = Path(f"{source}.so").read_bytes()
    plan = msgspec.structs.replace(artifact.plan, targets=(msgspec.structs.replace(chosen, target="host"),))
    return HandMadeArtifact(path=artifact.path, plan=plan, objects=dict.fromkeys(parameters, library))


def _type_of(arg: Arg[OriginalFid], plan: Plan) -> str:
    """What a kernel's object says of the parameter that ``arg`` is given to."""
    if isinstance(arg, TensorArg | WorkspaceArg):
        return "p8"
    if not isinstance(arg, ScalarArg):
        return "i8"
    dtype = DType(plan.value(arg.fid).dtype)
    return f"{'f' if dtype.is_floating else 'i'}{dtype.bytes}"
