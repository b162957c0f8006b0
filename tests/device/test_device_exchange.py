"""Row reductions in two halves: the device header's, on the CPU unless told otherwise.

``test_device_header.py`` runs this file again under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

import re

import pytest
import torch

from support.device_harness import (
    MISUSED,
    NAN,
    TARGET,
    library,
    only_on_the_host,
    run_misuse,
    same_values,
    sample,
)
from support.places import DEVICE
from support.sampled import sampled

pytestmark = pytest.mark.skipif(TARGET.cluster == 1, reason="there are no clusters")

SHAPES = re.findall(r"^WALK_KERNEL\((\w+), (\d+), (\d+)\)", (DEVICE / "exchange.cu").read_text(), re.MULTILINE)
RESULTS = {"Sums": 3, "One": 1, "Kinds": 7}


def expected_of(kind: str, x: torch.Tensor) -> torch.Tensor:
    exact = x.double()
    if kind == "Sums":
        return torch.stack([exact.sum(1), 2 * exact.sum(1), exact.square().sum(1)], dim=1)
    if kind == "One":
        return exact.amax(1, keepdim=True)
    deviations = (exact - exact.mean(1, keepdim=True)).square().sum(1)
    count = torch.full_like(deviations, x.shape[1])
    found = [exact.mean(1), deviations, count, exact.sum(1), exact.amax(1), -exact.amin(1), (x > 3).any(1).double()]
    return torch.stack(found, dim=1)


@pytest.mark.parametrize(("kind", "threads", "cluster"), [(kind, int(a), int(b)) for kind, a, b in SHAPES])
@pytest.mark.parametrize(
    ("rows", "together"), sampled([(30, 7), (0, 1), (1, 1), (9, 9), (2, 5), (33, 33), (12, 1), (21, 2)], 4)
)
def test_every_thread_of_every_block_gets_the_results_of_every_row(
    kind: str, threads: int, cluster: int, rows: int, together: int
) -> None:
    """However many rows have gone through the buffers, and wherever rows are all finished between."""
    columns = threads * cluster
    x = sample(torch.float32, rows * (columns + 1)).view(rows, columns + 1)
    out = torch.full((rows, columns, RESULTS[kind]), NAN, dtype=torch.float64)
    again = torch.zeros_like(out)
    for results in (out, again):
        library("exchange").run(f"walk_{kind}_{threads}x{cluster}", (cluster,), (threads,), x, results, rows, together)
    assert same_values(out, again)
    assert same_values(out, out[:, :1].expand_as(out).contiguous()), "threads of a row disagree"
    expected = expected_of(kind, x[:, :1] * x[:, 1:])
    assert torch.allclose(out[:, 0], expected, rtol=1e-4, atol=1e-3)


@only_on_the_host
def test_a_warp_that_leaves_no_results_makes_all_wait_forever_and_the_message_says_so() -> None:
    result = run_misuse(library("misuse").path, "leaves_a_row_to_the_others", blocks=2)
    assert result.returncode == MISUSED
    assert "its threads diverged and wait forever: 64 at wait_transfers" in result.stderr
