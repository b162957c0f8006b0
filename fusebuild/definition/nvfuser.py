"""nvFuser's Python frontend as data: a row for each op and each method that a definition may call there.

``signature`` has the arguments and defaults of nvFuser's frontend, from which users schedule nothing. A row without
``lacks`` is one that :class:`~fusebuild.definition.FusionDefinition` takes with every argument; ``lacks`` says what is
missing, why, and what to write instead. ``docs/guide/nvfuser_ops.md`` is made from these rows, and tests hold them
against what the recorder takes.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import StrEnum


class Support(StrEnum):
    """How much of a row the recorder takes."""

    YES = "yes"
    PARTLY = "partly"  # the name is there; some argument is refused
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvfuserCall:
    """``signature`` is text such as ``sum(arg, dims=None, keepdim=False)``."""

    signature: str
    support: Support = Support.YES
    lacks: str = ""

    @property
    def name(self) -> str:
        return self.signature.partition("(")[0]

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the arguments in order, those that go by name alone last."""
        arguments = self._parsed()
        return (*(each.arg for each in arguments.args), *(each.arg for each in arguments.kwonlyargs))

    @property
    def positional(self) -> int:
        """How many arguments may go by position."""
        return len(self._parsed().args)

    @property
    def required(self) -> tuple[str, ...]:
        """The arguments without a default; those that go by name alone have one."""
        arguments = self._parsed()
        return tuple(each.arg for each in arguments.args[: len(arguments.args) - len(arguments.defaults)])

    def _parsed(self) -> ast.arguments:
        parsed = ast.parse(f"def {self.signature}: ...").body[0]
        assert isinstance(parsed, ast.FunctionDef)
        return parsed.args


def _yes(*signatures: str) -> tuple[NvfuserCall, ...]:
    return tuple(NvfuserCall(signature=signature) for signature in signatures)


def _partly(signature: str, lacks: str) -> NvfuserCall:
    return NvfuserCall(signature=signature, support=Support.PARTLY, lacks=lacks)


def _no(signature: str, lacks: str) -> NvfuserCall:
    return NvfuserCall(signature=signature, support=Support.NO, lacks=lacks)


_UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf erfc erfcinv erfinv exp exp2 expm1 floor frac "
    "isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2 logical_not neg real reciprocal relu "
    "round rsqrt segment_set set sigmoid sign signbit silu sin sinh sqrt tan tanh trunc"
)
_BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor div eq fmod gcd ge gt le "
    "logical_and logical_or logical_right_shift lt maximum minimum mod mul ne nextafter pow remainder sub truediv"
)

DEFINITION_CALLS = (
    *_yes(
        "define_tensor(shape, contiguity=None, dtype=None, is_cpu=False, stride_order=None)",
        "define_scalar(value=None, dtype=None)",
        "define_vector(values, dtype=None)",
        "from_pytorch(tensor, static_sizes=False)",
    ),
    _partly(
        "add_output(output, alias_input=None, stride_order=None)",
        "a scalar is no output: give `full([], scalar)`",
    ),
    _partly(
        "execute(inputs, *, device=None, override_user_schedule=False, capture_debug_output=False, profile=False)",
        "`inputs` and `device`: nothing is scheduled by users; `fusebuild bench` and `fusebuild inspect` profile and "
        "explain",
    ),
    *_yes(
        "definition()",
        "inputs()",
        "outputs()",
        "extents()",
        "segment(inputs)",
        "validate(inputs, reference_outputs=None)",
        "repro_script_for(inputs=None)",
    ),
    _no("profile()", "`fusebuild bench` measures"),
    _no("last_cuda_code()", "`fusebuild compile --dump FOLDER` writes every kernel"),
    _no("last_scheduled_fusion_ir()", "`fusebuild inspect` shows segments, variants and guards"),
)
"""What a definition itself may be asked."""

OP_CALLS = (
    *_yes(*(f"{name}(arg)" for name in _UNARY.split())),
    _no("imag(arg)", "there are no complex dtypes: keep real and imaginary parts as two tensors"),
    *_yes(*(f"{name}(arg1, arg2)" for name in _BINARY.split())),
    *_yes(
        "where(arg1, arg2, arg3)",
        "lerp(arg1, arg2, arg3)",
        "clamp(arg, min, max)",
        "threshold(arg, threshold, value)",
        "addcmul(arg1, arg2, arg3, value)",
        "cast(arg, dtype)",
        "sum(arg, dims=None, keepdim=False, dtype=None)",
        "prod(arg, dims=None, keepdim=False, dtype=None)",
        "mean(arg, dims, keepdim=False, dtype=None)",
        "var(arg, dims, correction=1, keepdim=False)",
        "var_mean(arg, dims, correction=1, keepdim=False)",
        "welford(arg, dims)",
        "cumsum(arg, dim)",
        "cumprod(arg, dim)",
        "topk(arg, k, dim=-1, largest=True, sorted=False)",
        "argsort(arg, dim, descending=False, stable=False)",
        "cummin(arg, dim)",
        "cummax(arg, dim)",
        "triu(arg, diagonal=0)",
        "matmul(arg1, arg2)",
        "linear(arg1, arg2, bias=None)",
        "broadcast(arg, is_broadcast_dim)",
        "permute(arg, dims)",
        "squeeze(arg, dims, squeeze_expanded=False)",
    ),
    *_yes(
        "max(arg, dims=None, keepdim=False, dtype=None)",
        "min(arg, dims=None, keepdim=False, dtype=None)",
        "broadcast_in_dim(arg, shape, broadcast_dims)",
        "expand(arg, shape)",
        "reshape(arg, new_shape)",
        "slice(arg, start_indices, end_indices, strides=None, manual_normalization=False)",
        "full(shape, fill_value, dtype)",
        "iota(length, start=None, step=None, dtype=None)",
        "pad(arg, pad_widths, value=None)",
        "cat(tensors, dim=0, manual_padding=False)",
        "stride_order(arg, stride_order)",
    ),
    _partly(
        "embedding_fwd(input, weight, padding_idx=None, max_norm=None, norm_type=None, scale_grad_by_freq=None, "
        "sparse=None)",
        "`max_norm` scales what is read, as torch does, and leaves `weight` as it is, which torch overwrites",
    ),
    *_yes(
        "index_select(arg, index, dim)",
        "gather(arg, index, dim)",
        "take_along_axis(arg, index, dim)",
        "select(arg, index, dim)",
        "size(arg, dim)",
        "shape(arg)",
    ),
    *_yes(
        "uniform(minval, maxval, shape, *, rng_seed=None, rng_offset=None, dtype=None)",
        "normal(mean, std, shape, *, rng_seed=None, rng_offset=None, dtype=None)",
    ),
    _partly(
        "scatter(arg, index, src, dim)",
        "along other dims than `dim`, `index` and `src` have the sizes of `arg`; of several updates for one place the "
        "last one stays",
    ),
    *_yes("index_put_accumulate(acc, index, value)"),
    _no("sdpfa_fwd(query, key, value, dropout_p=None, is_causal=None, scale=None)",
        "attention is a library call of torch: use scaled_dot_product_attention between two fusions"),
    _no("sdpfa_bwd(grad_output, query, key, value, output, log_sumexp, dropout_p, is_causal, philox_seed, "
        "philox_offset, scale)", "attention is a library call of torch: its autograd has this one"),
)  # fmt: skip
"""``fd.ops``."""
