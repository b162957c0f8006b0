"""Exprs in groups that merge, and the acyclic graph between them, kept in topological order while it contracts.

The order is maintained after Pearce and Kelly, "A Dynamic Topological Sort Algorithm for Directed Acyclic Graphs"
(2006): merging two groups looks only at groups placed between them that one of them reaches or is reached from. That
makes merging near-linear. A search that would look at more than :data:`SEARCH_LIMIT` groups gives up, and the merge
with it: two groups that far apart have next to nothing to gain from one kernel.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

SEARCH_LIMIT = 512


class Groups:
    """Groups of ``exprs`` named by numbers, at first one each; ``after`` gives what runs after each expr."""

    def __init__(self, exprs: Iterable[int], after: Mapping[int, Iterable[int]]) -> None:
        self.members: dict[int, list[int]] = {index: [index] for index in exprs}
        self.group_of: dict[int, int] = {index: index for index in self.members}
        self._position = {index: index for index in self.members}
        self._after = {index: {use for use in after[index] if use in self.members} for index in self.members}
        self._before: dict[int, set[int]] = {index: set() for index in self.members}
        for index, following in self._after.items():
            for other in following:
                self._before[other].add(index)
        if any(index > other for index, following in self._after.items() for other in following):
            self._position = {group: place for place, group in enumerate(self.in_order())}

    def in_order(self) -> list[int]:
        """All groups in topological order, the earliest exprs first among the ready ones."""
        return run_order({group: min(members) for group, members in self.members.items()}, self._after)

    def merge(self, a: int, b: int) -> int | None:
        """Merge two groups and return the union's name; None where a path from one to the other passes a third."""
        first, second = sorted((a, b), key=self._position.__getitem__)
        later = self._between(first, second, self._after)
        earlier = self._between(second, first, self._before)
        if later is None or earlier is None or later & self._before[second]:
            return None
        by_place = self._position.__getitem__
        affected = [*sorted(earlier, key=by_place), first, *sorted(later, key=by_place)]
        places = sorted(self._position[group] for group in (*affected, second))
        del places[len(earlier)]  # two groups become one, so one place goes
        self._position |= dict(zip(affected, places, strict=True))
        return self._join(first, second)

    def _between(self, start: int, end: int, graph: Mapping[int, set[int]]) -> set[int] | None:
        """Groups strictly between the two in the order that ``start`` leads to; None when they are too many."""
        low, high = sorted((self._position[start], self._position[end]))
        found: set[int] = set()
        waiting = [start]
        while waiting:
            for group in graph[waiting.pop()]:
                if low < self._position[group] < high and group not in found:
                    found.add(group)
                    waiting.append(group)
            if len(found) > SEARCH_LIMIT:
                return None
        return found

    def _join(self, first: int, second: int) -> int:
        """Contract ``second`` into ``first``, whichever has more neighbours giving the union its sets."""
        for graph, back in ((self._after, self._before), (self._before, self._after)):
            neighbours = graph.pop(second)
            for group in neighbours:
                back[group].discard(second)
                if group != first:
                    back[group].add(first)
            graph[first] = (graph[first] | neighbours) - {first, second}
        for index in self.members[second]:
            self.group_of[index] = first
        self.members[first] += self.members.pop(second)
        del self._position[second]
        return first


def run_order(keys: Mapping[int, int], after: Mapping[int, Iterable[int]]) -> list[int]:
    """The nodes of a graph in topological order, the least key first among the ready ones (Kahn); nodes of cycles, and
    what is behind them, are left out."""
    waiting = dict.fromkeys(keys, 0)
    for following in after.values():
        for node in following:
            waiting[node] += 1
    ready = [(keys[node], node) for node, count in waiting.items() if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, node = heapq.heappop(ready)
        order.append(node)
        for other in after[node]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, (keys[other], other))
    return order
