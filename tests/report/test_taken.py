"""What ``inspect`` says that a call takes is what the executor takes."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from fusebuild.artifact.plan import PlanSegment
from fusebuild.cli.main import cli
from fusebuild.errors import UsageError
from fusebuild.report.inspection import inspections_of
from fusebuild.report.taken import TakenVariant, taken_variant
from fusebuild.runtime.loader import LoadedPlan, load
from fusebuild.target.table import TARGETS
from support.host_artifacts import compile_for_host
from support.places import ROOT
from support.small_recipes import text_of

torch = pytest.importorskip("torch")

RMSNORM = str(ROOT / "recipes" / "rmsnorm.yaml")
MATRIX = {"x": "float[M, N]"}
TEXTS = {
    "rows": text_of(MATRIX, "y = sum(x, dims=[1])", {"y": "float"}, name="rows"),
    "columns": text_of(MATRIX, "y = sum(x, dims=[0])", {"y": "float"}, name="columns"),
    "again": text_of(
        MATRIX, "y = x - broadcast(sum(x, dims=[1]), is_broadcast_dim=[False, True])", {"y": "float"}, name="again"
    ),
    "transposed": text_of(MATRIX, "y = permute(x, [1, 0]) * 2.0", {"y": "float"}, name="transposed"),
}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(tmp_path_factory.mktemp("taken"), TEXTS)


def segment_of(plan: LoadedPlan) -> PlanSegment:
    return plan.plan.target("host").segments[0]


def taken(plan: LoadedPlan, **sizes: int) -> TakenVariant:
    found = taken_variant(segment_of(plan), sizes, TARGETS["host"].multiprocessors)
    assert found is not None
    return found


@pytest.mark.parametrize("name", TEXTS)
def test_the_executor_takes_the_same(artifacts: Path, name: str) -> None:
    plan, random = load(artifacts / f"{name}.fuse", target="host"), Random(name)
    for _ in range(40):
        rows, columns = (int(2 ** random.uniform(0, 11)) for _ in range(2))
        found = taken(plan, M=rows, N=columns)
        assert found.number == min(plan.variants_for(torch.empty(rows, columns))[0])
        assert found.name == segment_of(plan).variants[found.number].name


def test_nothing_is_launched_where_there_is_nothing_to_do(artifacts: Path) -> None:
    plan = load(artifacts / "transposed.fuse", target="host")
    assert taken(plan, M=0, N=5).launches == ()
    assert [launch.kernel for launch in taken(plan, M=3, N=5).launches] != []


def test_formulas_of_a_damaged_plan_that_come_to_no_number(artifacts: Path) -> None:
    segment = segment_of(load(artifacts / "rows.fuse", target="host"))
    for guard in (("floor_div", "M", 0), ("mul", 2**62, 2**62), ("eq", "Q", 1)):
        variant = _replaced(segment.variants[0], guard=(guard,))
        assert taken_variant(_replaced(segment, variants=(variant,)), {"M": 3, "N": 5}, 1) is None


def _replaced(struct: Any, **fields: Any) -> Any:
    return type(struct)(**{name: getattr(struct, name) for name in struct.__struct_fields__} | fields)


class TestInspect:
    def test_shows_it_at_given_sizes(self, capfd: pytest.CaptureFixture[str]) -> None:
        cli.main(["inspect", RMSNORM, "--case", "M=3,N=72"], standalone_mode=False)
        shown = capfd.readouterr().out
        assert shown.startswith("rmsnorm on sm_90 (M=3, N=72)\n")
        assert re.search(r"\n  takes   variant \d+, \w+\n    inner_\w+: grid \(\d+, 1, 1\), block \(\d+, 1, 1\)", shown)

    def test_sizes_that_the_recipe_does_not_have(self) -> None:
        with pytest.raises(UsageError, match=r"^case K=4: rmsnorm has no symbol K; its symbols are M, N$"):
            inspections_of(Path(RMSNORM), None, None, {"K": 4})

    def test_sizes_that_cannot_be_read(self) -> None:
        result = CliRunner().invoke(cli, ["inspect", RMSNORM, "--case", "4"])
        assert result.exit_code == 2
        assert "'4' is not written like M=1024,N=4096" in result.output
