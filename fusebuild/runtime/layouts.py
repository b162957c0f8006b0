"""What results look like before there are any: the sizes, strides and dtypes that a plan's formulas say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from fusebuild.artifact.plan import Plan, PlanSolution, PlanValue, as_formula
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, evaluate, prepared, product, show, symbols


class Layout(NamedTuple):
    """What a tensor is made of, in the order in which torch's functions take it: sizes and strides in elements, ints or
    torch's symbols for them, and torch's dtype."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: Any


LayoutRule: TypeAlias = Callable[[Mapping[str, Any]], Layout]


def described(value: PlanValue) -> str:
    """``bfloat16[M, N]``, or the dtype of a scalar."""
    return value.dtype + (_listed(show(as_formula(size)) for size in value.shape) if value.kind == "tensor" else "")


def _tensors(plan: Plan, inputs: Sequence[Any]) -> Iterator[tuple[str, PlanValue, Any]]:
    """Each of ``inputs`` that is a tensor, after what messages call it and what ``plan`` says of it."""
    for place, (fid, given) in enumerate(zip(plan.inputs, inputs, strict=True)):
        value = plan.value(fid)
        if value.kind != "scalar":
            yield f"{plan.fusion}: argument {place} '{value.name}'", value, given


def check_kinds(plan: Plan, inputs: Sequence[Any]) -> None:
    """Raises for ``inputs`` what a call does for tensors of another dtype (``TypeError``) or with another number of
    dims (``ValueError``), without looking at memory."""
    for name, value, given in _tensors(plan, inputs):
        right_dtype = given.dtype == torch_dtype(value.dtype)
        if not right_dtype or len(given.shape) != len(value.shape):
            message = f"{name}: expected {described(value)}, got {_name(given.dtype)}{_listed(given.shape)}"
            raise ValueError(message) if right_dtype else TypeError(message)


def check_sizes(plan: Plan, inputs: Sequence[Any], sizes: Mapping[str, Any]) -> None:
    """Raises ``RuntimeError`` for ``inputs`` whose dims are not those that the plan has for ``sizes``. Where they are
    torch's symbols, they are equal from here on: what is exported says so."""
    import torch

    for name, value, given in _tensors(plan, inputs):
        for dim, (formula, size) in enumerate(zip(map(as_formula, value.shape), given.shape, strict=True)):
            message = f"{name}: dim {dim} has to be {show(formula)}"
            torch._check(size == evaluate(formula, sizes), partial(str, message))  # type: ignore[no-untyped-call]


def sizes_rule(plan: Plan) -> Callable[[Sequence[Any]], Mapping[str, Any]]:
    """What reads the size of each symbol of ``plan`` off the shapes of inputs. The first input that has a symbol says
    its size."""
    positions = {fid: position for position, fid in enumerate(plan.inputs)}
    places = {
        each.extent: (positions[each.input], each.dim)
        for each in reversed(plan.extents)
        if isinstance(each.extent, str)
    }
    solutions = [(each, positions[each.input], solution_rule(each)) for each in plan.solutions or ()]
    telling = {position for position, _ in places.values()} | {position for _, position, _ in solutions}

    def sizes_of(inputs: Sequence[Any]) -> Mapping[str, Any]:
        shapes = {position: inputs[position].shape for position in telling}
        sizes = {symbol: shapes[position][dim] for symbol, (position, dim) in places.items()}
        for solution, position, rule in solutions:
            sizes[solution.symbol] = rule({**sizes, solution.symbol: shapes[position][solution.dim]})
        return sizes

    return sizes_of


def solution_rule(solution: PlanSolution) -> Callable[[Mapping[str, Any]], Any]:
    """What gives the size of the symbol that ``solution`` tells, where the symbol stands for the size of its dim."""
    return prepared(solved(solution))


def told_by(solution: PlanSolution) -> set[str]:
    """The symbols that have to be known before ``solution`` tells another."""
    return {symbol for each in (solution.factor, solution.offset) for symbol in symbols(as_formula(each))}


def solved(solution: PlanSolution) -> Formula:
    """The size of the symbol that ``solution`` tells, as a formula in which the symbol stands for the size of its dim.
    Where no size fits exactly it is rounded down, and the dim of that size is then another."""
    scaled: Formula = product([solution.divisor, solution.symbol])
    factor, offset = as_formula(solution.factor), as_formula(solution.offset)
    shifted: Formula = scaled if offset == 0 else ("sub", scaled, offset)
    return shifted if factor == 1 else ("floor_div", shifted, factor)


def layout_rule(value: PlanValue) -> LayoutRule:
    """What gives the layout of ``value``, none of whose strides is the caller's, at the sizes of all symbols."""
    shape, strides = (
        tuple(prepared(as_formula(each)) for each in formulas) for formulas in (value.shape, value.strides)
    )
    dtype = torch_dtype(value.dtype)

    def layout_of(sizes: Mapping[str, Any]) -> Layout:
        return Layout(tuple([each(sizes) for each in shape]), tuple([each(sizes) for each in strides]), dtype)

    return layout_of


def torch_dtype(dtype: str) -> Any:
    """What torch calls ``dtype``."""
    import torch

    return getattr(torch, DType(dtype).row.torch)


def _name(torch_dtype: Any) -> str:
    """What messages call a dtype of torch's."""
    name = str(torch_dtype).removeprefix("torch.")
    return next((dtype.value for dtype in DType if dtype.row.torch == name), name)


def _listed(sizes: Iterable[Any]) -> str:
    return f"[{', '.join(str(size) for size in sizes)}]"
