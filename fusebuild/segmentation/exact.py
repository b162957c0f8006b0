"""The exact search: of all covers of a small Fusion, recomputing included, one with the least predicted time.

It is the yardstick for the heuristic search and takes Fusions of about a dozen atoms.

**The search** builds a cover from its end. What is left to do is known by two sets of values: those still **wanted**,
which segments that run earlier have to write, and those already **written**. At first the outputs are wanted. A step
places the segment that runs last among the rest: it holds some exprs, writes some of the wanted values, and wants in
turn what it reads and does not make. Every acyclic cover is such a sequence of steps, and every sequence that ends with
nothing wanted is a cover. An expr that must not run twice may be in a step only when nothing that is then wanted needs
it; what overwrites an input must not be wanted any more when a segment that reads the input is placed.

States are searched best first (A*; Hart, Nilsson and Raphael 1968). The bound counts one launch, the write of every
wanted value and one read of every input that they are computed from. Edges are evaluated lazily (Cohen, Phillips and
Likhachev, "Planning single-arm manipulations with n-arm robots", 2014): the schedulers are asked about a step only when
it is the most promising one left, so most sets of exprs are never looked at.

**Atoms** are what the search moves: exprs that no better cover separates. A unary elementwise expr ``v = e(u)`` that
keeps the layout is invisible to every scheduler, which sees loops and not arithmetic. Hence, where bytes allow it:

* *A result shrinks where it is made.* When ``e`` is the only reader of ``u``, and ``v`` is no larger than ``u``, then
  whoever writes ``u`` may write ``v`` instead, and all others read ``v``: nobody moves more.
* *An operand grows where it is read.* When ``v`` is no smaller than ``u``, is no output, and all its readers compute,
  then each of them may run ``e`` itself and read ``u``: nobody moves more, and nobody has to write ``v``.

The first also holds for views that add or drop dims of size 1. Neither holds where a task would lose what made it a
view (such tasks cost nothing), next to a mark or a library call, or for a value that overwrites an input or an input
that is overwritten, whose readers cannot be chosen freely.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import TypeAlias

from fusebuild.errors import ScheduleError, UsageError
from fusebuild.ir.fusion import Fusion, Task
from fusebuild.ir.types import TensorType
from fusebuild.ir.values import Expr
from fusebuild.kernels.families import runs_nothing
from fusebuild.ops.table import Kind, op_of
from fusebuild.segmentation.acceptance import Acceptance, overwritten_inputs
from fusebuild.segmentation.canonical import canonical_order, reordered
from fusebuild.segmentation.cost import VIEW_SECONDS, CostModel
from fusebuild.segmentation.dependencies import Dependencies, dependencies_of
from fusebuild.segmentation.draft import Draft, Problem
from fusebuild.segmentation.presegment import presegment

Cover: TypeAlias = tuple[Task, ...]
"""Tasks in run order that together hold every tensor expr of a Fusion and name in ``results`` what they write.

Two tasks may hold the same expr; then one of them writes its value, if anyone reads it, and the other computes it again
for itself."""

ATOM_LIMIT = 12
"""Atoms that take well under a second; each one more doubles the sets of atoms that are tabulated."""


def exact_cover(problem: Problem, limit: int = ATOM_LIMIT) -> Cover:
    """A cover of the Fusion of ``problem`` with the least predicted time there is.

    The Fusion's exprs are primitive and all of them live; the dependencies are those of :func:`rules_of`. Raises
    :class:`UsageError` for one of more than ``limit`` atoms or with an expr of several results, and
    :class:`ScheduleError` with every scheduler's reason for each expr that none takes even alone.
    """
    fusion, dependencies = problem.fusion, problem.dependencies
    for expr in (fusion.exprs[index] for index in dependencies.exprs):
        if len(expr.outputs) > 1:
            place = f"{fusion.name} has a {expr.op} with {len(expr.outputs)}"
            raise UsageError(f"the exact search takes exprs with one result, and {place}")
    atoms = atoms_of(dependencies, problem.costs)
    if len(atoms) > limit:
        raise UsageError(f"the exact search takes fusions of at most {limit} atoms, and {fusion.name} has {len(atoms)}")
    return best_cover(problem, atoms)


def exact_draft(problem: Problem) -> Draft:
    """:func:`exact_cover` as a draft of ``problem``."""
    problem = replace(problem, dependencies=rules_of(problem.fusion))
    cover = exact_cover(problem)
    held = {name: frozenset(index for index in task.exprs if index in problem.dependencies.readers)
            for name, task in enumerate(cover)}  # fmt: skip
    home = {index: name for name, exprs in held.items() for index in exprs}
    home |= {index: name for name, task in enumerate(cover) for fid in task.outputs
             if (index := problem.fusion.definition(fid)) is not None}  # fmt: skip
    return Draft(problem, held, home)


def rules_of(fusion: Fusion) -> Dependencies:
    """The dependencies of ``fusion`` without the marks that do not cut, decided as the heuristic search does."""
    order = canonical_order(fusion)
    _, canonical = presegment(dependencies_of(reordered(fusion, order)))
    marked = frozenset((order[mark], order[reader]) for mark, reader in canonical.marked)
    return replace(dependencies_of(fusion), marked=marked)


def best_cover(problem: Problem, atoms: Sequence[Atom]) -> Cover:
    """The cover with the least predicted time among those that never separate one of ``atoms``, given in topological
    order. Raises :class:`ScheduleError` when there is none."""
    return _Search(AtomGraph(problem.dependencies, atoms, problem.costs), problem.acceptance).cover()


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """Exprs that are in a task together or not at all: ``writes`` is the one value that others may read, ``reads`` the
    tensors that come from elsewhere. Two atoms may hold the same expr."""

    exprs: frozenset[int]
    reads: frozenset[int]
    writes: int


def atoms_of(dependencies: Dependencies, costs: CostModel) -> tuple[Atom, ...]:
    """The atoms of a Fusion in topological order; see the module's docstring."""
    fusion, atoms = dependencies.fusion, {atom.writes: atom for atom in single_exprs(dependencies)}
    while step := _collapsed(fusion, atoms, costs):
        gone, changed = step
        del atoms[gone]
        atoms |= changed
    return tuple(sorted(atoms.values(), key=lambda atom: fusion.definition(atom.writes) or 0))


def single_exprs(dependencies: Dependencies) -> tuple[Atom, ...]:
    """Every tensor expr an atom of its own; a primitive expr has one result."""
    fusion, atoms = dependencies.fusion, []
    for index in dependencies.exprs:
        expr = fusion.exprs[index]
        (written,) = expr.outputs
        reads = frozenset(fid for fid in expr.inputs if fusion.value(fid).is_tensor)
        atoms.append(Atom(exprs=frozenset([index]), reads=reads, writes=written))
    return tuple(atoms)


def _collapsed(fusion: Fusion, atoms: Mapping[int, Atom], costs: CostModel) -> tuple[int, dict[int, Atom]] | None:
    """A value that need not be a boundary, and the atoms that then change, by what they write."""
    overwritten = overwritten_inputs(fusion)
    for result, atom in atoms.items():
        if len(atom.reads) != 1 or result in overwritten or not _is_transparent(fusion, atom):
            continue
        (operand,) = atom.reads
        if operand in overwritten.values():
            continue
        maker, readers = atoms.get(operand), [each for each in atoms.values() if result in each.reads]
        before, after = costs.bytes_of(operand), costs.bytes_of(result)
        is_private = not fusion.is_output(operand) and sum(operand in each.reads for each in atoms.values()) == 1
        if maker is not None and is_private and after <= before and _computes(fusion, maker):
            return operand, {result: Atom(exprs=maker.exprs | atom.exprs, reads=maker.reads, writes=result)}
        if any(map(_is_resizing, _exprs(fusion, atom))) or after < before or fusion.is_output(result):
            continue
        if all(_computes(fusion, each) for each in readers) and not (maker and _is_marked(fusion, maker)):
            return result, {
                each.writes: replace(each, exprs=each.exprs | atom.exprs, reads=(each.reads - {result}) | atom.reads)
                for each in readers
            }
    return None


def _exprs(fusion: Fusion, atom: Atom) -> list[Expr]:
    return [fusion.exprs[index] for index in sorted(atom.exprs)]


def _is_transparent(fusion: Fusion, atom: Atom) -> bool:
    """True when every expr maps one tensor elementwise to one of the same layout, or adds or drops dims of size 1."""
    return all(_is_resizing(expr) or _keeps_layout(fusion, expr) for expr in _exprs(fusion, atom))


def _is_resizing(expr: Expr) -> bool:
    return expr.op in ("broadcast", "squeeze")


def _keeps_layout(fusion: Fusion, expr: Expr) -> bool:
    if op_of(expr).kind is not Kind.POINTWISE or op_of(expr).is_alias:
        return False
    result = fusion.value(expr.outputs[0]).tensor
    operands = [fusion.value(fid).type for fid in expr.inputs]
    return all(replace(type_, dtype=result.dtype) == result for type_ in operands if isinstance(type_, TensorType))


def _computes(fusion: Fusion, atom: Atom) -> bool:
    """True for an atom that no view can stand for and no library computes."""
    ops = map(op_of, _exprs(fusion, atom))
    return any(not op.is_alias and op.kind is not Kind.LIBRARY for op in ops)


def _is_marked(fusion: Fusion, atom: Atom) -> bool:
    return any(op_of(expr).is_boundary for expr in _exprs(fusion, atom))


class AtomGraph:
    """The atoms of a Fusion as bits. A set of atoms, and the values that they write, is a mask of the same bits; the
    tensor inputs of the Fusion have masks of their own."""

    def __init__(self, dependencies: Dependencies, atoms: Sequence[Atom], costs: CostModel) -> None:
        self.fusion, self.atoms, self.costs = dependencies.fusion, atoms, costs
        fusion, bits = self.fusion, {atom.writes: 1 << place for place, atom in enumerate(atoms)}
        others = dict.fromkeys(fid for atom in atoms for fid in sorted(atom.reads) if fid not in bits)
        self._input_bits = {fid: 1 << place for place, fid in enumerate(others)}
        self.outputs = sum(bit for fid, bit in bits.items() if fusion.is_output(fid))
        self.once = sum(bits[atom.writes] for atom in atoms if not _is_recomputable(fusion, atom))
        self.views = sum(bits[atom.writes] for atom in atoms if not _computes(fusion, atom) and _is_view(fusion, atom))
        self.orders = [
            (self._input_bits[target], bits[result])
            for result, target in overwritten_inputs(fusion).items()
            if target in self._input_bits and result in bits
        ]
        """For each output that overwrites an input that is read, both."""
        self._fids = {bit: fid for fid, bit in bits.items()}
        self._reads = [sum(bits.get(fid, 0) for fid in atom.reads) for atom in atoms]
        self._read_inputs = [sum(self._input_bits.get(fid, 0) for fid in atom.reads) for atom in atoms]
        self._apart = [self._kept_apart(dependencies, place) for place in range(len(atoms))]
        self._tabulate()
        self.above, self.bound = cache(self._above), cache(self._bound)
        self.value_bytes, self.least_input_bytes = cache(self._value_bytes), cache(self._least_input_bytes)
        self.bytes_read = cache(self._bytes_read)

    def _kept_apart(self, dependencies: Dependencies, place: int) -> int:
        """The atoms that must not be in a task with the one at ``place``."""
        own, mask = self.atoms[place].exprs, 0
        for other, atom in enumerate(self.atoms):
            is_marked = any((a in own and b in atom.exprs) or (b in own and a in atom.exprs)
                            for a, b in dependencies.marked)  # fmt: skip
            if other != place and (is_marked or (own & dependencies.calls and atom.exprs & dependencies.calls)):
                mask |= 1 << other
        return mask

    def _tabulate(self) -> None:
        """By the mask of a set of atoms: what they read from elsewhere, and from the inputs; and, by the mask of the
        values that none of them reads, the sets that may be a task."""
        size = 1 << len(self.atoms)
        reads, inputs, is_legal = [0] * size, [0] * size, [True] * size
        self.tasks: dict[int, list[int]] = {}
        for mask in range(1, size):
            place = mask.bit_length() - 1
            rest = mask ^ (1 << place)
            reads[mask] = reads[rest] | self._reads[place]
            inputs[mask] = inputs[rest] | self._read_inputs[place]
            is_legal[mask] = is_legal[rest] and not self._apart[place] & rest
            if is_legal[mask]:
                self.tasks.setdefault(mask & ~reads[mask], []).append(mask)
        self.reads = [read & ~mask for mask, read in enumerate(reads)]
        self.inputs = inputs

    def _above(self, values: int) -> int:
        """The atoms that ``values`` are computed from, their own included."""
        found = values
        for place in _places(values):
            found |= self.above(self._reads[place])
        return found

    def _value_bytes(self, values: int) -> int:
        return self.costs.total_bytes(self._fids[1 << place] for place in _places(values))

    def _least_input_bytes(self, inputs: int) -> int:
        return sum(self._least_read(fid) for fid, bit in self._input_bits.items() if bit & inputs)

    def _least_read(self, fid: int) -> int:
        """Bytes of ``fid`` that are read at least where it is read at all, itself or as a view."""
        views = [atom.writes for atom in self.atoms if fid in atom.reads and _is_view(self.fusion, atom)]
        return min([self.costs.least_bytes_read(fid), *map(self._least_read, views)])

    def _bytes_read(self, atoms: int) -> int:
        """What a task of ``atoms`` reads, of inputs and of what other tasks write."""
        inputs = [fid for fid, bit in self._input_bits.items() if bit & self.inputs[atoms]]
        values = [self._fids[1 << place] for place in _places(self.reads[atoms])]
        return self.costs.task_bytes(self.exprs(atoms), [*inputs, *values], ())

    def _bound(self, wanted: int) -> float:
        """Seconds that writing ``wanted`` takes at least.

        A view may cost nothing: what it shows is looked at instead, and nothing at all where that is an input. Of an
        input counts what is read at least, of itself or of a view of it.
        """
        made = wanted & ~self.views
        for place in _places(wanted & self.views):
            made |= self._shown(place)
        if not made:
            return 0.0
        inputs = 0
        for place in _places(self.above(made)):
            inputs |= self._read_inputs[place]
        return self.costs.seconds(self.value_bytes(made & wanted) + self.least_input_bytes(inputs))

    def _shown(self, place: int) -> int:
        """The value that a chain of views ends in; none where that is an input."""
        while self.views >> place & 1:
            if not self._reads[place]:
                return 0
            place = self._reads[place].bit_length() - 1
        return 1 << place

    def exprs(self, atoms: int) -> frozenset[int]:
        return frozenset[int]().union(*(self.atoms[place].exprs for place in _places(atoms)))

    def results(self, values: int) -> frozenset[int]:
        return frozenset(self.atoms[place].writes for place in _places(values))


def _is_recomputable(fusion: Fusion, atom: Atom) -> bool:
    return all(op_of(expr).is_recomputable for expr in _exprs(fusion, atom))


def _is_view(fusion: Fusion, atom: Atom) -> bool:
    return all(op_of(expr).is_alias for expr in _exprs(fusion, atom))


def _places(mask: int) -> Iterator[int]:
    """The bits of ``mask``, ascending."""
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def _subsets(mask: int) -> Iterator[int]:
    """Every subset of ``mask``, the empty one first."""
    subset = 0
    while True:
        yield subset
        subset = (subset - mask) & mask
        if not subset:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A segment placed before all that ``later`` holds, or the end of the cover (no ``atoms``), and what is left to do
    and was paid so far."""

    wanted: int
    atoms: int = 0
    results: int = 0
    written: int = 0
    hbm_bytes: int = 0
    launches: int = 0
    views: int = 0
    held: int = 0
    later: Step | None = None


class _Search:
    def __init__(self, graph: AtomGraph, acceptance: Acceptance) -> None:
        self._graph, self._acceptance = graph, acceptance
        self._queue: list[tuple[float, int, int, Step]] = []
        self._serial = count()
        self._scheduler = cache(self._first_accepting)

    def cover(self) -> Cover:
        """The best cover; raises :class:`ScheduleError` when there is none."""
        self._push(Step(wanted=self._graph.outputs))
        done: set[tuple[int, int]] = set()
        while self._queue:
            *_, step = heapq.heappop(self._queue)
            state = step.wanted, step.written
            if state in done or (step.later is not None and not self._scheduler(step.atoms, step.results)):
                continue
            done.add(state)
            if not step.wanted:
                return self._unrolled(step)
            for earlier in self._steps(step):
                if (earlier.wanted, earlier.written) not in done:
                    self._push(earlier)
        raise self._nothing_fits()

    def _push(self, step: Step) -> None:
        costs = self._graph.costs
        paid = costs.seconds(step.hbm_bytes, step.launches) + step.views * VIEW_SECONDS
        heapq.heappush(self._queue, (paid + self._graph.bound(step.wanted), step.held, next(self._serial), step))

    def _steps(self, step: Step) -> Iterator[Step]:
        """What may run last among the rest; whether a scheduler takes it is not asked yet."""
        graph = self._graph
        for ends in _subsets(step.wanted):
            for atoms in graph.tasks.get(ends, ()):
                if graph.reads[atoms] & step.written:
                    continue
                for more in _subsets(atoms & step.wanted & ~ends):
                    earlier = self._earlier(step, atoms, ends | more)
                    if earlier is not None:
                        yield earlier

    def _earlier(self, step: Step, atoms: int, results: int) -> Step | None:
        """The step before ``step`` that holds ``atoms`` and writes ``results``; None where the rules forbid it."""
        graph = self._graph
        wanted = (step.wanted & ~results) | graph.reads[atoms]
        above = graph.above(wanted)
        if atoms & graph.once & above:
            return None
        if any(graph.inputs[atoms] & target and wanted & result for target, result in graph.orders):
            return None
        is_view = not atoms & ~graph.views and runs_nothing(self._scheduler(atoms, results))
        moved = graph.bytes_read(atoms) + graph.value_bytes(results)
        return Step(
            atoms=atoms,
            results=results,
            wanted=wanted,
            written=(step.written | results) & above,
            hbm_bytes=step.hbm_bytes + (0 if is_view else moved),
            launches=step.launches + (not is_view),
            views=step.views + is_view,
            held=step.held + atoms.bit_count(),
            later=step,
        )

    def _first_accepting(self, atoms: int, results: int) -> str:
        return self._acceptance.scheduler(self._graph.exprs(atoms), self._graph.results(results))

    def _unrolled(self, step: Step) -> Cover:
        """The tasks in run order, first to last."""
        tasks = []
        while step.later is not None:
            tasks.append(self._acceptance.task(self._graph.exprs(step.atoms), self._graph.results(step.results)))
            step = step.later
        return tuple(tasks)

    def _nothing_fits(self) -> ScheduleError:
        exprs = sorted(frozenset[int]().union(*(atom.exprs for atom in self._graph.atoms)))
        alone = [([index], frozenset(self._graph.fusion.exprs[index].outputs)) for index in exprs]
        return ScheduleError([self._acceptance.refusal(*each) for each in alone if self._acceptance.rejections(*each)])
