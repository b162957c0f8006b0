"""Names of GPU architectures, as nvcc has them, and which devices run code for them.

Code for ``sm_90`` runs on devices of the same major version and the same or a higher minor one, as does code for
``sm_100f``, which may use what its family alone has. Code for ``sm_90a`` runs on devices of exactly that version.

    CUDA C++ Programming Guide, "Compute Capabilities", "Feature Set Compiler Targets".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(r"sm_([0-9]+)([af]?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """``capability`` is 90 for compute capability 9.0. ``features`` is empty, or what the name ends in: ``f`` for those
    of the family, ``a`` for those of this architecture alone."""

    capability: int
    features: str

    @property
    def rank(self) -> tuple[int, int]:
        """The greater it is, the more the code may use of a device that runs it."""
        return self.capability, ("", "f", "a").index(self.features)

    def runs_on(self, capability: int) -> bool:
        """Whether devices of ``capability`` run code for this architecture."""
        if self.features == "a":
            return capability == self.capability
        return capability // 10 == self.capability // 10 and capability >= self.capability


def architecture_of(name: str) -> Architecture | None:
    """The architecture that is called ``name``; None for what is no GPU's."""
    match = _NAME.fullmatch(name)
    return None if match is None else Architecture(capability=int(match[1]), features=match[2])
