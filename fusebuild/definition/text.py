"""A Fusion as the Python text that records it, and as the recipe that says the same.

Both name values by their fids: ``T3``, ``S4``, ``V5`` in Python as nvFuser prints them, ``t3`` and ``s4`` in recipes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from fusebuild.definition.values import DataType
from fusebuild.errors import UsageError
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, show, symbols
from fusebuild.ir.fusion import Fusion, used_lambdas
from fusebuild.ir.types import Literal, TensorType, VectorType, tensor_type
from fusebuild.ir.values import Attribute, Expr, ExtentFact, Value
from fusebuild.ops.table import OPS, Parameter
from fusebuild.passes.dead_code import dead_code


def in_allocation_order(type_: TensorType) -> tuple[bool | None, ...]:
    """Contiguity as nvFuser lists it: from the outermost dim in memory to the innermost."""
    outermost_first = sorted(range(type_.rank), key=lambda dim: -type_.stride_order[dim])
    return tuple(type_.contiguity[dim] for dim in outermost_first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the author of a definition wrote.

    ``arguments`` has, by result and parameter, the argument where a Fusion keeps only extents: ``V5`` for the shape of
    an expand, and for no parameter ``T0, dim=1`` for a size, ``T0`` for a vector made by ``shape``. Without it extents
    are named. ``hidden`` has what no author wrote (seeds, offsets, tensors that are as long as numbers of the call,
    outputs in their order in memory), and ``unfinished`` by result what an op gave before it got the dtype that
    nvFuser's op gives: the cast is not written.
    """

    arguments: Mapping[tuple[int, str], str] = field(default_factory=dict)
    hidden: Collection[int] = ()
    unfinished: Mapping[int, int] = field(default_factory=dict)


class PythonText:
    """``fusion`` as a Python function.

    ``written`` says what an author wrote where a Fusion keeps something else.
    """

    def __init__(self, fusion: Fusion, written: Written) -> None:
        self._fusion, self._written, self._hidden = fusion, written.arguments, written.hidden
        self._unfinished = written.unfinished

    def __str__(self) -> str:
        lines = [f"def {self._fusion.name}(fd : FusionDefinition) -> None :"]
        lines += [f"    {line}" for line in (*self._comments(), *self._definitions(), *self._outputs())]
        return "\n".join(lines if len(lines) > 1 else [*lines, "    pass"]) + "\n"

    def _comments(self) -> Iterator[str]:
        """What no Python text can say: segments may name sizes of inputs that they do not read, and lambdas are written
        in recipes alone."""
        for name in self._fusion.lambdas:
            yield f"# {name} is a lambda; only recipes can define one"
        own = {symbol for binding in self._fusion.extents for symbol in symbols(binding.extent)}
        used = dict.fromkeys(
            symbol
            for value in self._fusion.values.values()
            if value.is_tensor
            for extent in value.tensor.shape
            for symbol in symbols(extent)
        )
        for symbol in used:
            if symbol not in own:
                yield f"# {symbol} is a size of an input that is not read here"

    def _definitions(self) -> Iterator[str]:
        for fid, value in sorted(self._fusion.values.items()):
            expr = self._fusion.expr_of(fid)
            if fid in self._hidden:
                continue
            if fid in self._fusion.inputs or value.is_constant or isinstance(value.type, VectorType):
                yield f"{self._name(fid)} = {self._leaf(value)}"
            elif expr is not None and expr.outputs[0] == fid:
                author = self._fusion.expr_of(self._unfinished.get(fid, fid)) or expr
                yield f"{', '.join(map(self._name, expr.outputs))} = {self._call(author)}"

    def _outputs(self) -> Iterator[str]:
        for output in self._fusion.outputs:
            alias = "" if output.alias is None else f", alias_input={self._name(output.alias)}"
            said = self._written.get((output.fid, "stride_order"), self._name(output.fid))
            yield f"fd.add_output({said}{alias})"

    def _name(self, fid: int) -> str:
        type_ = self._fusion.value(fid).type
        return f"{'T' if isinstance(type_, TensorType) else 'V' if isinstance(type_, VectorType) else 'S'}{fid}"

    def _leaf(self, value: Value) -> str:
        """The call that defines an input, a constant or a vector."""
        dtype = f"dtype={DataType(value.dtype)}"
        if isinstance(value.type, TensorType):
            type_ = value.type
            shape = [extent if isinstance(extent, int) else -1 for extent in type_.shape]
            return (
                f"fd.define_tensor(shape={shape}, contiguity={list(in_allocation_order(type_))}, {dtype}, "
                f"is_cpu={type_.cpu}, stride_order={list(type_.stride_order)})"
            )
        if (value.fid, "") in self._written:
            return f"fd.ops.shape({self._written[value.fid, '']})"
        if isinstance(value.literal, tuple):
            return f"fd.define_vector([{', '.join(map(self._name, value.literal))}], {dtype})"
        return f"fd.define_scalar({_python_literal(value.literal)}, {dtype})"

    def _call(self, expr: Expr) -> str:
        if expr.op == "size":
            return f"fd.ops.size({self._sized(expr)})"
        return f"fd.ops.{expr.op}({_arguments(expr, self._operand, partial(self._attribute, expr))})"

    def _operand(self, fid: int) -> str:
        return "" if fid in self._hidden else self._name(fid)

    def _sized(self, expr: Expr) -> str:
        """The tensor and dim of a size: as written, or a tensor above ``expr`` and the dim that has its extent."""
        if (expr.outputs[0], "") in self._written:
            return self._written[expr.outputs[0], ""]
        extent = expr.attribute("extent")
        for fid, value in self._fusion.values.items():
            if value.is_tensor and fid < expr.outputs[0] and extent in value.tensor.shape:
                return f"{self._name(fid)}, dim={value.tensor.shape.index(extent)}"
        return str(extent)

    def _attribute(self, expr: Expr, parameter: Parameter, value: Attribute) -> str:
        if parameter.kind == "dtype":
            return str(DataType(value))
        if (expr.outputs[0], parameter.name) in self._written:
            return self._written[expr.outputs[0], parameter.name]
        if parameter.kind == "shape" and value is not None:
            return f"[{', '.join(self._extent(extent, expr) for extent in value)}]"
        if parameter.kind == "extent":
            return self._extent(value, expr)
        return "" if value is None else str(list(value) if isinstance(value, tuple) else value)

    def _extent(self, extent: Formula, reader: Expr) -> str:
        """``extent`` as a number, or as the last size above ``reader`` that has it."""
        if isinstance(extent, int):
            return str(extent)
        sizes = [
            self._name(expr.outputs[0])
            for expr in self._fusion.exprs
            if expr.op == "size" and expr.attribute("extent") == extent and expr.outputs[0] < reader.outputs[0]
        ]
        return sizes[-1] if sizes else show(extent)


def _arguments(expr: Expr, operand: Callable[[int], str], attribute: Callable[[Parameter, Attribute], str]) -> str:
    """The arguments of a call that records ``expr``; those that have no text are left out."""
    operands, named = iter(expr.inputs), dict(expr.attributes)
    parts: list[str] = []
    for parameter in OPS[expr.op].parameters:
        if parameter.kind == "value":
            if (fid := next(operands, None)) is not None and (text := operand(fid)):
                parts.append(f"{parameter.name}={text}" if any("=" in part for part in parts) else text)
        elif parameter.kind == "values":
            count = len(expr.outputs) if OPS[expr.op].is_generalized else None
            parts.append(f"{parameter.name}=[{', '.join(map(operand, islice(operands, count)))}]")
        elif text := attribute(parameter, named[parameter.name]):
            parts.append(f"{parameter.name}={text}")
    return ", ".join(parts)


def _python_literal(literal: Literal | None) -> str:
    if isinstance(literal, float) and not math.isfinite(literal):
        return f'float("{literal}")'
    return repr(literal)


class RecipeText:
    """``fusion`` as a recipe. Its inputs are those of the Fusion in order, scalars after all tensors.

    What no output needs is left out, but for inputs, which stay what callers pass. Raises :class:`UsageError` when a
    size is not one of an input's dims, as in some segments.
    """

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion
        self._live = dead_code(fusion).exprs
        self._read = {fid for expr in self._live for fid in expr.inputs}

    def __str__(self) -> str:
        self.require_symbols()
        constants = [fid for fid in sorted(self._read) if self._is_listed(self._fusion.value(fid))]
        arguments = [fid for fid in self._fusion.inputs if not self._fusion.value(fid).is_tensor]
        lines = [f"fusion: {self._fusion.name}"]
        lines += self._section("extents", list(self._facts()))
        lines += self._section("relations", [f"- {show(relation)}" for relation in self._relations()])
        lines += self._section("inputs", [self._input(value) for value in self._fusion.tensor_inputs])
        lines += self._section("scalars", [self._scalar(self._fusion.value(fid)) for fid in [*arguments, *constants]])
        lines += self._section(
            "lambdas", [line for name in used_lambdas(self._fusion, self._live) for line in self._lambda(name)]
        )
        lines += ["body: |", *(f"  {line}" for line in self._body())]
        lines += self._section("outputs", list(self._outputs()))
        lines += self._section("cases", [_case(sizes) for sizes in self._fusion.cases])
        return "\n".join(lines) + "\n"

    def _facts(self) -> Iterator[str]:
        """What shapes may rely on: the facts about symbols of the inputs."""
        for fact in self._fusion.facts:
            known = {"multiple_of": fact.multiple_of, "min": fact.min, "max": fact.max}
            said = [f"{name}: {number}" for name, number in known.items()
                    if number != getattr(ExtentFact(symbol=""), name)]  # fmt: skip
            if said and fact.symbol in self._fusion.symbols:
                yield f"{fact.symbol}: {{{', '.join(said)}}}"

    def _relations(self) -> Iterator[Formula]:
        own = {*self._fusion.symbols}
        return (relation for relation in self._fusion.relations if own.issuperset(symbols(relation)))

    def require_symbols(self) -> None:
        """Raises :class:`UsageError` naming a size that is not one of an input's dims."""
        own = {symbol for binding in self._fusion.extents for symbol in symbols(binding.extent)}
        for fid in {fid for expr in self._live for fid in (*expr.inputs, *expr.outputs)}:
            value = self._fusion.value(fid)
            for extent in value.tensor.shape if value.is_tensor else ():
                if missing := [symbol for symbol in symbols(extent) if symbol not in own]:
                    message = f"{missing[0]} of {recipe_name(value)} is a size of an input that it does not read"
                    raise UsageError(f"fusion {self._fusion.name} cannot be a recipe: {message}")

    @staticmethod
    def _section(name: str, entries: list[str]) -> list[str]:
        return [f"{name}:", *(f"  {entry}" for entry in entries)] if entries else []

    def _input(self, value: Value) -> str:
        type_, plain = value.tensor, tensor_type(value.dtype, value.tensor.shape)
        text = f"{value.dtype.value}[{', '.join(map(show, type_.shape))}]"
        fields = []
        if type_.contiguity != plain.contiguity:
            words = {True: "true", False: "false", None: "null"}
            fields.append(f"contiguity: [{', '.join(words[flag] for flag in type_.contiguity)}]")
        if not type_.is_row_major:
            fields.append(f"stride_order: {list(type_.stride_order)}")
        if type_.cpu:
            fields.append("cpu: true")
        if not fields:
            return f"{recipe_name(value)}: {text}"
        return f'{recipe_name(value)}: {{type: "{text}", {", ".join(fields)}}}'

    def _scalar(self, value: Value) -> str:
        if value.literal is None:
            return f"{recipe_name(value)}: {value.dtype.value}"
        return f"{recipe_name(value)}: {{dtype: {value.dtype.value}, value: {_yaml_literal(value.literal)}}}"

    def _is_listed(self, value: Value) -> bool:
        """Whether a constant needs an entry of its own because a plain number in the body would say another one."""
        literal = value.literal
        if literal is None or isinstance(literal, tuple):
            return False
        is_plain = value.dtype in (DType.DOUBLE, DType.INT64, DType.BOOL)
        return not is_plain or (isinstance(literal, float) and not math.isfinite(literal))

    def _body(self) -> Iterator[str]:
        for fid in self._fusion.inputs:
            if fid not in self._read:
                yield f"_ = set({recipe_name(self._fusion.value(fid))})"
        for expr in self._live:
            results = ", ".join(recipe_name(self._fusion.value(fid)) if self._is_needed(fid) else "_"
                                for fid in expr.outputs)  # fmt: skip
            yield f"{results} = {self._call(expr)}"

    def _lambda(self, name: str) -> Iterator[str]:
        """The entry of a lambda. Its uses say whether it is ordered."""
        body = self._fusion.lambdas[name]
        text = _LambdaText(body)
        sides = body.inputs[: len(body.outputs)], body.inputs[len(body.outputs) :]
        yield f"{name}:"
        for side, fids in zip(("left", "right"), sides, strict=True):
            parts = [f"{recipe_name(body.value(fid))}: {body.value(fid).dtype.value}" for fid in fids]
            yield f"  {side}: {{{', '.join(parts)}}}"
        yield "  body: |"
        for expr in body.exprs:
            yield f"    {text.statement(expr)}"
        yield f"  results: [{', '.join(recipe_name(body.value(fid)) for fid in body.output_fids)}]"
        yield f"  ordered: {str(all(e.is_ordered for e in self._fusion.exprs if e.combine == name)).lower()}"

    def _is_needed(self, fid: int) -> bool:
        return fid in self._read or fid in self._fusion.output_fids

    def _call(self, expr: Expr) -> str:
        return f"{expr.op}({_arguments(expr, self._operand, _recipe_attribute)})"

    def _operand(self, fid: int) -> str:
        value = self._fusion.value(fid)
        if value.literal is None or isinstance(value.literal, tuple) or self._is_listed(value):
            return recipe_name(value)
        return repr(value.literal)

    def _outputs(self) -> Iterator[str]:
        for output in self._fusion.outputs:
            value = self._fusion.value(output.fid)
            dtype = value.dtype.value
            if output.alias is None:
                yield f"{recipe_name(value)}: {dtype}"
            else:
                target = recipe_name(self._fusion.value(output.alias))
                yield f"{recipe_name(value)}: {{dtype: {dtype}, alias: {target}}}"


class _LambdaText(RecipeText):
    """The body of a lambda, where a number takes the dtype of what it meets."""

    def _is_listed(self, value: Value) -> bool:
        return False

    def statement(self, expr: Expr) -> str:
        """``expr`` as a line of the body."""
        return f"{recipe_name(self._fusion.value(expr.outputs[0]))} = {self._call(expr)}"


def _case(sizes: Mapping[str, int]) -> str:
    return f"- {{{', '.join(f'{symbol}: {size}' for symbol, size in sizes.items())}}}"


RULER = "size_of_"
"""How the names of tensors begin that are as long as numbers of the call."""


def recipe_name(value: Value) -> str:
    """What recipes and messages call ``value``."""
    if value.name.startswith(RULER):
        return value.name
    return f"{'t' if value.is_tensor else 's'}{value.fid}"


def _yaml_literal(literal: Literal | tuple[int, ...]) -> str:
    if isinstance(literal, bool):
        return str(literal).lower()
    if isinstance(literal, float) and not math.isfinite(literal):
        return ".nan" if math.isnan(literal) else ".inf" if literal > 0 else "-.inf"
    return repr(literal)


def _recipe_attribute(parameter: Parameter, value: Attribute) -> str:
    if value is None:
        return ""
    if isinstance(value, DType):
        return value.value
    if parameter.kind == "extent":
        return show(value)
    if isinstance(value, tuple):
        return f"[{', '.join(show(item) if isinstance(item, tuple) else str(item) for item in value)}]"
    return str(value)
