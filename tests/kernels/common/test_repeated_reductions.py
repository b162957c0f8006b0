"""Reductions that lack some of the dims that others keep: made again along those, where they cost little."""

from __future__ import annotations

import re

import pytest

from fusebuild.kernels.families import family_of
from fusebuild.target.table import TARGETS
from support.small_recipes import whole


@pytest.mark.parametrize("scheduler", ["reduction", "inner_persistent"])
@pytest.mark.parametrize(
    ("total", "text"),
    [
        ("sum(m, dims=[2], keepdim=True)", ""),
        ("max(abs(m), dims=[2], keepdim=True)", ""),
        ("logsumexp(m, dims=[2], keepdim=True)", "the task iterates over dims that the reduction {} does not have"),
        ("sum(u, dims=[2], keepdim=True)", "{} reduces over other dims than the rest of the task"),
    ],
)
def test_what_is_reduced_anyway_is_reduced_again_for_each_row(scheduler: str, total: str, text: str) -> None:
    """A fold over a mask lacks the heads that it masks; what nobody reads for them, or takes long, is made once."""
    inputs = {"x": "float[B, H, S]", "m": "float[B, 1, S]", "u": "float[B, 1, S]"}
    used = {name: type_ for name, type_ in inputs.items() if name != "u" or "(u," in total}
    end = " * x" if scheduler == "inner_persistent" else ""
    task = whole(used, f"y = sum(x * m, dims=[2], keepdim=True) / {total}{end}", {"y": "float"})
    rejected = family_of(scheduler).accepts(task, TARGETS["sm_90"])
    assert (rejected is None) == (text == "")
    assert rejected is None or re.fullmatch(text.format(r"\w+"), rejected.reason)
