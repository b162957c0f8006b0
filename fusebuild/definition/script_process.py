"""The process in which a script is imported: runs it over the recorder and reports what it recorded.

``nvfuser`` and ``nvfuser_direct`` are this module's; ``torch`` is a stand-in (:mod:`fusebuild.definition.stand_ins`).
Executing a definition ends its recording and gives results without elements; nothing is compiled and nothing computed.
"""

from __future__ import annotations

import json
import linecache
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar

import fusebuild
from fusebuild import definition
from fusebuild.definition.canonical import canonical
from fusebuild.definition.fusion_definition import FusionDefinition, described, dtype_of_torch
from fusebuild.definition.recorder import caller
from fusebuild.definition.script import ImportedDefinition, ScriptReport
from fusebuild.definition.sizes import with_rulers
from fusebuild.definition.stand_ins import ANYTHING, TensorStandIn, install_torch
from fusebuild.definition.text import RecipeText
from fusebuild.definition.values import DataType, Tensor
from fusebuild.errors import Diagnostic, LocatedError, RecipeError, SourceLocation, UsageError
from fusebuild.ir.fusion import Fusion
from fusebuild.oracle.reference import bind_extents
from fusebuild.recipe.names import MAX_NAME_LENGTH, name_problem


class RecordedDefinition(FusionDefinition):
    """The ``FusionDefinition`` that a script gets. ``made`` has all of them, in order."""

    made: ClassVar[list[RecordedDefinition]] = []
    was_executed: ClassVar[bool] = False

    def __init__(self, id: int | None = None, *_: object, name: str | None = None, **__: object) -> None:
        super().__init__(id, name=name)
        self.given_name = name or (None if type(self) is RecordedDefinition else type(self).__name__)
        self.place = caller()
        self.case: dict[str, int] | None = None
        RecordedDefinition.made.append(self)

    @property
    def records_something(self) -> bool:
        return bool(self._recorder.builder.values) or type(self).definition is not FusionDefinition.definition

    def from_pytorch(self, tensor: Any, static_sizes: bool = False) -> Tensor:
        if not isinstance(tensor, TensorStandIn):
            hint = "describe it with fd.define_tensor, or make it with a factory such as torch.randn"
            raise RecipeError.at(caller(), "the layout of this tensor is not known when a script is imported", hint)
        return super().from_pytorch(tensor, static_sizes)

    def execute(self, inputs: Sequence[Any] = (), **_: object) -> list[Any]:
        """End the recording, and take the sizes of ``inputs`` as a case. Gives results without elements."""
        fusion = self.fusion
        RecordedDefinition.was_executed = True
        if self.case is None:
            self.case = self._sizes_of(inputs)
        return [ANYTHING for output in fusion.outputs if output.alias is None]

    def _sizes_of(self, inputs: Sequence[Any]) -> dict[str, int] | None:
        """The size of each symbol in a call with ``inputs``; None where the script would have
        computed what they are."""
        fusion, given = self.fusion, dict(zip(self.inputs(), inputs, strict=False))
        if any(fusion.value(fid).is_tensor and not isinstance(each, TensorStandIn) for fid, each in given.items()):
            return None
        try:
            given = with_rulers(fusion, self._recorder.rulers, given, None)
        except (TypeError, ValueError):
            return None  # a number that is not computed here
        completed: list[Any] = [given.get(fid) for fid in fusion.inputs if fid in given or fid in self._recorder.drawn]
        try:
            return bind_extents(fusion, completed)
        except UsageError as error:
            raise RecipeError.at(caller(), f"execute: {error}") from None


def _provide_modules() -> None:
    """Put what a script imports into place."""
    named = {
        "FusionDefinition": RecordedDefinition,
        "DataType": DataType,
        "compute_contiguity": lambda sizes, strides: described(sizes, strides, static=False)[1],
        "compute_tensor_descriptor": lambda sizes, strides: described(sizes, strides, static=False)[1:],
        "FusionCache": ANYTHING,
        "clear_cuda_cache": ANYTHING,
    }
    for name in ("nvfuser", "nvfuser_direct"):
        module, utilities = ModuleType(name), ModuleType(f"{name}.pytorch_utils")
        vars(module).update(named, __path__=[], pytorch_utils=utilities)
        vars(utilities).update(torch_dtype_to_nvfuser_dtype=dtype_of_torch)
        sys.modules[name], sys.modules[utilities.__name__] = module, utilities
    for package in (fusebuild, definition):
        vars(package)["FusionDefinition"] = RecordedDefinition
    install_torch()


def record(path: str) -> ScriptReport:
    """Run the script at ``path``."""
    warning = ""
    try:
        _run(path)
    except Exception as error:
        diagnostic = _diagnostic(error, path)
        if isinstance(error, LocatedError) or not RecordedDefinition.was_executed:
            return ScriptReport(diagnostics=tuple(getattr(error, "diagnostics", [diagnostic])))
        warning = f"{diagnostic.location}: the script stopped here: {diagnostic.message}"
    try:
        return ScriptReport(definitions=tuple(_described_definitions(path)), warning=warning)
    except LocatedError as error:
        return ScriptReport(diagnostics=tuple(error.diagnostics))


def _run(path: str) -> None:
    """Run the script as ``python PATH`` does; where it records nothing, call its functions that take a definition."""
    module = ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    sys.argv = [path]
    sys.path.insert(0, str(Path(path).resolve().parent))
    code: CodeType = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    try:
        exec(code, vars(module))
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise RuntimeError(f"the script ended itself with status {stop.code}") from stop
    if not RecordedDefinition.made:
        for function in _recording_functions(vars(module), path):
            fd = RecordedDefinition(name=_usable(function.__name__))
            fd.place = _place(path, function.__code__.co_firstlineno)
            with fd:
                function(fd)


def _recording_functions(names: Mapping[str, Any], path: str) -> Iterator[FunctionType]:
    """The script's functions of one argument that is called ``fd`` or annotated as a definition."""
    for value in list(names.values()):
        if not isinstance(value, FunctionType) or value.__code__.co_filename != path:
            continue
        code = value.__code__
        required = code.co_argcount - len(value.__defaults__ or ())
        if required != 1 or code.co_kwonlyargcount > len(value.__kwdefaults__ or ()):
            continue
        name = code.co_varnames[0]
        if name == "fd" or value.__annotations__.get(name) in (RecordedDefinition, "FusionDefinition"):
            yield value


def _described_definitions(path: str) -> Iterator[ImportedDefinition]:
    """The definitions as recipes. Equal ones are told once."""
    made = [each for each in RecordedDefinition.made if each.records_something]
    if not made:
        place = SourceLocation(path=path, line=1, column=1)
        raise RecipeError.at(place, "the script records no FusionDefinition")
    names: list[str] = []
    seen: set[tuple[str | None, str]] = set()
    for each in made:
        fusion = _finished(each)
        key = (each.given_name, canonical(fusion).digest)
        if key in seen:
            continue
        seen.add(key)
        names.append(_unique(_usable(each.given_name or Path(path).stem), names))
        cases = () if each.case is None else (each.case,)
        text = str(RecipeText(replace(fusion, name=names[-1], cases=cases)))
        yield ImportedDefinition(name=names[-1], text=text, location=each.place)


def _finished(made: RecordedDefinition) -> Fusion:
    if not made._recorder.builder.outputs and made._recorder.builder.values:
        raise RecipeError.at(made.place, "the definition has no outputs", "end it with fd.add_output(tensor)")
    return made.fusion


def _usable(name: str) -> str:
    """``name`` as a recipe may be called."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)[: MAX_NAME_LENGTH - 8]
    return f"fusion_{plain}" if name_problem(plain)[0] else plain


def _unique(name: str, taken: Sequence[str]) -> str:
    numbered = (f"{name}_{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def _diagnostic(error: Exception, path: str) -> Diagnostic:
    """What went wrong, at the last line of the script that led there."""
    message = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename == path:
        line, text = error.lineno or 1, (error.text or "").rstrip("\n")
        place = SourceLocation(path=path, line=line, column=error.offset or 1, text=text)
        return Diagnostic(location=place, message=f"the script is not Python: {error.msg}")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return Diagnostic(location=_place(path, frames[-1].lineno or 1 if frames else 1), message=message)


def _place(path: str, line: int) -> SourceLocation:
    text = linecache.getline(path, line).rstrip("\n")
    indent = len(text) - len(text.lstrip())
    return SourceLocation(path=path, line=line, column=indent + 1, text=text, width=max(len(text) - indent, 1))


def main() -> None:
    """``argv``: the script, and the file for the report."""
    path, report = sys.argv[1:]
    _provide_modules()
    Path(report).write_text(json.dumps(asdict(record(path))), encoding="utf-8")
