"""What a thread does for an element of its row that no aligned vector has: the column ``edge``, in straight lines.

Of input 3 a thread has that element in ``e3``, as it has an element of a vector in ``v3[k]``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from fusebuild.kernels.common.rows_view import Rows
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.common.view import Lines, accumulate
from fusebuild.kernels.persistent.view import Kept

ELEMENT = "e{}"


class Edge:
    """Statements of ``rows`` for one element. Inputs that are ``there`` have been loaded before; values ``kept`` are
    left in registers by the first sweep that needs them."""

    def __init__(self, spec: KernelSpec, rows: Rows, there: Container[int], kept: Sequence[int] = ()) -> None:
        column = replace(rows.column, name="edge")
        self._rows = replace(rows, body=Body(replace(spec, vec=1)), column=column, cross=False)
        self._there = there
        self._kept = Kept(self._rows.body, kept, place=ELEMENT, element=ELEMENT)

    def declarations(self, fids: Iterable[int], name: str = ELEMENT) -> Lines:
        """Variables for the element of each of ``fids``."""
        return tuple(f"{self._rows.body.c_type(fid)} {name.format(fid)}{{}};" for fid in fids)

    def reducing(self, indices: Sequence[int], operands: Sequence[int]) -> Lines:
        """Combines the element, of which the reductions at ``indices`` need ``operands``."""
        return (*self.computing(operands), *accumulate(self._rows.body, indices).accumulate)

    def computing(self, targets: Sequence[int]) -> Lines:
        """Computes the element's ``targets``."""
        sweep = self._kept.around(self._rows, targets, self._loads)
        return (*sweep.coordinates, *sweep.loads, *sweep.vector, *sweep.element)

    def storing(self, outputs: Sequence[int]) -> Lines:
        """Puts the element of ``outputs``, which change along the row, where it belongs."""
        body = self._rows.body
        value = {fid: body.own_operand(fid) for fid in outputs}
        stores = (f"{self._rows.element(fid)} = {value[fid]};" for fid in outputs)
        return (*self.computing(outputs), *stores)

    def _loads(self, fid: int) -> Lines:
        if fid in self._there:
            return ()
        return (f"const {self._rows.body.c_type(fid)} e{fid} = {self._rows.element(fid)};",)
