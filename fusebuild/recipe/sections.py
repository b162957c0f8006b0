"""The sections of a recipe, read from YAML and checked one by one; the body stays text.

```
fusion (a name)   doc   include [path of a library]   extents {symbol: facts}   relations [comparisons of sizes]
inputs {name: type or {type, contiguity, stride_order, cpu, range}}
scalars {name: dtype or {dtype, value}}
lambdas {name: {left, right, body, results, ordered}}   composites {name: {inputs, body, results}}
body (a literal block)   outputs {name: dtype or {dtype, alias}}   cases [{symbol: size}]
bench {reference: a torch expression, cases}   expect {segments, bytes}   allow_spills (true or false)
```
"""

from __future__ import annotations

from collections import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, TypeVar

from fusebuild.errors import SourceLocation, nearest
from fusebuild.ir.algebra import algebra_of
from fusebuild.ir.dtype import SCALAR_DTYPES, DType
from fusebuild.ir.formula import Formula, evaluate, known_value, show, symbols
from fusebuild.ir.types import Literal
from fusebuild.ir.values import ExtentFact
from fusebuild.ops.table import OPS
from fusebuild.recipe.composites import CompositeSection, read_composite
from fusebuild.recipe.expect import ExpectSection, read_expect
from fusebuild.recipe.extents import MAX_EXTENT, ExtentText, Relation
from fusebuild.recipe.fields import Fields, TensorSpelling
from fusebuild.recipe.files import ReadIncluded
from fusebuild.recipe.include import Included, read_include, read_included
from fusebuild.recipe.lambdas import LambdaSection, read_lambda
from fusebuild.recipe.text import Mapping, Node, Problems, Scalar, Source, parse_yaml

SECTIONS = (
    "fusion", "doc", "include", "extents", "relations", "inputs", "scalars", "lambdas", "composites", "body", "outputs",
    "cases", "bench", "expect", "allow_spills",
)  # fmt: skip
LIBRARY_SECTIONS = ("doc", "lambdas", "composites")
Sizes: TypeAlias = "abc.Mapping[str, int]"
Section = TypeVar("Section")
_NAMED_BY_BODIES = ("inputs", "scalars", "lambdas", "composites")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRange:
    """From which integers ``low <= i < high`` an input is drawn when a recipe is verified or measured: indices have to
    point at something. Bounds are integers or symbols; no kernel relies on them."""

    place: SourceLocation
    low: Formula
    high: Formula


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSection:
    """A tensor input as written."""

    name: str
    place: SourceLocation
    type: TensorSpelling
    type_place: SourceLocation
    contiguity: tuple[bool | None, ...] | None = None
    stride_order: tuple[int, ...] | None = None
    cpu: bool = False
    range: InputRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarSection:
    """A scalar as written; a run-time argument when it has no value."""

    name: str
    place: SourceLocation
    dtype: DType
    value: Literal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSection:
    """An output as written: the dtype it is stored in (None: as it is) and the input that it overwrites."""

    name: str
    place: SourceLocation
    dtype: DType | None = None
    alias: Scalar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One set of sizes."""

    place: SourceLocation
    sizes: dict[str, int]


@dataclass(slots=True, kw_only=True)
class Sections:
    """A whole recipe as written. Where a section has errors, what could be read of it."""

    name: str = ""
    doc: str = ""
    facts: list[tuple[ExtentFact, SourceLocation]] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    inputs: list[InputSection] = field(default_factory=list)
    scalars: list[ScalarSection] = field(default_factory=list)
    lambdas: list[LambdaSection] = field(default_factory=list)
    composites: list[CompositeSection] = field(default_factory=list)
    body: Scalar | None = None
    outputs: list[OutputSection] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    bench_reference: Scalar | None = None
    bench_cases: list[Case] = field(default_factory=list)
    expect: ExpectSection = field(default_factory=ExpectSection)
    allow_spills: bool = False
    includes: list[Included] = field(default_factory=list)
    knows_values: bool = True
    """Whether all that a body may name was read: else what it says of names would be wrong."""
    knows_outputs: bool = False

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every symbol in the shapes of the inputs, in order of first appearance."""
        dims = (dim for tensor in self.inputs for dim in tensor.type.shape)
        return tuple(dict.fromkeys(symbol for dim in dims for symbol in symbols(dim)))


def read_sections(source: Source, problems: Problems, read: ReadIncluded | None = None) -> Sections:
    """The sections of ``source``, and of what it includes, which ``read`` gives; everything wrong is added to
    ``problems``. Raises :class:`RecipeError` for a text that is no YAML."""
    root = parse_yaml(source, problems)
    reader = _SectionReader(problems)
    reader.include(source, root, read)
    return reader.read(root)


class _SectionReader:
    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._fields = Fields(problems)
        self._sections = Sections()
        self._knows_symbols = True

    def include(self, source: Source, root: Node, read: ReadIncluded | None) -> None:
        """The lambdas and composites of what ``root``, the recipe in ``source``, includes."""
        entries = {key.text: value for key, value in root.entries} if isinstance(root, Mapping) else {}
        if "include" not in entries:
            return
        before = len(self._problems.found)
        for path in read_include(self._fields, entries["include"]):
            included = read_included(source, path, read, self._problems)
            if included is not None:
                self._sections.includes.append(included)
                self._read_library(included)
        self._sections.knows_values &= len(self._problems.found) == before

    def _read_library(self, included: Included) -> None:
        root = parse_yaml(included.source, self._problems)
        keys = {key.text: key for key, _ in root.entries} if isinstance(root, Mapping) else {}
        for key, message, hint in (
            ("fusion", f"'{included.path}' is a recipe, not a library", "a library has composites and lambdas alone"),
            ("include", "a library includes nothing", "include the file in the recipe"),
        ):
            if key in keys:
                self._problems.add(keys[key].location, message, hint)
                return
        entries = self._fields.entries(root, "a mapping of composites and lambdas", LIBRARY_SECTIONS)
        if isinstance(root, Mapping) and not {"composites", "lambdas"} & entries.keys():
            self._problems.add(root.location, f"'{included.path}' has neither composites nor lambdas")
        if "lambdas" in entries:
            self._read_lambdas(entries["lambdas"])
        if "composites" in entries:
            self._read_composites(entries["composites"])

    def read(self, root: Node) -> Sections:
        if is_library(root):
            hint = "a recipe that names it under include can call what it has"
            self._problems.add(root.location, "this is a library of composites, not a recipe", hint)
            return self._sections
        entries = self._fields.entries(root, "a mapping of sections", SECTIONS)
        if not isinstance(root, Mapping):
            return self._sections
        for section in ("fusion", "body", "outputs"):
            if section not in entries:
                self._problems.add(root.location, f"the section '{section}' is missing")
        readers = {
            "fusion": self._read_name,
            "doc": self._read_doc,
            "inputs": self._read_inputs,
            "scalars": self._read_scalars,
            "extents": self._read_extents,
            "relations": self._read_relations,
            "lambdas": self._read_lambdas,
            "composites": self._read_composites,
            "body": self._read_body,
            "outputs": self._read_outputs,
            "cases": self._read_cases,
            "bench": self._read_bench,
            "expect": self._read_expect,
            "allow_spills": self._read_allow_spills,
        }
        for section, reader in readers.items():  # what is included was read before
            if section in entries:
                self._read_section(section, reader, entries[section])
        self._check_ranges()
        before = len(self._problems.found)
        self._check_names()
        is_clear = len(self._problems.found) == before and not self._may_hide_a_section(root)
        self._sections.knows_values &= is_clear
        return self._sections

    def _read_section(self, section: str, reader: Callable[[Node], None], node: Node) -> None:
        before = len(self._problems.found)
        reader(node)
        if section in _NAMED_BY_BODIES[1:] and len(self._problems.found) > before:
            self._sections.knows_values = False

    @staticmethod
    def _may_hide_a_section(root: Mapping) -> bool:
        """Whether a key that is no section is one of those whose names bodies read, misspelt."""
        return any(key.text not in SECTIONS and nearest(key.text, _NAMED_BY_BODIES) for key, _ in root.entries)

    def _read_name(self, node: Node) -> None:
        self._sections.name = self._fields.name(node, "a name") or ""

    def _read_doc(self, node: Node) -> None:
        if text := self._fields.text(node, "a text"):
            self._sections.doc = text.text.strip()

    def _read_inputs(self, node: Node) -> None:
        self._sections.knows_values &= isinstance(node, Mapping)
        for key, value in self._fields.mapping(node, "a mapping of names to tensor types"):
            name = self._fields.name(key, "a name")
            tensor = self._read_input(name or "", key.location, value)
            self._sections.knows_values &= name is not None and tensor is not None
            if tensor:
                self._sections.inputs.append(tensor)
            else:
                # Its dims are unknown, so no symbol elsewhere can be called wrong.
                self._knows_symbols = False

    def _read_input(self, name: str, place: SourceLocation, node: Node) -> InputSection | None:
        if not isinstance(node, Mapping):
            type_ = self._fields.tensor(node)
            if type_ is None:
                return None
            return InputSection(name=name, place=place, type=type_, type_place=node.location)
        known = ("type", "dtype", "contiguity", "stride_order", "cpu", "range")
        entries = self._fields.entries(node, "an input", known)
        types = [entries[key] for key in ("type", "dtype") if key in entries]
        if len(types) != 1:
            message = f"input '{name}' needs one tensor type, not {'two' if types else 'none'}"
            hint = 'for example {dtype: "bfloat16[M, N]", contiguity: [true, false]}'
            self._problems.add(node.location, message, hint)
            return None
        type_ = self._fields.tensor(types[0])
        contiguity = self._read_contiguity(entries["contiguity"]) if "contiguity" in entries else None
        order = self._read_stride_order(entries["stride_order"]) if "stride_order" in entries else None
        cpu = self._fields.flag(entries["cpu"], "cpu") if "cpu" in entries else False
        if type_ is None:
            return None
        range_ = self._read_range(entries["range"], name, type_.dtype) if "range" in entries else None
        return InputSection(
            name=name,
            place=place,
            type=type_,
            type_place=types[0].location,
            contiguity=contiguity,
            stride_order=order,
            cpu=bool(cpu),
            range=range_,
        )

    def _read_range(self, node: Node, name: str, dtype: DType) -> InputRange | None:
        what = "a range, such as [0, N]"
        items = self._fields.items(node, what)
        if items is None:
            return None
        if not dtype.is_integer:
            self._problems.add(node.location, f"a range is for integers, and input '{name}' is {dtype.value}")
            return None
        if len(items) != 2:
            self._problems.add(node.location, f"expected {what}, not a list of {len(items)}", "its end is exclusive")
            return None
        low, high = (self._read_bound(item, dtype) for item in items)
        if low is None or high is None:
            return None
        return InputRange(place=node.location, low=low, high=high)

    def _read_bound(self, node: Node, dtype: DType) -> Formula | None:
        """An integer that ``dtype`` holds, or a name that :meth:`_check_ranges` knows for a symbol once all inputs are
        read."""
        if isinstance(node, Scalar) and node.is_plain and node.text[:1] in "+-0123456789":
            limit = 2 ** (8 * dtype.bytes - 1)
            return self._fields.integer(node, "the bound", low=-limit, high=limit - 1)
        return self._fields.name(node, "a bound: an integer or a symbol")

    def _read_contiguity(self, node: Node) -> tuple[bool | None, ...] | None:
        items = self._fields.items(node, "a list of true, false and null")
        if items is None:
            return None
        return tuple(
            None if isinstance(item, Scalar) and item.is_null else self._fields.flag(item, "contiguity")
            for item in items
        )

    def _read_stride_order(self, node: Node) -> tuple[int, ...] | None:
        items = self._fields.items(node, "a list of positions")
        read = [self._fields.integer(item, "the position", low=0, high=len(items or ()) - 1) for item in items or ()]
        known = tuple(position for position in read if position is not None)
        return known if items is not None and len(known) == len(items) else None

    def _named(
        self, node: Node, what: str, read: Callable[[str, SourceLocation, Node], Section | None]
    ) -> list[Section]:
        """What ``read`` makes of each entry of ``node``, which is a mapping of names to ``what``; an entry without a
        good name is read for its own problems alone."""
        sections = []
        for key, value in self._fields.mapping(node, f"a mapping of names to {what}"):
            name = self._fields.name(key, "a name")
            section = read(name or "", key.location, value)
            if name and section is not None:
                sections.append(section)
        return sections

    def _read_scalars(self, node: Node) -> None:
        self._sections.scalars = self._named(node, "dtypes", self._read_scalar)

    def _read_scalar(self, name: str, place: SourceLocation, node: Node) -> ScalarSection | None:
        dtype_node, value_node = node, None
        if isinstance(node, Mapping):
            entries = self._fields.entries(node, "a scalar", ("dtype", "value"))
            if "dtype" not in entries:
                self._problems.add(node.location, f"scalar '{name}' has no dtype", "for example {dtype: double}")
                return None
            dtype_node, value_node = entries["dtype"], entries.get("value")
        dtype = self._fields.dtype(dtype_node)
        if dtype is None:
            return None
        if dtype not in SCALAR_DTYPES:
            hint = f"scalars are {', '.join(known.value for known in SCALAR_DTYPES)}"
            self._problems.add(dtype_node.location, f"a scalar cannot be {dtype.value}", hint)
            return None
        value = None if value_node is None else self._fields.literal(value_node, dtype)
        return ScalarSection(name=name, place=place, dtype=dtype, value=value)

    def _read_extents(self, node: Node) -> None:
        for key, value in self._fields.mapping(node, "a mapping of symbols to facts"):
            symbol = self._fields.name(key, "a symbol")
            fact = self._read_fact(symbol or "", value)
            if symbol is None:
                continue
            self._sections.facts.append((fact, key.location))
            if self._knows_symbols and symbol not in self._sections.symbols:
                hint = nearest(symbol, self._sections.symbols) or "a symbol is named by the shape of an input"
                self._problems.add(key.location, f"'{symbol}' is no dim of any input", hint)

    def _read_fact(self, symbol: str, node: Node) -> ExtentFact:
        numbers: dict[str, int] = {}
        values: tuple[int, ...] = ()
        known = ("multiple_of", "min", "max", "values")
        for name, value in self._fields.entries(node, "a mapping of facts", known).items():
            if name == "values":
                items = self._fields.items(value, "a list of sizes") or ()
                sizes = [self._fields.integer(item, "the size", low=0, high=MAX_EXTENT) for item in items]
                values = tuple(size for size in sizes if size is not None)
                continue
            number = self._fields.integer(value, name, low=int(name == "multiple_of"), high=MAX_EXTENT)
            if number is not None:
                numbers[name] = number
        fact = ExtentFact(
            symbol=symbol,
            multiple_of=numbers.get("multiple_of", 1),
            min=numbers.get("min", 0),
            max=numbers.get("max"),
            values=values,
        )
        if fact.max is not None and fact.min > fact.max:
            self._problems.add(node.location, f"min of {symbol} is {fact.min}, more than its max {fact.max}")
        for size in dict.fromkeys(fact.values):
            if broken := broken_fact(fact, size):
                self._problems.add(node.location, f"{symbol} has the value {size}, but {broken}")
        return fact

    def _read_relations(self, node: Node) -> None:
        for item in self._fields.items(node, "a list of relations, such as [S <= P]") or ():
            text = self._fields.text(item, "a relation of sizes, such as S <= P")
            if text is not None:
                read = ExtentText(text, 0, text.text, self._problems).relations()
                self._sections.relations += [each for each in read if self._check_relation(each)]

    def _check_relation(self, relation: Relation) -> bool:
        """Whether ``relation`` is of symbols that there are, and can hold; where not, that is reported."""
        own = [*dict.fromkeys(symbols(relation.formula))]
        known = self._sections.symbols
        unknown = [symbol for symbol in own if symbol not in known]
        for symbol in unknown if self._knows_symbols else ():
            hint = nearest(symbol, known) or "a symbol is named by the shape of an input"
            self._problems.add(relation.place, f"'{symbol}' is no dim of any input", hint)
        if unknown:
            return False
        before = tuple(each.formula for each in self._sections.relations)
        algebra = algebra_of(known, tuple(fact for fact, _ in self._sections.facts), before)
        if algebra.contradicts(relation.formula):
            self._problems.add(relation.place, f"{show(relation.formula)} cannot hold beside what extents and "
                               "relations say", "leave out what is wrong")  # fmt: skip
            return False
        return True

    def _read_lambdas(self, node: Node) -> None:
        self._sections.lambdas += self._named(node, "lambdas", partial(read_lambda, self._fields))

    def _read_composites(self, node: Node) -> None:
        self._sections.composites += self._named(node, "composites", self._read_composite)

    def _read_composite(self, name: str, place: SourceLocation, node: Node) -> CompositeSection | None:
        if name in OPS:
            self._problems.add(place, f"'{name}' is an op already", "call the composite something else")
        return read_composite(self._fields, name, place, node)

    def _read_body(self, node: Node) -> None:
        self._sections.body = self._fields.text(node, "statements")

    def _read_outputs(self, node: Node) -> None:
        if isinstance(node, Mapping) and not node.entries:
            self._problems.add(node.location, "a fusion needs an output")
        self._sections.outputs = self._named(node, "dtypes", self._read_output)
        self._sections.knows_outputs = isinstance(node, Mapping) and 0 < len(self._sections.outputs) == len(
            node.entries
        )

    def _read_output(self, name: str, place: SourceLocation, node: Node) -> OutputSection:
        if isinstance(node, Mapping):
            entries = self._fields.entries(node, "an output", ("dtype", "alias"))
            dtype = self._fields.dtype(entries["dtype"]) if "dtype" in entries else None
            alias = self._fields.text(entries["alias"], "the name of an input") if "alias" in entries else None
            return OutputSection(name=name, place=place, dtype=dtype, alias=alias)
        as_it_is = isinstance(node, Scalar) and node.is_null
        return OutputSection(name=name, place=place, dtype=None if as_it_is else self._fields.dtype(node))

    def _read_cases(self, node: Node) -> None:
        self._sections.cases = self._cases(node)

    def _cases(self, node: Node) -> list[Case]:
        cases = []
        for item in self._fields.items(node, "a list of cases, such as '- {M: 16, N: 8}'") or ():
            if not isinstance(item, Mapping):
                self._fields.expected(item, "a case, such as {M: 16, N: 8}")
                continue
            cases.append(self._read_case(item))
        return cases

    def _read_case(self, node: Mapping) -> Case:
        known, sizes = self._sections.symbols, dict[str, int]()
        facts = {fact.symbol: fact for fact, _ in self._sections.facts}
        for key, value in node.entries:
            size = self._fields.integer(value, f"the size of {key.text}", low=0, high=MAX_EXTENT)
            if key.text not in known and self._knows_symbols:
                hint = nearest(key.text, known) or f"symbols are {', '.join(known) or 'none'}"
                self._problems.add(key.location, f"'{key.text}' is no dim of any input", hint)
            elif size is not None:
                sizes[key.text] = size
                if broken := broken_fact(facts.get(key.text), size):
                    self._problems.add(value.location, f"{key.text} is {size}, but {broken}")
        self._check_case(node, sizes)
        if missing := [symbol for symbol in known if symbol not in {key.text for key, _ in node.entries}]:
            self._problems.add(node.location, f"the case gives no size for {', '.join(missing)}")
        return Case(place=node.location, sizes=sizes)

    def _check_case(self, node: Mapping, sizes: dict[str, int]) -> None:
        """Relations hold at ``sizes``, and no dim of an input has less than no elements."""
        for relation in self._sections.relations:
            if broken := broken_relation(relation.formula, sizes):
                self._problems.add(node.location, f"{broken}, but relations say {show(relation.formula)}")
        for tensor in self._sections.inputs:
            for extent in tensor.type.shape:
                if {*symbols(extent)} <= {*sizes} and (size := evaluate(extent, sizes)) < 0:
                    self._problems.add(node.location, f"the case gives '{tensor.name}' a dim {show(extent)} of {size}")

    def _read_bench(self, node: Node) -> None:
        entries = self._fields.entries(node, "a mapping with reference and cases", ("reference", "cases"))
        if "reference" in entries:
            self._sections.bench_reference = self._fields.text(entries["reference"], "an expression, as text")
        if "cases" in entries:
            self._sections.bench_cases = self._cases(entries["cases"])

    def _read_expect(self, node: Node) -> None:
        self._sections.expect = read_expect(self._fields, node)

    def _read_allow_spills(self, node: Node) -> None:
        self._sections.allow_spills = bool(self._fields.flag(node, "allow_spills"))

    def _check_ranges(self) -> None:
        """Symbols of ranges are dims of inputs, and in every case there is something to draw from."""
        known = self._sections.symbols
        for tensor in self._sections.inputs:
            if tensor.range is None:
                continue
            bounds = (tensor.range.low, tensor.range.high)
            unknown = [bound for bound in bounds if isinstance(bound, str) and bound not in known]
            for bound in unknown if self._knows_symbols else ():
                hint = nearest(bound, known) or "a bound is an integer or a symbol of an input's shape"
                self._problems.add(tensor.range.place, f"'{bound}' is no dim of any input", hint)
            if unknown:
                continue
            if all(isinstance(bound, int) for bound in bounds):
                self._check_range(tensor, {}, tensor.range.place)
                continue
            for case in self._sections.cases:
                if {*known} <= {*case.sizes}:
                    self._check_range(tensor, case.sizes, case.place)

    def _check_range(self, tensor: InputSection, sizes: dict[str, int], place: SourceLocation) -> None:
        assert tensor.range is not None
        low, high = (evaluate(bound, sizes) for bound in (tensor.range.low, tensor.range.high))
        is_drawn = all(known_value(extent, sizes) != 0 for extent in tensor.type.shape)
        if low >= high and is_drawn:
            self._problems.add(place, f"no integer is in the range of input '{tensor.name}', {low} to below {high}")

    def _check_names(self) -> None:
        """One name means one thing: an input, a scalar, a symbol, a lambda or a composite. The inputs of a composite
        are its own affair, unless they hide what its body may name too."""
        owners, sections = dict.fromkeys(self._sections.symbols, "a dim"), self._sections
        paths = {each.source.path for each in sections.includes}
        shared: list[LambdaSection | CompositeSection] = [*sections.lambdas, *sections.composites]
        included = {each.name: each.place for each in reversed(shared) if each.place.path in paths}
        for owner, named in (
            ("an input", sections.inputs),
            ("a scalar", sections.scalars),
            ("a lambda", sections.lambdas),
            ("a composite", sections.composites),
        ):
            for each in named:
                if each.name in owners:
                    message = f"'{each.name}' is already {owners[each.name]}"
                    first = included.get(each.name)
                    hint = f"{first} has it first" if first else "one name means one thing"
                    self._problems.add(each.place, message, hint)
                owners[each.name] = owner
        for section in self._sections.composites:
            for given in section.inputs:
                if (owner := owners.get(given.text, "an input")) not in ("an input", "a scalar"):
                    self._problems.add(given.location, f"'{given.text}' is already {owner}", "one name means one thing")


def is_library(root: Node) -> bool:
    """Whether ``root`` is a file of composites or lambdas alone, and no recipe."""
    keys = {key.text for key, _ in root.entries} if isinstance(root, Mapping) else set()
    return bool(keys & {"composites", "lambdas"}) and keys <= {*LIBRARY_SECTIONS}


def broken_relation(relation: Formula, sizes: Sizes) -> str:
    """The sizes that break ``relation``, in words; empty where it holds, or where ``sizes`` do not tell."""
    if known_value(relation, sizes) != 0:
        return ""
    return ", ".join(f"{symbol} is {sizes[symbol]}" for symbol in dict.fromkeys(symbols(relation)))


def broken_fact(fact: ExtentFact | None, size: int) -> str:
    """The fact that ``size`` breaks, in words; empty when it keeps all.

    ``values`` are sizes to specialize for; they forbid no other size.
    """
    if fact is None:
        return ""
    if size % fact.multiple_of:
        return f"extents says multiple_of: {fact.multiple_of}"
    if size < fact.min:
        return f"extents says min: {fact.min}"
    if fact.max is not None and size > fact.max:
        return f"extents says max: {fact.max}"
    return ""
