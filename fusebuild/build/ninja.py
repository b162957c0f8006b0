"""What ninja reads and prints: ``build.ninja`` from its template, the compilers' commands in it, and compilations that
failed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import takewhile

from fusebuild.build.job import Failure, Job
from fusebuild.build.toolchain import Toolchain
from fusebuild.errors import CompileError, UsageError
from fusebuild.system.resources import ninja_template
from fusebuild.target.table import Target

KERNEL_HEADER = "fusebuild/kernel.cuh"
"""The header that every kernel includes, before anything else."""

STATUS = "fusebuild %f/%t "
STATUS_LINE = re.compile(r"fusebuild (\d+)/(\d+) ")
_ENDS_OUTPUT = re.compile(rf"{STATUS_LINE.pattern}|ninja: ")
_FAILED_LINE = re.compile(r"FAILED: (?:\[code=\d+\] )?(\S+)")


def compiler_flags(target: Target) -> str:
    """The compiler's command for ``target`` and the target's own flags: all that decides how a text is compiled."""
    return _command_and_flags("host" if target.is_host else "cubin", target)


def header_flags(target: Target) -> str:
    """The same for the precompiled header of ``target``."""
    return _command_and_flags("header", target)


def _command_and_flags(rule: str, target: Target) -> str:
    return " ".join([_rule_command(rule), *target.compiler_flags])


def _words(toolchain: Toolchain) -> dict[str, str]:
    """The values of the ``@words@`` in the template."""
    return {
        "nvcc": shlex.quote(str(toolchain.nvcc or "nvcc")),
        "cxx": shlex.quote(str(toolchain.cxx)),
        "cuda_include": shlex.quote(str(toolchain.cuda_include)),
    }


def ninja_text(toolchain: Toolchain, planned: Sequence[Job], with_headers: Sequence[Target] = ()) -> str:
    """``build.ninja``: the template with its ``@words@`` replaced, and one edge for each of ``planned``; those for a
    target of ``with_headers`` wait for its precompiled header."""
    words = _words(toolchain)
    rules = re.sub(
        r"(?<= = )@(\w+)@$", lambda match: _ninja_escape(words[match[1]]), ninja_template(), flags=re.MULTILINE
    )
    headers = [_edge(header_output(each), f"header include/{KERNEL_HEADER}", each) for each in with_headers]
    edges = []
    for job in planned:
        waits = f" || {header_output(job.target)}" if job.target in with_headers else ""
        edges.append(_edge(job.output, f"{job.rule} {job.input}{waits}", job.target))
    return "\n".join([rules, *headers, *edges])


def _edge(output: str, inputs: str, target: Target) -> str:
    """One edge of ``build.ninja``; ``inputs`` are its rule and what follows that."""
    variables = "".join(f"  {name} = {_ninja_escape(value)}\n" for name, value in _edge_variables(target).items())
    return f"build {output}: {inputs}\n{variables}"


def _edge_variables(target: Target) -> Mapping[str, str]:
    """The variables that the command of a rule takes from each edge."""
    return {"flags": shlex.join(target.compiler_flags), "target": target.name}


def header_output(target: Target) -> str:
    """The precompiled header of ``target`` as ``build.ninja`` names it: g++ looks for it beside the header, in each
    folder that it looks for that in."""
    return f"precompiled/{target.name}/{KERNEL_HEADER}.gch"


def compile_arguments(job: Job, toolchain: Toolchain) -> list[str]:
    """The rule's command without its redirection."""
    words = {**_words(toolchain), **_edge_variables(job.target), "in": job.input, "out": job.output}
    command = _rule_command(job.rule).partition(" > ")[0]
    return shlex.split(re.sub(r"\$(\w+)", lambda match: words[match[1]], command))


def _rule_command(rule: str) -> str:
    """The command of ``rule``, its lines joined as ninja joins them, with the values of the template's variables."""
    joined = re.sub(r"\$\n *", "", ninja_template())
    values = dict(re.findall(r"^(\w+) = ([^@].*)$", joined, re.MULTILINE))
    match = re.search(rf"^rule {rule}\n(?:  .*\n)*?  command = (.*)$", joined, re.MULTILINE)
    if match is None:
        raise CompileError(f"build.ninja.in has no rule {rule}")
    return re.sub(r"\$(\w+)", lambda word: values.get(word[1], word[0]), match[1])


def failures_in(lines: Sequence[str], jobs: Mapping[str, Job]) -> list[Failure]:
    """The blocks of ninja's output that begin with ``FAILED:``: a line with the command, then what it printed."""
    failures: list[Failure] = []
    for start, line in enumerate(lines):
        failed = _FAILED_LINE.match(line)
        job = jobs.get(failed[1]) if failed else None
        if job is None:
            continue
        output = "\n".join(takewhile(lambda line: not _ENDS_OUTPUT.match(line), lines[start + 2 :]))
        failures.append(job.failure(output, lines[start + 1]))
    return failures


def _ninja_escape(text: str) -> str:
    if "\n" in text:
        raise UsageError(f"a path with a line break cannot be built with: {text!r}")
    return text.replace("$", "$$")
