"""A kernel's text tells every launch of it, and a plan that launches it otherwise is refused when it is opened."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from fusebuild.artifact import kernel_text, launch_text
from fusebuild.artifact.plan import FormulaArg, Plan
from fusebuild.artifact.plan_check import validate_plan
from fusebuild.pipeline import plan_recipe
from fusebuild.planning.planned import PlannedRecipe
from fusebuild.recipe.recipe import parse_recipe
from fusebuild.target.table import TARGETS
from support.changed_plans import with_slot, with_target
from support.places import ROOT, TESTS
from support.runtime_plans import scale_add_plan
from support.small_recipes import text_of

LAYERS = text_of(
    {f"x{number}": f"float[M{number}, N{number}]" for number in range(4)},
    "\n".join(f"y{number} = x{number} / sum(x{number}, dims=[1], keepdim=True)" for number in range(4)),
    {f"y{number}": "float" for number in range(4)},
    name="layers",
)
"""Segments of which the inner two share their kernels."""


@functools.cache
def planned(name: str, *targets: str) -> PlannedRecipe:
    files = [folder / f"{name}.yaml" for folder in (ROOT / "recipes", TESTS / "fusions")]
    text = LAYERS if name == "layers" else next(file for file in files if file.exists()).read_text()
    return plan_recipe(parse_recipe(text, f"{name}.yaml"), [TARGETS[target] for target in targets or ("host",)])


def texts_of(recipe: PlannedRecipe) -> Mapping[str, str]:
    return {name: kernel.text for kernels in recipe.kernels.values() for name, kernel in kernels.items()}


def refusal(name: str, change: Callable[[Plan], Plan]) -> str:
    """Why the plan of ``name`` is refused once it is changed."""
    recipe = planned(name)
    changed = change(recipe.plan)
    assert changed != recipe.plan
    assert validate_plan(changed) is None
    wrong = kernel_text.misused(changed, texts_of(recipe))
    assert wrong is not None
    return wrong.problem


def launching(variant: str, **changes: Any) -> Callable[[Plan], Plan]:
    """Changes the first launch of ``variant``."""

    def changed(each: Any) -> Any:
        if each.name != variant:
            return each
        first, *others = each.launches
        return msgspec.structs.replace(each, launches=(msgspec.structs.replace(first, **changes), *others))

    return each_variant(changed)


def each_variant(change: Callable[[Any], Any]) -> Callable[[Plan], Plan]:
    def changed(plan: Plan) -> Plan:
        segments = tuple(
            msgspec.structs.replace(segment, variants=tuple(map(change, segment.variants)))
            for segment in plan.targets[0].segments
        )
        return with_target(plan, segments=segments)

    return changed


def guarded_by(variant: str, *guard: Any) -> Callable[[Plan], Plan]:
    return each_variant(
        lambda each: msgspec.structs.replace(each, guard=guard) if each.name == variant else each,
    )


def scratch_of(number: int, size: Any) -> Callable[[Plan], Plan]:
    """Changes the bytes of slot ``number``."""
    return lambda plan: with_target(plan, workspace=tuple(
        msgspec.structs.replace(slot, bytes=size) if slot.id == number else slot for slot in plan.targets[0].workspace
    ))  # fmt: skip


def given(variant: str, number: int, arg: Any) -> Callable[[Plan], Plan]:
    """Changes argument ``number``, from 1, of the launches of ``variant``."""

    def changed(launch: Any) -> Any:
        return msgspec.structs.replace(launch, args=(*launch.args[: number - 1], arg, *launch.args[number:]))

    def each(own: Any) -> Any:
        return own if own.name != variant else msgspec.structs.replace(own, launches=tuple(map(changed, own.launches)))

    return each_variant(each)


def with_segment(plan: Plan, number: int, **changes: Any) -> Plan:
    segments = list(plan.targets[0].segments)
    segments[number] = msgspec.structs.replace(segments[number], **changes)
    return with_target(plan, segments=tuple(segments))


def launched_like_the_first(plan: Plan) -> Plan:
    """``plan`` whose second layer is launched with the sizes of the first, where each row has a block."""
    first, second = ({own.name: own for own in plan.targets[0].segments[number].variants} for number in (0, 1))
    variants = tuple(
        own if name != "registers_vec4_int32" else msgspec.structs.replace(own, launches=tuple(
            msgspec.structs.replace(launch, grid=other.grid)
            for launch, other in zip(own.launches, first[name].launches, strict=True)
        ))
        for name, own in second.items()
    )  # fmt: skip
    return with_segment(plan, 1, variants=variants)


def without_variant(name: str, segment: int = 0) -> Callable[[Plan], Plan]:
    return lambda plan: with_segment(plan, segment, variants=tuple(
        own for own in plan.targets[0].segments[segment].variants if own.name != name
    ))  # fmt: skip


def without_overlap(own: Any) -> Any:
    launches = (msgspec.structs.replace(launch, overlaps=msgspec.UNSET) for launch in own.launches)
    return msgspec.structs.replace(own, launches=tuple(launches))


def variants_backwards(plan: Plan) -> Plan:
    """``plan`` whose variants are tried in another order, but for the last."""
    *others, last = plan.targets[0].segments[0].variants
    return with_segment(plan, 0, variants=(*others[::-1], last))


TILED = "segment 0, tiled_vec8_int32 on host"
ARE_FEW = "(M <= 512*gpu.multiprocessors)*(2 <= N)*(N <= 512)*(ceil_div(M*N, 1024*gpu.multiprocessors) <= 6)"
_THREADS = " + ".join(
    f"{f'{1 << power}*' if power else ''}max(({2 << power}*M <= 768*gpu.multiprocessors*(({2 << power} < N) + 1))"
    f"*({1 << power} < N), {16 << power} < N)"
    for power in range(5)
).join(("(", " + 1)"))
_ALONE = "(N <= 1)"
ALONE_ROWS = f"{_ALONE}*(7*(1536*gpu.multiprocessors < M) + 1)"
SHIFT = "(18 < N) + (36 < N) + (72 < N) + (144 < N) + (288 < N)"
_ROWS = (
    "(128*(0 < N) - 64*(18 < N) - 32*(36 < N) - 16*(72 < N) - 8*(144 < N) - 4*(288 < N) + "
    "(384*gpu.multiprocessors < M)*(32*(36 < N) + 16*(72 < N) - 48*(144 < N)))"
)
GIVEN = (
    f"given grad_y, y, grad_x, M, N, {ARE_FEW}*{_THREADS}, {{}}, {{}}, {_ROWS}*(-1022*(N <= 144) + 1023), {ALONE_ROWS}"
)
_HELD = "32768 // (4*N)"
_NARROW = f"128*(N <= 7)*ceil_div(M, 98304*max(1, ceil_div(M, 768*max(1, {_HELD}))))"
_LARGE = f"max({_ROWS[1:-1]}, (16384*((N <= 144) + 1)) // (4*N))"
_TURNS = f"max(1, ceil_div(M, 6*gpu.multiprocessors*{_LARGE}))"
_SPREAD = f"{_ROWS}*ceil_div(M, 6*gpu.multiprocessors*{_ROWS}*{_TURNS})"
_TILE = f"(-{_ALONE} + 1)*{_ROWS}*max(1, min({_HELD}, max(M // 2048, {_NARROW}, {_SPREAD})) // {_ROWS})"
TILE = f"128*{ALONE_ROWS} + {_TILE}"
TILES = f"grid {ARE_FEW}*ceil_div(M*{_THREADS}, 128) + (-{ARE_FEW} + 1)*ceil_div(M, {{}}), 1, 1"
ALIGNED = "aligned(grad_y, 16), aligned(y, 16), aligned(grad_x, 16)"
WANTED = "max((8*gpu.multiprocessors) // max(1, M), 4*(M > 8*gpu.multiprocessors))"


def _apart(turn: int) -> str:
    """The blocks that share a row and do not run together, where a block has so many elements in a turn."""
    return f"max(1, min((N > {3 * turn})*ceil_div(N, {turn}), {WANTED}))"


IS_TOGETHER = "(M <= 64)*(N > 16384)*(N <= 131072)*(M*N <= 4194304)"
TOGETHER, SPLITS = f"7*{IS_TOGETHER} + 1", f"8*{IS_TOGETHER} + {_apart(8192)}*({IS_TOGETHER} == 0)"
SCRATCH = f"max({{0}}*{_apart(8192)}*M, {{0}}*{_apart(1024)}*M) bytes"
FEW = "N*(3*(M*N <= 2048*gpu.multiprocessors) + 1)"
SHARED = (
    "given x, place, log_sum, largest, there, "
    f"{', '.join(f'slot {slot} of {SCRATCH.format(4)}' for slot in range(3))}, slot 3 of {{}}, "
    f"slot 4 of {SCRATCH.format(4)}, M, N, ({FEW} > 24) + ({FEW} > 64) + ({FEW} > 128*((M >= 16384) + 1)) + "
    f"({FEW} > 512*((M >= 16384) + 1)) + ({FEW} > 1024*((M >= 16384) + 1)) + ({FEW} > 2048) + ({FEW} > 4096), "
    f"(N == 8)*min(8, M // (1024*gpu.multiprocessors)), {TOGETHER}, {SPLITS}"
)
STRIDES = (
    "given x, cos, sin, y, x, x, D - (D // 2), B, S, H, D, {}, H*D, D, D // 2, D - (D // 2), S*H*D, H*D, D, "
    "-1*(D - (D // 2)), D - (D // 2), D"
)
OTHERWISE: dict[str, tuple[str, Callable[[Plan], Plan], str]] = {
    "a grid": (
        "softmax_backward", launching("short_vec8_int32", grid=("M", 1, 1)),
        "segment 0, short_vec8_int32 on host: the plan says grid M, 1, 1, "
        "where its text says grid ceil_div(M, -64*(8 < N) - 32*(16 < N) "
        "- 16*(32*(3*(64*gpu.multiprocessors < M) + 1) < N) "
        "- 8*(64*(3*(64*gpu.multiprocessors < M) + 1) < N) "
        "- 4*(128*(3*(64*gpu.multiprocessors < M) + 1) < N) + 128), 1, 1",
    ),
    "a block of as many threads": (
        "rope", launching("rows_vec8_int32", block=(8, 16, 1)),
        "segment 0, rows_vec8_int32 on host: the plan says block 8, 16, 1, where its text says block 128, 1, 1",
    ),
    "less shared memory": (
        "inner_outer_shared", launching("shared_vec8_int32", shared_bytes=["mul", 2, "N"]),
        "segment 0, shared_vec8_int32 1 of 2 on host: the plan says shared 2*N bytes, "
        "where its text says shared 4*N bytes",
    ),
    "no shared memory": (
        "inner_outer_shared", launching("shared_vec8_int32", shared_bytes=0),
        "segment 0, shared_vec8_int32 1 of 2 on host: the plan says nothing of 'shared', "
        "where its text says shared 4*N bytes",
    ),
    "a guard": (
        "softmax_backward", guarded_by("edged8192_vec8_int32", ["lt", "N", 7]),
        "segment 0, edged8192_vec8_int32 on host: the plan says if N < 7, where its text says if N < 2146435072, "
        f"{ALIGNED}, 512 < (N + 384*(M <= 16384)), ((M <= 1) + 2*(M <= 0) + 1)*N <= 8207",
    ),
    "a guard for less": (
        "softmax_backward", guarded_by("short_vec8_int32", ["eq", ["mod", "N", 8], 0]),
        "segment 0, short_vec8_int32 on host: the plan says if (N % 8) == 0, where its text says if N < 2146435072, "
        f"(N % 8) == 0, {ALIGNED}, N <= 1024, (M <= 10)*N <= 256",
    ),
    "less scratch": (
        "batches_split", scratch_of(3, ["mul", 8, "M"]),
        f"segment 0, vec8_int32 1 of 2 on host: the plan says {SHARED.format('8*M bytes')}, "
        f"where its text says {SHARED.format(SCRATCH.format(8))}",
    ),
    "threads that share a row": (
        "softmax_backward", given("tiled_vec8_int32", 7, FormulaArg(7)),
        f"{TILED}: the plan says {GIVEN.format('7', TILE)}, where its text says {GIVEN.format(SHIFT, TILE)}",
    ),
    "a stride": (
        "rope", given("scalar_int64", 12, FormulaArg("S")),
        f"segment 0, scalar_int64 on host: the plan says {STRIDES.format('S')}, "
        f"where its text says {STRIDES.format('S*H*D')}",
    ),
    "rows of a tile": (
        "softmax_backward", given("tiled_vec8_int32", 8, FormulaArg("N")),
        f"{TILED}: the plan says {TILES.format(f'128*argument 10 + {_TILE}')}, "
        f"where its text says {TILES.format('argument 8')}",
    ),
    "no overlap": (
        "batches_split", each_variant(without_overlap),
        "segment 0, vec8_int32 1 of 2 on host: the plan says nothing of 'overlaps', "
        "where its text says overlaps what is before",
    ),
    "variants in another order": (
        "batches_split", variants_backwards,
        "the plan does not launch it in that order, which its text tells of",
    ),
    "sizes of another segment": (
        "layers", launched_like_the_first,
        "segment 1, registers_vec4_int32 on host: the plan says grid M0, 1, 1, where its text says grid M1, 1, 1",
    ),
    "a variant less": (
        "layers", without_variant("short_vec4_int32", 2),
        "the plan does not launch it in segment 2, short_vec4_int32 on host, which its text tells of",
    ),
}  # fmt: skip
"""What a plan may say of a launch that its kernel's text contradicts, and the words that refuse it."""


@pytest.mark.parametrize("wrong", OTHERWISE)
def test_a_launch_that_is_told_otherwise(wrong: str) -> None:
    name, change, words = OTHERWISE[wrong]
    assert refusal(name, change) == words


@pytest.mark.parametrize("name", ["softmax_backward", "batches_split", "rope", "layers", "adaln_backward", "mlp"])
def test_every_launch_is_told(name: str) -> None:
    recipe = planned(name, "sm_90", "host")
    texts = texts_of(recipe)
    assert kernel_text.misused(recipe.plan, texts) is None
    for kernel, told in launch_text.launches(recipe.plan).items():
        assert texts[kernel].count("\n// launch: ") == len(told)
        assert launch_text.problem(texts[kernel], told[1:])


def test_one_that_is_the_same_on_several_targets_is_told_once() -> None:
    plan = scale_add_plan()
    (own,) = plan.targets
    both = msgspec.structs.replace(plan, targets=(own, msgspec.structs.replace(own, target="host-asan")))
    assert launch_text.launches(both)["add_narrow"] == (
        "launch: segment 1, narrow on host, host-asan: grid ceil_div(M*N, 128), 1, 1; block 128, 1, 1; "
        "given z, t, y, M*N, which",
    )


def test_a_result_that_overwrites_what_its_kernel_still_reads() -> None:
    def in_place(plan: Plan) -> Plan:
        (output,) = plan.outputs
        return msgspec.structs.replace(plan, outputs=(msgspec.structs.replace(output, alias=plan.inputs[0]),))

    words = "host: segment 0: T21 overwrites an input, where the kernel takes memory of its own"
    assert refusal("rope", in_place) == words


def test_segments_that_share_a_kernel_are_told_one_by_one() -> None:
    told = launch_text.launches(planned("layers").plan)
    assert max(map(len, told.values())) == 8  # both sweeps of all four
    assert all(len({line.partition(": grid")[2] for line in lines}) == len(lines) for lines in told.values())


def test_values_of_one_name_are_told_apart() -> None:
    plan = scale_add_plan()
    alike = tuple(msgspec.structs.replace(value, name="t") if value.fid in (0, 4) else value for value in plan.values)
    (line,) = launch_text.launches(msgspec.structs.replace(plan, values=alike))["scale"]
    assert line == (
        "launch: segment 0, only on host: grid M, 1, 1; block 128, 1, 1; "
        "given t.4, t.0, M, N, stride(t.0, 0), stride(t.0, 1), alpha, bias, slot 1 of 4*N bytes"
    )


@pytest.mark.parametrize("text", ["", "x", "// of another time\n#include <a>\n", "// launch: nothing"])
def test_a_text_that_tells_of_no_launch_is_not_judged(text: str) -> None:
    assert launch_text.problem(text, ["launch: segment 0, only on host: grid 1, 1, 1"]) == ""


def test_a_slot_whose_bytes_are_not_those_of_its_tensor() -> None:
    for size, shown in ((("mul", 2, "M", "N"), "2*M*N"), ("M", "M"), (("mul", 4, "M", "N", "N"), "4*M*N*N"), (0, "0")):
        wrong = validate_plan(with_slot(scale_add_plan(), size))
        assert wrong == f"host: slot 0 has {shown} bytes, and 't' 4*M*N"
