"""How contenders are timed: in turns that rotate, each behind a call of its own that is not timed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fusebuild.bench.contenders import TorchForm, equal_copy, input_sets, our_contender, torch_contender
from fusebuild.bench.device import CudaDevice, Run, Timed
from fusebuild.bench.timing import BATCH, REPLAYS, WARM_UP, call_microseconds, side_by_side, timing
from fusebuild.pipeline import compile_recipes
from fusebuild.recipe.recipe import load_recipe
from fusebuild.runtime.loader import load
from fusebuild.target.table import TARGETS
from support.fake_device import FakeDevice
from support.small_recipes import text_of

torch = pytest.importorskip("torch")

HALVED = text_of(
    {"x": "float[M]"}, "y = x * s", {"y": "{dtype: float, alias: x}"}, name="halved", scalars={"s": "double"},
    cases="M: 64",
)  # fmt: skip


class TestTiming:
    def test_runs_take_turns_and_another_one_is_first_each_turn(self) -> None:
        order: list[str] = []
        contenders = {
            name: Timed(run=partial(order.append, name.upper()), before=partial(order.append, name)) for name in "abc"
        }
        times = side_by_side(contenders, partial(order.append, "-"), FakeDevice([1.0, 2.0, 3.0]))
        turns = ["-aA-bB-cC", "-bB-cC-aA", "-cC-aA-bB"] * (WARM_UP + REPLAYS)
        assert "".join(order) == "".join(turns[: WARM_UP + REPLAYS])
        assert times == {"a": [1.0] * REPLAYS, "b": [2.0] * REPLAYS, "c": [3.0] * REPLAYS}

    def test_the_first_turns_are_not_counted(self) -> None:
        class Warming(FakeDevice):
            def milliseconds(self, lead: Run, contenders: Sequence[Timed]) -> list[float]:
                return [self.seconds() for _ in contenders]

        (taken,) = side_by_side({"a": Timed(run=int, before=int)}, int, Warming([])).values()
        assert taken == [turn * 1e-6 for turn in range(WARM_UP + 1, WARM_UP + REPLAYS + 1)]

    def test_the_device_times_runs_and_not_what_goes_before(self, monkeypatch: pytest.MonkeyPatch) -> None:
        enqueued: list[float] = []

        class Event:
            def __init__(self, *, enable_timing: bool) -> None:
                assert enable_timing
                self._at: float | None = None

            def record(self) -> None:
                self._at = sum(enqueued)

            def synchronize(self) -> None:
                assert self._at == sum(enqueued)  # nothing comes after it

            def elapsed_time(self, end: Event) -> float:
                assert self._at is not None
                assert end._at is not None
                return end._at - self._at

        monkeypatch.setattr("torch.cuda.is_available", lambda: True)
        monkeypatch.setattr("torch.cuda.current_device", lambda: 0)
        monkeypatch.setattr("torch.cuda.get_device_properties", lambda index: SimpleNamespace(L2_cache_size=1))
        monkeypatch.setattr("torch.cuda.Event", Event)
        contenders = [
            Timed(run=partial(enqueued.append, 1.0), before=partial(enqueued.append, 10.0)),
            Timed(run=partial(enqueued.append, 2.0), before=partial(enqueued.append, 20.0)),
        ]
        assert CudaDevice().milliseconds(partial(enqueued.append, 100.0), contenders) == [1.0, 2.0]
        assert enqueued == [100.0, 10.0, 1.0, 100.0, 20.0, 2.0]

    def test_the_time_of_a_call_is_its_share_of_the_median(self) -> None:
        assert timing([1.0, 2.0, 3.0, 4.0, 100.0], 2) == (1.5, (52.0 - 1.5) / 3.0)

    def test_host_time_is_the_batchs_share(self) -> None:
        called: list[int] = []
        assert call_microseconds(lambda: called.append(1), FakeDevice([1.0])) == pytest.approx(1.0 / BATCH)
        assert len(called) % BATCH == 0


class TestSets:
    def test_all_sets_differ_in_tensors_and_share_scalars(self, tmp_path: Path) -> None:
        (tmp_path / "halved.yaml").write_text(HALVED)
        made = input_sets(load_recipe(tmp_path / "halved.yaml"), {"M": 64}, 3, 0, FakeDevice([]))
        assert len(made.timed) == 3
        tensors, scalars = zip(*made.timed, made.before, strict=True)
        assert len({tuple(x.tolist()) for x in tensors}) == 4
        assert len(set(scalars)) == 1

    def test_the_call_before_is_on_tensors_that_are_not_timed(self, compilers: None, tmp_path: Path) -> None:
        (tmp_path / "halved.yaml").write_text(HALVED)
        compile_recipes([tmp_path], [TARGETS["host"]], tmp_path, jobs=2)
        recipe, device = load_recipe(tmp_path / "halved.yaml"), FakeDevice([])
        sets = input_sets(recipe, {"M": 64}, 2, 0, device)
        contender = our_contender(load(tmp_path / "halved.fuse", target="host"), recipe.fusion, sets, device)
        tensors = [x for x, _ in (*sets.timed, sets.before)]

        def overwritten(run: Run) -> list[bool]:
            for x in tensors:
                x.fill_(1.0)
            run()
            return [not bool((x == 1.0).all()) for x in tensors]

        assert overwritten(contender.timed.before) == [False, False, True]
        assert overwritten(contender.timed.run) == [True, True, False]

    def test_torch_is_called_on_the_same_sets(self, tmp_path: Path) -> None:
        (tmp_path / "halved.yaml").write_text(HALVED)
        device, called = FakeDevice([]), list[Any]()
        sets = input_sets(load_recipe(tmp_path / "halved.yaml"), {"M": 64}, 2, 0, device)
        form = TorchForm(name="eager", function=lambda x, s: called.append(x), deviations=())
        contender = torch_contender(form, sets, device)
        called.clear()
        contender.timed.before()
        contender.timed.run()
        assert [id(x) for x in called] == [id(x) for x, _ in (sets.before, *sets.timed)]

    def test_a_copy_is_behind_another_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        written: list[int] = []
        monkeypatch.setattr("torch.neg", lambda source, out: written.append(id(out)))
        contender = equal_copy(64, 2, FakeDevice([]))
        written.clear()
        contender.timed.before()
        contender.timed.run()
        assert len(written) == len(set(written)) == 3
