"""What must run before what: the tensor exprs of a Fusion, who reads whom, and which neighbours must not share a
task."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from fusebuild.ir.fusion import Fusion
from fusebuild.ops.table import Kind, op_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Expr indices throughout. ``readers`` follows tensors; ``after`` adds the order that outputs written over
    inputs ask for: every reader of such an input runs before its writer.

    ``marked`` holds the pairs (``segment_set``, reader) and ``calls`` the exprs that a library
    computes, of which a task has one at most.
    """

    fusion: Fusion
    exprs: tuple[int, ...]
    readers: Mapping[int, tuple[int, ...]]
    after: Mapping[int, tuple[int, ...]]
    marked: frozenset[tuple[int, int]]
    calls: frozenset[int]

    def holds_both_ends(self, exprs: Set[int]) -> bool:
        """True when a mark and one of its readers are both in ``exprs``."""
        marks = (index for index in exprs if op_of(self.fusion.exprs[index]).is_boundary)
        return any(reader in exprs and (mark, reader) in self.marked for mark in marks for reader in self.readers[mark])

    def are_kept_apart(self, producer: int, reader: int) -> bool:
        """True for a pair that no task may hold both of, or only where a library does more than multiply."""
        return (producer, reader) in self.marked or producer in self.calls or reader in self.calls


def dependencies_of(fusion: Fusion) -> Dependencies:
    """The dependencies of ``fusion``, whose exprs must be primitive."""
    exprs = tuple(
        index for index, expr in enumerate(fusion.exprs) if any(fusion.value(fid).is_tensor for fid in expr.outputs)
    )
    tensors = set(exprs)
    readers = {
        index: tuple(
            dict.fromkeys(use for fid in fusion.exprs[index].outputs for use in fusion.uses(fid) if use in tensors)
        )
        for index in exprs
    }
    after = {index: set(uses) for index, uses in readers.items()}
    for output in fusion.outputs:
        writer = fusion.definition(output.fid)
        if output.alias is not None and writer is not None:  # whoever reads what it overwrites runs before
            for reader in {*fusion.uses(output.alias)} & tensors - {writer}:
                after[reader].add(writer)
    return Dependencies(
        fusion=fusion,
        exprs=exprs,
        readers=readers,
        after={index: tuple(sorted(following)) for index, following in after.items()},
        marked=frozenset(
            (index, use) for index in exprs if op_of(fusion.exprs[index]).is_boundary for use in readers[index]
        ),
        calls=frozenset(index for index in exprs if op_of(fusion.exprs[index]).kind is Kind.LIBRARY),
    )
