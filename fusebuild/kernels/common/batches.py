"""Elements that a thread gathers and combines a batch at a time, where one by one would cost more.

A lambda of two exponentials an element is what (max, sum of exp) takes to merge states; a batch of k elements needs
1 + 1/k, as its own maximum is found first. The same goes where a row is held on chip: a thread's first sweep for the
maximum and second for the sum would widen and compare every element once more, which is more than the 1/k. The first of
the largest values is found by one comparison and one selection an element, where the lambda has thirteen operations on
64-bit indices and NaN. The mean of a vector's elements and their squared deviations are sums, where to merge elements
one by one takes a division each. A sum over a row of which one element alone differs from zero takes that one, and the
loop over the row has nothing to do for it. A thread that adds hundreds of elements to one float loses low bits of each,
and where those are no matter of chance, as in squares of bfloat16, it loses on average, 4e-6 of the sum of 2^28. So the
elements of a vector meet first, as a tree, and what each addition to the sum loses is kept beside it (Knuth, TAOCP
4.2.2).

A thread gathers the elements of a batch in ``e<fid>``, and what it keeps beside its accumulators in ``w<fid>``. States
of threads and blocks are merged by the lambda, as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fusebuild.ir.dtype import DType
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.lambdas import Folding, foldings
from fusebuild.kernels.common.spec import VectorLayout
from fusebuild.kernels.common.statements import Body, literal_text
from fusebuild.kernels.common.view import Lines, Sweep
from fusebuild.ops.built_in_lambdas import BuiltIn, recognized

Coordinate = Callable[[int], str]
GATHERED_REGISTERS = 64
"""What states and gathered elements may take of a thread's 128 registers, where it has several columns."""
WIDEST_BATCH = 32
"""Bytes of a vector's elements as they are combined: of wider ones, which are doubles beside narrow inputs, a thread
takes one at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """How elements of ``folding`` are gathered and combined: ``element`` of each, which is computed from ``needs``, and
    ``fill`` in the place of one that is not there. ``add`` combines a batch into the accumulator, or into what
    ``keeper``, a type, keeps; it is a format of the two. One that ``looks_inside`` leaves out what is beside a row."""

    folding: Folding
    element: str
    needs: tuple[int, ...]
    fill: str
    add: str
    keeper: str = ""
    is_single: bool = False
    looks_inside: bool = False

    @property
    def c_type(self) -> str:
        return self.folding.dtypes[0].row.c_type

    @property
    def gathered(self) -> str:
        return f"e{self.folding.expr.outputs[0]}"

    def combined(self, subscript: str = "", values: str = "") -> str:
        """The statement that combines a batch: what was gathered, or ``values``."""
        target = f"{self.folding.running if self.keeper else self.folding.accumulator}{subscript}"
        return self.add.format(target, values or self.gathered)

    def combined_singly(self, subscript: str = "") -> str:
        """The statement that combines the current element."""
        return self.combined(subscript, f"fb::Vec<{self.c_type}, 1>{{{self.element}}}")

    def registers(self, count: int) -> int:
        """What the state of one column and ``count`` gathered elements take."""
        sizes = [dtype.bytes for dtype in self.folding.dtypes]
        return (sum(sizes) + count * sizes[0]) // 4

    def keeping(self, count: str = "") -> Lines:
        """What a thread keeps beside its accumulator, for each of ``count`` columns."""
        return (f"{self.keeper} {self.folding.running}{count};",) if self.keeper else ()

    def kept(self) -> str:
        """The statement that makes the accumulator of what was kept."""
        folding = self.folding
        if not folding.has_state:
            return f"{folding.c_type} {folding.accumulator} = {folding.running}.total();"
        return f"auto {folding.accumulator} = {folding.running}.state<{folding.c_type}>({folding.identity});"


def batch_of(
    body: Body, index: int, axis: int, start: Coordinate, *, together: str = "kVec", keeps: bool = True
) -> Batch | None:
    """How the reduction number ``index`` takes several elements at a time along ``axis``, where so many ``together``
    lie side by side from the coordinate ``start`` on; None where it combines them one by one. ``keeps`` says whether a
    thread can keep something beside its accumulator."""
    (folding,) = foldings(body, [index])
    expr = folding.expr
    known = recognized(body.fusion.lambdas[expr.combine]) if expr.combine else None
    if known is None or not _begins_as(folding, known[1]):
        return None
    op, built_in = known
    if op == "mean_and_squares":
        return None
    value = expr.inputs[0]
    if body.value(value).is_constant:
        return None
    element = body.operand(value, folding.dtypes[0])
    fill = literal_text(built_in.identity[0], folding.dtypes[0])
    is_wide = body.spec.vec * folding.dtypes[0].bytes > WIDEST_BATCH
    if op == "logsumexp":
        if body.value(expr.inputs[1]).literal != 1:
            return None
        add = "fb::add_exponentials({}, {});"
        return Batch(folding=folding, element=element, needs=(value,), fill=fill, add=add, is_single=is_wide)
    if not keeps or body.domain.reduced != (axis,) or not _counts(body, expr.inputs[1], axis):
        return None
    best = "fb::Max" if op == "argmax" else "fb::Min"
    count, at = ("1", f"{start(axis)} + k") if is_wide and together == "kVec" else (together, start(axis))
    return Batch(
        folding=folding,
        element=element,
        needs=(value,),
        fill=fill,
        add=f"{{}}.add({{}}, {at});",
        keeper=f"fb::FirstBest<{best}, {folding.dtypes[0].row.c_type}, {count}, Index>",
        is_single=count == "1",
    )


def long_sum_of(body: Body, index: int) -> Batch | None:
    """How the reduction number ``index`` takes a vector at a time and keeps what additions lose, where it is a sum of
    floats of which a thread takes hundreds; None for any other reduction."""
    (folding,) = foldings(body, [index])
    value = folding.expr.inputs[0]
    if folding.expr.op != "sum" or folding.dtypes[0] is not DType.FLOAT or body.value(value).is_constant:
        return None
    return Batch(
        folding=folding,
        element=folding.element,
        needs=(value,),
        fill=literal_text(0, DType.FLOAT),
        add="{}.add({});",
        keeper="fb::LongSum",
        is_single=body.spec.vec == 1 or body.spec.vec * DType.FLOAT.bytes > WIDEST_BATCH,
    )


def moments_of(body: Body, index: int) -> Batch | None:
    """How the reduction number ``index`` takes a vector of a row at a time, where it is the mean and the sum of squares
    of elements that count once each: a ``welford``'s, or a lambda's; None for any other reduction."""
    (folding,) = foldings(body, [index])
    if not folding.is_running and not _is_mean_and_squares(folding):
        return None
    value, dtype = folding.expr.inputs[0], folding.dtypes[0]
    is_single = body.spec.vec * dtype.bytes > WIDEST_BATCH
    looks_inside = body.spec.is_shifted and not is_single
    return Batch(
        folding=folding,
        element=body.operand(value, dtype),
        needs=(value,),
        fill=literal_text(0, dtype),
        add="{}.add({}, inside);" if looks_inside else "{}.add({});",
        keeper=f"fb::BatchMoments<{dtype.row.c_type}, Index>",
        is_single=is_single,
        looks_inside=looks_inside,
    )


def _is_mean_and_squares(folding: Folding) -> bool:
    """Whether a lambda says that."""
    body, expr = folding.body, folding.expr
    known = recognized(body.fusion.lambdas[expr.combine]) if expr.combine else None
    if known is None or known[0] != "mean_and_squares" or not _begins_as(folding, known[1]):
        return False
    value, *others = expr.inputs[:3]
    return not body.value(value).is_constant and [body.value(fid).literal for fid in others] == [0, 1]


def _begins_as(folding: Folding, built_in: BuiltIn) -> bool:
    """Whether the identity is the one that the op's own lambda has."""
    identity = [folding.body.value(fid) for fid in folding.expr.inputs[len(folding.expr.outputs) :]]
    return all(value.literal == wanted for value, wanted in zip(identity, built_in.identity, strict=True))


def _counts(body: Body, fid: int, axis: int) -> bool:
    """Whether ``fid`` is the coordinate on ``axis``."""
    expr = body.task.step_of(body.root(fid))
    if expr is None or expr.op != "iota" or body.value(expr.outputs[0]).dtype is not DType.INT64:
        return False
    return [body.value(bound).literal for bound in expr.inputs] == [0, 1] and body.axes_of(fid) == {axis}


def position_of(body: Body, expr: Expr, axis: int) -> int | None:
    """The value that ``expr``, an ``eq``, compares with the coordinate on ``axis``, along which that value does not
    change; None where this is not what ``expr`` does."""
    if expr.op != "eq":
        return None
    for counter, position in (expr.inputs, expr.inputs[::-1]):
        if _counts(body, counter, axis) and body.value(position).dtype.is_integer:
            return None if axis in body.axes_of(position) else position
    return None


def place(body: Body, name: str, position: int, start: str) -> str:
    """The line that says in ``name`` which element of the vector at ``start`` has the coordinate ``position``."""
    return f"const int {name} = fb::place_in<kVec>({body.operand(position, DType.INT64)}, {start});"


def only_element(body: Body, index: int, axis: int) -> tuple[int, int] | None:
    """``(x, position)`` where the reduction number ``index`` is the sum over ``axis`` alone of ``where(coordinate ==
    position, x, 0)``; else None."""
    expr = body.fusion.exprs[index]
    if expr.op != "sum" or body.domain.reduced != (axis,):
        return None
    chosen = body.task.step_of(body.root(expr.inputs[0]))
    if chosen is None or chosen.op != "where":
        return None
    condition, value, other = chosen.inputs
    test = body.task.step_of(body.root(condition))
    position = None if test is None else position_of(body, test, axis)
    if position is None or body.value(other).literal != 0 or body.value(value).is_constant:
        return None
    dtypes = [body.value(fid).dtype for fid in (body.root(value), chosen.outputs[0], expr.outputs[0])]
    return (value, position) if dtypes[1] in (dtypes[0], dtypes[2]) else None  # else it is cast twice


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The reductions at ``indices`` of a kernel: those that take batches with their :class:`Batch`, sums that have but
    one element with that and its position."""

    body: Body
    indices: tuple[int, ...]
    of: dict[int, Batch]
    only: dict[int, tuple[int, int]]

    @property
    def singly(self) -> tuple[int, ...]:
        """Those that combine their elements one by one."""
        return tuple(index for index in self.indices if index not in self.of and index not in self.only)

    @property
    def plain(self) -> tuple[int, ...]:
        """Those whose accumulators are there while a thread reads."""
        return tuple(index for index in self.indices if index not in self.of or not self.of[index].keeper)

    def targets(self) -> list[int]:
        """What the elements are made of that a loop combines, but for constants."""
        fids = [
            fid
            for folding in foldings(self.body, (*self.singly, *self.of))
            for fid in (self.of[folding.index].needs if folding.index in self.of else folding.components)
        ]
        return [fid for fid in dict.fromkeys(fids) if not self.body.value(fid).is_constant]

    def along_rows(self, subscript: str = "") -> Sweep:
        """What a thread does that reads vectors along its rows, whose accumulators have ``subscript``."""
        batches = self.of.values()
        whole = [batch for batch in batches if not batch.is_single]
        lacks = self.body.spec.vectors is not VectorLayout.ALIGNED
        plain, filled = "fb::Vec<{0}, kVec> {1};", "fb::Vec<{0}, kVec> {1} = fb::splat<kVec>({2});"
        vectors = {batch: filled if lacks and not batch.looks_inside else plain for batch in whole}
        gathers = {batch: f"{batch.gathered}[k] = {batch.element};" for batch in whole}
        return Sweep(
            accumulators=tuple(line for batch in batches for line in batch.keeping()),
            vector=tuple(text.format(batch.c_type, batch.gathered, batch.fill) for batch, text in vectors.items()),
            element=tuple(line for batch, line in gathers.items() if batch.looks_inside),
            accumulate=(
                *(batch.combined_singly(subscript) for batch in batches if batch.is_single),
                *(line for batch, line in gathers.items() if not batch.looks_inside),
            ),
            stores=tuple(batch.combined(subscript) for batch in whole),
            merged=tuple(batch.kept() for batch in batches if batch.keeper),
        )

    def down_columns(self, unroll: int) -> Sweep:
        """What a thread does that owns a vector of columns and reads ``unroll`` rows at a time: where registers do not
        hold their elements, it takes a row at a time, as it does where indices are not neighbours."""
        batches = self.of.values()
        whole = [batch for batch in batches if not batch.is_single]
        if sum(batch.registers(unroll) for batch in whole) * self.body.spec.vec > GATHERED_REGISTERS:
            whole = []
        rows = [batch for batch in batches if batch not in whole]
        return Sweep(
            accumulators=tuple(line for batch in batches for line in batch.keeping("[kVec]")),
            row=tuple(
                f"fb::Vec<fb::Vec<{batch.c_type}, kUnroll>, kVec> {batch.gathered} = "
                f"fb::splat<kVec>(fb::splat<kUnroll>({batch.fill}));"
                for batch in whole
            ),
            accumulate=(
                *(batch.combined_singly("[k]") for batch in rows),
                *(f"{batch.gathered}[k][u] = {batch.element};" for batch in whole),
            ),
            batched=tuple(batch.combined("[k]", f"{batch.gathered}[k]") for batch in whole),
            merged=tuple(
                f"auto {kept.accumulator} = fb::states<{kept.functor}>({kept.running}, {kept.identity});"
                for kept in (batch.folding for batch in batches if batch.keeper)
            ),
        )


def batches(
    body: Body,
    indices: Sequence[int],
    axis: int,
    start: Coordinate,
    *,
    together: str = "kVec",
    keeps: bool = True,
    looks_up: bool = False,
    is_long: bool = False,
) -> Batches:
    """How the reductions at ``indices`` take several elements at a time along ``axis``, as :func:`batch_of` says;
    ``looks_up`` says whether sums can take one element of a row, ``is_long`` whether others have many for a thread,
    as :func:`moments_of` and :func:`long_sum_of` say."""
    elements = {index: only_element(body, index, axis) for index in indices if looks_up}
    only = {index: element for index, element in elements.items() if element is not None}
    found = {index: batch_of(body, index, axis, start, together=together, keeps=keeps) for index in indices}
    if is_long:
        others = [index for index in indices if found[index] is None and index not in only]
        found |= {index: moments_of(body, index) or long_sum_of(body, index) for index in others}
    of = {index: batch for index, batch in found.items() if batch is not None}
    return Batches(body=body, indices=tuple(indices), of=of, only=only)
