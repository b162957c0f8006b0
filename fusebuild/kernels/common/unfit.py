"""Why a family makes no kernel of a task, while it finds out whether it can."""

from __future__ import annotations


class UnfitError(Exception):
    """The message says why a family does not take a task; ``fid`` is a value whose expr is to blame, None where it is
    the task as a whole."""

    def __init__(self, message: str, fid: int | None = None) -> None:
        super().__init__(message)
        self.fid = fid
