"""Rows of dtypes: what each says of itself is what torch says of the type that it names."""

from __future__ import annotations

import pytest

from fusebuild.ir.dtype import DType

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
class TestRows:
    def test_torch_has_a_type_of_that_name_and_size(self, dtype: DType) -> None:
        named = getattr(torch, dtype.row.torch)
        assert named.itemsize == dtype.bytes
        assert named.is_floating_point == dtype.is_floating
        assert {getattr(torch, name) for name in dtype.row.torch_spellings} <= {named}

    def test_its_range_is_that_of_torch(self, dtype: DType) -> None:
        """A row of an unsigned type fails here: integers are taken as signed."""
        if dtype is DType.BOOL:
            return
        named = getattr(torch, dtype.row.torch)
        if dtype.is_integer:
            assert (dtype.lowest, dtype.highest) == (torch.iinfo(named).min, torch.iinfo(named).max)
            return
        bias = 2 ** (dtype.row.exponent_bits - 1) - 1
        limits = torch.finfo(named)
        assert (dtype.unit_in_last_place, 2.0 ** (1 - bias)) == (limits.eps, limits.tiny)

    def test_its_bound_is_that_of_a_result_in_it(self, dtype: DType) -> None:
        """Integers are exact. A result is rounded, to half a unit in the last place or more; a bound of more than 256
        units, or 1e-12, would let wrong results pass."""
        if not dtype.is_floating:
            assert dtype.row.bound == 0.0
            return
        assert dtype.unit_in_last_place / 2 <= dtype.row.bound <= max(256 * dtype.unit_in_last_place, 1e-12)
