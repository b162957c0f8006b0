"""The view of rows in blocks that stay with what all rows share and what those of a sample do.

:mod:`fusebuild.kernels.persistent.resident_view` says what a thread has of a row. A walker takes up what stays where a
row is of another sample than the one before, or begins at another place of a vector.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.kernels.common.rows_view import crossing_rows
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.view import KernelView, Lifetime
from fusebuild.kernels.persistent.edges import Edge
from fusebuild.kernels.persistent.long_rows import SampledHeuristics
from fusebuild.kernels.persistent.resident_view import Walk


def inner_sampled(spec: KernelSpec) -> KernelView:
    heuristics, rows = spec.heuristics, crossing_rows(spec)
    assert isinstance(heuristics, SampledHeuristics)
    staying = (*heuristics.resident, *heuristics.of_samples)
    edge = Edge(spec, rows, (*heuristics.cached, *staying))
    walk = SampledWalk(heuristics=heuristics, rows=rows, edge=edge, staying=staying)
    return walk.view(spec, {*walk.there}, (walk.stays(), walk.stays_for_sample(heuristics.of_samples)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledWalk(Walk):
    """A walk over neighbouring rows, without tickets."""

    @property
    def tickets(self) -> tuple[str, ...]:
        return ()

    def stays_for_sample(self, fids: tuple[int, ...]) -> Lifetime:
        """What inputs ``fids`` leave with a block until a row is of another sample."""
        body = self.rows.body
        return Lifetime(
            coordinates=tuple(f"r{fid} != held{fid}" for fid in fids),
            arrays=tuple(f"const {body.c_type(fid)}* held{fid} = nullptr;" for fid in fids),
            steady=self.fetched(fids, "r{0}", "load_cut_anywhere<kVec>({})"),
            resets=tuple(f"held{fid} = r{fid};" for fid in fids),
            blanks=tuple(f"held{fid} = nullptr;" for fid in fids),
        )
