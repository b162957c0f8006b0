"""The definition in NVIDIA/Fuser issue 2473, at sizes of a test's own."""

from __future__ import annotations

import itertools
import re
from typing import Any

from fusebuild import FusionDefinition
from support.places import TESTS

SEED_003 = TESTS / "scripts" / "seed_003.py"
"""The script in that issue, byte for byte."""

_SIZE = re.compile(r"define_scalar\((\d+), dtype=DataType.Int\)")


def nvfuser_fusion_id1(fd: FusionDefinition, batch: int = 56, length: int = 1024, width: int = 1024) -> None:
    """Record what the script does. All its whole numbers are sizes, three by three: of ``batch``, ``length`` and
    ``width`` each, or 1."""
    sizes = itertools.cycle((batch, length, width))

    def sized(found: re.Match[str]) -> str:
        size = next(sizes)
        return found[0] if found[1] == "1" else f"define_scalar({size}, dtype=DataType.Int)"

    definition, _, _ = SEED_003.read_text().partition("\nwith FusionDefinition()")
    imports_us = definition.replace("import torch\n", "\n").replace("from nvfuser", "from fusebuild")
    names: dict[str, Any] = {}
    exec(compile(_SIZE.sub(sized, imports_us), SEED_003, "exec"), names)
    names["nvfuser_fusion_id1"](fd)
