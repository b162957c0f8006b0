"""What a kernel's own text says that it is launched with, and whether a plan launches it so.

An artifact carries the text of each kernel. Its parameters are named after the fids of the segment that it was rendered
for, and a comment beside each tells the type or the size that it takes. Names hold wherever a kernel is launched;
comments where it was rendered for, which the text begins with. All launches of it, wherever they are, are told there
too: :mod:`fusebuild.artifact.launch_text`. What is no text of a kernel, says nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from fusebuild.artifact import launch_text
from fusebuild.artifact import plan as p
from fusebuild.ir.dtype import DType
from fusebuild.ir.fid import OriginalFid, SegmentFid
from fusebuild.ir.formula import Formula, product, show

_HEAD = re.compile(
    r"^FUSEBUILD_(?:(?:CLUSTER_)?KERNEL|MEMBER)\(([\w *]+), .*\)\n(\w+?)(_member)?\((?:fb::Member member,)?\n",
    re.MULTILINE,
)
_TABLE = re.compile(r"^FUSEBUILD_MEMBERS_ENTRY\(\w+, ([0-9]{1,9})\)$", re.MULTILINE)
_MOST_THREADS = "kMostThreads"
"""What a kernel calls the threads of the largest blocks, whose launches say how many theirs have."""
_ENTRY, _END = "\nFUSEBUILD_", ") {"
_HEADER = "\n#include "
"""Before it stands the comment that a text begins with."""
_SEGMENT = re.compile(r", segment ([0-9]{1,9}): \w+, variant ")
_FIDS = re.compile(r"segment fids to original fids: \{([0-9:, ]*)\}")
_FID_PAIR = re.compile(r"([0-9]{1,9}): ([0-9]{1,9})")
_PARAMETER = re.compile(r"\s*(?:const )?(\w+)(\*?)( __restrict__)? (\w+),?(?:  // (.*))?")
_OWN_TENSOR, _SCALAR, _STRIDE = (
    re.compile(r"T([0-9]{1,9})"),
    re.compile(r"s([0-9]{1,9})"),
    re.compile(r"T([0-9]{1,9})_stride[0-9]+"),
)
_CONSTANT = re.compile(r"\b(k\w+) = ([0-9]{1,9})[;,]")
_KNOWN = re.compile(r"^  constexpr int64_t n[0-9]+ = ([0-9]{1,18});  // ([A-Za-z_]\w*)$", re.MULTILINE)
_SIZE_KNOWN = "\n  constexpr int64_t n"
_NUMBER = re.compile(r"[0-9]{1,9}")
_SIZE = re.compile(r"[ns][0-9]+|[TX][0-9]+_\w+")
"""What parameters are called whose comment is the formula that they are."""
_DIM = re.compile(r"stride of dim ([0-9]{1,9}), in elements")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextParameter:
    """One parameter: its C type without ``*``, its name, and what the comment beside it says, if there is one. Memory
    that ``is_alone`` is that of no other parameter."""

    type: str
    is_pointer: bool
    is_alone: bool
    name: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelText:
    """The head of a kernel's text: the segment and the fids that it was rendered for, the threads of a block (None
    where they are no product of numbers) or, where blocks ``may_have_fewer``, of the largest, the symbols whose sizes
    it knows, the parameters, and for how many ``members`` at a time it takes them in a table, 0 where it takes none."""

    segment: int
    fids: Mapping[int, int]
    threads: int | None
    may_have_fewer: bool
    known: tuple[tuple[str, int], ...]
    parameters: tuple[TextParameter, ...]
    members: int = 0

    def is_of(self, segment: p.PlanSegment) -> bool:
        """Whether it was rendered for ``segment``, so that its comments are about it: not where it has members, whose
        comments are about tensors of one dim."""
        return not self.members and segment.id == self.segment and segment.fid_map == self.fids

    def takes(self, threads: int) -> bool:
        """Whether its blocks may have so many ``threads``."""
        return self.threads in (None, threads) or (self.may_have_fewer and threads < (self.threads or 0))


def read(text: str, kernel: str) -> KernelText | None:
    """The head of ``text``, which is that of ``kernel``; None where there is none."""
    begin = text.find(_HEADER)
    head = _HEAD.search(text, max(text.find(_ENTRY, begin), 0))
    end = -1 if head is None else text.find(_END, head.end())
    if head is None or end < 0 or head[2] != kernel:
        return None
    banner = " ".join(text[: max(begin, 0)].replace("\n//", " ").split())
    segment, fids = _SEGMENT.search(banner), _FIDS.search(banner)
    beside = text[end + len(_END) :].partition("\n")[0]
    parameters = _parameters(f"{text[head.end() : end]}{beside}")
    if segment is None or fids is None or parameters is None:
        return None
    return KernelText(
        segment=int(segment[1]),
        fids={int(own): int(original) for own, original in _FID_PAIR.findall(fids[1])},
        threads=_product(head[1], text[begin : head.start()]),
        may_have_fewer=head[1] == _MOST_THREADS,
        known=tuple((symbol, int(size)) for size, symbol in _KNOWN.findall(text)) if _SIZE_KNOWN in text else (),
        parameters=parameters,
        members=int(table[1]) if head[3] and (table := _TABLE.search(text, end)) else 0,
    )


def _parameters(lines: str) -> tuple[TextParameter, ...] | None:
    """Those declared in ``lines``, one each; a comment that found no room beside one is the line before it."""
    found, before = list[TextParameter](), ""
    for line in lines.splitlines():
        if line.strip().startswith("//"):
            before = f"{before} {line.strip().removeprefix('//').strip()}".strip()
            continue
        match = _PARAMETER.fullmatch(line)
        if match is None:
            return None
        type_, star, alone, name, beside = match.groups()
        says, before = beside or before, ""
        found.append(TextParameter(type=type_, is_pointer=bool(star), is_alone=bool(alone), name=name, says=says))
    return tuple(found)


def _product(factors: str, text: str) -> int | None:
    """The product of ``factors``, numbers and constants that ``text`` defines."""
    constants, result = dict(_CONSTANT.findall(text)), 1
    for factor in factors.split(" * "):
        number = constants.get(factor, factor)
        if not _NUMBER.fullmatch(number):
            return None
        result *= int(number)
    return result


class Misused(NamedTuple):
    """A kernel that a plan launches otherwise than its text says, and what is wrong."""

    name: str
    problem: str


def misused(plan: p.Plan, texts: Mapping[str, str]) -> Misused | None:
    """The first kernel that ``plan`` launches otherwise than its text says; None where there is none."""
    heads = {kernel: read(text, kernel) for kernel, text in texts.items()}
    values = {value.fid: value for value in plan.values}
    aliased = {output.fid for output in plan.outputs if output.alias is not None}
    extents = {extent.fid: extent.extent for extent in plan.extents}
    types, shown = dict[tuple[OriginalFid, str], str](), dict[Formula, str]()
    for target in plan.targets:
        scratch = frozenset(slot.id for slot in target.workspace if slot.fid is None)
        for segment in target.segments:
            check = _SegmentCheck(values=values, aliased=aliased, extents=extents, types=types, shown=shown,
                                  scratch=scratch, segment=segment)  # fmt: skip
            if (wrong := check.misused(heads)) is not None:
                return Misused(wrong.name, f"{target.target}: segment {segment.id}: {wrong.problem}")
    told = launch_text.launches(plan, shown)
    problems = (Misused(kernel, launch_text.problem(texts[kernel], own)) for kernel, own in told.items())
    return next((found for found in problems if found.problem), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SegmentCheck:
    """Launches of one segment against the texts of their kernels. ``types`` has what was found out about tensors, and
    ``shown`` how formulas are written."""

    values: Mapping[OriginalFid, p.PlanValue]
    aliased: set[OriginalFid]
    extents: Mapping[int, p.FormulaJson]
    types: dict[tuple[OriginalFid, str], str]
    shown: dict[Formula, str]
    scratch: frozenset[int]
    segment: p.PlanSegment

    def misused(self, heads: Mapping[str, KernelText | None]) -> Misused | None:
        for variant in self.segment.variants:
            for launch in variant.launches:
                head = heads[launch.kernel]
                for problem in () if head is None else self.problems(variant, launch, head):
                    return Misused(launch.kernel, problem)
        return None

    def problems(self, variant: p.Variant, launch: p.Launch, text: KernelText) -> Iterator[str]:
        for symbol, size in text.known if text.is_of(self.segment) else ():
            if ["eq", symbol, size] not in map(list, variant.guard):
                yield f"variant {variant.name} has no guard for {symbol}={size}, which the kernel is made for"
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        if not text.takes(threads):
            yield f"a block of {threads} threads, where the kernel is made for {text.threads}"
        members = 0 if launch.members is msgspec.UNSET else launch.members
        if text.members != members:
            yield f"a table of {members} launches, where the kernel takes {text.members}"
        if len(text.parameters) != len(launch.args):
            yield f"{len(launch.args)} arguments, where the kernel takes {len(text.parameters)}"
            return
        for parameter, arg in zip(text.parameters, launch.args, strict=True):
            wrong = self._pointer(parameter, arg) if parameter.is_pointer else self._number(parameter, arg)
            if not wrong and text.is_of(self.segment):
                wrong = self._said(parameter, arg)
            if wrong:
                yield f"{parameter.name} {wrong}"
        slots = Counter(arg.slot for arg in launch.args if isinstance(arg, p.WorkspaceArg))
        yield from (f"slot {slot} is given to it {count} times" for slot, count in slots.items() if count > 1)

    def _named(self, parameter: re.Match[str]) -> OriginalFid | None:
        """The value of the plan that a parameter is named after; None where the segment has none."""
        return self.segment.fid_map.get(SegmentFid(int(parameter[1])))

    def _pointer(self, parameter: TextParameter, arg: p.Arg[OriginalFid]) -> str:
        """What is wrong with the address ``arg``, wherever the kernel is launched."""
        if not isinstance(arg, p.TensorArg):
            is_scratch = isinstance(arg, p.WorkspaceArg) and arg.slot in self.scratch
            return "" if is_scratch and parameter.name[0] not in "TX" else "is no tensor"
        if parameter.name[0] not in "TX":
            return f"is fid {arg.fid}, where the kernel takes scratch"
        if DType(self.values[arg.fid].dtype).row.c_type != parameter.type:
            return f"is a tensor of {self.values[arg.fid].dtype}, where the kernel takes {parameter.type}"
        if parameter.is_alone and arg.fid in self.aliased:
            return "overwrites an input, where the kernel takes memory of its own"
        own = _OWN_TENSOR.fullmatch(parameter.name)
        if own is not None and self._named(own) != arg.fid:
            return f"is fid {arg.fid}, expected fid {self._named(own)}"
        return ""

    def _number(self, parameter: TextParameter, arg: p.Arg[OriginalFid]) -> str:
        """What is wrong with the number ``arg``, wherever the kernel is launched."""
        if isinstance(arg, p.ScalarArg):
            own = _SCALAR.fullmatch(parameter.name)
            if own is None or self._named(own) != arg.fid:
                return f"is the scalar {arg.fid}, which it is not named after"
            dtype = self.values[arg.fid].dtype
            fits = DType(dtype).row.c_type == parameter.type
            return "" if fits else f"is a {dtype}, where the kernel takes {parameter.type}"
        if isinstance(arg, p.TensorArg | p.WorkspaceArg) or parameter.type != "int64_t":
            return f"is no {parameter.type}"
        own = _STRIDE.fullmatch(parameter.name)
        if isinstance(arg, p.StrideArg) and own is not None and self._named(own) != arg.fid:
            return f"is a stride of fid {arg.fid}, expected fid {self._named(own)}"
        return ""

    def _said(self, parameter: TextParameter, arg: p.Arg[OriginalFid]) -> str:
        """What is wrong with ``arg`` beside what the text says of it."""
        says, along = parameter.says, _DIM.fullmatch(parameter.says)
        dim = int(along[1]) if along else None
        if isinstance(arg, p.TensorArg):
            return self._tensor_problem(parameter, arg.fid)
        if isinstance(arg, p.StrideArg):
            return "" if arg.dim == dim else f"is the stride of dim {arg.dim}, expected the {says}"
        if not isinstance(arg, p.ExtentArg | p.FormulaArg) or not _SIZE.fullmatch(parameter.name):
            return ""
        size = p.as_formula(self.extents[arg.fid] if isinstance(arg, p.ExtentArg) else arg.formula)
        if dim is not None:
            return self._stride_problem(parameter, dim, size)
        return "" if show(size, self.shown) == says else f"is {show(size)}, expected {says}"

    def _tensor_problem(self, parameter: TextParameter, fid: OriginalFid) -> str:
        """What is wrong with the tensor ``fid``: of one that index ops read from, the text says its name."""
        value, says = self.values[fid], parameter.says
        if parameter.name[0] == "X":
            says = says.rpartition(", for ")[0]
            if says.partition(": ")[0] != value.name:
                return f"is '{value.name}', expected {says}"
        elif parameter.name[0] != "T":
            return ""
        if (fid, says) not in self.types:
            self.types[fid, says] = _type_problem(value, says, self.shown, with_strides=fid not in self.aliased)
        return self.types[fid, says]

    def _stride_problem(self, parameter: TextParameter, dim: int, size: Formula) -> str:
        """What is wrong with ``size`` for the stride of ``dim`` of a tensor that is named in the parameter."""
        own = _STRIDE.fullmatch(parameter.name)
        if own is None:
            return ""
        fid = self._named(own)
        if fid is None or fid not in self.values:
            return "is a stride of no tensor of the segment"
        value = self.values[fid]
        known = dim < len(value.strides) and size == p.as_formula(value.strides[dim])
        return "" if known else f"is {show(size)}, which is not the {parameter.says}, of '{value.name}'"


def _type_problem(value: p.PlanValue, says: str, shown: dict[Formula, str], *, with_strides: bool) -> str:
    """What of ``value`` is otherwise than in ``says``, which is a name and a type as ``x: float[M, N?]``: a dim may end
    in ``?``, when it has a stride that only the caller knows, or in ``~``, when it has one of 0."""
    shape = [p.as_formula(size) for size in value.shape]
    name, _, rest = says.partition(f": {value.dtype}[")
    flags: list[str] = []
    for size in shape:
        rest = rest.removeprefix(", " if flags else "")
        text = show(size, shown)
        flag = rest[len(text) : len(text) + 1]
        flags.append(flag if flag in ("?", "~") else "")
        if not rest.startswith(text):
            break
        rest = rest[len(text) + len(flags[-1]) :]
    if not name or len(flags) < len(shape) or not rest.startswith("]"):
        return f"is {value.dtype}[{', '.join(map(show, shape))}], where the kernel takes {says}"
    if not with_strides or rest != "]":
        return ""
    expected = _strides(shape, flags)
    if any(
        own != other and size != 1
        for own, other, size in zip(map(p.as_formula, value.strides), expected, shape, strict=True)
    ):
        return f"has the strides {list(value.strides)}, where the kernel takes {says}"
    return ""


def _strides(shape: Sequence[Formula], flags: Sequence[str]) -> list[Formula | None]:
    """The strides of a tensor whose dims have ``flags``; None where only the caller knows one."""
    strides: list[Formula | None] = []
    running: Formula | None = 1
    for size, flag in zip(reversed(shape), reversed(flags), strict=True):
        running = None if flag == "?" else running
        strides.insert(0, 0 if flag == "~" else running)
        running = running if running is None or flag == "~" else product([size or 1, running])  # 0 would say broadcast
    return strides
