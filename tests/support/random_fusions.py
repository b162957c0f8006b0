"""Random Fusions that look like real ones: what the searches for cuts are compared on.

Each is a few motifs in a row over one or more activations: norms, pieces of softmax, gated activations, statistics of
rows, columns and whole tensors and what is done with them, two reductions over different axes from one prologue; and,
for those who ask for them, motifs that read elements elsewhere: rotated halves, shifts, tables, masks, turned tensors.
Sizes go from launch-bound to bandwidth-bound. Everything follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Value
from fusebuild.ops.builder import FusionBuilder
from fusebuild.passes import run_passes
from fusebuild.segmentation.cost import CostModel
from fusebuild.segmentation.exact import ATOM_LIMIT, atoms_of, rules_of
from fusebuild.segmentation.segmented import dense_outputs
from fusebuild.target.table import TARGETS

ROWS = (64, 256, 1024, 4096, 16384, 65536)
COLUMNS = (64, 256, 1024, 4096, 8192)
UNARY = ("exp", "neg", "tanh", "sigmoid", "relu", "silu", "abs", "sin")
BINARY = ("add", "sub", "mul", "mul", "maximum")
MARK_CHANCE, DEEP_CHANCE, IN_PLACE_CHANCE = 0.12, 0.2, 0.25


def random_fusion(seed: int, most_atoms: int = ATOM_LIMIT, *, indexed: bool = False) -> Fusion:
    """The Fusion of ``seed``, after all passes and with dense outputs, of at most ``most_atoms`` atoms. What is
    ``indexed`` has index ops too; its integer inputs are positions: those of one dim in ``M``, all others in ``N``."""
    rng = random.Random(seed)
    motifs = rng.randint(2, 8)
    while True:
        fusion = dense_outputs(run_passes(_Maker(rng, indexed=indexed).fusion(f"random_{seed}", motifs)))
        if 1 < atom_count(fusion) <= most_atoms:
            return fusion
        motifs = max(1, motifs - 1)


def tiny_fusion(seed: int, most_exprs: int) -> Fusion:
    """A Fusion of at most ``most_exprs`` exprs and no shape in particular: for a search that tries everything."""
    rng = random.Random(seed)
    while True:
        fusion = dense_outputs(run_passes(_Maker(rng).noise(f"tiny_{seed}", most_exprs)))
        if 1 < len(fusion.exprs) <= most_exprs:
            return fusion


def atom_count(fusion: Fusion) -> int:
    """How many atoms the exact search would move."""
    return len(atoms_of(rules_of(fusion), CostModel(fusion, TARGETS["sm_90"])))


class _Maker:
    """Records one Fusion: activations of one shape, motifs that turn some of them into others, and outputs."""

    def __init__(self, rng: random.Random, *, indexed: bool = False) -> None:
        self._rng, self._indexed = rng, indexed
        self._shape: tuple[Formula, ...] = ("B", "M", "N") if rng.random() < DEEP_CHANCE else ("M", "N")
        self._narrow = DType.BFLOAT16 if rng.random() < 0.7 else DType.FLOAT
        self._activations: list[Value] = []
        self._others: list[Value] = []

    def fusion(self, name: str, motifs: int) -> Fusion:
        self._builder = FusionBuilder(name)
        self._activations.append(self._input(self._shape))
        for _ in range(motifs):
            if self._rng.random() < 0.25:
                self._activations.append(self._input(self._shape))
            self._rng.choice(self._motifs())()
        self._add_outputs()
        sizes = {"B": self._rng.choice((2, 8)), "M": self._rng.choice(ROWS), "N": self._rng.choice(COLUMNS)}
        return self._builder.finish(cases=[sizes])

    def noise(self, name: str, exprs: int) -> Fusion:
        """A Fusion of ``exprs`` single ops on whatever there is, before passes."""
        rng, self._builder = self._rng, FusionBuilder(name)
        self._activations = [self._input(self._shape), self._input(rng.choice((self._shape, ("N",))))]
        for _ in range(exprs):
            x = rng.choice(self._activations[-3:])
            kind = rng.choice(("unary", "binary", "reduction", "cast", "view", "copy", "segment_set"))
            if kind == "unary":
                x = self._op(rng.choice(UNARY), x)
            elif kind == "binary":
                x = self._op(rng.choice(BINARY), x, rng.choice(self._activations))
            elif kind == "reduction":
                dims = tuple(dim for dim in range(x.tensor.rank) if rng.random() < 0.5) or (0,)
                x = self._op("sum", x, dims=dims, keepdim=True, dtype=None)
            elif kind == "cast":
                x = self._cast(x, DType.FLOAT if x.dtype is DType.BFLOAT16 else DType.BFLOAT16)
            elif kind == "view":
                x = self._op("broadcast", x, is_broadcast_dim=(True, *[False] * x.tensor.rank))
            else:
                x = self._op("set" if kind == "copy" else kind, x)
            self._activations.append(x)
        self._add_outputs()
        return self._builder.finish(cases=[{"B": 2, "M": rng.choice(ROWS), "N": rng.choice(COLUMNS)}])

    def _motifs(self) -> list[Callable[[], None]]:
        return [
            self._norm,
            self._softmax,
            self._gate,
            self._chain,
            self._scale_and_shift,
            self._residual,
            self._statistic,
            self._crossing,
            self._round_trip,
            self._scaled_by_all,
            self._normed_backward,
            *(self._index_motifs() if self._indexed else ()),
        ]

    def _index_motifs(self) -> list[Callable[[], None]]:
        return [self._rotated, self._shifted, self._looked_up, self._chosen, self._masked, self._turned,
                self._flattened, self._cut, self._scattered]  # fmt: skip

    # Motifs: each reads an activation and leaves new activations, or statistics that may become outputs.

    def _norm(self) -> None:
        x = self._wide(self._activation())
        if self._rng.random() < 0.5:
            x = self._op("sub", x, self._mean(x))
        rstd = self._op("rsqrt", self._op("add", self._mean(self._op("mul", x, x)), 1e-5))
        y = self._op("mul", x, rstd)
        if self._rng.random() < 0.6:
            y = self._op("mul", y, self._vector())
        if self._rng.random() < 0.3:
            self._others.append(rstd)
        self._keep(y)

    def _softmax(self) -> None:
        x = self._wide(self._activation())
        if self._rng.random() < 0.6:
            x = self._op("sub", x, self._reduce("max", x, self._rows()))
        numerator = self._op("exp", x)
        self._keep(self._op("truediv", numerator, self._reduce("sum", numerator, self._rows())))

    def _gate(self) -> None:
        gate, up = self._wide(self._activation()), self._wide(self._activation_or_input())
        self._keep(self._op("mul", self._op("silu", gate), up))

    def _chain(self) -> None:
        x = self._wide(self._activation())
        for _ in range(self._rng.randint(1, 3)):
            x = self._op(self._rng.choice(UNARY), x)
        self._keep(x)

    def _scale_and_shift(self) -> None:
        x = self._wide(self._activation())
        x = self._op("mul", x, self._vector())
        if self._rng.random() < 0.5:
            x = self._op("add", x, self._column())
        self._keep(x)

    def _residual(self) -> None:
        x, other = self._wide(self._activation()), self._wide(self._activation_or_input())
        self._keep(self._op(self._rng.choice(BINARY), x, other))

    def _statistic(self) -> None:
        x = self._wide(self._activation())
        if self._rng.random() < 0.5:
            x = self._op(self._rng.choice(UNARY), x)
        dims = self._rng.choice((self._rows(), self._columns(), self._everything()))
        total = self._reduce(self._rng.choice(("sum", "max")), x, dims)
        if self._rng.random() < 0.4:
            self._keep(self._op(self._rng.choice(BINARY), x, total))
        else:
            self._others.append(total)

    def _crossing(self) -> None:
        """Two reductions over different axes from one prologue."""
        x = self._op(self._rng.choice(BINARY), self._wide(self._activation()), self._wide(self._activation_or_input()))
        if self._rng.random() < 0.5:
            x = self._op(self._rng.choice(UNARY), x)
        self._others.append(self._reduce("sum", x, self._columns()))
        total = self._reduce("sum", x, self._rows())
        if self._rng.random() < 0.5:
            self._keep(self._op("mul", x, total))
        else:
            self._others.append(total)

    def _round_trip(self) -> None:
        """Through bfloat16 and on in float, as a framework's op by op rounding does."""
        x = self._op(self._rng.choice(UNARY), self._wide(self._activation()))
        narrow = self._cast(x, DType.BFLOAT16)
        self._keep(self._op(self._rng.choice(UNARY), self._wide(narrow)))

    def _scaled_by_all(self) -> None:
        x = self._wide(self._activation())
        largest = self._reduce("max", self._op("abs", x), self._everything())
        self._keep(self._op("truediv", x, largest))

    def _normed_backward(self) -> None:
        """Gradients of a norm's input and of its weight: the rows and the columns of one product."""
        grad, x = self._wide(self._activation()), self._wide(self._activation_or_input())
        self._others.append(self._reduce("sum", self._op("mul", grad, x), self._columns()))
        scaled = self._op("mul", grad, self._vector())
        mean = self._mean(self._op("mul", scaled, x))
        self._keep(self._op("sub", scaled, self._op("mul", x, mean)))

    # Motifs with index ops.

    def _rotated(self) -> None:
        """Two halves of the rows, one negative, change places."""
        x, half = self._activation_or_input(), ("floor_div", "N", 2)
        first, second = self._slice(x, -1, 0, half), self._slice(x, -1, half, "N")
        halves = (self._op("neg", second), first)
        turned = self._op("cat", *halves, dim=len(self._shape) - 1)
        self._keep(self._op("add", self._op("mul", x, self._vector()), turned))

    def _shifted(self) -> None:
        """The neighbour along some dim, something else at the end."""
        x, dim = self._activation_or_input(), self._rng.randrange(len(self._shape))
        is_next, widths = self._rng.random() < 0.5, [(0, 0)] * len(self._shape)
        widths[dim] = (0, 1) if is_next else (1, 0)
        flat = tuple(width for pair in reversed(widths) for width in pair)
        fill = self._builder.constant(self._rng.choice((0.0, 1.5)))
        longer = self._builder.call("pad", [x, fill], {"pad_widths": flat})[0]
        moved = self._slice(longer, dim, int(is_next), longer.tensor.shape[dim] if is_next else self._shape[dim])
        self._keep(self._op(self._rng.choice(BINARY), self._wide(x), self._wide(moved)))

    def _looked_up(self) -> None:
        """Rows of a table, or of an activation, in the order that an input says."""
        dim = len(self._shape) - 2
        index = self._positions((self._shape[dim],))
        x = self._activation_or_input()
        found = self._builder.call(self._rng.choice(("take", "index_select")), [x, index], {"dim": dim})[0]
        self._keep(self._op("add", self._wide(found), self._wide(self._activation())))

    def _chosen(self) -> None:
        """For each row one of its elements, or for each element another of its row."""
        dim, x = len(self._shape) - 1, self._activation_or_input()
        if self._rng.random() < 0.5:
            index = self._positions((*self._shape[:-1], 1))
            self._keep(self._op("sub", self._wide(x), self._wide(self._gathered(x, index, dim))))
        else:
            self._keep(self._wide(self._gathered(x, self._positions(self._shape), dim)))

    def _gathered(self, x: Value, index: Value, dim: int) -> Value:
        return self._builder.call(self._rng.choice(("gather", "take_along_axis")), [x, index], {"dim": dim})[0]

    def _scattered(self) -> None:
        """Rows written to, or added to, those that an input names."""
        dim = len(self._shape) - 2
        index, x, src = (
            self._positions((self._shape[dim],)),
            self._wide(self._activation_or_input()),
            self._activation(),
        )
        op = self._rng.choice(("index_copy", "index_add"))
        self._keep(self._builder.call(op, [x, index, self._wide(src)], {"dim": dim})[0])

    def _masked(self) -> None:
        x = self._wide(self._activation())
        self._keep(self._op(self._rng.choice(("triu", "tril")), x, diagonal=self._rng.randint(-2, 2)))

    def _turned(self) -> None:
        """A tensor that comes with two dims changed over."""
        order = list(range(len(self._shape)))
        order[-1], order[-2] = order[-2], order[-1]
        other = self._op("permute", self._input(tuple(self._shape[dim] for dim in order)), permutation=tuple(order))
        self._keep(self._op(self._rng.choice(BINARY), self._wide(self._activation()), self._wide(other)))

    def _flattened(self) -> None:
        """Seen as one dim for a while."""
        x = self._activation_or_input()
        flat = self._op("reshape", x, shape=(("mul", *self._shape),))
        self._keep(self._op("reshape", self._op(self._rng.choice(UNARY), flat), shape=self._shape))

    def _cut(self) -> None:
        """A statistic of every other column, or of the first rows."""
        x = self._activation_or_input()
        if self._rng.random() < 0.5:
            part = self._slice(x, -1, 0, "N", step=2)
        else:
            part = self._slice(x, -2, 0, ("floor_div", "M", 2))
        self._others.append(self._reduce("sum", self._wide(part), self._rows()))

    def _slice(self, x: Value, dim: int, first: Formula, end: Formula, step: int = 1) -> Value:
        starts, ends, steps = [0] * len(self._shape), [*self._shape], [1] * len(self._shape)
        starts[dim], ends[dim], steps[dim] = first, end, step
        named = {"start_indices": tuple(starts), "end_indices": tuple(ends), "strides": tuple(steps)}
        return self._builder.call("slice", [x], named)[0]

    def _positions(self, shape: tuple[Formula, ...]) -> Value:
        return self._input(shape, self._rng.choice((DType.INT64, DType.INT32)))

    # The parts of motifs.

    def _rows(self) -> tuple[int, ...]:
        return (len(self._shape) - 1,)

    def _columns(self) -> tuple[int, ...]:
        return tuple(range(len(self._shape) - 1))

    def _everything(self) -> tuple[int, ...]:
        return tuple(range(len(self._shape)))

    def _input(self, shape: tuple[Formula, ...], dtype: DType | None = None) -> Value:
        return self._builder.tensor(dtype or self._narrow, shape)

    def _vector(self) -> Value:
        """One number for each column."""
        return self._wide(self._input(("N",)))

    def _column(self) -> Value:
        """One number for each row."""
        return self._input((*self._shape[:-1], 1), DType.FLOAT)

    def _activation(self) -> Value:
        return self._rng.choice(self._activations[-2:] if self._rng.random() < 0.7 else self._activations)

    def _activation_or_input(self) -> Value:
        if self._rng.random() < 0.5:
            self._activations.append(self._input(self._shape))
            return self._activations[-1]
        return self._activation()

    def _keep(self, value: Value) -> None:
        if self._rng.random() < MARK_CHANCE:
            value = self._op("segment_set", value)
        self._activations.append(value)

    def _op(self, op: str, *operands: Value | float, **named: Any) -> Value:
        values = [each if isinstance(each, Value) else self._builder.constant(each) for each in operands]
        return self._builder.call(op, values, named)[0]

    def _wide(self, value: Value) -> Value:
        return value if value.dtype is DType.FLOAT else self._cast(value, DType.FLOAT)

    def _cast(self, value: Value, dtype: DType) -> Value:
        return value if value.dtype is dtype else self._op("cast", value, dtype=dtype)

    def _reduce(self, op: str, value: Value, dims: tuple[int, ...]) -> Value:
        return self._op(op, value, dims=dims, keepdim=True)

    def _mean(self, value: Value) -> Value:
        return self._op("mean", value, dims=self._rows(), keepdim=True)

    def _add_outputs(self) -> None:
        """What nothing reads, now and then also what something reads; some of it narrow, some of it in place."""
        read = {fid for expr in self._builder.exprs for fid in expr.inputs}
        made = {fid for expr in self._builder.exprs for fid in expr.outputs}
        overwritten: set[int] = set()
        for value in dict.fromkeys((*self._activations, *self._others)):
            if value.fid not in made or (value.fid in read and self._rng.random() < 0.75):
                continue
            if value.tensor.shape == self._shape and self._rng.random() < 0.7:
                value = self._cast(value, self._narrow)
            self._builder.output(value, name=f"y{len(self._builder.outputs)}", alias=self._target(value, overwritten))

    def _target(self, value: Value, overwritten: set[int]) -> Value | None:
        """An input for ``value`` to overwrite, each at most once; mostly none."""
        fits = [fid for fid in self._builder.inputs if self._builder.values[fid].type == value.type]
        free = [fid for fid in fits if fid not in overwritten]
        if not free or self._rng.random() > IN_PLACE_CHANCE:
            return None
        overwritten.add(free[0])
        return self._builder.values[free[0]]
