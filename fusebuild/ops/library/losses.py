"""Losses: the difference of a prediction and a target, each element's or their mean or sum."""

from __future__ import annotations

from fusebuild.ir.formula import product
from fusebuild.ops.library.composite import Operand, Ops, Term, library


@library("l1_loss(input: T[M, N], target: T[M, N])")
def l1_loss(ops: Ops, input: Term, target: Term, reduction: str = "mean") -> Term:
    """abs(input - target)."""
    return _reduced(ops, ops.abs(ops.float_of(input) - target), reduction)


@library("mse_loss(input: T[M, N], target: T[M, N])")
def mse_loss(ops: Ops, input: Term, target: Term, reduction: str = "mean") -> Term:
    """The square of input - target."""
    difference = ops.float_of(input) - target
    return _reduced(ops, difference * difference, reduction)


@library("smooth_l1_loss(input: T[M, N], target: T[M, N])")
def smooth_l1_loss(ops: Ops, input: Term, target: Term, reduction: str = "mean", beta: Operand = 1.0) -> Term:
    """abs(input - target) less beta / 2, and half of its square over beta where it is below beta."""
    distance = ops.abs(ops.float_of(input) - target)
    loss = ops.where(distance < beta, 0.5 * distance * distance / beta, distance - 0.5 * beta)
    return _reduced(ops, loss, reduction)


@library("huber_loss(input: T[M, N], target: T[M, N])")
def huber_loss(ops: Ops, input: Term, target: Term, reduction: str = "mean", delta: Operand = 1.0) -> Term:
    """smooth_l1_loss with delta for beta, times delta."""
    distance = ops.abs(ops.float_of(input) - target)
    loss = ops.where(distance <= delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta))
    return _reduced(ops, loss, reduction)


@library("binary_cross_entropy(input: T[M, N], target: T[M, N])")
def binary_cross_entropy(
    ops: Ops, input: Term, target: Term, weight: Term | None = None, reduction: str = "mean"
) -> Term:
    """Of probabilities: logarithms are at least -100, as in torch."""
    x = ops.float_of(input)
    certain, opposite = (ops.maximum(each, -100.0) for each in (ops.log(x), ops.log1p(-x)))
    return _reduced(ops, _weighted((target - 1.0) * opposite - target * certain, weight), reduction)


@library("binary_cross_entropy_with_logits(input: T[M, N], target: T[M, N])")
def binary_cross_entropy_with_logits(
    ops: Ops, input: Term, target: Term, weight: Term | None = None, reduction: str = "mean",
    pos_weight: Term | None = None,
) -> Term:  # fmt: skip
    """Of logits, as (1 - target) * input - log(sigmoid(input)), which no logit overflows."""
    x = ops.float_of(input)
    log_sigmoid = ops.logsigmoid(x)
    share = log_sigmoid if pos_weight is None else ((pos_weight - 1.0) * target + 1.0) * log_sigmoid
    return _reduced(ops, _weighted((1.0 - target) * x - share, weight), reduction)


@library("kl_div(input: T[M, N], target: T[M, N])")
def kl_div(ops: Ops, input: Term, target: Term, reduction: str = "mean", log_target: bool = False) -> Term:
    """target * (log(target) - input), 0 where target is 0; reduction may be 'batchmean', the sum over the size of dim
    0."""
    x, t = ops.float_of(input), ops.float_of(target)
    loss = ops.exp(t) * (t - x) if log_target else ops.where(t > 0.0, t * ops.log(t), 0.0 * t) - t * x
    ops.one_of("reduction", reduction, "mean", "sum", "none", "batchmean")
    if reduction != "batchmean":
        return _reduced(ops, loss, reduction)
    return ops.sum(loss) / ops.size(extent=ops.tensor(input, "input").shape[0])


@library("nll_loss(input: T[M, N], target: int64[M])")
def nll_loss(
    ops: Ops, input: Term, target: Term, weight: Term | None = None, ignore_index: Operand = -100,
    reduction: str = "mean",
) -> Term:  # fmt: skip
    """Minus the logarithm that target picks along dim 1 of input (dim 0 of a vector), times its weight."""
    x = ops.float_of(ops.tensor(input, "input"))
    picked, counted = _picked(ops, x, target, weight, ignore_index)
    loss = ops.where(target.equals(ignore_index), 0.0, -picked)
    return _averaged(ops, loss, counted, reduction)


@library("cross_entropy(input: T[M, N], target: int64[M])")
def cross_entropy(
    ops: Ops, input: Term, target: Term, weight: Term | None = None, ignore_index: Operand = -100,
    reduction: str = "mean", label_smoothing: Operand = 0.0,
) -> Term:  # fmt: skip
    """logsumexp of input along dim 1 (dim 0 of a vector) less the logit that target picks, in one sweep; or, where
    target has probabilities, the sum of them times -log_softmax."""
    x = ops.float_of(ops.tensor(input, "input"))
    dim = _class_dim(x)
    if target.dtype.is_floating:
        return _of_probabilities(ops, x, target, weight, reduction, label_smoothing)
    total = ops.logsumexp(x, dims=(dim,))
    classes = _class_weights(ops, x, weight, dim)
    row, places = ops.unsqueeze(target, dim), _places(ops, x, dim)
    logit = ops.sum(ops.where(row.equals(places), x, 0.0), dims=(dim,))
    own = 1.0 if classes is None else ops.sum(ops.where(row.equals(places), classes, 0.0), dims=(dim,))
    is_ignored = target.equals(ignore_index)
    counted = _counted(ops, target, ignore_index, x) * own
    loss = ops.where(is_ignored, 0.0, (total - logit) * own)
    if label_smoothing == 0.0:
        return _averaged(ops, loss, counted, reduction)
    whole = _smoothed(ops, x, total, classes, dim)
    smooth = ops.where(is_ignored, 0.0, whole / ops.size(extent=x.shape[dim]))
    return _averaged(ops, (1.0 - label_smoothing) * loss + label_smoothing * smooth, counted, reduction)


def _smoothed(ops: Ops, x: Term, total: Term, classes: Term | None, dim: int) -> Term:
    """The sum of -log_softmax over all classes, each times its weight."""
    apart = ops.unsqueeze(total, dim) - x
    return ops.sum(apart if classes is None else apart * classes, dims=(dim,))


def _of_probabilities(
    ops: Ops, x: Term, target: Term, weight: Term | None, reduction: str, label_smoothing: Operand
) -> Term:
    dim = _class_dim(x)
    share = ops.float_of(target)
    if label_smoothing != 0.0:
        share = share * (1.0 - label_smoothing) + label_smoothing / ops.size(extent=x.shape[dim])
    if (classes := _class_weights(ops, x, weight, dim)) is not None:
        share = share * classes
    loss = -ops.sum(ops.log_softmax(x, dim) * share, dims=(dim,))
    ops.one_of("reduction", reduction, "mean", "sum", "none")
    if reduction != "mean":
        return _reduced(ops, loss, reduction)
    count = product([extent for place, extent in enumerate(x.shape) if place != dim])
    return ops.sum(loss) / ops.size(extent=count)


def _picked(ops: Ops, x: Term, target: Term, weight: Term | None, ignore_index: Operand) -> tuple[Term, Term]:
    """What target picks of ``x`` times its weight, and the weight, which is 0 where the target is ignored."""
    dim = _class_dim(x)
    hit = ops.unsqueeze(ops.tensor(target, "target"), dim).equals(_places(ops, x, dim))
    counted = _counted(ops, target, ignore_index, x)
    picked = ops.sum(ops.where(hit, x, 0.0), dims=(dim,))
    if (classes := _class_weights(ops, x, weight, dim)) is None:
        return picked, counted
    own = ops.sum(ops.where(hit, classes, 0.0), dims=(dim,))
    return picked * own, counted * own


def _class_dim(x: Term) -> int:
    """The dim that has the classes."""
    return 1 if x.rank > 1 else 0


def _but(rank: int, dim: int) -> tuple[bool, ...]:
    return tuple(place != dim for place in range(rank))


def _places(ops: Ops, x: Term, dim: int) -> Term:
    """The place of each element along ``dim``."""
    return ops.broadcast(ops.iota(0, 1, length=x.shape[dim]), is_broadcast_dim=_but(x.rank, dim))


def _counted(ops: Ops, target: Term, ignore_index: Operand, x: Term) -> Term:
    """1 where ``target`` is not ignored and 0 elsewhere, in the dtype of ``x``."""
    return ops.cast(ops.logical_not(target.equals(ignore_index)), dtype=x.dtype)


def _class_weights(ops: Ops, x: Term, weight: Term | None, dim: int) -> Term | None:
    """``weight``, which has an element for each class, beside ``x``, whose classes are along ``dim``."""
    if weight is None:
        return None
    if weight.rank != 1:
        raise ops.refuse(f"weight has {weight.rank} dims, not 1")
    return ops.broadcast(ops.float_of(weight), is_broadcast_dim=_but(x.rank, dim))


def _averaged(ops: Ops, loss: Term, counted: Term, reduction: str) -> Term:
    """``loss``, reduced; its mean is over the sum of the weights that are ``counted``."""
    if ops.one_of("reduction", reduction, "mean", "sum", "none") == "mean" and loss.rank:
        return ops.sum(loss) / ops.sum(counted)
    return loss / counted if reduction == "mean" else _reduced(ops, loss, reduction)


def _weighted(loss: Term, weight: Term | None) -> Term:
    return loss if weight is None else loss * weight


def _reduced(ops: Ops, loss: Term, reduction: str) -> Term:
    if ops.one_of("reduction", reduction, "mean", "sum", "none") == "none" or not loss.rank:
        return loss
    return ops.mean(loss) if reduction == "mean" else ops.sum(loss)
