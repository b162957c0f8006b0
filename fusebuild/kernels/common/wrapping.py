"""Long lines of rendered CUDA, broken the way that clang-format breaks them, whatever their comments say.

A line is broken where the fewest brackets are open, as far right as it fits; a conditional expression before its ``?``
and its ``:``. Only statements are broken: where kernels are named after their text without comments, a comment must not
change where lines end, so one that does not fit goes on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

WIDTH = 120
_CONTINUED = 4
_BREAKS = re.compile(r"(?<=, )|(?<=; )|(?<=\()(?!\))|(?<= = )(?!\{)|(?= \? )|(?= : )|(?<= && )|(?<= \|\| )")


def wrapped(text: str, width: int = WIDTH) -> str:
    """``text`` with no line longer than ``width`` columns, as far as there are places to break it."""
    return "".join(f"{part}\n" for line in text.splitlines() for part in _parts(line, width))


def _parts(line: str, width: int) -> list[str]:
    if len(line) <= width and "//" not in line:
        return [line.rstrip()]
    code, slashes, comment = line.partition("//")
    indent = len(line) - len(line.lstrip())
    if slashes and not code.strip():
        return _filled(comment.split(), " " * indent + "//", width)
    code = code.rstrip()
    lines = _statement(code, indent, width)
    if not slashes:
        return lines
    if len(lines) == 1 and len(line) <= width:
        return [line]
    last = f"{lines[-1]}  //{comment}"
    return [*lines[:-1], last] if len(last) <= width else [" " * indent + "//" + comment, *lines]


def _filled(words: list[str], start: str, width: int) -> list[str]:
    """A comment's words, in lines that begin with ``start``; those after the first are indented."""
    lines = [start]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > width and lines[-1] != start:
            lines.append(f"{start}  ")
        lines[-1] += f" {word}"
    return lines


def _statement(code: str, indent: int, width: int) -> list[str]:
    if len(code) <= width:
        return [code]
    breaks = list(_breaks(code))
    chosen = [at for at, depth in breaks if depth == 0 and code[at : at + 3] in (" ? ", " : ")]
    if not chosen:
        fitting = [(depth, -at) for at, depth in breaks if len(code[:at].rstrip()) <= width]
        if not fitting:
            return [code]
        chosen = [-min(fitting)[1]]
    lines = [code[: chosen[0]].rstrip()]
    for start, end in zip(chosen, [*chosen[1:], len(code)], strict=True):
        lines += _statement(" " * (indent + _CONTINUED) + code[start:end].strip(), indent, width)
    return lines


def _breaks(code: str) -> Iterator[tuple[int, int]]:
    """``(where, how many brackets are open)`` of the places to break ``code``. What stands in angle brackets stays
    together."""
    begin = len(code) - len(code.lstrip())
    places = {match.start() for match in _BREAKS.finditer(code, begin + 1)}
    depth, angles = 0, 0
    for at, character in enumerate(code):
        if at in places and not angles:
            yield at, depth
        is_angle = at > 0 and code[at - 1] not in " -"
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "<" and is_angle:
            angles += 1
        elif character == ">" and is_angle and angles:
            angles -= 1
