"""Equal definitions are compiled once, and each gets the results back in its own fids."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, given, settings

from fusebuild.definition import DataType, FusionDefinition, Tensor, run
from fusebuild.definition.canonical import canonical
from fusebuild.definition.run import DefinitionCache, definitions
from fusebuild.errors import ScheduleError
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Value
from fusebuild.ir.verify import verify
from fusebuild.oracle.reference import evaluate
from fusebuild.passes import PASSES
from fusebuild.target.table import TARGETS, Target
from support.strategies import exact_inputs, fusions

torch = pytest.importorskip("torch")

SM_90 = TARGETS["sm_90"]
Record = Callable[[FusionDefinition], None]


@pytest.fixture(autouse=True)
def fresh(empty_store: Path) -> Iterator[None]:
    """As a process begins, with a cache folder of its own."""
    definitions.clear()
    yield
    definitions.clear()


def recorded(record: Record, **named: Any) -> FusionDefinition:
    with FusionDefinition(**named) as fd:
        record(fd)
    return fd


def plain(fd: FusionDefinition) -> None:
    x, y = (fd.define_tensor([-1, width], contiguity=True) for width in (4, 32))
    total = fd.ops.sum(x, dims=[1])
    fd.add_output(y * fd.ops.broadcast_in_dim(total, [8, 32], [0]))


def spelled_otherwise(fd: FusionDefinition) -> None:
    """:func:`plain` with a constant and a size that nothing needs, and with the shape in a vector."""
    fd.define_scalar(7.0)
    x, y = (fd.define_tensor([-1, width], contiguity=True) for width in (4, 32))
    fd.ops.neg(y)
    total = fd.ops.sum(x, dims=[-1], keepdim=False, dtype=DataType.Null)
    fd.add_output(y * fd.ops.broadcast_in_dim(total, fd.define_vector([fd.define_scalar(8), 32]), [0]))


def digest(record: Record) -> str:
    return canonical(recorded(record).fusion).digest


def matrix(fd: FusionDefinition, shape: Sequence[int] = (-1, -1), contiguity: Any = True, **more: Any) -> Tensor:
    return fd.define_tensor(shape, contiguity, **more)


def overwriting(fd: FusionDefinition) -> None:
    x = matrix(fd)
    fd.add_output(x * 2.0, alias_input=x)


def twice(fd: FusionDefinition) -> None:
    doubled = matrix(fd) * 2.0
    fd.add_output(doubled)
    fd.add_output(doubled)


def with_an_input_more(fd: FusionDefinition) -> None:
    fd.add_output(matrix(fd) * 2.0)
    matrix(fd)


DIFFERENT: tuple[Record, ...] = (
    lambda fd: fd.add_output(matrix(fd) * 2.0),
    lambda fd: fd.add_output(matrix(fd) * 3.0),
    lambda fd: fd.add_output(matrix(fd) * 2),
    lambda fd: fd.add_output(matrix(fd) + 2.0),
    lambda fd: fd.add_output(2.0 * matrix(fd)),
    lambda fd: fd.add_output(matrix(fd, dtype=DataType.Half) * 2.0),
    lambda fd: fd.add_output(matrix(fd, [-1, 8]) * 2.0),
    lambda fd: fd.add_output(matrix(fd, contiguity=[False, True]) * 2.0),
    lambda fd: fd.add_output(matrix(fd, stride_order=[0, 1]) * 2.0),
    lambda fd: fd.add_output(matrix(fd, [-1, 1]) * 2.0),
    lambda fd: fd.add_output(fd.ops.sum(matrix(fd), [0])),
    lambda fd: fd.add_output(fd.ops.sum(matrix(fd), [1])),
    overwriting,
    twice,
    with_an_input_more,
)


class TestCanonical:
    def test_spellings_of_one_definition(self) -> None:
        first, second = (canonical(recorded(record, name=record.__name__).fusion)
                         for record in (plain, spelled_otherwise))  # fmt: skip
        assert first.digest == second.digest
        assert list(first.fids.values()) == [0, 1, 2, 3, 4]
        assert list(second.fids.values()) == [1, 2, 4, 8, 9]

    def test_what_matters(self) -> None:
        assert len({digest(record) for record in DIFFERENT}) == len(DIFFERENT)

    def test_which_dims_share_a_size_matters(self) -> None:
        def separate(fd: FusionDefinition) -> None:
            for _ in range(2):
                fd.add_output(-fd.define_tensor([-1], True))

        def shared(fd: FusionDefinition) -> None:
            x, y = (fd.define_tensor([-1], True) for _ in range(2))
            x + y
            fd.add_output(-x)
            fd.add_output(-y)

        assert digest(separate) != digest(shared)


def respelled(fusion: Fusion) -> Fusion:
    """``fusion`` with gaps between fids, other names and other symbols."""
    symbols = {"M": "rows", "N": "columns", "K": "depth"}

    def formulas(part: Any) -> Any:
        return tuple(map(formulas, part)) if isinstance(part, tuple) else symbols.get(part, part)

    def value(old: Value) -> Value:
        type_ = replace(old.type, shape=formulas(old.type.shape)) if old.is_tensor else old.type  # type: ignore[union-attr, call-arg]
        return replace(old, fid=2 * old.fid + 3, name=f"{old.name}_of_mine", type=type_)

    return verify(
        replace(
            fusion,
            name="mine",
            values={2 * fid + 3: value(old) for fid, old in fusion.values.items()},
            exprs=tuple(
                replace(
                    expr,
                    inputs=tuple(2 * fid + 3 for fid in expr.inputs),
                    outputs=tuple(2 * fid + 3 for fid in expr.outputs),
                    attributes=tuple((name, formulas(attribute)) for name, attribute in expr.attributes),
                )
                for expr in fusion.exprs
            ),
            inputs=tuple(2 * fid + 3 for fid in fusion.inputs),
            outputs=tuple(
                replace(output, fid=2 * output.fid + 3, name=f"my_{output.name}",
                        alias=None if output.alias is None else 2 * output.alias + 3)
                for output in fusion.outputs
            ),
            recorded=2 * fusion.recorded + 3,
        )
    )  # fmt: skip


@given(fusion=fusions())
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_canonical_form_of_any_fusion(fusion: Fusion) -> None:
    form, other = canonical(fusion), canonical(respelled(fusion))
    assert other.digest == form.digest
    assert [2 * fid + 3 for fid in form.fids.values()] == list(other.fids.values())
    assert canonical(form.fusion).digest == form.digest
    by_fid = dict(zip(fusion.inputs, exact_inputs(fusion), strict=True))
    arguments = [by_fid[form.fids[fid]] for fid in form.fusion.inputs]
    for got, want in zip(evaluate(form.fusion, arguments), evaluate(fusion, list(by_fid.values())), strict=True):
        assert torch.equal(got, want) or bool(torch.isnan(want).any())


class TestSharing:
    def test_the_second_runs_no_pass_and_gets_its_own_fids(self, monkeypatch: pytest.MonkeyPatch) -> None:
        runs: list[str] = []

        def counted(fusion: Fusion) -> Fusion:
            return run_passes(fusion, lambda name, _: runs.append(name))

        run_passes = run.run_passes
        monkeypatch.setattr(run, "run_passes", counted)
        before = definitions.compilations
        maps = []
        for record in (plain, spelled_otherwise, plain):
            fd = recorded(record)
            assert fd.segment(target="sm_90") > 1
            maps.append([fd.segment_index_space_maps[each] for each in fd.segments])
        assert definitions.compilations - before == 1
        assert runs == [each.__name__ for each in PASSES]
        own = {0: 1, 1: 2, 2: 4, 3: 8, 4: 9}
        assert maps[2] == maps[0]
        assert maps[1] == [{fid: own[shared] for fid, shared in each.items()} for each in maps[0]]

    def test_every_target_is_cut_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cut: list[str] = []

        def counted(fusion: Fusion, target: Target) -> Any:
            cut.append(target.name)
            return segment(fusion, target)

        segment = run.segment
        monkeypatch.setattr(run, "segment", counted)
        for name in ("sm_90", "sm_80", "sm_90", "host", "sm_80"):
            recorded(plain).segment(target=name)
        assert cut == ["sm_90", "sm_80", "host"]

    def test_cutting_and_running_share_the_passes(self, compilers: None) -> None:
        """The inputs are multiples of a half up to 4: float holds every sum of four of them, and its product with
        another one, exactly, so that the results are equal in whatever order they were added."""
        before = definitions.compilations
        generator = torch.Generator().manual_seed(0)
        inputs = [torch.randint(-8, 9, (8, width), generator=generator) / 2 for width in (4, 32)]
        first, second = recorded(plain), recorded(spelled_otherwise)
        first.segment(inputs)
        (got,), (again,) = first.execute(inputs), second.execute(inputs)
        assert torch.equal(got, inputs[1] * inputs[0].sum(1, keepdim=True))
        assert torch.equal(got, again)
        assert definitions.compilations - before == 1

    def test_messages_speak_of_the_definition_at_hand(self, compilers: None) -> None:
        wrong = [torch.randn(8, 4), torch.randn(8, 5)]
        for record, name in ((plain, "t1"), (spelled_otherwise, "t2")):
            with pytest.raises(ValueError, match=f"^{record.__name__}: argument 1 '{name}'"):
                recorded(record, name=record.__name__).execute(wrong)

    def test_what_a_pass_made_is_numbered_after_what_was_recorded(self) -> None:
        def record(fd: FusionDefinition, unused: int) -> None:
            x = fd.define_tensor([-1, -1], True)
            for _ in range(unused):
                fd.define_scalar(1.0)
            variance, mean = fd.ops.var_mean(x, [1], 0, keepdim=True)
            fd.add_output((x - fd.ops.segment_set(mean)) * fd.ops.segment_set(fd.ops.mean(variance, [0])))

        for unused in (0, 5):
            fd = recorded(lambda fd, unused=unused: record(fd, unused))  # type: ignore[misc]
            form = canonical(fd.fusion)
            made = form.fusion.next_fid + 2
            assert form.translate(fd.fusion, made) == fd.fusion.next_fid + 2
            fids = {
                fid for each in (fd.segment(), *fd.segments)[1:] for fid in fd.segment_index_space_maps[each].values()
            }
            assert {*fd.outputs(), 0} <= fids

    def test_a_definition_that_cannot_be_cut_says_so_in_its_own_lines(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(fusion: Fusion, target: Target) -> NoReturn:
            raise ScheduleError.at(fusion.exprs[0].location, "no scheduler takes it")

        monkeypatch.setattr(run, "segment", refuse)
        lines = []
        for record in (plain, spelled_otherwise, plain):
            with pytest.raises(ScheduleError) as caught:
                recorded(record).segment()
            lines.append(caught.value.diagnostics[0].location.text.strip())
        assert lines[0] == lines[2] == "total = fd.ops.sum(x, dims=[1])"
        assert lines[1] == "total = fd.ops.sum(x, dims=[-1], keepdim=False, dtype=DataType.Null)"


def test_threads_that_ask_at_once_wait_for_one(compilers: None) -> None:
    cache = DefinitionCache()
    fusions_ = [recorded(plain if index % 2 else spelled_otherwise).fusion for index in range(8)]
    barrier = threading.Barrier(len(fusions_))

    def ask(fusion: Fusion) -> Any:
        barrier.wait()
        return cache.cut(fusion, SM_90).segmented, cache.loaded(fusion, TARGETS["host"])

    with ThreadPoolExecutor(len(fusions_)) as pool:
        found = list(pool.map(ask, fusions_))
    assert cache.compilations == 1
    assert len({id(segmented) for segmented, _ in found}) == 1
    assert len({id(plan) for _, plan in found}) == 2  # messages name other fids
