"""Bytes of a short YAML text, read into the tree that a recipe is made of: what ``recipes.py`` leaves to libyaml."""

from __future__ import annotations

import random

from fusebuild.errors import RecipeError
from fusebuild.recipe.text import Problems, parse_yaml, read_source

MAX_LENGTH = 80
SUFFIX = ".yaml"

_PARTS = ("a", "b: ", "c:\n", "\n", "\n ", "\n  ", "- ", "? ", ": ", ", ", "[", "]", "{", "}", "|", ">", "|2", ">-",
          "|+\n", "'", '"', "''", '\\"', "\\", "\\x", "\\u", "\\U", "\\U0010FFFF", "\\UFFFFFFFF", "\\uD800", "\\N",
          "\\\n", "#", " #", "&a ", "*a", "!", "!!str ", "!<x> ", "!a!b ", "%YAML 1.1\n", "%TAG ! x\n", "%x\n", "---",
          "--- ", "...\n", "<<: ", "~", "null", "=", "@", "`", "\t", "\r", "\r\n", "\x85", "\xa0", "\u2028",
          "\u2029", "\ufeff",
          "\U0001f600", "0", "1", "%FF", "%C3%A9", "-", "?", ":", ",")  # fmt: skip


def read(data: bytes) -> bool:
    """Whether ``data`` is YAML as recipes have it. Anything raised is a bug: what is none is a ``RecipeError``."""
    problems = Problems()
    try:
        parse_yaml(read_source(data.decode("utf-8", "replace"), "fuzzed.yaml"), problems)
        problems.raise_if_any()
    except RecipeError as error:
        if type(error) is not RecipeError or not error.diagnostics:
            raise
        return False
    return True


def hurry() -> None:
    """There is nothing to leave out."""


class Mutator:
    """Makes YAML of YAML."""

    def mutate(self, data: bytes, chance: random.Random) -> bytes:
        """``data`` with a part more, or less, or another one in its place."""
        text = data.decode("utf-8", "replace")
        for _ in range(chance.choice((1, 1, 2, 3))):
            start = chance.randrange(len(text) + 1)
            end = start + chance.choice((0, 0, 0, 1, 2, 5))
            part = chance.choice(_PARTS) if chance.random() < 0.85 else ""
            text = text[:start] + part + text[end:]
        return text.encode("utf-8", "replace")

    def cross(self, first: bytes, second: bytes, chance: random.Random) -> bytes:
        """The head of one text and the tail of another."""
        return first[: chance.randrange(len(first) + 1)] + second[chance.randrange(len(second) + 1) :]
