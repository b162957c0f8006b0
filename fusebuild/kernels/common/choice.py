"""What a family may as well decide otherwise: its choices as values, and choices that are given to it.

A family *proposes* a choice for each way to run a task, from sizes alone; whoever measures may give it another one. A
way is named as its variants are, without what the choice adds to the name. Each family says what it can make kernels
of, and that is all that is asked of a choice that is given: whether it is fast is for clocks to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import ClassVar, Self, TypeAlias, TypeVar

from fusebuild.errors import KnobError, nearest

Knobs: TypeAlias = Mapping[str, int]
"""A choice as names and numbers; those of a knob that is on or off are bools."""

Tuned: TypeAlias = Mapping[str, Knobs]
"""The choices that are given to a family, by way."""

NOT_TUNED: Tuned = MappingProxyType({})

Checked = TypeVar("Checked", bound="Choice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The base of what families choose. Each field is a **knob**: a positive number, or whether something is done.

    Where a kernel's registers run out, ``FEWER`` are the knobs that help halved or off and ``MORE`` those that help
    doubled: a thread then has less to hold, or more registers to hold it in. Both are in the order in which they are
    tried.
    """

    FEWER: ClassVar[tuple[str, ...]] = ()
    MORE: ClassVar[tuple[str, ...]] = ()

    @property
    def knobs(self) -> Knobs:
        """The knobs in the order in which the family declares them."""
        return {knob.name: getattr(self, knob.name) for knob in fields(self)}

    def stepped(self, knob: str, value: int) -> Self:
        """This with ``knob`` at ``value``. A family overrides it where other knobs follow."""
        return replace(self, **{knob: value})

    def steps(self) -> Iterator[Self]:
        """Everything that one step of one knob leads to, twice as much or half, whether or not a kernel can be made of
        it."""
        for knob, value in self.knobs.items():
            others = (not value,) if isinstance(value, bool) else (2 * value, value // 2)
            for other in others:
                if other or isinstance(value, bool):
                    yield self.stepped(knob, other)

    def eased(self) -> Iterator[Self]:
        """What to take instead where registers ran out, the nearest first, whether or not a kernel can be made of it:
        threads with the registers of fewer blocks, then such that hold less."""
        roomy = self
        while (blocks := roomy.knobs.get("min_blocks", 1)) > 1:
            roomy = roomy.stepped("min_blocks", blocks // 2)
            yield roomy
        for knob in self.FEWER:
            if roomy.knobs[knob] is True:
                roomy = roomy.stepped(knob, False)
                yield roomy
        for knob in self.MORE:
            for factor in (2, 4):
                yield _with_one_block(roomy.stepped(knob, roomy.knobs[knob] * factor))
        for knob in self.FEWER:
            value = roomy.knobs[knob]
            for divisor in (2, 4, 8):
                if value >= divisor:
                    yield _with_one_block(roomy.stepped(knob, value // divisor))

    @staticmethod
    def require(condition: bool, knob: str, message: str) -> None:
        """Raise :class:`KnobError` unless ``condition`` holds."""
        if not condition:
            raise KnobError(knob, message)

    def require_power_of_two(self, knob: str, least: int, most: int) -> None:
        """Raise :class:`KnobError` unless ``knob`` is a power of two from ``least`` to ``most``."""
        value = self.knobs[knob]
        is_one = least <= value <= most and value & (value - 1) == 0
        self.require(is_one, knob, f"it is {value}, no power of two from {least} to {most}")

    def require_at_most(self, knob: str, most: int, why: str) -> None:
        """Raise :class:`KnobError` where ``knob`` is above ``most``; ``why`` says what allows no more."""
        value = self.knobs[knob]
        self.require(value <= most, knob, f"it is {value}, but {why}")

    def require_blocks(self, knob: str, threads: int, most: int) -> None:
        """Raise :class:`KnobError` where so many blocks of ``threads`` are more than the ``most`` threads of a
        multiprocessor."""
        blocks = self.knobs[knob]
        message = f"{blocks} blocks of {threads} threads are more than the {most} threads of a multiprocessor"
        self.require(blocks * threads <= most, knob, message)

    def require_block(self, knob: str, threads: int, most: int = 1024) -> None:
        """Raise :class:`KnobError` unless a block of ``threads`` is whole warps and at most ``most``."""
        self.require(threads <= most, knob, f"a block would have {threads} threads, at most {most}")
        message = f"a block would have {threads} threads, no whole number of warps"
        self.require(threads % 32 == 0, knob, message)


def _with_one_block(choice: Checked) -> Checked:
    """``choice`` where a multiprocessor shall have the registers of one block, and need not of more."""
    return choice.stepped("min_blocks", 1) if choice.knobs.get("min_blocks", 1) > 1 else choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The choice for one way to run a task; ``tuned`` where it was given and is not the family's own, ``eased`` where
    it was because registers had run out."""

    way: str
    choice: Choice
    tuned: bool = False
    eased: bool = False


def decide(way: str, proposal: Checked, tuned: Tuned, check: Callable[[Checked], None]) -> Checked:
    """The choice that ``tuned`` gives for ``way``, else the ``proposal``.

    Raises :class:`KnobError` for knobs that the family does not have, for one that is absent, for what is no value of
    its kind, and whatever ``check`` raises for a choice that no kernel can be made with.
    """
    if way not in tuned:
        return proposal
    own, given = proposal.knobs, tuned[way]
    for knob in given:
        if knob not in own:
            hint = nearest(knob, own) or f"its knobs are {', '.join(own) or 'none'}"
            raise KnobError(knob, f"{way} has no such knob; {hint}")
    for knob, value in own.items():
        if knob not in given:
            raise KnobError(knob, f"{way} needs a value for it")
        if isinstance(given[knob], bool) != isinstance(value, bool):
            raise KnobError(knob, f"it is {'true or false' if isinstance(value, bool) else 'a number'}")
        if not isinstance(value, bool) and given[knob] < 1:
            raise KnobError(knob, f"it is {given[knob]}, but at least 1")
    choice = replace(proposal, **given)
    check(choice)
    return choice


def decision(way: str, choice: Choice, tuned: Tuned) -> Decision:
    """``choice`` as what was decided for ``way``."""
    return Decision(way=way, choice=choice, tuned=way in tuned)


def fewer_blocks(blocks: int, threads: int, others: int) -> int:
    """``blocks`` of ``threads`` as blocks of ``others``: no more threads than before, at least one block."""
    return max(1, min(blocks, blocks * threads // others))
