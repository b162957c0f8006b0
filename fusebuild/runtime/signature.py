"""What a plan's call looks like to Python: the words for its inputs, its signature and its docstring."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, Signature
from keyword import iskeyword

from fusebuild.artifact.plan import Plan, PlanValue
from fusebuild.runtime.layouts import described

OPTIONS = ("out", "variant")
"""What every call takes by these words, whatever inputs are called."""


def is_keyword(name: str) -> bool:
    """Whether an input called ``name`` can be given by it."""
    return name.isidentifier() and not iskeyword(name) and name not in OPTIONS


def words_for(names: Sequence[str]) -> tuple[str, ...]:
    """The keyword of each of the inputs called ``names``. An input that can be given by its place alone gets a text
    with a space in it, which is no keyword."""
    return tuple(
        name if is_keyword(name) and name not in names[:place] else f"argument {place}"
        for place, name in enumerate(names)
    )


def signature_of(plan: Plan) -> Signature:
    """Inputs, which are given by place or by name, and then the options. An input without a keyword of its own is given
    by place, and so is every input before it."""
    values = [plan.value(fid) for fid in plan.inputs]
    words = words_for([value.name for value in values])
    placed = max((place + 1 for place, word in enumerate(words) if not is_keyword(word)), default=0)
    inputs = [
        Parameter(
            word if is_keyword(word) else f"argument_{place}",
            Parameter.POSITIONAL_ONLY if place < placed else Parameter.POSITIONAL_OR_KEYWORD,
            annotation=described(value),
        )
        for place, (word, value) in enumerate(zip(words, values, strict=True))
    ]
    options = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in OPTIONS]
    results = [described(plan.value(output.fid)) for output in plan.outputs]
    returned = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return Signature([*inputs, *options], return_annotation=returned)


def doc_of(plan: Plan, target: str) -> str:
    """What ``plan`` takes and gives, a line each."""
    names = [plan.value(fid).name for fid in plan.inputs]
    inputs = [_line(plan.value(fid)) for fid in plan.inputs]
    outputs = [
        _line(plan.value(output.fid)) + ("" if place is None else f", which overwrites {names[place]}")
        for output, place in zip(plan.outputs, plan.overwritten, strict=True)
    ]
    taken = "\n".join(inputs) or "    nothing"
    given = "\n".join(outputs)
    return (
        f"{plan.fusion}, on {target}.\n\nTakes, by place or by name:\n\n{taken}\n\nReturns:\n\n{given}\n\n"
        "``out`` is the tensor, or a tuple of one for each, to write to. All else is in the docstring of its type.\n"
    )


def _line(value: PlanValue) -> str:
    return f"    {value.name}: {described(value)}"
