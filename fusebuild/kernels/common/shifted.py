"""Vectors that lie where memory is aligned and not where rows begin: 16-byte accesses for rows of any length.

Row ``r`` of a dense ``[M, N]`` tensor begins at element ``r * N``, which a vector begins at for some rows only. Its
threads walk the aligned vectors that hold it; of the first and the last one, elements belong to the rows beside it,
and are neither combined nor stored. All dense tensors that span the domain have a row in the same places of their
vectors, whatever their dtypes, since a vector is a number of elements. What lacks an axis, such as a weight, is cut
out of the aligned words around it.
"""

from __future__ import annotations

from collections.abc import Iterable

from fusebuild.ir.formula import Formula, product
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.domain import AxisDomain

FEW = 65536
"""Elements of a domain of known size that move in the time of a launch, whatever the accesses: two kernels would be one
too many."""


def has_odd_rows(task: Task, domain: AxisDomain, vec: int, extent: Formula) -> bool:
    """Whether there are flat tensors to access by vectors of ``vec``, more than ``FEW`` elements or a number not known
    now, and ``extent`` need be no multiple of ``vec``. Index ops read where a row's own elements say, not those beside
    it."""
    total = product([axis.extent for axis in domain.axes])
    if vec == 1 or not domain.flat or domain.sources or (isinstance(total, int) and total <= FEW):
        return False
    if isinstance(extent, int):
        return extent % vec != 0
    factors = extent[1:] if isinstance(extent, tuple) and extent[0] == "mul" else (extent,)
    known = {fact.symbol: fact.multiple_of for fact in task.fusion.facts}
    return all((factor if isinstance(factor, int) else known.get(str(factor), 1)) % vec for factor in factors)


def shifted_guards(task: Task, domain: AxisDomain, vec: int) -> tuple[Formula, ...]:
    """Flat tensors begin where a vector may; nothing else has to be aligned."""
    return aligned_guards(task, domain.flat, vec)


def aligned_guards(task: Task, fids: Iterable[int], vec: int) -> tuple[Formula, ...]:
    """Tensors ``fids`` begin where a vector may."""
    return tuple(("aligned", fid, min(16, vec * task.fusion.value(fid).dtype.bytes)) for fid in fids)
