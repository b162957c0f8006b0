"""What ptxas says of kernels: read, kept in artifacts, shown."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from fusebuild.artifact.file import open_artifact
from fusebuild.artifact.kernel_resources import KernelResources, parse_resources, resources_text
from fusebuild.cli.main import cli
from fusebuild.errors import ArtifactError, RecipeError
from fusebuild.pipeline import compile_recipes
from fusebuild.report.html import render_page
from fusebuild.report.inspection import Inspection, resources_in
from fusebuild.target.table import TARGETS
from support.axpy_artifact import KERNEL, write
from support.small_recipes import PAIR, recipe_of, text_of

SM_80, SM_90, HOST = TARGETS["sm_80"], TARGETS["sm_90"], TARGETS["host"]

SPILLED = KernelResources(registers=32, shared=4224, stack=1288, spill_stores=2420, spill_loads=2528)
LEAN = KernelResources(registers=40, shared=0, stack=0, spill_stores=0, spill_loads=0)
WITH_ARRAY = KernelResources(registers=40, shared=0, stack=64, spill_stores=0, spill_loads=0)

LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for k
    1288 bytes stack frame, 2420 bytes spill stores, 2528 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 1288 bytes cumulative stack size, 4224 bytes smem, 8 bytes cmem[2]
"""


class TestReading:
    def test_what_ptxas_says(self) -> None:
        assert parse_resources(LOG) == SPILLED
        assert parse_resources("ptxas info    : 0 bytes gmem\n") is None
        assert parse_resources(LOG.replace("spill", "overflow")) is None

    def test_functions_that_are_called_count_too(self) -> None:
        found = parse_resources(LOG + LOG.replace("Used 32", "Used 48"))
        assert found == KernelResources(registers=48, shared=8448, stack=2576, spill_stores=4840, spill_loads=5056)

    def test_in_words(self) -> None:
        assert resources_text(LEAN) == "40 registers"
        assert resources_text(WITH_ARRAY) == "40 registers, 64 bytes of local memory"
        assert resources_text(SPILLED) == (
            "32 registers, 4,224 bytes shared, 1,288 bytes of local memory, spills 2,420 bytes out and 2,528 in"
        )

    def test_no_count_is_negative(self) -> None:
        with pytest.raises(msgspec.ValidationError, match="`int` >= 0"):
            msgspec.json.decode(msgspec.json.encode(msgspec.structs.replace(LEAN, stack=-1)), type=KernelResources)


class TestAllowing:
    def test_allowing_them_changes_no_plan(self) -> None:
        allowing = recipe_of(PAIR + "allow_spills: true\n")
        assert allowing.allow_spills
        assert allowing.fusion == recipe_of(PAIR).fusion
        assert not recipe_of(PAIR + "allow_spills: false\n").allow_spills

    def test_allowing_is_yes_or_no(self) -> None:
        with pytest.raises(RecipeError) as caught:
            recipe_of(PAIR + "allow_spills: yes\n")
        assert str(caught.value).splitlines()[0] == "test.yaml:9:15: error: allow_spills is 'yes'"
        with pytest.raises(RecipeError) as caught:
            recipe_of(PAIR + "allow_spills: 48\n")
        assert "expected true or false for allow_spills" in str(caught.value)


class TestArtifacts:
    def test_keep_what_cubins_take(self, tmp_path: Path) -> None:
        path, sm_90, host = tmp_path / "axpy.fuse", ("sm_90", KERNEL), ("host", KERNEL)
        write(path)
        assert open_artifact(path).resources(*sm_90) is None
        assert write(path, resources={sm_90: LEAN})
        opened = open_artifact(path)
        assert (opened.resources(*sm_90), opened.resources(*host)) == (LEAN, None)
        with pytest.raises(ArtifactError, match=r"sm_80/.*: it is missing"):
            opened.resources("sm_80", KERNEL)

    def test_only_cubins_take_any(self, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError) as caught:
            write(tmp_path / "axpy.fuse", resources={("host", KERNEL): LEAN})
        assert caught.value.reason == "it is no cubin, and has resources of one"
        assert caught.value.member == f"host/{KERNEL}.so"


@pytest.fixture(scope="module")
def spilling(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe whose kernels cannot but spill, and ``build/``, made where that is allowed."""
    folder = tmp_path_factory.mktemp("spilling")
    (folder / "wide.yaml").write_text(WIDE + "allow_spills: true\n")
    compile_recipes([folder / "wide.yaml"], [SM_90, HOST], folder / "build", jobs=2)
    return folder


PARTS = 6
WIDE = text_of(
    {f"x{each}": "bfloat16[M, N]" for each in range(PARTS)} | {f"y{each}": "float[M, N]" for each in range(PARTS)},
    "\n".join(
        [f"m{each} = max(x{each} * y{each}, dims=[1], keepdim=True)" for each in range(PARTS)]
        + [f"z{each} = exp(x{each} * y{each} - m{each}) * y{(each + 1) % PARTS}" for each in range(PARTS)]
    ),
    {f"z{each}": "float" for each in range(PARTS)},
    name="wide",
    extents="N: {multiple_of: 8}",
    cases="M: 64, N: 8192",
)
"""Rows of twelve tensors at once, each read again after the first sweep: more than a thread of many can hold."""


class TestBuilding:
    def test_an_artifact_tells_what_its_kernels_take(self, spilling: Path) -> None:
        artifact = open_artifact(spilling / "build" / "wide.fuse")
        found = resources_in(artifact, "sm_90")
        kernels = {launch.kernel for each in artifact.require_target("sm_90").segments
                   for variant in each.variants for launch in variant.launches}  # fmt: skip
        assert {*found} == kernels
        assert all(each.registers > 0 for each in found.values())
        assert any(each.spills for each in found.values())
        assert resources_in(artifact, "host") == {}

    def test_inspect_shows_them(self, spilling: Path) -> None:
        path = str(spilling / "build" / "wide.fuse")
        artifact = open_artifact(path)
        found = resources_in(artifact, "sm_90")
        shown = CliRunner().invoke(cli, ["inspect", path, "--arch", "sm_90"], catch_exceptions=False).output
        for kernel, resources in found.items():
            assert f"    {kernel}: {resources_text(resources)}\n" in shown
        report = json.loads(CliRunner().invoke(cli, ["inspect", path, "--arch", "sm_90", "--json"]).output)
        (segment,) = report["segments"]
        assert segment["resources"] == {kernel: msgspec.to_builtins(found[kernel]) for kernel in segment["kernels"]}
        fusion = recipe_of(WIDE).fusion
        page = render_page(Inspection(plan=artifact.plan, target="sm_90", sizes=None, resources=found), fusion)
        for kernel, resources in found.items():
            assert f'<div class="kernel">{kernel}: {resources_text(resources)}</div>' in page
