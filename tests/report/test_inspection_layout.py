"""The layout of a segment graph: nothing overlaps, every edge goes down and arrives, equal graphs are drawn alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from fusebuild.report.layout import LABEL_HEIGHT, Box, Net, PlacedGraph, layers_of, layout

Rectangle = tuple[float, float, float, float]
Graph = tuple[list[Box], list[Net]]


def box(id: int, width: float = 168, height: float = 80, left: float = 0, right: float = 0) -> Box:
    return Box(id=id, width=width, height=height, left=left, right=right)


def net(id: int, source: int, *targets: int, label_width: float = 100) -> Net:
    return Net(id=id, source=source, targets=targets, label_width=label_width)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 14))
    nets = []
    for source in range(count - 1):
        for _ in range(draw(st.integers(0, 2))):
            targets = draw(st.sets(st.integers(source + 1, count - 1), min_size=1, max_size=3))
            nets.append(net(100 + len(nets), source, *sorted(targets), label_width=draw(st.integers(40, 220))))
    boxes = []
    for number in range(count):
        labels = sum(each.label_width for each in nets if each.source == number)
        sides = draw(st.sampled_from([(0, 0), (200, 0), (0, 150), (180, 180)]))
        boxes.append(box(number, max(168, labels), draw(st.sampled_from([80, 150, 300])), *sides))
    return boxes, nets


def rooms(boxes: list[Box], placed: PlacedGraph) -> dict[int, Rectangle]:
    """Left, top, right and bottom of each box with the small nodes beside it."""
    found = {}
    for each in boxes:
        x, y = placed.boxes[each.id]
        found[each.id] = (x - each.left, y, x + each.width + each.right, y + each.height)
    return found


def labels(nets: list[Net], placed: PlacedGraph) -> dict[int, Rectangle]:
    return {
        each.id: (placed.nets[each.id].x, placed.nets[each.id].y,
                  placed.nets[each.id].x + each.label_width - 14, placed.nets[each.id].y + LABEL_HEIGHT)
        for each in nets
    }  # fmt: skip


def layers(placed: PlacedGraph) -> list[list[int]]:
    """The ids of the boxes in each layer, from left to right and from top to bottom."""
    tops = sorted({y for _, y in placed.boxes.values()})
    return [
        sorted((id for id, (_, y) in placed.boxes.items() if y == top), key=placed.boxes.__getitem__) for top in tops
    ]


def overlap(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] - 0.01 and b[0] < a[2] - 0.01 and a[1] < b[3] - 0.01 and b[1] < a[3] - 0.01


def points(path: str) -> Iterator[tuple[float, float]]:
    """Where the path's pieces end, in order."""
    x = y = 0.0
    for command, arguments in re.findall(r"([MVC])([^MVC]*)", path):
        numbers = [float(number) for number in arguments.split()]
        x, y = (x, numbers[0]) if command == "V" else (numbers[-2], numbers[-1])
        yield x, y


@given(graph=graphs())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_nothing_overlaps(graph: Graph) -> None:
    boxes, nets = graph
    placed = layout(boxes, nets)
    taken = [*rooms(boxes, placed).values(), *labels(nets, placed).values()]
    assert not [pair for pair in combinations(taken, 2) if overlap(*pair)]
    assert min(min(left, top) for left, top, _, _ in taken) >= 0
    assert max(right for _, _, right, _ in taken) <= placed.width
    assert max(bottom for *_, bottom in taken) <= placed.height


@given(graph=graphs())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_edges_go_down_past_the_boxes_and_arrive(graph: Graph) -> None:
    boxes, nets = graph
    placed = layout(boxes, nets)
    room = rooms(boxes, placed)
    for each in nets:
        drawn = placed.nets[each.id]
        source_x, source_y = placed.boxes[each.source]
        assert source_x <= drawn.x <= source_x + boxes[each.source].width
        assert drawn.y == source_y + boxes[each.source].height
        trunk = list(points(drawn.trunk))
        assert all(a[1] <= b[1] for a, b in pairwise(trunk))
        for (x, top), (lower_x, bottom) in pairwise(trunk):
            if x == lower_x:
                others = [room[other] for other in room if other != each.source]
                assert not [r for r in others if r[0] < x < r[2] and top < r[3] and r[1] < bottom]
        assert len(drawn.branches) == len(each.targets)
        for target, branch in zip(each.targets, drawn.branches, strict=True):
            x, y = placed.boxes[target]
            *_, (end_x, end_y) = points(branch)
            assert x < end_x < x + boxes[target].width
            assert abs(y - 9 - end_y) <= 0.5  # the arrow's length above the box


@given(graph=graphs())
@settings(max_examples=50, deadline=None, derandomize=True)
def test_a_box_lies_below_what_it_reads_from(graph: Graph) -> None:
    boxes, nets = graph
    layer = layers_of(boxes, nets)
    assert all(layer[each.source] < layer[target] for each in nets for target in each.targets)
    assert layout(boxes, nets) == layout(boxes, nets)


def test_independent_boxes_are_not_all_in_one_row() -> None:
    boxes = [box(number) for number in range(40)]
    assert sorted(map(len, layers(layout(boxes, [])))) == [4, *[6] * 6]


def test_the_order_in_a_layer_avoids_crossings() -> None:
    nets = [net(10, 0, 3), net(11, 1, 5), net(12, 2, 4)]
    placed = layout([box(number) for number in range(6)], nets)
    upper, lower = layers(placed)
    reads_from = {target: each.source for each in nets for target in each.targets}
    assert [reads_from[target] for target in lower] == upper


def test_a_chain_is_straight() -> None:
    placed = layout([box(number, left=100) for number in range(5)], [net(10 + n, n, n + 1) for n in range(4)])
    assert len({round(x, 3) for x, _ in placed.boxes.values()}) == 1


def test_an_empty_graph() -> None:
    assert layout([], []).boxes == {}
