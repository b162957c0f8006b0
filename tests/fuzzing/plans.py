"""Plans of host artifacts that contradict themselves, run with all their memory between pages that nobody may touch.

``PYTHONPATH=tests python -m fuzzing.plans FOLDER COUNT [FIRST]`` changes plans of the artifacts in FOLDER, seals and
opens them, and calls what opens in forked children. A call ends in a typed error, in the same results, in other
results, or it is a crash or takes more than five seconds. It prints how many did which, what was changed, and the
number of each crash, which :func:`described` tells again. Inputs are made, and results are allocated, by the allocator
that ``tvm_ffi`` lets any caller bring, so the executor has no switch for this.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from fusebuild.artifact import stored_zip
from fusebuild.artifact.file import PLAN, RECIPE, Artifact, decode_artifact
from fusebuild.errors import ArtifactError
from fusebuild.ir.formula import evaluate, product
from fusebuild.recipe.recipe import parse_recipe
from fusebuild.runtime.loader import load_artifact
from fuzzing import artifacts, guarded

SIZES = (5, 6, 7, 9)
SECONDS = 5
BATCH = 200
"""How many plans one child runs: what they take of memory is never given back."""
REFUSED, SAME, OTHER, MISUSED, UNTYPED, CRASHED, HUNG = ENDS = (
    "refused", "same", "other", "misused", "untyped", "crashed", "hung"
)  # fmt: skip
"""A plan that is ``misused`` had a kernel do what no GPU allows, which the host layer noticed."""
BUGS = (CRASHED, HUNG, UNTYPED)
LARGEST = 4096
"""Elements of the largest input of a call."""
_NUMBERS = (0, 1, -1, 2, 7, 2**31, 2**62, 2**63 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """An artifact to start from, and what its plan computes."""

    artifact: Artifact
    members: dict[str, bytes]
    sizes: dict[str, int]
    expected: list[bytes]


def sizes_of(artifact: Artifact) -> dict[str, int]:
    """Sizes that the plan takes: the largest of the recipe's cases that are small and where every dim has elements and
    more than one, else a few that differ."""
    fusion = parse_recipe(artifact.members[RECIPE].decode(), RECIPE).fusion
    symbols = sorted({extent.extent for extent in artifact.plan.extents if isinstance(extent.extent, str)})
    shapes = [fusion.value(fid).tensor.shape for fid in fusion.inputs if fusion.value(fid).is_tensor]
    cases = [dict(case) for case in fusion.cases if all(case.get(symbol, 0) > 1 for symbol in symbols)]
    elements = [max((evaluate(product(shape), case) for shape in shapes), default=0) for case in cases]
    small = [each for each in zip(elements, cases, strict=True) if each[0] <= LARGEST]
    multiples = {fact.symbol: fact.multiple_of for fact in artifact.plan.facts}
    differ = {name: size * multiples.get(name, 1) for name, size in zip(symbols, itertools.cycle(SIZES), strict=False)}
    return max(small, key=lambda each: each[0])[1] if small else differ


def arguments(start: Seed) -> list[Any]:
    """One argument for each input of the plan of ``start``, the same ones each time."""
    plan = start.artifact.plan
    return [guarded.argument(plan.value(fid), start.sizes) for fid in plan.inputs]


def results(artifact: Artifact, given: Sequence[Any]) -> list[bytes]:
    """The bytes of what the plan computes; raises what loading or the call does."""
    made = load_artifact(artifact, target="host")(*given)
    return [guarded.bytes_of(item) for item in (made if isinstance(made, tuple) else (made,))]


def seed(path: Path) -> Seed:
    """The artifact at ``path``."""
    artifact = decode_artifact(path.read_bytes(), path)
    start = Seed(artifact=artifact, members=dict(artifact.members), sizes=sizes_of(artifact), expected=[])
    return replace(start, expected=results(artifact, arguments(start)))


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
        found = results(artifact, arguments(start))
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
    guarded.use()
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
