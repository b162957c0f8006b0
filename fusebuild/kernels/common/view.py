"""What every family of views uses: the frozen view itself, and the lines that loads, stores and accumulators become."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import chain

from fusebuild.ir.values import Expr
from fusebuild.kernels.common.lambdas import foldings, structs
from fusebuild.kernels.common.spec import KernelSpec, VectorLayout
from fusebuild.kernels.common.statements import Body

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One walk over a row or a column: what is loaded, computed per vector and per element, accumulated and stored.
    ``row`` comes before the columns of a row, or where running sums are recentered; ``merged`` makes accumulators of
    them. ``batched`` combines, column by column, what rows gathered. ``joint_stores`` take all threads of a block.
    Where there are ``cases`` of vectors, each calls ``along``, which does the same for all with what it ``takes``."""

    load_coordinates: Lines = ()
    coordinates: Lines = ()
    arrays: Lines = ()
    loads: Lines = ()
    vector: Lines = ()
    element: Lines = ()
    stores: Lines = ()
    joint_stores: Lines = ()
    accumulators: Lines = ()
    accumulate: Lines = ()
    batched: Lines = ()
    merged: Lines = ()
    reduce: str = ""
    results: Lines = ()
    row: Lines = ()
    takes: Lines = ()
    cases: Lines = ()

    @property
    def reads_row(self) -> bool:
        """Whether what is done before a row's columns are walked, at each of its elements, or with its ``results``,
        names the row's number."""
        return is_named("row", (*self.row, *self.vector, *self.element, *self.results))

    def names(self, variable: str) -> bool:
        """Whether any of its statements names the ``variable``."""
        return is_named(variable, statements_in(self))

    @property
    def loads_apart(self) -> bool:
        """Whether what is loaded needs a scope of its own: it names what is named again where it is used."""
        used = {declared_in(line) for line in (*self.coordinates, *self.vector)}
        return not used.isdisjoint(declared_in(line) for line in (*self.load_coordinates, *self.loads))

    def without_idle_coordinates(self) -> Sweep:
        """This sweep without the coordinates that it does not name, such as of inputs that an earlier one loaded."""
        loads = () if self.load_coordinates else self.loads
        others = statements_in(replace(self, load_coordinates=(), coordinates=(), loads=loads))
        return replace(
            self,
            load_coordinates=lines_named(self.load_coordinates, self.loads),
            coordinates=lines_named(self.coordinates, others),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """What a kernel keeps over many rows in ``arrays``: values of columns, which ``steady`` computes, and accumulators
    that start at their ``resets`` and end in scratch at ``stores``, those with parts at ``element_stores``, combined
    over a block's threads before by ``reduce``; ``blanks`` say in scratch that there is nothing more. Where a block has
    all that they accumulate, ``whole`` is what is done with them instead. What the next such time needs is ``expected``
    meanwhile."""

    coordinates: Lines = ()
    arrays: Lines = ()
    steady: Sweep = Sweep()
    resets: Lines = ()
    expected: Lines = ()
    reduce: str = ""
    stores: Lines = ()
    element_stores: Lines = ()
    blanks: Lines = ()
    whole: Sweep = Sweep()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelView:
    """Everything a template reads. ``setup`` runs before any sweep; ``lambdas`` are the functors that reductions and
    scans combine with; ``lifetimes`` go from the longest to the shortest; ``next_rows`` loads what the next rows need,
    ``ahead`` what the last sweep does; ``edges`` are a sweep's lines for an element beside its vectors; ``finishes``
    are those of :mod:`fusebuild.kernels.common.finish_view`; ``untiled`` is what is done with rows that are too few for
    tiles, ``alone`` with those of one element, and ``columns`` where columns are added up first; ``block`` is
    :func:`walking_block`; ``clamped`` loads of a whole row are those of
    :class:`fusebuild.kernels.persistent.few_rows.FewRowsHeuristics`."""

    index: str
    vec: int
    block: str
    heuristics: object
    extents: dict[str, str]
    scalars: Lines
    setup: Lines
    sweeps: tuple[Sweep, ...]
    epilogue: Sweep
    bases: Lines = ()
    lambdas: tuple[Lines, ...] = ()
    lifetimes: tuple[Lifetime, ...] = ()
    next_rows: Sweep = Sweep()
    ahead: Sweep = Sweep()
    finishes: tuple[object, ...] = ()
    untiled: object = None
    alone: object = None
    columns: object = None
    edges: tuple[Lines, ...] = ()
    shifted: bool = False
    anywhere: bool = False
    clamped: bool = False
    threads: str = "kThreadsPerRow"

    def names(self, variable: str) -> bool:
        """Whether any statement names the ``variable``: otherwise a template that defines it has no need to."""
        statements = (self.scalars, self.setup, self.bases, self.sweeps, self.epilogue, self.lifetimes, self.next_rows,
                      self.ahead, self.edges)  # fmt: skip
        return is_named(variable, statements_in(statements))


def statements_in(part: object) -> Iterator[str]:
    """The lines in ``part``, a view's or a tuple of such."""
    if isinstance(part, str):
        yield part
    elif is_dataclass(part):
        for field in fields(part):
            yield from statements_in(getattr(part, field.name))
    elif isinstance(part, tuple):
        for each in part:
            yield from statements_in(each)


def lines_named(declarations: Lines, others: Iterable[str]) -> Lines:
    """Those of ``declarations``, such as ``type name = value`` or ``type name(value)``, that ``others`` name, or one of
    them after it."""
    kept, statements = list[str](), [*others]
    for line in reversed(declarations):
        if is_named(declared_in(line), (*statements, *kept)):
            kept.insert(0, line)
    return tuple(kept)


def declared_in(line: str) -> str:
    """What ``line`` declares, as ``type name = value`` or ``type name(value)``; of another one, what it begins with."""
    return re.split(r" = |\(", line)[0].rpartition(" ")[2]


def is_named(name: str, statements: Iterable[str]) -> bool:
    """Whether ``name`` stands in one of ``statements`` outside of its comment."""
    return any(re.search(rf"\b{name}\b", line.split("//")[0]) for line in statements)


def walking_block(spec: KernelSpec) -> str:
    """The number of the block along x, counted from the last one where the kernel walks backwards."""
    if spec.order.members:
        return "member.block"
    return "fb::grid_x() - 1 - fb::block_x()" if spec.order.backwards else "fb::block_x()"


def make_view(body: Body, exprs: Iterable[Expr], **parts: object) -> KernelView:
    """The view of a kernel that computes ``exprs``: the fields that every family fills in one way, and ``parts``."""
    spec = body.spec
    scalars = body.scalar_statements(exprs)
    defaults: dict[str, object] = {"setup": (), "sweeps": (), "epilogue": Sweep(), "extents": {}, "scalars": scalars}
    return KernelView(
        index=spec.index,
        vec=spec.vec,
        heuristics=spec.heuristics,
        lambdas=structs(spec.task),
        shifted=spec.is_shifted,
        anywhere=spec.vectors is VectorLayout.ANYWHERE,
        block=walking_block(spec),
        **(defaults | parts),  # type: ignore[arg-type]
    )


def accumulate(body: Body, indices: Sequence[int], subscript: str = "", is_first: str = "") -> Sweep:
    """The accumulators of the reductions at ``indices``: declarations, updates and results. ``is_first`` tells running
    sums whether an element is the thread's first."""
    own = foldings(body, indices)
    return Sweep(
        accumulators=tuple(folding.declaration() for folding in own),
        accumulate=tuple(folding.update(subscript, is_first) for folding in own),
        results=tuple(line for folding in own for line in folding.results(f"{folding.accumulator}{subscript}")),
    )


def read_columns_once(body: Body, indices: Sequence[int], turns: str, last: str = "") -> Sweep:
    """What a thread accumulates in that reads a vector of columns from row ``first`` on, ``kUnroll`` rows at a time, in
    turn with those of as many blocks as ``turns``; and how running sums become accumulators of what it read, of whose
    ``last`` row only the elements count that have a bit there."""
    own = foldings(body, indices)
    declarations = tuple(folding.running_columns() for folding in own)
    running = [folding for folding in own if folding.is_running]
    if not running:
        return Sweep(accumulators=declarations)
    names = ", ".join(folding.running for folding in running)
    counted = [last] if last else []
    return Sweep(
        coordinates=("const bool is_first = u == 0 && top == first;",),
        accumulators=(
            *declarations,
            "Index read = 0;  // rows that the thread has read",
            "Index centered = 1;  // how many of them the shifts are the means of",
        ),
        row=(f"fb::recenter(centered, read, {names});", "read += kUnroll;"),
        merged=(
            f"const int64_t count = fb::steps_in_turns<Index>(first, end, height, kUnroll, {turns});",
            *(
                f"auto {each.accumulator} = fb::states({', '.join([each.running, 'count', *counted])});"
                for each in running
            ),
        ),
    )


def accumulators(body: Body, indices: Sequence[int]) -> str:
    """The arguments of a joint reduction: ``fb::accumulator<fb::Sum>(a5), …``."""
    return ", ".join(folding.argument() for folding in foldings(body, indices))


def join(*sweeps: Sweep) -> Sweep:
    """The lines of ``sweeps`` one after another, field by field; one of them at most has a ``reduce``."""
    joined = {field.name: [getattr(sweep, field.name) for sweep in sweeps] for field in fields(Sweep)}
    reduce = "".join(joined.pop("reduce"))
    return Sweep(reduce=reduce, **{name: tuple(chain.from_iterable(parts)) for name, parts in joined.items()})


def with_nearest(lines: Lines, first: str, end: str) -> Lines:
    """``lines`` of element ``k`` of the shifted vector at column ``first``, before which ``at``, the nearest column to
    the element's before the ``end``, is declared where they name it."""
    nearest = f"const Index at = fb::nearest_column<Index>({first} + k, {end});"
    return (nearest, *lines) if is_named("at", lines) else lines
