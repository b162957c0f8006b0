"""Which segments walk their tensors from the end, to find in L2 what the segment before touched last.

A kernel walks a large tensor from its beginning, as the order of blocks says, and leaves in L2 the end of it. One that
reads the same tensor next and begins at its beginning finds nothing: whatever it loads evicts what it would have found.
So it walks **backwards**, and the next one that shares a tensor with it forwards again.

This is said here, and not by schedulers, which see one task: it follows from the order of segments alone, neither from
sizes (small tensors stay in L2 anyway) nor from anything that is tuned, and no result depends on it.
"""

from __future__ import annotations

from fusebuild.kernels.common.family import Runs
from fusebuild.kernels.common.spec import any_domain
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.segmentation.segmented import Segment, SegmentedFusion


def backward_segments(segmented: SegmentedFusion) -> frozenset[int]:
    """The ids of the segments whose kernels walk backwards: those that can, and read a tensor that the last kernel
    before them walked forwards. Views, which have no kernel, do not count as one; members of a group run together and
    all walk forwards."""
    backward = set[int]()
    forward: Segment | None = None
    for segment in segmented.segments:
        if segment.family.runs is Runs.NOTHING:
            continue
        read = _walked(segment).intersection(segment.inputs)
        turns = segment.family.walks_either_way and segment.member is None
        if forward is not None and turns and not read.isdisjoint(_walked(forward)):
            backward.add(segment.id)
            forward = None
        else:
            forward = segment
    return frozenset(backward)


def _walked(segment: Segment) -> frozenset[int]:
    """The original fids of the tensors that ``segment`` walks once from one end to the other: those that change along
    all of its axes and hold them in its order. Libraries walk as they like."""
    try:
        domain = any_domain(segment.fusion.whole())
    except UnfitError:
        return frozenset()
    return frozenset(
        original
        for fid, original in segment.fid_map.items()
        if fid in domain.accesses and domain.accesses[fid].axes == domain.every and fid not in domain.domain.reordered
    )
