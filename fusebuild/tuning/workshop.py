"""A workshop turns variants of one segment into kernels that run: it compiles them, refuses those that spill registers
or exceed the chip's limits, compares their results with those of the heuristics' choice, and times them.

Each variant is a plan of its own: the segment alone, with one variant. All run on the same sets of inputs, which exceed
the device's cache together, each with outputs of its own, and are timed behind a call of their own on one more set, as
``fusebuild bench`` does it (:mod:`fusebuild.bench.measure` says why).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from fusebuild.artifact.elf import loaded_sections
from fusebuild.artifact.file import write_artifact
from fusebuild.artifact.kernel_resources import KernelResources
from fusebuild.artifact.plan import Plan, as_formula
from fusebuild.bench.contenders import InputSets, input_sets, our_contender, roof_copy, set_count
from fusebuild.bench.device import Device, Run, Timed
from fusebuild.bench.exactness import LENIENCE, as_results
from fusebuild.build.build_dir import BuildDir
from fusebuild.build.job import KernelSource
from fusebuild.build.objects import BuildError, BuildResult, build
from fusebuild.build.toolchain import Toolchain
from fusebuild.errors import VerificationError
from fusebuild.ir.fid import SegmentFid
from fusebuild.ir.formula import Formula, evaluate
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.render import Kernel
from fusebuild.oracle.bounds import bound_for, compare
from fusebuild.oracle.rounding import reaches
from fusebuild.oracle.verification import recipe_inputs
from fusebuild.planning.assembly import plan_alone
from fusebuild.recipe.recipe import Recipe
from fusebuild.recipe.sizes import least_bytes
from fusebuild.runtime.loader import LoadedPlan, load
from fusebuild.segmentation import Segment
from fusebuild.target.table import Target

TURNS = 20
"""How often a round times both rivals."""
WARM_UP = 2
"""How many turns go before those that a round counts."""

SAME_CODE = "the compiler makes the same code of it"
"""Why a variant is refused that differs from an earlier one only in what it asks of the compiler."""

logger = logging.getLogger(__name__)

Turns = Sequence[tuple[float, float]]
"""Milliseconds of the best choice and of its challenger, turn by turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A variant that is ready to be ``timed``, or else the reason why it was ``refused``."""

    variant: VariantSpec
    timed: Timed | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """What all kernels of one ``fusebuild tune`` share: the device, the target, the compilers, the folder where objects
    are built (``out``), the one for artifacts that are removed right after they are loaded (``scratch``), and how many
    compilers run at a time."""

    device: Device
    target: Target
    toolchain: Toolchain
    out: Path
    scratch: Path
    jobs: int | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Compiles and times variants of one segment of ``recipe`` at one case."""

    bench: Workbench
    recipe: Recipe
    segment: Segment
    case: Mapping[str, int]
    _expected: list[Sequence[Any]] = field(default_factory=list)
    _launched: list[object] = field(default_factory=list)

    def rivals(self, variants: Sequence[VariantSpec]) -> Iterator[Rival]:
        """``variants`` in their order, each compiled and ready to run, or refused. All are compiled at once; the memory
        that one needs to run is allocated when the iteration reaches it.

        The first variant of all is the heuristics' own: it is never refused, and the others have to give what it gives.
        Raises :class:`VerificationError` where one does not and :class:`BuildError` where the first does not compile.
        """
        target, name = self.bench.target, Path(self.recipe.path).name
        planned = [plan_alone(self.segment, variant, target, name) for variant in variants]
        built, failed = self._built([kernels for _, kernels in planned])
        for variant, (plan, kernels) in zip(variants, planned, strict=True):
            is_first = not self._expected
            refused = (
                next((failed[kernel] for kernel in kernels if kernel in failed), "")
                or ("" if is_first else self._beyond_limits(plan, built.resources))
                or ("" if self._is_new(plan, built) else SAME_CODE)
            )
            timed = None if refused else self._timed(variant, plan, kernels, built)
            if refused:
                logger.info("%s %s: not tried: %s", self.segment.fusion.name, _knobs(variant), refused)
            yield Rival(variant=variant, timed=timed, refused=refused)

    def race(self, best: Rival, challenger: Rival) -> Turns:
        """The times of both rivals in each turn. Which of them goes first alternates from turn to turn."""
        assert best.timed is not None
        assert challenger.timed is not None
        device, count, turns = self.bench.device, len(self._sets.timed), []
        for turn in range(WARM_UP + TURNS):
            if turn % 2:
                second, first = device.milliseconds(self._lead, [challenger.timed, best.timed])
            else:
                first, second = device.milliseconds(self._lead, [best.timed, challenger.timed])
            turns.append((first / count, second / count))
        return turns[WARM_UP:]

    @cached_property
    def _lead(self) -> Run:
        return roof_copy(self.bench.device)

    @cached_property
    def _alone(self) -> Recipe:
        """The segment as a recipe. Its inputs lie in the ranges that the recipe states. Indices that another segment
        computes are all 0, which is an index into any tensor."""
        fusion, own = self.segment.fusion, self.recipe.fusion
        ranges: dict[int, tuple[Formula, Formula]] = {}
        for fid in fusion.inputs:
            original = int(self.segment.fid_map[SegmentFid(fid)])
            if original in self.recipe.ranges:
                ranges[fid] = self.recipe.ranges[original]
            elif original not in own.inputs and not fusion.value(fid).dtype.is_floating:
                ranges[fid] = (0, 1)
        return Recipe(path=self.recipe.path, text="", fusion=fusion, ranges=ranges)

    @cached_property
    def _sets(self) -> InputSets:
        device = self.bench.device
        count = set_count(least_bytes(self.segment.fusion, self.case), device)
        return input_sets(self._alone, self.case, count, self.bench.seed, device)

    def _built(self, kernels: Sequence[Mapping[str, Kernel]]) -> tuple[BuildResult, dict[str, str]]:
        """The objects of all ``kernels`` that compile, and why the others do not."""
        make = partial(
            build, build_dir=BuildDir(root=self.bench.out), toolchain=self.bench.toolchain, jobs=self.bench.jobs
        )
        sources = {name: kernel.source for each in kernels for name, kernel in each.items()}
        requests = {name: (self.bench.target, KernelSource(name=name, text=text)) for name, text in sources.items()}
        try:
            return make([*requests.values()]), {}
        except BuildError as error:
            if not self._expected:
                raise
            failed = {failure.kernel: _first_line(failure.output) for failure in error.failures}
        return make([request for name, request in requests.items() if name not in failed]), failed

    def _beyond_limits(self, plan: Plan, resources: Mapping[tuple[str, str], KernelResources]) -> str:
        """The limit of the chip that a kernel of ``plan`` exceeds, in words; empty where it exceeds none."""
        target = self.bench.target
        launches = plan.targets[0].segments[0].variants[0].launches
        for launch in launches:
            used = resources.get((target.name, launch.kernel))
            if used is None and not target.is_host:
                return "whether it spills registers is not known"
            if used is None:
                continue
            dynamic = evaluate(as_formula(launch.shared_bytes), self.case)
            if problem := beyond_limits(used, launch.block, dynamic, target):
                return problem
        return ""

    def _is_new(self, plan: Plan, built: BuildResult) -> bool:
        """Whether no earlier variant launched the same machine code in the same way."""
        target = self.bench.target.name
        launched = tuple(
            (
                _code(built.objects[target, launch.kernel], launch.kernel),
                built.resources.get((target, launch.kernel)),
                (launch.grid, launch.block, launch.shared_bytes),
            )
            for launch in plan.targets[0].segments[0].variants[0].launches
        )
        is_new = launched not in self._launched
        self._launched.append(launched)
        return is_new

    def _timed(self, variant: VariantSpec, plan: Plan, kernels: Mapping[str, Kernel], built: BuildResult) -> Timed:
        """``variant`` ready to be timed on all sets, after its results were compared."""
        target, device = self.bench.target, self.bench.device
        path = self.bench.scratch / f"{self.segment.fusion.name}.fuse"
        write_artifact(
            path,
            plan=plan,
            recipe=b"",
            kernels={name: kernel.text for name, kernel in kernels.items()},
            objects={(target.name, name): built.objects[target.name, name] for name in kernels},
            toolchain=self.bench.toolchain.versions,
            sources={},
        )
        loaded = load(path, target=target.name)
        path.unlink()
        self._require_same(variant, loaded)
        return our_contender(loaded, self.segment.fusion, self._sets, device).timed

    def _require_same(self, variant: VariantSpec, loaded: LoadedPlan) -> None:
        """Raise :class:`VerificationError` unless results are those of the heuristics' choice."""
        fusion, device = self.segment.fusion, self.bench.device.torch_name
        inputs = recipe_inputs(self._alone, self.case, seed=self.bench.seed, device=device)  # not overwritten yet
        own = as_results(loaded(*inputs))
        if not self._expected:
            self._expected.append(own)
            return
        for index, (output, got, want) in enumerate(zip(fusion.outputs, own, self._expected[0], strict=True)):
            bound = LENIENCE * bound_for(fusion, output.fid)
            verdict = compare(got, want, fusion.value(output.fid).dtype, bound=bound, reach=partial(self._reach, index))
            if not verdict.ok:
                message = f"{output.name} is another one than that of the heuristics' choice"
                raise VerificationError(f"{fusion.name} {_knobs(variant)}: {message}: error {verdict.error:.1e}")

    def _reach(self, index: int) -> Any:
        """How far rounding can move each element of an output, since another variant rounds in other places."""
        inputs = recipe_inputs(self._alone, self.case, seed=self.bench.seed, device=self.bench.device.torch_name)
        return reaches(self.segment.fusion, inputs, given=self.case)[index]


def _code(data: bytes, kernel: str) -> tuple[bytes, ...]:
    """The sections of the object of ``kernel`` that are loaded, with zeros in the place of the kernel's name."""
    return loaded_sections(data.replace(kernel.encode(), bytes(len(kernel))))


def beyond_limits(used: KernelResources, block: tuple[int, int, int], dynamic_bytes: int, target: Target) -> str:
    """Why a kernel must not be raced, in words: it spills registers, or its ``block`` takes more registers or more
    shared memory (static and ``dynamic_bytes``) than ``target`` has for one; empty where it may."""
    x, y, z = block
    threads = x * y * z
    if used.spills:
        return f"{used.spills} bytes of registers spill"
    if used.registers * threads > target.registers:
        return f"{threads} threads of {used.registers} registers are more than {target.registers}"
    if used.shared + dynamic_bytes > target.shared_bytes:
        return f"{used.shared + dynamic_bytes} bytes of shared memory are more than {target.shared_bytes}"
    return ""


def _knobs(variant: VariantSpec) -> str:
    decided = variant.decision
    return f"{variant.name} {dict(decided.choice.knobs) if decided else ''}".strip()


def _first_line(output: str) -> str:
    """The first error of a compiler's output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "it does not compile")
