"""The class that a definition is: what it records, says, cuts and runs. The package's docstring shows its use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fusebuild.definition.ops import Ops
from fusebuild.definition.recorder import DefinitionRecorder, caller
from fusebuild.definition.repro import repro_script
from fusebuild.definition.sizes import with_rulers
from fusebuild.definition.text import PythonText, RecipeText
from fusebuild.definition.values import DataType, Scalar, Tensor, Vector
from fusebuild.errors import RecipeError, UsageError, counted
from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import Literal
from fusebuild.ops.builder import literal_dtype
from fusebuild.ops.type_rules import TypeRuleError
from fusebuild.recipe.names import name_problem

if TYPE_CHECKING:
    from fusebuild.definition.run import Cut
    from fusebuild.definition.shared_views import SharedViews
    from fusebuild.runtime.loader import LoadedPlan

DEFAULT_TARGET = "sm_90"
"""What :meth:`FusionDefinition.segment` cuts for when it gets neither a target nor tensors."""


class FusionDefinition:
    """Records a Fusion: in a ``with`` block, or by a subclass's :meth:`definition` on first use.

    Everything wrong with a call raises :class:`~fusebuild.errors.RecipeError` with the file and line of that call.
    ``segments`` and ``segment_index_space_maps`` are filled by :meth:`segment`: the segments in run order, each a
    definition of its own, and for each the map from its fids to the fids here.
    """

    def __init__(self, id: int | None = None, *, name: str | None = None) -> None:
        """``name`` is what the Fusion and its recipe are called: ``nvfuser_fusion_id<id>`` unless given."""
        name = name or f"nvfuser_fusion_id{id or 0}"
        problem, _ = name_problem(name)
        if problem:
            raise UsageError(problem)
        self._recorder = DefinitionRecorder(name)
        self._fusion: Fusion | None = None
        self._cut: Cut | None = None
        self._plans: dict[object, LoadedPlan] = {}
        self._shared: SharedViews | None = None
        self.ops = Ops(self._recorder)
        self.segments: list[FusionDefinition] = []
        self.segment_index_space_maps: dict[FusionDefinition, dict[int, int]] = {}

    def __enter__(self) -> FusionDefinition:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._finish()

    def definition(self) -> None:
        """What a subclass overrides to record itself: ``self.define_tensor(…)``, ``self.ops.add(…)``, …"""

    @property
    def fusion(self) -> Fusion:
        """The recorded Fusion; asking for it ends the recording."""
        return self._finish()

    def _finish(self) -> Fusion:
        if self._fusion is None:
            if not self._recorder.builder.values:
                self.definition()
            if not self._recorder.builder.outputs:
                hint = "end it with fd.add_output(tensor)"
                raise RecipeError.at(caller(), "the definition has no outputs", hint)
            self._fusion = self._recorder.snapshot()
            self._recorder.is_open = False
        return self._fusion

    def define_tensor(
        self,
        shape: int | Sequence[int] | None = None,
        contiguity: bool | Sequence[bool | None] | None = None,
        dtype: DataType = DataType.Float,
        is_cpu: bool = False,
        stride_order: Sequence[int] | None = None,
        **legacy: Any,
    ) -> Tensor:
        """A tensor input. ``shape`` has -1 for each unknown size, 1 for each broadcast dim; a number of dims alone
        makes all of them unknown.

        Older spellings are accepted: ``ndim=`` or ``ndims=`` for a number of dims, ``symbolic_sizes=`` for ``shape``,
        and ``sizes=`` with ``strides=`` (and ``static_sizes=``) for a tensor described by example.
        """
        with self._recorder.recording() as place:
            if "sizes" in legacy:
                static = bool(legacy.pop("static_sizes", False))
                layout = described(legacy.pop("sizes"), legacy.pop("strides", None), static=static)
                shape, contiguity, stride_order = layout
            for name in ("ndim", "ndims", "symbolic_sizes"):
                shape = legacy.pop(name, shape)
            if legacy:
                raise TypeRuleError(f"define_tensor has no argument '{next(iter(legacy))}'")
            dims = _dims_of(shape)
            order = tuple(reversed(range(len(dims)))) if not stride_order else tuple(stride_order)
            value = self._recorder.builder.tensor(
                _dtype_of(dtype, DType.FLOAT),
                [self._recorder.fresh_symbol() if dim == -1 else dim for dim in dims],
                contiguity=_by_dim(contiguity, order, len(dims)),
                stride_order=order,
                cpu=is_cpu,
                location=place,
            )
            return Tensor(self._recorder, value.fid)

    def from_pytorch(self, tensor: Any, static_sizes: bool = False) -> Tensor:
        """A tensor input with the dtype and layout of ``tensor``; sizes other than 1 are unknown unless static.

        A tensor without dims in host memory is read as a scalar.
        """
        with self._recorder.recording():
            dtype = dtype_of_torch(tensor.dtype)
            shape, contiguity, order = described(list(tensor.size()), list(tensor.stride()), static=static_sizes)
            is_cpu = tensor.dim() == 0 and tensor.device.type == "cpu"
            return self.define_tensor(shape, contiguity, dtype, is_cpu, order)

    def define_scalar(self, value: Literal | DataType | None = None, dtype: DataType | None = None) -> Scalar:
        """A constant, or an argument given at run time when ``value`` is None (of ``dtype``, Double unless given)."""
        with self._recorder.recording():
            if isinstance(value, DataType):
                value, dtype = None, value
            if value is not None and not isinstance(value, bool | int | float):
                raise TypeRuleError(f"a constant is a number, True or False, not {type(value).__name__}")
            default = DType.DOUBLE if value is None else literal_dtype(value)
            wanted = default if dtype is None else _dtype_of(dtype, default)
            made = self._recorder.argument(wanted) if value is None else self._recorder.constant(value, wanted)
            return Scalar(self._recorder, made.fid)

    def define_constant(self, value: Literal, dtype: DataType | None = None) -> Scalar:
        """:meth:`define_scalar` with a value."""
        return self.define_scalar(value, dtype)

    def define_vector(self, values: Sequence[Scalar | int], dtype: DataType = DataType.Int) -> Vector:
        """A vector of scalars; integers among ``values`` become constants first."""
        with self._recorder.recording():
            if not isinstance(values, Sequence) or isinstance(values, str):
                raise TypeRuleError("define_vector takes a list of integers and scalars")
            return self._recorder.vector(values, _dtype_of(dtype, DType.INT64))

    def add_output(
        self, output: Tensor, alias_input: Tensor | None = None, stride_order: Sequence[int] | None = None
    ) -> None:
        """Make ``output`` a result. With ``alias_input`` it overwrites that input and is not among what
        :meth:`execute` returns. Else it lies in memory as ``stride_order`` says, which gives each dim's place from the
        innermost, 0, on: row-major unless given here or to ``fd.ops.stride_order``."""
        with self._recorder.recording() as place:
            if not isinstance(output, Tensor):
                what = "a scalar" if isinstance(output, Scalar) else type(output).__name__
                raise TypeRuleError(f"an output is a tensor, not {what}")
            builder, value = self._recorder.builder, self._recorder.own(output)
            if alias_input is None and (order := self._recorder.order_of(value, stride_order)) is not None:
                return self._recorder.lay_out(value, order)
            if alias_input is not None and stride_order and alias_input.is_tensor():
                own = self._recorder.own(alias_input).tensor.stride_order
                if tuple(stride_order) != own:
                    raise TypeRuleError(
                        f"stride_order {list(stride_order)}: an output that overwrites an input lies as that does, "
                        f"{list(own)}"
                    )
            if value.fid in (*builder.inputs, *(done.fid for done in builder.outputs)):
                value = self._recorder.call("set", [value], {})[0]
            alias = None if alias_input is None else self._recorder.own(alias_input)
            if alias is not None and alias.is_tensor and alias.tensor.rank == value.tensor.rank:
                for a, b in zip(value.tensor.shape, alias.tensor.shape, strict=True):
                    self._recorder.unify(a, b)
            if alias is not None and alias.fid not in builder.inputs:
                raise TypeRuleError(f"output {value.name} aliases {alias.name}, which is no input")
            current = self._recorder.value(value.fid)
            builder.output(current, alias=alias and self._recorder.value(alias.fid), location=place)

    def inputs(self) -> list[int]:
        """The fids of the inputs, in the order of arguments."""
        return [fid for fid in self.fusion.inputs if fid not in self._recorder.unwritten]

    def outputs(self) -> list[int]:
        """The fids of the outputs, those that overwrite inputs too."""
        return list(self.fusion.output_fids)

    def extents(self) -> list[int]:
        """The fids of the extents: -1, -2, … for every dim of every tensor input in order."""
        return [binding.fid for binding in self.fusion.extents]

    def __repr__(self) -> str:
        """A Python function that records this definition."""
        is_waiting = not self._recorder.builder.values and type(self).definition is not FusionDefinition.definition
        fusion = self._fusion or (self._finish() if is_waiting else self._recorder.snapshot())
        return str(PythonText(fusion, self._recorder.as_written))

    def to_yaml(self) -> str:
        """A recipe that computes the same: its inputs are the tensors here in order, then the scalars.

        Raises :class:`UsageError` for a segment in which a size of an input that it does not read matters.
        """
        return str(RecipeText(self.fusion))

    def segment(self, inputs: Sequence[Any] | None = None, *, target: str | None = None) -> int:
        """Cut the Fusion and fill ``segments`` and ``segment_index_space_maps``; returns the number of segments.

        The cut is for ``target``, else for the device of ``inputs``, else for :data:`DEFAULT_TARGET`. It needs no GPU
        and does not depend on sizes. Raises :class:`ScheduleError` and :class:`UsageError`.
        """
        count = self.setup_segmentation(inputs, target=target)
        self.segments, self.segment_index_space_maps = [], {}
        for segment_id in range(count):
            segment = FusionDefinition()
            self.segment_index_space_maps[segment] = self.build_segment(segment, segment_id)
            self.segments.append(segment)
        self.finalize_segmentation()
        return count

    def setup_segmentation(self, inputs: Sequence[Any] | None = None, *, target: str | None = None) -> int:
        """The first step of :meth:`segment`: cut; returns the number of segments."""
        from fusebuild.definition.run import definitions, target_for
        from fusebuild.target.table import find_target

        if target or inputs is None:
            chosen = find_target(target or DEFAULT_TARGET)
        else:
            self._check_list(inputs)
            chosen = target_for(self._device_of(inputs))
        self._cut = definitions.cut(self.fusion, chosen)
        return len(self._cut.segmented.segments)

    def build_segment(self, other: FusionDefinition, segment_id: int) -> dict[int, int]:
        """The second step: make the new definition ``other`` the segment ``segment_id``; returns the map from its
        input and output fids to those of this definition. Raises :class:`UsageError` for what there is not."""
        from fusebuild.definition.segment_dims import in_the_callers_dims

        if self._cut is None:
            raise UsageError("there is no segmentation: call setup_segmentation first")
        segments = self._cut.segmented.segments
        if not 0 <= segment_id < len(segments):
            raise UsageError(f"there is no segment {segment_id}, only {len(segments)}")
        if other._fusion is not None or other._recorder.builder.values:
            raise UsageError("a segment is built into a new definition; this one has something recorded")
        fusion, fid_map = in_the_callers_dims(segments[segment_id], self._cut.segmented.fusion)
        other._fusion = replace(fusion, name=f"{self.fusion.name}_{segment_id}")
        other._recorder.is_open = False
        return {int(own): self._cut.fids[shared] for own, shared in fid_map.items()}

    def finalize_segmentation(self) -> None:
        """The last step: forget the cut; the segments that were built stay."""
        self._cut = None

    def execute(self, inputs: Sequence[Any], *, device: Any = None, share: bool = False) -> list[Any]:
        """Run on ``inputs``, torch tensors and numbers in the order of :meth:`inputs`; returns the outputs, but for
        those that overwrite inputs. ``device`` is torch's, or a name such as ``"cuda:0"``: that of the tensors unless
        given, and the CPU where there are none. Outputs that only view an input, such as its reshape, are copies of it
        unless the caller lets them ``share`` its memory.

        Each call draws a seed from torch's generator for every random op that was recorded without one.
        The first call compiles for the device of the tensors, the CPU included, into
        ``$FUSEBUILD_CACHE_DIR/definitions`` (``~/.cache/fusebuild/definitions``); equal definitions share that.
        Raises ``TypeError`` and ``ValueError`` for inputs that do not fit, and what compiling raises.
        """
        device = self._device_of(inputs) if device is None else _device_named(device)
        completed = self._completed(inputs, device)
        return self._given_back(self._sharing(completed, device) if share else self._run(completed, device))

    def validate(self, inputs: Sequence[Any], reference_outputs: Sequence[Any] | None = None) -> list[Any]:
        """:meth:`execute`, its results compared with ``reference_outputs``, else with an evaluation in double
        precision under the bounds of ``fusebuild verify``. Raises ``AssertionError`` that names the first output that
        is too far from what was wanted."""
        from fusebuild.definition.validation import require_close

        device = self._device_of(inputs)
        completed = self._completed(inputs, device)
        return self._given_back(require_close(self, completed, reference_outputs, device))

    def repro_script_for(self, inputs: Sequence[Any] | None = None) -> str:
        """A script that records this definition and, given ``inputs``, executes it on tensors like them."""
        return repro_script(self.fusion.name, repr(self), inputs)

    def _run(self, completed: Sequence[Any], device: Any) -> tuple[Any, ...]:
        """What the plan for ``device`` gives for all inputs of the Fusion."""
        return self._computed(self.fusion, completed, device)

    def _sharing(self, completed: Sequence[Any], device: Any) -> tuple[Any, ...]:
        """:meth:`_run` but for outputs that view inputs, which are views."""
        from fusebuild.definition.shared_views import shared_views

        if self._shared is None:
            self._shared = shared_views(self.fusion)
        views = self._shared.made(completed)
        rest = self._shared.rest
        others = iter(() if rest is None else self._computed(rest, completed, device))
        return tuple(views[place] if place in views else next(others) for place in range(len(self.fusion.outputs)))

    def _computed(self, fusion: Fusion, completed: Sequence[Any], device: Any) -> tuple[Any, ...]:
        """What the plan of ``fusion``, which has the inputs of this definition, gives on ``device``."""
        is_tensor = [fusion.value(fid).is_tensor for fid in fusion.inputs]
        tensors = [given for given, tensor in zip(completed, is_tensor, strict=True) if tensor]
        scalars = [given for given, tensor in zip(completed, is_tensor, strict=True) if not tensor]
        results = self._plan_for(device, fusion)(*tensors, *scalars)
        return results if isinstance(results, tuple) else (results,)

    def _given_back(self, results: Sequence[Any]) -> list[Any]:
        """Those of ``results`` that overwrite no input, in the author's dims."""
        outputs = zip(self._in_their_dims(results), self.fusion.outputs, strict=True)
        return [result for result, output in outputs if output.alias is None]

    def _in_their_dims(self, results: Sequence[Any]) -> list[Any]:
        """``results`` with their dims in the author's order: those of another stride order are computed with the
        outermost dim first."""
        laid = self._recorder.laid_out
        return [
            result.permute(laid[fid]) if fid in laid else result
            for fid, result in zip(self.fusion.output_fids, results, strict=True)
        ]

    def _check_list(self, inputs: object) -> None:
        if not isinstance(inputs, Sequence) or isinstance(inputs, str):
            raise TypeError(f"{self.fusion.name}: expected a list of inputs, got {type(inputs).__name__}")

    def _device_of(self, inputs: Sequence[Any]) -> Any:
        """The device of the first tensor that is not read as a scalar; None without one."""
        self._check_list(inputs)
        values = [self.fusion.value(fid) for fid in self.inputs()]
        for value, given in zip(values, inputs, strict=False):
            if value.is_tensor and not value.tensor.cpu and hasattr(given, "device"):
                return given.device
        return None

    def _completed(self, inputs: Sequence[Any], device: Any) -> list[Any]:
        """``inputs``, and in their places what no caller gives: tensors as long as the numbers that are sizes, and
        seeds for the random ops that were given none, from torch's generator of the CPU, whatever the device is, so
        that ``torch.manual_seed`` repeats them and no GPU is waited for."""
        self._check_list(inputs)
        if len(inputs) != len(own := self.inputs()):
            raise TypeError(f"{self.fusion.name}: expected {counted(len(own), 'input')}, got {len(inputs)}")
        given = dict(zip(own, inputs, strict=True))
        given |= {fid: _drawn_seed() for fid in self.fusion.inputs if fid in self._recorder.drawn}
        given = with_rulers(self.fusion, self._recorder.rulers, given, device)
        return [given[fid] for fid in self.fusion.inputs]

    def _plan_for(self, device: Any, fusion: Fusion | None = None) -> LoadedPlan:
        """What runs on ``device``, the whole definition unless ``fusion`` is a part of it; compiled on first use."""
        fusion = fusion or self.fusion
        key = (device, fusion.output_fids)
        if key not in self._plans:
            from fusebuild.definition.run import definitions, target_for

            self._plans[key] = definitions.loaded(fusion, target_for(device))
        return self._plans[key]


def _device_named(device: Any) -> Any:
    import torch

    return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)


def _drawn_seed() -> int:
    import torch

    return int(torch.randint(2**63 - 1, ()).item())


def _dtype_of(dtype: object, default: DType) -> DType:
    """What ``dtype`` stands for; ``default`` for Null."""
    if not isinstance(dtype, DataType):
        raise TypeRuleError(f"dtype must be a DataType, not {dtype!r}")
    named: DType | None = dtype.value
    return named or default


def dtype_of_torch(dtype: Any) -> DataType:
    from fusebuild.oracle.reference import torch_dtype

    for known in DataType:
        if known.value is not None and torch_dtype(known.value) == dtype:
            return known
    raise TypeRuleError(f"there is no DataType for {dtype}")


def _dims_of(shape: object) -> list[int]:
    """Sizes, -1 for each unknown one."""
    if isinstance(shape, int) and not isinstance(shape, bool):
        return [-1] * shape
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise TypeRuleError("define_tensor needs a shape, such as shape=[-1, -1], or a number of dims")
    for dim in shape:
        if isinstance(dim, bool) or not isinstance(dim, int) or dim < -1:
            raise TypeRuleError(f"define_tensor: a size is -1 (unknown), 0 or more, not {dim!r}")
    return list(shape)


def _by_dim(
    contiguity: bool | Sequence[bool | None] | None, order: Sequence[int], rank: int
) -> tuple[bool | None, ...] | None:
    """Contiguity by dim, from nvFuser's order: outermost in memory first."""
    if contiguity is None or isinstance(contiguity, bool):
        return (bool(contiguity),) * rank
    if len(contiguity) != rank or sorted(order) != list(range(rank)):
        return tuple(contiguity)  # the type rules say what is wrong
    return tuple(contiguity[rank - 1 - position] for position in order)


def described(
    sizes: Sequence[int], strides: Sequence[int] | None, *, static: bool
) -> tuple[list[int], list[bool | None], list[int]]:
    """``(shape, contiguity, stride order)`` of a tensor with ``sizes`` and ``strides``, contiguity in memory order.

    A stride of 0 says nothing about a dim's place in memory: it keeps its own position among all.
    """
    rank = len(sizes)
    dense = [math.prod(max(size, 1) for size in sizes[dim + 1 :]) for dim in range(rank)]
    steps = dense if strides is None else list(strides)
    outermost_first = sorted((dim for dim in range(rank) if steps[dim]), key=lambda dim: -steps[dim])
    for dim in range(rank):
        if not steps[dim]:
            outermost_first.insert(dim, dim)
    flags: list[bool | None] = []
    expected = 1
    for dim in reversed(outermost_first):
        is_broadcast = sizes[dim] == 1 or steps[dim] == 0
        flags.insert(0, None if is_broadcast else steps[dim] == expected)
        if not is_broadcast:
            expected = steps[dim] * sizes[dim]
    order = [0] * rank
    for position, dim in enumerate(outermost_first):
        order[dim] = rank - 1 - position
    return [size if static or size == 1 else -1 for size in sizes], flags, order
