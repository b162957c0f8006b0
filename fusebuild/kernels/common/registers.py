"""How many of a thread's registers are planned for what: a row of figures for each way to run a task.

What ptxas takes is known when it has run, and then it is too late: a kernel that was promised more blocks on a
multiprocessor than its registers allow spills. So families plan with figures of what it took of many kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.target.table import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Registers:
    """All figures are 32-bit registers of one thread, beside those for the elements that it keeps, which each way
    counts itself. A way leaves out what its kernels do not have."""

    most: int = 255
    """Registers that a thread may be planned to fill; no thread has more than 255."""

    least: int = 0
    """What is planned at least, however little the kernel does."""

    base: int = 0
    """Addresses, indices, numbers of the row and arithmetic."""

    per_tensor: int = 0
    """For each tensor that the kernel reads or writes."""

    per_axis: int = 0
    """For each axis whose coordinate is found by division."""

    per_source: int = 0
    """For each index op, which computes an address and tests it."""

    per_draw: int = 0
    """For four random numbers while they are drawn: a counter, a key, and the products of a round."""

    per_cut: int = 0
    """For each vector that is cut out of the aligned words around it, beside the vector itself."""

    per_lambda: int = 0
    """For the state and the temporaries of each reduction that combines with a lambda."""

    costly: int = 0
    """For ops of many instructions, such as ``exp``, where there are any."""

    before_sm_90: int = 0
    """What ptxas takes besides for targets without clusters."""

    from_sm_100: int = 0
    """What it takes besides from sm_100 on."""

    but_for_sm_90: int = 0
    """What it takes besides for every target but sm_90, where the other figures were measured."""

    def on(self, target: Target, *, at_hand: int = 0) -> int:
        """What a thread takes on ``target`` that has so many registers of elements ``at_hand``."""
        own = max(self.least, self.base + at_hand)
        own += self.before_sm_90 if target.cluster == 1 else 0
        own += self.from_sm_100 if target.compute_capability >= 100 else 0
        return own + (self.but_for_sm_90 if target.compute_capability != 90 else 0)


def resident_blocks(target: Target, threads: int, registers: int, most: int) -> int:
    """The blocks of ``threads`` with so many ``registers`` each that a multiprocessor of ``target`` has room for: one
    at least, and no more than ``most``."""
    return max(1, min(most, target.registers // (threads * registers)))
