"""The frozen Fusion, and tasks: views over some of its exprs.

A :class:`Task` owns nothing, and two tasks may overlap. Nothing here is mutable. A pass takes a Fusion and returns
another; :func:`fusebuild.ir.verify.verify` says whether one is well formed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from fusebuild.ir.algebra import Algebra, algebra_given
from fusebuild.ir.formula import Formula, symbols
from fusebuild.ir.solving import Solved, solve
from fusebuild.ir.values import Composite, Expr, ExtentBinding, ExtentFact, Output, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """Values and exprs in topological order, with the inputs and outputs a user sees. Shapes are in symbols.

    ``recorded`` is one past the last fid that the author's own text defined; passes number from there on. ``given``
    names symbols that no input's shape binds because the Fusion that this one was extracted from binds them.
    ``relations`` are comparisons such as ``("le", a, b)`` that the author promises of every call, as ``facts`` are.

    ``lambdas`` are what generalized reductions and scans combine with, by the name in their ``combine`` attribute: each
    a Fusion of scalars of its own, disconnected from this one, whose inputs are the accumulated state and then what is
    combined into it, and whose outputs are the new state (the issue "Task formalism in our IR" of NVIDIA/Fuser).

    ``composites`` are the patterns that the author named, each call after the one it stands in. They show neither in
    the printed text nor in a digest.
    """

    name: str
    values: Mapping[int, Value]
    exprs: tuple[Expr, ...]
    inputs: tuple[int, ...]
    outputs: tuple[Output, ...]
    doc: str = ""
    facts: tuple[ExtentFact, ...] = ()
    relations: tuple[Formula, ...] = ()
    cases: tuple[Mapping[str, int], ...] = ()
    recorded: int = 0
    given: tuple[str, ...] = ()
    lambdas: Mapping[str, Fusion] = field(default_factory=dict)
    composites: tuple[Composite, ...] = ()
    _definitions: dict[int, int] = field(init=False, repr=False, compare=False)
    _uses: dict[int, tuple[int, ...]] = field(init=False, repr=False, compare=False)
    _outputs: dict[int, Output] = field(init=False, repr=False, compare=False)
    _algebra: Algebra | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        uses: dict[int, list[int]] = {}
        for index, expr in enumerate(self.exprs):
            for fid in dict.fromkeys(expr.inputs):
                uses.setdefault(fid, []).append(index)
        definitions = {fid: index for index, expr in enumerate(self.exprs) for fid in expr.outputs}
        object.__setattr__(self, "_definitions", definitions)
        object.__setattr__(self, "_uses", {fid: tuple(indices) for fid, indices in uses.items()})
        object.__setattr__(self, "_outputs", {output.fid: output for output in self.outputs})

    def value(self, fid: int) -> Value:
        return self.values[fid]

    def definition(self, fid: int) -> int | None:
        """Index of the expr that defines ``fid``; None for inputs and constants."""
        return self._definitions.get(fid)

    def expr_of(self, fid: int) -> Expr | None:
        """The expr that defines ``fid``; None for inputs and constants."""
        index = self._definitions.get(fid)
        return None if index is None else self.exprs[index]

    def uses(self, fid: int) -> tuple[int, ...]:
        """Indices of the exprs that read ``fid``, ascending."""
        return self._uses.get(fid, ())

    def is_output(self, fid: int) -> bool:
        return fid in self._outputs

    def output(self, fid: int) -> Output | None:
        """The output that the value ``fid`` is, the last where it is several; None for any other value."""
        return self._outputs.get(fid)

    @property
    def output_fids(self) -> tuple[int, ...]:
        return tuple(output.fid for output in self.outputs)

    @property
    def next_fid(self) -> int:
        """The first fid that no value has and no author recorded."""
        return max(max(self.values, default=-1) + 1, self.recorded)

    @property
    def tensor_inputs(self) -> tuple[Value, ...]:
        return tuple(self.values[fid] for fid in self.inputs if self.values[fid].is_tensor)

    @property
    def extents(self) -> tuple[ExtentBinding, ...]:
        """Negative fids: every dim of every tensor input, in order."""
        dims = [(value, dim) for value in self.tensor_inputs for dim in range(value.tensor.rank)]
        return tuple(
            ExtentBinding(fid=-1 - index, input=value.fid, dim=dim, extent=value.tensor.shape[dim])
            for index, (value, dim) in enumerate(dims)
        )

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every symbol in the shapes of the inputs, once, in order."""
        return tuple(dict.fromkeys(symbol for binding in self.extents for symbol in symbols(binding.extent)))

    @property
    def algebra(self) -> Algebra:
        """What is known of the sizes: found out when it is first asked for."""
        if self._algebra is None:
            shapes = [value.tensor.shape for value in self.tensor_inputs]
            found = algebra_given(shapes, self.given or self.symbols, self.facts, self.relations)
            object.__setattr__(self, "_algebra", found)
            return found
        return self._algebra

    @property
    def solved(self) -> Solved:
        """How the symbols that no dim of an input is alone are found from the sizes of a call."""
        return solve(self.extents, self.algebra)

    def with_exprs(self, exprs: Iterable[Expr], new_values: Iterable[Value] = ()) -> Fusion:
        """This Fusion with other exprs; values that nothing defines or reads any more are dropped, and all composites:
        a pass gives the new Fusion those that are left with :func:`fusebuild.ir.composites.carry_composites`."""
        kept = tuple(exprs)
        known = dict(self.values) | {value.fid: value for value in new_values}
        live = set(self.inputs) | set(self.output_fids)
        for expr in kept:
            live.update(expr.inputs)
            live.update(expr.outputs)
        values = {fid: known[fid] for fid in sorted(live)}
        return replace(self, values=values, exprs=kept, lambdas=used_lambdas(self, kept), composites=())

    def whole(self) -> Task:
        """The task that covers every expr."""
        return Task(fusion=self, exprs=tuple(range(len(self.exprs))))

    def exprs_above(self, fids: Iterable[int], given: Container[int] = ()) -> list[int]:
        """Indices of the exprs that ``fids`` are computed from, ascending; values ``given`` need no expr."""
        found: set[int] = set()
        waiting = [*fids]
        while waiting:
            index = self.definition(fid := waiting.pop())
            if index is not None and index not in found and fid not in given:
                found.add(index)
                waiting += self.exprs[index].inputs
        return sorted(found)

    def composite_task(self, composite: Composite) -> Task | None:
        """The exprs between the inputs and the outputs of ``composite``, nested in the task of its parent; tasks of two
        calls overlap where they share what both compute. None when no expr defines its outputs any more."""
        found = self.exprs_above(composite.outputs, {*composite.inputs})
        return Task(fusion=self, exprs=tuple(found), results=frozenset(composite.outputs)) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A view: the exprs at ``exprs`` (ascending indices) of ``fusion``. Inputs and outputs are computed from uses.

    Where tasks overlap, who reads a value outside does not say that this task must hand it over: another task may hold
    its definition too. A cover therefore names in ``results`` what each of its tasks writes; None asks the uses.
    """

    fusion: Fusion
    exprs: tuple[int, ...]
    results: frozenset[int] | None = None
    steps: tuple[Expr, ...] = field(init=False, repr=False, compare=False)
    """The exprs themselves."""
    inputs: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Fids read here and defined elsewhere, constants left out, ascending."""
    outputs: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Tensors defined here that leave: ``results``, else outputs of the Fusion and what an expr outside reads, in order
    of definition. Scalars never leave a task: whoever needs one computes it again."""
    analyses: dict[str, object] = field(init=False, repr=False, compare=False, default_factory=dict)
    """What analyses have found out about this task, by their names: kept so that each is done once."""

    def __post_init__(self) -> None:
        values = self.fusion.values
        steps = tuple(self.fusion.exprs[index] for index in self.exprs)
        defined = dict.fromkeys(fid for expr in steps for fid in expr.outputs)
        read = {fid for expr in steps for fid in expr.inputs}
        inputs = tuple(sorted(fid for fid in read if fid not in defined and not values[fid].is_constant))
        leaving = self._leaving(defined) if self.results is None else self.results
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "outputs", tuple(fid for fid in defined if fid in leaving and values[fid].is_tensor))

    def _leaving(self, defined: Iterable[int]) -> set[int]:
        inside = set(self.exprs)
        return {
            fid
            for fid in defined
            if self.fusion.is_output(fid) or any(use not in inside for use in self.fusion.uses(fid))
        }

    def step_of(self, fid: int) -> Expr | None:
        """The expr of the task that defines ``fid``; None for what is defined elsewhere."""
        return self.fusion.expr_of(fid) if self.fusion.definition(fid) in self.exprs else None

    def union(self, other: Task) -> Task:
        """The task that covers what either covers."""
        return Task(fusion=self.fusion, exprs=tuple(sorted({*self.exprs, *other.exprs})))


def used_lambdas(fusion: Fusion, exprs: Iterable[Expr]) -> dict[str, Fusion]:
    """The lambdas of ``fusion`` that ``exprs`` combine with."""
    names = {expr.combine for expr in exprs}
    return {name: body for name, body in fusion.lambdas.items() if name in names}


def task_uses(fid: int, tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks that have ``fid`` as an input."""
    return tuple(task for task in tasks if fid in task.inputs)


def task_definitions(fid: int, tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks that have ``fid`` as an output; several where tasks nest or overlap."""
    return tuple(task for task in tasks if fid in task.outputs)
