"""Results of a definition beside what they should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fusebuild.oracle.reference import bind_extents
from fusebuild.oracle.verification import trial_on

if TYPE_CHECKING:
    from fusebuild.definition.fusion_definition import FusionDefinition


def require_close(
    definition: FusionDefinition, completed: Sequence[Any], wanted: Sequence[Any] | None, device: Any
) -> tuple[Any, ...]:
    """What ``definition`` gives for all inputs of its Fusion, when that is near enough to what is ``wanted`` of the
    outputs that callers get, else to an evaluation in double precision. Raises ``AssertionError``."""
    import torch

    fusion = definition.fusion
    trial = None if wanted is not None else trial_on(fusion, bind_extents(fusion, completed), completed)
    results = definition._run(completed, device)
    if trial is not None:
        for output, found in zip(fusion.outputs, trial.compared(results), strict=True):
            if not found.ok:
                raise AssertionError(f"{fusion.name}: output {output.name}: {found.problem}")
        return results
    torch.testing.assert_close(definition._given_back(results), list(wanted or ()))
    return results
