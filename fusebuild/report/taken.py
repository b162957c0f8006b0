"""Which variant of a segment a call of some sizes takes, and the launches that it comes to.

Tensors count as aligned, as those that torch allocates are, and the device as one with the multiprocessors that the
target is planned for. The executor decides alike, by what it finds at the call (``runtime/native/resolve.cc``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from fusebuild.artifact.plan import FormulaJson, Launch, PlanSegment, Variant, as_formula
from fusebuild.ir.formula import INT64_MAX, MULTIPROCESSORS, evaluate


class TakenLaunch(Struct, frozen=True, kw_only=True):
    """A launch in numbers."""

    kernel: str
    grid: Annotated[tuple[int, int, int], Meta(description="blocks along x, y and z")]
    block: Annotated[tuple[int, int, int], Meta(description="threads along x, y and z")]
    shared_bytes: Annotated[int, Meta(description="bytes of dynamic shared memory a block")]

    def as_text(self) -> str:
        """``NAME: grid (132, 1, 1), block (256, 1, 1), 4,096 bytes shared``."""
        shared = f", {self.shared_bytes:,} bytes shared" if self.shared_bytes else ""
        return f"{self.kernel}: grid {self.grid}, block {self.block}{shared}"


class TakenVariant(Struct, frozen=True, kw_only=True):
    """The variant of a segment that runs; ``number`` is what ``variant=`` forces. It has no launches where a tensor is
    empty."""

    number: int
    name: str
    launches: tuple[TakenLaunch, ...]


def taken_variant(segment: PlanSegment, sizes: Mapping[str, int], multiprocessors: int) -> TakenVariant | None:
    """What of ``segment`` runs at the ``sizes`` of all symbols; None where it has no variants, or where formulas of a
    damaged plan come to no number."""
    known = {**sizes, MULTIPROCESSORS: multiprocessors}
    try:
        return next(
            (_at(number, each, known) for number, each in enumerate(segment.variants) if _fits(each, known)), None
        )
    except (ArithmeticError, KeyError):
        return None


def _fits(variant: Variant, sizes: Mapping[str, int]) -> bool:
    return all(_value(condition, sizes) for condition in variant.guard)


def _at(number: int, variant: Variant, sizes: Mapping[str, int]) -> TakenVariant:
    launches = [_launch(each, sizes) for each in variant.launches]
    return TakenVariant(
        number=number, name=variant.name, launches=tuple(each for each in launches if 0 not in each.grid)
    )


def _launch(launch: Launch, sizes: Mapping[str, int]) -> TakenLaunch:
    x, y, z = (_value(each, sizes) for each in launch.grid)
    shared_bytes = _value(launch.shared_bytes, sizes)
    return TakenLaunch(kernel=launch.kernel, grid=(x, y, z), block=launch.block, shared_bytes=shared_bytes)


def _value(formula: FormulaJson, sizes: Mapping[str, int]) -> int:
    value = evaluate(as_formula(formula), sizes, aligned=lambda fid, size: True)
    if abs(value) > INT64_MAX:
        raise OverflowError(f"{formula} exceeds 64 bits")
    return value
