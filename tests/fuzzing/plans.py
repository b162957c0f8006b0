"""Plans of host artifacts that contradict themselves, run with all their memory between pages that nobody may touch.

``PYTHONPATH=tests python -m fuzzing.plans FOLDER COUNT [FIRST]`` changes plans of the artifacts in FOLDER, seals and
opens them, and calls what opens in forked children. A call ends in a typed error, in the same results, in other
results, or it is a crash or takes more than five seconds. It prints how many did which, what was changed, and the
number of each crash, which :func:`described` tells again. Inputs are made, and results are allocated, by the allocator
that ``tvm_ffi`` lets any caller bring, so the executor has no switch for this.
"""

from __future__ import annotations

import copy
import ctypes
import json
import mmap
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fuzzing import artifacts

from fusebuild import stored_zip
from fusebuild.artifact import PLAN, Artifact, decode_artifact
from fusebuild.errors import ArtifactError
from fusebuild.plan import Plan
from fusebuild.runtime.loader import load_artifact

SIZES = (5, 6, 7, 9)
SECONDS = 5
BATCH = 200
"""How many plans one child runs: what they take of memory is never given back."""
REFUSED, SAME, OTHER, MISUSED, UNTYPED, CRASHED, HUNG = ENDS = (
    "refused", "same", "other", "misused", "untyped", "crashed", "hung"
)  # fmt: skip
"""A plan that is ``misused`` had a kernel do what no GPU allows, which the host layer noticed."""
BUGS = (CRASHED, HUNG, UNTYPED)
_PAGE, _MOST = mmap.PAGESIZE, 1 << 28
_NUMBERS = (0, 1, -1, 2, 7, 2**31, 2**62, 2**63 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """An artifact to start from, and what its plan computes."""

    artifact: Artifact
    members: dict[str, bytes]
    expected: list[bytes]


class _Dlpack(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Dlpack),
    ]  # fmt: skip


_SetError = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
_Allocator = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(_Dlpack), ctypes.POINTER(ctypes.POINTER(_Managed)), ctypes.c_void_p, _SetError
)
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_kept: list[Any] = []


def guarded(size: int, alignment: int) -> int:
    """The address of ``size`` zero bytes that end at a page that nobody may touch, but for what ``alignment`` takes.
    They are never freed: a child that has called ends."""
    room = -(-max(size, 1) // _PAGE) * _PAGE
    start = _libc.mmap(None, room + 2 * _PAGE, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if _libc.mprotect(start + _PAGE, room, mmap.PROT_READ | mmap.PROT_WRITE) != 0:
        raise MemoryError(f"{size} bytes")
    return int(start) + _PAGE + (room - size) // alignment * alignment


@_Allocator
def _allocate(like: Any, made: Any, context: Any, set_error: Any) -> int:
    tensor = like.contents
    count = 1
    for dim in range(tensor.ndim):
        count *= tensor.shape[dim]
    size = count * tensor.bits // 8
    if not 0 <= size <= _MOST:
        set_error(context, b"MemoryError", b"out of memory")
        return -1
    strides, step = (ctypes.c_int64 * max(tensor.ndim, 1))(), 1
    for dim in reversed(range(tensor.ndim)):
        strides[dim], step = step, step * tensor.shape[dim]
    shape = (ctypes.c_int64 * max(tensor.ndim, 1))(*(tensor.shape[dim] for dim in range(tensor.ndim)))
    # The workspace is bytes, whose start the executor rounds up: so its end is the page's.
    address = guarded(size, 1 if tensor.bits == 8 else 16)
    own = _Managed(1, 1, None, None, 0, tensor)
    own.tensor.data, own.tensor.byte_offset = address, 0
    own.tensor.shape, own.tensor.strides = shape, strides
    _kept.extend((own, shape, strides))
    made[0] = ctypes.pointer(own)
    return 0


def use_guarded_memory() -> None:
    """Have the executor allocate between pages that nobody may touch."""
    sys.modules["torch"] = None  # type: ignore[assignment]
    import tvm_ffi

    library = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())
    library.TVMFFIEnvSetDLPackManagedTensorAllocator(_allocate, 1, None)


def arguments(plan: Plan) -> list[Any]:
    """One argument for each input of ``plan``, the same ones each time."""
    import numpy

    dtypes = {"float": "f4", "double": "f8", "half": "f2", "int64": "i8", "int32": "i4", "bool": "?"}
    symbols = sorted({extent.extent for extent in plan.extents if isinstance(extent.extent, str)})
    sizes = dict(zip(symbols, SIZES, strict=False))
    given: list[Any] = []
    for value in map(plan.value, plan.inputs):
        dtype = numpy.dtype(dtypes[value.dtype])
        if value.kind == "scalar":
            given.append(2 if dtype.kind in "ib" else 1.5)
            continue
        shape = [sizes[extent] if isinstance(extent, str) else extent for extent in value.shape]
        size = int(numpy.prod(shape, dtype=int)) * dtype.itemsize
        memory = (ctypes.c_char * size).from_address(guarded(size, 16))
        array = numpy.frombuffer(memory, dtype).reshape(shape)
        array[...] = (numpy.arange(array.size) % 13 - 3).reshape(shape)
        given.append(array)
    return given


def results(artifact: Artifact, given: list[Any]) -> list[bytes]:
    """The bytes of what the plan computes; raises what loading or the call does."""
    import numpy
    import tvm_ffi

    plan = load_artifact(artifact, target="host")
    made = plan(*(tvm_ffi.from_dlpack(item) if isinstance(item, numpy.ndarray) else item for item in given))
    return [numpy.from_dlpack(item).tobytes() for item in (made if isinstance(made, tuple) else (made,))]


def seed(path: Path) -> Seed:
    """The artifact at ``path``."""
    data = path.read_bytes()
    artifact = decode_artifact(data, path)
    return Seed(
        artifact=artifact,
        members=dict(artifact.members),
        expected=results(artifact, arguments(artifact.plan)),
    )


def changed(members: dict[str, bytes], chance: random.Random) -> bytes:
    """A sealed artifact whose plan is another than that of ``members``."""
    tree = json.loads(members[PLAN])
    first = chance.choice((_any, _number, _number, _argument, _argument, _formula))
    first(tree, chance)
    if chance.random() < 0.25 and tree:
        _any(tree, chance)
    text = artifacts._spelled(tree)
    return artifacts.sealed(artifacts.with_kernels(members | {PLAN: text}))


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


def _any(tree: dict[str, Any], chance: random.Random) -> None:
    artifacts._change_tree(tree, chance)


def _number(tree: dict[str, Any], chance: random.Random) -> None:
    """One number is 0, negative, huge, half or double."""
    places = [(holder, key) for holder, key in _places(tree["targets"]) if type(holder[key]) is int]
    holder, key = chance.choice(places)
    value = holder[key]
    holder[key] = chance.choice((*_NUMBERS, value // 2, value * 2, value + 1, value - 1))


def _argument(tree: dict[str, Any], chance: random.Random) -> None:
    """The arguments of one launch are fewer, more, in another order or of another kind."""
    lists = [holder[key] for holder, key in _places(tree["targets"]) if key == "args" and holder[key]]
    if not lists:
        return _number(tree, chance)
    args = chance.choice(lists)
    place, other = chance.randrange(len(args)), chance.randrange(len(args))
    changes: tuple[Callable[[], object], ...] = (
        lambda: args.pop(place),
        args.clear,
        lambda: args.insert(other, copy.deepcopy(args[place])),
        lambda: args.__setitem__(slice(None), args[::-1]),
        lambda: args.__setitem__(place, copy.deepcopy(args[other])),
        lambda: args.__setitem__(place, ["formula", chance.choice((*_NUMBERS, "M", "N"))]),
    )
    chance.choice(changes)()
    return None


def _formula(tree: dict[str, Any], chance: random.Random) -> None:
    """A formula or a shape is another one of the plan."""
    keys = ("bytes", "shape", "strides", "grid", "views", "guard", "shared_bytes", "block", "fid", "inputs")
    key = chance.choice(keys)
    places = [(holder, found) for holder, found in _places(tree) if found == key]
    if not places:
        return _number(tree, chance)
    holder, found = chance.choice(places)
    other, same = chance.choice(places)
    holder[found] = copy.deepcopy(other[same])
    return None


class Ended(NamedTuple):
    """How plan ``number`` ends in a child of its own; one that is ``harmed`` died only of what an earlier plan, of the
    same child, had written over."""

    number: int
    end: str
    harmed: bool = False


def run(seeds: Sequence[Seed], numbers: Sequence[int]) -> Iterator[Ended]:
    """How each of the plans ``numbers`` ends, in order. One child takes as many as it can, up to ``BATCH``. Where one
    dies, its last plan is run again alone, and another child goes on with the plan after."""
    done = 0
    while done < len(numbers):
        batch = numbers[done : done + BATCH]
        *ends, last = _batch(seeds, batch)
        yield from map(Ended, batch, ends)
        number = batch[len(ends)]
        (alone,) = _batch(seeds, [number]) if last == CRASHED else (last,)
        yield Ended(number, alone, alone != last)
        done += len(ends) + 1


def _batch(seeds: Sequence[Seed], batch: Sequence[int]) -> list[str]:
    """How the plans of ``batch`` end, up to the first that ends the child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for number in batch:
            os.write(writing, bytes([_end(seeds[number % len(seeds)], number)]))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        ends = [ENDS[code] for code in pipe.read()]
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        ends.append(HUNG if os.WTERMSIG(status) == signal.SIGALRM else CRASHED)
    elif len(ends) < len(batch):
        ends.append(CRASHED)
    return ends


def _end(start: Seed, number: int) -> int:
    """What of ``ENDS`` opening, loading and calling plan ``number`` comes to."""
    signal.alarm(SECONDS)
    try:
        artifact = decode_artifact(changed(start.members, random.Random(number)), Path("fuzzed.fuse"))
        found = results(artifact, arguments(start.artifact.plan))
    except (ArtifactError, ValueError, TypeError, MemoryError):
        return ENDS.index(REFUSED)
    except RuntimeError as error:
        return ENDS.index(MISUSED if "a thread did what no GPU allows" in str(error) else UNTYPED)
    except BaseException:
        return ENDS.index(UNTYPED)
    finally:
        signal.alarm(0)
    return ENDS.index(SAME if found == start.expected else OTHER)


def places(start: Seed, number: int) -> list[str]:
    """The names of all that differs in plan ``number``, sorted: a guard, a grid, the arguments."""
    before = json.loads(start.members[PLAN])
    after = json.loads(stored_zip.decode(changed(start.members, random.Random(number)))[PLAN])
    return sorted(set(_differing(before, after, "plan")))


def _differing(before: Any, after: Any, name: str) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _differing(before.get(key), after.get(key), name if key.lstrip("-").isdigit() else key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for first, second in zip(before, after, strict=True):
            yield from _differing(first, second, name)
    else:
        yield name


def described(start: Seed, data: bytes) -> list[str]:
    """What is different in the plan of the artifact ``data``, line by line."""
    import difflib

    before = start.members[PLAN].decode().splitlines()
    after = stored_zip.decode(data)[PLAN].decode().splitlines()
    return [
        line for line in difflib.unified_diff(before, after, n=0, lineterm="") if line[:2] not in ("--", "++", "@@")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """How many plans ended how, the numbers of those that are bugs, and what was changed in each that was not refused
    and did not give the same. Before each plan that was ``harmed`` there is one that wrote where it must not, and that
    no page stopped."""

    ends: Counter[str]
    bugs: list[tuple[str, int]]
    places: Counter[str]
    harmed: list[int]


def campaign(folder: Path, count: int, first: int = 0) -> Campaign:
    """How the plans ``first`` to ``first + count`` end."""
    use_guarded_memory()
    seeds = [seed(path) for path in sorted(folder.glob("*.fuse"))]
    if not seeds:
        raise SystemExit(f"{folder}: there are no artifacts")
    found = Campaign(ends=Counter(), bugs=[], places=Counter(), harmed=[])
    for number, end, harmed in run(seeds, range(first, first + count)):
        found.ends[end] += 1
        if harmed:
            found.harmed.append(number)
        if end in BUGS:
            found.bugs.append((end, number))
        if end not in (REFUSED, SAME):
            found.places[f"{end}: {' '.join(places(seeds[number % len(seeds)], number))}"] += 1
    return found


def main() -> None:
    folder, count, *first = sys.argv[1:]
    found = campaign(Path(folder), int(count), int(first[0]) if first else 0)
    print(json.dumps({"ends": found.ends, "places": dict(found.places.most_common()), "bugs": found.bugs,
                      "harmed": found.harmed}))  # fmt: skip


if __name__ == "__main__":
    main()
