"""The exact search over cuts: held to every cover there is, to the rules of a cover, and to what it must find."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from fusebuild.artifact.file import open_artifact
from fusebuild.errors import ScheduleError, UsageError
from fusebuild.ir.fusion import Fusion, Task
from fusebuild.kernels import alias, families
from fusebuild.ops.table import Kind, op_of
from fusebuild.passes import run_passes
from fusebuild.recipe.recipe import load_recipe
from fusebuild.segmentation import exact, segment
from fusebuild.segmentation.draft import Problem
from fusebuild.segmentation.exact import Cover, atoms_of, best_cover, exact_cover, rules_of, single_exprs
from fusebuild.segmentation.segmented import dense_outputs
from fusebuild.target.table import TARGETS
from support.covers import seconds
from support.forkserver import commands
from support.places import ROOT
from support.random_fusions import random_fusion, tiny_fusion
from support.small_recipes import SUM_THEN_ADD, primitive, text_of

SM_90 = TARGETS["sm_90"]


class Case:
    """A Fusion with what every search needs to know about it."""

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.whole = replace(Problem.of(fusion, SM_90), dependencies=rules_of(fusion))
        self.acceptance, self.costs = self.whole.acceptance, self.whole.costs
        self.dependencies = self.whole.dependencies

    def exact(self) -> Cover:
        return exact_cover(self.whole)

    def seconds(self, cover: Sequence[Task]) -> float:
        return seconds(cover, self.acceptance, self.costs)

    def reads(self, task: Task) -> set[int]:
        return {fid for fid in task.inputs if self.fusion.value(fid).is_tensor}

    def tensor_exprs(self, task: Task) -> set[int]:
        return {index for index in task.exprs if index in self.dependencies.readers}

    def is_once(self, index: int) -> bool:
        expr = self.fusion.exprs[index]
        return op_of(expr).kind in (Kind.REDUCTION, Kind.LIBRARY) or expr.op == "segment_set"

    def problem(self, cover: Sequence[Task]) -> str:
        """Which rule ``cover``, in run order, breaks; empty for a sound one."""
        fusion, written = self.fusion, set[int]()
        overwritten = {output.alias: output.fid for output in fusion.outputs if output.alias is not None}
        seen: list[int] = []
        for task in cover:
            exprs = self.tensor_exprs(task)
            seen += exprs
            if not self.acceptance.scheduler(exprs, task.results):
                return "rejected"
            if any(a in exprs and b in exprs for a, b in self.dependencies.marked):
                return "a mark inside a task"
            if len(exprs & self.dependencies.calls) > 1:
                return "two library calls in one task"
            if not self.reads(task) <= written | {*fusion.inputs}:
                return "reads what is not there yet"
            if any(overwritten.get(fid) in written for fid in self.reads(task)):
                return "reads what was overwritten"
            if written & {*task.outputs}:
                return "written twice"
            written |= {*task.outputs}
        if any(seen.count(index) > 1 for index in seen if self.is_once(index)):
            return "runs twice"
        whole = {*seen} == {*self.dependencies.exprs} and {*fusion.output_fids} <= written
        return "" if whole else "incomplete"


def case_of(text: str) -> Case:
    return Case(dense_outputs(primitive(text)))


def every_task(case: Case) -> Iterator[Task]:
    """Each accepted set of exprs with each set of results that it might write."""
    exprs = case.dependencies.exprs
    for size in range(1, len(exprs) + 1):
        for held in combinations(exprs, size):
            made = [fid for index in held for fid in case.fusion.exprs[index].outputs]
            for count in range(1, len(made) + 1):
                for results in combinations(made, count):
                    if case.acceptance.scheduler(held, frozenset(results)):
                        yield case.acceptance.task(held, frozenset(results))


def least_seconds(case: Case) -> float:
    """The least time of any sound cover: tasks are run from the first one on, in every order that the rules allow, each
    set of tasks once."""
    tasks = list(every_task(case))
    paid = [case.seconds([task]) for task in tasks]
    best, seen = float("inf"), set[frozenset[int]]()
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        cover = waiting.pop()
        total, held = sum(paid[place] for place in cover), frozenset(cover)
        if total >= best or held in seen:
            continue
        problem = case.problem([tasks[place] for place in cover])
        if not problem:
            best = total
        elif problem == "incomplete":
            seen.add(held)
            waiting += [(*cover, place) for place in range(len(tasks)) if place not in held]
    return best


class TestAgainstEveryCover:
    @pytest.mark.parametrize("seed", range(60))
    def test_of_tiny_fusions(self, seed: int) -> None:
        case = Case(tiny_fusion(seed, 4))
        assert case.seconds(case.exact()) == pytest.approx(least_seconds(case), rel=1e-12)

    @pytest.mark.parametrize("seed", range(1000, 1004))
    def test_of_small_fusions(self, seed: int) -> None:
        case = Case(tiny_fusion(seed, 5))
        assert case.seconds(case.exact()) == pytest.approx(least_seconds(case), rel=1e-12)


class TestRules:
    @pytest.mark.parametrize("seed", range(40))
    def test_the_best_cover_keeps_them(self, seed: int) -> None:
        case = Case(random_fusion(seed))
        assert case.problem(case.exact()) == ""

    def test_two_reductions_over_one_prologue_each_compute_it(self) -> None:
        text = text_of({"x": "bfloat16[M, N, K]"}, "p = exp(x)\nr = sum(p, dims=[2])\nc = max(p, dims=[0])",
                       {"r": "float", "c": "float"})  # fmt: skip
        case = case_of(text)
        assert sorted(ops(case, case.exact())) == [["exp", "max"], ["exp", "sum"]]

    def test_a_reduction_runs_once_even_where_twice_would_cost_less(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """``s[M]`` is larger than ``v[N]``, which it is computed from."""
        body = "s = sum(broadcast_in_dim(v, shape=[M, N], broadcast_dims=[1]), dims=[1], keepdim=True)\n"
        body += "y = segment_set(x * s)\nz = y * s"
        text = text_of({"x": "float[M, N]", "v": "float[N]"}, body, {"z": "float"}, cases="M: 65536, N: 4")
        case = case_of(text)
        best = case.exact()
        assert sum(each.count("sum") for each in ops(case, best)) == 1
        monkeypatch.setattr(exact, "_is_recomputable", lambda fusion, atom: True)
        assert case.seconds(case.exact()) < case.seconds(best)

    def test_a_mark_and_its_reader_are_in_two_tasks(self) -> None:
        text = text_of({"x": "float[M, N]"}, "a = segment_set(exp(x))\ny = a * 2.0", {"y": "float"})
        case = case_of(text)
        assert ops(case, case.exact()) == [["exp", "segment_set"], ["mul"]]

    def test_a_library_call_is_alone(self) -> None:
        inputs = {"x": "bfloat16[M, K]", "w": "bfloat16[N, K]"}
        text = text_of(inputs, "a = linear(cast(relu(x), bfloat16), w)\ny = silu(a)", {"y": "float"})
        case = case_of(text)
        assert [each for each in ops(case, case.exact()) if "linear" in each] == [["linear"]]

    def test_whoever_reads_an_input_runs_before_it_is_overwritten(self) -> None:
        body = "y = x * 2.0\na = sum(slice(x, [0, 0], [M // 2, N]))"
        case = case_of(text_of({"x": "float[M, N]"}, body, {"y": "{dtype: float, alias: x}", "a": "float"}))
        assert ops(case, case.exact()) == [["slice", "sum"], ["mul"]]

    def test_a_view_costs_next_to_nothing(self) -> None:
        body = "a = sum(x, dims=[1])\nv = segment_set(broadcast(a, is_broadcast_dim=[False, True]))\n"
        case = case_of(text_of({"x": "float[M, N]"}, body + "y = segment_set(v) + x", {"y": "float"}))
        schedulers = [case.acceptance.scheduler(task.exprs, task.results) for task in case.exact()]
        assert schedulers.count("alias") == 1


class TestAtoms:
    @pytest.mark.parametrize("most_exprs", [6, 8, 10])
    def test_no_better_cover_separates_one(self, most_exprs: int) -> None:
        fusions = [tiny_fusion(seed, most_exprs) for seed in range(20)]
        fusions += [each for seed in range(60) if len((each := random_fusion(seed)).exprs) <= most_exprs]
        for fusion in fusions:
            case = Case(fusion)
            apart = best_cover(case.whole, single_exprs(case.dependencies))
            assert case.seconds(case.exact()) == pytest.approx(case.seconds(apart), rel=1e-12), fusion.name

    def test_are_chains_of_unary_exprs_with_what_they_start_from(self) -> None:
        body = "s = sum(x, dims=[1], keepdim=True)\nr = rsqrt(s * 0.5 + 1.0)\ny = x * r"
        case = case_of(text_of({"x": "bfloat16[M, N]"}, body, {"y": "bfloat16"}))
        atoms = atoms_of(case.dependencies, case.costs)
        assert [[case.fusion.exprs[index].op for index in sorted(atom.exprs)] for atom in atoms] == [
            ["sum", "broadcast", "mul", "add", "rsqrt"],
            ["mul", "cast"],
        ]


def ops(case: Case, cover: Sequence[Task]) -> list[list[str]]:
    """The ops of each task's tensor exprs."""
    return [[case.fusion.exprs[index].op for index in sorted(case.tensor_exprs(task))] for task in cover]


class TestLimits:
    LONG = text_of(
        {"t0": "float[M, N]", "x": "float[M, N]"},
        "\n".join(f"t{step + 1} = t{step} + x" for step in range(13)),
        {"t13": "float"},
    )

    def test_a_large_fusion_is_refused(self) -> None:
        case = case_of(self.LONG)
        with pytest.raises(UsageError) as caught:
            case.exact()
        assert str(caught.value) == "the exact search takes fusions of at most 12 atoms, and test has 13"

    def test_an_expr_of_several_results_is_refused(self) -> None:
        case = Case(dense_outputs(run_passes(load_recipe(ROOT / "recipes" / "argmax.yaml").fusion)))
        with pytest.raises(UsageError) as caught:
            case.exact()
        assert str(caught.value) == "the exact search takes exprs with one result, and argmax has a reduce with 2"

    def test_the_limit_is_the_callers(self) -> None:
        case = case_of(self.LONG)
        assert len(exact_cover(case.whole, limit=13)) == 1

    def test_no_scheduler_takes_an_expr(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(families, "FAMILIES", (alias.FAMILY,))
        case = case_of(text_of({"x": "float[M]"}, "a = exp(x)\ny = a + x", {"y": "float"}))
        with pytest.raises(ScheduleError) as caught:
            case.exact()
        assert str(caught.value) == (
            "test.yaml:5:7: error: no scheduler takes exp (alias: exp computes)\n"
            "    a = exp(x)\n"
            "        ^~~~~~\n"
            "test.yaml:6:7: error: no scheduler takes add (alias: add computes)\n"
            "    y = a + x\n"
            "        ^~~~~"
        )


class TestSegment:
    @pytest.mark.parametrize("seed", range(20))
    def test_segments_are_the_best_cover(self, seed: int) -> None:
        case = Case(random_fusion(seed))
        tasks = [each.task for each in segment(case.fusion, SM_90, "exact").segments]
        assert case.problem(tasks) == ""
        assert case.seconds(tasks) == pytest.approx(case.seconds(case.exact()), rel=1e-12)

    def test_says_why(self) -> None:
        first, second = segment(primitive(SUM_THEN_ADD), SM_90, "exact").segments
        assert first.why == ()
        assert second.why[0].startswith("cut from segment 0: pointwise: sum is a reduction")


class TestCommandLine:
    @pytest.mark.parametrize("search", ["heuristic", "exact"])
    def test_inspect_with_either_search(self, search: str, tmp_path: Path) -> None:
        (tmp_path / "r.yaml").write_text(SUM_THEN_ADD)
        done = run_cli("inspect", "r.yaml", "--segmentation", search, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert [each["scheduler"] for each in json.loads(done.stdout)["segments"]] == ["reduction", "pointwise"]

    @pytest.mark.parametrize("verb", ["compile", "inspect"])
    def test_a_large_fusion_is_a_usage_error(self, verb: str, tmp_path: Path) -> None:
        (tmp_path / "r.yaml").write_text(TestLimits.LONG)
        done = run_cli(verb, "r.yaml", "--segmentation", "exact", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "error: the exact search takes fusions of at most 12 atoms, and test has 13\n"

    def test_an_artifact_is_cut_already(self, tmp_path: Path) -> None:
        (tmp_path / "r.fuse").write_text("")
        done = run_cli("inspect", "r.fuse", "--segmentation", "exact", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (2, "error: r.fuse is cut already; --segmentation is for recipes\n")

    def test_what_was_cut_exactly_is_checked_against_the_exact_cut(self, tmp_path: Path, compilers: None) -> None:
        (tmp_path / "r.yaml").write_text(SUM_THEN_ADD)
        done = run_cli("compile", "r.yaml", "--segmentation", "exact", "--arch", "host", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert run_cli("check", "r.yaml", cwd=tmp_path).stdout == "1 fresh, 0 stale\n"
        assert open_artifact(tmp_path / "build" / "sum_then_add.fuse").manifest.sources["segmentation"] == "exact"


def run_cli(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [commands() / "fusebuild", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
