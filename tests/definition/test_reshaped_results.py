"""Results that a caller gets in other dims than they are computed in."""

from __future__ import annotations

import pytest

from fusebuild.definition import FusionDefinition

torch = pytest.importorskip("torch")


def shares_and_running_sums(unused: int = 0) -> FusionDefinition:
    """Shares of rows, in fewer dims, and their running sums, which a scan computes from what it reads."""
    with FusionDefinition() as fd:
        for _ in range(unused):
            fd.define_scalar(7.0)
        x = fd.define_tensor(shape=[3, 4, 8], contiguity=[True] * 3)
        merged = fd.ops.reshape(x / fd.ops.sum(x, dims=[2], keepdim=True), [3, 32])
        fd.add_output(merged)
        fd.add_output(fd.ops.cumsum(merged, 1))
    return fd


def test_have_the_shapes_of_the_definition() -> None:
    fixed, x = shares_and_running_sums(), torch.rand(3, 4, 8) + 0.5
    shares, running = fixed.execute([x])
    torch.testing.assert_close(shares, (x / x.sum(2, keepdim=True)).reshape(3, 32))
    torch.testing.assert_close(running, shares.cumsum(1))


def test_have_the_names_of_the_definition_that_calls() -> None:
    definitions = [shares_and_running_sums(), shares_and_running_sums(unused=2)]
    outputs = [fd._plan_for(torch.device("cpu")).plan.outputs for fd in definitions]
    names = [[f"t{fid}" for fid in fd.outputs()] for fd in definitions]
    assert names[0] != names[1]
    assert [[each.name for each in made] for made in outputs] == names


def test_segments_take_and_give_them_so() -> None:
    fixed, x = shares_and_running_sums(), torch.rand(3, 4, 8) + 0.5
    wanted = fixed.execute([x])
    assert fixed.segment(target="host") == 2
    live = {fixed.inputs()[0]: x}
    for segment in fixed.segments:
        fids = fixed.segment_index_space_maps[segment]
        made = segment.execute([live[fids[fid]] for fid in segment.inputs()])
        live |= {fids[fid]: result for fid, result in zip(segment.outputs(), made, strict=True)}
    for fid, want in zip(fixed.outputs(), wanted, strict=True):
        torch.testing.assert_close(live[fid], want)
