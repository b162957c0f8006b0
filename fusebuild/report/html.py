"""An inspection as one HTML page: the segments as a graph, and for each segment and tensor what the plan says of it.

The page needs nothing but itself: no scripts, styles, fonts or images from elsewhere, which its content security policy
says too. Every text in it is escaped: names and docs are what people wrote. Equal plans give equal pages.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from fusebuild.artifact.kernel_resources import resources_text
from fusebuild.artifact.plan import PlanSegment
from fusebuild.errors import UsageError, counted, one_line
from fusebuild.ir.fid import OriginalFid
from fusebuild.ir.formula import show
from fusebuild.ir.fusion import Fusion
from fusebuild.report.inspection import InspectedSegment, Inspection, bytes_text, knobs_text, stored_bytes
from fusebuild.report.layout import Box, Net, PlacedGraph, PlacedNet, layout
from fusebuild.runtime.layouts import described
from fusebuild.system.resources import templates_dir

_CHARACTER = 6.7
"""Width of a letter of a label, in pixels; labels are set in a fixed-width font of 11 pixels."""
_SMALL_CHARACTER = 6.1
"""Width of a letter of a small node's second line, in pixels; it is set in a fixed-width font of 10 pixels."""
_LONGEST = 30
"""Letters of a label; what is longer is cut in the drawing and whole in the details."""
_BOX_WIDTH = 168
_LABEL_MARGIN = 36
"""Pixels beside a label: room for the line of its edge, and the distance to the next label."""
_NODE_HEIGHT = 30
_NODE_STEP = 36
"""Pixels from the top of one small node to the top of the next."""
_NODE_MARGIN = 20
"""Pixels between a box and the small nodes beside it: the length of the line that joins them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorText:
    """A tensor in words. ``size`` is for reading (``117 MB``), ``exact`` has every byte and the formula; ``producer``
    is the segment that writes it (None: the caller gives it), ``consumers`` are those that read it, and ``view_of`` is
    the value whose memory it shares."""

    fid: OriginalFid
    name: str
    type: str
    size: str
    exact: str
    kind: str
    producer: int | None
    consumers: Sequence[int]
    view_of: OriginalFid | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An input or output of the fusion beside a box; ``line`` joins them. Coordinates are the top left corner's."""

    tensor: TensorText
    x: float
    y: float
    width: float
    height: float
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentBox:
    """A segment as drawn, with the inputs and outputs of the fusion beside it."""

    segment: InspectedSegment
    size: str
    notes: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A boundary as drawn; ``thickness`` says how many bytes it has among all."""

    tensor: TensorText
    lines: PlacedNet
    thickness: float
    color: int


def render_page(inspection: Inspection, fusion: Fusion) -> str:
    """The page for ``inspection`` of ``fusion``, as the recipe says it: its doc, and the names of values that the plan
    does not name because no memory holds them."""
    return _environment().get_template("page.html.jinja").render(page=_Page(inspection, fusion))


def write_page(path: Path, inspections: Sequence[Inspection], fusion: Fusion) -> None:
    """Write the page for the only one of ``inspections`` to ``path``. Raises :class:`UsageError` where there are
    several, and where the file cannot be written."""
    if len(inspections) != 1:
        names = ", ".join(each.target for each in inspections)
        raise UsageError(f"a page shows one target, not {names}: name one with --arch")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_page(inspections[0], fusion), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {one_line(path)}: {error.strerror}") from None


@functools.cache
def _environment() -> jinja2.Environment:
    made = SandboxedEnvironment(
        loader=jinja2.FileSystemLoader(templates_dir() / "inspect"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
    made.filters |= {"shortened": shortened, "bytes": bytes_text, "knobs": knobs_text, "resources": resources_text}
    return made


class _Page:
    """What the template shows of one inspection."""

    def __init__(self, inspection: Inspection, fusion: Fusion) -> None:
        self.inspection, self.fusion = inspection, fusion
        self.plan, self.report = inspection.plan, inspection.report
        self.case = "no case" if inspection.sizes is None else _equations(inspection.sizes) or "constant sizes"
        self.segments = list(zip(inspection.segments, self.report.segments, strict=True))
        self._writer = {fid: each.id for each in inspection.segments for fid in each.outputs}
        self._readers: dict[int, list[int]] = {}
        for each in inspection.segments:
            for fid in each.inputs:
                self._readers.setdefault(fid, []).append(each.id)
        self._outputs = {output.fid for output in self.plan.outputs}
        self._views = {view: source for each in inspection.segments for view, source in each.views.items()}
        shown = sorted({*self.plan.inputs, *self._outputs, *self._writer})
        self.tensors = [self.tensor(fid) for fid in shown]
        self.boundaries = [self.tensor(value.fid) for value in inspection.boundaries]
        self._bytes = [inspection.bytes_of(stored_bytes(value)) for value in inspection.boundaries]
        self._nets = [_net(tensor) for tensor in self.boundaries]
        self._sides = {each.id: self._beside(each) for each in inspection.segments}
        boxes = [self._box(each) for each in inspection.segments]
        placed = layout(boxes, self._nets)
        self.width, self.height = math.ceil(placed.width), math.ceil(placed.height)
        self.boxes = [
            self._drawn(*each, box, *placed.boxes[box.id]) for each, box in zip(self.segments, boxes, strict=True)
        ]
        self.edges = self._edges(placed)

    def totals(self) -> tuple[tuple[str, str], ...]:
        """What is counted over all segments, with the names of it."""
        own = [size for tensor, size in zip(self.boundaries, self._bytes, strict=True) if tensor.view_of is None]
        crossing = f", {_size_text(sum(size or 0 for size in own))}" if self.boundaries and None not in own else ""
        kernels = {kernel for segment in self.report.segments for kernel in segment.kernels}
        return (
            ("segments", str(len(self.segments))),
            ("kernels", str(len(kernels))),
            ("boundaries", f"{len(self.boundaries)}{crossing}"),
            ("read and written", _size_text(self.report.hbm_bytes, self.report.hbm_bytes_formula)),
            *([("expected", "; ".join(self.report.expected.as_lines()))] if self.report.expected else []),
        )

    def tensor(self, fid: OriginalFid) -> TensorText:
        """The tensor ``fid`` in words."""
        value = self.plan.value(fid)
        formula = stored_bytes(value) if value.kind == "tensor" else 0
        count = self.inspection.bytes_of(formula)
        return TensorText(
            fid=fid,
            name=value.name,
            type=described(value),
            size=_size_text(count, show(formula)) if value.kind == "tensor" else "scalar",
            exact=bytes_text(count, show(formula)) if value.kind == "tensor" else "passed by value",
            kind="input" if fid in self.plan.inputs else "output" if fid in self._outputs else "intermediate",
            producer=self._writer.get(fid),
            consumers=self._readers.get(fid, ()),
            view_of=self._views.get(fid),
        )

    def recomputed(self, segment: PlanSegment) -> str:
        """The values that ``segment`` computes again. Many have no memory, so that only the recipe names them."""
        named = {int(fid): value.name for fid, value in self.fusion.values.items()}
        return ", ".join(f"%{fid} {named.get(fid, '')}".strip() for fid in segment.rematerialized)

    def _beside(self, segment: PlanSegment) -> tuple[list[TensorText], list[TensorText]]:
        """The inputs and outputs of the fusion that ``segment`` reads and writes."""
        reads = [self.tensor(fid) for fid in segment.inputs if fid in self.plan.inputs]
        return reads, [self.tensor(fid) for fid in segment.outputs if fid in self._outputs]

    def _box(self, segment: PlanSegment) -> Box:
        reads, writes = self._sides[segment.id]
        coming = sum(segment.id in net.targets for net in self._nets)
        labels = sum(net.label_width for net in self._nets if net.source == segment.id)
        return Box(
            id=segment.id,
            width=max(_BOX_WIDTH, 26.0 * (coming + 1), labels),
            height=max(len(reads), len(writes), 3) * _NODE_STEP + 6,
            left=_side_width(reads),
            right=_side_width(writes),
        )

    def _drawn(self, segment: PlanSegment, report: InspectedSegment, box: Box, x: float, y: float) -> SegmentBox:
        reads, writes = self._sides[segment.id]
        counts = [counted(len(report.kernels), "kernel"), counted(len(segment.variants), "variant")]
        notes = [", ".join(each for each in counts if not each.startswith("0 "))]
        if segment.rematerialized:
            notes.append(f"{len(segment.rematerialized)} recomputed")
        right = x + box.width
        return SegmentBox(
            segment=report,
            size=_size_text(report.hbm_bytes, report.hbm_bytes_formula),
            notes=tuple(notes),
            x=x,
            y=y,
            width=box.width,
            height=box.height,
            nodes=(
                *_nodes(reads, box, x - box.left, y, joins=x),
                *_nodes(writes, box, right + _NODE_MARGIN, y, joins=right),
            ),
        )

    def _edges(self, placed: PlacedGraph) -> list[Edge]:
        largest = max((size or 0 for size in self._bytes), default=0)
        return [
            Edge(
                tensor=tensor,
                lines=placed.nets[tensor.fid],
                thickness=1.5 + (5.5 * math.sqrt((size or 0) / largest) if largest else 0.5),
                color=index % 6,
            )
            for index, (tensor, size) in enumerate(zip(self.boundaries, self._bytes, strict=True))
        ]


def _net(tensor: TensorText) -> Net:
    assert tensor.producer is not None
    label = (shortened(tensor.name), shortened(tensor.type), tensor.size)
    width = max(_CHARACTER * len(line) for line in label) + _LABEL_MARGIN
    return Net(id=tensor.fid, source=tensor.producer, targets=tuple(tensor.consumers), label_width=width)


def _nodes(tensors: Sequence[TensorText], box: Box, x: float, y: float, *, joins: float) -> Iterable[Node]:
    """Small nodes in a column from ``x``, spread over the height of ``box``; their lines end at ``joins``."""
    width = _side_width(tensors) - _NODE_MARGIN
    spread = box.height / max(len(tensors), 1)
    for index, tensor in enumerate(tensors):
        middle = y + spread * (index + 0.5)
        near = x + width if x < joins else x
        yield Node(
            tensor=tensor,
            x=x,
            y=middle - _NODE_HEIGHT / 2,
            width=width,
            height=_NODE_HEIGHT,
            line=f"M{min(near, joins):.0f} {middle:.0f}H{max(near, joins):.0f}",
        )


def _side_width(tensors: Sequence[TensorText]) -> float:
    """Room for the small nodes of ``tensors`` on one side of a box."""
    if not tensors:
        return 0.0
    longest = max(
        max(_CHARACTER * len(shortened(each.name)), _SMALL_CHARACTER * len(_second_line(each))) for each in tensors
    )
    return longest + 16 + _NODE_MARGIN


def _second_line(tensor: TensorText) -> str:
    return f"{shortened(tensor.type)} {tensor.size}"


def shortened(text: str) -> str:
    """``text``, cut in the middle where a label has no room for it."""
    half = _LONGEST // 2 - 1
    return text if len(text) <= _LONGEST else f"{text[:half]}…{text[-half:]}"


def _size_text(count: int | None, formula: str = "") -> str:
    """``count`` bytes for reading, in steps of a thousand; ``formula`` where the sizes are not known."""
    if count is None:
        return f"{formula} B"
    number, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 999.5 or unit == "TB":
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "B" or number >= 99.95 else f"{number:.3g} {unit}"


def _equations(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items())
