"""Kernels that spill registers are planned again, and what nobody knows of them is said."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from fusebuild.artifact.file import Artifact, open_artifact, write_artifact
from fusebuild.artifact.kernel_resources import KernelResources, resources_of
from fusebuild.build.build_dir import BuildDir
from fusebuild.build.job import KernelSource
from fusebuild.build.object_store import ObjectStore
from fusebuild.build.objects import BuildResult, build, object_name
from fusebuild.build.toolchain import Toolchain, find_toolchain
from fusebuild.cli.main import cli
from fusebuild.errors import KnobError, SpillError
from fusebuild.freshness.check import check_recipes
from fusebuild.kernels.families import FAMILIES
from fusebuild.passes import run_passes
from fusebuild.pipeline import compile_recipes, plan_recipe
from fusebuild.planning.eased import eased_in
from fusebuild.planning.planned import PlannedRecipe
from fusebuild.planning.spills import require_known_spills, without_spills
from fusebuild.recipe.recipe import load_recipe
from fusebuild.report.html import render_page
from fusebuild.report.inspection import Inspection
from fusebuild.segmentation import segment
from fusebuild.target.table import TARGETS
from support.places import ROOT
from support.sampled import sampled
from support.small_recipes import PAIR, recipe_of

SM_80, SM_90, HOST = TARGETS["sm_80"], TARGETS["sm_90"], TARGETS["host"]

LEAN = KernelResources(registers=40, shared=0, stack=0, spill_stores=0, spill_loads=0)
SPILLED = KernelResources(registers=32, shared=0, stack=8, spill_stores=8, spill_loads=4)

TURNED = """\
fusion: turned
inputs:
  x: half[N, C, H, W]
  scale: float[C]
  bias: float[C]
body: |
  scaled = x * broadcast(scale, [True, False, True, True]) + broadcast(bias, [True, False, True, True])
  y = permute(scaled, [0, 2, 3, 1]) * 0.5
outputs:
  y: half
cases:
  - {N: 2, C: 64, H: 8, W: 8}
"""
"""NCHW to NHWC with a scale and a bias: as many blocks as are wanted leave too few registers for a tile (nvcc 13.0,
sm_90)."""

DIVERGENCE = """\
fusion: divergence
inputs:
  student: bfloat16[M, N]
  teacher: bfloat16[M, N]
scalars:
  temperature: {dtype: double}
body: |
  s = cast(student, float) / temperature
  t = cast(teacher, float) / temperature
  sm = max(s, dims=[1], keepdim=True)
  tm = max(t, dims=[1], keepdim=True)
  ssum = sum(exp(s - sm), dims=[1], keepdim=True)
  tsum = sum(exp(t - tm), dims=[1], keepdim=True)
  logp = t - tm - log(tsum)
  kl = sum(exp(logp) * (logp - (s - sm - log(ssum))), dims=[1])
outputs:
  kl: float
cases:
  - {M: 4, N: 24000}
"""
"""Two rows at once, computed with in double: 1024 threads that keep them have too few registers (nvcc 13.0, sm_90)."""


def resources(planned: Sequence[PlannedRecipe], spills: Callable[[str], bool]) -> BuildResult:
    """What a compiler would say of ``planned`` of whose kernels' texts some ``spills``."""
    found = {
        (target, name): SPILLED if spills(kernel.text) else LEAN
        for each in planned
        for target, by_name in each.kernels.items()
        for name, kernel in by_name.items()
    }
    return BuildResult(objects={}, resources=found, compiled=len(found), total=len(found), seconds=0.0)


def eased(planned: PlannedRecipe, toolchain: Toolchain, spills: Callable[[str], bool]) -> PlannedRecipe:
    """``planned`` without what ``spills``."""
    compile_all = partial(resources, spills=spills)
    objects = compile_all([planned])
    (found,), _ = without_spills([planned], objects, toolchain, compile_all)
    return found


@pytest.fixture(scope="module")
def toolchain(compilers: None) -> Toolchain:
    return find_toolchain([SM_90])


class TestChoosing:
    def test_what_does_not_spill_stays(self, toolchain: Toolchain) -> None:
        planned = plan_recipe(recipe_of(PAIR), [SM_90])
        assert eased(planned, toolchain, lambda text: False) is planned

    def test_the_first_choice_that_does_not_spill_is_taken(self, toolchain: Toolchain) -> None:
        planned = plan_recipe(recipe_of(TURNED), [SM_90])
        found = eased(planned, toolchain, lambda text: "vec8_int32" in text and "FUSEBUILD_KERNEL(kThreads, 6)" in text)
        (choice,) = eased_in(found.plan)["sm_90"]
        assert (choice.way, choice.knobs["min_blocks"], choice.spilled) == ("vec8_int32", 3, 12)
        before, after = (each.plan.targets[0].segments[0].variants for each in (planned, found))
        assert [each.name for each in before] == [each.name for each in after]
        (index,) = (
            at for at, pair in enumerate(zip(before, after, strict=True)) if pair[0].launches != pair[1].launches
        )
        assert after[index].name == "vec8_int32"
        assert "vec8_int32, eased" in found.kernels["sm_90"][after[index].launches[0].kernel].text

    def test_inspect_shows_what_was_taken_as_text_and_as_a_page(self, toolchain: Toolchain) -> None:
        found = eased(plan_recipe(recipe_of(TURNED), [SM_90]), toolchain, lambda text: "vec8_int32" in text)
        inspection = Inspection(plan=found.plan, target="sm_90", sizes=None)
        shown = "vec8_int32 spilled 12 bytes of registers: left out"
        assert f"  eased   {shown}\n" in inspection.as_text()
        assert f"<li>{shown}</li>" in render_page(inspection, found.recipe.fusion)

    def test_a_way_that_always_spills_is_left_out(self, toolchain: Toolchain) -> None:
        planned = plan_recipe(recipe_of(TURNED), [SM_90])
        found = eased(planned, toolchain, lambda text: "vec8_int32" in text)
        left = [each.name for each in found.plan.targets[0].segments[0].variants]
        assert left == ["few_lanes_int32", "scalar_int32", "lanes_int32", "scalar_int64"]
        assert [(each.way, each.knobs) for each in eased_in(found.plan)["sm_90"]] == [
            ("shifted_vec8_int32", {}), ("vec8_int32", {}),
        ]  # fmt: skip

    def test_one_that_nothing_stands_in_for_stays(self, toolchain: Toolchain) -> None:
        planned = plan_recipe(recipe_of(TURNED), [SM_90])
        found = eased(planned, toolchain, lambda text: True)
        (variant,) = found.plan.targets[0].segments[0].variants
        assert variant.guard == ()
        assert [each.knobs for each in eased_in(found.plan)["sm_90"]] == [{}, {}, {}, {}]

    def test_a_recipe_may_keep_the_first_choice(self, toolchain: Toolchain) -> None:
        planned = plan_recipe(recipe_of(TURNED + "allow_spills: true\n"), [SM_90])
        assert eased(planned, toolchain, lambda text: True) is planned

    @pytest.mark.parametrize(
        "name", sampled(["layernorm_backward", "softmax", "layernorm", "rope", "rmsnorm_backward"], 3)
    )
    def test_every_choice_is_one_or_is_refused(self, name: str) -> None:
        """What :meth:`Choice.eased` steps to ends in a kernel or in a :class:`KnobError`, whatever the family."""
        fusion = run_passes(load_recipe(ROOT / "recipes" / f"{name}.yaml").fusion)
        segmented, made = segment(fusion, SM_90), 0
        for each in segmented.segments:
            scheduler = next(one for one in FAMILIES if one.name == each.scheduler)
            schedule = partial(scheduler.schedule, each.fusion.whole(), SM_90, fusion.cases[0])
            for variant in schedule():
                if variant.decision is None:
                    continue
                choices = list(variant.decision.choice.eased())
                assert variant.decision.choice not in choices
                for choice in choices:
                    try:
                        made += bool(schedule({variant.decision.way: choice.knobs}))
                    except KnobError:
                        continue
        assert made


@pytest.fixture(scope="module")
def work(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with recipes some of whose kernels would spill, and ``build/``."""
    folder = tmp_path_factory.mktemp("spilling")
    (folder / "turned.yaml").write_text(TURNED)
    (folder / "divergence.yaml").write_text(DIVERGENCE)
    compile_recipes([folder], [SM_90], folder / "build", jobs=2)
    return folder


class TestCompiling:
    @pytest.fixture
    def turned(self, work: Path) -> Artifact:
        return open_artifact(work / "build" / "turned.fuse")

    @pytest.mark.parametrize("name", ["turned", "divergence"])
    def test_nothing_spills_and_it_is_no_error(self, work: Path, name: str) -> None:
        artifact = open_artifact(work / "build" / f"{name}.fuse")
        (target,) = artifact.plan.targets
        kernels = [own.kernel for each in target.segments for one in each.variants for own in one.launches]
        used = [artifact.resources("sm_90", kernel) for kernel in kernels]
        assert used
        assert all(each is not None and each.spills == 0 for each in used)
        assert eased_in(artifact.plan)

    def test_it_is_said_in_a_line(self, work: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING):
            compile_recipes([work / "turned.yaml"], [SM_90], tmp_path)
        (line,) = [record.getMessage() for record in caplog.records if "spilled" in record.getMessage()]
        assert line.startswith(f"{work / 'turned.yaml'}: segment 0 for sm_90: vec8_int32 spilled ")
        assert line.endswith("bytes of registers: it is planned with threads=256 tile=64 min_blocks=3")

    def test_another_folder_gets_the_same_bytes(self, work: Path, tmp_path: Path) -> None:
        (done,) = compile_recipes([work / "turned.yaml"], [SM_90], tmp_path).artifacts
        assert done.path.read_bytes() == (work / "build" / "turned.fuse").read_bytes()

    def test_check_knows_what_was_taken(self, work: Path) -> None:
        (work / "build" / ".fusebuild" / "record.json").unlink()
        verdicts = check_recipes([work], work / "build")
        assert [each.why for each in verdicts] == [(), ()]
        done = compile_recipes([work], [SM_90], work / "build")
        assert [each.written for each in done.artifacts] == [False, False]
        assert done.build.compiled == 0

    def test_a_choice_that_is_none_any_more_is_stale(self, work: Path, turned: Artifact, tmp_path: Path) -> None:
        (target,) = turned.plan.targets
        (choice,) = eased_in(turned.plan)["sm_90"]
        other = msgspec.structs.replace(choice, knobs={**choice.knobs, "tile": 48})
        plan = msgspec.structs.replace(turned.plan, targets=(msgspec.structs.replace(target, eased=(other,)),))
        kernels = [own.kernel for one in target.segments[0].variants for own in one.launches]
        write_artifact(
            tmp_path / "turned.fuse",
            plan=plan,
            recipe=turned.member("recipe.yaml"),
            kernels={kernel: turned.kernel_text(kernel) for kernel in kernels},
            objects={("sm_90", kernel): turned.object_bytes("sm_90", kernel) for kernel in kernels},
            toolchain=turned.toolchain,
            sources=turned.manifest.sources,
        )
        (verdict,) = check_recipes([work / "turned.yaml"], tmp_path)
        (difference,) = verdict.why
        assert difference.startswith("a choice that was made when registers ran out is none now: knob tile: ")

    def test_inspect_shows_them(self, work: Path) -> None:
        result = CliRunner().invoke(cli, ["inspect", str(work / "build" / "turned.fuse")])
        (line,) = [line for line in result.output.splitlines() if line.startswith("  eased ")]
        assert line.startswith("  eased   vec8_int32 spilled ")
        assert line.endswith(" bytes of registers: threads=256 tile=64 min_blocks=3")

    def test_a_dump_is_of_what_was_taken(self, work: Path, tmp_path: Path) -> None:
        compile_recipes([work / "turned.yaml"], [SM_90], tmp_path / "build", dump=tmp_path / "dump")
        built = open_artifact(tmp_path / "build" / "turned.fuse").member("plan.json")
        assert (tmp_path / "dump" / "turned" / "plan.json").read_bytes() == built


MANY = """\
extern "C" __global__ void __launch_bounds__(1024, 2) k(float* p) {
  float held[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) held[i] = p[i * 1024 + threadIdx.x];
#pragma unroll
  for (int i = 0; i < 64; ++i)
#pragma unroll
    for (int j = 0; j < 64; ++j) held[i] += held[j] * (i + j);
#pragma unroll
  for (int i = 0; i < 64; ++i) p[i * 1024 + threadIdx.x] = held[i];
}
"""
"""64 values in 32 registers."""

SILENT = "sys.exit(done.returncode)"
FOREIGN = """\
words = {"Used": "Benutzt:", "registers": "Register", "spill stores": "ausgelagert", "spill loads": "zurückgeholt"}
for word, other in words.items():
    said = said.replace(word, other)
print(said, end="")
sys.exit(done.returncode)"""


def wrapped(nvcc: Path, folder: Path, what: str) -> Path:
    """An nvcc at whose words ``what`` is done before anybody hears them."""
    script = folder / "nvcc"
    lines = [f"#!{sys.executable}", "import subprocess, sys", f"command = [{str(nvcc)!r}, *sys.argv[1:]]"]
    if what:
        lines += [
            'if "-cubin" not in sys.argv or "--dryrun" in sys.argv:',
            "    sys.exit(subprocess.run(command).returncode)",
            "done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)",
            "said = done.stdout",
            what,
        ]
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    script.chmod(0o755)
    return script


class TestNotKnown:
    @pytest.fixture(params=[SILENT, FOREIGN], ids=["silent", "foreign"])
    def nvcc(self, toolchain: Toolchain, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
        assert toolchain.nvcc is not None
        return wrapped(toolchain.nvcc, tmp_path, request.param)

    @pytest.mark.parametrize("target", [SM_80, SM_90], ids=lambda target: target.name)
    def test_a_cubin_tells_what_ptxas_does_not(self, nvcc: Path, target, tmp_path: Path) -> None:
        recipe = tmp_path / "pair.yaml"
        recipe.write_text(PAIR)
        said = compile_recipes([recipe], [target], tmp_path / "said").build.resources
        unsaid = compile_recipes([recipe], [target], tmp_path / "unsaid", nvcc=str(nvcc)).build
        assert unsaid.resources == said
        again = compile_recipes([recipe], [target], tmp_path / "unsaid", nvcc=str(nvcc)).build
        assert again.compiled == 0

    def test_local_memory_of_which_nobody_says_what_it_is_for(self, nvcc: Path, tmp_path: Path) -> None:
        wrapper = find_toolchain([SM_90], nvcc=str(nvcc))
        kernel = KernelSource(name="k", text=MANY)
        built = build([(SM_90, kernel)], BuildDir(root=tmp_path), wrapper)
        assert built.resources == {}
        assert build([(SM_90, kernel)], BuildDir(root=tmp_path), wrapper).compiled == 0

    def test_words_that_the_object_contradicts_are_not_believed(self, toolchain: Toolchain, tmp_path: Path) -> None:
        kernel, store = KernelSource(name="k", text=MANY), ObjectStore(root=tmp_path / "store")
        built = build([(SM_90, kernel)], BuildDir(root=tmp_path), toolchain, store=store)
        compiled = store.get(f"sm_90/{object_name(kernel, SM_90, toolchain)}")
        assert compiled is not None
        found = resources_of(compiled.log, compiled.data)
        assert found == built.resources["sm_90", "k"]
        assert found.spills > 0
        number = f"{found.stack} bytes stack frame, {found.spill_stores} bytes spill stores, {found.spill_loads}"
        assert number in compiled.log
        doubtful = compiled.log.replace(number, "0 bytes stack frame, 0 bytes spill stores, 0")
        assert resources_of(doubtful, compiled.data) is None

    def test_is_an_error_where_it_has_to_be_known(
        self, compilers: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        recipe, out = tmp_path / "pair.yaml", tmp_path / "build"
        recipe.write_text(PAIR)
        require_known_spills([compile_recipes([recipe], [SM_90], out).artifacts[0].path])
        monkeypatch.setattr("fusebuild.build.job.resources_of", lambda log, cubin: None)
        built = compile_recipes([recipe], [SM_90], out).artifacts[0]
        with pytest.raises(SpillError) as caught:
            require_known_spills([built.path])
        first = f"pair: kernel {min(built.planned.kernels['sm_90'])} for sm_90"
        assert str(caught.value).splitlines()[0] == (
            f"{first}: whether it spills registers is not known: ptxas did not say so"
        )
        result = CliRunner().invoke(cli, ["compile", "--frozen", str(recipe), "-o", str(out)])
        assert caught.value.exit_code == 1
        assert isinstance(result.exception, SpillError)
        assert first in str(result.exception)


def test_one_that_spills_does_not_stop_the_others(compilers: None, tmp_path: Path) -> None:
    (tmp_path / "divergence.yaml").write_text(DIVERGENCE)
    (tmp_path / "pair.yaml").write_text(PAIR)
    result = CliRunner().invoke(cli, ["compile", str(tmp_path), "-o", str(tmp_path / "build")])
    assert result.exit_code == 0
    assert {path.name for path in (tmp_path / "build").glob("*.fuse")} == {"divergence.fuse", "pair.fuse"}
