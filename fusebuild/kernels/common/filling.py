"""How many blocks run at a time on the device of a call: grids that fill it once are made of this.

A kernel is compiled for an architecture, whose cards differ in their number of multiprocessors.
"""

from __future__ import annotations

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, total


def running_clusters(cluster: int, blocks: Formula) -> Formula:
    """Clusters of so many blocks that surely run at a time where a multiprocessor has ``blocks``, of which one is a
    cluster of its own. All blocks of a cluster are in one GPC, and where those have no whole number of them, some
    multiprocessors stay alone: of the 132 of an H200 as many as 12. Two blocks are on neighbours, of which there are
    pairs everywhere."""
    if cluster == 1:
        return product([blocks, MULTIPROCESSORS])
    available: Formula = MULTIPROCESSORS if cluster == 2 else ("floor_div", ("mul", 10, MULTIPROCESSORS), 11)
    return ("max", 1, ("floor_div", product([blocks, available]), cluster))


def most_parts(blocks: Formula, outers: Formula) -> Formula:
    """As partition.cuh has it where there are rows enough: blocks that have rows of one of ``outers`` indices, at
    most."""
    return total([("floor_div", blocks, ("max", outers, 1)), 2])
