"""How the device header divides indices by reciprocals that the executor computes, and narrows bounds.

``test_device_header.py`` runs this file again under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

from random import Random

import torch

from fusebuild.ir.formula import evaluate
from fusebuild.kernels.pointwise.narrow import reciprocal_of
from support.device_harness import library

LARGEST = 2**31 - 1


def test_quotients_and_what_is_left_are_exact() -> None:
    random = Random(5)
    powers = [2**bits for bits in range(31)]
    sizes = sorted({1, 3, 7, LARGEST, *powers, *(power - 1 for power in powers[1:]), *(power + 1 for power in powers)})
    sizes += [int(2 ** random.uniform(0, 31)) for _ in range(300)]
    pairs = [
        (number, size)
        for size in sizes
        for multiple in (0, 1, LARGEST // size, random.randint(0, LARGEST // size))
        for number in (size * multiple - 1, size * multiple, size * multiple + 1, size * multiple + size - 1, LARGEST)
        if 0 <= number <= LARGEST
    ]
    numbers, divisors = (torch.tensor(column, dtype=torch.int32) for column in zip(*pairs, strict=True))
    reciprocals = torch.tensor([evaluate(reciprocal_of("N"), {"N": size}) for _, size in pairs])
    quotients, remainders = torch.zeros_like(numbers), torch.zeros_like(numbers)
    library("divide").run("divide", (-(-len(pairs) // 128),), (128,), numbers, divisors, reciprocals, quotients,
                          remainders, len(pairs))  # fmt: skip
    assert torch.equal(quotients, numbers // divisors)
    assert torch.equal(remainders, numbers % divisors)


def test_bounds_that_no_index_reaches_are_as_good_as_the_nearest() -> None:
    bounds = torch.tensor([0, 5, -5, LARGEST, -LARGEST, 2**31, -(2**31), 2**40, -(2**40)])
    out = torch.zeros(len(bounds), dtype=torch.int32)
    library("divide").run("nearest_index", (1,), (128,), bounds, out, len(bounds))
    assert torch.equal(out.long(), bounds.clamp(-LARGEST, LARGEST))


def test_counting_on_carries_where_an_axis_ends() -> None:
    sizes = [1, 2, 3, 7, 2**30 + 1, LARGEST]
    cases = torch.tensor([
        (coordinate, step, size)
        for size in sizes
        for coordinate in {0, size // 2, size - 1}
        for step in {0, 1, size // 2, size - 1, size}
    ])  # fmt: skip
    coordinates, steps, extents = cases.int().unbind(1)
    found, carries = coordinates.clone(), torch.zeros_like(coordinates)
    library("divide").run(
        "count_on", (1,), (128,), found, steps.contiguous(), extents.contiguous(), carries, len(cases)
    )
    places = cases[:, 0] + cases[:, 1]
    assert torch.equal(found.long(), places % cases[:, 2])
    assert torch.equal(carries.long(), places // cases[:, 2])


def test_what_an_index_names_is_the_nearest_inside() -> None:
    indices = [0, 1, 5, LARGEST - 1, LARGEST, 2**31, 2**32 - 1, 2**32, 2**32 + 3, 2**63 - 1, -1, -(2**31), -(2**63)]
    cases = torch.tensor([(index, size) for index in indices for size in (0, 1, 2, 6, LARGEST)])
    out = torch.full((len(cases),), -1)
    library("divide").run(
        "near_inside", (1,), (128,), cases[:, 0].contiguous(), cases[:, 1].int().contiguous(), out, len(cases)
    )
    assert torch.equal(out, torch.minimum(cases[:, 0], cases[:, 1] - 1).clamp(min=0))
