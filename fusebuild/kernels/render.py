"""Kernels as text: one frozen view of a KernelSpec, filled into its Jinja template.

A kernel is named after its template and the digest of its text without comments. Equal kernels of many recipes thus
have one name and one object, whatever their comments say about where they come from; a changed doc string or line
number changes no object. The commented text is what people read and what an artifact carries.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace

import jinja2
import jinja2.meta
from jinja2.sandbox import SandboxedEnvironment

from fusebuild.artifact import launch_text
from fusebuild.artifact.plan import Plan
from fusebuild.ir.fid import OriginalFid, SegmentFid
from fusebuild.kernels.common.spec import KernelParameter, KernelSpec
from fusebuild.kernels.common.view import KernelView
from fusebuild.kernels.common.wrapping import wrapped
from fusebuild.kernels.families import template_folders, view_of
from fusebuild.system.resources import templates_dir

_PLACEHOLDER, _PARAMETERS, _CONSTANTS = "FUSEBUILD_KERNEL_NAME", "FUSEBUILD_PARAMETERS", "FUSEBUILD_CONSTANTS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a kernel comes from: the first lines of its text."""

    recipe: str
    segment: int
    fid_map: Mapping[SegmentFid, OriginalFid]
    scheduler: str
    variant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A rendered kernel. ``source`` is compiled: the text without comments."""

    name: str
    banner: tuple[str, ...]
    """The lines of the comment that the text begins with: where the kernel comes from."""

    body: str
    """What follows that comment."""

    source: str
    parameters: tuple[KernelParameter, ...]
    """Those that the text uses and has to be given."""

    launches: tuple[str, ...] = ()
    """Paragraphs about each of its launches, as far as a plan has some."""

    @property
    def text(self) -> str:
        """For people."""
        return wrapped("".join(f"// {line}\n" for line in (*self.banner, *self.launches))) + self.body


@functools.cache
def environment() -> jinja2.Environment:
    """The Jinja environment: sandboxed, an undefined name is an error."""
    return SandboxedEnvironment(
        loader=jinja2.FileSystemLoader([templates_dir() / folder for folder in template_folders()]),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,  # templates stay as they are while a process runs
        optimized=False,  # a process compiles each template once; to fold its constants first takes longer
    )


def render(spec: KernelSpec, origin: Origin) -> Kernel:
    """The text of ``spec``. Parameters that its body does not use are left out."""
    text = _text(spec, view_of(spec))
    used = _used_parameters(spec, strip_comments(text))
    declared = text.replace(_PARAMETERS, _parameters(used)).replace(_CONSTANTS, _constants(used))
    body = wrapped(declared)
    source = strip_comments(body)
    name = f"{spec.template}_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    return Kernel(
        name=name,
        banner=_banner(spec, origin),
        body=body.replace(_PLACEHOLDER, name),
        source=source.replace(_PLACEHOLDER, name),
        parameters=tuple(parameter for parameter in used if parameter.value is None),
    )


class Texts:
    """The kernels of one segment. Of equal ones, as variants often finish alike, one is rendered: that of the first."""

    def __init__(self) -> None:
        self._known: list[tuple[KernelSpec, Kernel]] = []

    def of(self, spec: KernelSpec, origin: Origin) -> Kernel:
        """The kernel of ``spec``, whose text tells of the first ``origin``."""
        for known, kernel in self._known:
            if known == spec:
                return kernel
        kernel = render(spec, origin)
        self._known.append((spec, kernel))
        return kernel


def _text(spec: KernelSpec, view: KernelView) -> str:
    """The template of ``spec`` filled in, which sees this as ``kernel``; its parameters are still to be declared."""
    kernel = {
        "name": _PLACEHOLDER,
        "parameters": _PARAMETERS,
        "constants": _CONSTANTS,
        "view": view,
        "min_blocks": spec.min_blocks,
        "starts_next_early": spec.order.starts_next_early,
        "members": spec.order.members,
    }
    return environment().get_template(f"{spec.template}.cu.jinja").render(kernel=kernel)


def _parameters(used: Iterable[KernelParameter]) -> str:
    """Those that a kernel is given, a line each, up to the bracket that its body begins with."""
    given = [parameter for parameter in used if parameter.value is None]
    ends = [*["," for _ in given[1:]], ") {"]
    lines = (f"\n    {each.declaration}{end}  // {each.comment}" for each, end in zip(given, ends, strict=False))
    return "".join(lines) if given else ") {"


def _constants(used: Iterable[KernelParameter]) -> str:
    """Those that it knows, a line each, and where the parts of tensors begin that it reads."""
    known = [each.constant for each in used if each.value is not None]
    lines = [*known, *(each.begin for each in used if each.part is not None)]
    return "".join(f"\n  {line}" for line in lines)


def with_launches(kernels: Mapping[str, Kernel], plan: Plan) -> Mapping[str, Kernel]:
    """``kernels`` by name, whose texts tell of every launch of them in ``plan``."""
    told = launch_text.launches(plan)
    return {name: replace(kernel, launches=tuple(told[name])) for name, kernel in kernels.items()}


def _used_parameters(spec: KernelSpec, source: str) -> tuple[KernelParameter, ...]:
    """The parameters whose name stands in ``source``, which declares none."""
    words = set(re.findall(r"\w+", source))
    words |= {each.part.offset for each in spec.parameters if each.part is not None and each.part.name in words}
    return tuple(parameter for parameter in spec.parameters if not words.isdisjoint(parameter.names))


def strip_comments(text: str) -> str:
    """``text`` without ``//`` comments and blank lines."""
    lines = (line if "//" not in line else line[: line.index("//")].rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.isspace()) + "\n"


def _banner(spec: KernelSpec, origin: Origin) -> tuple[str, ...]:
    fids = ", ".join(f"{segment}: {original}" for segment, original in origin.fid_map.items())
    return (
        f"{origin.recipe}, segment {origin.segment}: {origin.scheduler}, variant {origin.variant}",
        f"segment fids to original fids: {{{fids}}}",
        f"schedule: {describe(spec.heuristics)}{', backwards' if spec.order.backwards else ''}",
    )


def describe(heuristics: object) -> str:
    """Heuristics in one line: ``threads=256 unroll=2``."""
    assert is_dataclass(heuristics)
    assert not isinstance(heuristics, type)
    parts: list[str] = []
    for key, value in asdict(heuristics).items():
        if isinstance(value, dict):
            parts += [f"{key}.{inner}={_described(number)}" for inner, number in value.items()]
        elif value is not None:
            parts.append(f"{key}={_described(value)}")
    return " ".join(parts)


def _described(value: object) -> str:
    if isinstance(value, dict):
        return f"({' '.join(f'{key}={_described(each)}' for key, each in value.items() if each is not None)})"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_described, value))}]"
    return str(value)


def template_digests(templates: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of each of the named templates, and of what they import."""
    digests: dict[str, str] = {}
    names = {f"{template}.cu.jinja" for template in templates}
    while names:
        name = names.pop()
        source = _source(name)
        digests[name] = hashlib.sha256(source.encode()).hexdigest()
        imported = jinja2.meta.find_referenced_templates(environment().parse(source))
        names |= {each for each in imported if each is not None} - digests.keys()
    return dict(sorted(digests.items()))


def _source(template: str) -> str:
    """The text of a template, in whichever folder of templates it lies."""
    loader = environment().loader
    assert loader is not None
    return loader.get_source(environment(), template)[0]
