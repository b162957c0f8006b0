"""``fusebuild tune``: every kernel of some recipes measured beside its neighbours, and files of those that won."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fusebuild.build.build_dir import write_if_changed
from fusebuild.build.objects import Progress
from fusebuild.build.toolchain import find_toolchain
from fusebuild.errors import UsageError
from fusebuild.ir.fusion import Fusion
from fusebuild.kernels.common.choice import Decision
from fusebuild.kernels.common.neighbours import neighbours
from fusebuild.kernels.common.spec import DEFAULT_EXTENT, VariantSpec
from fusebuild.kernels.common.specialization import hinted_sizes, taken_variant, used_symbols
from fusebuild.passes import run_passes
from fusebuild.pipeline import read_recipes, tuned_beside
from fusebuild.planning.tuned import Entry, Point, TunedKernels, bucket_of, encode_tuned, points_of
from fusebuild.recipe.files import tuned_path
from fusebuild.recipe.recipe import Recipe
from fusebuild.recipe.sizes import require_fitting, shown_case
from fusebuild.segmentation import segment
from fusebuild.target.table import Target
from fusebuild.tuning.climb import MOST_NEIGHBOURS, Outcome, climb
from fusebuild.tuning.place import Place, find_place
from fusebuild.tuning.report import MeasuredKernel, TuneReport
from fusebuild.tuning.workshop import Workbench, Workshop

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One kernel to tune: what heuristics choose at ``point``, measured at ``case``."""

    recipe: Recipe
    point: Point
    case: Mapping[str, int]
    origin: VariantSpec

    @property
    def decision(self) -> Decision:
        """What the heuristics decided."""
        assert self.origin.decision is not None
        return self.origin.decision

    @property
    def key(self) -> tuple[object, ...]:
        """What tells the task from every other one."""
        return (self.recipe.path, *self.point.key, self.decision.way)


def tune_recipes(
    paths: Sequence[Path],
    target: Target | None = None,
    *,
    cases: Sequence[Mapping[str, int]] = (),
    budget: int = MOST_NEIGHBOURS,
    out: Path = Path("build"),
    jobs: int | None = None,
    nvcc: str | None = None,
    seed: int = 0,
    place: Place | None = None,
    on_progress: Progress | None = None,
) -> TuneReport:
    """Tune every kernel of the recipes below ``paths`` and write :func:`~fusebuild.recipe.files.tuned_path` beside each
    recipe as soon as its kernels are done; entries for other targets stay, as do those for other sizes that still hold.
    A kernel whose tensors do not fit the device's memory is not measured: the report says so, and has the others.

    ``cases`` replace the sizes that kernels are measured at, where those lie in one bucket; ``budget`` neighbours
    are tried for each kernel. ``place`` is found for ``target`` where none is given; ``on_progress`` gets (done, to
    do) after each kernel. Raises :class:`RecipeError`, :class:`TunedError`, :class:`UsageError` where there is no
    device or a case does not fit, :class:`ToolchainError`, :class:`BuildError`, and :class:`VerificationError`
    where two choices disagree.
    """
    recipes = read_recipes(paths)
    before = [tuned_beside(recipe) for recipe in recipes]
    place = place or find_place(target)
    toolchain = find_toolchain([place.target], nvcc=nvcc)
    points = [points_of(segment(run_passes(recipe.fusion), place.target)) for recipe in recipes]
    work = [_tasks(*each, place.target, cases) for each in zip(recipes, points, strict=True)]
    done, total = 0, sum(map(len, work))
    kernels, written, skipped = list[MeasuredKernel](), list[Path](), list[str]()
    with tempfile.TemporaryDirectory() as scratch:
        bench = Workbench(
            device=place.device, target=place.target, toolchain=toolchain, out=out, scratch=Path(scratch),
            jobs=jobs, seed=seed,
        )  # fmt: skip
        for recipe, old, own, asked in zip(recipes, before, work, points, strict=True):
            entries, measured = list[Entry](), list[_Task]()
            for task in own:
                outcome = _tuned(task, bench, budget)
                if outcome is None:
                    skipped.append(f"{_place(task)}: not measured: its tensors do not fit the memory of the device")
                else:
                    measured.append(task)
                    kernels.append(_measured(task, outcome))
                    entries += _entries(task, outcome, bench)
                done += 1
                if on_progress:
                    on_progress(done, total)
            kept = _still_held(old, asked, measured, bench)
            if path := _write(recipe, [*kept, *entries], old):
                written.append(path)
    name, driver = place.device.description
    return TuneReport(
        target=place.target.name, device=name, driver=driver, kernels=tuple(kernels), written=tuple(written),
        skipped=tuple(skipped),
    )  # fmt: skip


def _tasks(recipe: Recipe, points: Sequence[Point], target: Target, cases: Sequence[Mapping[str, int]]) -> list[_Task]:
    """The kernels of ``recipe``, which is planned for ``points``, that there is something to choose about, once
    each."""
    for case in cases:
        require_fitting(recipe.fusion, case)
    found: dict[tuple[object, ...], _Task] = {}
    fitting: list[Mapping[str, int]] = []
    for point in points:
        variants = point.variants(target)
        if not any(variant.launches for variant in variants):
            continue
        if unbound := _unbound(point.segment.fusion):
            names = ", ".join(unbound)
            logger.warning("%s: not tuned: its inputs do not tell of %s", point.segment.fusion.name, names)
            fitting += cases
            continue
        own = [case for case in cases if tuple(bucket_of(point.segment.fusion, case).items()) == point.key[1]]
        fitting += own
        for case in own if cases else [_assumed_sizes(point)]:
            origin = taken_variant(variants, point.segment.fusion, case)
            if origin.decision is not None:
                task = _Task(recipe=recipe, point=point, case=case, origin=origin)
                found.setdefault(task.key, task)
    for case in cases:
        if case not in fitting:
            raise UsageError(
                f"case {shown_case(case)}: {recipe.fusion.name} is planned for no sizes like these; "
                "make them its first case, or name them in its extents"
            )
    return list(found.values())


def _assumed_sizes(point: Point) -> dict[str, int]:
    """The sizes that the heuristics see at ``point``, for every symbol."""
    unknown = dict.fromkeys(used_symbols(point.segment.fusion), DEFAULT_EXTENT)
    return {**unknown, **hinted_sizes(point.segment.fusion, point.sizes)}


def _unbound(fusion: Fusion) -> list[str]:
    """The symbols whose size the inputs of the segment ``fusion`` do not tell."""
    bound = {*fusion.symbols} - {*fusion.solved.unknown}
    return [symbol for symbol in used_symbols(fusion) if symbol not in bound]


def _tuned(task: _Task, bench: Workbench, budget: int) -> Outcome | None:
    """The outcome of climbing from what the heuristics choose for ``task``; None where its tensors do not fit the
    memory."""
    import torch

    point = task.point
    beside = partial(neighbours, point.segment.fusion, point.segment.family, bench.target, point.sizes, at=task.case)
    try:
        track = Workshop(bench=bench, recipe=task.recipe, segment=point.segment, case=task.case)
        return climb(task.origin, beside, track, budget=budget)
    except torch.OutOfMemoryError as error:
        logger.info("%s: %s", _place(task), error)
    finally:
        bench.device.release()
    return None


def _place(task: _Task) -> str:
    """The kernel that ``task`` is about, for people."""
    sizes = " ".join(f"{symbol}={size}" for symbol, size in _case(task).items()) or "constant"
    return f"{task.recipe.fusion.name}.{task.point.segment.id} {task.origin.name} {sizes}"


def _case(task: _Task) -> dict[str, int]:
    """The sizes that the segment of ``task`` has."""
    return {symbol: task.case[symbol] for symbol in used_symbols(task.point.segment.fusion) if symbol in task.case}


def _measured(task: _Task, outcome: Outcome) -> MeasuredKernel:
    own = task.decision.choice.knobs
    changed = {knob: value for knob, value in _knobs(outcome.best).items() if value != own[knob]}
    return MeasuredKernel(
        fusion=task.recipe.fusion.name,
        segment=task.point.segment.id,
        variant=task.origin.name,
        case=_case(task),
        heuristic_milliseconds=outcome.heuristic_milliseconds,
        milliseconds=outcome.milliseconds,
        tried=outcome.tried,
        refused=outcome.refused,
        changed=changed,
        win=outcome.win if changed else 0.0,
    )


def _knobs(variant: VariantSpec) -> dict[str, int]:
    assert variant.decision is not None
    return dict(variant.decision.choice.knobs)


def _entries(task: _Task, outcome: Outcome, bench: Workbench) -> list[Entry]:
    """The entry for ``task``; none where the heuristics' own choice is the best."""
    target = bench.target
    if outcome.best.launches == task.origin.launches:
        return []
    digest, bucket = task.point.key
    entry = Entry(
        segment=digest,
        bucket=dict(bucket),
        arch=target.name,
        multiprocessors=target.multiprocessors,
        toolchain=bench.toolchain.digest_for(target),
        variant=task.decision.way,
        knobs=_knobs(outcome.best),
        heuristic=_knobs(task.origin),
        milliseconds=float(f"{outcome.milliseconds:.4g}"),  # more digits were never measured
        heuristic_milliseconds=float(f"{outcome.heuristic_milliseconds:.4g}"),
        device=bench.device.description[0],
    )
    return [entry]


def _still_held(
    old: TunedKernels | None, points: Sequence[Point], tasks: Sequence[_Task], bench: Workbench
) -> list[Entry]:
    """The entries of ``old`` that were not measured again with ``tasks``: those for other targets, and those for this
    one whose key still fits something."""
    target, asked = bench.target, {point.key for point in points}
    measured = {(*task.point.key, task.key[-1]) for task in tasks}
    digest = bench.toolchain.digest_for(target)
    kept = []
    for entry in old.entries if old is not None else ():
        holds = (
            entry.choice_key in asked and entry.multiprocessors == target.multiprocessors and entry.toolchain == digest
        )
        if entry.arch != target.name or (holds and (*entry.choice_key, entry.variant) not in measured):
            kept.append(entry)
    return kept


def _write(recipe: Recipe, entries: Sequence[Entry], old: TunedKernels | None) -> Path | None:
    """Write the file beside ``recipe``, or remove it where nothing is left to say; the path where that changed it."""
    path = tuned_path(Path(recipe.path))
    if entries:
        return path if write_if_changed(path, encode_tuned(recipe.fusion.name, entries)) else None
    if old is None:
        return None
    path.unlink()
    return path
