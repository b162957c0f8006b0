"""Where the repository's files are."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
TEMPLATES = ROOT / "templates"
DOCS = ROOT / "docs"
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
"""The recipes that are shipped."""
FUSIONS = sorted((TESTS / "fusions").glob("*.yaml"))
"""Recipes made for tests, which reach what the shipped ones do not."""
GOLDEN = TESTS / "golden"
NATIVE = TESTS / "native"
"""C++ of tests: programs that use the executor, and a CUDA driver that computes on the CPU."""
DEVICE = TESTS / "device"
"""CUDA of the tests of the device header, beside those tests."""
FEWEST = sorted((TESTS / "fewest").glob("*.yaml"))
"""Recipes of fusions that people write, each with the fewest segments and bytes that it needs at best."""
