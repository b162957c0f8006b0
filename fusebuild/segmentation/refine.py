"""Refinement: exprs move between neighbours while the predicted time falls and the schedulers still accept.

Moves are tried in a fixed order until a whole round changes nothing. A task **dissolves** into its readers, each
computing it for itself. Two tasks **merge**, recomputing what would otherwise make them wait for a third between them.
A task **hands over** an expr at its rim to a neighbour. A task is **torn**: what one of its reductions needs goes to
one task, the rest to another. Every move is weighed on the whole draft, so what it makes superfluous elsewhere counts.

Where no move saves time and tasks are few, exprs that share a task but nothing else change it on trial, and the moves
are tried again from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from fusebuild.segmentation.draft import LEAST_SAVING, Draft, Proposal
from fusebuild.segmentation.merge import weigh_merge
from fusebuild.segmentation.rematerialize import is_recomputable, rematerialize

MOST_ROUNDS = 8

FEW = 6
"""Tasks of a draft in which moves with three tasks, and trials, are made."""


def refine(draft: Draft) -> Draft:
    """``draft``, or one made from it, such that no move saves time."""
    _climb(draft)
    for trial in _trials(draft) if len(draft.parts) <= FEW else ():
        _climb(trial)
        if trial.seconds < draft.seconds - LEAST_SAVING:
            return refine(trial)
    return draft


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
    """Every move of one task, the first that saves time each time."""
    while name in draft.parts:
        proposal = next((found for found in _moves(draft, name) if found is not None), None)
        if proposal is None:
            return
        draft.commit(proposal)


def _moves(draft: Draft, name: int) -> Iterator[Proposal | None]:
    yield _dissolve(draft, name)
    others = sorted(draft.neighbours(name))
    for other in others:
        yield weigh_merge(draft, name, other)
        yield _merge_around(draft, name, other)
        for index in _rim(draft, name, other):
            yield _hand_over(draft, name, other, index)
    if len(others) < FEW:
        for index in _reductions(draft, name):
            for first, second in permutations(others, 2):
                yield _tear(draft, name, index, first, second)


def _rim(draft: Draft, name: int, other: int) -> list[int]:
    """Home exprs of ``name`` that ``other`` reads from, or that read from ``other``."""
    exprs = draft.problem.dependencies.fusion.exprs
    reads, writes = draft.parts[other].reads, draft.parts[other].writes
    return [
        index
        for index in sorted(draft.parts[name].exprs)
        if draft.home[index] == name
        and (not reads.isdisjoint(exprs[index].outputs) or not writes.isdisjoint(exprs[index].inputs))
    ]


def _hand_over(draft: Draft, name: int, other: int, index: int) -> Proposal | None:
    """``index`` leaves ``name`` for ``other``."""
    ours, theirs = draft.parts[name].exprs, draft.parts[other].exprs
    if not draft.problem.may_share(theirs | {index}):
        return None
    return draft.weigh({name: ours - {index}, other: theirs | {index}}, {index: other})


def _dissolve(draft: Draft, name: int) -> Proposal | None:
    """Every reader of ``name`` computes for itself what it reads from it."""
    part = draft.parts[name]
    if any(draft.is_wanted(fid) for fid in part.writes) or not all(is_recomputable(draft, e) for e in part.exprs):
        return None
    readers = sorted(set().union(*(draft.readers(fid) for fid in part.writes)))
    if not readers:
        return None
    exprs = {reader: draft.parts[reader].exprs | part.exprs for reader in readers}
    homes = {index: readers[0] for index in part.exprs if draft.home[index] == name}
    return draft.weigh({name: frozenset(), **exprs}, homes)


def _merge_around(draft: Draft, name: int, other: int) -> Proposal | None:
    """``other`` becomes a part of ``name``, computing for itself what it would get from tasks between the two."""
    between = draft.between(name, other)
    if not between:
        return None
    union = draft.parts[name].exprs | draft.parts[other].exprs
    waiting = [fid for fid in draft.reads_of(union) if draft.owner(fid) in between]
    while waiting:
        index = draft.problem.dependencies.fusion.definition(waiting.pop())
        if index is None or not is_recomputable(draft, index):
            return None
        union |= {index}
        waiting = [fid for fid in draft.reads_of(union) if draft.owner(fid) in between]
    if not draft.problem.may_share(union):
        return None
    homes = {index: name for index in draft.parts[other].exprs if draft.home[index] == other}
    return draft.weigh({name: union, other: frozenset()}, homes)


def _reductions(draft: Draft, name: int) -> list[int]:
    """The home exprs of ``name`` that only one task may hold."""
    exprs = sorted(draft.parts[name].exprs)
    return [index for index in exprs if draft.home[index] == name and not is_recomputable(draft, index)]


def _tear(draft: Draft, name: int, index: int, first: int, second: int) -> Proposal | None:
    """``first`` takes ``index`` and what it needs, ``second`` the rest of ``name``."""
    part, fusion = draft.parts[name], draft.problem.dependencies.fusion
    needed: set[int] = set()
    waiting = [index]
    while waiting:
        each = waiting.pop()
        needed.add(each)
        sources = (fusion.definition(fid) for fid in fusion.exprs[each].inputs)
        waiting += [source for source in sources if source in part.exprs and source not in needed]
    rest = frozenset(each for each in part.exprs if each not in needed or is_recomputable(draft, each))
    upper, lower = draft.parts[first].exprs | needed, draft.parts[second].exprs | rest
    if not draft.problem.may_share(upper) or not draft.problem.may_share(lower):
        return None
    homes = {each: first if each in needed else second for each in part.exprs if draft.home[each] == name}
    return draft.weigh({name: frozenset(), first: upper, second: lower}, homes)


def _trials(draft: Draft) -> Iterator[Draft]:
    """Copies of ``draft`` in which one of the unconnected components of a task belongs to another task, at no more cost
    than a launch."""
    for name in draft.in_order():
        components = _components(draft, name)
        for component in components if len(components) > 1 else ():
            for other in sorted(draft.neighbours(name)):
                changed = {name: draft.parts[name].exprs - component, other: draft.parts[other].exprs | component}
                homes = {index: other for index in component if draft.home[index] == name}
                proposal = draft.propose(changed, homes, draft.problem.costs.launch_seconds)
                if proposal is not None:
                    trial = draft.copy()
                    trial.commit(proposal)
                    yield trial


def _components(draft: Draft, name: int) -> list[frozenset[int]]:
    """The exprs of ``name`` in sets between which no value passes."""
    producers, exprs = draft.problem.dependencies.producers, draft.parts[name].exprs
    component: dict[int, set[int]] = {}
    for index in sorted(exprs):
        joined = {index}
        for source in producers[index]:
            if source in exprs:
                joined |= component[source]
        component |= dict.fromkeys(joined, joined)
    return list(dict.fromkeys(frozenset(each) for each in component.values()))
