"""Plans by hand, loaded for the current GPU."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fusebuild.artifact.plan import Plan
from fusebuild.runtime.loader import LoadedPlan, load_artifact
from support import runtime_plans as plans
from support.gpu_plans import KERNELS, NAMES, current_target, nvcc


@pytest.fixture(scope="session")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("cubin")
    (folder / "k.cu").write_text(KERNELS)
    subprocess.run(
        [nvcc(), "-cubin", f"-arch={current_target()}", "-o", folder / "k.cubin", folder / "k.cu"], check=True
    )
    return (folder / "k.cubin").read_bytes()


@pytest.fixture(scope="session")
def open_plan(cubin: bytes) -> Any:
    """Loads a host plan as one for the current device."""

    def open_one(plan: Plan) -> LoadedPlan:
        (host,) = plan.targets
        gpu = msgspec.structs.replace(plan, targets=(msgspec.structs.replace(host, target=current_target()),))
        objects = dict.fromkeys(NAMES, cubin)
        return load_artifact(plans.HandMadeArtifact(path=Path("x.fuse"), plan=gpu, objects=objects))

    return open_one


@pytest.fixture(scope="session")
def scale_add(open_plan: Any) -> LoadedPlan:
    loaded: LoadedPlan = open_plan(plans.scale_add_plan())
    return loaded
