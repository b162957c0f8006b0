"""Does a plan make sense? Everything that the executor relies on and that the JSON's types cannot say.

:func:`validate_plan` returns the first problem as a sentence. A plan that passes names only values, extents, slots and
kernels that exist, defines before it reads, keeps every intermediate's slot alive until its last reader, and holds only
formulas that can be evaluated from the extents of its inputs.

Whether a plan fits its kernels, :mod:`fusebuild.artifact.kernel_text` says: their texts tell what stands for each
parameter, which sizes a kernel knows, and every launch that there is of it. A kernel's code cannot tell: it is shared
by recipes that launch it with different formulas. Nor is known whether a plan computes what its recipe says: one that
leaves out a variant, or names its values otherwise throughout, is as well formed. Whoever changes a plan and its texts
and seals them again has changed the program. Digests find what was changed by accident; ``load(path, sha256=...)``
takes one file and no other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

import msgspec

from fusebuild.artifact import plan as p
from fusebuild.artifact.architecture import architecture_of
from fusebuild.errors import one_line
from fusebuild.ir.dtype import DType
from fusebuild.ir.fid import OriginalFid
from fusebuild.ir.formula import INT64_MAX, MULTIPROCESSORS, OPERATORS, Formula, product, show, symbols

DTYPES = frozenset(dtype.value for dtype in DType)
_WORD_BYTES = 8
"""Of an address and of an integer that is computed from sizes, as kernels take them."""

PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")
"""What names become file names: nothing that a shell, a path or a zip reads as more than a name."""

_SYMBOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KERNEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_HOST_NAME = re.compile(r"host(-[a-z]+)?")
_VARIADIC = frozenset({"add", "mul", "min", "max"})
_DIVISIONS = frozenset({"floor_div", "ceil_div", "mod"})
_COMPARISONS = frozenset({"eq", "lt", "le", "gt", "ge"})
_MAX_DEPTH = 64
_MAX_BLOCK = (1024, 1024, 64)
_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_SHARED = 2**31 - 1
_MAX_CLUSTER = 8
_MAX_SLOT = 2**56
"""Bytes of a workspace slot, more than any machine has: sums of so many do not overflow."""


class _WrongError(Exception):
    """The sentence that :func:`validate_plan` returns."""


def validate_plan(plan: p.Plan) -> str | None:
    """What is wrong with ``plan``, in words, or None when nothing is."""
    try:
        if plan.format != p.FORMAT_VERSION:
            raise _WrongError(f"it has format {plan.format}, expected {p.FORMAT_VERSION}")
        if not _SYMBOL_NAME.fullmatch(plan.fusion):
            raise _WrongError(f"'{plan.fusion}' is no fusion name")
        scope = _Scope(plan)
        _check_interface(plan, scope)
        _check_unique("target", (target.target for target in plan.targets))
        if not plan.targets:
            raise _WrongError("it has no target")
        for target in plan.targets:
            if architecture_of(target.target) is None and not _HOST_NAME.fullmatch(target.target):
                raise _WrongError(f"'{target.target}' is no target name")
            try:
                _TargetCheck(plan, scope, target).run()
            except _WrongError as wrong:
                raise _WrongError(f"{target.target}: {wrong}") from None
    except _WrongError as wrong:
        return str(wrong)
    return None


class _Scope:
    """What formulas and arguments may name."""

    def __init__(self, plan: p.Plan) -> None:
        _check_unique("fid", (value.fid for value in plan.values))
        _check_unique("extent fid", (extent.fid for extent in plan.extents))
        self.values: Mapping[int, p.PlanValue] = {value.fid: value for value in plan.values}
        self.extents = frozenset(extent.fid for extent in plan.extents)
        self.named_alone = frozenset(extent.extent for extent in plan.extents if isinstance(extent.extent, str))
        self.extent_symbols = self.named_alone | {solution.symbol for solution in plan.solutions or ()}
        self.symbols = self.extent_symbols | {MULTIPROCESSORS}
        self.has_empty_tensor = any(size == 0 for value in plan.values for size in value.shape)
        """Whether some tensor has no elements whatever the sizes of a call: then a kernel may have nothing to do."""

    def check_formula(self, formula: Any, where: str, *, guard: bool = False, depth: int = 0) -> None:
        """Raise unless ``formula`` is well formed; only a ``guard`` may ask for alignment."""
        if isinstance(formula, bool) or not isinstance(formula, int | str | list | tuple):
            raise _WrongError(f"{where}: {formula!r} is no formula")
        if isinstance(formula, int):
            if not -INT64_MAX <= formula <= INT64_MAX:
                raise _WrongError(f"{where}: {formula} does not fit 64 bits")
        elif isinstance(formula, str):
            if formula not in self.symbols:
                raise _WrongError(f"{where}: symbol '{formula}' is no dim of any input")
        else:
            self._check_call(list(formula), where, guard, depth)

    def _check_call(self, formula: list[Any], where: str, guard: bool, depth: int) -> None:
        operator, operands = (formula[0], formula[1:]) if formula else ("", [])
        if depth >= _MAX_DEPTH:
            raise _WrongError(f"{where}: a formula is nested deeper than {_MAX_DEPTH}")
        if operator == "aligned":
            if not guard:
                raise _WrongError(f"{where}: 'aligned' belongs in a guard")
            if len(operands) != 2 or not self.is_tensor(operands[0]) or not _is_power_of_two(operands[1]):
                raise _WrongError(f"{where}: malformed formula {formula!r}")
            return
        known = isinstance(operator, str) and operator in OPERATORS
        if not known or len(operands) < 2 or (len(operands) > 2 and operator not in _VARIADIC):
            raise _WrongError(f"{where}: malformed formula {formula!r}")
        if operator in _DIVISIONS and isinstance(operands[1], int) and operands[1] <= 0:
            raise _WrongError(f"{where}: division by {operands[1]}")
        for operand in operands:
            self.check_formula(operand, where, guard=guard, depth=depth + 1)

    def is_tensor(self, fid: object) -> bool:
        return _is_int(fid) and fid in self.values and self.values[fid].kind == "tensor"


def _is_int(item: object) -> TypeGuard[int]:
    return isinstance(item, int) and not isinstance(item, bool)


def _is_power_of_two(item: object) -> bool:
    return _is_int(item) and item > 0 and item & (item - 1) == 0


def _check_unique(what: str, items: Iterable[object]) -> None:
    if repeated := [item for item, count in Counter(items).items() if count > 1]:
        raise _WrongError(f"{what} {repeated[0]} occurs twice")


def _check_interface(plan: p.Plan, scope: _Scope) -> None:
    """Values, extents, facts, inputs and outputs: what all targets share."""
    for value in plan.values:
        _check_value(value, scope)
    _check_unique("input", plan.inputs)
    for fid in plan.inputs:
        if fid not in scope.values:
            raise _WrongError(f"input {fid} is no value")
    _check_extents(plan, scope)
    _check_solutions(plan, scope)
    for relation in plan.relations or ():
        _check_relation(relation, scope)
    _check_unique("fact about", (fact.symbol for fact in plan.facts))
    for fact in plan.facts:
        if fact.symbol not in scope.extent_symbols:
            raise _WrongError(f"a fact is about '{fact.symbol}', which is no dim of any input")
        if fact.multiple_of < 1 or fact.min < 0 or (fact.max is not None and fact.max < fact.min):
            raise _WrongError(f"the facts about '{fact.symbol}' cannot hold")
    for choice in plan.choices or ():
        scope.check_formula(choice.size, f"the size of dim {choice.dim} of '{choice.operand}'")
    _check_unique("output name", (output.name for output in plan.outputs))
    for name in (*(value.name for value in plan.values), *(output.name for output in plan.outputs)):
        if (shown := one_line(name)) != name:
            raise _WrongError(f"'{shown}' is no name: it holds a line break")
    for output in plan.outputs:
        if not scope.is_tensor(output.fid):
            raise _WrongError(f"output {output.fid} is no tensor")
        if output.alias is not None and (output.alias not in plan.inputs or not scope.is_tensor(output.alias)):
            raise _WrongError(f"output {output.fid} aliases {output.alias}, which is no tensor input")


def _check_value(value: p.PlanValue, scope: _Scope) -> None:
    where = f"value {value.fid}"
    if value.fid < 0:
        raise _WrongError(f"{where}: a value's fid is not negative")
    if value.dtype not in DTYPES:
        raise _WrongError(f"{where}: unknown dtype '{value.dtype}'")
    if len(value.shape) != len(value.strides):
        raise _WrongError(f"{where}: {len(value.shape)} dims but {len(value.strides)} strides")
    if (value.kind == "scalar" or value.cpu) and value.shape:
        raise _WrongError(f"{where}: a scalar has no dims")
    for formula in (*value.shape, *(stride for stride in value.strides if stride is not None)):
        scope.check_formula(formula, where)
        _check_of_no_device(formula, where)


def _check_of_no_device(formula: p.FormulaJson, where: str) -> None:
    """Raise where ``formula``, which is well formed, depends on the device at hand."""
    if MULTIPROCESSORS in symbols(p.as_formula(formula)):
        raise _WrongError(f"{where}: {show(p.as_formula(formula))} depends on the device")


def _check_extents(plan: p.Plan, scope: _Scope) -> None:
    expected = [
        (fid, dim, extent)
        for fid in plan.inputs
        if scope.is_tensor(fid)
        for dim, extent in enumerate(scope.values[fid].shape)
    ]
    found = [(extent.input, extent.dim, extent.extent) for extent in plan.extents]
    if [extent.fid for extent in plan.extents] != [-1 - index for index in range(len(expected))] or found != expected:
        raise _WrongError("the extents are not the dims of the tensor inputs, in order, from -1 down")


def _check_solutions(plan: p.Plan, scope: _Scope) -> None:
    """Raise unless each solution tells one more symbol from a dim that there is and from symbols that are known."""
    dims = {(extent.input, extent.dim): p.as_formula(extent.extent) for extent in plan.extents}
    known = {*scope.named_alone}
    for solution in plan.solutions or ():
        where = f"the solution of '{solution.symbol}'"
        if not _SYMBOL_NAME.fullmatch(solution.symbol):
            raise _WrongError(f"{where}: that is no name of a symbol")
        if solution.symbol in known:
            raise _WrongError(f"{where}: its size is known already")
        if solution.symbol not in symbols(dims.get((solution.input, solution.dim), 0)):
            raise _WrongError(f"{where}: dim {solution.dim} of input {solution.input} does not tell it")
        if not 1 <= solution.divisor <= INT64_MAX:
            raise _WrongError(f"{where}: its divisor is {solution.divisor}")
        for formula in (solution.factor, solution.offset):
            scope.check_formula(formula, where)
            if unknown := [symbol for symbol in symbols(p.as_formula(formula)) if symbol not in known]:
                raise _WrongError(f"{where}: the size of '{unknown[0]}' is not known before it")
        if solution.factor == 0:
            raise _WrongError(f"{where}: its factor is 0")
        known.add(solution.symbol)


def _check_relation(relation: Any, scope: _Scope) -> None:
    """Raise unless ``relation`` compares two sizes."""
    scope.check_formula(relation, "a relation")
    if not isinstance(relation, list | tuple) or relation[0] not in _COMPARISONS:
        raise _WrongError(f"a relation: {show(p.as_formula(relation))} compares nothing")
    _check_of_no_device(relation, "a relation")


def _check_members(launch: p.Launch, segment: p.PlanSegment, where: str) -> None:
    """Raise where ``launch`` cannot be one with others in a table."""
    if launch.members is msgspec.UNSET:
        return
    most = p.MOST_TABLE_BYTES // p.table_bytes(1, len(launch.args))
    if not 1 <= launch.members <= most:
        raise _WrongError(f"{where}: a table of {launch.members} launches, expected 1 to {most}")
    if segment.group is msgspec.UNSET:
        raise _WrongError(f"{where}: it is one of {launch.members} side by side, and its segment is in no group")
    if launch.grid[1:] != (1, 1) or launch.cluster is not msgspec.UNSET or not isinstance(launch.shared_bytes, int):
        raise _WrongError(f"{where}: launches in a table are rows of blocks with as much shared memory")


class _TargetCheck:
    """One target's segments, in run order."""

    def __init__(self, plan: p.Plan, scope: _Scope, target: p.TargetPlan) -> None:
        self.scope, self.target = scope, target
        self.inputs = frozenset(plan.inputs)
        self.results = frozenset(output.fid for output in plan.outputs)
        self.slots: Mapping[int, p.Slot] = {slot.id: slot for slot in target.workspace}
        self.slot_of = {slot.fid: slot for slot in target.workspace if slot.fid is not None}
        self.defined_by: dict[int, int] = {}
        self.memory_of: dict[OriginalFid, OriginalFid] = {}  # of each view, the value whose memory it uses
        self.freed: set[int] = set()
        self.together = _together(target)

    def run(self) -> None:
        _check_unique("slot", (slot.id for slot in self.target.workspace))
        _check_unique("the slot of fid", (slot.fid for slot in self.target.workspace if slot.fid is not None))
        for slot in self.target.workspace:
            self._check_slot(slot)
        for position, segment in enumerate(self.target.segments):
            if segment.id != position:
                raise _WrongError(f"segment {segment.id} stands at position {position}")
            try:
                self._check_segment(segment)
            except _WrongError as wrong:
                raise _WrongError(f"segment {position}: {wrong}") from None
        for fid in sorted(self.results - self.inputs - self.defined_by.keys()):
            raise _WrongError(f"output {fid} is never defined")
        for fid in sorted(self.slot_of.keys() - self.defined_by.keys()):
            raise _WrongError(f"a workspace slot is for fid {fid}, which no segment defines")

    def _check_slot(self, slot: p.Slot) -> None:
        if slot.fid is not None and not self.scope.is_tensor(slot.fid):
            raise _WrongError(f"slot {slot.id} is for fid {slot.fid}, which is no tensor")
        if not 0 <= slot.first <= slot.last < len(self.target.segments):
            raise _WrongError(f"slot {slot.id} lives from segment {slot.first} to {slot.last}")
        self.scope.check_formula(slot.bytes, f"slot {slot.id}")
        if isinstance(slot.bytes, int) and not 0 <= slot.bytes <= _MAX_SLOT:
            raise _WrongError(f"slot {slot.id} has {slot.bytes} bytes")
        if slot.fid is not None and p.as_formula(slot.bytes) != (size := _bytes(self.scope.values[slot.fid])):
            name = self.scope.values[slot.fid].name
            raise _WrongError(f"slot {slot.id} has {show(p.as_formula(slot.bytes))} bytes, and '{name}' {show(size)}")

    def _check_segment(self, segment: p.PlanSegment) -> None:
        known = self.scope.values.keys() | self.scope.extents
        for fid in (*segment.fid_map.values(), *segment.rematerialized):
            if fid not in known:
                raise _WrongError(f"fid {fid} is neither a value nor an extent")
        for fid in (*segment.inputs, *segment.outputs):
            if fid not in segment.fid_map.values():
                raise _WrongError(f"fid {fid} is not in the fid map")
        for fid in segment.inputs:
            self._check_read(fid, segment.id)
        self._check_outputs(segment)
        self._check_frees(segment)
        self.scope.check_formula(segment.hbm_bytes, "hbm_bytes")
        if isinstance(segment.call, p.LibraryCall):
            self._check_call(segment.call, segment)
        else:
            self._check_variants(segment)

    def _check_call(self, call: p.LibraryCall[OriginalFid], segment: p.PlanSegment) -> None:
        """Raise unless every operand is a tensor that holds what ``call`` says that the library reads or writes."""
        where = f"the call of {call.op}"
        if segment.variants:
            raise _WrongError(f"it has {where} and variants")
        written = tuple(fid for fid in segment.outputs if fid not in segment.views)
        if written != (call.out,):
            raise _WrongError(f"{where} writes fid {call.out}, but the outputs are {list(written)}")
        if (call.residual is msgspec.UNSET) != (call.beta is msgspec.UNSET) or call.beta == 0:
            raise _WrongError(f"{where}: a residual and what it is multiplied by, other than 0, come together")
        operands = p.operands_of(call)
        for name, fid in operands.items():
            is_read = fid in segment.inputs or name == "out"
            if not is_read or not self.scope.is_tensor(fid) or self.scope.values[fid].cpu:
                raise _WrongError(f"{where}: {name} is fid {fid}, which is no tensor that this segment reads")
        for name, fid in operands.items():
            dtype = self.scope.values[fid].dtype
            if dtype != call.dtype or not DType(dtype).is_floating:
                raise _WrongError(f"{where}: {name} is {dtype}, in a product of {call.dtype}")
        steps = (call.m, call.n, call.k, *_leading_dimensions(call))
        for formula in (*steps, *(item for dim in call.batch for item in _formulas(dim))):
            self.scope.check_formula(formula, where)
        for name, (fid, memory) in _call_memory(call).items():
            if _stored(self.scope.values[fid]) != memory:
                held, read = (_show_memory(each) for each in (_stored(self.scope.values[fid]), memory))
                raise _WrongError(f"{where}: {name} is {held} in memory, not {read}")

    def _check_read(self, fid: OriginalFid, position: int) -> None:
        if fid in self.inputs:
            return
        if fid not in self.defined_by:
            raise _WrongError(f"fid {fid} is read before it is defined")
        if fid in self.freed:
            raise _WrongError(f"fid {fid} is read after it was freed")
        slot = self.slot_of.get(self.memory_of.get(fid, fid))
        if slot is not None and slot.last < self.together[position][-1]:
            raise _WrongError(f"fid {fid} is read after its workspace slot ends with segment {slot.last}")
        if self.defined_by[fid] in self.together[position]:
            raise _WrongError(f"fid {fid} is of a segment of its own group, none of which waits for another")

    def _check_outputs(self, segment: p.PlanSegment) -> None:
        _check_unique("output", segment.outputs)
        written = {fid for fid in segment.outputs if fid not in segment.views}
        for fid, base in segment.views.items():
            if fid not in segment.outputs or (base not in segment.inputs and base not in written):
                raise _WrongError(f"the view {fid} of {base} is not of what the segment reads or writes")
            self.memory_of[fid] = self.memory_of.get(base, base)
        shown = {base for fid, base in segment.views.items() if fid in self.results}
        for fid in segment.outputs:
            if fid in self.inputs or fid in self.defined_by:
                raise _WrongError(f"fid {fid} is defined twice")
            if not self.scope.is_tensor(fid):
                raise _WrongError(f"output {fid} is no tensor")
            self.defined_by[fid] = segment.id
            slot = self.slot_of.get(fid)
            if fid not in {*self.results, *shown, *segment.views} and slot is None:
                raise _WrongError(f"the intermediate {fid} has no workspace slot")
            if slot is not None and not self._lives(slot, segment):
                raise _WrongError(f"fid {fid} is written outside its workspace slot's life")

    def _lives(self, slot: p.Slot, segment: p.PlanSegment) -> bool:
        """Whether ``slot`` is there as long as ``segment`` and its group run."""
        together = self.together[segment.id]
        return slot.first <= together[0] and together[-1] <= slot.last

    def _check_frees(self, segment: p.PlanSegment) -> None:
        for fid in segment.frees:
            if fid in self.inputs or fid in self.results or fid not in self.defined_by or fid in self.freed:
                raise _WrongError(f"it frees fid {fid}, which is no live intermediate")
            self.freed.add(fid)

    def _check_variants(self, segment: p.PlanSegment) -> None:
        _check_unique("variant", (variant.name for variant in segment.variants))
        if not segment.variants:
            if unwritten := [fid for fid in segment.outputs if fid not in segment.views]:
                raise _WrongError(f"no variant writes fid {unwritten[0]}")
            return
        *guarded, last = segment.variants
        if last.guard:
            raise _WrongError(f"the last variant, {last.name}, has a guard")
        for variant in guarded:
            if not variant.guard:
                raise _WrongError(f"variant {variant.name} has no guard but is not the last")
            for formula in variant.guard:
                self.scope.check_formula(formula, f"variant {variant.name}: guard", guard=True)
                _check_of_no_device(formula, f"variant {variant.name}: guard")
        for variant in segment.variants:
            for launch in variant.launches:
                self._check_launch(launch, segment, f"variant {variant.name}: {launch.kernel}")
            self._check_writes(variant, segment)

    def _check_writes(self, variant: p.Variant, segment: p.PlanSegment) -> None:
        """Raise unless every output that is no view is given to some kernel: nothing else could write it."""
        given = {arg.fid for launch in variant.launches for arg in launch.args if isinstance(arg, p.TensorArg)}
        if unwritten := [fid for fid in segment.outputs if fid not in segment.views and fid not in given]:
            raise _WrongError(f"variant {variant.name}: no kernel is given fid {unwritten[0]}, which it has to write")

    def _check_launch(self, launch: p.Launch, segment: p.PlanSegment, where: str) -> None:
        if not _KERNEL_NAME.fullmatch(launch.kernel):
            raise _WrongError(f"'{launch.kernel}' is no kernel name")
        cluster = 1 if launch.cluster is msgspec.UNSET else launch.cluster
        for formula in (*launch.grid, launch.shared_bytes, cluster):
            self.scope.check_formula(formula, where)
        if isinstance(cluster, int) and not 1 <= cluster <= _MAX_CLUSTER:
            raise _WrongError(f"{where}: clusters of {cluster} blocks, expected 1 to {_MAX_CLUSTER}")
        least = 0 if self.scope.has_empty_tensor else 1
        for size, most in zip(launch.grid, _MAX_GRID, strict=True):
            if isinstance(size, int) and not least <= size <= most:
                raise _WrongError(f"{where}: a grid of {size} blocks, expected {least} to {most}")
        if isinstance(launch.shared_bytes, int) and not 0 <= launch.shared_bytes <= _MAX_SHARED:
            raise _WrongError(f"{where}: {launch.shared_bytes} bytes of shared memory")
        if not launch.args:
            raise _WrongError(f"{where}: it has no arguments, so that it can write nothing")
        _check_members(launch, segment, where)
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        fits = all(1 <= size <= most for size, most in zip(launch.block, _MAX_BLOCK, strict=True))
        if not fits or threads > 1024:
            raise _WrongError(f"{where}: a block of {'x'.join(map(str, launch.block))} threads")
        for index, arg in enumerate(launch.args):
            self._check_arg(arg, segment, f"{where}: argument {index}")

    def _check_arg(self, arg: p.Arg[OriginalFid], segment: p.PlanSegment, where: str) -> None:
        values = self.scope.values
        at_hand = {*segment.inputs, *segment.outputs}
        match arg:
            case p.TensorArg(fid=fid):
                if fid not in at_hand or not self.scope.is_tensor(fid) or values[fid].cpu:
                    raise _WrongError(f"{where} is fid {fid}, which is no tensor of this segment")
            case p.ScalarArg(fid=fid):
                if fid not in at_hand or not (values[fid].kind == "scalar" or values[fid].cpu):
                    raise _WrongError(f"{where} is fid {fid}, which is no scalar of this segment")
            case p.StrideArg(fid=fid, dim=dim):
                if fid not in at_hand or not 0 <= dim < len(values[fid].shape):
                    raise _WrongError(f"{where} is stride {dim} of fid {fid}, which does not exist in this segment")
            case p.ExtentArg(fid=fid):
                if fid not in self.scope.extents:
                    raise _WrongError(f"{where} is extent {fid}, which does not exist")
            case p.FormulaArg(formula=formula):
                self.scope.check_formula(formula, where)
            case p.WorkspaceArg(slot=number):
                slot = self.slots.get(number)
                if slot is None or not self._lives(slot, segment):
                    raise _WrongError(f"{where} is slot {number}, which does not live in this segment")


def _together(target: p.TargetPlan) -> Sequence[range]:
    """``target.together``. Raises where the segments of a group are no neighbours, or where it is not called by its
    first one."""
    found = target.together
    for place, together in enumerate(found):
        if place != together[0] and (not 0 <= together[0] < place or found[place - 1] != together):
            raise _WrongError(f"segment {place} is in group {together[0]}, and the segment before it is not")
    return found


Memory: TypeAlias = "tuple[tuple[Formula, Formula | None], ...]"
"""What a tensor's memory holds, dim by dim: size and stride, the dims that take no room left out."""


def _formulas(dim: p.BatchDim) -> tuple[Any, Any, Any]:
    return dim.extent, dim.a_stride, dim.b_stride


def _call_memory(call: p.LibraryCall[OriginalFid]) -> dict[str, tuple[OriginalFid, Memory]]:
    """By operand, its fid and the memory that ``call`` reads or writes there."""
    m, n, k, lda, ldb = map(p.as_formula, (call.m, call.n, call.k, *_leading_dimensions(call)))
    dims = [tuple(p.as_formula(item) for item in _formulas(dim)) for dim in call.batch]
    left = [(k, lda), (m, 1)] if call.transpose_a is True else [(m, lda), (k, 1)]
    right = [(n, ldb), (k, 1)] if call.transpose_b else [(k, ldb), (n, 1)]
    result = _merged(_dense([*(extent for extent, _, _ in dims), m, n]))
    memory = {
        "a": _merged(_nested([*((extent, stride) for extent, stride, _ in dims), *left])),
        "b": _merged(_nested([*((extent, stride) for extent, _, stride in dims), *right])),
        "bias": _merged([(n, 1)]),
        "residual": result,
        "out": result,
    }
    return {name: (fid, memory[name]) for name, fid in p.operands_of(call).items()}


def _leading_dimensions(call: p.LibraryCall[OriginalFid]) -> tuple[Any, Any]:
    """Elements from a row of each operand to the next one: those of a row where ``call`` does not say so."""
    lda = (call.m if call.transpose_a is True else call.k) if call.lda is msgspec.UNSET else call.lda
    return lda, (call.k if call.transpose_b else call.n) if call.ldb is msgspec.UNSET else call.ldb


def _nested(dims: Sequence[tuple[Formula, Formula]]) -> list[tuple[Formula, Formula | None]]:
    """``dims`` as they lie in memory, the innermost last, as far as each lies around the ones before it."""
    waiting = [(extent, stride) for extent, stride in dims if extent != 1 and stride != 0]
    nested: list[tuple[Formula, Formula | None]] = []
    while waiting:
        inside = product([extent for extent, _ in nested])
        following = next((dim for dim in reversed(waiting) if dim[1] == inside), waiting[-1])
        waiting.remove(following)
        nested.insert(0, following)
    return nested


def _bytes(value: p.PlanValue) -> Formula:
    """What the distinct elements of ``value`` take."""
    dims = zip(value.shape, value.strides, strict=True)
    return product([DType(value.dtype).bytes, *(p.as_formula(size) for size, stride in dims if stride != 0)])


def _stored(value: p.PlanValue) -> Memory:
    """What the memory of ``value`` holds, with a stride of None where only the caller knows."""
    strides = (None if stride is None else p.as_formula(stride) for stride in value.strides)
    return _merged(list(zip(map(p.as_formula, value.shape), strides, strict=True)))


def _dense(shape: Sequence[Formula]) -> list[tuple[Formula, Formula | None]]:
    """Sizes and strides of a tensor of ``shape`` whose rows have no gaps."""
    return [(extent, product(shape[dim + 1 :])) for dim, extent in enumerate(shape)]


def _merged(dims: Sequence[tuple[Formula, Formula | None]]) -> Memory:
    """``dims`` without those that take no room, neighbours that lie behind each other as one."""
    merged: list[tuple[Formula, Formula | None]] = []
    for extent, stride in dims:
        if extent == 1 or stride == 0:
            continue
        if merged and stride is not None and merged[-1][1] == product([extent, stride]):
            merged[-1] = (product([merged[-1][0], extent]), stride)
        else:
            merged.append((extent, stride))
    return tuple(merged)


def _show_memory(memory: Memory) -> str:
    dims = ", ".join(f"{show(extent)} by {'?' if stride is None else show(stride)}" for extent, stride in memory)
    return f"[{dims}]"


def kernels_of(target: p.TargetPlan) -> Sequence[str]:
    """The names of the kernels that ``target`` launches, sorted, each once."""
    return sorted({launch.kernel for launch in _launches(target)})


def _launches(target: p.TargetPlan) -> Iterator[p.Launch]:
    for segment in target.segments:
        for variant in segment.variants:
            yield from variant.launches


def argument_sizes(plan: p.Plan, target: p.TargetPlan) -> Mapping[str, Sequence[tuple[int, ...]]]:
    """For each kernel that ``target`` launches the bytes of each argument, once for every list of them that differs."""
    dtypes = {value.fid: value.dtype for value in plan.values}
    found: dict[str, dict[tuple[int, ...], None]] = {}
    for launch in _launches(target):
        found.setdefault(launch.kernel, {})[_parameter_sizes(launch, dtypes)] = None
    return {kernel: tuple(sizes) for kernel, sizes in found.items()}


def _parameter_sizes(launch: p.Launch, dtypes: Mapping[OriginalFid, str]) -> tuple[int, ...]:
    if launch.members is not msgspec.UNSET:
        return (p.table_bytes(launch.members, len(launch.args)),)
    return tuple(_argument_size(arg, dtypes) for arg in launch.args)


def _argument_size(arg: p.Arg[OriginalFid], dtypes: Mapping[OriginalFid, str]) -> int:
    return DType(dtypes[arg.fid]).bytes if isinstance(arg, p.ScalarArg) else _WORD_BYTES
