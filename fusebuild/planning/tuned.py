"""Choices that were measured: ``NAME.tuned.json`` beside a recipe, which ``fusebuild tune`` writes and planning reads.

An entry holds for one segment, one *bucket* of sizes, one architecture with so many multiprocessors, and one compiler.
A bucket has for each symbol of the segment the floor of its size's base-2 logarithm (0 for 0): sizes within a factor of
two share one. Heuristics see sizes of the first case, or sizes that the recipe names; the entry whose bucket holds them
replaces what they would choose for one variant.

A key that fits nothing any more is no mistake: the recipe, the compiler or the machine is another. The heuristics then
decide, and a warning says so. A choice that no kernel can be made with was not measured: that is an error.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from json import JSONDecoder
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, TypeAlias

import msgspec

from fusebuild.artifact.plan import Versioned
from fusebuild.build.toolchain import Toolchain
from fusebuild.errors import Diagnostic, KnobError, SourceLocation, TunedError, one_line
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.text import print_fusion
from fusebuild.kernels.common.choice import NOT_TUNED, Knobs, Tuned
from fusebuild.kernels.common.spec import DEFAULT_EXTENT, VariantSpec
from fusebuild.kernels.common.specialization import hinted_sizes, named_sizes, used_symbols
from fusebuild.segmentation import Segment, SegmentedFusion
from fusebuild.segmentation.acceptance import overwritten_inputs, signature
from fusebuild.system.regular_file import file_bytes
from fusebuild.target.table import TARGETS, Target

FORMAT_VERSION = 1

logger = logging.getLogger(__name__)

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Hex: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]+$")]
_Milliseconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
_Knobs: TypeAlias = dict[str, bool | int]


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was measured for one variant of a segment. The key: ``segment``, a digest of what it computes; ``bucket``;
    ``arch``, a target; its ``multiprocessors``; ``toolchain``, the digest of the versions that compiled.

    ``knobs`` is what won, ``heuristic`` what it won against; ``milliseconds`` and ``heuristic_milliseconds`` are
    medians, measured in turns on ``device``. Those four are for people: nothing is planned from them.
    """

    segment: _Hex
    bucket: dict[str, _Count]
    arch: str
    multiprocessors: _Count
    toolchain: _Hex
    variant: str
    knobs: _Knobs
    heuristic: _Knobs
    milliseconds: _Milliseconds
    heuristic_milliseconds: _Milliseconds
    device: str

    @property
    def key(self) -> tuple[object, ...]:
        """What no two entries of a file share, in the order of the file."""
        return (self.arch, self.multiprocessors, *self.choice_key, self.variant)

    @property
    def choice_key(self) -> ChoiceKey:
        """The segment and the bucket."""
        return self.segment, tuple(sorted(self.bucket.items()))


class TunedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole ``NAME.tuned.json``: its format, the fusion that it belongs to, and entries by key."""

    format: int
    fusion: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedKernels:
    """A file that was read. ``path`` is the name that messages show."""

    path: str
    text: str
    entries: tuple[Entry, ...]

    @property
    def digest(self) -> str:
        """What tells whether the file changed."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def place(self, *steps: str | int) -> SourceLocation:
        """Where the value at ``steps``, keys and indices, begins."""
        return _place(self.path, self.text, steps)


ChoiceKey: TypeAlias = "tuple[str, tuple[tuple[str, int], ...]]"
"""The digest of a segment, and a bucket of sizes."""

ChoicesByKey: TypeAlias = Mapping[ChoiceKey, Tuned]
"""The choices for the segments of one plan."""

NO_CHOICES: ChoicesByKey = MappingProxyType({})
"""The heuristics decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Sizes for which a segment is scheduled: those of the first case, but for the ones that the recipe ``named``."""

    segment: Segment
    named: Mapping[str, int]

    @property
    def sizes(self) -> dict[str, int]:
        return hinted_sizes(self.segment.scheduled, self.named)

    @property
    def key(self) -> ChoiceKey:
        return choice_key(self.segment.scheduled, self.sizes)

    def variants(self, target: Target, tuned: Tuned = NOT_TUNED) -> tuple[VariantSpec, ...]:
        """What the segment's family makes of it here. Raises :class:`KnobError`."""
        return self.segment.variants(target, self.sizes, tuned)


def encode_tuned(fusion: str, entries: Sequence[Entry]) -> str:
    """The text of a file: entries by key, keys of objects sorted, a line each."""
    in_order = tuple(sorted(entries, key=lambda entry: entry.key))
    file = TunedFile(format=FORMAT_VERSION, fusion=fusion, entries=in_order)
    return msgspec.json.format(msgspec.json.encode(file, order="sorted"), indent=2).decode() + "\n"


def read_tuned(path: Path, fusion: str) -> TunedKernels | None:
    """What the file at ``path`` says about ``fusion``; None where there is none.

    Raises :class:`TunedError` for a file that cannot be read, is of another format or fusion, has unknown fields, bad
    values, unknown targets, or two entries with one key.
    """
    if not os.path.lexists(path):
        return None
    shown = path.as_posix()
    start = SourceLocation(path=shown, line=1, column=1)
    try:
        data = file_bytes(path)
        text = data.decode("utf-8")
        if (found := msgspec.json.decode(text, type=Versioned).format) != FORMAT_VERSION:
            message = f"format {found} is not {FORMAT_VERSION}, which this fusebuild reads"
            raise TunedError.at(_place(shown, text, ["format"]), message, "tune again")
        file = msgspec.json.decode(text, type=TunedFile)
    except OSError as error:
        raise TunedError.at(start, f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        offset = len(data[: error.start].decode())
        place = _location(shown, data.decode(errors="replace"), offset)
        raise TunedError.at(place, f"it cannot be read: {error}") from None
    except msgspec.ValidationError as error:
        message, steps = _message_and_steps(str(error))
        raise TunedError.at(_place(shown, text, steps), one_line(message)) from None
    except msgspec.DecodeError as error:
        message, _, byte = str(error).partition(" (byte ")
        offset = len(text.encode()[: int(byte.rstrip(")"))].decode(errors="ignore")) if byte else 0
        raise TunedError.at(_location(shown, text, offset), f"it cannot be read: {message}") from None
    read = TunedKernels(path=shown, text=text, entries=file.entries)
    if problems := list(_problems(read, file, fusion)):
        raise TunedError(problems)
    return read


def _problems(read: TunedKernels, file: TunedFile, fusion: str) -> Iterator[Diagnostic]:
    """What msgspec does not see."""
    for key, offset in _repeated(read.text, _skip(read.text, 0)):
        message = one_line(f"duplicate key '{key}'")
        yield Diagnostic(location=_location(read.path, read.text, offset), message=message)
    if file.fusion != fusion:
        message = f"it is about '{file.fusion}', but the recipe beside it defines '{fusion}'"
        yield Diagnostic(location=read.place("fusion"), message=one_line(message))
    seen: dict[tuple[object, ...], int] = {}
    for index, entry in enumerate(file.entries):
        if entry.arch not in TARGETS:
            message = f"unknown target '{entry.arch}' (known: {', '.join(TARGETS)})"
            yield Diagnostic(location=read.place("entries", index, "arch"), message=one_line(message))
        key = (*entry.key, entry.toolchain)
        if seen.setdefault(key, index) != index:
            first = read.place("entries", seen[key])
            message = f"it has the same key as the entry of line {first.line}"
            yield Diagnostic(location=read.place("entries", index), message=message)


def _message_and_steps(error: str) -> tuple[str, tuple[str | int, ...]]:
    """What msgspec says is wrong, and where: ``Expected `int` - at `$.entries[0].format```. A ``[...]`` in the place
    stands for some key of a dict, and the dict is shown."""
    message, _, place = error.partition(" - at `$")
    field = re.fullmatch(r"Object contains unknown field `(.*)`", message)
    known = place.rstrip("`").partition("[...]")[0]
    steps = tuple(int(index) if index else name for index, name in re.findall(r"\[(\d+)\]|\.(\w+)", known))
    return message[0].lower() + message[1:], (*steps, field[1]) if field else steps


def _place(path: str, text: str, steps: Sequence[str | int]) -> SourceLocation:
    """Where the value at ``steps`` begins in the JSON ``text``, or as far as it has them."""
    offset = _skip(text, 0)
    for step in steps:
        found = next((value for key, _, value in _members(text, offset) if key == step), None)
        if found is None:
            break
        offset = found
    return _location(path, text, offset)


def _location(path: str, text: str, offset: int) -> SourceLocation:
    line, column = text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1
    return SourceLocation(path=path, line=line, column=column, text=text.split("\n")[line - 1])


def _repeated(text: str, offset: int) -> Iterator[tuple[object, int]]:
    """The keys that an object in the value at ``offset`` has had before, and where they stand."""
    seen: set[object] = set()
    for key, place, value in _members(text, offset):
        if key in seen:
            yield key, place
        seen.add(key)
        yield from _repeated(text, value)


def _members(text: str, offset: int) -> Iterator[tuple[object, int, int]]:
    """The members of the array or object at ``offset``: the key or index, where the member begins and where its value
    does."""
    decoder, opening = JSONDecoder(), text[offset : offset + 1]
    if opening not in ("{", "["):
        return
    offset = _skip(text, offset + 1)
    for index in count():
        if text[offset : offset + 1] in ("}", "]", ""):
            return
        key: object = index
        place = offset
        if opening == "{":
            key, offset = decoder.raw_decode(text, offset)
            offset = _skip(text, _skip(text, offset) + 1)
        yield key, place, offset
        _, offset = decoder.raw_decode(text, offset)
        offset = _skip(text, offset)
        offset = _skip(text, offset + 1) if text[offset : offset + 1] == "," else offset


def _skip(text: str, offset: int) -> int:
    """The next place that is no blank."""
    while text[offset : offset + 1].isspace():
        offset += 1
    return offset


def segment_digest(fusion: Fusion) -> str:
    """16 digits that name what the segment ``fusion`` computes and what its recipe promises of its sizes, whatever its
    values are called and wherever in a plan it stands."""
    symbols = used_symbols(fusion)
    nameless = replace(
        fusion,
        name="segment",
        values={fid: replace(value, name="") for fid, value in fusion.values.items()},
        outputs=tuple(replace(output, name="") for output in fusion.outputs),
    )
    promises = ((fact.symbol, fact.multiple_of, fact.min, fact.max) for fact in fusion.facts if fact.symbol in symbols)
    facts = sorted(promise for promise in promises if promise[1:] != (1, 0, None))
    return hashlib.sha256(f"{print_fusion(nameless)}{facts}".encode()).hexdigest()[:16]


def bucket_of(fusion: Fusion, sizes: Mapping[str, int]) -> dict[str, int]:
    """The bucket of ``sizes`` for the segment ``fusion``, by symbol, sorted."""
    return {
        symbol: max(1, sizes.get(symbol, DEFAULT_EXTENT)).bit_length() - 1 for symbol in sorted(used_symbols(fusion))
    }


def choice_key(fusion: Fusion, sizes: Mapping[str, int]) -> ChoiceKey:
    """The key of the segment ``fusion`` at ``sizes``."""
    return segment_digest(fusion), tuple(bucket_of(fusion, sizes).items())


def choices_at(choices: ChoicesByKey, fusion: Fusion, sizes: Mapping[str, int]) -> Tuned:
    """The ``choices`` for the segment ``fusion`` at ``sizes``."""
    return choices.get(choice_key(fusion, sizes), NOT_TUNED) if choices else NOT_TUNED


def points_of(segmented: SegmentedFusion) -> tuple[Point, ...]:
    """All :func:`points_at` which the segments are planned; of segments that are equal up to fids and names, those of
    the first. Members of a group, whose sizes differ, are not measured alone."""
    first: dict[object, Segment] = {}
    for segment in segmented.segments:
        if segment.member is not None:
            continue
        first.setdefault(signature(segment.scheduled.whole(), overwritten_inputs(segment.scheduled)), segment)
    return tuple(point for segment in first.values() for point in points_at(segment))


def points_at(segment: Segment) -> list[Point]:
    """The first case, then the sizes that the recipe names."""
    return [Point(segment=segment, named=named) for named in ({}, *named_sizes(segment.scheduled))]


def choices_for(
    tuned: TunedKernels | None, segmented: SegmentedFusion, target: Target, toolchain: Toolchain | None
) -> ChoicesByKey:
    """The choices of ``tuned`` that hold for ``segmented`` on ``target``; compilers are not compared where there is no
    ``toolchain``. Every other entry for the target is told of in a warning.

    Raises :class:`TunedError` for knobs that no kernel can be made with.
    """
    if tuned is None:
        return NO_CHOICES
    by_key: dict[ChoiceKey, dict[str, Knobs]] = {}
    own = [(index, entry) for index, entry in enumerate(tuned.entries) if entry.arch == target.name]
    if not own and tuned.entries:
        others = ", ".join(sorted({entry.arch for entry in tuned.entries}))
        logger.info("%s: it is tuned for %s; the heuristics decide for %s", one_line(tuned.path), others, target.name)
    points = points_of(segmented) if own else ()
    problems: list[Diagnostic] = []
    for index, entry in own:
        asked = [point for point in points if point.key == entry.choice_key]
        stale = _stale(entry, segmented.fusion.name, target, toolchain, points, asked)
        try:
            reason = stale or _unknown_variant(entry, target, asked)
        except KnobError as error:
            where = f"segment {asked[0].segment.id} ({entry.segment}), {entry.variant}"
            place = tuned.place("entries", index, "knobs", error.knob)
            problems.append(Diagnostic(location=place, message=one_line(f"{where}: {error}"), hint="tune again"))
            continue
        if reason:
            place = tuned.place("entries", index)
            unused = one_line(f"the tuned {entry.variant} is not used, the heuristics decide: {reason}")
            logger.warning("%s: %s", place, unused)
        else:
            by_key.setdefault(entry.choice_key, {})[entry.variant] = entry.knobs
    if problems:
        raise TunedError(problems)
    return by_key


def _stale(
    entry: Entry,
    fusion: str,
    target: Target,
    toolchain: Toolchain | None,
    points: Sequence[Point],
    asked: Sequence[Point],
) -> str:
    """Why the key of ``entry`` fits nothing; empty when it fits the points ``asked``."""
    if entry.multiprocessors != target.multiprocessors:
        measured, planned = entry.multiprocessors, target.multiprocessors
        return f"it was measured on {measured} multiprocessors, and {target.name} is planned for {planned}"
    if toolchain is not None and entry.toolchain != toolchain.digest_for(target):
        return "it was measured with another compiler"
    if not any(point.key[0] == entry.segment for point in points):
        return f"no segment of {fusion} is {entry.segment} now"
    if not asked:
        sizes = ", ".join(f"{symbol} from {2**power}" for symbol, power in sorted(entry.bucket.items()))
        return f"neither the first case nor a named size lies in its bucket ({sizes})"
    return ""


def _unknown_variant(entry: Entry, target: Target, asked: Sequence[Point]) -> str:
    """Why no schedule has the variant of ``entry``; empty when one does. Raises :class:`KnobError`."""
    given = {entry.variant: entry.knobs}
    ways = [
        variant.decision.way
        for point in asked
        for variant in point.variants(target, given)
        if variant.decision is not None
    ]
    if entry.variant in ways:
        return ""
    return f"segment {asked[0].segment.id} has no such variant, only {', '.join(dict.fromkeys(ways)) or 'none'}"
