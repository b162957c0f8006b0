"""Rematerialization: a consumer computes again what is cheaper to compute than to read.

For each task in run order a minimum cut decides what it reads. The graph is the cone of exprs above what it reads
now: a cut through a value means reading it, and everything below the cut is computed again. A value costs its bytes,
and the write is shared among its readers; what needs no memory (``full``, ``iota``) is free. Reductions, random
numbers, library results and marked cuts are never computed twice. Equal cuts resolve towards the consumer: least is
recomputed. An input that some output overwrites is read by one more task only where that task can still run before.

The formulation is public: Thunder's rematerialization passes once over producer and consumer pairs in order, each
minimum cut seeing the pairs already updated, and weighs nodes by the bytes of their dtype.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from fusebuild.ops.table import op_of
from fusebuild.segmentation.draft import Draft, Proposal

if TYPE_CHECKING:
    import networkx as nx

CONE_LIMIT = 256
"""Exprs of a cone that are looked at: what lies further up is never the cheaper cut."""

SHARES = 2520
"""Bytes are counted in parts of this size, so that a write divides evenly among up to ten readers."""

SINK = "sink"
SOURCE = "source"


def rematerialize(draft: Draft) -> None:
    """Let every task of ``draft`` recompute what that saves time on."""
    for name in draft.in_order():
        if name not in draft.parts or draft.parts[name].exprs & draft.problem.dependencies.calls:
            continue
        overwritten = draft.writers.keys() - draft.parts[name].reads
        proposal = _weigh(draft, name, frozenset())
        if proposal is None and overwritten:
            proposal = _weigh(draft, name, frozenset(overwritten))
        if proposal is not None:
            draft.commit(proposal)


def _weigh(draft: Draft, name: int, unreadable: frozenset[int]) -> Proposal | None:
    """What the minimum cut that reads none of ``unreadable`` saves ``name``."""
    recomputed = _recomputed(draft, name, unreadable)
    if not recomputed:
        return None
    alone = draft.weigh({name: draft.parts[name].exprs | recomputed})
    return alone or _weigh_for_all_readers(draft, name, recomputed)


def _weigh_for_all_readers(draft: Draft, name: int, recomputed: frozenset[int]) -> Proposal | None:
    """The same for every task that reads one of those values: only together do they save the write."""
    fusion = draft.fusion
    made = {fid for index in recomputed for fid in fusion.exprs[index].outputs} & draft.parts[name].reads
    names = set().union(*(draft.readers(fid) for fid in made))
    if len(names) < 2:
        return None
    return draft.weigh({reader: draft.parts[reader].exprs | recomputed for reader in sorted(names)})


def _recomputed(draft: Draft, name: int, unreadable: frozenset[int]) -> frozenset[int]:
    """The exprs between what ``name`` should read, by the minimum cut, and what it reads."""
    cone = _cone(draft, name)
    if not cone:
        return frozenset()
    import networkx as nx  # a tenth of a second that a Fusion of one segment need not wait

    graph = _graph(draft, name, cone, unreadable)
    if SOURCE not in graph:
        return frozenset(cone)
    _, (_, below) = nx.minimum_cut(graph, SOURCE, SINK, flow_func=nx.algorithms.flow.boykov_kolmogorov)
    exprs = draft.fusion.exprs
    return frozenset(index for index in cone if any((fid, "made") in below for fid in exprs[index].outputs))


def _cone(draft: Draft, name: int) -> dict[int, None]:
    """The exprs above what ``name`` reads that it may pay to compute again, the nearest first.

    To compute an expr again is to read, or compute, all its operands. Along a path upwards the reads that the operands
    beside it cannot do without add up; where they reach twice what reading the value below costs, nothing further up is
    of use (unless one operand stood for three or more values).
    """
    fusion, reads = draft.fusion, draft.parts[name].reads
    queue = deque(
        (source, -2 * _cost(draft, name, fid, draft.problem.costs.bytes_read(fid, draft.parts[name].exprs)))
        for fid in sorted(reads)
        if (source := _recomputable_source(draft, fid)) is not None
    )
    cone: dict[int, None] = {}
    while queue and len(cone) < CONE_LIMIT:
        index, balance = queue.popleft()
        if index in cone:
            continue
        operands = [fid for fid in fusion.exprs[index].inputs if fusion.value(fid).is_tensor]
        least = [_least_read(draft, name, fid) for fid in operands]
        if balance + sum(least) >= 0:
            continue
        cone[index] = None
        for fid, own in zip(operands, least, strict=True):
            source = _recomputable_source(draft, fid)
            if source is not None and fid not in reads:
                queue.append((source, balance + sum(least) - own))
    return cone


def _least_read(draft: Draft, name: int, fid: int) -> float:
    """What having ``fid`` costs at least, as far as a chain of exprs with one operand each shows."""
    fusion, reads = draft.fusion, draft.parts[name].reads
    least = math.inf
    while fid not in reads:
        least = min(least, _cost(draft, name, fid, draft.problem.costs.least_bytes_read(fid)))
        source = _recomputable_source(draft, fid)
        if source is None:
            return least
        operands = [operand for operand in fusion.exprs[source].inputs if fusion.value(operand).is_tensor]
        if len(operands) != 1:
            return 0
        (fid,) = operands
    return 0


def _recomputable_source(draft: Draft, fid: int) -> int | None:
    """The expr that defines ``fid``, when a second task may hold it."""
    index = draft.fusion.definition(fid)
    return index if index is not None and is_recomputable(draft, index) else None


def is_recomputable(draft: Draft, index: int) -> bool:
    """True for an expr of the scope that a second task may hold."""
    return index in draft.home and op_of(draft.fusion.exprs[index]).is_recomputable


def _graph(draft: Draft, name: int, cone: dict[int, None], unreadable: frozenset[int]) -> nx.DiGraph:
    """Each value two nodes, made and read, with what reading it costs between them."""
    fusion = draft.fusion
    import networkx as nx

    graph = nx.DiGraph()
    fids, exprs = set(draft.parts[name].reads), draft.parts[name].exprs | {*cone}
    for fid in sorted(draft.parts[name].reads):
        graph.add_edge((fid, "read"), SINK)
    for index in cone:
        expr = fusion.exprs[index]
        operands = [fid for fid in expr.inputs if fusion.value(fid).is_tensor]
        fids.update(operands, expr.outputs)
        graph.add_edges_from(((operand, "read"), (fid, "made")) for fid in expr.outputs for operand in operands)
    for fid in sorted(fids):
        read = draft.problem.costs.bytes_read(fid, exprs)
        cost = math.inf if fid in unreadable else _cost(draft, name, fid, read)
        graph.add_edge((fid, "made"), (fid, "read"), capacity=cost)
        if fusion.definition(fid) not in cone:
            graph.add_edge(SOURCE, (fid, "made"))
    return graph


def _cost(draft: Draft, name: int, fid: int, read: int) -> float:
    """What it costs that ``name`` reads ``read`` bytes of ``fid``, in shares of a byte."""
    readers = draft.readers(fid)
    cost = SHARES * read
    is_made_for_readers = draft.owner(fid) is not None and not draft.is_wanted(fid)
    return cost + (cost // len(readers | {name}) if is_made_for_readers else 0)
