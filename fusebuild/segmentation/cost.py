"""What a cut costs: the predicted seconds of its segments, each launched on its own and bound by memory traffic.

``cost = sum over segments of (HBM bytes / bandwidth + launch)``. Every tensor that a segment reads or writes counts
once a segment, stride-0 and broadcast dims at their real footprint, and what only index ops read no more than they take
of it (:mod:`fusebuild.ops.footprint`). Arithmetic is free beside memory. Symbols have the sizes of the first case;
without one, or for a symbol it does not name, :data:`~fusebuild.kernels.common.spec.DEFAULT_EXTENT`."""

from __future__ import annotations

from collections.abc import Container, Iterable

from fusebuild.ir.formula import Formula, evaluate, symbols
from fusebuild.ir.fusion import Fusion
from fusebuild.kernels.common.spec import DEFAULT_EXTENT
from fusebuild.ops.footprint import is_in_place, is_taken_from, taken_bytes, written_bytes
from fusebuild.target.table import Target

VIEW_SECONDS = 1e-9
"""What a task that only views memory costs: next to nothing, but more than no task."""


MOST_BYTES = 2**48
"""As many bytes as any tensor counts for. Sizes that nobody named may multiply to more than there is anywhere, and
what takes longest must still cost less than what no scheduler takes (:data:`~fusebuild.segmentation.draft.REJECTED`).
"""


class CostModel:
    """Predicted bytes and seconds for one Fusion on one target."""

    def __init__(self, fusion: Fusion, target: Target) -> None:
        self.bandwidth, self.launch_seconds = target.bandwidth, target.launch_seconds
        self._fusion = fusion
        self._sizes = dict(fusion.cases[0]) if fusion.cases else {}
        self._bytes: dict[int, int] = {}
        self._taken: dict[tuple[int, tuple[int, ...]], int] = {}
        self._taken_from = {
            fid for fid, value in fusion.values.items() if value.is_tensor and is_taken_from(fusion, fid)
        }
        self._layout = {output.fid: output.alias for output in fusion.outputs if output.alias is not None}

    def bytes_of(self, fid: int) -> int:
        """Bytes of the distinct elements of the tensor ``fid``; 0 for a scalar, also for one in host memory."""
        if fid not in self._bytes:
            value = self._fusion.value(self._layout.get(fid, fid))
            counts = value.is_tensor and not value.tensor.cpu
            self._bytes[fid] = self._size(value.tensor.nbytes) if counts else 0
        return self._bytes[fid]

    def bytes_read(self, fid: int, exprs: Container[int]) -> int:
        """Bytes of the tensor ``fid`` that a task of ``exprs`` reads."""
        if fid not in self._taken_from:
            return self.bytes_of(fid)
        readers = tuple(index for index in self._fusion.uses(fid) if index in exprs)
        if (fid, readers) not in self._taken:
            taken = taken_bytes(self._fusion, fid, readers)
            whole = self.bytes_of(fid)
            self._taken[fid, readers] = whole if taken is None else min(whole, self._size(taken))
        return self._taken[fid, readers]

    def least_bytes_read(self, fid: int) -> int:
        """Bytes of the tensor ``fid`` that any task at least reads which reads it, itself and not as a view."""
        return min((self.bytes_read(fid, (index,)) for index in self._fusion.uses(fid)), default=0)

    def task_bytes(self, exprs: Container[int], reads: Iterable[int], writes: Iterable[int]) -> int:
        """Bytes that a task of ``exprs`` moves which reads and writes these tensors."""
        read = sum(self.bytes_read(fid, exprs) for fid in dict.fromkeys(reads))
        return read + sum(self.bytes_written(fid) for fid in dict.fromkeys(writes))

    def bytes_written(self, fid: int) -> int:
        """Bytes of the tensor ``fid`` that the task writes which makes it."""
        expr = self._fusion.expr_of(fid)
        is_part = expr is not None and is_in_place(self._fusion, expr)
        return min(self.bytes_of(fid), self._size(written_bytes(self._fusion, fid))) if is_part else self.bytes_of(fid)

    def _size(self, formula: Formula) -> int:
        known = {name: self._sizes.get(name, DEFAULT_EXTENT) for name in symbols(formula)}
        return max(0, min(evaluate(formula, known), MOST_BYTES))

    def total_bytes(self, fids: Iterable[int]) -> int:
        """Bytes of all of ``fids``, in the order given once each."""
        return sum(self.bytes_of(fid) for fid in dict.fromkeys(fids))

    def seconds(self, hbm_bytes: int, launches: int = 1) -> float:
        """Predicted time of ``launches`` kernels that move ``hbm_bytes``."""
        return hbm_bytes / self.bandwidth + launches * self.launch_seconds
