"""Refinement: exprs move between neighbours while the predicted time falls and the schedulers still accept.

Moves are tried in a fixed order until a whole round changes nothing. A task **dissolves** into its readers, each
computing it for itself. Two tasks **merge**, recomputing what would otherwise make them wait for a third between them.
A task **hands over** an expr at its rim to a neighbour. A task is **torn**: what one of its reductions needs goes to
one task, the rest to another. Every move is weighed on the whole draft, so what it makes superfluous elsewhere counts.

Where no move saves time and tasks are few, changes that save nothing by themselves are made on trial, and the moves are
tried again from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from fusebuild.segmentation.draft import LEAST_SAVING, Draft, Proposal
from fusebuild.segmentation.merge import weigh_merge
from fusebuild.segmentation.rematerialize import is_recomputable, rematerialize

MOST_ROUNDS = 8

NEXT_TO_NOTHING = 1e-8
"""Seconds that a trial may cost before it saves: a few rows of statistics more or less."""

FEW_TASKS, FEW_EXPRS = 6, 40
"""At most so large is a draft in which moves with three tasks, and trials, are made."""


def refine(draft: Draft) -> Draft:
    """``draft``, or one made from it, such that no move saves time."""
    _climb(draft)
    for trial in _trials(draft) if _is_small(draft) else ():
        _climb(trial)
        if trial.seconds < draft.seconds - LEAST_SAVING:
            return refine(trial)
    return draft


def _is_small(draft: Draft) -> bool:
    return len(draft.parts) <= FEW_TASKS and len(draft.home) <= FEW_EXPRS


def _climb(draft: Draft) -> None:
    """Make moves of ``draft`` until none saves time."""
    for _ in range(MOST_ROUNDS):
        before = draft.seconds
        rematerialize(draft)
        for name in draft.in_order():
            _improve(draft, name)
        if draft.seconds >= before:
            return


def _improve(draft: Draft, name: int) -> None:
    """Every move of one task, the first that saves time each time. What nothing was found for, here or in an attempt
    that led to the same draft, is not tried again."""
    futile = draft.problem.futile
    while name in draft.parts:
        state = draft.state
        if (name, state) in futile:
            return
        proposal = next((found for found in _moves(draft, name) if found is not None), None)
        if proposal is None:
            futile.add((name, state))
            return
        draft.commit(proposal)


def _moves(draft: Draft, name: int) -> Iterator[Proposal | None]:
    yield from _dissolve(draft, name)
    others = sorted(draft.neighbours(name))
    for other in others:
        yield weigh_merge(draft, name, other)
        yield _merge_around(draft, name, other)
        for index in _rim(draft, name, other):
            ours, theirs = draft.parts[name].exprs - {index}, draft.parts[other].exprs | {index}
            yield draft.weigh({name: ours, other: theirs}, {index: other})
            yield _hand_over_output(draft, name, other, index)
    if _is_small(draft):
        for index in _reductions(draft, name):
            for first, second in permutations(others, 2):
                yield _tear(draft, name, index, first, second)


def _rim(draft: Draft, name: int, other: int) -> list[int]:
    """Home exprs of ``name`` that ``other`` reads from, that read from ``other``, or that make an output."""
    exprs = draft.fusion.exprs
    reads, writes = draft.parts[other].reads, draft.parts[other].writes
    return [
        index
        for index in sorted(draft.parts[name].exprs)
        if draft.home[index] == name
        and (
            not reads.isdisjoint(exprs[index].outputs)
            or not writes.isdisjoint(exprs[index].inputs)
            or any(draft.is_wanted(fid) for fid in exprs[index].outputs)
        )
    ]


def _hand_over_output(draft: Draft, name: int, other: int, index: int) -> Proposal | None:
    """``other`` writes the output that ``index`` makes, and computes for itself what it read from ``name``: so it may
    read an input that ``index`` overwrites."""
    own, exprs = draft.parts[name].exprs, draft.fusion.exprs
    chain = {each for each in own if is_recomputable(draft, each)}
    if index not in chain or not any(draft.is_wanted(fid) for fid in exprs[index].outputs):
        return None
    return draft.weigh({name: own, other: draft.parts[other].exprs | chain}, {index: other})


def _dissolve(draft: Draft, name: int) -> Iterator[Proposal | None]:
    """Every reader of ``name`` computes for itself what it reads from it; any one of them writes what users get."""
    part = draft.parts[name]
    if not all(is_recomputable(draft, index) for index in part.exprs):
        return
    readers = sorted(set().union(*(draft.readers(fid) for fid in part.writes)))
    exprs = {reader: draft.parts[reader].exprs | part.exprs for reader in readers}
    own = [index for index in part.exprs if draft.home[index] == name]
    for writer in readers if any(draft.is_wanted(fid) for fid in part.writes) else readers[:1]:
        yield draft.weigh({name: frozenset(), **exprs}, dict.fromkeys(own, writer))


def _merge_around(draft: Draft, name: int, other: int) -> Proposal | None:
    """``other`` becomes a part of ``name``, computing for itself what it would get from tasks between the two."""
    between = draft.between(name, other)
    if not between:
        return None
    union = draft.parts[name].exprs | draft.parts[other].exprs
    waiting = [fid for fid in draft.problem.reads_of(union) if draft.owner(fid) in between]
    while waiting:
        index = draft.fusion.definition(waiting.pop())
        if index is None or not is_recomputable(draft, index):
            return None
        union |= {index}
        waiting = [fid for fid in draft.problem.reads_of(union) if draft.owner(fid) in between]
    homes = {index: name for index in draft.parts[other].exprs if draft.home[index] == other}
    return draft.weigh({name: union, other: frozenset()}, homes)


def _reductions(draft: Draft, name: int) -> list[int]:
    """The home exprs of ``name`` that only one task may hold."""
    exprs = sorted(draft.parts[name].exprs)
    return [index for index in exprs if draft.home[index] == name and not is_recomputable(draft, index)]


def _tear(draft: Draft, name: int, index: int, first: int, second: int) -> Proposal | None:
    """``first`` takes ``index`` and what it needs, ``second`` the rest of ``name``."""
    part, fusion = draft.parts[name], draft.fusion
    needed: set[int] = set()
    waiting = [index]
    while waiting:
        each = waiting.pop()
        needed.add(each)
        sources = (fusion.definition(fid) for fid in fusion.exprs[each].inputs)
        waiting += [source for source in sources if source in part.exprs and source not in needed]
    rest = frozenset(each for each in part.exprs if each not in needed or is_recomputable(draft, each))
    upper, lower = draft.parts[first].exprs | needed, draft.parts[second].exprs | rest
    homes = {each: first if each in needed else second for each in part.exprs if draft.home[each] == name}
    return draft.weigh({name: frozenset(), first: upper, second: lower}, homes)


def _trials(draft: Draft) -> Iterator[Draft]:
    """Copies of ``draft`` with one change that saves nothing by itself: an expr handed over at next to no cost, or a
    part of a task that has nothing but recomputable exprs in common with the rest handed over, or made a task of its
    own, at no more cost than a launch."""
    launch = draft.problem.costs.launch_seconds
    for name in draft.in_order():
        strands = _strands(draft, name)
        for other in sorted(draft.neighbours(name)):
            for index in _rim(draft, name, other):
                one = frozenset([index])
                yield from _handed_over(draft, name, other, one, draft.parts[name].exprs - one, NEXT_TO_NOTHING)
            for strand, rest in strands:
                yield from _handed_over(draft, name, other, strand, rest, launch)
        for strand, rest in strands:
            yield from _split_off(draft, name, strand, rest)


def _handed_over(
    draft: Draft, name: int, other: int, exprs: frozenset[int], rest: frozenset[int], most_seconds: float
) -> Iterator[Draft]:
    """A copy in which ``exprs`` belong to ``other`` and ``name`` keeps ``rest``, if that costs at most
    ``most_seconds``."""
    homes = {index: other for index in exprs if draft.home[index] == name}
    proposal = draft.propose({name: rest, other: draft.parts[other].exprs | exprs}, homes, most_seconds)
    if proposal is not None:
        trial = draft.copy()
        trial.commit(proposal)
        yield trial


def _split_off(draft: Draft, name: int, strand: frozenset[int], rest: frozenset[int]) -> Iterator[Draft]:
    """A copy in which ``strand`` is a task of its own, unless it and ``rest`` would wait for each other."""
    held = {other: part.exprs for other, part in draft.parts.items() if other != name}
    home = dict(draft.home)
    ours = [index for index in strand if draft.home[index] == name]
    left = [index for index in rest - strand if draft.home[index] == name]
    if not ours or not left:
        return
    for own, exprs in ((ours, strand), (left, rest)):
        free = [index for index in sorted(own) if index not in held]  # names outlive the exprs that they are from
        if not free:
            return
        held[free[0]] = exprs
        home |= dict.fromkeys(own, free[0])
    split = Draft(draft.problem, held, home)
    if not split.has_cycle:
        yield split


def _strands(draft: Draft, name: int) -> list[tuple[frozenset[int], frozenset[int]]]:
    """The parts of ``name`` that share only recomputable exprs with the rest, each with that rest; none where there is
    one part."""
    held = draft.parts[name].exprs
    strands: list[tuple[set[int], set[int]]] = []
    for fid in sorted(draft.parts[name].writes):
        closure = set(draft.problem.closure(frozenset([fid]), held))
        kept = {index for index in closure if not is_recomputable(draft, index)}
        joined = [strand for strand in strands if strand[1] & kept]
        strands = [strand for strand in strands if not strand[1] & kept]
        strands.append((closure.union(*(exprs for exprs, _ in joined)), kept.union(*(other for _, other in joined))))
    if len(strands) < 2:
        return []
    return [
        (frozenset(exprs), frozenset().union(*(other for other, _ in strands if other is not exprs)))
        for exprs, _ in strands
    ]
