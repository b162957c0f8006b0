"""What is compiled ahead is what the process that measures asks torch for, and whatever fails there fails nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fusebuild.bench.ahead import Job, compile_ahead, compile_jobs
from fusebuild.pipeline import compile_recipes
from fusebuild.target.table import TARGETS
from support.fake_device import FakeDevice
from support.small_recipes import text_of

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def artifacts(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ahead")
    doubled = text_of({"x": "float[M, N]"}, "y = x + x", {"y": "float"}, name="doubled", cases="M: 4, N: 8")
    unknown = doubled.replace("doubled", "unknown") + "bench:\n  reference: F.scale_all(x)\n"
    for name, text in (("doubled", doubled), ("unknown", unknown)):
        (folder / f"{name}.yaml").write_text(text)
    compile_recipes([folder], [TARGETS["host"]], folder / "build", jobs=2)
    return folder / "build"


LATER = """\
import sys
from pathlib import Path
import torch
from torch._dynamo.utils import counters
from fusebuild.bench.contenders import reference_module
from fusebuild.oracle.verification import read_recipe, recipe_inputs

recipe = read_recipe(Path(sys.argv[1]))
form = torch.compile(reference_module(recipe).forward, dynamic=False)
form(*recipe_inputs(recipe, {"M": 3, "N": 7}, seed=0, device="cpu"))
print(counters["inductor"].get("fxgraph_cache_hit"), counters["inductor"].get("fxgraph_cache_miss"))
"""
"""What a process that measures asks of torch. In this one, torch's keys depend on what other tests have imported."""


def text_printed_by(script: str, argument: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script, argument], stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def replace_inductor(monkeypatch: pytest.MonkeyPatch, backend: Callable[..., Any]) -> None:
    from torch import _dynamo

    found = _dynamo.lookup_backend
    monkeypatch.setattr(_dynamo, "lookup_backend", lambda name: backend if name == "inductor" else found(name))


def lines(artifacts: Path, *names: str) -> list[bytes]:
    return [msgspec.json.encode(Job(path=str(artifacts / f"{name}.fuse"), case={"M": 2, "N": 5})) for name in names]


class TestJobs:
    def test_each_is_compiled_for_its_sizes_and_nothing_runs(
        self, artifacts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[Any] = []

        def backend(graph: Any, examples: list[Any]) -> Callable[..., Any]:
            seen.append([tuple(each.shape) for each in examples])

            def run(*inputs: Any) -> Any:
                pytest.fail("it ran")

            return run

        replace_inductor(monkeypatch, backend)
        assert compile_jobs(lines(artifacts, "doubled", "doubled"), "cpu", 0) == []
        assert seen == [[(2, 5)], [(2, 5)]]

    def test_what_fails_is_told_and_the_others_are_compiled(
        self, artifacts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def backend(graph: Any, examples: list[Any]) -> Callable[..., Any]:
            raise RuntimeError("no compiler")

        replace_inductor(monkeypatch, backend)
        first, second = compile_jobs(lines(artifacts, "unknown", "doubled"), "cpu", 0)
        assert first.startswith("unknown {'M': 2, 'N': 5}: ")
        assert "has no function 'scale_all'" in first
        assert second.startswith("doubled {'M': 2, 'N': 5}: BackendCompilerFailed: ")


class TestProcesses:
    @pytest.mark.exhaustive  # torch compiles C++ for 10 s
    def test_what_they_compile_is_found_in_the_cache(
        self, artifacts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
        job = Job(path=str(artifacts / "doubled.fuse"), case={"M": 3, "N": 7})
        compile_ahead([job], 2, 0, FakeDevice([]))
        assert text_printed_by(LATER, job.path).split() == ["1", "None"]

    def test_jobs_are_shared_and_processes_that_fail_are_no_failure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shares: list[list[Job]] = []
        popen = subprocess.Popen

        def started(command: Any, *, stdin: Any, env: dict[str, str], **more: Any) -> Any:
            assert command[1:] == ["-m", "fusebuild.bench.ahead", "cpu", "9"]
            assert env == {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
            shares.append([msgspec.json.decode(line, type=Job) for line in stdin])
            return popen([sys.executable, "-c", "import sys; sys.exit(3)"], stdin=stdin, env=env, **more)

        monkeypatch.setattr(subprocess, "Popen", started)
        jobs = [Job(path="a.fuse", case={"M": size}) for size in range(5)]
        compile_ahead(jobs, 2, 9, FakeDevice([]))
        assert shares == [jobs[0::2], jobs[1::2]]
        shares.clear()
        compile_ahead(jobs[:1], 4, 9, FakeDevice([]))
        assert shares == [jobs[:1]]
        compile_ahead([], 4, 9, FakeDevice([]))
        assert len(shares) == 1
