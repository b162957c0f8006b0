"""Tuning: which wins count, how the search goes, what is refused, and a whole run on the CPU."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from fusebuild.artifact.file import open_artifact
from fusebuild.artifact.json_types import json_value
from fusebuild.artifact.kernel_resources import KernelResources
from fusebuild.bench.device import Run, Timed
from fusebuild.cli.main import cli
from fusebuild.errors import ToolchainError, UsageError, VerificationError
from fusebuild.kernels.common.neighbours import neighbours
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.pointwise import FAMILY as POINTWISE
from fusebuild.kernels.pointwise.thread_elements import PointwiseHeuristics
from fusebuild.oracle.verification import verify_artifact
from fusebuild.pipeline import compile_recipes
from fusebuild.planning.tuned import Entry, encode_tuned, read_tuned
from fusebuild.target.table import TARGETS
from fusebuild.tuning import workshop
from fusebuild.tuning.climb import LEAST_WIN, MOST_NEIGHBOURS, ROUNDS, Outcome, climb, is_win
from fusebuild.tuning.place import EXECUTIONS, LONG_SECONDS, HostDevice, Place, find_place, own_target
from fusebuild.tuning.report import MeasuredKernel, TuneReport
from fusebuild.tuning.tune import tune_recipes
from fusebuild.tuning.workshop import SAME_CODE, TURNS, WARM_UP, Rival, Turns, beyond_limits
from support.sampled import sampled
from support.small_recipes import text_of, whole

torch = pytest.importorskip("torch")

HOST, SM_90 = TARGETS["host"], TARGETS["sm_90"]
SIZES = {"M": 4096, "N": 4096}
SCALED = whole({"x": "float[M, N]"}, "y = x * 2.0", {"y": "float"})
ORIGIN = next(each for each in POINTWISE.schedule(SCALED, SM_90, SIZES) if each.name == "vec4_int32")
BESIDE = partial(neighbours, SCALED.fusion, POINTWISE, SM_90, SIZES)


def choice_of(variant: VariantSpec) -> PointwiseHeuristics:
    assert variant.decision is not None
    assert isinstance(variant.decision.choice, PointwiseHeuristics)
    return variant.decision.choice


class FakeTrack:
    """Takes as long as ``truth`` says of a choice, scattered by ``noise`` and slowing down by ``drift`` each turn; some
    choices are ``refused``."""

    def __init__(
        self,
        truth: Callable[[PointwiseHeuristics], float],
        noise: float = 0.0,
        drift: float = 0.0,
        seed: int = 0,
        refused: Callable[[PointwiseHeuristics], str] = lambda choice: "",
    ) -> None:
        self._truth, self._noise, self._drift, self._refused = truth, noise, drift, refused
        self._random = random.Random(seed)
        self._turn = 0
        self.batches: list[list[PointwiseHeuristics]] = []
        self.races: list[tuple[PointwiseHeuristics, PointwiseHeuristics]] = []

    def rivals(self, variants: Sequence[VariantSpec]) -> Sequence[Rival]:
        self.batches.append([choice_of(variant) for variant in variants])
        why = [self._refused(choice_of(variant)) for variant in variants]
        return [
            Rival(variant=variant, timed=None if reason else Timed(run=int, before=int), refused=reason)
            for variant, reason in zip(variants, why, strict=True)
        ]

    def race(self, best: Rival, challenger: Rival) -> Turns:
        self.races.append((choice_of(best.variant), choice_of(challenger.variant)))
        turns = []
        for _ in range(TURNS):
            self._turn += 1
            turns.append((self._taken(best), self._taken(challenger)))
        return turns

    def _taken(self, rival: Rival) -> float:
        scatter = 1 + self._noise * self._random.gauss(0, 1)
        return max(1e-6, self._truth(choice_of(rival.variant)) * scatter * (1 + self._drift * self._turn))


def found(track: FakeTrack, budget: int = MOST_NEIGHBOURS) -> Outcome:
    return climb(ORIGIN, BESIDE, track, budget=budget)


class TestWhichWinsCount:
    @pytest.mark.parametrize("noise", [0.0, 0.005, 0.03, 0.2, 0.5])
    def test_noise_is_no_win(self, noise: float) -> None:
        for seed in range(40):
            outcome = found(FakeTrack(lambda choice: 1.0, noise=noise, drift=1e-3, seed=seed))
            assert outcome.best.launches == ORIGIN.launches
            assert outcome.tried >= 4

    @pytest.mark.parametrize("noise", [0.0, 0.003, 0.01])
    def test_five_percent_are_a_win(self, noise: float) -> None:
        for seed in range(10):
            track = FakeTrack(lambda choice: 0.95 if choice.unroll == 2 else 1.0, noise, drift=1e-3, seed=seed)
            outcome = found(track)
            assert choice_of(outcome.best).unroll == 2
            assert outcome.win == pytest.approx(0.05, abs=0.02)

    @pytest.mark.parametrize("noise", [0.0, 0.003, 0.01])
    def test_one_percent_is_none(self, noise: float) -> None:
        for seed in range(10):
            outcome = found(FakeTrack(lambda choice: 0.99 if choice.unroll == 2 else 1.0, noise, seed=seed))
            assert outcome.best.launches == ORIGIN.launches
            assert outcome.win == pytest.approx(0.0, abs=0.01)

    def test_a_win_that_does_not_repeat_is_none(self) -> None:
        class Lucky(FakeTrack):
            def race(self, best: Rival, challenger: Rival) -> Turns:
                super().race(best, challenger)
                pairs = [pair for pair in self.races if pair == self.races[-1]]
                return [(1.0, 0.5 if len(pairs) < ROUNDS else 1.0)] * TURNS

        outcome = found(Lucky(lambda choice: 1.0))
        assert outcome.best.launches == ORIGIN.launches

    def test_the_boundary(self) -> None:
        assert not is_win([(1.0, 1 - LEAST_WIN)] * 20)
        assert is_win([(1.0, 1 - LEAST_WIN - 1e-9)] * 20)
        assert is_win([(1.0, 0.5)] * 15 + [(1.0, 2.0)] * 5)
        assert not is_win([(1.0, 0.5)] * 14 + [(1.0, 2.0)] * 6)
        assert not is_win([(0.0, 0.0)] * 20)

    def test_what_drifts_drifts_for_both(self) -> None:
        assert not is_win([(1.0 + turn, 1.0 + turn) for turn in range(20)])
        assert is_win([(1.0 + turn, 0.9 + 0.9 * turn) for turn in range(20)])


class TestSearch:
    def test_the_heuristics_run_first_and_what_lies_beside_them_next(self) -> None:
        track = FakeTrack(lambda choice: 1.0)
        outcome = found(track)
        own = choice_of(ORIGIN)
        assert track.batches[0] == [own]
        assert track.batches[1] == [choice_of(variant) for variant in BESIDE(ORIGIN)]
        assert len(track.batches) == 2
        assert outcome.tried == len(track.batches[1])
        assert all(best == own for best, _ in track.races)

    def test_it_goes_on_from_a_winner(self) -> None:
        track = FakeTrack(lambda choice: 1.0 / choice.unroll)
        outcome = found(track)
        assert choice_of(outcome.best).unroll == 16
        assert outcome.heuristic_milliseconds == 1.0
        assert outcome.milliseconds == 1 / 16
        assert outcome.tried <= MOST_NEIGHBOURS

    @pytest.mark.parametrize("budget", [1, 2, 5, MOST_NEIGHBOURS])
    def test_no_more_are_tried_than_the_budget(self, budget: int) -> None:
        track = FakeTrack(lambda choice: 1.0 / (choice.unroll * choice.threads))
        outcome = found(track, budget)
        assert outcome.tried <= budget
        assert sum(map(len, track.batches[1:])) <= budget
        assert len({choice for batch in track.batches for choice in batch}) == sum(map(len, track.batches))

    def test_what_is_refused_is_not_tried(self) -> None:
        def refused(choice: PointwiseHeuristics) -> str:
            return "12 bytes of registers spill" if choice.unroll > 1 else ""

        track = FakeTrack(lambda choice: 1.0 / choice.unroll, refused=refused)
        outcome = found(track)
        assert outcome.best.launches == ORIGIN.launches
        assert outcome.refused == ("12 bytes of registers spill",)
        assert all(challenger.unroll == 1 for _, challenger in track.races)

    def test_a_winner_has_to_beat_the_heuristics_themselves(self) -> None:
        """Steps that win against each other but not against where they began lead nowhere."""

        class Rock(FakeTrack):
            def race(self, best: Rival, challenger: Rival) -> Turns:
                self.races.append((choice_of(best.variant), choice_of(challenger.variant)))
                wins = len(self.races) < 6 * ROUNDS and choice_of(best.variant) != choice_of(challenger.variant)
                return [(1.0, 0.9 if wins else 1.0)] * TURNS

        outcome = found(Rock(lambda choice: 1.0))
        assert outcome.best.launches == ORIGIN.launches
        assert (outcome.milliseconds, outcome.win) == (1.0, 0.0)


class TestLimits:
    @pytest.mark.parametrize(
        ("used", "block", "dynamic", "problem"),
        [
            ((64, 0, 0), (256, 1, 1), 0, ""),
            ((64, 16, 0), (256, 1, 1), 0, "16 bytes of registers spill"),
            ((128, 0, 0), (32, 32, 1), 0, "1024 threads of 128 registers are more than 65536"),
            ((64, 0, 2048), (1024, 1, 1), 230400, ""),
            ((64, 0, 2049), (1024, 1, 1), 230400, "232449 bytes of shared memory are more than 232448"),
        ],
    )
    def test_of_a_kernel(
        self, used: tuple[int, int, int], block: tuple[int, int, int], dynamic: int, problem: str
    ) -> None:
        registers, spill, shared = used
        resources = KernelResources(registers=registers, shared=shared, stack=0, spill_stores=spill, spill_loads=0)
        assert beyond_limits(resources, block, dynamic, SM_90) == problem


class TestPlace:
    def test_the_devices_own_target(self) -> None:
        assert own_target(None, 90, 132) is SM_90
        assert own_target(SM_90, 90, 132) is SM_90

    @pytest.mark.parametrize(
        ("target", "capability", "count", "message"),
        [
            ("sm_80", 90, 132, "this device runs code for sm_90; what sm_80 does best shows on a device of its own"),
            (None, 90, 114, "this device has 114 multiprocessors, but sm_90 is planned for 132: "
             "what is best here need not be so there"),
            (None, 70, 80, "no target runs on a device of compute capability 7.0"),
        ],
    )  # fmt: skip
    def test_another_device(self, target: str | None, capability: int, count: int, message: str) -> None:
        with pytest.raises(UsageError) as caught:
            own_target(TARGETS[target] if target else None, capability, count)
        assert str(caught.value) == message

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
    def test_no_gpu(self) -> None:
        with pytest.raises(
            UsageError, match=r"^tune needs a CUDA device, and torch sees none; --arch host tunes for the CPU$"
        ):
            find_place(None)

    def test_no_torch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(UsageError, match=r"^tune needs torch, which is not installed$"):
            find_place(HOST)

    def test_the_host_is_timed_by_the_wall_clock(self) -> None:
        place = find_place(HOST)
        called: list[int] = []
        run = place.device.captured([lambda: called.append(1), lambda: called.append(2)])
        assert called == [1, 2]
        contender = Timed(run=run, before=lambda: called.append(0))
        (taken,) = place.device.milliseconds(lambda: called.append(3), [contender])
        assert called == [1, 2] + [0, 1, 2] * EXECUTIONS
        assert taken >= 0.0

    def test_what_takes_long_is_done_once(self) -> None:
        called: list[int] = []

        def run() -> None:
            called.append(1)
            time.sleep(LONG_SECONDS)

        (taken,) = HostDevice("host").milliseconds(run, [Timed(run=run, before=int)])
        assert called == [1]
        assert taken >= 1e3 * LONG_SECONDS

    def test_what_goes_before_takes_no_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        passed: list[float] = []
        monkeypatch.setattr("fusebuild.tuning.place.time", SimpleNamespace(perf_counter=lambda: sum(passed)))
        contender = Timed(run=partial(passed.append, 0.5), before=partial(passed.append, 8.0))
        assert HostDevice("host").milliseconds(int, [contender]) == [500.0]
        assert passed == [8.0, 0.5]


SUMMED = text_of(
    {"x": "float[M, N]"}, "y = x * 0.5\nz = sum(segment_set(y), dims=[1])", {"y": "float", "z": "float"},
    name="summed", cases="M: 8, N: 64",
)  # fmt: skip


class EvenDevice(HostDevice):
    """Everything takes a millisecond."""

    def milliseconds(self, lead: Run, contenders: Sequence[Timed]) -> list[float]:
        return [1.0 for _ in contenders]


class SteppedDevice(HostDevice):
    """What runs first takes ten milliseconds, whatever else comes along nine, whenever it runs."""

    def __init__(self) -> None:
        super().__init__("host")
        self._known: list[Timed] = []
        self.released = 0

    def milliseconds(self, lead: Run, contenders: Sequence[Timed]) -> list[float]:
        super().milliseconds(lead, contenders)
        self._known = self._known or [contenders[0]]
        return [10.0 if each is self._known[0] else 9.0 for each in contenders]

    def release(self) -> None:
        self.released += 1
        self._known.clear()


def tuned_with(folder: Path, device: HostDevice, **options: Any) -> TuneReport:
    chosen = {"out": folder / "build", "jobs": 2, "budget": 2, **options}
    return tune_recipes([folder / "summed.yaml"], place=Place(device=device, target=HOST), **chosen)


@pytest.fixture(scope="module")
def tuned(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TuneReport, list[tuple[int, int]]]:
    """A folder with a recipe and what was tuned for it, by a clock that knows who wins."""
    folder = tmp_path_factory.mktemp("tuning")
    (folder / "summed.yaml").write_text(SUMMED)
    seen: list[tuple[int, int]] = []
    report = tune_recipes(
        [folder / "summed.yaml"], out=folder / "build", jobs=2, budget=2,
        place=Place(device=SteppedDevice(), target=HOST), on_progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    return folder, report, seen


Tuned = tuple[Path, TuneReport, list[tuple[int, int]]]


class FullDevice(SteppedDevice):
    """Has no memory for the first kernel's tensors."""

    def captured(self, calls: Sequence[Run]) -> Run:
        if self.released == 0:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 32.00 GiB.")
        return super().captured(calls)


def test_a_kernel_that_does_not_fit_the_memory_is_skipped_and_keeps_what_it_has(tuned: Tuned, tmp_path: Path) -> None:
    folder, whole_report, _ = tuned
    for name in ("summed.yaml", "summed.tuned.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    report = tuned_with(tmp_path, FullDevice())
    first, second = whole_report.kernels
    assert report.skipped == (
        f"summed.0 {first.variant} M=8 N=64: not measured: its tensors do not fit the memory of the device",
    )
    assert [row.segment for row in report.kernels] == [second.segment]
    assert report.as_text().splitlines()[-1] == report.skipped[0]
    assert json_value(report)["skipped"] == report.skipped
    assert len(read_tuned(tmp_path / "summed.tuned.json", "summed").entries) == 2


class TestARun:
    def test_every_kernel_has_its_row(self, tuned: Tuned) -> None:
        _, report, seen = tuned
        assert seen == [(1, 2), (2, 2)]
        assert [(row.fusion, row.segment, row.tried) for row in report.kernels] == [("summed", 0, 2), ("summed", 1, 2)]
        assert [row.win for row in report.kernels] == pytest.approx([0.1, 0.1])
        assert all(dict(row.case) == {"M": 8, "N": 64} for row in report.kernels)
        assert all(len(row.changed) >= 1 for row in report.kernels)

    def test_times_are_those_of_one_call(self, tuned: Tuned) -> None:
        _, report, _ = tuned
        assert {row.heuristic_milliseconds for row in report.kernels} == {10.0 / 2}  # two sets of inputs
        assert {row.milliseconds for row in report.kernels} == {9.0 / 2}

    def test_the_file_holds_what_won(self, tuned: Tuned) -> None:
        folder, report, _ = tuned
        path = folder / "summed.tuned.json"
        assert report.written == (path,)
        read = read_tuned(path, "summed")
        assert read is not None
        assert {(entry.arch, entry.multiprocessors) for entry in read.entries} == {("host", 1)}
        assert {tuple(entry.bucket.items()) for entry in read.entries} == {(("M", 3), ("N", 6))}
        assert encode_tuned("summed", read.entries) == read.text

    def test_compile_takes_it_and_is_right(self, tuned: Tuned) -> None:
        folder, report, _ = tuned
        compile_recipes([folder / "summed.yaml"], [HOST], folder / "build", jobs=2)
        artifact = open_artifact(folder / "build" / "summed.fuse")
        for segment, row in zip(artifact.plan.targets[0].segments, report.kernels, strict=True):
            first = segment.variants[0]
            assert isinstance(first.tuned, dict)
            assert {knob: first.tuned[knob] for knob in row.changed} == dict(row.changed)
        assert all(verdict.ok for verdict in verify_artifact(artifact.path, target="host"))

    def test_doing_it_again_writes_nothing(self, tuned: Tuned) -> None:
        folder, report, _ = tuned
        before = (folder / "summed.tuned.json").stat().st_mtime_ns
        again = tuned_with(folder, SteppedDevice())
        assert again.kernels == report.kernels
        assert again.written == ()
        assert (folder / "summed.tuned.json").stat().st_mtime_ns == before

    def test_entries_of_other_targets_stay_and_stale_ones_go(self, tuned: Tuned, tmp_path: Path) -> None:
        folder, _, _ = tuned
        read = read_tuned(folder / "summed.tuned.json", "summed")
        assert read is not None
        own: Entry = read.entries[0]
        other = msgspec.structs.replace(own, arch="sm_90", multiprocessors=132)
        gone = msgspec.structs.replace(own, segment="0123")
        (tmp_path / "summed.yaml").write_text(SUMMED)
        (tmp_path / "summed.tuned.json").write_text(encode_tuned("summed", [other, gone]))
        tuned_with(tmp_path, SteppedDevice(), out=folder / "build")
        after = read_tuned(tmp_path / "summed.tuned.json", "summed")
        assert after is not None
        assert after.entries == (*read.entries, other)

    def test_a_file_with_nothing_left_to_say_is_removed(self, tuned: Tuned, tmp_path: Path) -> None:
        folder, _, _ = tuned
        (tmp_path / "summed.yaml").write_text(SUMMED)
        (tmp_path / "summed.tuned.json").write_bytes((folder / "summed.tuned.json").read_bytes())
        report = tuned_with(tmp_path, EvenDevice("host"), out=folder / "build", budget=1)
        assert report.written == (tmp_path / "summed.tuned.json",)
        assert not (tmp_path / "summed.tuned.json").exists()
        assert [(row.win, dict(row.changed)) for row in report.kernels] == [(0.0, {}), (0.0, {})]

    def test_cases_are_measured_where_they_share_a_bucket(self, tuned: Tuned) -> None:
        folder, _, _ = tuned
        report = tuned_with(folder, SteppedDevice(), cases=({"M": 15, "N": 100},))
        assert [dict(row.case) for row in report.kernels] == [{"M": 15, "N": 100}] * 2

    @pytest.mark.parametrize(
        ("case", "message"),
        [
            ({"M": 16, "N": 64}, "case M=16,N=64: summed is planned for no sizes like these; "
             "make them its first case, or name them in its extents"),
            ({"M": 8}, "case M=8: summed needs a size for N"),
            ({"M": 8, "N": 64, "K": 1}, "case M=8,N=64,K=1: summed has no symbol K; its symbols are M, N"),
        ],
    )  # fmt: skip
    def test_other_cases_are_errors(self, tuned: Tuned, case: Mapping[str, int], message: str) -> None:
        folder, _, _ = tuned
        with pytest.raises(UsageError) as caught:
            tuned_with(folder, SteppedDevice(), cases=(case,))
        assert str(caught.value) == message

    def test_without_cases_sizes_are_what_the_heuristics_assume(self, compilers: None, tmp_path: Path) -> None:
        (tmp_path / "summed.yaml").write_text(text_of({"x": "float[M]"}, "y = -x", {"y": "float"}, name="summed"))
        (row,) = tuned_with(tmp_path, EvenDevice("host"), budget=1).kernels
        assert dict(row.case) == {"M": 1024}

    def test_each_turn_begins_with_the_other(self, tuned: Tuned) -> None:
        class Recording(SteppedDevice):
            orders: list[int]

            def milliseconds(self, lead: Run, contenders: Sequence[Timed]) -> list[float]:
                self.orders.append([10.0, 9.0].index(super().milliseconds(lead, contenders)[0]))
                return [1.0 for _ in contenders]

        device = Recording()
        device.orders = []
        tuned_with(tuned[0], device, budget=1)
        first = device.orders[: WARM_UP + TURNS]
        assert first == [0, 1] * ((WARM_UP + TURNS) // 2)


def test_outputs_that_overwrite_inputs_are_compared_from_the_same_inputs(compilers: None, tmp_path: Path) -> None:
    (tmp_path / "summed.yaml").write_text(
        text_of({"x": "float[M]"}, "y = x * 0.5", {"y": "{dtype: float, alias: x}"}, name="summed", cases="M: 64")
    )
    (row,) = tuned_with(tmp_path, EvenDevice("host"), budget=1).kernels
    assert row.tried == 1


def test_results_that_differ_end_the_run(compilers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "summed.yaml").write_text(
        text_of({"x": "float[M]"}, "y = x * 0.5", {"y": "float"}, name="summed", cases="M: 64")
    )
    real = workshop.build

    def wrong(requests: Any, *rest: Any, **named: Any) -> Any:
        if len(requests) == 1:
            return real(requests, *rest, **named)
        changed = [(target, replace(each, text=each.text.replace("0.5f", "0.25f"))) for target, each in requests]
        return real(changed, *rest, **named)

    monkeypatch.setattr(workshop, "build", wrong)
    with pytest.raises(VerificationError, match=r"^summed_0 .*: y is another one than that of the heuristics' choice"):
        tuned_with(tmp_path, EvenDevice("host"))


FAMILIES = {
    "inner_persistent": (
        {"x": "bfloat16[M, N]"}, "e = exp(x - max(x, dims=[1], keepdim=True))\ny = e / sum(e, dims=[1], keepdim=True)",
        {"y": "bfloat16"},
    ),
    "inner_outer_persistent": (
        {"g": "bfloat16[M, N]", "x": "bfloat16[M, N]"},
        "d = g - mean(g * x, dims=[1], keepdim=True)\nw = sum(g * x, dims=[0])", {"d": "bfloat16", "w": "bfloat16"},
    ),
    "reduction": ({"x": "bfloat16[M, N]"}, "y = sum(cast(x, float), dims=[0])", {"y": "float"}),
    "scan": ({"x": "float[M, N]"}, "y = cumsum(x, dim=1)", {"y": "float"}),
    "transpose": (
        {"x": "bfloat16[M, N]", "z": "bfloat16[N, M]"}, "y = x + permute(z, [1, 0])", {"y": "bfloat16"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", sampled(FAMILIES, 3))
def test_neighbours_of_every_family_compute_the_same(compilers: None, tmp_path: Path, family: str) -> None:
    """The run itself compares them; row lengths and heights are no multiples of blocks."""
    inputs, body, outputs = FAMILIES[family]
    (tmp_path / "summed.yaml").write_text(text_of(inputs, body, outputs, name="summed", cases="M: 72, N: 264"))
    (row,) = tuned_with(tmp_path, EvenDevice("host"), budget=4).kernels
    assert row.tried >= (1 if family == "scan" else 2)  # short rows are a warp's, which has no fewer threads


class TestWhatIsNotTried:
    def test_what_the_compiler_makes_the_same_code_of(self, compilers: None, tmp_path: Path) -> None:
        """On the CPU it does not matter how many blocks a multiprocessor shall hold."""
        (tmp_path / "summed.yaml").write_text(
            text_of({"x": "float[M]"}, "y = x * 0.5", {"y": "float"}, name="summed", cases="M: 4096")
        )
        (row,) = tuned_with(tmp_path, EvenDevice("host"), budget=16).kernels
        assert row.refused == (SAME_CODE,)
        assert row.tried == 3  # more and fewer threads, two vectors of each

    def test_what_does_not_compile(self, compilers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The others are tried all the same."""
        (tmp_path / "summed.yaml").write_text(SUMMED)
        real = workshop.build

        def broken(requests: Any, *rest: Any, **named: Any) -> Any:
            texts = {kernel.text for _, kernel in requests}
            bad = [text for text in texts if "kUnroll = 2;" in text]
            changed = [
                (target, replace(kernel, text="#error no such luck\n" if kernel.text in bad else kernel.text))
                for target, kernel in requests
            ]
            return real(changed, *rest, **named)

        monkeypatch.setattr(workshop, "build", broken)
        first = tuned_with(tmp_path, EvenDevice("host"), budget=16).kernels[0]
        assert any("#error no such luck" in reason for reason in first.refused)
        assert first.tried >= 2


class TestCommand:
    def test_tunes_the_host_by_its_own_clock(
        self, compilers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The whole of it for real: whatever the clock says, what is written compiles and is right."""
        monkeypatch.chdir(tmp_path)
        Path("summed.yaml").write_text(SUMMED)
        done = CliRunner().invoke(cli, ["tune", "summed.yaml", "--arch", "host", "--budget", "1", "--json"])
        assert done.exit_code == 0, done.output
        report = json.loads(done.stdout)
        assert [kernel["tried"] for kernel in report["kernels"]] == [1, 1]
        assert all(kernel["heuristic_milliseconds"] > 0 for kernel in report["kernels"])
        assert report["written"] == (["summed.tuned.json"] if Path("summed.tuned.json").exists() else [])
        compile_recipes([Path("summed.yaml")], [HOST], Path("build"), jobs=2)
        assert all(verdict.ok for verdict in verify_artifact(Path("build/summed.fuse"), target="host"))

    def test_no_compiler(self, tmp_path: Path) -> None:
        (tmp_path / "summed.yaml").write_text(SUMMED)
        place = Place(device=EvenDevice("sm_90"), target=SM_90)
        with pytest.raises(
            ToolchainError, match=r"^--nvcc names .*missing/nvcc, which is no executable file$"
        ) as caught:
            tune_recipes([tmp_path / "summed.yaml"], nvcc="missing/nvcc", place=place)
        assert caught.value.exit_code == 5

    def test_one_target_at_a_time(self, tmp_path: Path) -> None:
        (tmp_path / "summed.yaml").write_text(SUMMED)
        done = CliRunner().invoke(cli, ["tune", str(tmp_path / "summed.yaml"), "--arch", "host,sm_90"])
        assert isinstance(done.exception, UsageError)
        assert str(done.exception) == "tune is for one target at a time"


def test_the_table() -> None:
    row = MeasuredKernel(
        fusion="softmax", segment=0, variant="registers_vec8_int32", case={"M": 64, "N": 512},
        heuristic_milliseconds=0.25, milliseconds=0.2, tried=7, refused=(),
        changed={"threads_per_row": 8, "keeps": False}, win=0.2,
    )  # fmt: skip
    own = msgspec.structs.replace(row, fusion="long_name", case={}, milliseconds=0.25, changed={}, win=0.0)
    report = TuneReport(
        target="sm_90", device="a GPU", driver="1", kernels=(row, own), written=(Path("softmax.tuned.json"),),
        skipped=(),
    )  # fmt: skip
    assert report.as_text() == (
        "kernel                            case        heuristic ms  best ms     win  tried  knobs\n"
        "softmax.0 registers_vec8_int32    M=64 N=512        0.2500   0.2000  20.0 %      7  "
        "threads_per_row=8 keeps=false\n"
        "long_name.0 registers_vec8_int32  constant          0.2500   0.2500       –      7  the heuristics' own\n"
    )
    assert json_value(report)["kernels"][0]["win"] == 0.2
    assert json_value(report)["written"] == ("softmax.tuned.json",)
