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
from msgspec import UNSET

from fusebuild.artifact.kernel_resources import resources_text
from fusebuild.artifact.plan import PlanSegment, PlanValue, as_formula
from fusebuild.errors import UsageError, one_line
from fusebuild.ir.fid import OriginalFid
from fusebuild.ir.formula import show
from fusebuild.ir.fusion import Fusion
from fusebuild.report.inspection import Inspection, bytes_text, knobs_text, stored_bytes
from fusebuild.report.layout import Box, Layout, Net, PlacedNet, layout
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
    """A tensor in words. ``size`` is for reading (``117 MB``), ``exact`` has every byte and the formula."""

    fid: int
    name: str
    type: str
    size: str
    exact: str
    kind: str


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
    """A segment as drawn."""

    id: int
    scheduler: str
    size: str
    notes: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A boundary as drawn; ``thickness`` says how many bytes it has among all."""

    tensor: TensorText
    lines: PlacedNet
    thickness: float
    color: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a segment is cut from another: ``cut`` names it, each of ``rejections`` is a scheduler's."""

    cut: str
    rejections: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDetails:
    """What the page tells of a segment when it is chosen. ``variants`` have a name, a guard and their kernels, each
    with what it takes of the chip; ``eased`` says what was chosen otherwise because kernels spilled."""

    id: int
    scheduler: str
    exact: str
    inputs: tuple[TensorText, ...]
    outputs: tuple[TensorText, ...]
    fid_map: tuple[tuple[int, TensorText], ...]
    rematerialized: tuple[str, ...]
    variants: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]
    eased: tuple[str, ...]
    reasons: tuple[Reason, ...]
    call: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorDetails:
    """What the page tells of a tensor: who writes it (None: the caller gives it), who reads it."""

    tensor: TensorText
    producer: int | None
    consumers: tuple[int, ...]
    view_of: TensorText | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything that the template shows."""

    fusion: str
    doc: str
    target: str
    case: str
    totals: tuple[tuple[str, str], ...]
    width: float
    height: float
    boxes: tuple[SegmentBox, ...]
    edges: tuple[Edge, ...]
    segments: tuple[SegmentDetails, ...]
    tensors: tuple[TensorDetails, ...]
    boundaries: tuple[TensorDetails, ...]


def render_page(inspection: Inspection, fusion: Fusion) -> str:
    """The page for ``inspection`` of ``fusion``, as the recipe says it: its doc, and the names of values that the plan
    does not name because no memory holds them."""
    return _environment().get_template("page.html.jinja").render(page=_Pages(inspection, fusion).page())


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
    made.filters["shortened"] = shortened
    return made


class _Pages:
    """Makes the page of one inspection."""

    def __init__(self, inspection: Inspection, fusion: Fusion) -> None:
        self._inspection, self._fusion = inspection, fusion
        self._plan = inspection.plan
        self._segments = inspection.segments
        self._report = inspection.report
        self._writer = {fid: each.id for each in self._segments for fid in each.outputs}
        self._readers: dict[int, list[int]] = {}
        for each in self._segments:
            for fid in each.inputs:
                self._readers.setdefault(fid, []).append(each.id)
        self._outputs = {output.fid for output in self._plan.outputs}
        self._views = {view: source for each in self._segments for view, source in each.views.items()}
        self._boundaries = [value.fid for value in inspection.boundaries]
        self._nets = [self._net(fid) for fid in self._boundaries]

    def page(self) -> Page:
        sides = {each.id: self._sides(each) for each in self._segments}
        placed = layout([self._box(each, *sides[each.id]) for each in self._segments], self._nets)
        case = "no case" if self._inspection.sizes is None else _equations(self._inspection.sizes) or "constant sizes"
        shown = sorted({*self._plan.inputs, *self._outputs, *self._writer})
        return Page(
            fusion=self._plan.fusion,
            doc=self._fusion.doc.strip(),
            target=self._inspection.target,
            case=case,
            totals=self._totals(),
            width=math.ceil(placed.width),
            height=math.ceil(placed.height),
            boxes=tuple(self._drawn_box(each, sides[each.id], placed) for each in self._segments),
            edges=self._edges(placed),
            segments=tuple(self._segment(each) for each in self._segments),
            tensors=tuple(self._tensor_details(fid) for fid in shown),
            boundaries=tuple(self._tensor_details(fid) for fid in self._boundaries),
        )

    def _totals(self) -> tuple[tuple[str, str], ...]:
        sizes = [self._inspection.bytes_of(stored_bytes(self._plan.value(fid))) for fid in self._boundaries
                 if fid not in self._views]  # fmt: skip
        crossing = _size_text(sum(size or 0 for size in sizes)) if None not in sizes else ""
        kernels = {kernel for segment in self._report.segments for kernel in segment.kernels}
        return (
            ("segments", str(len(self._segments))),
            ("kernels", str(len(kernels))),
            ("boundaries", f"{len(self._boundaries)}{f', {crossing}' if crossing and self._boundaries else ''}"),
            ("read and written", _size_text(self._report.hbm_bytes, self._report.hbm_bytes_formula)),
        )

    def _text(self, fid: int) -> TensorText:
        value = self._plan.value(fid)
        formula = stored_bytes(value) if value.kind == "tensor" else 0
        count = self._inspection.bytes_of(formula)
        is_intermediate = fid not in self._plan.inputs and fid not in self._outputs
        kind = "input" if fid in self._plan.inputs else "intermediate" if is_intermediate else "output"
        return TensorText(
            fid=fid,
            name=value.name,
            type=_type_text(value),
            size=_size_text(count, show(formula)) if value.kind == "tensor" else "scalar",
            exact=bytes_text(count, show(formula)) if value.kind == "tensor" else "passed by value",
            kind=kind,
        )

    def _sides(self, segment: PlanSegment) -> tuple[list[TensorText], list[TensorText]]:
        """The inputs and outputs of the fusion that ``segment`` reads and writes: the small nodes beside it."""
        reads = [self._text(fid) for fid in segment.inputs if fid in self._plan.inputs]
        return reads, [self._text(fid) for fid in segment.outputs if fid in self._outputs]

    def _box(self, segment: PlanSegment, reads: Sequence[TensorText], writes: Sequence[TensorText]) -> Box:
        coming = sum(fid in self._boundaries for fid in segment.inputs)
        labels = sum(net.label_width for net in self._nets if net.source == segment.id)
        rows = max(len(reads), len(writes), 3)
        return Box(
            id=segment.id,
            width=max(_BOX_WIDTH, 26.0 * (coming + 1), labels),
            height=rows * _NODE_STEP + 6,
            left=_side_width(reads),
            right=_side_width(writes),
        )

    def _net(self, fid: OriginalFid) -> Net:
        return Net(
            id=fid,
            source=self._writer[fid],
            targets=tuple(self._readers[fid]),
            label_width=max(_CHARACTER * len(line) for line in _label(self._text(fid))) + _LABEL_MARGIN,
        )

    def _drawn_box(
        self, segment: PlanSegment, sides: tuple[list[TensorText], list[TensorText]], placed: Layout
    ) -> SegmentBox:
        box = self._box(segment, *sides)
        x, y = placed.boxes[segment.id]
        report = self._report.segments[segment.id]
        counts = [_counted(len(report.kernels), "kernel"), _counted(len(segment.variants), "variant")]
        notes = [", ".join(filter(None, counts))]
        if segment.rematerialized:
            notes.append(f"{len(segment.rematerialized)} recomputed")
        return SegmentBox(
            id=segment.id,
            scheduler=segment.scheduler,
            size=_size_text(report.hbm_bytes, report.hbm_bytes_formula),
            notes=tuple(notes),
            x=x,
            y=y,
            width=box.width,
            height=box.height,
            inputs=tuple(_nodes(sides[0], box, x - box.left, y, joins=x)),
            outputs=tuple(_nodes(sides[1], box, x + box.width + _NODE_MARGIN, y, joins=x + box.width)),
        )

    def _edges(self, placed: Layout) -> tuple[Edge, ...]:
        sizes = {fid: self._inspection.bytes_of(stored_bytes(self._plan.value(fid))) or 0 for fid in self._boundaries}
        largest = max(sizes.values(), default=0)
        return tuple(
            Edge(
                tensor=self._text(fid),
                lines=placed.nets[fid],
                thickness=1.5 + (5.5 * math.sqrt(sizes[fid] / largest) if largest else 0.5),
                color=index % 6,
            )
            for index, fid in enumerate(self._boundaries)
        )

    def _segment(self, segment: PlanSegment) -> SegmentDetails:
        report = self._report.segments[segment.id]
        named = {fid: value.name for fid, value in self._fusion.values.items()}
        return SegmentDetails(
            id=segment.id,
            scheduler=segment.scheduler,
            exact=bytes_text(report.hbm_bytes, report.hbm_bytes_formula),
            inputs=tuple(map(self._text, segment.inputs)),
            outputs=tuple(map(self._text, segment.outputs)),
            fid_map=tuple((own, self._text(fid)) for own, fid in sorted(segment.fid_map.items())),
            rematerialized=tuple(f"%{fid} {named.get(fid, '')}".strip() for fid in segment.rematerialized),
            variants=tuple(
                (
                    f"{each.name} (tuned: {knobs_text(each.tuned)})" if each.tuned is not UNSET else each.name,
                    " and ".join(each.guard) or "always",
                    tuple((kernel, self._resources(kernel)) for kernel in each.kernels),
                )
                for each in report.variants
            ),
            eased=tuple(each.as_text() for each in report.eased or ()),
            reasons=tuple(_reason(why) for why in segment.why),
            call=report.call.as_text() if report.call else "",
        )

    def _resources(self, kernel: str) -> str:
        """What ``kernel`` takes of the chip, in words; empty where it is not known."""
        used = self._inspection.resources.get(kernel)
        return resources_text(used) if used is not None else ""

    def _tensor_details(self, fid: OriginalFid) -> TensorDetails:
        return TensorDetails(
            tensor=self._text(fid),
            producer=self._writer.get(fid),
            consumers=tuple(self._readers.get(fid, ())),
            view_of=self._text(self._views[fid]) if fid in self._views else None,
        )


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


def _label(tensor: TensorText) -> tuple[str, str, str]:
    """The three lines beside an edge."""
    return shortened(tensor.name), shortened(tensor.type), tensor.size


def shortened(text: str) -> str:
    """``text``, cut in the middle where a label has no room for it."""
    half = _LONGEST // 2 - 1
    return text if len(text) <= _LONGEST else f"{text[:half]}…{text[-half:]}"


def _type_text(value: PlanValue) -> str:
    if value.kind == "scalar":
        return value.dtype
    return f"{value.dtype}[{', '.join(show(as_formula(extent)) for extent in value.shape)}]"


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


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}" if count else ""


def _equations(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items())


def _reason(why: str) -> Reason:
    cut, _, rejections = why.partition(": ")
    return Reason(cut=cut, rejections=tuple(rejections.split("; ")))
