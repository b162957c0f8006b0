"""Where the boxes and edges of a segment graph are drawn: a layered layout, from top to bottom.

Layers come from the longest path, with a limit to their width; the order within a layer from sweeps of barycenters that
keep the order with the fewest crossings; positions from least squares that keep this order (Sugiyama, Tagawa and Toda,
"Methods for Visual Understanding of Hierarchical System Structures", 1981). An edge that passes a layer has a lane in
it, so no edge runs behind a box or a label: they cross only between layers. Lengths are in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

LANE_WIDTH = 26
LABEL_HEIGHT = 52
"""Below a box: the line of a tensor with its name, type and size beside it."""
_GAP = 44
_ARROW = 9
_LABEL_MARGIN = 14
"""From the left end of a label's room to its line."""
_SWEEPS = 12

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A segment to be placed: ``left`` and ``right`` of a box of ``width`` and ``height`` is room for small nodes. The
    box is at least as wide as the labels of what it writes, which stand below it."""

    id: int
    width: float
    height: float
    left: float = 0
    right: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """A tensor that box ``source`` hands to the boxes ``targets``, which run later. ``label_width`` has its margin."""

    id: int
    source: int
    targets: tuple[int, ...]
    label_width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNet:
    """The lines of one net as SVG paths: ``trunk`` is shared, each of ``branches`` ends in an arrow at a target. The
    label stands right of ``(x, y)``."""

    x: float
    y: float
    trunk: str
    branches: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedGraph:
    """``boxes`` has the top left corner of each box itself, without the small nodes beside it."""

    width: float
    height: float
    boxes: Mapping[int, Point]
    nets: Mapping[int, PlacedNet]


@dataclass(slots=True, eq=False)
class _Item:
    """What takes room in a layer: a box with what is beside and below it, or a lane of a net."""

    layer: int
    width: float
    box: Box | None = None
    x: float = 0  # of the middle of all its room
    above: list[_Item] = field(default_factory=list)
    below: list[_Item] = field(default_factory=list)

    @property
    def offset(self) -> float:
        """From its middle to that of the box itself, where its edges are."""
        return 0.0 if self.box is None else (self.box.left - self.box.right) / 2

    @property
    def joint(self) -> float:
        return self.x + self.offset


def layout(boxes: Sequence[Box], nets: Sequence[Net]) -> PlacedGraph:
    """Place ``boxes``, which are in run order, and route ``nets``."""
    drawing = _Drawing(boxes, nets)
    drawing.order()
    drawing.place()
    return drawing.finished()


def layers_of(boxes: Sequence[Box], nets: Sequence[Net]) -> dict[int, int]:
    """The layer of each box: below those it reads from, and no layer wider than about the square root of all."""
    limit = max(4, math.isqrt(len(boxes)))
    taken: dict[int, int] = {}
    layer: dict[int, int] = {}
    for box in boxes:
        sources = [layer[net.source] for net in nets if box.id in net.targets]
        chosen = max(sources, default=-1) + 1
        while taken.get(chosen, 0) >= limit:
            chosen += 1
        layer[box.id] = chosen
        taken[chosen] = taken.get(chosen, 0) + 1
    return layer


class _Drawing:
    def __init__(self, boxes: Sequence[Box], nets: Sequence[Net]) -> None:
        layer = layers_of(boxes, nets)
        self._nets = [net for net in nets if net.targets]
        self._items: dict[int, _Item] = {}
        self._layers: list[list[_Item]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
        for box in boxes:
            item = _Item(layer[box.id], box.left + box.width + box.right, box=box)
            self._items[box.id] = item
            self._layers[item.layer].append(item)
        self._after: dict[int, list[_Item]] = {}  # what follows the source of each net in the next layer
        self._routes = {net.id: self._route(net) for net in self._nets}

    def _route(self, net: Net) -> dict[int, _Item]:
        """The item that ``net`` comes from in each layer down to the one above its last target."""
        source = self._items[net.source]
        last = max(self._items[target].layer for target in net.targets)
        route = {source.layer: source}
        for layer in range(source.layer + 1, last):
            route[layer] = _Item(layer, LANE_WIDTH)
            self._layers[layer].append(route[layer])
        ends = [self._items[target] for target in net.targets]
        links = [(route[layer], route[layer + 1]) for layer in range(source.layer, last - 1)]
        links += [(route[end.layer - 1], end) for end in ends]
        for upper, lower in links:
            upper.below.append(lower)
            lower.above.append(upper)
        self._after[net.id] = [lower for upper, lower in links if upper is source]
        return route

    def order(self) -> None:
        """Sort each layer by the middle of what it is joined to, down and up in turn; keep the best order seen."""
        best, fewest = [list(layer) for layer in self._layers], self._crossings()
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for layer in self._layers if down else reversed(self._layers):
                place = {item: index for other in self._layers for index, item in enumerate(other)}
                middle = {item: _mean([place[joined] for joined in (item.above if down else item.below)], place[item])
                          for item in layer}  # fmt: skip
                layer.sort(key=middle.__getitem__)
            if (crossings := self._crossings()) < fewest:
                best, fewest = [list(layer) for layer in self._layers], crossings
        self._layers = best

    def _crossings(self) -> int:
        count = 0
        for upper, lower in pairwise(self._layers):
            place = {item: index for index, item in enumerate(lower)}
            ends = [place[end] for item in upper for end in sorted(item.below, key=place.__getitem__)]
            count += sum(a > b for index, b in enumerate(ends) for a in ends[:index])
        return count

    def place(self) -> None:
        """Middles: as near as the order allows to the middle of what an item is joined to, above and below."""
        for layer in self._layers:
            _pack(layer, [0.0] * len(layer))
        for sweep in range(2 * _SWEEPS):
            for layer in self._layers if sweep % 2 == 0 else reversed(self._layers):
                wanted = [
                    _mean([joined.joint for joined in (*item.above, *item.below)], item.joint) - item.offset
                    for item in layer
                ]
                _pack(layer, wanted)
        left = min((item.x - item.width / 2 for layer in self._layers for item in layer), default=0.0)
        for layer in self._layers:
            for item in layer:
                item.x += _GAP / 2 - left

    def finished(self) -> PlacedGraph:
        tops, height = self._tops()
        boxes = {
            id: (item.joint - item.box.width / 2, tops[item.layer])
            for id, item in self._items.items()
            if item.box is not None
        }
        exits = self._exits(boxes)
        nets = {net.id: self._drawn(net, boxes, exits, tops) for net in self._nets}
        right = max((item.x + item.width / 2 for layer in self._layers for item in layer), default=0.0)
        return PlacedGraph(width=right + _GAP / 2, height=height, boxes=boxes, nets=nets)

    def _tops(self) -> tuple[list[float], float]:
        """The upper edge of each layer, and the height of all. Where more edges turn there is more room."""
        tops, y = [], _GAP / 2
        for layer in self._layers:
            tops.append(y)
            turns = sum(len(item.below) for item in layer)
            y += self._height(layer) + (28 + min(10 * turns, 90) if turns else _GAP)
        return tops, y

    @staticmethod
    def _height(layer: Sequence[_Item]) -> float:
        """Of the boxes of ``layer`` with the labels below them."""
        has_labels = any(item.below for item in layer if item.box is not None)
        return max((item.box.height for item in layer if item.box), default=0.0) + LABEL_HEIGHT * has_labels

    def _exits(self, boxes: Mapping[int, Point]) -> dict[int, Point]:
        """Where each net leaves its source: side by side below the box, in the order of where they go."""
        exits: dict[int, Point] = {}
        for source, item in self._items.items():
            assert item.box is not None
            own = [net for net in self._nets if net.source == source]
            own.sort(key=lambda net: _mean([after.joint for after in self._after[net.id]], 0.0))
            x = item.joint - sum(net.label_width for net in own) / 2
            for net in own:
                exits[net.id] = (x + _LABEL_MARGIN, boxes[source][1] + item.box.height)
                x += net.label_width
        return exits

    def _entry(self, net: Net, target: int, boxes: Mapping[int, Point], exits: Mapping[int, Point]) -> Point:
        """Where ``net`` enters ``target``: side by side at its top, in the order of where they come from."""
        item = self._items[target]
        assert item.box is not None

        def comes_from(other: Net) -> float:
            before = self._routes[other.id][item.layer - 1]
            return exits[other.id][0] if before.box is not None else before.x

        coming = sorted((other for other in self._nets if target in other.targets), key=comes_from)
        x, y = boxes[target]
        return x + item.box.width * (coming.index(net) + 1) / (len(coming) + 1), y

    def _drawn(
        self, net: Net, boxes: Mapping[int, Point], exits: Mapping[int, Point], tops: Sequence[float]
    ) -> PlacedNet:
        x, y = exits[net.id]
        trunk = ""
        ends: dict[int, Point] = {}
        for layer, item in sorted(self._routes[net.id].items()):
            bottom = tops[layer] + self._height(self._layers[layer])
            if item.box is not None:
                trunk += f"M{x:.0f} {y:.0f}V{bottom:.0f}"
                ends[layer] = x, bottom
            else:
                trunk += f"{_curve(ends[layer - 1], (item.x, tops[layer]))}V{bottom:.0f}"
                ends[layer] = item.x, bottom
        branches = []
        for target in net.targets:
            end_x, end_y = self._entry(net, target, boxes, exits)
            start = ends[self._items[target].layer - 1]
            branches.append(f"M{start[0]:.0f} {start[1]:.0f}{_curve(start, (end_x, end_y - _ARROW))}")
        return PlacedNet(x=x, y=y, trunk=trunk, branches=tuple(branches))


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _curve(start: Point, end: Point) -> str:
    """From ``start``, where the pen is, to ``end``, leaving and arriving downwards."""
    middle = (start[1] + end[1]) / 2
    return f"C{start[0]:.0f} {middle:.0f} {end[0]:.0f} {middle:.0f} {end[0]:.0f} {end[1]:.0f}"


def _pack(layer: Sequence[_Item], wanted: Sequence[float]) -> None:
    """Give the items of ``layer`` the middles with the least squared distance to ``wanted`` that keep order and gaps.

    With the gaps taken out this is isotonic regression, solved by pooling adjacent violators.
    """
    offsets, blocks = [], []  # a block is (sum, count): neighbours that touch
    offset = 0.0
    for index, item in enumerate(layer):
        offset += (layer[index - 1].width + item.width) / 2 + _GAP if index else 0.0
        offsets.append(offset)
    for want, offset in zip(wanted, offsets, strict=True):
        blocks.append((want - offset, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1] = (blocks[-1][0] + total, blocks[-1][1] + count)
    middles = [total / count for total, count in blocks for _ in range(count)]
    for item, middle, offset in zip(layer, middles, offsets, strict=True):
        item.x = middle + offset
