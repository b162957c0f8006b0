"""The recorder that every front end and every pass uses to make exprs: types are inferred here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from fusebuild.errors import NOWHERE, SourceLocation, counted
from fusebuild.ir.algebra import Algebra, algebra_given, missing_facts
from fusebuild.ir.composites import with_composites
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, show, simplified, substitute, symbols
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import Literal, ScalarType, TensorType, ValueType, tensor_type
from fusebuild.ir.values import Attribute, Composite, Expr, ExtentFact, Output, Value, attributes
from fusebuild.ir.verify import verify
from fusebuild.ops.op_def import OpDef
from fusebuild.ops.table import OPERANDS, OPS
from fusebuild.ops.type_rules import TypeRuleError, normalize_dims


def literal_dtype(literal: Literal) -> DType:
    """The dtype of a constant that names none: bool, int64 or double."""
    if isinstance(literal, bool):
        return DType.BOOL
    return DType.INT64 if isinstance(literal, int) else DType.DOUBLE


class FusionBuilder:
    """Records values and exprs in order, each taking the next fid.

    Methods raise :class:`~fusebuild.ops.type_rules.TypeRuleError`; front ends turn it into an error with a location.
    Shapes are canonical under what ``facts`` and ``relations`` promise of sizes: equal ones are ``==``.
    """

    def __init__(
        self,
        name: str,
        *,
        doc: str = "",
        first_fid: int = 0,
        facts: Sequence[ExtentFact] = (),
        relations: Sequence[Formula] = (),
    ) -> None:
        self.name, self.doc = name, doc
        self.facts, self.relations = tuple(facts), tuple(relations)
        self._symbols: dict[str, None] = {}
        self._algebra: Algebra | None = None
        self.values: dict[int, Value] = {}
        self.exprs: list[Expr] = []
        self.inputs: list[int] = []
        self.outputs: list[Output] = []
        self.lambdas: dict[str, Fusion] = {}
        self.composites: list[Composite] = []
        self._next_fid = first_fid
        self._open: list[tuple[int, int]] = []  # calls that are being recorded: place among composites, first expr

    @classmethod
    def extending(cls, fusion: Fusion) -> FusionBuilder:
        """A builder that starts with the values of ``fusion`` and none of its exprs: what a rewriting pass needs."""
        builder = cls(
            fusion.name,
            doc=fusion.doc,
            first_fid=fusion.next_fid,
            facts=fusion.facts,
            relations=fusion.relations,
        )
        builder._symbols = dict.fromkeys(fusion.given or fusion.symbols)
        builder.values = dict(fusion.values)
        builder.inputs, builder.outputs = list(fusion.inputs), list(fusion.outputs)
        builder.lambdas = dict(fusion.lambdas)
        return builder

    @property
    def algebra(self) -> Algebra:
        """What is known of the sizes."""
        if self._algebra is None:
            shapes = [self.values[fid].tensor.shape for fid in self.inputs if self.values[fid].is_tensor]
            self._algebra = algebra_given(shapes, tuple(self._symbols), self.facts, self.relations)
        return self._algebra

    def know_symbols(self, symbols: Iterable[str]) -> None:
        """Let sums and products list ``symbols`` in this order, behind those that are known."""
        known = len(self._symbols)
        self._symbols.update(dict.fromkeys(symbols))
        if len(self._symbols) > known:
            self._algebra = None

    def relate(self, relation: Formula) -> None:
        """Let ``relation``, a comparison of sizes, hold in every call: it is checked at each. Raises
        :class:`TypeRuleError` for one that holds in none."""
        relation = simplified(relation)
        if relation == 0 or (isinstance(relation, tuple) and self.algebra.contradicts(relation)):
            raise TypeRuleError(f"{show(relation)} holds for no sizes that are possible here")
        if isinstance(relation, tuple) and relation not in self.relations:
            self.relations = (*self.relations, relation)
            self._algebra = None

    def substitute(self, sizes: Mapping[str, Formula]) -> None:
        """Let each symbol of ``sizes`` be what they say, everywhere."""
        relations, self.relations, self._algebra = self.relations, (), None
        self.values = {fid: value.substituted(sizes) for fid, value in self.values.items()}
        self.exprs = [expr.substituted(sizes) for expr in self.exprs]
        for relation in relations:
            self.relate(substitute(relation, sizes))
        self.values, self.exprs = in_normal_form(self.values, self.exprs, self.algebra)

    def add_value(
        self,
        type_: ValueType,
        *,
        name: str = "",
        location: SourceLocation = NOWHERE,
        literal: Literal | tuple[int, ...] | None = None,
    ) -> Value:
        """A new value with the next fid; an unnamed tensor is called ``t<fid>``, a scalar ``s<fid>``."""
        fid = self._next_fid
        self._next_fid += 1
        prefix = "t" if isinstance(type_, TensorType) else "s"
        value = Value(fid=fid, name=name or f"{prefix}{fid}", type=type_, location=location, literal=literal)
        self.values[fid] = value
        return value

    def tensor(
        self,
        dtype: DType,
        shape: Sequence[Formula],
        *,
        name: str = "",
        contiguity: Sequence[bool | None] | None = None,
        stride_order: Sequence[int] | None = None,
        cpu: bool = False,
        location: SourceLocation = NOWHERE,
    ) -> Value:
        """A tensor input. Raises :class:`TypeRuleError` when flags and dims do not match."""
        self.know_symbols(symbol for extent in shape for symbol in symbols(extent))
        is_computed = any(isinstance(extent, tuple) for extent in shape)
        shape = [self.algebra.canonical(extent) for extent in shape] if is_computed else shape
        type_ = tensor_type(dtype, shape, cpu=cpu)
        rank = len(shape)
        if contiguity is not None:
            if len(contiguity) != rank:
                raise TypeRuleError(f"contiguity has {counted(len(contiguity), 'flag')} for {counted(rank, 'dim')}")
            flags = tuple(None if extent == 1 else flag for flag, extent in zip(contiguity, shape, strict=True))
            type_ = replace(type_, contiguity=flags)
        if stride_order is not None:
            if sorted(stride_order) != list(range(rank)):
                raise TypeRuleError(f"stride_order {list(stride_order)} is no permutation of 0 to {rank - 1}")
            type_ = replace(type_, stride_order=tuple(stride_order))
        if cpu and rank:
            raise TypeRuleError("a cpu tensor must have no dims; it is read as a scalar")
        value = self.add_value(type_, name=name, location=location)
        self.inputs.append(value.fid)
        if is_computed:
            self._algebra = None  # its dims are no less than 0
        return value

    def scalar(self, dtype: DType, *, name: str = "", location: SourceLocation = NOWHERE) -> Value:
        """A scalar given at run time."""
        value = self.add_value(ScalarType(dtype=dtype), name=name, location=location)
        self.inputs.append(value.fid)
        return value

    def constant(
        self, literal: Literal, *, dtype: DType | None = None, name: str = "", location: SourceLocation = NOWHERE
    ) -> Value:
        """A scalar known now. Integers given for a floating dtype become floats."""
        dtype = dtype or literal_dtype(literal)
        if dtype.is_floating:
            literal = float(literal)
        elif isinstance(literal, float):
            raise TypeRuleError(f"{literal} is no {dtype.value}")
        return self.add_value(ScalarType(dtype=dtype), name=name, location=location, literal=literal)

    def call(
        self,
        op: str,
        operands: Sequence[Value],
        named: Mapping[str, Attribute] | None = None,
        *,
        names: Sequence[str] = (),
        location: SourceLocation = NOWHERE,
        results: Sequence[int | None] = (),
    ) -> tuple[Value, ...]:
        """Record ``op`` and return its results.

        ``results`` gives fids that exist already (a pass replacing the definition of a value keeps its fid); without
        it, and for None among them, a result takes the next fid. Raises :class:`TypeRuleError`.
        """
        op_def, operands = OPS[op], self._operands(op, operands, named or {})
        given: dict[str, Attribute] = {p.name: p.default for p in op_def.parameters if p.kind not in OPERANDS}
        given |= dict(named or {})
        indexed = any(parameter.name == "index" for parameter in op_def.parameters)
        ranks = [operand.tensor.rank for operand in operands[: 1 if indexed else None] if operand.is_tensor]
        if "dims" in given and ranks:
            rank, dims = max(ranks), given["dims"]
            given["dims"] = normalize_dims(op, range(rank) if dims is None else dims, rank)
        if "dim" in given and ranks:
            (given["dim"],) = normalize_dims(op, [given["dim"]], max(ranks))
        if op_def.check is not None:
            op_def.check([operand.literal for operand in operands])
        given = canonical_attributes(op_def, given, self.algebra)
        types = self.infer(op_def, [operand.type for operand in operands], given)
        padded = [*names, *[""] * (len(types) - len(names))]
        fids = results or [None] * len(types)
        values = [
            self.add_value(type_, name=name, location=location) if fid is None else self._retyped(fid, type_)
            for fid, type_, name in zip(fids, types, padded, strict=True)
        ]
        self.exprs.append(
            Expr(
                op=op,
                inputs=tuple(operand.fid for operand in operands),
                outputs=tuple(value.fid for value in values),
                attributes=attributes(**given),
                location=location,
            )
        )
        return tuple(values)

    def open_composite(self, name: str, inputs: Sequence[Value], location: SourceLocation) -> None:
        """Take what is recorded from here on for the body of the composite ``name``, until it is closed."""
        parent = self._open[-1][0] if self._open else None
        fids = tuple(value.fid for value in inputs)
        self._open.append((len(self.composites), len(self.exprs)))
        self.composites.append(Composite(name=name, location=location, inputs=fids, outputs=(), parent=parent))

    def close_composite(self, results: Iterable[Value] = ()) -> None:
        """End the body of the composite that was opened last; ``results`` are what is kept of it."""
        index, start = self._open.pop()
        computed = {fid for expr in self.exprs[start:] for fid in expr.outputs}
        outputs = tuple(dict.fromkeys(value.fid for value in results if value.fid in computed))
        self.composites[index] = replace(self.composites[index], outputs=outputs)

    def name_value(self, value: Value, name: str) -> Value:
        """``value`` called ``name``, unless that is empty."""
        if name:
            self.values[value.fid] = value = replace(value, name=name)
        return value

    def infer(self, op: OpDef, types: Sequence[ValueType], named: Mapping[str, Attribute]) -> tuple[ValueType, ...]:
        """The types of the results of ``op``, their shapes canonical. Raises :class:`TypeRuleError`, which says what to
        state of sizes where that is all that is missing."""

        def infer_under(algebra: Algebra) -> tuple[ValueType, ...]:
            sized = [_canonical_type(type_, algebra) for type_ in types]
            found = op.infer(sized, canonical_attributes(op, named, algebra), algebra)
            return tuple(_canonical_type(type_, algebra) for type_ in found)

        try:
            return infer_under(self.algebra)
        except TypeRuleError as error:
            formulas = [extent for type_ in types if isinstance(type_, TensorType) for extent in type_.shape]
            formulas += _sizes_among(op, named)
            if stated := missing_facts(self.algebra, formulas, lambda algebra: _accepts(infer_under, algebra)):
                error.hint = stated
            raise

    def _operands(self, op: str, operands: Sequence[Value], named: Mapping[str, Attribute]) -> Sequence[Value]:
        """What ``op`` is recorded on where it is called with ``operands``."""
        return operands

    def _retyped(self, fid: int, type_: ValueType) -> Value:
        self.values[fid] = replace(self.values[fid], type=type_, literal=None)
        return self.values[fid]

    def output(
        self, value: Value, *, name: str = "", alias: Value | None = None, location: SourceLocation = NOWHERE
    ) -> None:
        """Make ``value`` an output; ``alias`` is the input tensor that it overwrites."""
        if not value.is_tensor:
            raise TypeRuleError(f"output {name or value.name} is a scalar; outputs are tensors")
        if alias is not None:
            _check_alias(name or value.name, value, alias)
        self.outputs.append(
            Output(
                fid=value.fid,
                name=name or value.name,
                alias=None if alias is None else alias.fid,
                location=location,
            )
        )

    def finish(self, *, cases: Sequence[Mapping[str, int]] = (), recorded: int | None = None) -> Fusion:
        """The recorded Fusion, verified."""
        fusion = Fusion(
            name=self.name,
            doc=self.doc,
            values=dict(sorted(self.values.items())),
            exprs=tuple(self.exprs),
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            facts=self.facts,
            relations=self.relations,
            cases=tuple(cases),
            recorded=self._next_fid if recorded is None else recorded,
            lambdas=self.lambdas,
        )
        return verify(with_composites(fusion, self.composites))


def in_normal_form(
    values: Mapping[int, Value], exprs: Iterable[Expr], algebra: Algebra
) -> tuple[dict[int, Value], list[Expr]]:
    """``values`` and ``exprs`` with every size as ``algebra`` writes it."""
    sized = {fid: replace(value, type=_canonical_type(value.type, algebra)) for fid, value in values.items()}
    renewed = [
        replace(each, attributes=attributes(**canonical_attributes(OPS[each.op], dict(each.attributes), algebra)))
        for each in exprs
    ]
    return sized, renewed


def canonical_attributes(op: OpDef, named: Mapping[str, Attribute], algebra: Algebra) -> dict[str, Attribute]:
    """``named`` attributes of ``op``, their shapes canonical."""
    found = dict(named)
    for parameter in op.parameters:
        given = named.get(parameter.name)
        if parameter.kind == "shape" and isinstance(given, Sequence) and not isinstance(given, str):
            found[parameter.name] = tuple(map(algebra.canonical, given))
    return found


def _sizes_among(op: OpDef, named: Mapping[str, Attribute]) -> list[Formula]:
    """Every size among the ``named`` attributes of ``op``."""
    kinds = {parameter.name: parameter.kind for parameter in op.parameters}
    shapes = [given for name, given in named.items() if kinds.get(name) == "shape" and isinstance(given, tuple)]
    extents = [given for name, given in named.items() if kinds.get(name) == "extent"]
    return [*extents, *(extent for shape in shapes for extent in shape)]


def _canonical_type(type_: ValueType, algebra: Algebra) -> ValueType:
    if not isinstance(type_, TensorType):
        return type_
    shape = tuple(map(algebra.canonical, type_.shape))
    return type_ if shape == type_.shape else replace(type_, shape=shape)


def _accepts(infer_under: Callable[[Algebra], object], algebra: Algebra) -> bool:
    try:
        infer_under(algebra)
    except TypeRuleError:
        return False
    return True


def _check_alias(name: str, value: Value, target: Value) -> None:
    if not isinstance(target.type, TensorType):
        raise TypeRuleError(f"output {name} aliases {target.name}, which is no tensor")
    result = value.tensor
    if result.dtype is not target.type.dtype:
        raise TypeRuleError(
            f"output {name} is {result.dtype.value} but aliases {target.name}, which is {target.type.dtype.value}",
            hint="give the output the dtype of the input that it overwrites",
        )
    if result.shape != target.type.shape or None in [
        flag for flag, extent in zip(target.type.contiguity, target.type.shape, strict=True) if extent != 1
    ]:
        raise TypeRuleError(f"output {name} is {result} and cannot overwrite {target.name}, which is {target.type}")
