"""How rows lie on chip in :mod:`fusebuild.kernels.persistent.schedule`: its heuristics, and its choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fusebuild.ir.formula import Formula, product
from fusebuild.kernels.common.rows import RowChoice, RowThreads


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentHeuristics:
    """``storage`` is registers, shared, cluster or reread; ``chunks`` the vectors of a row that a thread keeps
    (registers and cluster only); ``cached`` the inputs that are kept, ``kept`` the values that later sweeps take from
    the one that computes them."""

    threads: RowThreads
    storage: str
    chunks: int
    cached: tuple[int, ...]
    kept: tuple[int, ...] = ()

    @property
    def in_registers(self) -> bool:
        return self.storage in ("registers", "cluster")

    def grid(self, rows: Formula) -> Formula:
        """Blocks for ``rows`` rows."""
        return self.threads.grid(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHeuristics(PersistentHeuristics):
    """``cluster`` neighbouring blocks walk a row together, their vectors in turn. So many vectors ``ahead`` of the one
    at hand the last sweep loads what is not kept, the first ones before the last exchange."""

    cluster: int
    ahead: int

    def grid(self, rows: Formula) -> Formula:
        return product([self.cluster, rows])

    @property
    def capacity(self) -> int:
        """Vectors of the longest row that the cluster keeps."""
        return self.cluster * self.threads.per_row * self.chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class FewRowsHeuristics(PersistentHeuristics):
    """Vectors beyond the row are loaded as its last one where they are ``clamped``, else not at all."""

    clamped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterChoice(RowChoice):
    """How a row lies in registers: ``keeps`` costly values beside inputs or computes them again."""

    FEWER: ClassVar[tuple[str, ...]] = ("keeps", "threads_per_row")

    keeps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice(RegisterChoice):
    """How a row lies in the registers of ``cluster`` neighbouring blocks."""

    MORE: ClassVar[tuple[str, ...]] = ("cluster", "threads_per_row")

    cluster: int
