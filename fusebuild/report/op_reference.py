"""The reference of ops and of the library's composites, from their entries in :data:`fusebuild.ops.table.OPS` and
:data:`fusebuild.ops.library.LIBRARY`: what ``fusebuild ops`` prints. The page ``docs/guide/ops.md`` shows the same.

Each example is recorded once for every dtype, as a recipe would be; which dtypes an op takes and what it gives for them
is read from that, so that nothing here can differ from the type rules.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from fusebuild.errors import RecipeError, UsageError
from fusebuild.ir.dtype import DType
from fusebuild.ops.library import LIBRARY, LibraryComposite
from fusebuild.ops.table import OPS, Kind, OpDef
from fusebuild.ops.vocabulary import meant
from fusebuild.recipe.calls import operator_of, signature
from fusebuild.recipe.recipe import parse_recipe

_ANNOTATED = re.compile(r"(\w+): (\w+\[[^\]]*\])")
_PREFERRED = (DType.FLOAT, DType.INT64, DType.BOOL)

KINDS = {
    Kind.POINTWISE: "Pointwise: each element of the result from the elements at its place",
    Kind.VIEW: "Views: other dims over the same elements",
    Kind.INDEX: "Reading elements from elsewhere",
    Kind.SCATTER: "Writing elements to places that an index names",
    Kind.REDUCTION: "Reductions: many elements become one",
    Kind.SCAN: "Scans: every partial result of a reduction",
    Kind.ORDER: "Orders: the elements of a dim, sorted",
    Kind.COMPOSITE: "Composites: written in other ops before kernels are planned",
    Kind.CREATION: "Creation: tensors and scalars out of nothing",
    Kind.LIBRARY: "Library calls: cuBLASLt, a segment of their own",
}
"""What each kind is called in the reference, in its order."""

SECTIONS = {
    "activations": "The library: activations",
    "normalizations": "The library: normalizations and statistics",
    "losses": "The library: losses",
    "shapes": "The library: shapes and arithmetic",
}
"""The same for the composites of the library, which come after the ops."""


class OpExample(msgspec.Struct, frozen=True, kw_only=True):
    """A call that can be recorded"""

    inputs: Annotated[dict[str, str], Meta(description="the type of each tensor that the call names")]
    call: str
    results: Annotated[list[str], Meta(description="the types of what the call gives")]


class OpReference(msgspec.Struct, frozen=True, kw_only=True):
    """``fusebuild ops --json``: one op, or one composite of the library"""

    name: str
    signature: Annotated[str, Meta(description="parameters with their defaults, as a recipe's body names them")]
    operator: Annotated[str, Meta(description="how a body may also write it; empty where there is no operator")]
    kind: Annotated[str, Meta(description="the kind of op, or the section of the library")]
    doc: Annotated[str, Meta(description="what a composite of the library gives; empty for an op")]
    dtypes: Annotated[
        dict[str, list[str]],
        Meta(description="for each dtype that the tensors T of the example may have, the dtypes of the results"),
    ]
    example: Annotated[OpExample | None, Meta(description="null where no dtype will do")]


def op_reference(name: str) -> OpReference:
    """The reference of the op ``name``. Raises :class:`UsageError` for a name that no op has."""
    if name not in OPS and name not in LIBRARY:
        hint = meant(name)
        raise UsageError(f"unknown op '{name}'{'; ' + hint if hint else ''}")
    op = OPS[name] if name in OPS else LIBRARY[name]
    examples = {dtype: example for dtype in DType if (example := _example(op, dtype))}
    return OpReference(
        name=name,
        signature=signature(op),
        operator=operator_of(name),
        kind=op.kind.value if isinstance(op, OpDef) else op.section,
        doc="" if isinstance(op, OpDef) else op.doc,
        dtypes={dtype.value: [each.partition("[")[0] for each in found.results] for dtype, found in examples.items()},
        example=next((examples[dtype] for dtype in _PREFERRED if dtype in examples), None),
    )


def op_references() -> list[OpReference]:
    """The reference of every op, by kind, and of every composite of the library, by section; in their orders."""
    ops = [op.name for kind in KINDS for op in OPS.values() if op.kind is kind]
    composites = [each.name for section in SECTIONS for each in LIBRARY.values() if each.section == section]
    return [op_reference(name) for name in (*ops, *composites)]


def example_recipe(op: OpDef | LibraryComposite, dtype: DType) -> str:
    """The recipe of the example of ``op``, with ``dtype`` for its ``T``."""
    inputs, call = _parts(op, dtype)
    names = [f"y{position}" for position in range(op.results or 1)]
    lambdas = [
        "lambdas:",
        f"  added: {{left: {{a: {dtype.value}}}, right: {{b: {dtype.value}}}, body: r = a + b, results: [r]}}",
    ]
    lines = [
        f"fusion: {op.name}_example",
        "inputs:",
        *(f'  {name}: "{type_}"' for name, type_ in inputs.items()),
        *(lambdas if "combine=added" in call else []),
        "body: |",
        f"  {', '.join(names)} = {call}",
        "outputs:",
        *(f"  {name}:" for name in names),
    ]
    return "\n".join(lines) + "\n"


def _parts(op: OpDef | LibraryComposite, dtype: DType) -> tuple[dict[str, str], str]:
    """The tensors of the example with their types, and its call."""
    text = op.example or f"{op.name}({', '.join(f'{each.name}: T[M, N]' for each in op.parameters)})"
    inputs = {name: re.sub(r"^T\b", dtype.value, type_) for name, type_ in _ANNOTATED.findall(text)}
    return inputs, _ANNOTATED.sub(r"\1", text)


def _example(op: OpDef | LibraryComposite, dtype: DType) -> OpExample | None:
    """The example of ``op``, recorded; None where the op takes no tensors of ``dtype``."""
    inputs, call = _parts(op, dtype)
    try:
        fusion = parse_recipe(example_recipe(op, dtype), op.name).fusion
    except RecipeError:
        return None
    return OpExample(inputs=inputs, call=call, results=[str(fusion.value(fid).type) for fid in fusion.output_fids])


def op_lines(reference: OpReference) -> list[str]:
    """``reference`` for people."""
    also = f"    or {reference.operator}" if reference.operator else ""
    lines = [f"{reference.signature}{also}", f"  kind     {reference.kind}"]
    lines += [f"  gives    {line}" if not place else f"           {line}"
              for place, line in enumerate(textwrap.wrap(reference.doc, 100))]  # fmt: skip
    lines += [f"  dtypes   {_dtypes(reference)}"]
    if (example := reference.example) is not None:
        tensors = ", ".join(f"{name}: {type_}" for name, type_ in example.inputs.items())
        lines.append(f"  example  {example.call}    with {tensors}")
        lines.append(f"  {'types' if reference.doc else 'gives'}    {', '.join(example.results)}")
    return lines


def _dtypes(reference: OpReference) -> str:
    """``double, float kept; half -> float; not int64``: what the op gives for tensors of each dtype."""
    given: dict[str, list[str]] = {}
    for dtype, results in reference.dtypes.items():
        result = "kept" if results == [dtype] else f"-> {', '.join(results)}"
        given.setdefault(result, []).append(dtype)
    parts = [f"{_named(dtypes)} {result}" for result, dtypes in given.items()]
    refused = [dtype.value for dtype in DType if dtype.value not in reference.dtypes]
    return "; ".join([*parts, *([f"not {_named(refused)}"] if refused else [])])


def _named(dtypes: Sequence[str]) -> str:
    return "every dtype" if len(dtypes) == len(DType) else ", ".join(dtypes)


def reference_text(references: Sequence[OpReference]) -> str:
    """What ``fusebuild ops`` prints."""
    return "\n\n".join("\n".join(op_lines(each)) for each in references) + "\n"
