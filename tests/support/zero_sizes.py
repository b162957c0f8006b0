"""Calls of fusions whose sizes are zero, alone and together, in every variant that fits: who makes them, and what goes
wrong in them.

Inputs and outputs without elements have no memory: their address is null, or one that nobody may use. Others lie where
the caller says, so that a kernel that reaches beyond them is found out. What came out is compared with the oracle; on a
GPU torch only copies, so that a run under ``compute-sanitizer`` is soon over.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fusebuild.artifact.plan import Variant, as_formula
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.ir.fusion import Fusion
from fusebuild.oracle.reference import torch_dtype
from fusebuild.oracle.verification import Trial, bits_of, largest_tensor, read_recipe, recipe_inputs, trial_on
from fusebuild.recipe.recipe import Recipe
from fusebuild.runtime.loader import LoadedPlan, load
from support.kinds import Kind, holds, kind_of

LARGEST = 300_000
"""Elements of the largest tensor of a case."""
ALIKE = 1
"""How many cases that differ in sizes alone, not in which of them are zero and which variants fit."""
NOWHERE = 0x1000
"""An address in the page after that of the null address, which no process may map."""
REFUSALS = ("there are no elements to choose from", "is below the minimum of 1", "would have -")
"""What a call may say of sizes that have no result."""

Sizes = Mapping[str, int]
Place = Callable[[torch.Tensor], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Where a call's tensors are put: those with elements and those without."""

    name: str
    full: Place
    empty: Place

    def put(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return self.full(value) if value.numel() else self.empty(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What ran: calls, those that were refused, and of the schedulers' variants those that launched a kernel and those
    that had nothing to do."""

    calls: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    launched: set[Kind] = field(default_factory=set)
    idle: set[Kind] = field(default_factory=set)
    made: set[Kind] = field(default_factory=set)


def placed(fusion: Fusion, inputs: Sequence[Any], memory: Memory) -> list[Any]:
    """The inputs of ``fusion`` in ``memory``, but for those that have to be on the host."""
    types = (fusion.value(fid).type for fid in fusion.inputs)
    return [value if getattr(type_, "cpu", False) else memory.put(value)
            for type_, value in zip(types, inputs, strict=True)]  # fmt: skip


def zero_cases(fusion: Fusion) -> list[dict[str, int]]:
    """The sizes of the fusion's cases with every choice of symbols zero: as they are where they name no symbol. Those
    that the fusion's facts do not allow are left out."""
    least = {fact.symbol: fact.min if not fact.values else min(fact.values) for fact in fusion.facts}
    found: dict[tuple[tuple[str, int], ...], None] = {}
    for case in fusion.cases:
        may_be_zero = [symbol for symbol in case if least.get(symbol, 0) <= 0]
        for count in range(1 if may_be_zero else 0, len(may_be_zero) + 1):
            for zeros in itertools.combinations(may_be_zero, count):
                sizes = {**case, **dict.fromkeys(zeros, 0)}
                if largest_tensor(fusion, sizes) <= LARGEST:
                    found[tuple(sizes.items())] = None
    return [dict(sizes) for sizes in found]


def check_artifact(
    path: Path, target: str, memories: Sequence[Callable[[], AbstractContextManager[Memory]]], tally: Tally,
    before: Callable[[str], None] = lambda call: None,
) -> None:  # fmt: skip
    """Run all zero-size cases of the artifact at ``path``. ``before`` is told of each call before it is made: it may
    not come back."""
    plan, recipe = load(path, target=target), read_recipe(path)
    for _, variant_kind in _kinds(plan):
        tally.made.add(variant_kind)
    for sizes in _distinct(plan, zero_cases(recipe.fusion)):
        try:
            trial = trial_on(recipe.fusion, sizes, recipe_inputs(recipe, sizes, seed=1, device="cpu"))
        except (ValueError, IndexError, RuntimeError) as error:
            _expect_refusal(plan, recipe, sizes, error, memories[0], tally)
            continue
        for memory in memories:
            _check_case(plan, trial, memory, tally, before)


def _distinct(plan: LoadedPlan, cases: Sequence[dict[str, int]]) -> list[dict[str, int]]:
    """Of the cases with the same zeros and the same variants, the first :data:`ALIKE`, those with fewer elements
    first."""
    own = plan.plan.target(plan.target)
    assert own is not None
    found: dict[object, list[dict[str, int]]] = {}
    for sizes in sorted(cases, key=lambda sizes: (sum(sizes.values()), tuple(sizes.items()))):
        fits = tuple(
            tuple(all(holds(as_formula(guard), sizes) for guard in variant.guard) for variant in segment.variants)
            for segment in own.segments
        )
        alike = found.setdefault((tuple(not size for size in sizes.values()), fits), [])
        if len(alike) < ALIKE:
            alike.append(sizes)
    return [sizes for alike in found.values() for sizes in alike]


def _kinds(plan: LoadedPlan) -> Iterator[tuple[tuple[int, int], Kind]]:
    own = plan.plan.target(plan.target)
    assert own is not None
    for at, segment in enumerate(own.segments):
        for index, variant in enumerate(segment.variants):
            yield (at, index), kind_of(segment, variant)


def _expect_refusal(
    plan: LoadedPlan, recipe: Recipe, sizes: Sizes, error: Exception,
    memory: Callable[[], AbstractContextManager[Memory]], tally: Tally,
) -> None:  # fmt: skip
    """The oracle has no result for ``sizes``: then the plan may have none either."""
    inputs = recipe_inputs(recipe, sizes, seed=1, device="cpu")
    call = f"{recipe.fusion.name} {dict(sizes)}"
    with memory() as place:
        try:
            plan(*placed(recipe.fusion, inputs, place))
        except ValueError as refusal:
            tally.refused.add(f"{call}: {refusal}")
            return
    tally.wrong.append(f"{call}: a result where the oracle says: {type(error).__name__}: {error}")


def _check_case(
    plan: LoadedPlan, trial: Trial, memory: Callable[[], AbstractContextManager[Memory]], tally: Tally,
    before: Callable[[str], None],
) -> None:  # fmt: skip
    fusion, sizes = trial.fusion, trial.case
    with memory() as place:
        name = f"{fusion.name} {dict(sizes)} {place.name}"
        try:
            valid = plan.variants_for(*placed(fusion, trial.inputs, place))
        except ValueError as error:
            refusal = f"{name}: {error}"
            known = any(words in str(error) for words in REFUSALS)
            (tally.refused.add if known else tally.wrong.append)(refusal)
            return
    own = plan.plan.target(plan.target)
    assert own is not None
    counts = [len(segment.variants) for segment in own.segments]
    indices = [index for index in range(max(counts, default=0))
               if all(index in some or index >= count for some, count in zip(valid, counts, strict=True))]  # fmt: skip
    for forced in (None, *indices):
        chosen = [forced if forced is not None and forced < count else min(some, default=None)
                  for some, count in zip(valid, counts, strict=True)]  # fmt: skip
        names = [segment.variants[index].name for segment, index in zip(own.segments, chosen, strict=True)
                 if index is not None]  # fmt: skip
        call = f"{name} {'chosen' if forced is None else forced}: {', '.join(names)}"
        before(call)
        tally.calls.append(call)
        with memory() as place:
            problem = _problem(plan, trial, place, forced)
        if problem:
            tally.wrong.append(f"{call}: {problem}")
        for segment, index in zip(own.segments, chosen, strict=True):
            if index is None:
                tally.launched.add((segment.scheduler, "call" if segment.call else "views"))
                continue
            variant = segment.variants[index]
            (tally.launched if _launches(variant, sizes) else tally.idle).add(kind_of(segment, variant))


def _launches(variant: Variant, sizes: Sizes) -> bool:
    """Whether some kernel of ``variant`` has a block to run."""
    every = {**sizes, MULTIPROCESSORS: 1}
    return any(all(evaluate(as_formula(size), every) for size in launch.grid) for launch in variant.launches)


def _problem(plan: LoadedPlan, trial: Trial, memory: Memory, forced: int | None) -> str:
    """What is wrong with one call; empty when nothing is."""
    fusion, inputs, wanted = trial.fusion, trial.inputs, trial.wanted
    overwritten = {output.alias for output in fusion.outputs}
    given = placed(fusion, inputs, memory)
    outs = [None if output.alias is not None else memory.put(_poison(fusion, output.fid, want))
            for output, want in zip(fusion.outputs, wanted, strict=True)]  # fmt: skip
    try:
        results = plan(*given, out=outs[0] if len(outs) == 1 else tuple(outs), variant=forced)
    except (ValueError, TypeError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    results = results if isinstance(results, tuple) else (results,)
    for result, want, output in zip(results, wanted, fusion.outputs, strict=True):
        if tuple(result.shape) != tuple(want.shape):
            return f"{output.name}: expected the shape {tuple(want.shape)}, got {tuple(result.shape)}"
    own = [result.cpu() if want.numel() else want for result, want in zip(results, wanted, strict=True)]
    for output, found in zip(fusion.outputs, trial.compared(own), strict=True):
        if found.problem:
            return f"{output.name}{found.problem}"
    for fid, value, before in zip(fusion.inputs, given, inputs, strict=True):
        if fid in overwritten or not isinstance(before, torch.Tensor) or not before.numel():
            continue
        if not bits_of(value.cpu()).equal(bits_of(before)):
            return f"the input {fusion.value(fid).name} was overwritten"
    return ""


def _poison(fusion: Fusion, fid: int, want: torch.Tensor) -> torch.Tensor:
    """A tensor full of what no kernel would write; never what it writes for reductions of nothing, for which NaN is
    right in a mean."""
    dtype = torch_dtype(fusion.value(fid).dtype)
    poison = -12345.0 if dtype.is_floating_point else True if dtype is torch.bool else torch.iinfo(dtype).max - 1
    return torch.full(want.shape, poison, dtype=torch.float32 if dtype.is_floating_point else dtype).to(dtype)


# Tensors without memory


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _DLManagedTensor(ctypes.Structure):
    _fields_ = (("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


CODES = {torch.bool: 6, torch.bfloat16: 4, torch.float8_e4m3fn: 10, torch.float8_e5m2: 12}
"""DLPack's codes for dtypes that are neither signed nor plain floats."""


class Dangling:
    """A tensor without elements like ``like``, whose address is :data:`NOWHERE`: torch gives all of its own the null
    address."""

    def __init__(self, like: torch.Tensor, device: tuple[int, int]) -> None:
        self.shape, self.device = tuple(like.shape), device
        self._sizes = (ctypes.c_int64 * max(1, like.ndim))(*like.shape)
        self._strides = (ctypes.c_int64 * max(1, like.ndim))(*like.stride())
        code = CODES.get(like.dtype, 2 if like.dtype.is_floating_point else 0)
        self._managed = _DLManagedTensor(
            tensor=_DLTensor(data=NOWHERE, device_type=device[0], device_id=device[1], ndim=like.ndim, code=code,
                             bits=8 * like.element_size(), lanes=1, shape=self._sizes, strides=self._strides),
        )  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **_: object) -> object:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return make(ctypes.addressof(self._managed), b"dltensor", None)


# On a GPU: each tensor an allocation of its own, of as many bytes as it has


def on_gpu(name: str, empty: Place) -> AbstractContextManager[Memory]:
    return nullcontext(Memory(name=name, full=_copied_to_gpu, empty=empty))


def _copied_to_gpu(value: torch.Tensor) -> torch.Tensor:
    return _copied(value, torch.empty(_span(value), dtype=value.dtype, device="cuda"))


GPU_MEMORIES = (
    lambda: on_gpu("null", lambda value: torch.empty_strided(value.shape, value.stride(), dtype=value.dtype,
                                                             device="cuda")),
    lambda: on_gpu("dangling", lambda value: Dangling(value, (2, 0))),
)  # fmt: skip


# On the host: each tensor between pages that nobody may touch


def _span(value: torch.Tensor) -> int:
    """How many elements lie from its first to its last."""
    return 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))


def _copied(value: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """``memory`` with what is in that of ``value``, gaps included, as a tensor like ``value``."""
    memory.copy_(value.as_strided((_span(value),), (1,)))
    return memory.as_strided(value.shape, value.stride())


class _Pages:
    """Pages for tensors, each between two that nobody may touch. They are unmapped by :meth:`free`."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                                    ctypes.c_long)  # fmt: skip
        self._libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        self._libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        self._mapped: list[tuple[int, int]] = []

    def put(self, value: torch.Tensor, *, at_end: bool) -> torch.Tensor:
        page, count = mmap.PAGESIZE, _span(value) * value.element_size()
        inner = -(-count // page) * page
        start = self._libc.mmap(None, inner + 2 * page, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        assert start not in (None, ctypes.c_void_p(-1).value)
        self._mapped.append((start, inner + 2 * page))
        assert self._libc.mprotect(start + page, inner, mmap.PROT_READ | mmap.PROT_WRITE) == 0
        first = start + page + (inner - (count + 15) // 16 * 16 if at_end else 0)
        raw = (ctypes.c_char * count).from_address(first)
        return _copied(value, torch.frombuffer(raw, dtype=value.dtype))

    def free(self) -> None:
        for start, size in self._mapped:
            self._libc.munmap(start, size)


@contextmanager
def between_guards(name: str, empty: Place, *, at_end: bool) -> Iterator[Memory]:
    pages = _Pages()
    try:
        yield Memory(name=name, full=lambda value: pages.put(value, at_end=at_end), empty=empty)
    finally:
        pages.free()


HOST_MEMORIES = (
    lambda: between_guards("null", lambda value: value, at_end=True),
    lambda: between_guards("dangling", lambda value: Dangling(value, (1, 0)), at_end=False),
)


def unreached(tally: Tally) -> set[Kind]:
    """Of what the recipes make for the target, what ran in no call with a zero size."""
    return tally.made - tally.launched - tally.idle
