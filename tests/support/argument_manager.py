"""The argument manager: the segments of a Fusion run one by one, in plain Python, over the oracle.

It is what the native executor does, written for reading and for tests (the idea is nvFuser's pull request 3334, where
the original FusionDefinition manages the arguments of its segments). Before a segment runs, its arguments are gathered
by original fid, and sizes by negative fid; after it, its results are stored by original fid, and what no later segment
reads is let go. An input that was overwritten is gone for later segments, as its memory would be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from fusebuild.ir.fid import SegmentFid
from fusebuild.ir.formula import evaluate as evaluate_formula
from fusebuild.oracle.reference import Argument, bind_extents, evaluate
from fusebuild.segmentation import Segment, SegmentedFusion

if TYPE_CHECKING:
    from torch import Tensor

    Run: TypeAlias = Callable[..., Sequence[Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentedRun:
    """What running all segments gave: the outputs in order, and the most intermediates held at once, by number and by
    bytes (of their distinct elements). An output is no intermediate, and neither is an input."""

    outputs: tuple[Tensor, ...]
    most_live: int
    most_live_bytes: int


def run_segments(
    segmented: SegmentedFusion,
    inputs: Sequence[Argument],
    *,
    frees: Sequence[Collection[int]] | None = None,
    run: Run = evaluate,
) -> SegmentedRun:
    """Run ``segmented`` on ``inputs``, which follow the Fusion's; they are not changed.

    ``frees`` has, for each segment, the fids to let go after it: those of a plan (``PlanSegment.frees``), or by default
    :func:`last_reads`. ``run`` runs one segment: it takes its Fusion, its arguments and ``given=``, the sizes it needs
    by symbol. Raises :class:`UsageError` when the inputs do not fit, and ``KeyError`` with the fid when a segment reads
    what was never stored, was let go or was overwritten.
    """
    manager = _ArgumentManager(segmented, inputs)
    after = last_reads(segmented) if frees is None else frees
    for segment, freed in zip(segmented.segments, after, strict=True):
        manager.store(segment, run(segment.fusion, manager.gather(segment), given=manager.sizes(segment.fusion.given)))
        manager.free(freed)
    return SegmentedRun(
        outputs=tuple(manager.tensor(fid) for fid in segmented.fusion.output_fids),
        most_live=manager.most_live,
        most_live_bytes=manager.most_live_bytes,
    )


def last_reads(segmented: SegmentedFusion) -> tuple[tuple[int, ...], ...]:
    """For each segment, the intermediates that it reads or writes and no later segment reads, ascending."""
    last: dict[int, int] = {}
    for segment in segmented.segments:
        last.update(dict.fromkeys((*segment.inputs, *segment.outputs), segment.id))
    kept = {*segmented.fusion.inputs, *segmented.fusion.output_fids}
    return tuple(
        tuple(sorted(fid for fid, reader in last.items() if reader == segment.id and fid not in kept))
        for segment in segmented.segments
    )


class _ArgumentManager:
    """The live arguments by original fid, and the sizes of the symbols."""

    def __init__(self, segmented: SegmentedFusion, inputs: Sequence[Argument]) -> None:
        fusion = segmented.fusion
        self._sizes = bind_extents(fusion, inputs)  # refuses inputs that do not fit
        self._fusion = fusion
        self._arguments: dict[int, Argument] = dict(zip(fusion.inputs, inputs, strict=True))
        self._live: set[int] = set()
        self.most_live = self.most_live_bytes = 0

    def gather(self, segment: Segment) -> list[Argument]:
        """The arguments of ``segment``, in its own order."""
        return [self._arguments[fid] for fid in segment.inputs]

    def sizes(self, symbols: Iterable[str]) -> dict[str, int]:
        """The sizes that ``symbols`` stand for."""
        return {symbol: self._sizes[symbol] for symbol in symbols}

    def store(self, segment: Segment, results: Sequence[Tensor]) -> None:
        """Keep ``results`` by original fid; forget the inputs that they overwrite."""
        self._arguments.update(zip(segment.outputs, results, strict=True))
        for output in segment.fusion.outputs:
            if output.alias is not None:
                del self._arguments[segment.fid_map[SegmentFid(output.alias)]]
        self._live |= {*segment.outputs} - {*self._fusion.output_fids}
        self.most_live = max(self.most_live, len(self._live))
        self.most_live_bytes = max(self.most_live_bytes, sum(map(self._bytes, self._live)))

    def free(self, fids: Collection[int]) -> None:
        """Let ``fids`` go. Raises ``KeyError`` for one that is no live intermediate."""
        for fid in fids:
            self._live.remove(fid)
            del self._arguments[fid]

    def tensor(self, fid: int) -> Tensor:
        """The output ``fid``."""
        return self._arguments[fid]  # type: ignore[return-value]

    def _bytes(self, fid: int) -> int:
        return evaluate_formula(self._fusion.value(fid).tensor.nbytes, self._sizes)
