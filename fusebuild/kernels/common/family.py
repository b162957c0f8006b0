"""A family of kernels: how it runs a task, and the views that its templates are filled with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from typing import Any

from fusebuild.ir.formula import MULTIPROCESSORS
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import NOT_TUNED, Tuned
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import KernelSpec, Rejection, VariantSpec, usable
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.kernels.common.view import KernelView
from fusebuild.kernels.common.windows import with_windows
from fusebuild.target.table import Target

View = Callable[[KernelSpec], KernelView]
"""What fills in a template: the lines of one kernel."""


def on_demand(module: str, name: str) -> Callable[[Any], Any]:
    """The function ``name`` of ``module``, which is imported when it is first called. A family of many modules names
    its functions so: a process imports them when the family takes its first task."""

    def call(argument: Any) -> Any:
        return getattr(import_module(module), name)(argument)

    return call


class Runs(Enum):
    """What a segment of a family does when a plan runs."""

    KERNELS = "kernels of this family"
    LIBRARY = "a library call, whose kernels neither wait for others nor walk in an order that anybody knows"
    NOTHING = "nothing: its results are views of memory that is already there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The kernels of one folder, and the scheduler of them: all that the rest of fusebuild knows about them.
    A family sets what differs from the default."""

    name: str
    """What people know its scheduler by."""

    check: Callable[[Task], None]
    """Raises :class:`UnfitError` for a task that the family does not take."""

    variants: Callable[[Planner], Sequence[VariantSpec]]
    """Variants of a task that it takes, in order of preference, the last one unguarded. Raises :class:`KnobError` for a
    tuned choice that no kernel can be made with."""

    folder: str
    """The folder of its modules below ``fusebuild/kernels``, and of its templates below ``templates``."""

    views: Mapping[str, View] = field(default_factory=dict)
    """The view of each template, by the name that ``KernelSpec.template`` has."""

    runs: Runs = Runs.KERNELS
    """What runs for a segment of this family."""

    exclusive: Callable[[Task], object] | None = None
    """A task for which this is true is taken by this family or by none, and the family takes no other task."""

    rejects_in_its_own_words: bool = True
    """False where its reasons would only repeat those of another family, which looks at tasks in the same way."""

    has_short_blocks: bool = False
    """Whether its blocks are many and each of them is done soon. Such a kernel may start while the kernel before it
    still runs, without keeping multiprocessors from that one."""

    reads_slices_by_vectors: bool = False
    """Whether kernels read slices of inputs as they do inputs, by vectors; others have slices given as inputs."""

    takes_members: bool = False
    """Whether one launch of its kernels may be many, where tensors are flat (:mod:`fusebuild.segmentation.members`)."""

    walks_either_way: bool = False
    """Whether its kernels can walk their tensors from the end as well as from the beginning."""

    def accepts(self, task: Task, target: Target) -> Rejection | None:
        """None when :meth:`schedule` can run ``task``; otherwise the reason."""
        try:
            self.check(task)
        except UnfitError as unfit:
            return Rejection.of(self.name, task, unfit)
        return None

    def schedule(
        self, task: Task, target: Target, sizes: Mapping[str, int], tuned: Tuned = NOT_TUNED
    ) -> tuple[VariantSpec, ...]:
        """Variants in order of preference, the last one unguarded. ``sizes`` are the recipe's first case; ``tuned``
        choices replace the family's own. Raises :class:`KnobError` for one that no kernel can be made with."""
        expected = {**sizes, MULTIPROCESSORS: target.multiprocessors}
        planner = Planner(task=self._readable(task, target), target=target, sizes=expected, tuned=tuned)
        return usable(self.variants(planner))

    def _readable(self, task: Task, target: Target) -> Task:
        """``task`` with slices of inputs as inputs, where the family reads those better and takes the task so, too."""
        if self.reads_slices_by_vectors:
            return task
        found = with_windows(task)
        return task if found is not task and self.accepts(found, target) else found
