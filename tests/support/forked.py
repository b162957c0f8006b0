"""What is said where CUDA is used after a fork."""

from __future__ import annotations

FORKED = (
    "ForkError: CUDA does not survive fork: this process was forked from one that had initialized it; "
    "start workers with spawn or forkserver, or use CUDA in them alone"
)
