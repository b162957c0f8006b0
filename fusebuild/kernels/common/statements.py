"""From exprs to CUDA statements: one statement an op, one variable a fid.

``T3`` is the address of tensor 3, ``v3`` a vector loaded from it, ``t3`` one element, ``s3`` a scalar, ``a3`` an
accumulator, ``i1`` the coordinate on axis 1. An index op reads its result 3 from the address ``X3``, its vectors are
``x3``. Views (broadcast, squeeze, expand, permute, set) produce no statement: their results are other names for what
they view.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from fusebuild.errors import NOWHERE
from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr, Value
from fusebuild.kernels.common.domain import Access
from fusebuild.kernels.common.known_ranges import KnownRanges
from fusebuild.kernels.common.spec import KernelSpec, VectorLayout
from fusebuild.kernels.common.storage import operands
from fusebuild.ops.table import Kind, op_of

COORDINATE = "i{}"
_MADE_NAME = re.compile(r"[ts]\d+(_[a-z_]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Axes walked by one linear index, called ``name`` in the kernel and of C type ``index``."""

    name: str
    axes: tuple[int, ...]
    index: str = "Index"
    divisor: str = ""
    """What the kernel divides by instead of the extent of an axis, a format of that, where there is something."""

    found: str = ""
    """Where the kernel has the coordinates already, a format of the position among the axes, if it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinates:
    """How statements write the coordinates of the element that they compute. ``of`` gives that on an axis; where an
    axis is the one ``along`` which a vector lies, it is that of the vector's first element, and the statements are
    about its element ``k``."""

    of: Callable[[int], str] = COORDINATE.format
    along: int | None = None

    def __call__(self, axis: int) -> str:
        return f"{self.of(axis)} + k" if axis == self.along else self.of(axis)


class Statements:
    """Statements for ``exprs`` of ``fusion``."""

    def __init__(self, fusion: Fusion, exprs: Iterable[Expr]) -> None:
        self.fusion = fusion
        self._roots: dict[int, int] = {}
        ranges, self._functions = KnownRanges(fusion, self.root), dict[int, str]()
        for expr in exprs:
            if op_of(expr).is_rename:
                self._roots[expr.outputs[0]] = self.root(expr.inputs[0])
            elif function := ranges.function(expr):
                self._functions[expr.outputs[0]] = function

    def root(self, fid: int) -> int:
        """The value that ``fid`` is another name of; itself when it is no view."""
        return self._roots.get(fid, fid)

    def value(self, fid: int) -> Value:
        return self.fusion.value(fid)

    def c_type(self, fid: int) -> str:
        return self.value(fid).dtype.row.c_type

    def is_scalar(self, fid: int) -> bool:
        """True for values known before the kernel looks at its coordinates: scalars and CPU tensors."""
        value = self.value(fid)
        return not value.is_tensor or value.tensor.cpu

    def variable(self, fid: int) -> str:
        """The variable that holds ``fid``."""
        root = self.root(fid)
        return f"s{root}" if self.is_scalar(root) else f"t{root}"

    def operand(self, fid: int, dtype: DType) -> str:
        """``fid`` as an operand of ``dtype``: a literal, the variable, or a cast of it."""
        value = self.value(self.root(fid))
        if value.is_constant:
            assert isinstance(value.literal, bool | int | float)
            return literal_text(value.literal, dtype)
        text = self.variable(fid)
        return text if value.dtype is dtype else f"fb::cast<{dtype.row.c_type}>({text})"

    def own_operand(self, fid: int) -> str:
        """``fid`` as an operand of its own dtype: what is stored of it."""
        return self.operand(fid, self.value(fid).dtype)

    def statement(self, expr: Expr, coordinate: Coordinates = Coordinates()) -> str:
        """``const float t7 = t5 * t6;  // scale, layernorm.yaml:14``."""
        fid = expr.outputs[0]
        value = self.value(fid)
        declaration = f"const {self.c_type(fid)} {self.variable(fid)}"
        return f"{declaration} = {self._expression(expr, coordinate)};{self.comment(value, expr)}"

    @staticmethod
    def comment(value: Value, expr: Expr) -> str:
        """The name and the line that the author wrote. A name made from an original fid (``t12``, ``t12_sum``) is left
        out: beside variables that are named by segment fids it would mislead. What no author wrote has no line."""
        name = "" if _MADE_NAME.fullmatch(value.name) else value.name
        place = "" if expr.location == NOWHERE else expr.location.short
        words = ", ".join(filter(None, (name, place)))
        return f"  // {words}" if words else ""

    def _expression(self, expr: Expr, coordinate: Coordinates) -> str:
        taken = self.taken(expr)
        operands = [self.operand(fid, dtype) for fid, dtype in taken]
        if function := self._functions.get(expr.outputs[0]):
            return f"{function}({', '.join(operands)})"
        return operands[0] if expr.op in ("cast", "full") else op_of(expr).text(operands, taken[-1][1])

    def taken(self, expr: Expr) -> tuple[tuple[int, DType], ...]:
        """The operands of the pointwise ``expr``, and as which dtypes its statement takes them."""
        if expr.op in ("cast", "full"):
            return ((expr.inputs[0], self.value(expr.outputs[0]).dtype),)
        dtypes = op_of(expr).operand_dtypes([self.value(fid).type for fid in expr.inputs], dict(expr.attributes))
        return tuple(zip(expr.inputs, dtypes, strict=True))


class Body(Statements):
    """Statements for one kernel. Where its groups of axes are ``interleaved``, every axis has a stride of its own in
    every tensor; else a group is one dim of a contiguous tensor. ``flat`` is how a kernel of shifted vectors writes the
    place of a vector's first element in the whole domain, a multiple of the vector's length."""

    def __init__(self, spec: KernelSpec, *, interleaved: bool = False, flat: str = "") -> None:
        super().__init__(spec.task.fusion, spec.task.steps)
        self.spec = spec
        self.task = spec.task
        self.domain = spec.domain
        self.extents = spec.domain.extent_names
        self._interleaved = interleaved
        self._axes: dict[int, frozenset[int]] = {}
        self._closures: dict[tuple[frozenset[int], frozenset[int]], tuple[Expr, ...]] = {}
        self._flat = flat if spec.vectors is VectorLayout.SHIFTED else ""
        for expr in spec.task.steps if spec.sizes.branchless else ():
            if self._is_by_known_size(expr):
                self._functions[expr.outputs[0]] = "fb::divide_by_known"

    def axes_of(self, fid: int) -> frozenset[int]:
        """The axes along which (the root of) ``fid`` changes."""
        root = self.root(fid)
        if root not in self._axes:
            varies = not self.is_scalar(root)
            self._axes[root] = self.domain.axes_of(root, self.value(root).tensor) if varies else frozenset()
        return self._axes[root]

    def memory_inputs(self) -> tuple[int, ...]:
        """Tensors read from global memory."""
        outputs = set(self.task.outputs)
        return tuple(fid for fid in self.domain.accesses if fid not in outputs)

    def closure(self, targets: Iterable[int], available: Iterable[int] = ()) -> tuple[Expr, ...]:
        """The exprs that compute ``targets``, in order; values in ``available`` are taken as computed."""
        known = frozenset(map(self.root, available))
        wanted = frozenset(map(self.root, targets)) - known
        if (wanted, known) not in self._closures:
            self._closures[wanted, known] = self._closure({*wanted}, known)
        return self._closures[wanted, known]

    def _closure(self, wanted: set[int], known: frozenset[int]) -> tuple[Expr, ...]:
        exprs: list[Expr] = []
        for expr in reversed(self.task.steps):
            if not wanted.isdisjoint(expr.outputs):
                exprs.append(expr)
                wanted |= {self.root(fid) for fid in operands(expr)} - known
        return tuple(reversed(exprs))

    def roots(self, exprs: Iterable[Expr], targets: Iterable[int]) -> set[int]:
        """The roots of what ``exprs`` read and of ``targets``."""
        return {self.root(fid) for fid in (*(fid for expr in exprs for fid in operands(expr)), *targets)}

    def depends_on(self, fid: int, sources: Iterable[int]) -> bool:
        """Whether ``fid`` is one of ``sources`` or computed from one."""
        made = {result for expr in self.closure([fid]) for result in expr.outputs}
        return not {fid, *made}.isdisjoint(sources)

    def reads(self, targets: Iterable[int], available: Iterable[int] = ()) -> tuple[int, ...]:
        """The tensors of global memory that :meth:`closure` reads, in fid order."""
        roots = {self.root(fid) for fid in targets} - {self.root(fid) for fid in available}
        for expr in self.closure(targets, available):
            roots |= {self.root(fid) for fid in operands(expr)}
        taken = {self.root(fid) for fid in available}
        return tuple(fid for fid in self.memory_inputs() if fid in roots and fid not in taken)

    def _expression(self, expr: Expr, coordinate: Coordinates) -> str:
        if op_of(expr).kind is Kind.INDEX:
            (fid,) = expr.outputs
            return self.bounded(fid, coordinate, f"*({self.elsewhere(fid, coordinate)})", self.fill(fid))
        if expr.op == "linear_index":
            return self._linear_index(expr, coordinate)
        if expr.op != "iota":
            return super()._expression(expr, coordinate)
        result = self.value(expr.outputs[0])
        start, step = (self.operand(fid, result.dtype) for fid in expr.inputs)
        axes = self.domain.axes_of(result.fid, result.tensor)
        position = f"{result.dtype.row.c_type}({coordinate(min(axes)) if axes else '0'})"
        scaled = position if self._is_number(expr.inputs[1], 1) else f"{step} * {position}"
        return scaled if self._is_number(expr.inputs[0], 0) else f"{start} + {scaled}"

    def _is_number(self, fid: int, number: int) -> bool:
        value = self.value(self.root(fid))
        return value.is_constant and value.literal == number

    def _is_by_known_size(self, expr: Expr) -> bool:
        """Whether ``expr`` divides floats by a size that the kernel knows, as a mean does."""
        if expr.op not in ("div", "truediv"):
            return False
        divisor = expr.inputs[1]
        cast = self.fusion.expr_of(self.root(divisor))
        name = f"s{self.root(cast.inputs[0] if cast is not None and cast.op == 'cast' else divisor)}"
        is_known = any(parameter.name == name and parameter.value for parameter in self.spec.parameters)
        return is_known and self.value(expr.outputs[0]).dtype is DType.FLOAT

    def _linear_index(self, expr: Expr, coordinate: Coordinates) -> str:
        """The place of an element in row-major order. That of a vector's first element is a multiple of the vector's
        length where vectors begin where memory is aligned, and where compilers see that, they find the work that
        neighbours have in common."""
        order = self._linear_axes(expr)
        if self._is_flat(expr):
            return f"fb::vector_element<kVec>({self._flat}, k)"
        is_aligned = self.spec.vectors in (VectorLayout.ALIGNED, VectorLayout.SHIFTED)
        is_within_vector = is_aligned and order[-1:] == [coordinate.along]
        place = coordinate.of if is_within_vector else coordinate
        terms = [self.step(place(axis), order[at + 1 :]) for at, axis in enumerate(order)]
        first = " + ".join(terms) or "0"
        return f"fb::vector_element<kVec>({first}, k)" if is_within_vector else first

    def _linear_axes(self, expr: Expr) -> list[int]:
        """The axes of a ``linear_index``, in the order of its dims."""
        return [axis for axis in dict.fromkeys(self.domain.dims_of(expr.outputs[0])) if axis is not None]

    def _is_flat(self, expr: Expr) -> bool:
        """Whether a ``linear_index`` is the place of an element in the whole domain, and the kernel knows that."""
        return bool(self._flat) and self._linear_axes(expr) == [*range(len(self.domain.axes))]

    def split(self, exprs: Sequence[Expr], axes: Iterable[int]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """``(those that change along none of axes, the others)``, scalars left out of both."""
        moving = frozenset(axes)
        tensors = self.of_tensors(exprs)
        still = tuple(expr for expr in tensors if not self.axes_of(expr.outputs[0]) & moving)
        return still, tuple(expr for expr in tensors if self.axes_of(expr.outputs[0]) & moving)

    def of_tensors(self, exprs: Iterable[Expr]) -> tuple[Expr, ...]:
        """Those of ``exprs`` that are computed for each element: no scalars."""
        return tuple(expr for expr in exprs if not self.is_scalar(expr.outputs[0]))

    def scalar_statements(self, exprs: Iterable[Expr]) -> tuple[str, ...]:
        """The scalar arithmetic among ``exprs``, done once at the top of the kernel; sizes are parameters."""
        seen = {expr.outputs[0]: expr for expr in exprs if self.is_scalar(expr.outputs[0]) and expr.op != "size"}
        return tuple(self.statement(expr) for expr in seen.values())

    def coordinates(self, group: Group, needed: Iterable[int], counted: Collection[int] = ()) -> tuple[str, ...]:
        """Lines that take a linear index apart, as far as the coordinates on the axes ``needed`` ask for. Those on axes
        ``counted`` are variables, which later lines count on."""
        wanted = [axis for axis in group.axes if axis in set(needed)]
        if len(group.axes) < 2 or not wanted:
            return ()
        if group.found:
            return tuple(
                f"const {group.index} {COORDINATE.format(axis)} = {group.found.format(group.axes.index(axis))};"
                for axis in wanted
            )
        lines, rest = [], group.name
        for position, axis in reversed(list(enumerate(group.axes))[1:]):
            quotient, remainder = self._divided(rest, axis, group)
            if axis in wanted:
                const = "" if axis in counted else "const "
                lines.append(f"{const}{group.index} {COORDINATE.format(axis)} = {remainder};")
            if min(wanted) == axis:
                return tuple(lines)
            name = COORDINATE.format(group.axes[0]) if position == 1 else f"{group.name}_over_{axis}"
            const = "" if position == 1 and group.axes[0] in counted else "const "
            lines.append(f"{const}{group.index} {name} = {quotient};")
            rest = name
        return tuple(lines)

    def _divided(self, index: str, axis: int, group: Group) -> tuple[str, str]:
        """``index``, what is left of that of ``group``, divided by the extent of ``axis``: quotient and remainder."""
        size = f"{group.index}({self.extents[axis]})" if group.index == "Index" else self.extents[axis]
        if group.divisor and not isinstance(self.domain.axes[axis].extent, int):
            size = group.divisor.format(axis)
        return f"{index} / {size}", f"{index} % {size}"

    def within(self, *groups: Group) -> Coordinates:
        """The coordinates at the linear indices of ``groups``."""

        def own(axis: int) -> str:
            return self.coordinate(next((group for group in groups if axis in group.axes), groups[-1]), axis)

        return Coordinates(of=own)

    def along(self, *groups: Group) -> Coordinates:
        """The coordinates inside the loop over a vector's elements, where the innermost one moves with ``k``."""
        return replace(self.within(*groups), along=self.domain.inner if self.spec.vec > 1 else None)

    def coordinate(self, group: Group, axis: int) -> str:
        """The coordinate on ``axis``: the linear index itself when the group has no other axis."""
        return group.name if group.axes == (axis,) else COORDINATE.format(axis)

    def needs_coordinates(self, fids: Iterable[int], group: Group) -> set[int]:
        """The axes of ``group`` whose coordinates the accesses to ``fids`` read."""
        needed: set[int] = set()
        for fid in fids:
            access = self.domain.accesses[fid]
            own = {*access.axes} & {*group.axes}
            if own and (own != {*group.axes} or not self._is_nested(access)):
                needed |= own
        return needed

    def offset(self, fid: int, groups: Sequence[Group]) -> str:
        """The element offset of tensor ``fid`` at the current coordinates of ``groups``; ``0`` when it has none."""
        access = self.domain.accesses[fid]
        if not self._is_nested(access):
            return self._strided_offset(access, groups)
        text = ""
        for group in groups:
            own = [axis for axis in group.axes if axis in access.axes]
            if not own:
                continue
            part = group.name if tuple(own) == group.axes else self._horner(group, own)
            text = f"{in_brackets(text)} * {self.size(own)} + {part}" if text else part
        return text or "0"

    def element(self, fid: int, groups: Sequence[Group]) -> str:
        """The element of tensor ``fid`` at the current coordinates of ``groups``, or 0 where the tensor has none."""
        return self.if_any(fid, groups, f"T{fid}[{self.offset(fid, groups)}]", literal_text(0, self.value(fid).dtype))

    def is_vector(self, fid: int) -> bool:
        """True when tensor ``fid`` is loaded and stored by vectors along the innermost axis."""
        domain = self.domain
        return bool(domain.axes) and domain.unit_stride(domain.accesses[fid], domain.inner) is not None

    def is_by_element(self, fid: int) -> bool:
        """True when tensor ``fid`` is loaded and stored by elements while others move by vectors."""
        return self.spec.vec > 1 and not self.is_vector(fid)

    def scalar_load(self, fid: int, address: str) -> str:
        return f"const {self.c_type(fid)} t{fid} = {address};  // {self.value(fid).name}"

    def strided_load(self, fid: int, groups: Sequence[Group]) -> str:
        return self.scalar_load(fid, f"T{fid}[{self.strided_element(fid, groups)}]")

    def strided_element(self, fid: int, groups: Sequence[Group]) -> str:
        """The offset of element ``k`` of a vector whose elements are not neighbours in memory."""
        offset, inner = self.offset(fid, groups), self.domain.inner
        access = self.domain.accesses[fid]
        if inner not in access.strides or self.spec.vec == 1:
            return offset
        stride = access.strides[inner]
        if stride == 1:
            return f"{offset} + k"
        return f"{offset} + k * {stride if isinstance(stride, int) else f'{access.pointer}_stride{inner}'}"

    def vector_load(self, fid: int, groups: Sequence[Group]) -> str:
        """The line that loads the current vector of input ``fid``."""
        declaration = f"const fb::Vec<{self.c_type(fid)}, kVec> v{fid}"
        return f"{declaration} = fb::load<kVec>(T{fid} + {self.offset(fid, groups)});"

    def element_store(self, fid: int, strided: bool, groups: Sequence[Group], vector: str = "v") -> str:
        """Put the element of an output where it belongs: into its ``vector``, or into memory when that is strided."""
        place = f"T{fid}[{self.strided_element(fid, groups)}]" if strided else f"{vector}{fid}[k]"
        return f"{place} = {self.own_operand(fid)};"

    def if_any(self, fid: int, groups: Sequence[Group], value: str, otherwise: str) -> str:
        """``value``, which reads tensor ``fid``, or ``otherwise`` where that has no elements.

        A tensor that is expanded along an axis has the same element at each of its points, so that it can be read
        before the axis is walked. Where the axis has no points the tensor has no elements, and no memory either.
        """
        walked = {axis for group in groups for axis in group.axes}
        sizes = [self.extents[axis] for axis in self._expanded(fid) - walked]
        if "0" in sizes:
            return otherwise
        tests = " && ".join(f"{size} > 0" for size in sorted(sizes) if not size.isdigit())
        return f"{tests} ? {value} : {otherwise}" if tests else value

    def _expanded(self, fid: int) -> set[int]:
        """The axes along which tensor ``fid`` has dims but one and the same element."""
        loops = {loop for loop in self.domain.domain.dims[fid] if loop is not None}
        own = {axis for axis, merged in enumerate(self.domain.axes) if not loops.isdisjoint(merged.loops)}
        return own - {*self.domain.accesses[fid].axes}

    def base(self, fid: int, outer: Sequence[Group], inner: Sequence[int]) -> str:
        """The offset at which the part of tensor ``fid`` that changes along axes ``inner`` begins."""
        access = self.domain.accesses[fid]
        offset = self.offset(fid, outer)
        own = [axis for axis in inner if axis in access.axes]
        if offset == "0" or not own or not self._is_nested(access):
            return offset
        return f"{in_brackets(offset)} * {self.size(own)}"

    def _is_nested(self, access: Access) -> bool:
        return not self._interleaved and self.domain.is_contiguous(access)

    def size(self, axes: Iterable[int]) -> str:
        """The number of points of ``axes`` as a C expression, constants already multiplied: nothing can overflow."""
        return self._size(axes, _integer_text) or "1"

    def _size(self, axes: Iterable[int], number_text: Callable[[int], str]) -> str:
        """The factors of :meth:`size`, none where there is one point; names are those of 64-bit integers."""
        names, constant = [], 1
        for axis in axes:
            extent = self.domain.axes[axis].extent
            if isinstance(extent, int):
                constant *= extent
            else:
                names.append(self.extents[axis])
        return " * ".join([*([number_text(constant)] if constant != 1 else []), *names])

    def step(self, index: str, axes: Iterable[int]) -> str:
        """``index`` times the number of points of ``axes``, in 64 bits."""
        size = self._size(axes, _wide_text)
        return f"{in_brackets(index)} * {size}" if size else index

    def _horner(self, group: Group, axes: Sequence[int]) -> str:
        text = self.coordinate(group, axes[0])
        for axis in axes[1:]:
            text = f"{in_brackets(text)} * {self.extents[axis]} + {self.coordinate(group, axis)}"
        return text

    def _strided_offset(self, access: Access, groups: Sequence[Group]) -> str:
        axes = [(group, axis) for group in groups for axis in group.axes if axis in access.axes]
        terms = [self._term(access, axis, self.coordinate(group, axis)) for group, axis in axes]
        return " + ".join([*terms, *self._at_position(access)]) or "0"

    def _term(self, access: Access, axis: int, coordinate: str) -> str:
        """``coordinate`` times the stride, in 64 bits: a tensor may be far longer than the part that is indexed."""
        stride = access.strides[axis]
        if isinstance(stride, int):
            wide = f"int64_t({stride})" if stride >= 0 else str(stride)
            return coordinate if stride == 1 else f"{in_brackets(coordinate)} * {wide}"
        if self.domain.is_contiguous(access):
            return self.step(coordinate, [inner for inner in access.axes if inner > axis])
        return f"{in_brackets(coordinate)} * {access.pointer}_stride{axis}"

    def elsewhere(self, fid: int, coordinate: Callable[[int], str]) -> str:
        """The address of the element, or of the first of a vector, that the index op with the result ``fid`` reads at
        the given coordinates on axes."""
        return " + ".join([self.domain.sources[fid].pointer, *self.distance(fid, coordinate)])

    def goes_on(self, fid: int) -> int | None:
        """The index op that reads on where the one with the result ``fid`` ends, if it has the same address."""
        return None

    def distance(self, fid: int, coordinate: Callable[[int], str]) -> tuple[str, ...]:
        """The terms of how far that is from the tensor's first element."""
        access = self.domain.sources[fid]
        names = _names(access)
        terms = [] if access.offset == 0 else [names[f"{access.pointer}_offset"]]
        terms += [self._term(access, axis, coordinate(axis)) for axis in access.axes]
        return (*terms, *self._at_position(access))

    def _at_position(self, access: Access) -> tuple[str, ...]:
        """The term of what an index tensor says, if one does."""
        if access.position is None:
            return ()
        names = _names(access)
        index = self.operand(access.position.index, DType.INT64)
        stride = names[f"{access.pointer}_stride"]
        inside = self._inside(index, names[f"{access.pointer}_size"])
        return (inside if stride == "1" else f"{inside} * {stride}",)

    @staticmethod
    def _inside(index: str, size: str) -> str:
        """The element of a dim of so many that an ``index`` names."""
        return f"fb::inside({index}, {size})"

    def bounded(self, fid: int, coordinate: Callable[[int], str], value: str, outside: str) -> str:
        """``value``, or ``outside`` where the coordinates lie beyond the bounds of ``fid``, or where an index reads a
        dim that may have no elements; ``value`` where neither can be."""
        tests = self.within_bounds(fid, coordinate, coordinate)
        return f"{tests} ? {value} : {outside}" if tests else value

    def within_bounds(self, fid: int, first: Callable[[int], str], last: Callable[[int], str]) -> str:
        """What holds where some coordinates from the ``first`` to the ``last`` lie within the bounds of ``fid``, and
        the dim that an index reads has elements; nothing where that is always so."""
        access = self.domain.sources[fid]
        names = _names(access)
        tests = []
        for axis, _, _ in access.bounds:
            begin, end = names[f"{access.pointer}_first{axis}"], names[f"{access.pointer}_end{axis}"]
            tests += [f"{last(axis)} >= {self._bound(begin, access)}"] if begin != "0" else []
            tests += [f"{first(axis)} < {self._bound(end, access)}"]
        if access.position is not None and isinstance(access.position.size, tuple):
            tests.append(f"{names[f'{access.pointer}_size']} > 0")
        return " && ".join(tests)

    def _bound(self, name: str, access: Access) -> str:
        """A bound of ``access`` as coordinates are compared with it."""
        return name

    def fill(self, fid: int) -> str:
        """What ``fid`` is outside of its bounds: 0 where anything will do."""
        fill, dtype = self.domain.sources[fid].fill, self.value(fid).dtype
        return literal_text(0, dtype) if fill is None else self.operand(fill, dtype)

    def coordinate_axes(self, exprs: Iterable[Expr]) -> set[int]:
        """The axes whose coordinates ``exprs`` read: those of an ``iota`` or ``linear_index``, and where index ops
        read."""
        axes: set[int] = set()
        for expr in exprs:
            fid = expr.outputs[0]
            if expr.op == "iota" or (expr.op == "linear_index" and not self._is_flat(expr)):
                axes |= self.axes_of(fid)
            elif fid in self.domain.sources and op_of(expr).kind is Kind.INDEX:
                access = self.domain.sources[fid]
                axes |= {*access.axes, *(axis for axis, _, _ in access.bounds)}
        return axes


def _names(access: Access) -> dict[str, str]:
    """How kernels write the sizes of ``access``: by their names, or as the numbers that they are."""
    return {name: str(formula) if isinstance(formula, int) else name for name, formula in access.formulas}


def in_brackets(text: str) -> str:
    """``text`` as an operand of what binds closer than a sum."""
    return f"({text})" if " " in text else text


def literal_text(literal: bool | int | float, dtype: DType) -> str:
    """A C++ literal of exactly ``dtype``."""
    if dtype is DType.BOOL:
        return str(bool(literal)).lower()
    if dtype.is_integer:
        return f"{dtype.row.c_type}({_integer_text(int(literal))})"
    number = float(literal)
    if dtype.is_reduced_precision:
        return f"fb::cast<{dtype.row.c_type}>({literal_text(number, DType.FLOAT)})"
    suffix = "f" if dtype is DType.FLOAT else ""
    if math.isnan(number):
        return f"{dtype.row.c_type}(NAN)"
    if math.isinf(number):
        return f"{dtype.row.c_type}({'-' if number < 0 else ''}INFINITY)"
    return f"{number!r}{suffix}"


def _wide_text(number: int) -> str:
    """A number of points in 64 bits."""
    return f"int64_t({number})" if number <= 2**31 - 1 else _integer_text(number)


def _integer_text(number: int) -> str:
    """Integers as a compiler takes them: the most negative one has no literal of its own."""
    return (
        "(-9223372036854775807LL - 1)"
        if number == -(2**63)
        else f"{number}LL"
        if abs(number) > 2**31 - 1
        else str(number)
    )
