"""How many blocks share a reduction: what is left for each multiprocessor, one where the others are enough."""

from __future__ import annotations

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, simplified

WAVES = 4
"""Turns of all multiprocessors that blocks shall take which do not fit one: the last may have few."""
TURNS_ALONE = 3
"""Turns of a block up to which it takes them all, and no other shares its reduction: that takes a second kernel."""


def turns_of(elements: Formula, turn: Formula) -> Formula:
    """The turns that so many ``elements`` are, of blocks that share them; none where one takes them all."""
    return ("mul", ("gt", elements, product([TURNS_ALONE, turn])), ("ceil_div", elements, turn))


def splits_of(tiles: Formula, largest: Formula, most: Formula, blocks: int) -> Formula:
    """How many blocks share one of ``tiles``, at most ``most``: so many that each multiprocessor has ``blocks``. Where
    the ``largest`` that blocks can have are more, the last ones would run with few others, so that each is shared."""
    most = simplified(most)
    if isinstance(most, int) and most <= 1:
        return 1
    room: Formula = ("mul", blocks, MULTIPROCESSORS)
    wanted: Formula = ("max", ("floor_div", room, ("max", 1, tiles)), ("mul", WAVES, ("gt", largest, room)))
    return simplified(("max", 1, ("min", most, wanted)))
