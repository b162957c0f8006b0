"""Every fusion with sizes that are zero, in every variant, on the CPU: its tensors lie between pages that nobody may
touch, and those without elements nowhere. Each fusion runs in a process of its own, which a wrong access ends."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from fusebuild.errors import RecipeError
from fusebuild.recipe.recipe import load_recipe, parse_recipe
from fusebuild.runtime.loader import load
from support.host_artifacts import compile_for_host
from support.places import FUSIONS, RECIPES
from support.sampled import sampled
from support.small_recipes import text_of
from support.zero_sizes import HOST_MEMORIES, Tally, check_artifact, zero_cases

torch = pytest.importorskip("torch")


NONE_ALLOWED = ("built_in_lambdas", "indexing_rows", "top_rows")
"""Fusions that choose from dims of every symbol, or read them by index."""


def check_in_child(path: Path) -> Tally:
    """What running the artifact at ``path`` in a child gives. Where that dies, its last call is what went wrong."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _check(path, reader, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        tally = Tally()
        for kind, value in iter(lambda: _next(stream), None):
            tally.calls.append(value) if kind == "call" else tally.wrong.extend(value)
    _, status = os.waitpid(child, 0)
    if status != 0:
        tally.wrong.append(f"{tally.calls[-1:]} ended the process: status {status}")
    return tally


def _check(path: Path, reader: int, writer: int) -> None:
    """The child. It leaves by :func:`os._exit`, so that nothing of the parent's is done twice."""
    os.close(reader)
    status = 1
    with os.fdopen(writer, "wb", buffering=0) as stream:
        try:
            torch.set_num_threads(1)  # the parent's threads are not here
            warnings.simplefilter("ignore")  # what torch says of variances of nothing
            tally = Tally()
            check_artifact(path, "host", HOST_MEMORIES, tally, lambda call: pickle.dump(("call", call), stream))
            pickle.dump(("wrong", tally.wrong), stream)
            status = 0
        except BaseException as error:
            pickle.dump(("wrong", [f"{type(error).__name__}: {error}"]), stream)
    os._exit(status)


def _next(stream: object) -> tuple[str, object] | None:
    try:
        return pickle.load(stream)
    except EOFError:
        return None


def sampled_recipes() -> list[Path | ParameterSet]:
    """All recipes, of which those over sixty tensors take a minute each: members without elements are also in
    tests/runtime/test_members_run.py."""
    many = [path for path in FUSIONS if path.stem.startswith("many_")]
    others = [path for path in (*FUSIONS, *RECIPES) if path not in many]
    return [*sampled(others, 27), *(pytest.param(path, marks=pytest.mark.exhaustive) for path in many)]


@pytest.mark.parametrize("recipe", sampled_recipes(), ids=lambda path: path.stem)
def test_sizes_of_zero(recipe: Path, artifact_of: Callable[[str], Path]) -> None:
    tally = check_in_child(artifact_of(recipe.stem))
    assert tally.wrong == []
    if recipe.stem not in NONE_ALLOWED:
        assert tally.calls or not zero_cases(load_recipe(recipe).fusion)


INDEX_OF_EXTREME = """\
fusion: extremes
inputs:
  x: float[M, N]
body: |
  first = argmax(x, dim=-1)
  last = argmin(slice(x, [0, 1], [M, N]), dim=1, keepdim=True)
outputs:
  first:
  last:
"""


def test_there_has_to_be_an_element_to_choose(tmp_path: Path) -> None:
    plan = load(compile_for_host(tmp_path, {"extremes": INDEX_OF_EXTREME}) / "extremes.fuse", target="host")
    words = ": there are no elements to choose from, "
    for ask in (plan, plan.variants_for):
        with pytest.raises(ValueError, match=f"^extremes: argmax over dim 1 of 'x'{words}N=0$"):
            ask(torch.empty(3, 0))
        with pytest.raises(ValueError, match=f"^extremes: argmin over dim 1 of 't.*'{words}its size is 0$"):
            ask(torch.ones(3, 1))
    first, last = plan(torch.empty(0, 2))
    assert (first.shape, last.shape) == ((0,), (0, 1))


INDEXED = """\
fusion: indexed
inputs:
  x: float[M, 2]
  i: {type: "int64[DIMS]", range: [0, 1]}
body: |
  part = slice(x, [3, 0], [M, 2])
  a = OP
outputs:
  a:
"""


@pytest.mark.parametrize(("call", "dims"), [("take(part, i, dim=-2)", "K"), ("index_select(part, i, dim=0)", "K"),
                                            ("embedding(part, i)", "K"), ("gather(part, i, dim=0)", "K, 2"),
                                            ("take_along_axis(part, i, dim=0)", "K, 2")])  # fmt: skip
def test_there_has_to_be_an_element_to_read(tmp_path: Path, call: str, dims: str) -> None:
    """Also where the dim is no symbol's, whose fact would say so."""
    text = INDEXED.replace("OP", call).replace("DIMS", dims)
    plan = load(compile_for_host(tmp_path, {"indexed": text}) / "indexed.fuse", target="host")
    index = torch.zeros([4, 2][: dims.count(",") + 1], dtype=torch.int64)
    op = call.partition("(")[0]
    for rows in (3, 2, 0):
        with pytest.raises(ValueError, match=f"^indexed: {op} over dim 0 of 'part': there are no elements to choose"):
            plan(torch.ones(rows, 2), index)
    assert plan(torch.ones(5, 2), index).tolist() == [[1.0, 1.0]] * 4


@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_a_dim_that_never_has_elements_is_an_error_of_the_recipe(op: str) -> None:
    text = text_of({"x": "float[M, 0]"}, f"y = {op}(x, dim=1)", {"y": ""})
    with pytest.raises(RecipeError, match=f"test.yaml:5:.*{op}: dim 1 has no elements to choose from"):
        parse_recipe(text, "test.yaml")


def test_a_child_that_reads_what_is_not_there_is_found_out(tmp_path: Path) -> None:
    """The guards guard: a tensor without elements has an address that nobody may read."""
    import ctypes

    for memory in HOST_MEMORIES:
        child = os.fork()
        if not child:
            with memory() as place:
                at = place.put(torch.zeros(4096, dtype=torch.uint8)).data_ptr()
                ctypes.string_at(at + (4096 if place.name == "null" else -1), 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -11
