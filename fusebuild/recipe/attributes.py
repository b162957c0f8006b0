"""The arguments of a call that are no values: dims, shapes, masks, dtypes, flags, numbers and texts."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Protocol

from fusebuild.errors import SourceLocation, nearest
from fusebuild.ir.formula import Formula
from fusebuild.ir.values import Attribute
from fusebuild.ops.op_def import Parameter
from fusebuild.recipe.extents import MAX_EXTENT, combined
from fusebuild.recipe.fields import dtype_hint, dtype_named
from fusebuild.recipe.text import Problems

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Signed(Protocol):
    """What is called by name: an op, or a composite."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> tuple[Parameter, ...]: ...


class AttributeReader:
    """Reads arguments as what parameters take; ``place`` locates a node, ``symbols`` are what extents are made of."""

    def __init__(
        self, place: Callable[[ast.AST], SourceLocation], problems: Problems, symbols: tuple[str, ...]
    ) -> None:
        self._place, self._problems, self._symbols = place, problems, symbols

    def _error(self, node: ast.AST, message: str, hint: str = "") -> None:
        self._problems.add(self._place(node), message, hint)

    def read(self, op: Signed, parameter: Parameter, node: ast.expr, named: dict[str, Attribute]) -> bool:
        """Read ``node`` as what ``parameter`` takes into ``named``; False after reporting that it is not."""
        readers: dict[str, Callable[[Signed, Parameter, ast.expr], Attribute]] = {
            "dims": self._dims,
            "shape": self._shape,
            "extent": self._extent,
            "mask": self._mask,
            "dtype": self._dtype,
            "bool": self._flag,
            "int": self._integer,
            "text": self._text,
        }
        before = len(self._problems.found)
        named[parameter.name] = readers[parameter.kind](op, parameter, node)
        return len(self._problems.found) == before

    def _wanted(self, op: Signed, parameter: Parameter, node: ast.expr, what: str, hint: str = "") -> None:
        self._error(node, f"{op.name}: {parameter.name} must be {what}", hint)

    def _dims(self, op: Signed, parameter: Parameter, node: ast.expr) -> Attribute:
        dims = {item: _integer(item) for item in items_of(node)}
        for item, dim in dims.items():
            if dim is None:
                self._wanted(op, parameter, item, "a list of integers", f"for example {parameter.name}=[0, 1]")
        return tuple(dims.values())

    def _shape(self, op: Signed, parameter: Parameter, node: ast.expr) -> Attribute:
        if not isinstance(node, ast.List | ast.Tuple):
            self._wanted(op, parameter, node, "a list of extents", f"for example {parameter.name}=[M, N, 1]")
            return None
        extents = [self._extent(op, parameter, item) for item in node.elts]
        return tuple(extent for extent in extents if extent is not None)

    def _extent(self, op: Signed, parameter: Parameter, node: ast.expr) -> Formula | None:
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

    def _extent_arithmetic(self, op: Signed, parameter: Parameter, node: ast.BinOp) -> Formula | None:
        """Sums, differences, products and quotients (rounded down) of extents."""
        left, right = self._extent(op, parameter, node.left), self._extent(op, parameter, node.right)
        if left is None or right is None:
            return None
        result, problem = combined(node.op, left, right)
        if problem:
            self._error(node, problem)
        return result

    def _mask(self, op: Signed, parameter: Parameter, node: ast.expr) -> Attribute:
        items = node.elts if isinstance(node, ast.List | ast.Tuple) else []
        flags = [literal_of(item) for item in items]
        if not items or not all(isinstance(flag, bool) for flag in flags):
            self._wanted(op, parameter, node, "a list of True and False")
        return tuple(bool(flag) for flag in flags)

    def _dtype(self, op: Signed, parameter: Parameter, node: ast.expr) -> Attribute:
        if not isinstance(node, ast.Name):
            self._wanted(op, parameter, node, "a dtype", "for example float, without quotes")
            return None
        dtype = dtype_named(node.id)
        if dtype is None:
            self._error(node, f"unknown dtype '{node.id}'", dtype_hint(node.id))
        return dtype

    def _flag(self, op: Signed, parameter: Parameter, node: ast.expr) -> Attribute:
        literal = literal_of(node)
        if not isinstance(literal, bool):
            self._wanted(op, parameter, node, "True or False", _title_of(node))
            return None
        return literal

    def _integer(self, op: Signed, parameter: Parameter, node: ast.expr) -> Attribute:
        literal = _integer(_only_dim(node) if parameter.name == "dim" else node)
        if literal is None or not INT64_MIN <= literal <= INT64_MAX:
            self._wanted(op, parameter, node, "an integer")
        return literal

    def _text(self, op: Signed, parameter: Parameter, node: ast.expr) -> Attribute:
        literal = literal_of(node)
        if not isinstance(literal, str):
            self._wanted(op, parameter, node, "a text", f"for example {parameter.name}='{parameter.default}'")
            return None
        return literal


def is_number(node: ast.expr) -> bool:
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


def literal_of(node: ast.expr) -> object:
    """The constant that ``node`` is, its sign included; an object of no number type when it is none."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and is_number(node):
        assert isinstance(node.operand, ast.Constant)
        return -node.operand.value  # type: ignore[operator]
    return node


def _integer(node: ast.expr) -> int | None:
    """The integer that ``node`` is; None when it is something else."""
    literal = literal_of(node)
    return literal if isinstance(literal, int) and not isinstance(literal, bool) else None


def _only_dim(node: ast.expr) -> ast.expr:
    """The dim of a list of one; others as they are."""
    return node.elts[0] if isinstance(node, ast.List | ast.Tuple) and len(node.elts) == 1 else node


def items_of(node: ast.expr) -> list[ast.expr]:
    """The items of a list; a single expression is a list of one."""
    return list(node.elts) if isinstance(node, ast.List | ast.Tuple) else [node]
