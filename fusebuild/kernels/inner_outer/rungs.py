"""The lengths of rows that have a kernel of their own: each **rung** of a ladder is the longest row of one."""

from __future__ import annotations

RUNGS = (128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192, 16384, 32768, 131072)
"""Elements of the longest rows of a kernel of its own; where blocks cannot own so many, half of them. (H100, rmsnorm's
backward pass of 96 to 131072 columns: 0.80 to 0.97 of the bandwidth of a copy of 600 MB. Without the rungs of 3072 and
6144 there would be 0.83 of it where 0.95 are; rungs of 1536, 12288 and 24576 gain nothing.)"""
CLOSE = 3072
"""The one of them that is left out where a thread accumulates more than one sum for each column: it has so many
registers then that the next one is as fast. (H100, adaln's backward pass, 8 x 4096 x 3072: 231.7 us by it, 228.1 by the
next.)"""
ALONE = 12288
"""One more, of the longest rows that a block can own, where no blocks share rows."""
LONGER_THAN_TILED = 256
"""Elements of the longest rung that is left out where warps have tiles of the shorter rows. (H100, layernorm's backward
pass, 100000 rows: 0.21 of a copy's bandwidth with 301 columns and 0.34 with 500 on the rung of 1024.)"""
SINGLE_RUNGS = (64, 256, 512, 1024, 2048, 4096)
"""The same where threads load element by element. Longer ones take more registers than there are."""
LONGEST = RUNGS[-1] + 1
"""Elements of rows that are longer than those of all rungs."""
