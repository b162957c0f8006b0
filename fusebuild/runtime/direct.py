"""The way that most calls take: a function that has as many parameters as the plan has inputs.

One that takes any number of arguments packs and unpacks them, which is a tenth of a call: of 3.2 us with ``out=`` and
of 5.1 without on an H200's host, 0.2 and 0.3. So each plan's is written for it, as ``dataclasses`` writes ``__init__``.
Of the plan only numbers get into its text: an artifact cannot have a name that is run. Inputs can be given by name all
the same: once the text is compiled, the names of its parameters become those of the plan, and the rest is Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from fusebuild.artifact.plan import Plan, PlanValue
from fusebuild.runtime.layout_text import ResultsText
from fusebuild.runtime.memory import UNMADE, TorchMemory
from fusebuild.runtime.signature import words_for
from fusebuild.runtime.unreadable import ABSENT, ERRORS, explained, is_negated
from fusebuild.runtime.written import written

if TYPE_CHECKING:
    from fusebuild.runtime.call import Executor

_TEXT = """\
def direct({parameters}, *more, out=None, variant=None):
    if more or {last} is absent or variant is not None{or_outs_are_given}{or_is_negated}:
        return run(*present({inputs}), *more, out=out, variant=variant)
{making}    try:
        if call({inputs}, {outs}) is None:
            return {results}
    except TypeError as error:
        if not isinstance(out, (tuple, list)):
            raise explained(plan, ({inputs},), ({outs},), error) from None
    except errors as error:
        raise explained(plan, ({inputs},), ({outs},), error) from None
    return run({inputs}, out=out)
"""

_MAKING = """\
    call = call_into_given
    if out is None:
        if not ({are_known_kinds}):
            return run({inputs})
        call = call_into_new
        try:
            {lines}
            {made} = {new}
        except unmade:
            call = undone
            {none} = None
"""

_NOT_MAKING = """\
    call = call_into_given
    if out is None:
        return run({inputs})
"""


def directly(plan: Plan, executor: Executor, memory: TorchMemory | None, run: Callable[..., Any]) -> Callable[..., Any]:
    """A function with a quick way for usual calls; it leaves all others to ``run``, which takes every call. ``plan``
    has inputs.

    ``run`` gets calls with more arguments or fewer, with an ``out`` in a list, with inputs that are not torch's or from
    whose shapes ``memory`` makes no results, and with tensors whose elements torch has yet to negate. Such a tensor, as
    torch's public functions make it, has gaps between its elements or only one element. A plan with fixed strides
    refuses gaps, so torch is asked whether a tensor is to be negated only where its strides are the caller's or where
    it has no dims; the functions that are called find the rest.
    """
    names: dict[str, Any] = {
        "absent": ABSENT,
        "present": _present,
        "plan": plan,
        "call_into_given": executor.call_into_given,
        "call_into_new": executor.call_into_new,
        "run": run,
        "undone": _undone,
        "unmade": UNMADE,
        "kinds": frozenset() if memory is None else memory.kinds,
        "errors": ERRORS,
        "explained": explained,
        "is_negated": is_negated,
    }
    if memory is not None:
        names |= {"empty": memory.empty, **memory.text.names}
    inputs = tuple(place for place, fid in enumerate(plan.inputs) if _is_asked_about(plan.value(fid)))
    outputs = tuple(place for place, each in enumerate(plan.outputs) if _is_asked_about(plan.value(each.fid)))
    text = None if memory is None else memory.text
    function = written(_text(len(plan.inputs), plan.overwritten, text, inputs, outputs), names)
    # The first names of its code are those of its parameters, by which inputs are given.
    rest = function.__code__.co_varnames[len(plan.inputs) :]
    words = words_for([plan.value(fid).name for fid in plan.inputs])
    function.__code__ = function.__code__.replace(co_varnames=(*words, *rest))
    return update_wrapper(function, run)


def _undone(*_: Any) -> bool:
    """In the place of a call into new memory where there is none: ``run`` says for which output."""
    return True


def _present(*inputs: Any) -> Sequence[Any]:
    """``inputs`` without those at the end that were not given."""
    count = max((place + 1 for place, each in enumerate(inputs) if each is not ABSENT), default=0)
    return inputs[:count]


def _is_asked_about(value: PlanValue) -> bool:
    return value.kind == "tensor" and (None in value.strides or not value.shape)


def _text(
    num_inputs: int,
    overwritten: tuple[int | None, ...],
    results: ResultsText | None,
    asked_inputs: tuple[int, ...],
    asked_outputs: tuple[int, ...],
) -> str:
    """``overwritten`` has the input that each output overwrites; torch is asked about the others in every call."""
    inputs = [f"input_{i}" for i in range(num_inputs)]
    names = ["out"] if len(overwritten) == 1 else [f"out_{i}" for i in range(len(overwritten))]
    made = [name for name, place in zip(names, overwritten, strict=True) if place is None]
    takes_out = made == ["out"]
    asked = [inputs[place] for place in asked_inputs] + ["out" for _ in asked_outputs if takes_out]
    return _TEXT.format(
        parameters=_list(f"{name}=absent" for name in inputs),
        inputs=_list(inputs),
        last=inputs[-1],
        or_outs_are_given="" if takes_out else " or out is not None",
        or_is_negated="".join(f" or is_negated({name})" for name in asked),
        making=_making(inputs, names, overwritten, results) if made else "    call = call_into_given\n",
        outs=_list(name if place is None else "None" for name, place in zip(names, overwritten, strict=True)),
        results=_list(name if place is None else inputs[place] for name, place in zip(names, overwritten, strict=True)),
    )


def _making(
    inputs: Sequence[str], names: Sequence[str], overwritten: Sequence[int | None], results: ResultsText | None
) -> str:
    """What makes those outputs, of these ``names``, that overwrite no input; all of them or none."""
    made = [place for place, source in enumerate(overwritten) if source is None]
    if results is None or not results.telling or any(results.layouts[place] is None for place in made):
        return _NOT_MAKING.format(inputs=_list(inputs))
    conditions = [condition for place in made if (condition := results.conditions[place]) is not None]
    refusal = [f"if not ({' and '.join(conditions)}): raise ValueError"] if conditions else []
    return _MAKING.format(
        inputs=_list(inputs),
        are_known_kinds=" and ".join(f"type({name}) in kinds" for name in results.telling),
        lines="\n            ".join([*results.lines, *refusal]),
        made=_list(names[place] for place in made),
        none=" = ".join(names[place] for place in made),
        new=_list(f"empty({results.telling[0]}, {results.layouts[place]})" for place in made),
    )


def _list(items: Iterable[str]) -> str:
    return ", ".join(items)
