"""Recipes: YAML with positions in, a Fusion out.

Three stages: the YAML itself (``text``), the sections and their types (``sections``, ``fields``), and the body with the
outputs and cases that depend on it (``body``, ``calls``). All their errors are reported at once; a stage is left out
where it would complain of what an earlier one could not read. Fids are handed out in reading order: tensor inputs,
scalars, then the body statement by statement, each constant right before the expr that reads it, and last the casts
that outputs ask for.
"""

from __future__ import annotations

import ast
import hashlib
import os
import stat
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from fusebuild.errors import UsageError, nearest, one_line
from fusebuild.ir.formula import Formula, evaluate, symbols
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.solving import divided, solve
from fusebuild.ir.values import ExtentBinding, Value
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.type_rules import TypeRuleError
from fusebuild.recipe.bench import BenchSpec, read_reference
from fusebuild.recipe.body import BodyReader, BodyText, Scope, assigned_names, read_statements
from fusebuild.recipe.composites import Composites, CompositeSection, called
from fusebuild.recipe.expect import Expectation, read_expectation
from fusebuild.recipe.files import MAX_BYTES, ReadIncluded, in_folder
from fusebuild.recipe.lambdas import LambdaSection, record_lambda
from fusebuild.recipe.sections import InputSection, OutputSection, Sections, read_sections
from fusebuild.recipe.text import Problems, Source, decoded, read_source

Named = TypeVar("Named", bound="LambdaSection | CompositeSection")

MAX_ELEMENTS = 2**60 - 1
"""The most elements a tensor of a case may have: its bytes must fit a signed 64-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe that was read. ``path`` is the name that messages show, with ``/`` between folders.

    ``bench`` is not part of the fusion: no plan and no digest depends on it. Neither is ``ranges``, which gives, for
    the fid of an integer input, from which numbers it is drawn when the recipe is verified or measured: the first, and
    the one after the last. ``expected`` is the most that the plan may have and move, and changes nothing of it either.
    ``included`` has the texts of the libraries that it includes, by the path that it gives. ``allow_spills`` says that
    kernels which spill registers stay as they were chosen; else they are planned again.
    """

    path: str
    text: str
    fusion: Fusion
    bench: BenchSpec = field(default_factory=BenchSpec)
    ranges: Mapping[int, tuple[Formula, Formula]] = field(default_factory=dict)
    expected: Expectation = field(default_factory=Expectation)
    allow_spills: bool = False
    included: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The sha256 of the recipe and of what it includes."""
        texts = [self.text, *(text for each in self.included.items() for text in each)]
        digests = [hashlib.sha256(text.encode()).digest() for text in texts]
        return digests[0].hex() if len(digests) == 1 else hashlib.sha256(b"".join(digests)).hexdigest()


def load_recipe(path: Path, *, root: Path | None = None) -> Recipe:
    """The recipe in the file ``path``; messages show the path relative to ``root`` when that is given and above it.

    Raises :class:`~fusebuild.errors.UsageError` when the file cannot be read and
    :class:`~fusebuild.errors.RecipeError` when it is not a recipe.
    """
    shown = path
    if root is not None:
        relative = Path(os.path.relpath(path, root))
        shown = path if ".." in relative.parts else relative
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"cannot read {one_line(shown)}: it is no file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {one_line(shown)}: {error.strerror}") from None
    except ValueError as error:  # a NUL in the path
        raise UsageError(f"cannot read {shown.as_posix()!r}: {error}") from None
    return decode_recipe(data, shown.as_posix(), in_folder(path.parent))


def decode_recipe(data: bytes, path_name: str, read: ReadIncluded | None = None) -> Recipe:
    """The recipe in the bytes of a file; ``path_name`` is what messages call it, ``read`` gives what it includes.

    Raises :class:`~fusebuild.errors.RecipeError`, and nothing else, for bytes that are no recipe.
    """
    return parse_recipe(decoded(data, path_name, "recipe"), path_name, read)


def parse_recipe(text: str, path_name: str, read: ReadIncluded | None = None) -> Recipe:
    """The recipe in ``text``; ``path_name`` is what messages call it, ``read`` gives what it includes. Raises
    :class:`~fusebuild.errors.RecipeError`."""
    source = read_source(text, path_name)
    problems = Problems()
    sections = read_sections(source, problems, read)
    recorder = _Recorder(source, sections, problems)
    recorder.record_inputs()
    if not sections.knows_values:
        problems.raise_if_any()
    bench = recorder.record_rest()
    expected = read_expectation(source, sections.expect, sections.symbols, problems)
    problems.raise_if_any()
    fusion = recorder.finish()
    problems.raise_if_any()
    return Recipe(
        path=path_name,
        text=text,
        fusion=fusion,
        bench=bench,
        ranges=recorder.ranges,
        expected=expected,
        allow_spills=sections.allow_spills,
        included={each.path: each.source.text for each in sections.includes},
    )


class _Recorder:
    """Records sections that were read into a builder, in the order of fids."""

    def __init__(self, source: Source, sections: Sections, problems: Problems) -> None:
        self._source, self._sections, self._problems = source, sections, problems
        facts = [fact for fact, _ in sections.facts]
        self._sources = {each.path: each for each in (source, *(included.source for included in sections.includes))}
        self._builder = FusionBuilder(
            sections.name, doc=sections.doc, facts=facts, relations=[each.formula for each in sections.relations]
        )
        self._builder.know_symbols(sections.symbols)
        self._scope = Scope(symbols=sections.symbols)
        self._scope.owners.update(dict.fromkeys(sections.symbols, "an extent"))
        self._aliased: dict[str, str] = {}
        self._sees_all = True  # whether every body that may read a lambda or call a composite could be read
        self.ranges: dict[int, tuple[Formula, Formula]] = {}

    def record_inputs(self) -> None:
        """Tensor inputs, then scalars: those with a value are constants."""
        for tensor in self._sections.inputs:
            self._scope.owners[tensor.name] = "an input"
            self._record_input(tensor)
        self._check_solved()
        for scalar in self._sections.scalars:
            self._scope.owners[scalar.name] = "a scalar"
            name, dtype, place = scalar.name, scalar.dtype, scalar.place
            self._scope.values[name] = (
                self._builder.scalar(dtype, name=name, location=place)
                if scalar.value is None
                else self._builder.constant(scalar.value, dtype=dtype, name=name, location=place)
            )

    def _record_input(self, tensor: InputSection) -> None:
        self._scope.values[tensor.name] = None
        try:
            value = self._scope.values[tensor.name] = self._builder.tensor(
                tensor.type.dtype,
                tensor.type.shape,
                name=tensor.name,
                contiguity=tensor.contiguity,
                stride_order=tensor.stride_order,
                cpu=tensor.cpu,
                location=tensor.place,
            )
        except TypeRuleError as error:
            self._problems.add(tensor.type_place, error.message, error.hint)
            return
        if tensor.range is not None:
            self.ranges[value.fid] = (tensor.range.low, tensor.range.high)

    def _check_solved(self) -> None:
        """Each symbol can be told from the sizes of a call."""
        if not self._sections.knows_values:
            return
        spelled = [(dim, place) for tensor in self._sections.inputs
                   for dim, place in zip(tensor.type.shape, tensor.type.places, strict=True)]  # fmt: skip
        bindings = [
            ExtentBinding(fid=-1 - at, input=0, dim=at, extent=self._builder.algebra.canonical(dim))
            for at, (dim, _) in enumerate(spelled)
        ]
        for symbol in solve(bindings, self._builder.algebra).unknown:
            place = next(place for dim, place in spelled if symbol in symbols(dim))
            hint = f"name {symbol} alone as a dim of an input"
            if (multiple := divided((binding.extent for binding in bindings), symbol)) > 1:
                hint = f"state '{symbol}: {{multiple_of: {multiple}}}' under extents, or {hint}"
            self._problems.add(place, f"the size of {symbol} cannot be told from the shapes of the inputs", hint)

    def record_rest(self) -> BenchSpec:
        """All that names inputs and scalars; how to measure it."""
        self._record_lambdas()
        read = self._read_body()
        statements = read[1] if read else []
        self._record_composites(statements)
        if read:
            self._record_body(*read)
        self._record_outputs()
        if not self._problems.found:
            self._check_includes()
        return self._bench_spec()

    def _record_lambdas(self) -> None:
        """The lambdas, each a Fusion of its own."""
        for section in self._sections.lambdas:
            self._scope.owners[section.name] = "a lambda"
            found = record_lambda(self._sources[section.place.path], section, self._problems)
            self._scope.lambdas[section.name] = found
            if found is not None:
                self._builder.lambdas[section.name] = found.body

    def _read_body(self) -> tuple[BodyText, list[ast.stmt]] | None:
        """The body taken apart, or None where there is none or it cannot be read, which was reported."""
        body = self._sections.body
        read = None if body is None else read_statements(self._source, body, self._problems)
        self._sees_all &= read is not None
        return read

    def _record_composites(self, statements: list[ast.stmt]) -> None:
        """What the ``statements`` of the body may call beside ops, and complaints about what they do not call."""
        sections = self._sections.composites
        if not sections:
            return
        assigned = assigned_names(statements)
        outside = dict.fromkeys(assigned, "a value of the recipe's body")
        outside |= {tensor.name: "an input of the recipe" for tensor in self._sections.inputs}
        outside |= {scalar.name: "a scalar of the recipe" for scalar in self._sections.scalars}
        composites = Composites(self._sources, sections, self._builder, self._scope, self._problems,
                                outside=outside, taken={*outside, *self._scope.owners})  # fmt: skip
        self._sees_all &= composites.all_parsed
        if not self._sees_all:
            return
        used = composites.called | {node.func.id for node in called(statements) if isinstance(node.func, ast.Name)}
        for section in self._own(sections):
            if section.name not in used:
                self._problems.add(section.place, f"composite '{section.name}' is never used", "remove it")

    def _record_body(self, text: BodyText, statements: list[ast.stmt]) -> None:
        """The statements, and complaints about names that nothing assigns or reads."""
        reader = BodyReader(text, self._builder, self._scope, self._problems)
        reader.read(statements)
        self._check_assigned()
        if self._sections.knows_outputs:
            self._check_read(reader)

    def _check_assigned(self) -> None:
        outputs = {output.name for output in self._sections.outputs}
        for output in self._sections.outputs:
            self._scope.lacks(output.name, "output", output.place, self._problems, but=outputs)

    def _check_read(self, reader: BodyReader) -> None:
        outputs = {output.name for output in self._sections.outputs}
        reader.report_unused(outputs, "outputs")
        read = self._scope.used | self._scope.suggested | outputs
        lambdas = [each for each in self._own(self._sections.lambdas) if self._scope.lambdas[each.name] is not None]
        for what, sections in (
            ("input", self._sections.inputs),
            ("scalar", self._sections.scalars),
            ("lambda", lambdas if self._sees_all else []),
        ):
            for section in sections:
                if section.name not in read and section.name not in self._givers_of_sizes():
                    self._problems.add(section.place, f"{what} '{section.name}' is never used", "remove it")

    def _givers_of_sizes(self) -> set[str]:
        """The inputs that alone have a dim of some symbol which stands in the shape of a result, or in the body."""
        made = [value for value in self._builder.values.values() if value.fid not in self._builder.inputs]
        shapes = [value.tensor.shape for value in made if value.is_tensor]
        wanted = {symbol for shape in shapes for extent in shape for symbol in symbols(extent)}
        wanted |= self._scope.used
        own = {tensor.name: {symbol for extent in tensor.type.shape for symbol in symbols(extent)}
               for tensor in self._sections.inputs}  # fmt: skip
        others = {name: set().union(*(own[other] for other in own.keys() - {name})) for name in own}
        return {name for name in own if own[name] & wanted - others[name]}

    def _own(self, sections: Sequence[Named]) -> list[Named]:
        """Those of ``sections`` that the recipe itself has: of what is included, not all has to be used."""
        return [section for section in sections if section.place.path == self._source.path]

    def _check_includes(self) -> None:
        """Complaints about libraries of which nothing was recorded."""
        used = {expr.combine for expr in self._builder.exprs} | {each.name for each in self._builder.composites}
        named: list[LambdaSection | CompositeSection] = [*self._sections.lambdas, *self._sections.composites]
        for included in self._sections.includes:
            own = [each.name for each in named if each.place.path == included.source.path]
            if used.isdisjoint(own):
                self._problems.add(included.place, f"nothing of '{included.path}' is used", "remove it")

    def _record_outputs(self) -> None:
        """Casts on store, and outputs with the inputs that they overwrite."""
        inputs = {tensor.name: self._scope.values.get(tensor.name) for tensor in self._sections.inputs}
        taken = {*self._builder.inputs}
        for output in self._sections.outputs:
            value = self._scope.values.get(output.name)
            alias = self._alias_of(output, inputs)
            if value is None:
                continue
            place = output.place if output.alias is None else output.alias.location
            try:
                stored = self._stored(value, output, taken)
                taken.add(stored.fid)
                self._builder.output(stored, name=output.name, alias=alias, location=output.place)
            except TypeRuleError as error:
                self._problems.add(place, error.message, error.hint)

    def _stored(self, value: Value, output: OutputSection, taken: Container[int]) -> Value:
        """``value`` in the dtype that ``output`` asks for. An input or an output already, so ``taken``, is copied."""
        if output.dtype not in (None, value.dtype):
            return self._builder.call("cast", [value], {"dtype": output.dtype}, location=output.place)[0]
        if value.is_tensor and value.fid in taken:
            return self._builder.call("set", [value], location=output.place)[0]
        return value

    def _alias_of(self, output: OutputSection, inputs: Mapping[str, Value | None]) -> Value | None:
        if output.alias is None:
            return None
        name, place = output.alias.text, output.alias.location
        if name not in inputs:
            hint = nearest(name, inputs)
            self._problems.add(place, f"output '{output.name}' aliases '{name}', which is no tensor input", hint)
        elif name in self._aliased:
            message = f"output '{output.name}' aliases '{name}', as output '{self._aliased[name]}' does"
            self._problems.add(place, message, "an input can be overwritten once")
        self._aliased.setdefault(name, output.name)
        return inputs.get(name)

    def _bench_spec(self) -> BenchSpec:
        """How to measure the recipe; the names of its reference are those that a caller of the fusion sees."""
        sections = self._sections
        cases = tuple(case.sizes for case in sections.bench_cases)
        if sections.bench_reference is None:
            return BenchSpec(cases=cases)
        given = [tensor.name for tensor in sections.inputs] + [scalar.name for scalar in sections.scalars]
        reference = read_reference(self._source, sections.bench_reference, [*given, *sections.symbols], self._problems)
        return BenchSpec(reference=reference, cases=cases)

    def finish(self) -> Fusion:
        """The verified Fusion, once the tensors of every case are known to be of a possible size."""
        combined = {expr.combine for expr in self._builder.exprs}
        for section in self._sections.lambdas:
            if section.place.path != self._source.path and section.name not in combined:
                self._builder.lambdas.pop(section.name, None)  # included, and none of the fusion's
        fusion = self._builder.finish(cases=[case.sizes for case in self._sections.cases])
        if fusion.lambdas:
            from fusebuild.ops.lambda_checks import check_lambdas  # most recipes have none

            places = {name: found.place for name, found in self._scope.lambdas.items() if found is not None}
            check_lambdas(fusion, places, self._problems.add)
        tensors = [value for value in fusion.values.values() if value.is_tensor]
        for value in tensors:
            count = value.tensor.numel
            if isinstance(count, int) and count > MAX_ELEMENTS:
                message = f"'{value.name}' has {count} elements; {MAX_ELEMENTS} are the limit"
                self._problems.add(value.location, message)
        for case in (*self._sections.cases, *self._sections.bench_cases):
            for value in tensors:
                count = evaluate(value.tensor.numel, case.sizes)
                if count > MAX_ELEMENTS:
                    message = f"the case gives '{value.name}' {count} elements; {MAX_ELEMENTS} are the limit"
                    self._problems.add(case.place, message)
                    break
        return fusion
