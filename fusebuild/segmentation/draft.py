"""A cover while it is searched: tasks that change one proposal at a time, each priced before it is made.

A task's **home** exprs are those whose values it writes when anyone needs them; it may hold others only to recompute
their values for itself. What a task reads and writes follows from that, and an expr that nothing in its task needs any
more is dropped. A proposal names new exprs for some tasks; :meth:`Draft.weigh` follows what that changes upstream, asks
the schedulers about every task that changed, and says what it saves. Nothing happens before :meth:`Draft.commit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from fusebuild.ir.fusion import Fusion
from fusebuild.kernels.families import runs_nothing
from fusebuild.segmentation.acceptance import Acceptance
from fusebuild.segmentation.cost import VIEW_SECONDS, CostModel
from fusebuild.segmentation.dependencies import Dependencies, dependencies_of
from fusebuild.segmentation.groups import SEARCH_LIMIT, run_order
from fusebuild.segmentation.strangers import Strangers, strangers_in
from fusebuild.target.table import Target

REJECTED = 1e9
"""The price, in seconds, of each expr of a task that no scheduler takes: finite, so that a draft may start from such
tasks and lose them by merging."""

LEAST_SAVING = 1e-12
"""Seconds below which a change is no improvement but rounding."""

SMALL = 12
"""Tasks of a draft in which every pair is looked at."""

BESIDE = 8
"""Readers of one tensor that count as each other's neighbours: the first ones."""


DraftState: TypeAlias = tuple[frozenset[tuple[int, frozenset[int]]], frozenset[tuple[int, int]], tuple[int, ...]]
"""What each task holds, where each expr is at home, and the order of the tasks."""


@dataclass(frozen=True, slots=True)
class DraftTask:
    """One task of a draft: all its exprs, and the values it moves."""

    exprs: frozenset[int]
    reads: frozenset[int]
    writes: frozenset[int]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What every draft of one Fusion on one target shares."""

    dependencies: Dependencies
    acceptance: Acceptance
    costs: CostModel
    strangers: Strangers
    futile: set[tuple[int, DraftState]] = field(default_factory=set)
    """Tasks of drafts that no move improves."""
    _tasks: dict[tuple[frozenset[int], frozenset[int]], DraftTask] = field(default_factory=dict)
    _reads: dict[frozenset[int], frozenset[int]] = field(default_factory=dict)
    _closures: dict[tuple[frozenset[int], frozenset[int]], frozenset[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, fusion: Fusion, target: Target) -> Problem:
        """That of ``fusion``, whose exprs must be primitive."""
        dependencies, acceptance = dependencies_of(fusion), Acceptance(fusion, target)
        costs, strangers = CostModel(fusion, target), strangers_in(fusion)
        return cls(dependencies=dependencies, acceptance=acceptance, costs=costs, strangers=strangers)

    @property
    def fusion(self) -> Fusion:
        return self.dependencies.fusion

    def reads_of(self, exprs: frozenset[int]) -> frozenset[int]:
        """The tensors that a task of ``exprs`` reads."""
        if exprs not in self._reads:
            fusion = self.fusion
            made = {fid for index in exprs for fid in fusion.exprs[index].outputs}
            read = {fid for index in exprs for fid in fusion.exprs[index].inputs}
            self._reads[exprs] = frozenset(fid for fid in read - made if fusion.value(fid).is_tensor)
        return self._reads[exprs]

    def closure(self, fids: frozenset[int], held: frozenset[int]) -> frozenset[int]:
        """The exprs of ``held`` that ``fids`` are computed from."""
        key = fids, held
        if key not in self._closures:
            fusion = self.fusion
            needed: set[int] = set()
            waiting = list(fids)
            while waiting:
                index = fusion.definition(waiting.pop())
                if index in held and index not in needed:
                    needed.add(index)
                    waiting += fusion.exprs[index].inputs
            self._closures[key] = frozenset(needed)
        return self._closures[key]

    def task(self, exprs: frozenset[int], writes: frozenset[int]) -> DraftTask:
        """The task of ``exprs`` that ``writes`` these values, with its price."""
        key = exprs, writes
        if key not in self._tasks:
            reads = self.reads_of(exprs)
            self._tasks[key] = DraftTask(exprs, reads, writes, self._price(exprs, reads, writes))
        return self._tasks[key]

    def _price(self, exprs: frozenset[int], reads: frozenset[int], writes: frozenset[int]) -> float:
        """Predicted seconds of one task; :data:`REJECTED` for each of its exprs where no scheduler takes it."""
        scheduler = self.acceptance.scheduler(exprs, writes) if self.may_share(exprs) else ""
        if not scheduler:
            return REJECTED * len(exprs)
        if runs_nothing(scheduler):
            return VIEW_SECONDS
        return self.costs.seconds(self.costs.task_bytes(exprs, reads, writes))

    def may_share(self, exprs: frozenset[int]) -> bool:
        """False when two of ``exprs`` must not, or had better not, be in one task."""
        dependencies = self.dependencies
        if len(exprs) < 2:
            return True
        is_allowed = len(exprs & dependencies.calls) < 2 and not dependencies.holds_both_ends(exprs)
        return is_allowed and not self.strangers.are_in(exprs)


@dataclass(slots=True, kw_only=True)
class Proposal:
    """Parts to replace (None: to remove), new homes, and the seconds that the whole draft loses (negative: saves)."""

    parts: dict[int, DraftTask | None] = field(default_factory=dict)
    homes: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0
    window: tuple[int, int] | None = None
    """The places among which tasks get a new order; None when the present order stays good."""


class Draft:
    """The tasks ``held`` by name, where ``home`` gives the name of the task that writes each expr's value."""

    def __init__(self, problem: Problem, held: Mapping[int, frozenset[int]], home: Mapping[int, int]) -> None:
        self.problem, self.fusion, self.home = problem, problem.fusion, dict(home)
        tensors = problem.dependencies.readers
        self._wanted = frozenset(
            fid
            for index in self.home
            for fid in self.fusion.exprs[index].outputs
            if self.fusion.is_output(fid)
            or any(use in tensors and use not in self.home for use in self.fusion.uses(fid))
        )
        self.parts: dict[int, DraftTask] = {}
        self._readers: dict[int, set[int]] = {}
        self.holders: dict[int, set[int]] = {}
        """For each expr the tasks that hold it."""
        for name, exprs in held.items():
            for index in exprs:
                self.holders.setdefault(index, set()).add(name)
            for fid in problem.reads_of(exprs):
                self._readers.setdefault(fid, set()).add(name)
        self.writers: dict[int, int] = {}
        """For each input that an output overwrites, the expr that does."""
        for output in self.fusion.outputs:
            writer = self.maker(output.fid)
            if output.alias is not None and writer is not None:
                self.writers[output.alias] = writer
        for name, exprs in held.items():
            made = (fid for index in exprs if home[index] == name for fid in self.fusion.exprs[index].outputs)
            writes = frozenset(fid for fid in made if self.is_wanted(fid) or self.readers(fid) - {name})
            self.parts[name] = problem.task(exprs, writes)
        order = self._order()
        self.has_cycle = len(order) < len(self.parts)
        """True for tasks that wait for each other: nothing can be done with such a draft."""
        self._place = {name: place for place, name in enumerate(order)}

    @classmethod
    def apart(cls, problem: Problem, exprs: Iterable[int]) -> Draft:
        """Every expr a task of its own."""
        return cls.of_parts(problem, ((index,) for index in exprs))

    @classmethod
    def of_parts(cls, problem: Problem, parts: Iterable[Sequence[int]]) -> Draft:
        """Each of ``parts`` a task, named after its first expr."""
        own = {part[0]: frozenset(part) for part in parts}
        return cls(problem, own, {index: name for name, part in own.items() for index in part})

    def copy(self) -> Draft:
        """A draft that changes on its own; what was weighed against this one can be committed to it."""
        twin = Draft(self.problem, {name: part.exprs for name, part in self.parts.items()}, self.home)
        twin._place = dict(self._place)
        return twin

    @property
    def state(self) -> DraftState:
        """Equal for two drafts of one problem exactly when nothing tells them apart."""
        held = frozenset((name, part.exprs) for name, part in self.parts.items())
        return held, frozenset(self.home.items()), tuple(sorted(self._place, key=self.place))

    @property
    def seconds(self) -> float:
        """The predicted time of all tasks."""
        return sum(part.seconds for part in self.parts.values())

    def readers(self, fid: int) -> frozenset[int]:
        """The tasks that read ``fid`` from memory."""
        return frozenset(self._readers.get(fid, ()))

    def owner(self, fid: int) -> int | None:
        """The task that writes ``fid`` when anyone needs it; None for what comes from outside the scope."""
        index = self.maker(fid)
        return None if index is None else self.home[index]

    def maker(self, fid: int) -> int | None:
        """The expr that defines ``fid``; None for what comes from outside the scope."""
        index = self.fusion.definition(fid)
        return index if index in self.home else None

    def after(self, name: int) -> set[int]:
        """The tasks that wait for ``name``: readers, and writers over what it reads."""
        return self._after(name)

    def keys(self) -> dict[int, int]:
        """Each task's first home expr: the earlier it is, the earlier the task runs where nothing else says when."""
        return self._keys(self.parts)

    def in_order(self) -> list[int]:
        """The tasks in run order, the earliest exprs first among the ready ones."""
        order = self._order()
        assert len(order) == len(self.parts), "tasks wait for each other"
        return order

    def _order(self) -> list[int]:
        return run_order(self._keys(self.parts), {name: self._after(name) for name in self.parts})

    def neighbours(self, name: int) -> set[int]:
        """Tasks that ``name`` reads from or writes for, and tasks beside it that read what it reads; of a small draft
        every other task, since two that share nothing still share a launch."""
        if len(self.parts) <= SMALL:
            return self.parts.keys() - {name}
        part = self.parts[name]
        found = {owner for fid in part.reads if (owner := self.owner(fid)) is not None}
        for fid in (*part.reads, *part.writes):
            readers = self._readers.get(fid, set())
            found |= readers if len(readers) <= BESIDE else set(sorted(readers)[:BESIDE])
        return found - {name}

    def between(self, a: int, b: int) -> set[int]:
        """The tasks on a path from one of two tasks to the other."""
        first, second = sorted((a, b), key=self.place)
        after = {first: self._after(first)}
        waiting = [first]
        while waiting:
            for name in after[waiting.pop()]:
                if name not in after and self.place(name) < self.place(second):
                    after[name] = self._after(name)
                    waiting.append(name)
        found = {second}
        for name in sorted(after, key=self.place, reverse=True):
            if after[name] & found:
                found.add(name)
        return found - {first, second}

    def weigh(self, exprs: Mapping[int, frozenset[int]], homes: Mapping[int, int] | None = None) -> Proposal | None:
        """What giving tasks new ``exprs`` (empty: removing them) and exprs new ``homes`` leads to; None where a task
        would hold two that must not share one, where tasks would wait for each other, or where it saves less than
        :data:`LEAST_SAVING`."""
        return self.propose(exprs, homes or {}, -LEAST_SAVING)

    def propose(
        self, exprs: Mapping[int, frozenset[int]], homes: Mapping[int, int], most_seconds: float
    ) -> Proposal | None:
        """The same for a change that may cost up to ``most_seconds``."""
        if not all(map(self.problem.may_share, exprs.values())):
            return None
        change = Change(self, exprs, homes)
        proposal = change.settle(most_seconds)
        return None if proposal is None or change.closes_cycle(proposal) else proposal

    def commit(self, proposal: Proposal) -> None:
        """Make ``proposal``, which must have been weighed against the draft as it is now."""
        self.home |= proposal.homes
        for name, part in proposal.parts.items():
            old = self.parts.pop(name)
            for fid in old.reads:
                self._readers[fid].discard(name)
            for index in old.exprs:
                self.holders[index].discard(name)
            if part is None:
                continue
            self.parts[name] = part
            for index in part.exprs:
                self.holders[index].add(name)
            for fid in part.reads:
                self._readers.setdefault(fid, set()).add(name)
        for name, part in proposal.parts.items():
            if part is None:
                del self._place[name]
        if proposal.window is not None:
            self._reorder(*proposal.window)

    def place(self, name: int) -> int:
        """Where ``name`` runs among the tasks: after everything it waits for."""
        return self._place[name]

    def writers_over(self, reads: Iterable[int]) -> set[int]:
        """The exprs whose results overwrite one of ``reads``."""
        return {self.writers[fid] for fid in reads if fid in self.writers}

    def is_wanted(self, fid: int) -> bool:
        """True for what an expr of the scope makes and someone outside reads or gets."""
        return fid in self._wanted

    def _reorder(self, low: int, high: int) -> None:
        """New places, from ``low`` to ``high``, for the tasks that have them now."""
        names = {name: place for name, place in self._place.items() if low <= place <= high}
        order = run_order(self._keys(names), {name: self._after(name) & names.keys() for name in names})
        self._place |= dict(zip(order, sorted(names.values()), strict=True))

    def _keys(self, names: Iterable[int]) -> dict[int, int]:
        """Each task's first home expr."""
        return {name: min(e for e in self.parts[name].exprs if self.home[e] == name) for name in names}

    def _after(self, name: int) -> set[int]:
        """The tasks that must run after ``name``: readers, and writers over what it reads."""
        part = self.parts[name]
        following = {reader for fid in part.writes for reader in self._readers.get(fid, ())}
        return (following | {self.home[writer] for writer in self.writers_over(part.reads)}) - {name}


class Change:
    """A draft with some tasks changed, on paper: what each of them then holds, reads and writes."""

    def __init__(self, draft: Draft, exprs: Mapping[int, frozenset[int]], homes: Mapping[int, int]) -> None:
        self._draft, self._fusion, self._homes = draft, draft.fusion, dict(homes)
        self._exprs: dict[int, frozenset[int]] = {}
        self._reads: dict[int, frozenset[int]] = {}
        self._writes: dict[int, frozenset[int]] = {}
        self._readers: dict[int, set[int]] = {}
        self._pending: set[int] = set()
        for name, new in exprs.items():
            self._set_exprs(name, new)

    def settle(self, most_seconds: float) -> Proposal | None:
        """Follow the change upstream, dropping what nothing needs any more, and price it; None where it costs more than
        ``most_seconds``, which is often known before all tasks are priced."""
        while self._pending:
            name = max(self._pending, key=self._draft.place)
            self._pending.discard(name)
            held = self._exprs.get(name, self._draft.parts[name].exprs)
            self._writes[name] = self._written(name, held)
            needed = self._draft.problem.closure(self._writes[name], held)
            if needed != held or name not in self._exprs:
                self._set_exprs(name, needed)
                self._pending.discard(name)
        self._rehome()
        proposal = Proposal(homes=self._homes)
        names = sorted(self._exprs)
        for place, name in enumerate(names):
            if proposal.seconds - sum(self._draft.parts[other].seconds for other in names[place:]) > most_seconds:
                return None
            exprs, old = self._exprs[name], self._draft.parts[name]
            new = self._draft.problem.task(exprs, self._writes[name]) if exprs else None
            if new is None or (new.exprs, new.writes) != (old.exprs, old.writes):
                proposal.parts[name] = new
                proposal.seconds += (new.seconds if new else 0.0) - old.seconds
        is_whole = all(self._is_made(fid) for part in proposal.parts.values() if part for fid in part.reads)
        return proposal if is_whole and proposal.seconds <= most_seconds else None

    def _rehome(self) -> None:
        """Exprs that their home task dropped are at home in the first of the tasks that still hold them."""
        for name, held in self._exprs.items():
            given = {index for index, home in self._homes.items() if home == name}
            for index in sorted((self._draft.parts[name].exprs | given) - held):
                if self._home(index) != name:
                    continue
                holders = {other for other in self._draft.holders[index] if other not in self._exprs}
                holders |= {other for other, exprs in self._exprs.items() if index in exprs}
                if holders:
                    self._homes[index] = min(holders)

    def closes_cycle(self, proposal: Proposal) -> bool:
        """True when tasks would wait for each other, or when too many lie between to be sure. Sets the window of
        places that the proposal reorders."""
        if self._keeps_order(proposal):
            return False
        draft = self._draft
        changed = set(proposal.parts)
        places = [draft.place(name) for name in changed | self._around(proposal)]
        proposal.window = low, high = min(places), max(places)
        done: set[int] = set()
        for start in sorted(name for name in changed if self._exprs.get(name, True)):
            path: dict[int, list[int]] = {}
            self._open(start, path, done, low, high)
            while path:
                name = next(reversed(path))
                if not path[name]:
                    done.add(name)
                    del path[name]
                    continue
                following = path[name].pop()
                if following in path or len(done) > SEARCH_LIMIT:
                    return True
                self._open(following, path, done, low, high)
        return False

    def _around(self, proposal: Proposal) -> set[int]:
        """The tasks right before and after the changed ones: a new edge ends at one of them, wherever it stands."""
        around: set[int] = set()
        for name, part in proposal.parts.items():
            if part is not None:
                around |= {owner for fid in part.reads if (owner := self._owner(fid)) is not None}
                around |= self._after(name) | self._readers_of_overwritten(name)
        return around

    def _keeps_order(self, proposal: Proposal) -> bool:
        """True when every changed task still runs after what it reads and before what reads from it."""
        place = self._draft.place
        return all(
            all(place(name) < place(other) for other in self._after(name))
            and all(place(owner) < place(name) for fid in part.reads if (owner := self._owner(fid)) is not None)
            and all(place(other) < place(name) for other in self._readers_of_overwritten(name))
            for name, part in proposal.parts.items()
            if part is not None
        )

    def _readers_of_overwritten(self, name: int) -> set[int]:
        """The other tasks that read an input which ``name`` overwrites."""
        overwritten = [fid for fid, writer in self._draft.writers.items() if self._home(writer) == name]
        return set().union(*(self._readers_of(fid) for fid in overwritten)) - {name}

    def _open(self, name: int, path: dict[int, list[int]], done: set[int], low: int, high: int) -> None:
        if name not in done:
            path[name] = [other for other in self._after(name) if low <= self._draft.place(other) <= high]

    def _after(self, name: int) -> set[int]:
        part = self._draft.parts[name]
        writes, reads = self._writes.get(name, part.writes), self._reads.get(name, part.reads)
        following = {reader for fid in writes for reader in self._readers_of(fid)}
        return (following | {self._home(writer) for writer in self._draft.writers_over(reads)}) - {name}

    def _home(self, index: int) -> int:
        return self._homes.get(index, self._draft.home[index])

    def _owner(self, fid: int) -> int | None:
        """As :meth:`Draft.owner`."""
        index = self._draft.maker(fid)
        return None if index is None else self._home(index)

    def _is_made(self, fid: int) -> bool:
        """True when the task that writes ``fid`` holds its definition (it may have dropped it as unneeded)."""
        owner = self._owner(fid)
        return owner is None or self._draft.maker(fid) in self._exprs.get(owner, self._draft.parts[owner].exprs)

    def _readers_of(self, fid: int) -> Set[int]:
        return self._readers[fid] if fid in self._readers else self._draft.readers(fid)

    def _set_exprs(self, name: int, new: frozenset[int]) -> None:
        """Let ``name`` hold ``new``; whoever writes what it no longer, or newly, reads is looked at again."""
        old = self._reads.get(name, self._draft.parts[name].reads)
        self._exprs[name], self._reads[name] = new, self._draft.problem.reads_of(new)
        self._pending.add(name)
        for fid in sorted(old ^ self._reads[name]):
            readers = self._readers.setdefault(fid, set(self._draft.readers(fid)))
            readers ^= {name}
            if (owner := self._owner(fid)) is not None:
                self._pending.add(owner)

    def _written(self, name: int, held: frozenset[int]) -> frozenset[int]:
        made = (fid for index in held if self._home(index) == name for fid in self._fusion.exprs[index].outputs)
        return frozenset(fid for fid in made if self._draft.is_wanted(fid) or self._readers_of(fid) - {name})
