"""Bytes of a recipe, read as ``load_recipe`` reads those of a file, and how to change them into others.

A change works on what a recipe is made of (sections, lines, words, statements), with material from the recipes of this
repository, so that most of what it makes gets past the YAML and is wrong further in.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

import yaml

from fusebuild.errors import RecipeError
from fusebuild.ops import lambda_checks
from fusebuild.ops.table import OPS
from fusebuild.recipe.recipe import decode_recipe
from support.places import ROOT, TESTS

MAX_LENGTH = 600
SUFFIX = ".yaml"
FEW_PROBES = 2
"""How often a lambda is tried; more tries run the same code again, for nearly all of the time there is."""

_WORD = re.compile(r"[A-Za-z_]\w*|\d[\w.]*(?:e[+-]?\d+)?|[ ]+|\n|.", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
_SECTION = re.compile(r"^(?=\S)", re.MULTILINE)
_KEYWORD = re.compile(r"\b\w+=(?:\[[^\]\n]*\]|[\w.-]+)")
_ASSIGNED = re.compile(r"^ +(\w+) = ", re.MULTILINE)
_NUMBERS = ("0", "1", "-1", "2", "3", "7", "-0.0", "0.5", "1e308", "1e999", "1e-5", "1e-400", "nan", ".nan", "-.inf",
            "2147483647", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
            "-9223372036854775808", "1152921504606846976", "9" * 40, "1" + "0" * 400, "9" * 4400, "0x10", "0b1", "0o7",
            "1_0", "010", "1j", "True", "False", "None", "~", "no", "2**62", "10**10")  # fmt: skip
_ODD = ("\t", "\r", "\0", "\x85", "\u2028", "\ufeff", "\ud7ff", "\U0001f600", "é", "ﬁ", "ª", "𝐱", "'", '"', "\\",
        "\\\n", ";", ":", ": ", "#", " #", "&a ", "*a", "!!int ", "|", ">", "|2", ">-", "- ", "? ", "---\n", "...\n",
        "%YAML", "[", "]", "{", "}", "(", ")", ",", "=", "==", "<", "->", "@", "**", "//", "%", "~", ">>", ":=",
        "lambda x: x", "f'{x}'", "b''", "...", "x.y", "x[0]", "x[1:]", "*x", "**x", "not x", "x if y else z",
        "[x for x in y]", "await x", "yield", "def f(): pass", "import os", "del x", "pass", "_",
        "__import__")  # fmt: skip


def read(data: bytes) -> bool:
    """Whether ``data`` is a recipe. What it raises is a bug: a recipe that is none is a ``RecipeError``."""
    try:
        decode_recipe(data, "fuzzed.yaml")
    except RecipeError as error:
        if type(error) is not RecipeError or not error.diagnostics:
            raise
        return False
    return True


def hurry() -> None:
    """Leave out what takes time and shows nothing new: libyaml makes the same events as PyYAML's own parser, which
    ``yaml_texts.py`` is about, in a tenth of the time."""
    lambda_checks.PROBES = FEW_PROBES
    yaml.SafeLoader = yaml.CSafeLoader  # type: ignore[misc]


class Mutator:
    """Makes recipes of recipes."""

    def __init__(self) -> None:
        folders = (ROOT / "recipes", TESTS / "fusions", TESTS / "recipe" / "bad")
        paths = sorted(path for folder in folders for path in folder.glob("*.yaml"))
        texts = [path.read_bytes().decode("utf-8", "replace") for path in paths]
        self._lines = sorted({line for text in texts for line in text.split("\n") if 0 < len(line) < 160})
        self._sections = sorted({part for text in texts for part in _SECTION.split(text) if 0 < len(part) < 600})
        self._words = sorted({word for text in texts for word in _WORD.findall(text) if len(word) < 40} | OPS.keys())
        self._names = [word for word in self._words if word.isidentifier()]
        self._keywords = sorted({word for text in texts for word in _KEYWORD.findall(text)})
        self._changes: Sequence[Callable[[random.Random, str], str]] = (
            *[self._change_word] * 8,
            *[self._change_line] * 2,
            *[self._add_statement] * 4,
            *[self._change_call] * 4,
            *[self._change_section] * 2,
            self._insert_odd,
            self._repeat,
        )

    def mutate(self, data: bytes, chance: random.Random) -> bytes:
        """Another recipe, much like ``data``."""
        text = data.decode("utf-8", "replace")
        for _ in range(chance.choice((1, 1, 1, 1, 2, 2, 3))):
            text = chance.choice(self._changes)(chance, text)
        return text.encode("utf-8", "replace")

    def cross(self, first: bytes, second: bytes, chance: random.Random) -> bytes:
        """Sections of both recipes."""
        one, two = (_SECTION.split(data.decode("utf-8", "replace")) for data in (first, second))
        others = {part.partition(":")[0]: part for part in two}
        chosen = [others.get(part.partition(":")[0], part) if chance.random() < 0.3 else part for part in one]
        return "".join(chosen).encode("utf-8", "replace")

    def _material(self, chance: random.Random, text: str, word: str = "") -> str:
        """A word in the place of ``word``, most often one of the same kind."""
        kind = chance.random()
        if word.isidentifier() and kind < 0.7:
            return chance.choice(self._names if kind < 0.3 else _NAME.findall(text))
        if word[:1].isdigit() and kind < 0.7:
            return chance.choice(_NUMBERS)
        if kind < 0.45:
            return chance.choice(_WORD.findall(text) or [" "])
        if kind < 0.8:
            return chance.choice(self._words)
        return chance.choice(_NUMBERS if kind < 0.95 else _ODD)

    def _change_word(self, chance: random.Random, text: str) -> str:
        lines = text.split("\n")
        row, kind = chance.randrange(len(lines)), chance.random()
        words = _WORD.findall(lines[row])
        place = chance.randrange(len(words) + 1)
        if place == len(words) or kind > 0.8:
            words.insert(place, self._material(chance, text))
        elif kind > 0.65:
            del words[place]
        elif words[place].isspace() and chance.random() < 0.9:
            return self._change_word(chance, text)
        else:
            words[place] = self._material(chance, text, words[place])
        lines[row] = "".join(words)
        return "\n".join(lines)

    def _change_line(self, chance: random.Random, text: str) -> str:
        lines = text.split("\n")
        place, kind = chance.randrange(len(lines)), chance.random()
        if kind < 0.2:
            del lines[place]
        elif kind < 0.35:
            lines.insert(chance.randrange(len(lines) + 1), lines[place])
        elif kind < 0.5:
            lines.insert(chance.randrange(len(lines)), lines.pop(place))
        elif kind < 0.6:
            lines[place] = " " * chance.randrange(9) + lines[place].lstrip()
        else:
            lines.insert(place, chance.choice(self._lines))
        return "\n".join(lines)

    def _add_statement(self, chance: random.Random, text: str) -> str:
        """A call of any op, on names that the recipe knows; its result is an output half of the time."""
        start = text.find("body: |\n")
        if start < 0:
            return self._change_section(chance, text)
        name = f"v{chance.randrange(99)}"
        known = re.findall(r"^ +(\w+)(?: =|:)", text, re.MULTILINE) or ["x"]
        op = OPS[chance.choice(tuple(OPS))]
        operands = [chance.choice(known) if chance.random() < 0.8 else self._material(chance, text)
                    for parameter in op.parameters if parameter.default is ... or chance.random() < 0.3]  # fmt: skip
        if chance.random() < 0.3:
            operands.append(chance.choice(self._keywords))
        end = re.compile(r"^(?! |\n)", re.MULTILINE).search(text, start + len("body: |\n"))
        place = end.start() if end else len(text)
        text = f"{text[:place]}  {name} = {op.name}({', '.join(operands)})\n{text[place:]}"
        return text.replace("outputs:\n", f"outputs:\n  {name}: {{}}\n") if chance.random() < 0.5 else text

    def _change_call(self, chance: random.Random, text: str) -> str:
        """Another op, or another keyword, in a call that is there."""
        calls = [*re.finditer(r"\b(\w+)\(", text)]
        if not calls:
            return self._add_statement(chance, text)
        call = chance.choice(calls)
        if chance.random() < 0.5:
            return text[: call.start()] + chance.choice(tuple(OPS)) + text[call.end() - 1 :]
        end = text.find(")", call.end())
        place = end if end > 0 else call.end()
        return f"{text[:place]}, {chance.choice(self._keywords)}{text[place:]}"

    def _change_section(self, chance: random.Random, text: str) -> str:
        parts = _SECTION.split(text)
        place, kind = chance.randrange(len(parts)), chance.random()
        if kind < 0.3:
            parts[place] = chance.choice(self._sections)
        elif kind < 0.7:
            parts.insert(place, chance.choice(self._sections))
        elif kind < 0.8:
            del parts[place]
        else:
            same = [part for part in self._sections if part.partition(":")[0] == parts[place].partition(":")[0]]
            parts[place] = chance.choice(same or self._sections)
        return "".join(parts)

    def _insert_odd(self, chance: random.Random, text: str) -> str:
        place = chance.randrange(len(text) + 1)
        return text[:place] + chance.choice(_ODD) + text[place + chance.randrange(2) :]

    def _repeat(self, chance: random.Random, text: str) -> str:
        """A word many times, as nesting and long lists have it."""
        place = chance.randrange(len(text) + 1)
        word = chance.choice(("(", "[", "{", "-", "- ", "not ", "x + ", "x, ", "1", "[0, ", "abs(", "? ", "\n", " "))
        return text[:place] + word * chance.randrange(2, 200) + text[place:]
