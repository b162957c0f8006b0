"""Expressions of a recipe's body, recorded as ops: operators, calls and the arguments that ops take.

:data:`fusebuild.ops.table.OPS` says what every parameter is; this file says how each kind is written. A method that
returns None has reported why, or found a name whose own statement failed."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from fusebuild.errors import SourceLocation, counted, nearest
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import Literal
from fusebuild.ir.values import Attribute, Value
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.lambdas import state_dtypes
from fusebuild.ops.library import LIBRARY, LibraryComposite
from fusebuild.ops.table import OPERANDS, OPS, REQUIRED, OpDef, Parameter
from fusebuild.ops.type_rules import TypeRuleError
from fusebuild.ops.vocabulary import meant
from fusebuild.recipe.attributes import INT64_MAX, INT64_MIN, AttributeReader, Signed, is_number, items_of, literal_of
from fusebuild.recipe.fields import dtype_named
from fusebuild.recipe.text import Problems

MAX_NESTING = 100
MAX_OPS = 100_000
"""The most ops that a fusion may have because of calls of composites: a short text can say many."""

NAMED_NUMBERS = {"inf": math.inf, "nan": math.nan}
"""The numbers that a body has names for."""

Lookup: TypeAlias = "Callable[[ast.Name], Value | None]"
Arguments: TypeAlias = "dict[str, ast.expr]"

_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Mod: "mod", ast.Pow: "pow",
    ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor",
    ast.LShift: "bitwise_left_shift", ast.RShift: "bitwise_right_shift", ast.MatMult: "matmul",
}  # fmt: skip
_COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
_UNARY = {ast.USub: "neg", ast.Invert: "bitwise_not"}
_REFUSED = {
    ast.FloorDiv: ("'//'", "use floor(a / b); '/' of integers truncates"),
    ast.Not: ("'not'", "use logical_not(x)"),
    ast.UAdd: ("a leading '+'", "leave it out"),
    ast.And: ("'and'", "use logical_and(x, y)"),
    ast.Or: ("'or'", "use logical_or(x, y)"),
    ast.Is: ("'is'", "use =="),
    ast.IsNot: ("'is not'", "use !="),
    ast.In: ("'in'", ""),
    ast.NotIn: ("'not in'", ""),
    ast.Lambda: ("a lambda", "write its expression out"),
    ast.Attribute: ("attribute access", "ops are called by their bare names"),
    ast.Subscript: ("indexing", "use slice(x, start_indices, end_indices), or take(x, index, dim)"),
    ast.IfExp: ("'if … else'", "use where(condition, x, y)"),
    ast.JoinedStr: ("a string", ""),
    ast.ListComp: ("a comprehension", "ops work on whole tensors"),
    ast.NamedExpr: ("':='", "write an assignment of its own"),
    ast.List: ("a list", "only dims, shapes and masks are lists"),
    ast.Tuple: ("a tuple", "only dims, shapes and masks are lists"),
}


def name_numbers(statement: ast.stmt, own: Collection[str]) -> None:
    """Make ``inf`` and ``nan`` in ``statement`` the numbers that they name, but for those that the recipe has given to
    something else, which ``own`` names. However deep it is: how deep it may be is found out later."""
    numbers = {name: number for name, number in NAMED_NUMBERS.items() if name not in own}

    def named(node: Any) -> Any:
        if not isinstance(node, ast.Name) or node.id not in numbers or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(ast.Constant(value=numbers[node.id], kind=node.id), node)

    for node in ast.walk(statement):
        for name, child in ast.iter_fields(node):
            if isinstance(child, list):
                child[:] = map(named, child)
            elif not (isinstance(node, ast.Call) and name == "func"):
                setattr(node, name, named(child))


def signature(op: Signed) -> str:
    """``op`` as its documentation writes it: ``sum(x, dims=None, keepdim=False, dtype=None)``."""
    parts = [p.name if p.default is REQUIRED else f"{p.name}={p.default!r}" for p in op.parameters]
    return f"{op.name}({', '.join(parts)})"


def operator_of(op: str) -> str:
    """How a body may also write ``op``: ``lhs + rhs`` for ``add``. Empty for an op that has no operator."""
    lhs, rhs = ast.Name(id="lhs"), ast.Name(id="rhs")
    expressions: dict[str, ast.expr] = {
        **{name: ast.BinOp(left=lhs, op=kind(), right=rhs) for kind, name in _BINARY.items()},
        **{name: ast.Compare(left=lhs, ops=[kind()], comparators=[rhs]) for kind, name in _COMPARE.items()},
        **{name: ast.UnaryOp(op=kind(), operand=ast.Name(id="x")) for kind, name in _UNARY.items()},
    }
    return ast.unparse(expressions[op]) if op in expressions else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLambda:
    """A lambda that a body may name, and where the recipe defines it."""

    body: Fusion
    ordered: bool
    place: SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownComposite:
    """A composite that a body may call. ``nesting`` says how deep its expressions are, and ``ops`` how many it records
    at most, with those of the composites that it calls. ``record`` takes the operands, the names of the results, the
    place of the call and where problems go, and returns the results."""

    name: str
    parameters: tuple[Parameter, ...]
    results: int
    nesting: int
    ops: int
    record: Callable[[Sequence[Value], Sequence[str], SourceLocation, Problems], tuple[Value, ...] | None]


class Calls:
    """Records expressions into ``builder``. ``place`` locates a node, ``lookup`` finds the value of a name, ``lambdas``
    has what ``combine`` may name and ``composites`` what may be called beside ops (None for one that has an error)."""

    def __init__(
        self,
        place: Callable[[ast.AST], SourceLocation],
        builder: FusionBuilder,
        problems: Problems,
        lookup: Lookup,
        symbols: tuple[str, ...],
        lambdas: Mapping[str, KnownLambda | None],
        composites: Mapping[str, KnownComposite | None],
    ) -> None:
        self._place, self._builder, self._problems = place, builder, problems
        self._lookup, self._lambdas, self._composites = lookup, lambdas, composites
        self._attributes = AttributeReader(place, problems, symbols)

    def results(self, node: ast.expr, names: Sequence[str], *, is_pack: bool) -> tuple[Value, ...] | None:
        """The values of ``node``, the right side of an assignment to ``names``; as many as there are names."""
        if nesting(node) > MAX_NESTING:
            self._error(node, f"the expression is nested more than {MAX_NESTING} deep", "give parts of it names")
            return None
        if self._composites and nesting(node, self._composites) > MAX_NESTING:
            message = f"the expression, with the composites that it calls, is nested more than {MAX_NESTING} deep"
            self._error(node, message, "write the statements of a composite out")
            return None
        if not is_pack:
            value = self._value(node, names[0])
            return None if value is None else (value,)
        if not isinstance(node, ast.Call):
            self._error(
                node, f"one value cannot be given to {counted(len(names), 'name')}", "write one assignment a line"
            )
            return None
        results = self._call(node, names)
        if results is not None and len(results) != len(names):
            op = node.func.id if isinstance(node.func, ast.Name) else ""
            self._error(node, f"{op} gives {counted(len(results), 'result')}, not {len(names)}")
            return None
        return results

    def _error(self, node: ast.AST, message: str, hint: str = "") -> None:
        self._problems.add(self._place(node), message, hint)

    def _value(self, node: ast.expr, name: str = "") -> Value | None:
        if isinstance(node, ast.Name):
            return self._lookup(node)
        if is_number(node) or isinstance(node, ast.Constant):
            return self._constant(node, name)
        if not isinstance(node, ast.Call):
            operation = self._operation(node)
            results = operation and self._record(operation[0], operation[1], {}, node, [name])
            return results[0] if results else None
        results = self._call(node, [name])
        if results is not None and len(results) > 1:
            self._several(node, len(results))
            return None
        return results[0] if results else None

    def _several(self, node: ast.Call, count: int) -> None:
        """Report that ``node`` gives ``count`` results where one is needed."""
        op = node.func.id if isinstance(node.func, ast.Name) else ""
        names = ", ".join("abcdef"[:count])
        self._error(node, f"{op} gives {count} results", f"give each a name: '{names} = {op}(…)'")

    def _operation(self, node: ast.expr) -> tuple[str, list[ast.expr]] | None:
        """The op and operands that an operator stands for."""
        kind: ast.AST = node
        if isinstance(node, ast.Compare):
            if len(node.ops) > 1:
                hint = "compare in pairs and join them with logical_and(x, y)"
                self._error(node, "a chain of comparisons has no place in a body", hint)
                return None
            kind = node.ops[0]
            if op := _COMPARE.get(type(kind)):
                return op, [node.left, node.comparators[0]]
        elif isinstance(node, ast.BinOp):
            kind = node.op
            if op := _BINARY.get(type(kind)):
                return op, [node.left, node.right]
        elif isinstance(node, ast.UnaryOp):
            kind = node.op
            if op := _UNARY.get(type(kind)):
                return op, [node.operand]
        elif isinstance(node, ast.BoolOp):
            kind = node.op
        what, hint = _REFUSED.get(type(kind), ("this expression", "use names, numbers, operators and ops"))
        self._error(node, f"{what} has no place in a body", hint)
        return None

    def _constant(self, node: ast.expr, name: str = "") -> Value | None:
        literal = literal_of(node)
        if not isinstance(literal, bool | int | float):
            what = "None" if literal is None else "a string" if isinstance(literal, str) else "this constant"
            self._error(node, f"{what} has no place in a body", "constants are numbers, inf, nan, True and False")
            return None
        if not isinstance(literal, bool) and isinstance(literal, int) and not INT64_MIN <= literal <= INT64_MAX:
            self._error(node, "the integer does not fit 64 bits")
            return None
        if isinstance(literal, float) and math.isinf(literal) and not _is_named(node):
            self._error(node, "the number is too large for a double", "infinity is inf")
            return None
        return self._builder.constant(literal, name=name, location=self._place(node))

    def _call(self, node: ast.Call, names: Sequence[str]) -> tuple[Value, ...] | None:
        if not isinstance(node.func, ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            self._error(node.func, "only ops can be called, by their bare names", self._called_bare(name))
            return None
        if node.func.id in self._composites:
            return self._composite(node, self._composites[node.func.id], names)
        if node.func.id in LIBRARY:
            return self._library(node, LIBRARY[node.func.id], names)
        op = OPS.get(node.func.id)
        if op is None:
            hint = self._callable_like(node.func.id)
            self._error(node.func, f"unknown op '{node.func.id}'", hint)
            return None
        arguments = self._bind(op, node)
        if arguments is None:
            return None
        operands: list[ast.expr | Literal] = []
        named: dict[str, Attribute] = {}
        complete = True
        for parameter in op.parameters:
            argument = arguments.get(parameter.name)
            is_absent = parameter.default is None and (argument is None or _is_none(argument))
            if parameter.kind == "value" and not is_absent:
                operands.append(parameter.default if argument is None else argument)  # type: ignore[arg-type]
            elif parameter.kind == "values":
                operands += items_of(arguments[parameter.name])
            elif parameter.kind == "lambda":
                complete &= self._combine(op, arguments, named)
            elif argument is not None and not is_absent:
                complete &= self._attributes.read(op, parameter, argument, named)
        results = self._record(op.name, operands, named, node, names, complete=complete)
        return results if complete else None

    def _called_bare(self, name: str) -> str:
        """How ``x.name(…)`` is written."""
        is_known = name in OPS or name in LIBRARY or name in self._composites
        return f"write {name}(…)" if is_known else self._callable_like(name)

    def _callable_like(self, name: str) -> str:
        """What an unknown op may have been meant to be; dtypes and lambdas are not called, but many try."""
        if dtype_named(name) is not None:
            return f"write cast(x, {name})"
        if name in self._lambdas:
            return f"'{name}' is a lambda: write combine={name} in a reduce or scan"
        return meant(name, [*self._composites, *self._lambdas])

    def _composite(
        self, node: ast.Call, known: KnownComposite | None, names: Sequence[str]
    ) -> tuple[Value, ...] | None:
        """Record the body of a composite; None, and no word, for one that has an error."""
        arguments = None if known is None else self._bind(known, node)
        if known is None or arguments is None:
            return None
        values = self._operands([_argument(arguments, parameter) for parameter in known.parameters], node)
        operands = [value for value in values if value is not None]
        if len(names) == 1 < known.results:
            self._several(node, known.results)
        elif len(names) != known.results:
            self._error(node, f"{known.name} gives {counted(known.results, 'result')}, not {len(names)}")
        if len(operands) < len(values) or len(names) != known.results:
            return None
        if len(self._builder.exprs) + known.ops > MAX_OPS:
            self._error(node, f"with this call, the fusion has more than {MAX_OPS} ops")
            return None
        return known.record(operands, names, self._place(node), self._problems)

    def _library(self, node: ast.Call, known: LibraryComposite, names: Sequence[str]) -> tuple[Value, ...] | None:
        """Record a composite of the library."""
        arguments = self._bind(known, node)
        if arguments is None:
            return None
        given = {each: arguments[each.name] for each in known.parameters if each.name in arguments}
        given = {each: node for each, node in given.items() if each.default is not None or not _is_none(node)}
        named: dict[str, Attribute] = {}
        complete = True
        parts: list[tuple[Parameter, list[ast.expr]]] = []
        for parameter, argument in given.items():
            if parameter.kind in OPERANDS:
                parts.append((parameter, items_of(argument) if parameter.kind == "values" else [argument]))
            else:
                complete &= self._attributes.read(known, parameter, argument, named)
        values = self._operands([item for _, items in parts for item in items], node)
        known_values = [value for value in values if value is not None]
        if not complete or len(known_values) < len(values):
            return None
        each_value = iter(known_values)
        operands = {parameter.name: list(islice(each_value, len(items))) for parameter, items in parts}
        if len(self._builder.exprs) > MAX_OPS:
            self._error(node, f"with this call, the fusion has more than {MAX_OPS} ops")
            return None
        return self._recorded(node, known, operands, named, names)

    def _recorded(
        self,
        node: ast.Call,
        known: LibraryComposite,
        operands: Mapping[str, list[Value]],
        named: Mapping[str, Attribute],
        names: Sequence[str],
    ) -> tuple[Value, ...] | None:
        builder, place = self._builder, self._place(node)
        builder.open_composite(known.name, [value for items in operands.values() for value in items], place)
        results: tuple[Value, ...] = ()
        try:
            results = known.record(_Placed(builder, place), operands, named)
        except TypeRuleError as error:
            self._error(node, error.message, error.hint)
            return None
        finally:
            shown = names if len(names) == len(results) else [""] * len(results)
            builder.close_composite(each for each, name in zip(results, shown, strict=True) if name or len(shown) == 1)
        inputs = {value.fid for items in operands.values() for value in items}
        return tuple(
            value if value.fid in inputs else builder.name_value(value, name)
            for value, name in zip(results, shown, strict=True)
        )

    def _bind(self, op: Signed, node: ast.Call) -> Arguments | None:
        """Arguments by parameter name, once they fit the signature."""
        hint = f"the signature is {signature(op)}"
        if len(node.args) > len(op.parameters):
            given = f"{op.name} takes {counted(len(op.parameters), 'argument')}, not {len(node.args)}"
            self._error(node.args[len(op.parameters)], given, hint)
            return None
        spread: list[ast.expr] = [argument for argument in node.args if isinstance(argument, ast.Starred)]
        spread += [keyword.value for keyword in node.keywords if keyword.arg is None]
        if spread:
            self._error(spread[0], "arguments cannot be spread with *", hint)
            return None
        bound = {parameter.name: argument for parameter, argument in zip(op.parameters, node.args, strict=False)}
        known = [parameter.name for parameter in op.parameters]
        is_good = True
        for keyword in node.keywords:
            assert keyword.arg is not None
            name = _parameter_called(keyword.arg, known)
            if name not in known:
                near = nearest("dims" if name == "axis" else name, known)
                self._error(keyword, f"{op.name} has no argument '{name}'", near or hint)
            elif name in bound:
                self._error(keyword, f"the argument '{name}' is given twice", hint)
            else:
                bound[name] = keyword.value
                continue
            is_good = False
        missing = [p.name for p in op.parameters if p.default is REQUIRED and p.name not in bound]
        if missing and is_good:
            self._error(node, f"{op.name} needs the argument '{missing[0]}'", hint)
        return bound if is_good and not missing else None

    def _record(
        self,
        op: str,
        operands: Sequence[ast.expr | Literal],
        named: Mapping[str, Attribute],
        node: ast.expr,
        names: Sequence[str],
        *,
        complete: bool = True,
    ) -> tuple[Value, ...] | None:
        """Record ``op``."""
        values = self._operands(operands, node)
        known = [value for value in values if value is not None]
        if not complete or len(known) < len(values):
            return None
        # A wrong number of names is reported by the caller; the builder pads.
        state = named.get("state")
        count = len(state) if isinstance(state, tuple) else OPS[op].results
        fitting = names if len(names) <= count else ()
        try:
            return self._builder.call(op, known, named, names=fitting, location=self._place(node))
        except TypeRuleError as error:
            culprit = None if error.operand is None else operands[error.operand]
            self._error(culprit if isinstance(culprit, ast.expr) else node, error.message, error.hint)
            return None

    def _operands(self, operands: Sequence[ast.expr | Literal], node: ast.expr) -> list[Value | None]:
        """Values. Operands that are ops come first, constants get their fids right before the result."""
        values = [
            self._value(operand) if isinstance(operand, ast.expr) and not is_number(operand) else None
            for operand in operands
        ]
        for index, operand in enumerate(operands):
            if not isinstance(operand, ast.expr):
                values[index] = self._builder.constant(operand, location=self._place(node))
            elif is_number(operand):
                values[index] = self._constant(operand)
        return values

    def _combine(self, op: OpDef, arguments: Arguments, named: dict[str, Attribute]) -> bool:
        """Read the lambda and what follows from it into ``named``; False after reporting why it does not fit."""
        node = arguments["combine"]
        if not isinstance(node, ast.Name) or node.id not in self._lambdas:
            name = f" '{node.id}'" if isinstance(node, ast.Name) else ""
            near = nearest(node.id, self._lambdas) if isinstance(node, ast.Name) else ""
            self._error(node, f"{op.name}: combine names no lambda{name}", near or "define it under lambdas")
            return False
        found = self._lambdas[node.id]
        if found is None:
            return False
        state = state_dtypes(found.body)
        for parameter in ("inputs", "init"):
            items = items_of(arguments[parameter])
            if len(items) != len(state):
                message = f"{op.name}: {parameter} has {counted(len(items), 'part')}, but the state of '{node.id}' has"
                self._error(arguments[parameter], f"{message} {len(state)}")
                return False
        named |= {"combine": node.id, "state": state, "ordered": found.ordered or op.name == "scan"}
        return True


@dataclass(frozen=True, slots=True)
class _Placed:
    """Records ops of a composite of the library, all at the place of its call."""

    builder: FusionBuilder
    place: SourceLocation

    def constant(self, literal: Literal) -> Value:
        return self.builder.constant(literal, location=self.place)

    def call(self, op: str, operands: Sequence[Value], named: Mapping[str, Attribute]) -> tuple[Value, ...]:
        return self.builder.call(op, operands, named, location=self.place)


def nesting(expression: ast.expr, composites: Mapping[str, KnownComposite | None] | None = None) -> int:
    """How many expressions deep ``expression`` is, found without recursion. What it calls of ``composites`` is as deep
    as its statements and one more, since reading it takes more of Python's stack than an op does."""
    deepest, depth, level = 0, 0, [expression]
    while level:
        depth += 1
        called = [found for node in level if (found := called_composite(node, composites or {})) is not None]
        deepest = max([deepest, depth, *(depth + 1 + each.nesting for each in called)])
        level = [child for node in level for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return deepest


def called_composite(node: ast.AST, composites: Mapping[str, KnownComposite | None]) -> KnownComposite | None:
    """Which of ``composites`` the expression ``node`` is a call of."""
    return composites.get(node.func.id) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None


def _parameter_called(name: str, known: Sequence[str]) -> str:
    """The parameter of ``known`` that a call means by ``name``: ``dim`` and ``dims`` are one word."""
    other = {"dim": "dims", "dims": "dim"}.get(name, name)
    return other if name not in known and other in known else name


def _argument(arguments: Arguments, parameter: Parameter) -> ast.expr | Literal:
    """What a call gives for ``parameter``, an input of a composite, or the number that it is otherwise."""
    if parameter.name in arguments:
        return arguments[parameter.name]
    assert isinstance(parameter.default, bool | int | float)
    return parameter.default


def _is_named(node: ast.expr) -> bool:
    """Whether the constant ``node`` was written as a name, perhaps with a minus sign."""
    constant = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(constant, ast.Constant) and constant.kind in NAMED_NUMBERS


def _is_none(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Constant) and argument.value is None
