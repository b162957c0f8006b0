"""Random Fusions for property tests.

Sizes are powers of two and inputs are small multiples of a half, so that sums are exact in any order and a rewritten
Fusion can be held to the very numbers of the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import difference, product
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Value
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.type_rules import TypeRuleError

EXTENTS = {"M": 4, "N": 8, "K": 2}
"""The size of every symbol that :func:`fusions` uses."""

_DTYPES = (DType.FLOAT, DType.BFLOAT16, DType.HALF, DType.DOUBLE, DType.INT64, DType.INT32, DType.BOOL)
_SHAPES: tuple[tuple[Any, ...], ...] = (
    ("M", "N"), ("N",), ("M", 1), (1, "N"), (), ("M", "N", "K"), ("N", 1), (4, "N"), ("M", "N"),
)  # fmt: skip
_UNARY = ("abs", "neg", "relu", "set", "segment_set", "logical_not", "isnan", "floor", "sign")
_BINARY = ("add", "sub", "mul", "maximum", "minimum", "lt", "eq", "ge", "logical_and", "bitwise_xor")
_REDUCTIONS = ("sum", "max", "min", "prod", "mean", "var", "var_mean")
_LITERALS = (0, 1, 2, 3, 0.0, -0.0, 1.0, 0.5, True, False)
_KINDS = ("unary", "binary", "binary", "where", "cast", "reduction", "broadcast", "squeeze", "expand",
          "broadcast_in_dim", "pow", "constant", "permute", "slice", "pad", "cat", "take", "scatter",
          "reshape")  # fmt: skip
WITH_ORDER = (*_KINDS, "along")
"""The kinds of ops that :func:`fusions` draws, with sorts and scans."""
_ALONG = ("sort", "argsort", "topk", "cummax", "cummin", "cumsum")
_SCATTERED = ("scatter", "scatter_add", "index_copy", "index_add", "index_put", "index_put_accumulate")
_INDEXED = ("take", "index_select", "take_along_axis", "gather", "embedding")


def _pick(draw: st.DrawFn, values: Sequence[Value]) -> Value:
    return draw(st.sampled_from(values))


def _subset(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    return tuple(dim for dim in range(count) if draw(st.booleans()))


def _call(draw: st.DrawFn, builder: FusionBuilder, kind: str, values: Sequence[Value]) -> tuple[Value, ...]:
    """One random op of ``kind`` on ``values``; raises :class:`TypeRuleError` when the operands do not fit."""
    if kind == "constant":
        return (builder.constant(draw(st.sampled_from(_LITERALS))),)
    if kind == "unary":
        return builder.call(draw(st.sampled_from(_UNARY)), [_pick(draw, values)])
    if kind == "binary":
        return builder.call(draw(st.sampled_from(_BINARY)), [_pick(draw, values), _pick(draw, values)])
    if kind == "where":
        return builder.call("where", [_pick(draw, values) for _ in range(3)])
    if kind == "pow":
        return builder.call("pow", [_pick(draw, values), builder.constant(draw(st.sampled_from((1, 2, 3, 2.0))))])
    if kind == "cast":
        return builder.call("cast", [_pick(draw, values)], {"dtype": draw(st.sampled_from(_DTYPES))})
    tensors = [value for value in values if value.is_tensor]
    return _call_on_tensor(draw, builder, kind, _pick(draw, tensors), tensors)


def _call_on_tensor(
    draw: st.DrawFn, builder: FusionBuilder, kind: str, x: Value, tensors: Sequence[Value]
) -> tuple[Value, ...]:
    shape = x.tensor.shape
    if kind == "reduction":
        op = draw(st.sampled_from(_REDUCTIONS))
        named: dict[str, Any] = {"dims": _subset(draw, len(shape)), "keepdim": draw(st.booleans())}
        if op in ("var", "var_mean"):
            named["correction"] = draw(st.sampled_from((0, 0, 1)))
        elif op in ("sum", "prod"):
            named["dtype"] = draw(st.sampled_from((None, None, None, DType.DOUBLE, DType.INT64, DType.BFLOAT16)))
        return builder.call(op, [x], named)
    if kind == "squeeze":
        ones = [dim for dim, extent in enumerate(shape) if extent == 1]
        return builder.call("squeeze", [x], {"dims": tuple(ones[index] for index in _subset(draw, len(ones)))})
    if kind == "permute":
        return builder.call("permute", [x], {"permutation": tuple(draw(st.permutations(range(len(shape)))))})
    if kind == "slice":
        ends = tuple(draw(st.sampled_from((extent, 2, difference(extent, 1)))) for extent in shape)
        starts, steps = (tuple(draw(st.integers(least, least + 1)) for _ in shape) for least in (0, 1))
        return builder.call("slice", [x], {"start_indices": starts, "end_indices": ends, "strides": steps})
    if kind == "pad":
        widths = tuple(draw(st.integers(0, 2)) for _ in range(2 * draw(st.integers(0, len(shape)))))
        return builder.call("pad", [x, builder.constant(draw(st.sampled_from((0, 1.5))))], {"pad_widths": widths})
    if kind == "cat":
        fitting = [each for each in tensors if each.tensor.rank == len(shape)]
        return builder.call(
            "cat", [x, _pick(draw, fitting)], {"dim": draw(st.integers(-len(shape), max(0, len(shape) - 1)))}
        )
    if kind == "take":
        op = draw(st.sampled_from(_INDEXED))
        named = {} if op == "embedding" else {"dim": draw(st.integers(-len(shape), max(0, len(shape) - 1)))}
        return builder.call(op, [x, _pick(draw, tensors)], named)
    if kind == "scatter":
        op, dim = draw(st.sampled_from(_SCATTERED)), draw(st.integers(-len(shape), max(0, len(shape) - 1)))
        named = {} if op.startswith("index_put") else {"dim": dim}
        src = draw(st.sampled_from((builder.constant(2), *tensors)))
        return builder.call(op, [x, _pick(draw, tensors), src], named)
    if kind == "along":
        op = draw(st.sampled_from(_ALONG))
        along: dict[str, Any] = {"dim": draw(st.integers(-len(shape), max(0, len(shape) - 1)))}
        if op == "topk":
            along |= {"k": draw(st.integers(1, 2)), "largest": draw(st.booleans())}
        elif op in ("sort", "argsort"):
            along["descending"] = draw(st.booleans())
        return builder.call(op, [x], along)
    if kind == "reshape":
        first = draw(st.integers(0, len(shape)))
        last = draw(st.integers(first, len(shape)))
        target = (*shape[:first], product(shape[first:last]), *shape[last:])
        return builder.call("reshape", [x], {"shape": target})
    if kind == "expand":
        target = [draw(st.sampled_from((1, "M", "N"))) if extent == 1 else extent for extent in shape]
        return builder.call("expand", [x], {"shape": tuple(target)})
    mask = list(draw(st.permutations([False] * len(shape) + [True] * draw(st.integers(0, 4 - min(4, len(shape)))))))
    if kind == "broadcast":
        return builder.call("broadcast", [x], {"is_broadcast_dim": tuple(mask)})
    own = iter(shape)
    target = [draw(st.sampled_from((1, "M"))) if is_new else next(own) for is_new in mask]
    kept = tuple(position for position, is_new in enumerate(mask) if not is_new)
    return builder.call("broadcast_in_dim", [x], {"shape": tuple(target), "broadcast_dims": kept})


def _add_outputs(draw: st.DrawFn, builder: FusionBuilder, values: Sequence[Value], aliases: bool) -> None:
    tensors = [value for value in values if value.is_tensor]
    inputs = [builder.values[fid] for fid in builder.inputs if builder.values[fid].is_tensor]
    overwritten: set[int] = set()
    for position in range(draw(st.integers(1, 3))):
        value = _pick(draw, tensors[-6:] if draw(st.booleans()) else tensors)
        fits = [x for x in inputs if x.type == value.type and x.fid not in overwritten]
        if aliases and fits and draw(st.booleans()):
            overwritten.add(fits[0].fid)
            builder.output(value, name=f"out{position}", alias=fits[0])
        else:
            builder.output(value, name=f"out{position}")


@st.composite
def fusions(draw: st.DrawFn, *, max_exprs: int = 12, aliases: bool = True, kinds: Sequence[str] = _KINDS) -> Fusion:
    """A Fusion over the symbols of :data:`EXTENTS`: mixed dtypes and ranks, pointwise ops, casts, views, reductions
    with and without keepdim, parts of tensors, tensors side by side, elements by number, constants, repeated outputs,
    and (with ``aliases``) outputs that overwrite inputs; ``kinds`` are those of its ops."""
    builder = FusionBuilder("random")
    values = [builder.tensor(DType.FLOAT, ("M", "N")), builder.tensor(DType.BFLOAT16, ("N", "K"))]
    values += [
        builder.tensor(draw(st.sampled_from(_DTYPES)), draw(st.sampled_from(_SHAPES)))
        for _ in range(draw(st.integers(1, 3)))
    ]
    values.append(builder.scalar(draw(st.sampled_from((DType.DOUBLE, DType.INT64)))))
    for _ in range(draw(st.integers(1, max_exprs))):
        recent = values[-5:] if draw(st.booleans()) else values
        if not any(value.is_tensor for value in recent):
            recent = values
        try:
            values += _call(draw, builder, draw(st.sampled_from(kinds)), recent)
        except TypeRuleError:
            continue
    _add_outputs(draw, builder, values, aliases)
    return builder.finish()


def exact_inputs(fusion: Fusion, *, seed: int = 0) -> list[Any]:
    """Inputs for ``fusion`` at :data:`EXTENTS` whose floats are small multiples of a half."""
    from fusebuild.oracle.reference import random_inputs

    inputs = random_inputs(fusion, EXTENTS, seed=seed)
    return [
        (argument * 2).round() / 2 if getattr(argument, "is_floating_point", bool)() else
        0.5 if isinstance(argument, float) else argument
        for argument in inputs
    ]  # fmt: skip
