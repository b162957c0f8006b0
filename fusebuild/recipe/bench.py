"""The ``bench`` section of a recipe: what its kernels are measured beside, and at which sizes. It changes no plan.

```
bench {reference: expression   cases: [{symbol: size}]}
```

The reference is one Python expression over the names of inputs, scalars and symbols. It is read with Python's parser
and never run as Python: numbers, texts as arguments, tuples and lists, arithmetic, calls of ``F.NAME`` (functions of
``torch.nn.functional``), of the functions and dtypes of ``torch`` and of the methods of tensors that are listed here,
and nothing else. Torch is not needed to read it; ``fusebuild.bench`` finds the functions when it measures.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fusebuild.errors import SourceLocation, nearest
from fusebuild.ir.dtype import DType
from fusebuild.recipe.body import BodyText, parsing
from fusebuild.recipe.text import Problems, Scalar, Source


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FUNCTIONS_AND_METHODS = _names(
    """abs add all amax amin any argmax argmin clamp clamp_max clamp_min cos cumprod cumsum div eq erf exp exp2 expm1
    flatten floor fmod ge gt le lerp log log1p log2 logsumexp lt matmul maximum mean minimum mul ne neg norm permute pow
    prod reciprocal relu remainder reshape round rsqrt sigmoid sign sin softmax sqrt square squeeze std sub sum tanh
    transpose trunc unsqueeze var where"""
)
TORCH_FUNCTIONS = _FUNCTIONS_AND_METHODS | _names(
    """addcdiv addcmul addmm atan2 baddbmm bmm cat ceil count_nonzero einsum empty_like erfc full full_like isfinite
    isinf isnan layer_norm log10 log_softmax logical_and logical_not logical_or mm native_layer_norm ones_like outer
    rms_norm stack std_mean tan true_divide var_mean zeros_like"""
)
"""The functions of ``torch`` that a reference may call."""

TENSOR_METHODS = _FUNCTIONS_AND_METHODS | _names(
    """bfloat16 bool clone contiguous copy_ double expand expand_as float half int long masked_fill movedim t to type_as
    unflatten view"""
)
"""The methods of tensors that a reference may call."""

TORCH_DTYPES = frozenset(name for dtype in DType for name in (dtype.row.torch, *dtype.row.torch_spellings))
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)
_ACCEPTED = "a reference holds names, numbers, lists, arithmetic and calls of F., torch. and tensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A reference that was read: its text, which only :func:`reference_expression` takes apart, and where it stands."""

    text: str
    place: SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSpec:
    """What a recipe says about measuring it. ``cases`` replace the recipe's own first case where there are any."""

    reference: Reference | None = None
    cases: tuple[Mapping[str, int], ...] = ()


def reference_expression(text: str) -> ast.expr:
    """``text`` as a syntax tree. Raises ``SyntaxError`` where Python's grammar does not accept it, ``RecursionError``
    or ``MemoryError`` where it is nested too deeply."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text.strip("\n"), mode="eval").body


def read_reference(source: Source, scalar: Scalar, names: Sequence[str], problems: Problems) -> Reference | None:
    """The reference in ``scalar``, or None after reporting everything in it that is not accepted. ``names`` are those
    of inputs, scalars and symbols."""
    if not scalar.is_verbatim:
        message = "the reference is not a literal block"
        problems.add(scalar.location, message, "write 'reference: |' and indent the lines")
        return None
    text = BodyText(source, scalar)
    before = len(problems.found)
    with parsing(text, "the reference", problems):
        _Check(text, names, problems).check(reference_expression(scalar.text))
    if len(problems.found) > before:
        return None
    return Reference(text=scalar.text.strip("\n"), place=text.at(1, 0, len(scalar.text.split("\n")[0])))


class _Check:
    """Reports every part of one expression that is not accepted."""

    def __init__(self, text: BodyText, names: Sequence[str], problems: Problems) -> None:
        self._text, self._names, self._problems = text, names, problems

    def _refuse(self, node: ast.AST, message: str, hint: str = "") -> None:
        self._problems.add(self._text.place(node), message, hint)

    def check(self, node: ast.expr) -> None:
        match node:
            case ast.Name(id=name):
                if name in ("F", "torch"):
                    self._refuse(node, f"'{name}' is a module, not a value", f"call a function of it: {name}.NAME(…)")
                elif name not in self._names:
                    hint = nearest(name, self._names) or f"names are {', '.join(self._names) or 'none'}"
                    self._refuse(node, f"undefined name '{name}'", hint)
            case ast.Constant(value=bool() | int() | float() | str() | None):
                pass
            case ast.Tuple(elts=items) | ast.List(elts=items):
                for item in items:
                    self.check(item)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                self._check_operand(operand)
            case ast.BinOp(op=op) if isinstance(op, _ARITHMETIC):
                self._check_operand(node.left)
                self._check_operand(node.right)
            case ast.Call():
                self._check_call(node)
            case ast.Attribute(value=ast.Name(id="torch"), attr=name):
                if name not in TORCH_DTYPES:
                    hint = nearest(name, TORCH_DTYPES) or f"dtypes are {', '.join(sorted(TORCH_DTYPES))}"
                    self._refuse(node, f"'torch.{name}' is no dtype", hint)
            case _:
                self._refuse(node, "this has no place in a reference", _ACCEPTED)

    def _check_operand(self, node: ast.expr) -> None:
        """Numbers and tensors: a text or a list times a number would be as long as the author likes."""
        is_text = isinstance(node, ast.Constant) and (isinstance(node.value, str) or node.value is None)
        if is_text or isinstance(node, ast.Tuple | ast.List):
            self._refuse(node, "arithmetic is on tensors and numbers")
        else:
            self.check(node)

    def _check_call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Attribute(value=ast.Name(id="F"), attr=name):
                if name.startswith("_"):
                    self._refuse(node.func, f"'F.{name}' is not public")
            case ast.Attribute(value=ast.Name(id="torch"), attr=name):
                if name not in TORCH_FUNCTIONS:
                    self._refuse(node.func, f"a reference may not call 'torch.{name}'", nearest(name, TORCH_FUNCTIONS))
            case ast.Attribute(value=value, attr=name):
                if name not in TENSOR_METHODS:
                    message = f"a reference may not call the method '{name}'"
                    self._refuse(node.func, message, nearest(name, TENSOR_METHODS))
                self.check(value)
            case _:
                self._refuse(node.func, "only F.NAME, torch.NAME and methods of tensors can be called", _ACCEPTED)
        for argument in node.args:
            self.check(argument)
        for keyword in node.keywords:
            if keyword.arg is None:
                self._refuse(keyword.value, "'**' has no place in a reference", "write the arguments out")
            else:
                self.check(keyword.value)
