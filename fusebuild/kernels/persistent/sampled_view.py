"""The view of rows in blocks that stay with what all rows share and what those of a sample do.

:mod:`fusebuild.kernels.persistent.resident_view` says what a thread has of a row. A walker takes up what stays where a
row is of another sample than the one before, or begins at another place of a vector: copies of that are on their way
until the first sweep that reads it, the last one most often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fusebuild.kernels.common.rows_view import crossing_rows
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.view import KernelView, Lifetime, Lines, Sweep, is_named, join
from fusebuild.kernels.persistent.edges import Edge
from fusebuild.kernels.persistent.long_rows import SampledHeuristics
from fusebuild.kernels.persistent.resident_view import Walk


def inner_sampled(spec: KernelSpec) -> KernelView:
    heuristics, rows = spec.heuristics, crossing_rows(spec)
    assert isinstance(heuristics, SampledHeuristics)
    staying = (*heuristics.resident, *heuristics.of_samples)
    edge = Edge(spec, rows, (*heuristics.cached, *staying))
    walk = SampledWalk(heuristics=heuristics, rows=rows, edge=edge, staying=staying, places="kPlaces")
    lifetimes = (walk.stays(), walk.stays_for_sample())
    return walk.view(spec, {*heuristics.cached, *heuristics.resident}, lifetimes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledWalk(Walk):
    """A walk over neighbouring rows, without tickets."""

    @property
    def tickets(self) -> tuple[str, ...]:
        return ()

    def stays(self) -> Lifetime:
        return replace(self._copied(self.heuristics.resident, "T{0}"), arrays=self.shared())

    def stays_for_sample(self) -> Lifetime:
        """What stays until a row is of another sample."""
        assert isinstance(self.heuristics, SampledHeuristics)
        body, fids = self.rows.body, self.heuristics.of_samples
        asked = {body.domain.accesses[fid].axes: fid for fid in fids}.values()  # of those that change together, one
        return replace(
            self._copied(fids, "r{0}"),
            coordinates=tuple(f"r{fid} != held{fid}" for fid in asked),
            arrays=tuple(f"const {body.c_type(fid)}* held{fid} = nullptr;" for fid in asked),
            resets=tuple(f"held{fid} = r{fid};" for fid in asked),
        )

    def waiting(self, sweeps: Sequence[Sweep]) -> tuple[Sweep, ...]:
        """The first of the ``sweeps`` that reads what stays waits for the copies."""
        reads = [any(is_named(f"h{fid}", sweep.loads) for fid in self.staying) for sweep in sweeps]
        waits = (Sweep(coordinates=self._arrival() if at == reads.index(True) else ()) for at in range(len(sweeps)))
        return tuple(join(wait, sweep) for wait, sweep in zip(waits, sweeps, strict=True))

    def _arrival(self) -> Lines:
        """Waits until the copies for a row of another sample have come."""
        shared, own = self.stays().steady.merged, self.stays_for_sample().steady.merged
        return (
            "if (is_other) {",
            "  const int vectors = start < edges.end() ? (edges.end() - start - 1) / kStep + 1 : 0;  // of the thread",
            "  fb::wait_copies<0>();",
            "  fb::sync_block();",
            *(("  if (is_elsewhere) {", *(f"    {line}" for line in shared), "  }") if shared else ()),
            *(f"  {line}" for line in own),
            "}",
        )

    def _copied(self, fids: Sequence[int], row: str) -> Lifetime:
        """What brings inputs ``fids`` from the ``row`` of each, a format of the fid, to where they stay."""
        copy, align = (
            f"fb::copy_around(h{{0}} + c * kPlaces, {row} + col, has_next);",
            f"fb::align_words<kChunks>(h{{0}}, kPlaces, fb::place_of({row} + start) % kVec, vectors);",
        )
        return Lifetime(
            steady=Sweep(
                loads=tuple(copy.format(fid) for fid in fids),
                element=tuple(f"e{fid} = {row.format(fid)}[edge];" for fid in fids),
                merged=tuple(align.format(fid) for fid in fids),
            )
        )
