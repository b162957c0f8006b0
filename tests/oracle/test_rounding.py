"""How far rounding moves what a Fusion computes: nothing where nothing is rounded, much where it is ill-conditioned."""

from __future__ import annotations

from typing import Any

import pytest

from fusebuild.ir.dtype import DType
from fusebuild.oracle.reference import rounded_last
from support.small_recipes import recipe_of, text_of

torch = pytest.importorskip("torch")

from fusebuild.oracle.rounding import RandomlyRounded, RandomRounding, distance, reaches  # noqa: E402

EXACT = {
    "copies": ("y = permute(x, permutation=[1, 0])", "float"),
    "selections": ("y = max(x, dims=[1])", "float"),
    "powers_of_two": ("y = x * 0.5", "float"),
    "counts": ("y = sum(cast(x > 0.0, float), dims=[1])", "float"),
    "places": ("y = argmax(x, dim=1)", "int64"),
    "tests": ("y = x > 0.25", "bool"),
}
"""Bodies that round nothing, and the dtype of what they give."""


def reach_of(body: str, dtype: str, *operands: Any) -> Any:
    """How far ``y`` moves in ``body``, whose inputs ``x`` and ``near`` are ``operands``; inf where it is unsettled."""
    inputs = dict.fromkeys(("x", "near")[: len(operands)], "float[M, N]")
    (reach,) = reaches(recipe_of(text_of(inputs, body, {"y": dtype})).fusion, operands)
    return torch.where(reach.is_unsettled, torch.inf, reach.furthest)


def normal(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", EXACT)
def test_what_is_exact_in_every_kernel_stays(name: str) -> None:
    body, dtype = EXACT[name]
    assert not reach_of(body, dtype, normal(7, 40)).any()


def test_each_evaluation_rounds_otherwise() -> None:
    fusion = recipe_of(text_of({"x": "float[M, N]"}, "y = exp(x)", {"y": "float"})).fusion
    made = [RandomlyRounded(fusion, [normal(3, 40)], RandomRounding(seed), {}).outputs(frozenset()) for seed in (1, 2)]
    assert float((made[0][0] == made[1][0]).double().mean()) < 0.5


def test_a_rounding_is_a_few_units_in_the_last_place() -> None:
    reach = reach_of("y = exp(x)", "float", normal(7, 40))
    last_places = reach / normal(7, 40).double().exp() / 2.0**-23
    assert float(last_places.min()) > 0.5
    assert float(last_places.max()) < 5


def test_a_quotient_moves_where_its_divisor_cancels() -> None:
    x, near = normal(1, 64), normal(1, 64).flip(1)
    near[0, 5] = x[0, 5] * (1 + 2.0**-20)
    reach = reach_of("y = x / (x * 1.1 - near * 1.1)", "float", x, near)
    assert int(reach.argmax()) == 5
    assert float(reach[0, 5]) > 1000 * float(reach.median())


def test_sums_that_cancel_move_by_their_terms_and_no_more() -> None:
    x = normal(64, 4096)
    reach = reach_of("y = sum(x * 1.1, dims=[1])", "float", x)
    term_errors = (x.double().square().sum(1)).sqrt() * 2.0**-23
    assert float((reach / term_errors).min()) > 0.5
    assert float((reach / term_errors).max()) < 10


def test_a_sum_that_cancels_to_a_float_moves_all_the_same() -> None:
    """Kernels lose the small term where they add it to a large one first."""
    x = torch.tensor([[1.0, 2.0**-25, -1.0], [3.0, 4.0, -7.0]])
    small, whole = reach_of("y = sum(x, dims=[1])", "float", x).tolist()
    assert small > 2.0**-25
    assert whole == 0.0


def test_a_whole_number_moves_by_one_where_it_is_nearly_a_tie() -> None:
    x = torch.tensor([[19.5, 19.49, 7.0, 2.5000001, -3.5]]) / 1.1
    reach = reach_of("y = cast(round(x * 1.1), int32)", "int32", x)
    assert reach.tolist() == [[1.0, 0.0, 0.0, 1.0, 1.0]]


def test_a_bool_moves_where_what_is_compared_is_nearly_equal() -> None:
    x = torch.tensor([[0.1, 0.1001, 5.0]])
    assert reach_of("y = x * 3.0 > 0.3", "bool", x).tolist() == [[1.0, 0.0, 0.0]]


def test_the_place_of_a_maximum_moves_between_those_that_are_as_large() -> None:
    x = torch.tensor([[1.0, 3.1, 0.0, 3.1], [1.0, 3.1, 0.0, 3.2]])
    assert reach_of("y = argmax(x * 1.1, dim=1)", "int64", x).tolist() == [2.0, 0.0]


def test_a_narrow_value_is_the_other_neighbour_only_where_it_is_nearly_a_tie() -> None:
    tie = 1.0 + 2.0**-8
    x = torch.tensor([[tie, tie + 2.0**-14, tie - 2.0**-14, 1.0, 1.003]]) / 1.1
    reach = reach_of("y = cast(cast(x * 1.1, bfloat16), float)", "float", x)
    assert reach.tolist() == [[2.0**-7, 0.0, 0.0, 0.0, 0.0]]


def test_near_a_tie_a_narrow_value_goes_to_either_neighbour_as_often() -> None:
    x = torch.full((100_000,), 1.0 + 2.0**-8 + 2.0**-23, dtype=torch.float64)
    held = RandomRounding(7)(x, DType.BFLOAT16)
    assert {*held.tolist()} == {1.0, 1.0 + 2.0**-7}
    assert 0.45 < float((held > 1).double().mean()) < 0.55
    below = torch.full((1000,), -1.0 - 2.0**-11)
    assert {*RandomRounding(7)(below, DType.HALF).tolist()} == {-1.0, -1.0 - 2.0**-10}


def test_where_everywhere_is_near_it_goes_to_either_neighbour_the_nearer_one_more_often() -> None:
    x = torch.full((100_000,), 1.0 + 2.0**-9 + 2.0**-20, dtype=torch.float64)
    held = RandomRounding(7, torch.inf)(x, DType.BFLOAT16)
    assert {*held.tolist()} == {1.0, 1.0 + 2.0**-7}
    assert 0.24 < float((held > 1).double().mean()) < 0.26


def test_products_of_a_library_are_rounded_so() -> None:
    inputs = {"a": "bfloat16[M, K]", "b": "bfloat16[K, N]"}
    fusion = recipe_of(text_of(inputs, "y = cast(matmul(a, b), float)", {"y": "float"})).fusion
    (reach,) = reaches(fusion, [normal(16, 64).bfloat16(), normal(64, 16).bfloat16()])
    assert float((reach.furthest > 0).double().mean()) > 0.9


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.HALF, DType.FLOAT, DType.DOUBLE])
def test_zeros_infinities_and_nan_stay(dtype: DType) -> None:
    special = torch.tensor([0.0, torch.inf, -torch.inf, torch.nan], dtype=torch.float64)
    held = RandomRounding(1)(special, dtype)
    assert torch.equal(held.nan_to_num(nan=7.0), special.nan_to_num(nan=7.0))


def test_an_identity_that_is_infinite_makes_nothing_undefined() -> None:
    reach = reach_of("y = logsumexp(x, dims=[1])", "float", normal(7, 40))
    assert bool((reach < 1e-4).all())


def test_a_value_that_may_be_undefined_moves_infinitely() -> None:
    x = torch.tensor([[0.3, 1.0]])
    assert reach_of("y = sqrt(0.3 - x * x / 0.3)", "float", x).tolist()[0][0] == torch.inf


def test_the_last_rounding_of_a_narrow_output_is_none_of_the_reach() -> None:
    fusion = recipe_of(text_of({"x": "bfloat16[M, N]"}, "y = x * 1.1", {"y": "bfloat16"})).fusion
    assert rounded_last(fusion)
    (reach,) = reaches(fusion, [normal(7, 40).bfloat16()])
    assert float(reach.furthest.max()) < 2.0**-16


def test_distances_of_integers_and_of_what_is_no_number() -> None:
    large = 2**60
    whole = distance(torch.tensor([large + 1, 3, 4]), torch.tensor([large, 3, 6]))
    assert whole.tolist() == [1.0, 0.0, 2.0]
    got = torch.tensor([torch.nan, torch.inf, -torch.inf, 1.0, torch.nan])
    want = torch.tensor([torch.nan, torch.inf, torch.inf, torch.nan, 1.0])
    assert distance(got, want).tolist() == [0.0, 0.0, torch.inf, torch.inf, torch.inf]


def near_pole(body: str, *operands: Any) -> Any:
    """Which elements of ``y`` in ``body`` rounding may make infinite."""
    inputs = dict.fromkeys(("x", "near")[: len(operands)], "float[M, N]")
    (reach,) = reaches(recipe_of(text_of(inputs, body, {"y": "float"})).fusion, operands)
    return ~reach.near_pole.isnan() | reach.is_unsettled


@pytest.mark.parametrize("body", ["y = 1.0 / (x - x * 1e7 * 1e-7)", "d = x - x * 1e7 * 1e-7\ny = 1.0 / (d * d)"])
def test_a_quotient_is_near_a_pole_where_its_divisor_cancels_completely(body: str) -> None:
    assert bool(near_pole(body, normal(7, 40)).all())


@pytest.mark.parametrize(
    "body", ["y = 1.0 / x", "y = sin(x * 1.1e9)", "y = x - x * 1e7 * 1e-7", "y = exp(x)", "y = x * 1.1"]
)
def test_what_rounding_makes_anything_of_but_infinite_is_not_near_a_pole(body: str) -> None:
    assert float(near_pole(body, normal(7, 40)).double().mean()) < 0.02
