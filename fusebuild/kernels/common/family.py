"""A family of kernels: how it runs a task, and the views that its templates are filled with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import KernelSpec, Scheduler
from fusebuild.kernels.common.view import KernelView

View = Callable[[KernelSpec], KernelView]
"""What fills in a template: the lines of one kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """``folder`` holds its modules below ``fusebuild/kernels`` and its templates below ``templates``; ``views`` maps
    the name of each template to its view.

    A task for which ``exclusive`` is true is taken by this family or by none, and this family takes no other task.
    ``rejects_in_its_own_words`` is False where another family takes all that this one takes, so that its reason not to
    would only repeat that family's.
    """

    folder: str
    scheduler: Scheduler
    views: Mapping[str, View] = field(default_factory=dict)
    exclusive: Callable[[Task], object] | None = None
    rejects_in_its_own_words: bool = True
