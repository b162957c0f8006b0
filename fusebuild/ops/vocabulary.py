"""What torch and nvFuser call by names that are no op here, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fusebuild.errors import nearest
from fusebuild.ops.library import LIBRARY
from fusebuild.ops.table import OPS

LEAST_LIKENESS = 0.75
"""How like an op a name has to be to be taken for it. Ops have short names, many of which have most letters in common
with the name of another: no word is better than a wrong one."""

ANNOTATED = re.compile(r"(\w+): (\w+\[[^\]]*\])")
"""A tensor in an example, with its type."""

_SAYINGS = {
    "concat concatenate": "cat([x: T[M, N], y: T[M, N]], dim=1)",
    "hstack column_stack": "cat([x: T[M, N], y: T[M, N]], dim=1)",
    "vstack row_stack": "cat([x: T[M, N], y: T[M, N]], dim=0)",
    "split tensor_split unsafe_chunk hsplit vsplit unbind": "narrow(x: T[M, 32], dim=1, start=0, length=8)",
    "select": "squeeze(narrow(x: T[M, 32], dim=1, start=3, length=1), [1])",
    "repeat tile": "cat([x: T[M, N], x], dim=1)",
    "repeat_interleave": "reshape(expand(unsqueeze(x: T[M, N], 2), [M, N, 2]), [M, 2 * N])",
    "unflatten": "reshape(x: T[M, 32], [M, 4, 8])",
    "expand_dims": "unsqueeze(x: T[M, N], dim=1)",
    "expand_as broadcast_to": "expand(x: T[M, 1], [M, 8])",
    "view_as reshape_as": "reshape(x: T[M, 32], [M, 4, 8])",
    "t swapaxes swapdims adjoint mT": "transpose(x: T[M, N], 0, 1)",
    "movedim moveaxis": "permute(x: T[M, N], [1, 0])",
    "fliplr": "flip(x: T[M, N], dims=[1])",
    "flipud": "flip(x: T[M, N], dims=[0])",
    "index indexing getitem": "slice(x: T[M, 32], [0, 4], [M, 12])",
    "stride_order": "contiguous(permute(x: T[M, N], [1, 0]))",
    "type_as to astype type convert_element_type": "cast(x: T[M, N], bfloat16)",
    "long": "cast(x: T[M, N], int64)",
    "clone detach copy identity": "set(x: T[M, N])",
    "zeros zeros_like new_zeros empty empty_like": "full([M, N], 0.0)",
    "ones ones_like new_ones": "full([M, N], 1.0)",
    "full_like new_full": "full([M, N], 0.5)",
    "arange range linspace": "iota(N, start=0, step=1)",
    "eye": "cast(unsqueeze(iota(8), 1) == iota(8), float)",
    "numel tensor_sizes": "full([1], size(M))",
    "einsum mm bmm dot mv inner tensordot": "matmul(x: T[M, N], y: T[N, M])",
    "addmm baddbmm addmv": "bias: T[N] + matmul(x: T[M, K], y: T[K, N])",
    "outer ger": "unsqueeze(x: T[M], 1) * y: T[N]",
    "norm vector_norm": "sqrt(sum(x: T[M, N] * x, dims=[1]))",
    "sumsq": "sum(x: T[M, N] * x, dims=[1])",
    "count_nonzero": "sum(x: T[M, N] != 0, dims=[1])",
    "nansum": "sum(where(isnan(x: T[M, N]), 0.0, x), dims=[1])",
    "nanmean": "sum(where(isnan(x: T[M, N]), 0.0, x), dims=[1]) / sum(logical_not(isnan(x)), dims=[1])",
    "average": "mean(x: T[M, N], dims=[1])",
    "variance": "var(x: T[M, N], dims=[1])",
    "aminmax": "max(x: T[M, N], dims=[1])",
    "divide true_divide": "x: T[M, N] / y: T[M, N]",
    "multiply": "x: T[M, N] * y: T[M, N]",
    "subtract": "x: T[M, N] - y: T[M, N]",
    "rsub": "1.0 - x: T[M, N]",
    "floor_divide": "floor(x: T[M, N] / y: T[M, N])",
    "greater": "x: T[M, N] > y: T[M, N]",
    "less": "x: T[M, N] < y: T[M, N]",
    "greater_equal": "x: T[M, N] >= y: T[M, N]",
    "less_equal": "x: T[M, N] <= y: T[M, N]",
    "equal": "x: T[M, N] == y: T[M, N]",
    "not_equal logical_xor": "x: T[M, N] != y: T[M, N]",
    "absolute fabs": "abs(x: T[M, N])",
    "negative": "-x: T[M, N]",
    "positive": "set(x: T[M, N])",
    "sgn": "sign(x: T[M, N])",
    "fix": "trunc(x: T[M, N])",
    "clip": "clamp(x: T[M, N], min=0, max=1)",
    "fmax": "maximum(x: T[M, N], y: T[M, N])",
    "fmin": "minimum(x: T[M, N], y: T[M, N])",
    "expit": "sigmoid(x: T[M, N])",
    "swish": "silu(x: T[M, N])",
    "logit": "log(x: T[M, N] / (1.0 - x))",
    "xlogy": "where(x: T[M, N] == 0, 0.0, x * log(y: T[M, N]))",
    "hypot": "sqrt(x: T[M, N] * x + y: T[M, N] * y)",
    "sinc": "where(x: T[M, N] == 0, 1.0, sin(3.141592653589793 * x) / (3.141592653589793 * x))",
    "arctan2": "atan2(x: T[M, N], y: T[M, N])",
    "arccos": "acos(x: T[M, N])",
    "arcsin": "asin(x: T[M, N])",
    "arctan": "atan(x: T[M, N])",
    "exp2m1": "exp2(x: T[M, N]) - 1.0",
    "deg2rad": "x: T[M, N] * 0.017453292519943295",
    "rad2deg": "x: T[M, N] * 57.29577951308232",
    "nan_to_num": "where(isnan(x: T[M, N]), 0.0, x)",
    "diff": "slice(x: T[M, 32], [0, 1], [M, 32]) - slice(x, [0, 0], [M, 31])",
    "select_scatter slice_scatter": "pad(x: T[M, N], [1, 2])",
    "constant_pad_nd": "pad(x: T[M, N], [1, 1], 0.0)",
    "index_fill": "index_copy(x: T[M, N], index: int64[K], 0, dim=0)",
    "searchsorted bucketize digitize": "sum(unsqueeze(x: T[M], 1) > edges: T[N], dims=[1])",
    "bincount": "index_put_accumulate(full([8], 0), x: int64[N], 1)",
    "put_along_axis": "scatter(x: T[M, N], index: int64[M, K], src: T[M, K], dim=1)",
    "embedding_fwd": "embedding(table: T[V, N], ids: int64[M])",
    "rand uniform_": "uniform(0.0, 1.0, [M, N], rng_seed=1)",
    "randn": "normal(0.0, 1.0, [M, N], rng_seed=1)",
    "bernoulli": "uniform(0.0, 1.0, [M, N], rng_seed=1) < 0.3",
    "scaled_dot_product_attention sdpa sdpfa_fwd attention":
        "matmul(cast(softmax(matmul(q: T[M, K], k: T[K, N]), dim=1), T), v: T[N, K])",
}  # fmt: skip
"""What to write, for names: a call with the types of its tensors, where ``T`` is any dtype."""

_MISSING = {
    "scatter_reduce index_reduce masked_scatter histc":
        "places that an index names get the last update (scatter) or the sum of all (scatter_add), and nothing else",
    "dropout1d dropout2d alpha_dropout feature_dropout": "y, mask = dropout(x, p=0.1, rng_seed=1) is the only kind",
    "mode unique": "sizes of results depend on sizes alone; sort puts equal elements side by side",
    "msort": "values, indices = sort(x, dim=0)",
    "median quantile nanmedian nanquantile kthvalue": "values, indices = sort(x, dim=1), and a slice of the values",
    "nonzero masked_select argwhere": "sizes of results depend on sizes alone; where(mask, x, 0.0) keeps them",
    "conv1d conv2d conv3d conv_transpose2d unfold fold": "nothing convolves; matmul and linear are the only products",
    "max_pool1d max_pool2d avg_pool1d avg_pool2d adaptive_avg_pool2d interpolate grid_sample pixel_shuffle":
        "there is no pooling; reshape, and then max or mean over the dims of a window that do not overlap",
    "batch_norm": "write var_mean(x, dims=[0], correction=0), and the rest: recipes/batchnorm_train.yaml does",
    "randint randperm multinomial":
        "random numbers are uniform or normal: uniform, rand_like, dropout, normal, randn_like",
    "meshgrid cartesian_prod combinations": "broadcasting needs no grid: unsqueeze(x, 1) and y meet in any op",
    "fft ifft rfft stft svd qr eig inverse inv det cholesky solve": "there is no linear algebra but matmul and linear",
    "view_as_complex view_as_real polar complex angle conj": "there are no complex numbers",
    "backward grad autograd": "gradients are recipes of their own: recipes/softmax_backward.yaml is one",
    "item tolist numpy": "numbers are scalars of the recipe, tensors are its inputs",
    "cond while_loop map vmap": "a fusion has no control flow: where(condition, x, y) chooses",
    "grouped_mm scaled_mm cutlass_nvfp4_scaled_mm": "matmul and linear are the only products",
}  # fmt: skip
"""Why there is nothing of a name, and the way around."""


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: text for names, text in table.items() for name in names.split()}


SAYINGS, MISSING = _by_name(_SAYINGS), _by_name(_MISSING)


def meant(name: str, others: Iterable[str] = ()) -> str:
    """A hint for ``name``, which nothing is called: what it is here, what to write, why there is none, or the nearest
    of all ops, composites and ``others``. Names of torch's modules and of what works in place are understood."""
    known = [*OPS, *LIBRARY, *others]
    for spelling in _spellings(name):
        if spelling in known:
            return f"did you mean '{spelling}'?"
        if spelling in SAYINGS:
            return f"write {written(SAYINGS[spelling])}"
        if spelling in MISSING:
            return MISSING[spelling]
    return nearest(name, known, LEAST_LIKENESS)


def written(example: str) -> str:
    """``example`` without the types of its tensors."""
    return re.sub(r"\bT\b", "half", ANNOTATED.sub(r"\1", example))


def _spellings(name: str) -> tuple[str, ...]:
    """How else ``name`` may be written: ``LayerNorm`` and ``layer_norm_`` are ``layer_norm``."""
    bare = name.strip("_")
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", bare).lower()
    return tuple(dict.fromkeys([bare, snake, bare.lower(), snake.replace("_", "")]))
