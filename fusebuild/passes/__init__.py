"""The passes, in order: each a pure function from a valid Fusion to a valid Fusion that computes the same.

Adding a pass means adding a file here and a line to :data:`PASSES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from fusebuild.errors import InvalidFusionError
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.verify import verify
from fusebuild.passes.alias_outputs import alias_outputs
from fusebuild.passes.cast_chains import cast_chains
from fusebuild.passes.common_subexpressions import common_subexpressions
from fusebuild.passes.dead_code import dead_code
from fusebuild.passes.decompose import decompose
from fusebuild.passes.fold_constants import fold_constants
from fusebuild.passes.index_reads import index_reads
from fusebuild.passes.own_coordinates import own_coordinates
from fusebuild.passes.shared_folds import shared_folds
from fusebuild.passes.short_reductions import short_reductions
from fusebuild.passes.sink_reshapes import sink_reshapes
from fusebuild.passes.views import views

Pass: TypeAlias = "Callable[[Fusion], Fusion]"
"""A rewriting of Fusions, called by its function's name: deterministic, idempotent, and near-linear in the exprs."""

PASSES: tuple[Pass, ...] = (
    dead_code,
    decompose,
    fold_constants,
    cast_chains,
    short_reductions,
    views,
    sink_reshapes,
    index_reads,
    common_subexpressions,
    shared_folds,
    own_coordinates,
    dead_code,
    alias_outputs,
)
"""Every pass, in order. ``alias_outputs`` comes last: a pass that drops a copy of an aliased input makes new readers of
it, and code that is dead must not count as one."""


def run_passes(fusion: Fusion, on_pass: Callable[[str, Fusion], None] | None = None) -> Fusion:
    """``fusion`` after every pass. ``on_pass`` sees the name of each pass with its result, to dump it.

    Raises :class:`InvalidFusionError` naming the pass that broke an invariant.
    """
    verify(fusion)
    for each in PASSES:
        fusion = each(fusion)
        try:
            verify(fusion)
        except InvalidFusionError as error:
            raise InvalidFusionError(f"after pass {each.__name__}: {error}") from error
        if on_pass is not None:
            on_pass(each.__name__, fusion)
    return fusion
