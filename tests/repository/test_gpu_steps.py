"""``.ci/gpu`` runs its steps, and nothing else of what it is made of."""

from __future__ import annotations

import subprocess

import pytest

from support.places import ROOT


@pytest.mark.parametrize("name", ["fusebuild", "sanitized", "compile", "is_step", "tests verify", "", "rm"])
def test_only_steps_are_run(name: str) -> None:
    done = subprocess.run([ROOT / ".ci" / "gpu", "tests", name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    steps = "tests verify memcheck racecheck new-shape named sweep"
    assert done.stderr == f"no step is called '{name}', only {steps}\n"
