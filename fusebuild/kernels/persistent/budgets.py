"""The registers that ways to keep rows on chip plan with, a row of figures for each; ptxas 13.0 on norms of many kinds.

:class:`fusebuild.kernels.common.registers.Registers` has what each figure means.
"""

from __future__ import annotations

from fusebuild.kernels.common.registers import Registers

IN_REGISTERS = Registers(most=128, base=16, before_sm_90=8)
"""Rows in registers. With more than ``most``, too few blocks hide each other's waits."""

CROSSING = Registers(base=24, per_tensor=8)
"""Short rows whose vectors cross from one piece of a row to the next; a tensor is what has one element a piece."""

SHORT_ROWS = Registers(base=14, per_tensor=6)
"""Short rows of whole vectors; a tensor is what the last sweep reads beside them."""

LAST_SWEEP = Registers(most=128, base=24)
"""The last sweep over such rows, where what it stores, the row's own values and its addresses are counted apart."""

ALL_AT_ONCE = Registers(base=28)
"""Rows in registers where a compiler moves all loads of a row before the first use."""

LONG_ROWS = Registers(most=128, least=32, per_axis=16, per_cut=4, per_lambda=8, from_sm_100=8)
"""Long rows that have blocks of their own; at hand is twice a vector of each tensor."""

WALKED_ROWS = Registers(most=128, least=32, base=16, costly=16, from_sm_100=8)
"""Long rows that blocks walk, which keep what all rows share in shared memory; at hand is twice a vector of each tensor
that does not stay there."""

TILED = Registers(base=17, per_tensor=5, per_axis=12, per_lambda=10)
"""Rows in tiles whose elements are taken one by one."""

EDGED_TILES = Registers(most=128, least=28, base=12, per_cut=4, per_lambda=16, but_for_sm_90=8)
"""Rows in tiles that are read by aligned vectors; at hand is a vector of each tensor."""

THREADED = Registers(most=168, base=32)
"""Rows that one thread each has. With more than ``most``, too few threads hide each other's waits."""
