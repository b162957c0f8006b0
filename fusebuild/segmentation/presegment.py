"""The first step: cut only where something asks for it, and see what is left over.

Groups merge tentatively across every edge that is not made by ``segment_set`` and has no library op at either end, as
long as the graph of groups stays acyclic. Each maximal group is then tried as a whole; only the rejected ones are
searched further. (The idea is public: the discussion of an initial top-down presegmentation phase for nvFuser.)
"""

from __future__ import annotations

from dataclasses import replace

from fusebuild.segmentation.dependencies import Dependencies
from fusebuild.segmentation.groups import Groups


def presegment(dependencies: Dependencies) -> tuple[tuple[tuple[int, ...], ...], Dependencies]:
    """The maximal groups in run order, and ``dependencies`` without the marks that do not cut.

    A mark does not cut when its value also reaches the reader's group around the mark: both ends are then in one group,
    and the group is tried as if the mark were not there. Groups are convex: no path leaves one and comes back.
    """
    groups = Groups(dependencies.exprs, dependencies.after)
    for producer in dependencies.exprs:
        for reader in dependencies.readers[producer]:
            a, b = groups.group_of[producer], groups.group_of[reader]
            if a != b and not dependencies.are_kept_apart(producer, reader):
                groups.merge(a, b)
    cutting = frozenset(
        (mark, reader) for mark, reader in dependencies.marked if groups.group_of[mark] != groups.group_of[reader]
    )
    maximal = tuple(tuple(sorted(groups.members[group])) for group in groups.in_order())
    return maximal, replace(dependencies, marked=cutting)
