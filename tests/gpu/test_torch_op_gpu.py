"""Plans as operators of torch on a GPU: `pytest -m gpu`, on a machine with a GPU and nvcc."""

from __future__ import annotations

from typing import Any

import pytest

import fusebuild
from fusebuild.pipeline import compile_recipes
from fusebuild.tuning.place import find_place
from support.places import ROOT

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SHIPPED = ROOT / "recipes"
ROWS, COLUMNS = 301, 4096


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("plans")
    names = ("layernorm", "layernorm_backward")
    compile_recipes([SHIPPED / f"{name}.yaml" for name in names], [find_place(None).target], folder)
    forward, backward = (fusebuild.load(folder / f"{name}.fuse") for name in names)
    return forward.as_torch_op("test_torch_op_gpu::layernorm", backward=backward)


def operands() -> list[Any]:
    shapes = ((ROWS, COLUMNS), (COLUMNS,), (COLUMNS,))
    return [torch.randn(shape, device="cuda").bfloat16().requires_grad_() for shape in shapes]


def expected(inputs: list[Any], grad: Any) -> list[Any]:
    """The result and the gradients in double."""
    exact = [each.detach().double().requires_grad_() for each in inputs]
    y = torch.nn.functional.layer_norm(exact[0], [COLUMNS], *exact[1:], eps=1e-5)
    y.backward(grad.double())
    return [y.detach(), *(each.grad for each in exact)]


def check(made: list[Any], wanted: list[Any]) -> None:
    for got, want in zip(made, wanted, strict=True):
        scale = float(want.abs().max())
        assert float((got.detach().double() - want).abs().max()) <= 1e-2 * scale


@pytest.mark.parametrize("is_compiled", [False, True])
def test_forward_and_gradients(operator: Any, is_compiled: bool) -> None:
    def model(*inputs: Any) -> Any:
        return operator(*inputs)[0]

    call = torch.compile(model, fullgraph=True) if is_compiled else model
    inputs, grad = operands(), torch.randn(ROWS, COLUMNS, device="cuda").bfloat16()
    y = call(*inputs)
    y.backward(grad)
    check([y, *(each.grad for each in inputs)], expected(inputs, grad))


def test_a_captured_graph_replays_on_new_data(operator: Any) -> None:
    inputs = [each.detach() for each in operands()]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = operator(*inputs)[0]
    for _ in range(2):
        inputs[0].copy_(torch.randn_like(inputs[0]))
        graph.replay()
        assert torch.equal(y, operator(*inputs)[0])


def test_work_goes_to_the_current_stream(operator: Any) -> None:
    inputs = [each.detach() for each in operands()]
    wanted = operator(*inputs)[0]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        y = operator(*inputs)[0]
        event = side.record_event()
    assert not event.query()
    event.synchronize()
    assert torch.equal(y, wanted)
