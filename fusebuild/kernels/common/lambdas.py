"""Lambdas as device functors, and what reductions of every kind have in common: how they start, combine and end.

A reduction with a functor of the device header keeps one number; one with a lambda keeps a ``State``, whose parts are
``v0``, ``v1``, … in the order of the expr's results. ``welford`` keeps a ``State`` too, but a thread has
**running** sums while it reads, which become a ``State`` when it has read all its elements. A lambda that the device
header knows has its functor from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion, Task
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.statements import Body, Statements
from fusebuild.ops.built_in_lambdas import recognized
from fusebuild.ops.table import op_of

Lines: TypeAlias = "tuple[str, ...]"
NAMESPACE = "lambdas"
FUNCTORS = {"logsumexp": "fb::ExpSum", "mean_and_squares": "fb::MeanAndSquares"}
"""The functors of the device header, by what they are in :mod:`fusebuild.ops.built_in_lambdas`."""


class _LambdaBody(Statements):
    """Statements of a lambda: its inputs are the parts of the states ``a`` and ``b``."""

    def __init__(self, body: Fusion) -> None:
        super().__init__(body, body.exprs)
        count = len(body.outputs)
        self._parts = {fid: f"{'ab'[place // count]}.v{place % count}" for place, fid in enumerate(body.inputs)}

    def variable(self, fid: int) -> str:
        root = self.root(fid)
        return self._parts.get(root, f"s{root}")

    def struct(self, name: str) -> Lines:
        """The functor: its state, and ``combine`` with one statement an op."""
        state = [
            f"    {self.value(output.fid).dtype.row.c_type} v{part};  // {output.name}"
            for part, output in enumerate(self.fusion.outputs)
        ]
        exprs = [expr for expr in self.fusion.exprs if expr.outputs[0] not in self._roots]
        results = [self.own_operand(fid) for fid in self.fusion.output_fids]
        return (
            f"struct {name} {{",
            "  struct State {",
            *state,
            "  };",
            "  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {",
            *(f"    {self.statement(expr)}" for expr in exprs),
            f"    return {{{', '.join(results)}}};",
            "  }",
            "};",
        )


def structs(task: Task) -> tuple[Lines, ...]:
    """The functors of the lambdas that ``task`` combines with, in order of use, but for those of the device header."""
    names = dict.fromkeys(expr.combine for expr in task.steps)
    bodies = {name: task.fusion.lambdas[name] for name in names if name}
    return tuple(_LambdaBody(body).struct(name) for name, body in bodies.items() if not _functor_of(body))


def _functor_of(body: Fusion) -> str:
    """The functor of the device header that combines as ``body`` does; nothing where there is none."""
    known = recognized(body)
    functor = FUNCTORS.get(known[0]) if known else None
    return f"{functor}<{body.value(body.inputs[0]).dtype.row.c_type}>" if functor else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """How a kernel accumulates one reduction or scan, the expr number ``index``."""

    body: Body
    index: int

    @property
    def expr(self) -> Expr:
        return self.body.fusion.exprs[self.index]

    @property
    def accumulator(self) -> str:
        return f"a{self.expr.outputs[0]}"

    @property
    def item(self) -> str:
        """A thread's elements of a scan, at first none, and after it what they and all before them combine to."""
        return f"x{self.expr.outputs[0]}"

    @property
    def has_state(self) -> bool:
        """Whether what is accumulated has parts."""
        return bool(self.expr.combine or self.is_running)

    @property
    def is_running(self) -> bool:
        """Whether a thread accumulates something else while it reads."""
        return bool(op_of(self.expr).running)

    @property
    def running(self) -> str:
        """The running sums of a thread."""
        return f"w{self.expr.outputs[0]}"

    @property
    def functor(self) -> str:
        """The type that combines."""
        if self.expr.combine:
            return _functor_of(self.body.fusion.lambdas[self.expr.combine]) or f"{NAMESPACE}::{self.expr.combine}"
        dtype = f"<{self.dtypes[0].row.c_type}>" if self.is_running else ""
        return f"fb::{op_of(self.expr).functor}{dtype}"

    @property
    def c_type(self) -> str:
        """The type of what is accumulated."""
        return f"{self.functor}::State" if self.has_state else self.body.c_type(self.expr.outputs[0])

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return tuple(self.body.value(fid).dtype for fid in self.expr.outputs)

    @property
    def components(self) -> tuple[int, ...]:
        """The operands that are combined, without the identity; constants among them."""
        return self.expr.inputs[: len(self.expr.outputs)]

    @property
    def identity(self) -> str:
        """What changes nothing when it is combined."""
        if self.is_running:
            return f"{self.functor}::identity()"
        if not self.expr.combine:
            return f"{self.functor}::identity<{self.c_type}>()"
        return f"{{{', '.join(self.identities)}}}"

    @property
    def element(self) -> str:
        """The current element, as it is combined."""
        if not self.expr.combine:
            return self.body.operand(self.expr.inputs[0], self.dtypes[0])
        return f"{{{', '.join(self._operands(self.components))}}}"

    @property
    def taken(self) -> tuple[tuple[int, DType], ...]:
        """The operands that are combined, and as which dtypes."""
        return tuple(zip(self.components, self.dtypes[: len(self.components)], strict=True))

    def _operands(self, fids: Iterable[int]) -> Lines:
        """The parts of a state that has the values ``fids``."""
        return tuple(self.body.operand(fid, dtype) for fid, dtype in zip(fids, self.dtypes, strict=True))

    def combined(self, target: str, other: str) -> str:
        """The statement that combines ``other`` into ``target``."""
        return f"{target} = {self.functor}::combine({target}, {other});"

    def update(self, subscript: str = "", is_first: str = "") -> str:
        """The statement that accumulates the current element; ``is_first`` says whether it is the thread's first."""
        if self.is_running:
            return f"{self.running}{subscript}.add({self.element}, {is_first});"
        return self.combined(f"{self.accumulator}{subscript}", self.element)

    def running_columns(self) -> str:
        """What a thread accumulates in for each column of its vector while it reads."""
        return f"{self._running_type} {self.running}[kVec];" if self.is_running else self.column_declaration()

    @property
    def _running_type(self) -> str:
        return f"fb::{op_of(self.expr).running}<{self.dtypes[0].row.c_type}>"

    def declaration(self) -> str:
        return f"{self.c_type} {self.accumulator} = {self.identity};"

    def column_declaration(self, count: str = "kVec") -> str:
        """One accumulator for each column of a thread's vector, or ``count`` of them."""
        if not self.has_state:
            return f"fb::Vec<{self.c_type}, {count}> {self.accumulator} = fb::splat<{count}>({self.identity});"
        return f"auto {self.accumulator} = fb::states<{self.functor}, {count}>({self.identity});"

    def chunk_declaration(self) -> str:
        """One accumulator for each column of each of a thread's chunks."""
        columns = f"fb::States<{self.functor}, kVec>" if self.expr.combine else f"fb::Vec<{self.c_type}, kVec>"
        return f"{columns} {self.accumulator}[kChunks];"

    @property
    def columns_of_identity(self) -> str:
        """The accumulators of a vector of columns, before anything is combined into them."""
        if not self.expr.combine:
            return f"fb::splat<kVec>({self.identity})"
        return f"fb::states<{self.functor}, kVec>({self.identity})"

    def argument(self, subscript: str = "") -> str:
        """The argument of a joint reduction: ``fb::accumulator<fb::Sum>(a5)``."""
        return f"fb::accumulator<{self.functor}>({self.accumulator}{subscript})"

    def results(self, source: str) -> Lines:
        """The values that the accumulated ``source`` gives, those that something needs."""
        return tuple(
            f"const {self.body.c_type(fid)} t{fid} = {self._result(source, place)};"
            f"{self.body.comment(self.body.value(fid), self.expr)}"
            for place, fid in enumerate(self.expr.outputs)
            if self._is_needed(fid)
        )

    def _result(self, source: str, place: int) -> str:
        return f"{self.functor}::mean({source})" if self.is_running and place == 0 else self.part(source, place)

    def _is_needed(self, fid: int) -> bool:
        task = self.body.task
        return fid in task.outputs or bool({*task.exprs}.intersection(task.fusion.uses(fid)))

    def combined_partial(self, place: str) -> str:
        """The statement that combines the partial result at ``place`` of its scratch arrays."""
        parts = [f"P{fid}[{place}]" for fid in self.expr.outputs]
        return self.combined(self.accumulator, f"{self.c_type}{{{', '.join(parts)}}}" if self.has_state else parts[0])

    def part(self, source: str, place: int) -> str:
        """The part of ``source`` that is result number ``place``."""
        return f"{source}.v{place}" if self.has_state else source

    def memory_update(self, array: str) -> Lines:
        """Statements that combine the current element into column ``k`` of vectors, one for each part."""
        if not self.expr.combine:
            return (self.combined(f"{array}{self.expr.outputs[0]}[k]", self.element),)
        parts = [f"{array}{fid}[k]" for fid in self.expr.outputs]
        return (
            f"{self.c_type} {self.accumulator} = {{{', '.join(parts)}}};",
            self.combined(self.accumulator, self.element),
            *(f"{part} = {self.part(self.accumulator, place)};" for place, part in enumerate(parts)),
        )

    @property
    def identities(self) -> Lines:
        """The parts of the identity."""
        if not self.expr.combine:
            return (self.identity,)
        return self._operands(self.expr.inputs[len(self.expr.outputs) :])

    def partial_stores(self, position: str, subscript: str = "", array: str = "P") -> Lines:
        """Stores of a partial result, one scratch array for each part."""
        source = f"{self.accumulator}{subscript}"
        return tuple(
            f"{array}{fid}[{position}] = {self.part(source, place)};" for place, fid in enumerate(self.expr.outputs)
        )


def foldings(body: Body, indices: Iterable[int]) -> tuple[Folding, ...]:
    return tuple(Folding(body=body, index=index) for index in indices)


def folded(task: Task, indices: Iterable[int]) -> list[int]:
    """The results of the reductions at ``indices``."""
    return [fid for index in indices for fid in task.fusion.exprs[index].outputs]


def combined(body: Body, indices: Iterable[int]) -> list[int]:
    """What the reductions at ``indices`` combine, but for constants."""
    fids = [fid for folding in foldings(body, indices) for fid in folding.components]
    return [fid for fid in dict.fromkeys(fids) if not body.value(fid).is_constant]
