"""Cutting a Fusion into segments: accept, then merge.

The whole Fusion is tried first. Where no scheduler takes it, every tensor expr starts as a group of its own, and
neighbouring groups merge, producers first, as long as the group graph stays acyclic and some scheduler takes the union.
Values made by ``segment_set`` are never merged across. The order of trials follows the order of the exprs, so the same
Fusion always gives the same cut. (The first version: cost, rematerialization and refinement build on it.)
"""

from __future__ import annotations

from collections.abc import Iterable

from fusebuild.errors import Diagnostic, ScheduleError
from fusebuild.ir import Fusion, Task
from fusebuild.schedule import first_accepting
from fusebuild.schedule.kernel import Rejection, Scheduler
from fusebuild.segmentation.segmented import Segment, SegmentedFusion, dense_outputs, extract, with_scalars
from fusebuild.target import Target


def segment(fusion: Fusion, target: Target) -> SegmentedFusion:
    """The segments of ``fusion``, whose exprs must be primitive, for ``target``.

    Raises :class:`ScheduleError` with every scheduler's reason for each expr that none takes even alone.
    """
    fusion = dense_outputs(fusion)
    groups = _Groups(fusion, target)
    groups.merge_all()
    ordered = groups.in_run_order()
    owner = {index: position for position, group in enumerate(ordered) for index in group}
    segments = []
    for position, group in enumerate(ordered):
        task = groups.task(group)
        scheduler = groups.scheduler(group)
        assert not isinstance(scheduler, tuple)
        extracted, fid_map = extract(task, f"{fusion.name}_{position}")
        segments.append(
            Segment(
                id=position,
                scheduler=scheduler.name,
                task=task,
                fusion=extracted,
                fid_map=fid_map,
                why=groups.reasons(group, ordered, owner, position),
            )
        )
    return SegmentedFusion(fusion=fusion, segments=tuple(segments))


class _Groups:
    """The tensor exprs of one Fusion in groups that merge. A group is a frozen set of expr indices."""

    def __init__(self, fusion: Fusion, target: Target) -> None:
        self._fusion, self._target = fusion, target
        self._accepted: dict[frozenset[int], Scheduler | tuple[Rejection, ...]] = {}
        tensors = [
            index for index, expr in enumerate(fusion.exprs) if any(fusion.value(fid).is_tensor for fid in expr.outputs)
        ]
        self._edges, self._marked = _dependencies(fusion, tensors)
        self._following: dict[int, set[int]] = {}
        for first, then in (*self._edges, *_alias_orderings(fusion)):
            self._following.setdefault(first, set()).add(then)
        self._group: dict[int, frozenset[int]] = {index: frozenset([index]) for index in tensors}

    def task(self, group: Iterable[int]) -> Task:
        return with_scalars(Task(fusion=self._fusion, exprs=tuple(sorted(group))))

    def scheduler(self, group: frozenset[int]) -> Scheduler | tuple[Rejection, ...]:
        """The scheduler that takes ``group``, or all rejections."""
        if group not in self._accepted:
            self._accepted[group] = first_accepting(self.task(group), self._target)
        return self._accepted[group]

    def _accepts(self, group: frozenset[int]) -> bool:
        return not isinstance(self.scheduler(group), tuple)

    def groups(self) -> list[frozenset[int]]:
        """The groups, by their first expr."""
        return sorted(set(self._group.values()), key=min)

    def merge_all(self) -> None:
        """Merge until nothing merges; raises :class:`ScheduleError` for exprs that no scheduler takes."""
        everything = frozenset(self._group)
        if not everything:
            return
        if not self._marked and self._accepts(everything):
            self._merge(everything)
            return
        while self._merge_sweep():
            continue
        self._require_accepted()

    def _merge_sweep(self) -> bool:
        """Try every edge once, producers first; True when anything merged."""
        merged = False
        for producer, consumer in sorted(self._edges):
            a, b = self._group[producer], self._group[consumer]
            if a is b or self._crosses_mark(a, b) or self._closes_cycle(a, b):
                continue
            if self._accepts(a | b):
                self._merge(a | b)
                merged = True
        return merged

    def _crosses_mark(self, a: frozenset[int], b: frozenset[int]) -> bool:
        return any((i in a and j in b) or (i in b and j in a) for i, j in self._marked)

    def _merge(self, union: frozenset[int]) -> None:
        for index in union:
            self._group[index] = union

    def _successors(self, group: frozenset[int]) -> set[frozenset[int]]:
        reached = {self._group[j] for i in group for j in self._following.get(i, ())}
        return reached - {group}

    def _closes_cycle(self, a: frozenset[int], b: frozenset[int]) -> bool:
        """True when some path leaves the union of ``a`` and ``b`` and comes back."""
        waiting = [group for group in self._successors(a) | self._successors(b) if group not in (a, b)]
        seen = set(waiting)
        while waiting:
            following = self._successors(waiting.pop())
            if a in following or b in following:
                return True
            waiting += following - seen
            seen |= following
        return False

    def _require_accepted(self) -> None:
        diagnostics = []
        for group in self.groups():
            scheduler = self.scheduler(group)
            if isinstance(scheduler, tuple):
                expr = self._fusion.exprs[min(group)]
                reasons = "; ".join(f"{rejected.scheduler}: {rejected.reason}" for rejected in scheduler)
                message = f"no scheduler takes {expr.op} ({reasons})"
                diagnostics.append(Diagnostic(location=expr.location, message=message))
        if diagnostics:
            raise ScheduleError(diagnostics)

    def in_run_order(self) -> list[frozenset[int]]:
        """Groups so that each runs after what it reads, the earliest exprs first among the ready ones."""
        groups = self.groups()
        before = dict.fromkeys(groups, 0)
        following = {group: self._successors(group) for group in groups}
        for successors in following.values():
            for group in successors:
                before[group] += 1
        ready = [group for group in groups if not before[group]]
        order = []
        while ready:
            group = min(ready, key=min)
            ready.remove(group)
            order.append(group)
            for successor in following[group]:
                before[successor] -= 1
                if not before[successor]:
                    ready.append(successor)
        return order

    def reasons(
        self, group: frozenset[int], ordered: list[frozenset[int]], owner: dict[int, int], position: int
    ) -> tuple[str, ...]:
        """Why ``group`` is cut from each segment that it reads from."""
        producers = sorted({owner[i] for i, j in self._edges if j in group and owner[i] != position})
        return tuple(f"cut from segment {producer}: {self._reason(ordered[producer], group)}" for producer in producers)

    def _reason(self, a: frozenset[int], b: frozenset[int]) -> str:
        if self._crosses_mark(a, b):
            return "segment_set"
        if self._closes_cycle(a, b):
            return "another segment lies between them"
        rejections = self.scheduler(a | b)
        assert isinstance(rejections, tuple)
        return "; ".join(str(rejected) for rejected in rejections if rejected.scheduler != "alias")


def _dependencies(fusion: Fusion, tensors: list[int]) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """``(edges, marked edges)`` between tensor exprs; an edge out of ``segment_set`` is marked."""
    edges, marked = set(), set()
    for index in tensors:
        for fid in fusion.exprs[index].outputs:
            for use in fusion.uses(fid):
                if not fusion.value(fusion.exprs[use].outputs[0]).is_tensor:
                    continue
                edges.add((index, use))
                if fusion.exprs[index].op == "segment_set":
                    marked.add((index, use))
    return edges, marked


def _alias_orderings(fusion: Fusion) -> set[tuple[int, int]]:
    """``(reader, writer)``: whoever reads an input runs before the expr whose result overwrites it."""
    orderings = set()
    for output in fusion.outputs:
        writer = fusion.definition(output.fid)
        if output.alias is None or writer is None:
            continue
        orderings |= {(reader, writer) for reader in fusion.uses(output.alias) if reader != writer}
    return orderings
