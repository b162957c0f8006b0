"""Segmentation: which exprs run together, in which order, and what crosses between them."""

from fusebuild.segmentation.segmented import Segment, SegmentedFusion, extract
from fusebuild.segmentation.segmenter import Search, segment

__all__ = ["Search", "Segment", "SegmentedFusion", "extract", "segment"]
