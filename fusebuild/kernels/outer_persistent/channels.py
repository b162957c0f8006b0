"""What a kernel whose blocks have whole channels computes of an element before and after, and of a channel between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fusebuild.ir.values import Expr
from fusebuild.kernels.common.batches import Batch, Batches, batches
from fusebuild.kernels.common.lambdas import folded
from fusebuild.kernels.common.spec import reductions
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.common.storage import operands


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """Reductions combine elements as they are ``gathered``, each made by ``before``, in which ``early`` exprs are the
    same for a whole channel. ``own`` exprs follow for a channel, and ``after`` ones for each of its elements, which
    read the values ``shared`` of their channel. The outputs ``of_channels`` have one element a channel, ``others`` as
    many as there are."""

    body: Body
    gathered: Batches
    early: tuple[Expr, ...]
    before: tuple[Expr, ...]
    own: tuple[Expr, ...]
    after: tuple[Expr, ...]
    shared: tuple[int, ...]
    of_channels: tuple[int, ...]
    others: tuple[int, ...]

    @classmethod
    def of(cls, body: Body) -> Channels:
        """Those of the task of ``body``."""
        task, domain = body.task, body.domain
        results = folded(task, reductions(task))
        gathered = batches(body, reductions(task), domain.inner, lambda axis: "0", keeps=False, is_long=True)
        early, before = body.split(body.closure(gathered.targets()), domain.reduced)
        of_channels = tuple(fid for fid in task.outputs if domain.accesses[fid].axes == domain.kept)
        others = tuple(fid for fid in task.outputs if fid not in of_channels)
        _, after = body.split(body.closure(others, results), domain.reduced)
        shared = _shared(body, after, others)
        own = body.of_tensors(body.closure([*of_channels, *shared], results))
        return cls(
            body=body, gathered=gathered, early=early, before=before, own=own, after=after, shared=shared,
            of_channels=of_channels, others=others,
        )  # fmt: skip

    @property
    def moments(self) -> Batch | None:
        """The only reduction, where it takes the moments of a channel's elements by batches."""
        match [*self.gathered.of.values()]:
            case [batch] if len(self.gathered.indices) == 1 and batch.looks_inside and batch.folding.is_running:
                return batch
        return None

    @property
    def moments_bytes(self) -> int:
        """The bytes of one number of moments, 0 where nothing takes any."""
        return 0 if self.moments is None else self.moments.folding.dtypes[0].bytes

    @property
    def has_columns(self) -> bool:
        """Whether moments are all that is reduced, of elements that are made of nothing of their channel: then columns
        of them may be added up before channels are."""
        needs = _shared(self.body, self.before, self.gathered.targets())
        return self.moments is not None and not self.early and not needs

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """All that is computed, scalars too."""
        results = folded(self.body.task, reductions(self.body.task))
        targets = [*self.of_channels, *self.others]
        return (*self.body.closure(self.gathered.targets()), *self.body.closure(targets, results))

    @property
    def read(self) -> tuple[int, ...]:
        """The inputs of which a block has elements: all that change along the whole domain."""
        body = self.body
        exprs = [*self.before, *self.after]
        roots = body.roots(exprs, [*self.gathered.targets(), *self.others])
        return tuple(fid for fid in body.memory_inputs() if fid in roots and fid in body.domain.flat)

    def taken(self, exprs: Iterable[Expr], targets: Iterable[int]) -> tuple[int, ...]:
        """Those of them that ``exprs`` and ``targets`` read."""
        roots = self.body.roots(exprs, targets)
        return tuple(fid for fid in self.read if fid in roots)

    @property
    def gathered_from(self) -> tuple[int, ...]:
        """Those whose elements are combined."""
        return self.taken(self.before, self.gathered.targets())

    @property
    def loaded(self) -> tuple[int, ...]:
        """The inputs that have one element a channel."""
        body = self.body
        roots = body.roots([*self.early, *self.before, *self.own], [*self.gathered.targets(), *self.shared])
        return tuple(fid for fid in body.memory_inputs() if fid in roots and fid not in body.domain.flat)


def _shared(body: Body, after: Sequence[Expr], outputs: Sequence[int]) -> tuple[int, ...]:
    """The values of a channel that ``after`` reads, which computes ``outputs``."""
    made = {fid for expr in after for fid in expr.outputs}
    read = {body.root(fid) for expr in after for fid in operands(expr)} | {body.root(fid) for fid in outputs}
    values = [fid for fid in sorted(read - made) if body.value(fid).is_tensor and not body.is_scalar(fid)]
    return tuple(fid for fid in values if not body.value(fid).is_constant and fid not in body.domain.flat)
