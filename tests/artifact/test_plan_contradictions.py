"""Plans that contradict themselves are refused, when an artifact is opened or when the sizes of a call are known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fusebuild.artifact import kernel_text
from fusebuild.artifact.file import PLAN, Artifact, decode_artifact
from fusebuild.artifact.plan import ExtentArg, FormulaArg, Plan, PlanOutput, Slot, TensorArg, WorkspaceArg, encode
from fusebuild.artifact.plan_check import kernels_of, validate_plan
from fusebuild.errors import ArtifactError
from fusebuild.ir.formula import INT64_MAX
from fusebuild.pipeline import plan_recipe, read_recipes
from fusebuild.runtime.loader import LoadedPlan, load_artifact
from fusebuild.target.table import find_target
from fuzzing import plans
from support.axpy_artifact import members_of, resealed
from support.changed_plans import with_slot, with_target
from support.host_artifacts import compile_for_host
from support.places import TESTS
from support.runtime_plans import HandMadeArtifact, broadcast_plan, scale_add_plan, segment, tensor
from support.runtime_plans import plan as make_plan
from support.small_recipes import PAIR, TINY, text_of

torch = pytest.importorskip("torch")

VECTORS = text_of({"x": "float[M, N]"}, "y = sum(x, dims=[1])", {"y": "float"}, name="vectors")


def with_launch(plan: Plan, **changes: Any) -> Plan:
    """``plan`` whose first launch is another."""
    first, *rest = plan.targets[0].segments
    variant = first.variants[0]
    launch = msgspec.structs.replace(variant.launches[0], **changes)
    variants = tuple(msgspec.structs.replace(each, launches=(launch, *each.launches[1:])) for each in first.variants)
    return with_target(plan, segments=(msgspec.structs.replace(first, variants=variants), *rest))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (with_launch(scale_add_plan(), grid=(0, 1, 1)), "a grid of 0 blocks"),
        (with_launch(scale_add_plan(), grid=(1, -1, 1)), "a grid of -1 blocks"),
        (with_launch(scale_add_plan(), grid=(1, 1, 65536)), "a grid of 65536 blocks"),
        (with_launch(scale_add_plan(), cluster=0), "clusters of 0 blocks, expected 1 to 8"),
        (with_launch(scale_add_plan(), cluster=9), "clusters of 9 blocks, expected 1 to 8"),
        (with_launch(scale_add_plan(), args=()), "it has no arguments"),
        (with_launch(scale_add_plan(), shared_bytes=-1), "-1 bytes of shared memory"),
        (with_launch(scale_add_plan(), shared_bytes=2**31), f"{2**31} bytes of shared memory"),
        (with_slot(scale_add_plan(), -1), "slot 0 has -1 bytes"),
        (with_slot(scale_add_plan(), INT64_MAX), f"slot 0 has {INT64_MAX} bytes"),
    ],
)
def test_what_is_known_when_an_artifact_is_opened(wrong: Plan, words: str) -> None:
    problem = validate_plan(wrong)
    assert problem is not None
    assert words in problem


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(tmp_path_factory.mktemp("contradictions"), {"pair": PAIR, "tiny": TINY, "vectors": VECTORS})


def opened(path: Path) -> Artifact:
    return decode_artifact(path.read_bytes(), path)


class Changed:
    """An artifact with another plan, as the loader sees it."""

    def __init__(self, artifact: Artifact, plan: Plan) -> None:
        self.path, self.toolchain, self.plan, self.object_bytes = (
            artifact.path, artifact.toolchain, plan, artifact.object_bytes
        )  # fmt: skip


@pytest.mark.parametrize("size", [0, 1, ["sub", 0, 1], ["mul", 2**40, 2**40]])
def test_a_slot_smaller_than_its_tensor(folder: Path, size: Any) -> None:
    artifact = opened(folder / "pair.fuse")
    plan = load_artifact(Changed(artifact, with_slot(artifact.plan, size)), target="host")
    with pytest.raises(ValueError, match=r"workspace slot 0 has|exceeds 64 bits"):
        plan(torch.ones(3, 5))


@pytest.mark.parametrize(
    "change",
    [lambda args: args[1:], lambda args: (*args, args[0]), lambda args: (FormulaArg(1), *args[1:])],
)
def test_arguments_that_the_kernel_does_not_take(folder: Path, change: Any) -> None:
    artifact = opened(folder / "tiny.fuse")
    args = artifact.plan.targets[0].segments[0].variants[-1].launches[0].args
    assert any(isinstance(arg, TensorArg) for arg in args)
    last = artifact.plan.targets[0].segments[0].variants[-1]
    launch = msgspec.structs.replace(last.launches[0], args=change(args))
    segment = msgspec.structs.replace(
        artifact.plan.targets[0].segments[0],
        variants=(
            *artifact.plan.targets[0].segments[0].variants[:-1],
            msgspec.structs.replace(last, launches=(launch,)),
        ),
    )
    changed = with_target(artifact.plan, segments=(segment,))
    with pytest.raises(ArtifactError, match=r"and the plan gives it|is launched with"):
        load_artifact(Changed(artifact, changed), target="host")


def with_variant(plan: Plan, **changes: Any) -> Plan:
    """``plan`` whose first segment's last variant is another."""
    first, *rest = plan.targets[0].segments
    *others, last = first.variants
    variants = (*others, msgspec.structs.replace(last, **changes))
    return with_target(plan, segments=(msgspec.structs.replace(first, variants=variants), *rest))


def test_every_variant_writes_every_output() -> None:
    plan = scale_add_plan()
    scale = plan.targets[0].segments[0].variants[0].launches[0]
    assert scale.args[0] == TensorArg(4)
    elsewhere = with_launch(plan, args=(TensorArg(0), *scale.args[1:]))
    for wrong in (elsewhere, with_variant(plan, launches=())):
        assert validate_plan(wrong) == "host: segment 0: variant only: no kernel is given fid 4, which it has to write"


def loaded(folder: Path, name: str, change: Callable[[Plan], Plan]) -> LoadedPlan:
    artifact = opened(folder / f"{name}.fuse")
    return load_artifact(Changed(artifact, change(artifact.plan)), target="host")


@pytest.mark.parametrize("size", [["sub", 0, 1], ["mul", 2, 2**40]])
def test_shared_memory_that_there_cannot_be(folder: Path, size: Any) -> None:
    plan = loaded(folder, "pair", lambda plan: with_launch(plan, shared_bytes=size))
    with pytest.raises(ValueError, match=r"pair: kernel \w+: -?\d+ bytes of shared memory, expected 0 to 2147483647"):
        plan(torch.ones(3, 5))


def test_a_variant_that_launches_nothing(folder: Path) -> None:
    plan = loaded(folder, "pair", lambda plan: with_launch(plan, grid=(["sub", 1, 1], 1, 1)))
    with pytest.raises(ValueError, match=r"segment 0: variant .* launches nothing, and no tensor is empty"):
        plan(torch.ones(3, 5))


def test_a_slot_without_bytes_is_given_to_no_kernel(folder: Path) -> None:
    def change(plan: Plan) -> Plan:
        target = plan.targets[0]
        scratch = Slot(id=9, fid=None, bytes=0, first=0, last=1)
        args = target.segments[0].variants[0].launches[0].args
        given = tuple(WorkspaceArg(9) if arg == TensorArg(0) else arg for arg in args)
        assert given != args
        return with_target(with_launch(plan, args=given), workspace=(*target.workspace, scratch))

    plan = loaded(folder, "pair", change)
    with pytest.raises(ValueError, match="workspace slot 9 has no bytes"):
        plan(torch.ones(3, 5))


def test_slots_that_exceed_64_bits_together(folder: Path) -> None:
    def change(plan: Plan) -> Plan:
        scratch = (Slot(id=10 + number, fid=None, bytes=2**56, first=0, last=1) for number in range(300))
        return with_target(plan, workspace=(*plan.targets[0].workspace, *scratch))

    plan = loaded(folder, "pair", change)
    with pytest.raises(ValueError, match="the workspace exceeds 64 bits"):
        plan(torch.ones(3, 5))


def test_an_access_that_is_not_aligned_is_an_error_of_the_call(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The variant for whole vectors runs on odd rows, where a GPU would stop at the first access."""
    artifact = opened(folder / "vectors.fuse")
    (target,) = artifact.plan.targets
    (only,) = target.segments
    first, *others = only.variants
    variants = (msgspec.structs.replace(first, guard=(("le", 0, "N"),)), *others)
    plan = with_target(artifact.plan, segments=(msgspec.structs.replace(only, variants=variants),))
    changed = load_artifact(Changed(artifact, plan), target="host")
    x = torch.ones(8, 5)
    for _ in range(3):
        with pytest.raises(RuntimeError, match=r"vectors: kernel \w+: a thread did what no GPU allows"):
            changed(x)
    assert "misaligned 16-byte" in capfd.readouterr().err
    assert torch.equal(load_artifact(artifact, target="host")(x), x.sum(1))


def test_a_view_larger_than_its_base() -> None:
    values = [tensor(0, "x", ["M"]), tensor(1, "y", [("mul", 2, "M")])]
    grown = make_plan("grown", values, [0], [PlanOutput(fid=1, name="y")], [segment(0, [0], [1], views={1: 0})])
    plan = load_artifact(HandMadeArtifact(path=Path("a.fuse"), plan=grown, objects={}), target="host")
    with pytest.raises(ValueError, match="'y' takes 24 bytes, and is a view of 'x', which has 12"):
        plan(torch.ones(3))


def test_an_object_that_does_not_say_what_it_takes(tmp_path: Path) -> None:
    source, library = tmp_path / "twice.cc", tmp_path / "twice.so"
    source.write_text(
        'extern "C" int fusebuild_host3_twice(const long*, const int*, long, long, void**, const void*) {}\n'
    )
    subprocess.run(["g++", "-w", "-shared", "-fPIC", source, "-o", library], check=True)
    artifact = HandMadeArtifact(path=Path("a.fuse"), plan=broadcast_plan(), objects={"twice": library.read_bytes()})
    with pytest.raises(ArtifactError, match="has no symbol fusebuild_host3_twice_parameters"):
        load_artifact(artifact, target="host")


SCALED = """\
fusion: scaled
inputs:
  x: bfloat16[M, N]
  table: bfloat16[M, N]
  where_to: int64[M]
scalars:
  alpha: {dtype: float}
body: |
  y = (x + take(table, where_to, 0)) * alpha
outputs:
  y: bfloat16
cases:
  - {M: 4, N: 4096}
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts whose kernels have parameters of every kind."""
    rows = text_of({"x": "float[M, N]"}, "y = x / sum(x, dims=[1], keepdim=True)", {"y": "float"}, name="rows",
                   extents="N: {values: [4096]}")  # fmt: skip
    split, cluster = ((TESTS / "fusions" / f"{name}.yaml").read_text() for name in ("batches_split", "batches_cluster"))
    texts = {"scaled": SCALED, "rows": rows, "batches_split": split, "batches_cluster": cluster}
    return compile_for_host(tmp_path_factory.mktemp("told"), texts)


def each_launch(plan: Plan, change: Callable[[Any], Any]) -> Plan:
    """``plan`` with other launches."""
    (target,) = plan.targets
    segments = tuple(
        msgspec.structs.replace(segment, variants=tuple(
            msgspec.structs.replace(variant, launches=tuple(map(change, variant.launches)))
            for variant in segment.variants
        ))
        for segment in target.segments
    )  # fmt: skip
    return with_target(plan, segments=segments)


def each_argument(kind: type, change: Callable[[Any], Any]) -> Callable[[Plan], Plan]:
    """Changes a plan's arguments of one ``kind``."""

    def changed(launch: Any) -> Any:
        args = tuple(change(arg) if isinstance(arg, kind) else arg for arg in launch.args)
        return msgspec.structs.replace(launch, args=args)

    return lambda plan: each_launch(plan, changed)


def each_value(name: str, **changes: Any) -> Callable[[Plan], Plan]:
    """Changes the value ``name`` of a plan."""

    def changed(plan: Plan) -> Plan:
        values = (msgspec.structs.replace(each, **changes) if each.name == name else each for each in plan.values)
        return msgspec.structs.replace(plan, values=tuple(values))

    return changed


def slots_alike(plan: Plan) -> Plan:
    slot = max(plan.targets[0].workspace, key=lambda slot: slot.fid is None).id
    return each_argument(WorkspaceArg, lambda arg: WorkspaceArg(slot))(plan)


def declared_with_one_element(plan: Plan) -> Plan:
    """``plan`` whose input ``x`` has one element, where its kernels read it as ``[M, N]``."""
    extents = (msgspec.structs.replace(each, extent=1) if each.input == 0 else each for each in plan.extents)
    return msgspec.structs.replace(each_value("x", shape=(1, 1), strides=(1, 1))(plan), extents=tuple(extents))


OTHERWISE: dict[str, tuple[str, Callable[[Plan], Plan], str]] = {
    "a number for a size": ("scaled", each_argument(ExtentArg, lambda arg: FormulaArg(7)), "is 7, expected"),
    "another size": ("scaled", each_argument(ExtentArg, lambda arg: ExtentArg(-3 - arg.fid)), "expected"),
    "a formula": ("rows", each_argument(ExtentArg, lambda arg: FormulaArg(["mul", "M", "N"])), "is M*N, expected"),
    "another tensor": (
        "scaled", each_argument(TensorArg, lambda arg: TensorArg(1 if arg.fid == 0 else arg.fid)), "T0 is fid 1"
    ),
    "another table": (
        "scaled", each_argument(TensorArg, lambda arg: TensorArg(0 if arg.fid == 1 else arg.fid)), "is 'x', expected"
    ),
    "a tensor of another dtype": (
        "scaled", each_argument(TensorArg, lambda arg: TensorArg(2 if arg.fid == 0 else arg.fid)), "a tensor of int64"
    ),
    "a tensor for scratch": ("batches_split", each_argument(WorkspaceArg, lambda arg: TensorArg(0)), "takes scratch"),
    "one scratch for two": ("batches_split", slots_alike, "times"),
    "an input of one element": ("scaled", declared_with_one_element, "T0 is bfloat16[1, 1], where the kernel takes x"),
    "other rows": ("rows", each_value("x", shape=("N", "N")), "the extents are not"),
    "other results": ("rows", each_value("y", shape=("M", 1)), "where the kernel takes y: float"),
    "other strides": ("rows", each_value("y", strides=(1, 0)), "has the strides"),
    "an expanded input": ("rows", each_value("x", strides=(0, 1)), "has the strides"),
    "another dtype": ("rows", each_value("y", dtype="double"), "is a tensor of double, where the kernel takes float"),
    "larger blocks": ("rows", lambda plan: each_launch(plan, lambda launch: msgspec.structs.replace(
        launch, block=(launch.block[0] // 2, launch.block[1], launch.block[2]))), "where the kernel is made for"),
}  # fmt: skip
"""What a plan may say of a launch that its kernel's text contradicts."""


def refusal(folder: Path, name: str, change: Callable[[Plan], Plan]) -> str:
    path = folder / f"{name}.fuse"
    plan = change(opened(path).plan)
    assert plan != opened(path).plan
    with pytest.raises(ArtifactError) as caught:
        decode_artifact(resealed(members_of(path) | {PLAN: encode(plan)}), path)
    return str(caught.value)


@pytest.mark.parametrize("wrong", OTHERWISE)
def test_a_launch_that_the_text_of_its_kernel_contradicts(told: Path, wrong: str) -> None:
    name, change, words = OTHERWISE[wrong]
    assert words in refusal(told, name, change)


def test_a_kernel_that_knows_a_size_needs_a_guard_for_it(told: Path) -> None:
    def without(plan: Plan) -> Plan:
        segment = plan.targets[0].segments[0]
        variants = tuple(
            msgspec.structs.replace(variant, guard=tuple(each for each in variant.guard if each != ["eq", "N", 4096]))
            for variant in segment.variants
        )
        return with_target(plan, segments=(msgspec.structs.replace(segment, variants=variants),))

    assert "has no guard for N=4096, which the kernel is made for" in refusal(told, "rows", without)


def test_a_kernel_whose_text_says_nothing_is_not_judged() -> None:
    for text in ("", "FUSEBUILD_KERNEL(256, 2)\nx(\n", "FUSEBUILD_KERNEL(256, 2)\nx(\n    int) {", "x" * 100_000):
        assert kernel_text.read(text, "x") is None
    plan = scale_add_plan()
    assert kernel_text.misused(plan, dict.fromkeys(kernels_of(plan.targets[0]), "")) is None


def test_a_grid_without_whole_clusters_is_an_error_of_the_call(told: Path) -> None:
    artifact = opened(told / "batches_cluster.fuse")
    changed = each_launch(artifact.plan, lambda launch: msgspec.structs.replace(launch, grid=(1, 1, 1)))
    plan = load_artifact(Changed(artifact, changed), target="host")
    x, place = torch.ones(2, 65560).bfloat16(), torch.zeros(2, 1, dtype=torch.int64)
    taken = artifact.plan.targets[0].segments[0].variants[min(plan.variants_for(x, place)[0])]
    assert taken.name.startswith("cluster")
    with pytest.raises(ValueError, match=r"a grid \(1, 1, 1\) of blocks \(\d+, 1, 1\) cannot be launched"):
        plan(x, place)


def test_changes_are_the_same_for_the_same_number(folder: Path) -> None:
    members = dict(opened(folder / "pair.fuse").members)
    for number in range(50):
        assert plans.changed(members, plans.random.Random(number)) == plans.changed(
            members, plans.random.Random(number)
        )


ONLY_THE_KERNEL_KNOWS = {"args", "shape", "strides", "guard", "grid", "block", "shared_bytes", "variants", "segments"}
"""What a plan may say in another way that is as consistent: see plan_check."""


def test_hundreds_of_changed_plans_end_as_they_should(folder: Path) -> None:
    """The campaign in a process of its own, which gives the executor memory between pages that nobody may touch."""
    command = [sys.executable, "-m", "fuzzing.plans", str(folder), "600"]
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert sum(found["ends"].values()) == 600
    assert found["ends"]["refused"] > 300
    assert "untyped" not in found["ends"]
    for place in found["places"]:
        end, _, names = place.partition(": ")
        assert end not in plans.BUGS or ONLY_THE_KERNEL_KNOWS & set(names.split()), place


def test_a_stride_is_of_a_tensor_that_the_segment_has() -> None:
    recipe = TESTS / "fusions" / "index_edges.yaml"
    planned = plan_recipe(read_recipes([recipe])[0], [find_target("host")])
    texts = {name: kernel.text for name, kernel in planned.kernels["host"].items()}
    assert kernel_text.misused(planned.plan, texts) is None
    name = next(name for name, text in texts.items() if "int64_t T0_stride1" in text)
    wrong = kernel_text.misused(planned.plan, texts | {name: texts[name].replace("T0_stride1", "T99_stride1")})
    assert wrong is not None
    assert wrong.problem.endswith("T99_stride1 is a stride of no tensor of the segment")
