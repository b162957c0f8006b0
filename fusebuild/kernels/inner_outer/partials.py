"""How many partial results the blocks leave that walk rows."""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, simplified, total
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.inner_outer.shape import InnerOuterHeuristics


def most_partials(kernels: Sequence[KernelSpec], rows: Formula, columns: Formula) -> Formula:
    """Partial results at most of a reduction that keeps nothing but ``columns``, by any of ``kernels``. The blocks of a
    multiprocessor have accumulators of so many columns ``owned`` in their registers, or of all columns in memory; there
    are no more blocks than ``rows``, but one more part for each kind of rows after the first."""
    in_registers = [(_heuristics(each), each.vec) for each in kernels if _heuristics(each).storage == "registers"]
    in_memory = [_heuristics(each) for each in kernels if _heuristics(each).storage != "registers"]
    owned = max((each.min_blocks * each.columns(vec) for each, vec in in_registers), default=0)
    some = product([max((each.min_blocks for each, _ in in_registers), default=0), columns])
    every = product([max((each.min_blocks for each in in_memory), default=1), columns])
    of_multiprocessor: Formula = ("max", every, ("min", some, owned)) if in_registers else every
    of_rows = product([("max", 1, rows), columns])
    kinds = max((each.vec for each in kernels if each.is_shifted), default=1)
    of_kinds = product([kinds - 1, columns])
    return simplified(total([("min", of_rows, product([MULTIPROCESSORS, of_multiprocessor])), of_kinds]))


def _heuristics(kernel: KernelSpec) -> InnerOuterHeuristics:
    """Those of a kernel that walks rows."""
    assert isinstance(kernel.heuristics, InnerOuterHeuristics)
    return kernel.heuristics
