"""Expressions of a recipe's body, recorded as ops: operators, calls and the arguments that ops take.

:data:`fusebuild.ops.table.OPS` says what every parameter is; this file says how each kind is written. A method that
returns None has reported why, or found a name whose own statement failed."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fusebuild.errors import SourceLocation, counted, nearest
from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import Literal
from fusebuild.ir.values import Attribute, Value
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.lambdas import state_dtypes
from fusebuild.ops.table import OPS, REQUIRED, OpDef, Parameter
from fusebuild.ops.type_rules import TypeRuleError
from fusebuild.recipe.extents import MAX_EXTENT, combined
from fusebuild.recipe.fields import dtype_hint, dtype_named
from fusebuild.recipe.text import Problems

MAX_NESTING = 100
MAX_OPS = 100_000
"""The most ops that a fusion may have because of calls of composites: a short text can say many."""
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

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


def signature(op: OpDef | KnownComposite) -> str:
    """``op`` as its documentation writes it: ``sum(x, dims=None, keepdim=False, dtype=None)``."""
    parts = [p.name if p.default is REQUIRED else f"{p.name}={p.default}" for p in op.parameters]
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
        self._lookup, self._symbols, self._lambdas, self._composites = lookup, symbols, lambdas, composites

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
        if _is_number(node) or isinstance(node, ast.Constant):
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
        literal = _literal(node)
        if not isinstance(literal, bool | int | float):
            what = "None" if literal is None else "a string" if isinstance(literal, str) else "this constant"
            self._error(node, f"{what} has no place in a body", "constants are numbers, inf, nan, True and False")
            return None
        if not isinstance(literal, bool) and isinstance(literal, int) and not _INT64_MIN <= literal <= _INT64_MAX:
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
                operands += _items(arguments[parameter.name])
            elif parameter.kind == "lambda":
                complete &= self._combine(op, arguments, named)
            elif argument is not None and not is_absent:
                complete &= self._attribute(op, parameter, argument, named)
        results = self._record(op.name, operands, named, node, names, complete=complete)
        return results if complete else None

    def _called_bare(self, name: str) -> str:
        """How ``x.name(…)`` is written."""
        return f"write {name}(…)" if name in OPS or name in self._composites else self._callable_like(name)

    def _callable_like(self, name: str) -> str:
        """What an unknown op may have been meant to be; dtypes and lambdas are not called, but many try."""
        if dtype_named(name) is not None:
            return f"write cast(x, {name})"
        if name in self._lambdas:
            return f"'{name}' is a lambda: write combine={name} in a reduce or scan"
        return nearest(name, [*OPS, *self._composites, *self._lambdas])

    def _composite(
        self, node: ast.Call, known: KnownComposite | None, names: Sequence[str]
    ) -> tuple[Value, ...] | None:
        """Record the body of a composite; None, and no word, for one that has an error."""
        arguments = None if known is None else self._bind(known, node)
        if known is None or arguments is None:
            return None
        values = self._operands([arguments[parameter.name] for parameter in known.parameters], node)
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

    def _bind(self, op: OpDef | KnownComposite, node: ast.Call) -> Arguments | None:
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
            if keyword.arg not in known:
                near = nearest("dims" if keyword.arg == "axis" else keyword.arg, known)
                self._error(keyword, f"{op.name} has no argument '{keyword.arg}'", near or hint)
            elif keyword.arg in bound:
                self._error(keyword, f"the argument '{keyword.arg}' is given twice", hint)
            else:
                bound[keyword.arg] = keyword.value
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
            self._value(operand) if isinstance(operand, ast.expr) and not _is_number(operand) else None
            for operand in operands
        ]
        for index, operand in enumerate(operands):
            if not isinstance(operand, ast.expr):
                values[index] = self._builder.constant(operand, location=self._place(node))
            elif _is_number(operand):
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
            items = _items(arguments[parameter])
            if len(items) != len(state):
                message = f"{op.name}: {parameter} has {counted(len(items), 'part')}, but the state of '{node.id}' has"
                self._error(arguments[parameter], f"{message} {len(state)}")
                return False
        named |= {"combine": node.id, "state": state, "ordered": found.ordered or op.name == "scan"}
        return True

    def _attribute(self, op: OpDef, parameter: Parameter, node: ast.expr, named: dict[str, Attribute]) -> bool:
        """Read ``node`` as what ``parameter`` takes into ``named``; False after reporting that it is not."""
        readers: dict[str, Callable[[OpDef, Parameter, ast.expr], Attribute]] = {
            "dims": self._dims,
            "shape": self._shape,
            "extent": self._extent,
            "mask": self._mask,
            "dtype": self._dtype,
            "bool": self._flag,
            "int": self._integer,
        }
        before = len(self._problems.found)
        named[parameter.name] = readers[parameter.kind](op, parameter, node)
        return len(self._problems.found) == before

    def _wanted(self, op: OpDef, parameter: Parameter, node: ast.expr, what: str, hint: str = "") -> None:
        self._error(node, f"{op.name}: {parameter.name} must be {what}", hint)

    def _dims(self, op: OpDef, parameter: Parameter, node: ast.expr) -> Attribute:
        dims = {item: _integer(item) for item in _items(node)}
        for item, dim in dims.items():
            if dim is None:
                self._wanted(op, parameter, item, "a list of integers", f"for example {parameter.name}=[0, 1]")
        return tuple(dims.values())

    def _shape(self, op: OpDef, parameter: Parameter, node: ast.expr) -> Attribute:
        if not isinstance(node, ast.List | ast.Tuple):
            self._wanted(op, parameter, node, "a list of extents", f"for example {parameter.name}=[M, N, 1]")
            return None
        extents = [self._extent(op, parameter, item) for item in node.elts]
        return tuple(extent for extent in extents if extent is not None)

    def _extent(self, op: OpDef, parameter: Parameter, node: ast.expr) -> Formula | None:
        if isinstance(node, ast.Name):
            if node.id not in self._symbols:
                hint = nearest(node.id, self._symbols) or "an extent is a symbol of an input's shape, or an integer"
                self._error(node, f"unknown extent '{node.id}'", hint)
            return node.id
        if isinstance(node, ast.BinOp):
            return self._extent_arithmetic(op, parameter, node)
        literal = _integer(node)
        if literal is None:
            self._wanted(op, parameter, node, "made of symbols and integers")
        elif literal > MAX_EXTENT:
            self._error(node, f"the extent is {literal}, more than {MAX_EXTENT}")
        elif literal < 0 and (op.name, literal) != ("expand", -1):
            hint = "only expand takes -1, for a dim that stays as it is" if literal == -1 else ""
            self._error(node, f"the extent is {literal}, less than 0", hint)
        else:
            return literal
        return None

    def _extent_arithmetic(self, op: OpDef, parameter: Parameter, node: ast.BinOp) -> Formula | None:
        """Sums, differences, products and quotients (rounded down) of extents."""
        left, right = self._extent(op, parameter, node.left), self._extent(op, parameter, node.right)
        if left is None or right is None:
            return None
        result, problem = combined(node.op, left, right)
        if problem:
            self._error(node, problem)
        return result

    def _mask(self, op: OpDef, parameter: Parameter, node: ast.expr) -> Attribute:
        items = node.elts if isinstance(node, ast.List | ast.Tuple) else []
        flags = [_literal(item) for item in items]
        if not items or not all(isinstance(flag, bool) for flag in flags):
            self._wanted(op, parameter, node, "a list of True and False")
        return tuple(bool(flag) for flag in flags)

    def _dtype(self, op: OpDef, parameter: Parameter, node: ast.expr) -> Attribute:
        if not isinstance(node, ast.Name):
            self._wanted(op, parameter, node, "a dtype", "for example float, without quotes")
            return None
        dtype = dtype_named(node.id)
        if dtype is None:
            self._error(node, f"unknown dtype '{node.id}'", dtype_hint(node.id))
        return dtype

    def _flag(self, op: OpDef, parameter: Parameter, node: ast.expr) -> Attribute:
        literal = _literal(node)
        if not isinstance(literal, bool):
            self._wanted(op, parameter, node, "True or False", _title_of(node))
            return None
        return literal

    def _integer(self, op: OpDef, parameter: Parameter, node: ast.expr) -> Attribute:
        literal = _integer(node)
        if literal is None or not _INT64_MIN <= literal <= _INT64_MAX:
            self._wanted(op, parameter, node, "an integer")
        return literal


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


def _is_number(node: ast.expr) -> bool:
    """Whether ``node`` is a constant, perhaps with a minus sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
        return isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return isinstance(node, ast.Constant)


def _title_of(node: ast.expr) -> str:
    """A hint for ``true`` and ``false``, as YAML writes them."""
    if not isinstance(node, ast.Name) or node.id not in ("true", "false"):
        return ""
    return f"did you mean '{node.id.title()}'?"


def _is_named(node: ast.expr) -> bool:
    """Whether the constant ``node`` was written as a name, perhaps with a minus sign."""
    constant = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(constant, ast.Constant) and constant.kind in NAMED_NUMBERS


def _literal(node: ast.expr) -> object:
    """The constant that ``node`` is, its sign included; an object of no number type when it is none."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and _is_number(node):
        assert isinstance(node.operand, ast.Constant)
        return -node.operand.value  # type: ignore[operator]
    return node


def _integer(node: ast.expr) -> int | None:
    """The integer that ``node`` is; None when it is something else."""
    literal = _literal(node)
    return literal if isinstance(literal, int) and not isinstance(literal, bool) else None


def _items(node: ast.expr) -> list[ast.expr]:
    """The items of a list; a single expression is a list of one."""
    return list(node.elts) if isinstance(node, ast.List | ast.Tuple) else [node]


def _is_none(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Constant) and argument.value is None
