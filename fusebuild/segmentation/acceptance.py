"""Which scheduler takes which exprs, asked once for each shape of task.

Layers of a network repeat: a task equal to an earlier one up to fids, names and locations gets the same answer without
asking the schedulers again. That, and not a faster scheduler, is what keeps large Fusions cheap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from fusebuild.errors import Diagnostic
from fusebuild.ir.fusion import Fusion, Task
from fusebuild.kernels.common.family import Family
from fusebuild.kernels.common.spec import Rejection, TooManyParameters
from fusebuild.kernels.families import first_accepting
from fusebuild.segmentation.segmented import scalar_closure
from fusebuild.target.table import Target


class Acceptance:
    """The schedulers' answers for sets of tensor exprs of one Fusion on one target."""

    def __init__(self, fusion: Fusion, target: Target) -> None:
        self.fusion, self.target = fusion, target
        self._answers: dict[object, Family | tuple[Rejection, ...]] = {}
        self._overwritten = overwritten_inputs(fusion)
        self.asked = 0
        """How often the schedulers were really asked."""

    def task(self, exprs: Iterable[int], results: frozenset[int] | None = None) -> Task:
        """The task of the tensor exprs ``exprs`` and the scalar arithmetic they need; it writes ``results``, or what
        any expr outside reads."""
        return Task(fusion=self.fusion, exprs=scalar_closure(self.fusion, exprs), results=results)

    def scheduler(self, exprs: Iterable[int], results: frozenset[int] | None = None) -> str:
        """The name of the scheduler that takes the task; empty when none does."""
        answer = self._answer(self.task(exprs, results))
        return "" if isinstance(answer, tuple) else answer.name

    def _answer(self, task: Task) -> Family | tuple[Rejection, ...]:
        """That of a task equal to ``task``: the reasons speak of names and locations of that one."""
        key = self.signature(task)
        if key not in self._answers:
            self.asked += 1
            self._answers[key] = first_accepting(task, self.target)
        return self._answers[key]

    def has_too_many_parameters(self, exprs: Iterable[int]) -> bool:
        """Whether a scheduler would take the task but for the number of its tensors, so that parts of it may do."""
        answer = self._answer(self.task(exprs))
        return isinstance(answer, tuple) and any(isinstance(each, TooManyParameters) for each in answer)

    def signature(self, task: Task) -> object:
        """:func:`signature` of a task of this Fusion."""
        return signature(task, self._overwritten)

    def rejections(self, exprs: Iterable[int], results: frozenset[int] | None = None) -> tuple[Rejection, ...]:
        """Every scheduler's reason not to take the task; empty when one takes it."""
        answer = first_accepting(self.task(exprs, results), self.target)
        return answer if isinstance(answer, tuple) else ()

    def refusal(self, exprs: Collection[int], results: frozenset[int]) -> Diagnostic:
        """That no scheduler takes the task, told of its first expr, with every one's reason."""
        expr = self.fusion.exprs[min(exprs)]
        reasons = "; ".join(f"{each.scheduler}: {each.reason}" for each in self.rejections(exprs, results))
        return Diagnostic(location=expr.location, message=f"no scheduler takes {expr.op} ({reasons})")


def overwritten_inputs(fusion: Fusion) -> dict[int, int]:
    """For each output that overwrites an input, that input."""
    return {output.fid: output.alias for output in fusion.outputs if output.alias is not None}


def signature(task: Task, overwritten: Mapping[int, int]) -> object:
    """Equal for two tasks exactly when they differ only in fids, names and locations; ``overwritten`` is
    :func:`overwritten_inputs` of their Fusion."""
    fusion, targets = task.fusion, frozenset(overwritten.values())
    number: dict[int, int] = {}
    outside: list[object] = []
    exprs: list[object] = []
    for index in task.exprs:
        expr = fusion.exprs[index]
        for fid in expr.inputs:
            if fid not in number:
                number[fid] = len(number)
                value = fusion.value(fid)
                outside.append((number[fid], value.type, value.literal, fid in targets))
        for fid in expr.outputs:
            number[fid] = len(number)
        operands = tuple(number[fid] for fid in expr.inputs)
        types = tuple(fusion.value(fid).type for fid in expr.outputs)
        exprs.append((expr.op, operands, types, expr.attributes))
    order = tuple(number[fid] for fid in task.inputs)
    written = tuple(
        (number[fid], fusion.is_output(fid), fid in overwritten and number.get(overwritten[fid], -1))
        for fid in task.outputs
    )
    return (tuple(outside), tuple(exprs), order, written)
