"""Random numbers of the device header, against published answers and the oracle's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fusebuild.ops.random import draws, normals, philox4x32_10, scaled, stretched
from support.device_harness import library, ptx_of
from support.places import DEVICE

KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
"""Counter, key and result: the philox4x32 lines for 10 rounds of Random123's kat_vectors."""

SEEDS = [(0, 0), (1, 0), (0, 1), (-1, -1), (2**63 - 1, -(2**63)), (0x1234567890ABCDEF, 7 << 32)]


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_the_oracle_gives_the_published_words(counter: str, key: str, result: str) -> None:
    assert list(philox4x32_10(words(counter), words(key))) == words(result)
    tensors = ([torch.tensor(word) for word in words(text)] for text in (counter, key))
    assert [int(word) for word in philox4x32_10(*tensors)] == words(result)


def test_the_device_gives_the_published_words() -> None:
    counters, keys, results = (torch.tensor([words(text) for text in column]) for column in zip(*KNOWN, strict=True))
    out = torch.zeros_like(results)
    library("random").run("philox", (1,), (128,), counters, keys, out, len(KNOWN))
    assert torch.equal(out, results)


@pytest.mark.parametrize(("seed", "offset"), SEEDS)
def test_device_and_oracle_draw_the_same_floats(seed: int, offset: int) -> None:
    far = torch.tensor([2**31, 2**34 - 1, 2**34, 2**62, 2**63 - 1, -1, -4, -5, -(2**63)])
    index = torch.cat([torch.arange(503), far])
    out = torch.full((len(index),), -1.0)
    library("random").run("uniform", (4,), (128,), index, out, seed, offset, len(index))
    want = draws(torch, index, torch.tensor(seed), torch.tensor(offset))
    assert out.dtype == want.dtype == torch.float32
    assert torch.equal(out, want)
    vectors = torch.full((512,), -1.0)
    library("random").run("uniform_vectors", (1,), (128,), vectors, seed, offset, 512)
    assert torch.equal(vectors[:503], want[:503])


@pytest.mark.parametrize(("seed", "offset"), SEEDS)
def test_device_and_oracle_draw_the_same_normal_numbers(seed: int, offset: int) -> None:
    index = torch.cat([torch.arange(503), torch.tensor([2**34, 2**63 - 1, -1, -(2**63)])])
    out = torch.full((len(index),), -1.0)
    library("random").run("normal", (4,), (128,), index, out, seed, offset, len(index))
    want = normals(torch, index, torch.tensor(seed), torch.tensor(offset))
    torch.testing.assert_close(out.double(), want, rtol=4 * 2.0**-24, atol=1e-15)


def test_normal_numbers_are_scaled_with_one_rounding() -> None:
    draw = normals(torch, torch.arange(1024), torch.tensor(3), torch.tensor(0)).float()
    for mean, std in ((0.0, 1.0), (-3.5, 0.1), (1e-3, 1e4), (7.0, 0.0)):
        out = torch.zeros_like(draw)
        library("random").run("around", (8,), (128,), draw, torch.tensor([mean, std]), out, len(draw))
        assert torch.equal(out, scaled(torch, draw, torch.tensor(mean), torch.tensor(std)).float())


def test_a_float_is_the_upper_24_bits_of_its_word() -> None:
    out, index = torch.zeros(4), torch.arange(4)
    library("random").run("uniform", (1,), (128,), index, out, 0, 0, 4)
    assert [int(number * 2**24) for number in out.tolist()] == [word >> 8 for word in words(KNOWN[0][2])]
    seed, offset = 0x299F31D0A4093822, 0x0370734413198A2E  # the low words first
    index = 4 * (0x05A308D3 << 32 | 0x243F6A88) + torch.arange(4)
    counter = [0x243F6A88, 0x05A308D3, *words(KNOWN[2][0])[2:]]
    library("random").run("uniform", (1,), (128,), index, out, seed, offset, 4)
    assert [int(number * 2**24) for number in out.tolist()] == [
        word >> 8 for word in philox4x32_10(counter, words(KNOWN[2][1]))
    ]


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (3.0, 3.5), (-0.3, 0.7), (5.0, -5.0), (1e-3, 1e4)])
def test_bounds_are_met_with_one_rounding(low: float, high: float) -> None:
    draw = draws(torch, torch.arange(1024), torch.tensor(3), torch.tensor(0))
    draw[:2] = torch.tensor([0.0, 1 - 2**-24])
    out = torch.zeros_like(draw)
    library("random").run("between", (8,), (128,), draw, torch.tensor([low, high]), out, len(draw))
    assert torch.equal(out, stretched(torch, draw, torch.tensor(low), torch.tensor(high)))
    assert out[0] == torch.tensor(low)
    assert bool(((out >= min(low, high)) & (out <= max(low, high))).all())


def test_nvcc_draws_four_neighbours_with_the_multiplications_of_one(tmp_path: Path) -> None:
    entries = ptx_of(DEVICE / "random.cu", tmp_path).split(".entry ")[1:]
    products = {
        entry.split("(")[0].strip(): entry.count("mul.lo.s64") + entry.count("mul.wide.u32") for entry in entries
    }
    assert 20 <= products["uniform"] <= 24
    assert products["uniform_vectors"] <= products["uniform"]


def test_nvcc_makes_four_normal_neighbours_of_two_radii_and_two_angles(tmp_path: Path) -> None:
    """A logarithm converts its exponent, and a pair of sine and cosine rounds to a quarter turn."""
    entries = ptx_of(DEVICE / "random.cu", tmp_path).split(".entry ")[1:]
    made = {
        entry.split("(")[0].strip(): (entry.count("cvt.rn.f32.s32"), entry.count("cvt.rni.f32.f32"))
        for entry in entries
    }
    assert (made["normal"], made["normal_vectors"]) == ((1, 1), (2, 2))
