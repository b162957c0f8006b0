"""Which tasks the kernels of this family can run."""

from __future__ import annotations

from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.rows import check_outputs, check_reductions, check_running
from fusebuild.kernels.common.spec import try_domain
from fusebuild.kernels.common.unfit import UnfitError

ONE_BLOCK = 65536
"""Elements of a tensor that one block reduces and walks again sooner than two more kernels start."""


def check(task: Task) -> None:
    """Raise :class:`UnfitError` for a task that is no row-wise one, or whose one row is too long for a block."""
    domain = try_domain(task)
    check_reductions(task, domain)
    check_running(task)
    kept, reduced = domain.kept, domain.reduced
    if kept and reduced and max(kept) > min(reduced):
        raise UnfitError("the reduced dims are not the innermost ones")
    if not kept and not _fits_one_block(domain.points(reduced)):
        raise UnfitError("every dim is reduced, and one block would walk the whole tensor")
    check_outputs(task, domain, kept, domain.every)


def _fits_one_block(elements: Formula) -> bool:
    """False for sizes not known now: a tensor reduced as a whole is as large as a tensor can be."""
    return isinstance(elements, int) and elements <= ONE_BLOCK
