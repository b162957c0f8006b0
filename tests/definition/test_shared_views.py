"""Outputs that only view an input, where the caller lets them share its memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fusebuild.definition import DataType, FusionDefinition

torch = pytest.importorskip("torch")


@pytest.fixture
def own_cache(compilers: None, empty_store: Path) -> Path:
    return empty_store.parent


def views_and_a_sum() -> FusionDefinition:
    with FusionDefinition(name="views") as fd:
        x, n = fd.define_tensor([-1, -1], True), fd.define_scalar(None, DataType.Int)
        fd.add_output(fd.ops.reshape(x, [n, -1]))
        fd.add_output(fd.ops.sum(x, [1]))
        fd.add_output(x, stride_order=[0, 1])
        fd.add_output(fd.ops.expand(fd.ops.broadcast(x, [True, False, False]), [3, -1, -1]))
        fd.add_output(fd.ops.slice(fd.ops.permute(x, [1, 0]), [1, 0], [3, n]))
        fd.add_output(fd.ops.reshape(x * 2.0, [n, -1]))
    return fd


def wanted(x: Any, n: int) -> list[Any]:
    return [x.reshape(n, -1), x.sum(1), x, x.expand(3, *x.shape), x.t()[1:3, :n], 2 * x.reshape(n, -1)]


def test_views_share_and_the_rest_is_computed(own_cache: Path) -> None:
    fd, x = views_and_a_sum(), torch.rand(4, 6)
    shared, copied = fd.execute([x, 3], share=True), fd.execute([x, 3])
    memory = x.untyped_storage().data_ptr()
    for a, b, want in zip(shared, copied, wanted(x, 3), strict=True):
        torch.testing.assert_close(a, want)
        torch.testing.assert_close(b, want)
        assert b.untyped_storage().data_ptr() != memory
    assert [a.untyped_storage().data_ptr() == memory for a in shared] == [True, False, True, True, True, False]


def test_nothing_is_compiled_where_all_are_views() -> None:
    with FusionDefinition(name="views") as fd:
        x = fd.define_tensor([-1, 4], True)
        fd.add_output(fd.ops.reshape(x, [x.size(0), 2, 2]))
    given = torch.rand(3, 4)
    (got,) = fd.execute([given], share=True)
    assert got.data_ptr() == given.data_ptr()
    assert got.shape == (3, 2, 2)
    assert not fd._plans
    with pytest.raises(ValueError, match=r"^views: dim 1 of input t0 is 4 = 4, got 5$"):
        fd.execute([torch.rand(3, 5)], share=True)


def test_sizes_that_do_not_agree_are_refused() -> None:
    with FusionDefinition(name="views") as fd:
        x, n, m = fd.define_tensor([-1, -1], True), *(fd.define_scalar(None, DataType.Int) for _ in range(2))
        fd.add_output(fd.ops.reshape(x, [n, m]))
    assert fd.execute([torch.rand(3, 4), 2, 6], share=True)[0].shape == (2, 6)
    with pytest.raises(ValueError, match=r"^views: expected i0\*i1 == i2\*i3, got sizes "):
        fd.execute([torch.rand(3, 4), 2, 5], share=True)


def test_an_input_that_is_overwritten_is_copied(own_cache: Path) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 4], True)
        fd.add_output(fd.ops.reshape(x, [-1]))
        fd.add_output(x + 1.0, x)
    given = torch.rand(3, 4)
    before = given.clone()
    (got,) = fd.execute([given], share=True)
    assert torch.equal(got, before.reshape(-1))
    assert torch.equal(given, before + 1)
