"""Plans as operators of torch: schemas, fake kernels, torch.compile, gradients, mutation and shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fusebuild
from fusebuild.errors import UsageError
from support.host_artifacts import compile_for_host
from support.places import ROOT

torch = pytest.importorskip("torch")
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402

SHIPPED = ROOT / "recipes"
TEXTS = {
    "scaled": """
fusion: scaled
inputs:
  x: float[M, N]
  mask: bool[N]
scalars:
  alpha: float
  shift: int64
  doubled: bool
body: |
  kept = where(mask, x * alpha + cast(shift, float), 0.0)
  y = where(doubled, kept + kept, kept)
  turned = permute(y, permutation=[1, 0])
  total = sum(y, dims=[1])
outputs:
  y: float
  turned: float
  total: float
cases:
  - {M: 6, N: 8}
""",
    "running": """
fusion: running
inputs:
  x: float[N]
  state: float[N]
body: |
  new_state = state * 0.5 + x
  used = new_state * 2.0
outputs:
  new_state: {dtype: float, alias: state}
  used: float
cases:
  - {N: 8}
""",
    "counted": """
fusion: counted
inputs:
  x: float[N]
body: |
  y = x + 1.0
outputs:
  y: {dtype: float, alias: x}
cases:
  - {N: 8}
""",
    "noisy": """
fusion: noisy
inputs:
  x: float[N]
scalars:
  offset: int64
body: |
  y = x + cast(offset, float)
outputs:
  y: float
cases:
  - {N: 8}
""",
    "noisy_backward": """
fusion: noisy_backward
inputs:
  grad_y: float[N]
scalars:
  offset: int64
body: |
  grad_x = grad_y * cast(offset, float)
outputs:
  grad_x: float
cases:
  - {N: 8}
""",
    "wide_backward": """
fusion: wide_backward
inputs:
  grad_y: float[N]
body: |
  grad_x = cast(grad_y, double)
outputs:
  grad_x: double
cases:
  - {N: 8}
""",
    "layernorm": (SHIPPED / "layernorm.yaml").read_text(),
    "layernorm_backward": (SHIPPED / "layernorm_backward.yaml").read_text(),
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = compile_for_host(tmp_path_factory.mktemp("plans"), TEXTS)
    return {name: fusebuild.load(folder / f"{name}.fuse", target="host") for name in TEXTS}


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own: torch knows an operator's name for the life of the process."""
    yield "test_" + "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    torch.compiler.reset()


def scaled_inputs(rows: int = 6, columns: int = 8) -> tuple[Any, ...]:
    return torch.randn(rows, columns), torch.rand(columns) > 0.5, 2.5, 3, True


def norm_inputs(rows: int = 7, columns: int = 24) -> list[Any]:
    own = [torch.randn(rows, columns), torch.randn(columns), torch.randn(columns)]
    return [each.bfloat16().requires_grad_() for each in own]


def test_an_operator_gives_what_the_plan_gives(plans: dict[str, Any], namespace: str) -> None:
    operator = plans["scaled"].as_torch_op(f"{namespace}::scaled")
    inputs = scaled_inputs()
    for got, want in zip(operator(*inputs), plans["scaled"](*inputs), strict=True):
        assert torch.equal(got, want)
    schema = getattr(torch.ops, namespace).scaled.default._schema
    assert str(schema) == (
        f"{namespace}::scaled(Tensor x, Tensor mask, float alpha, SymInt shift, bool doubled) "
        "-> (Tensor, Tensor, Tensor)"
    )


def test_torch_finds_nothing_wrong_with_operators(plans: dict[str, Any], namespace: str) -> None:
    torch.library.opcheck(plans["scaled"].as_torch_op(f"{namespace}::scaled"), scaled_inputs())
    norm = plans["layernorm"].as_torch_op(f"{namespace}::norm", backward=plans["layernorm_backward"])
    torch.library.opcheck(norm, norm_inputs())


def test_torch_compile_sees_through_it_with_symbolic_sizes(plans: dict[str, Any], namespace: str) -> None:
    operator = plans["scaled"].as_torch_op(f"{namespace}::scaled")
    seen: list[Any] = []

    def backend(graph: Any, inputs: list[Any]) -> Any:
        seen.append(graph)
        return graph.forward

    def model(x: Any, mask: Any) -> Any:
        y, turned, total = operator(x.relu(), mask, 2.0, 1, False)
        return y.sum() + (turned.t() * 2).sum(), total + 1

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for rows, columns in ((6, 8), (5, 16), (11, 24)):
        x, mask, *_ = scaled_inputs(rows, columns)
        torch.testing.assert_close(compiled(x, mask), model(x, mask))
    assert len(seen) == 1


def test_gradients_are_those_of_the_backward_plan(plans: dict[str, Any], namespace: str) -> None:
    operator = plans["layernorm"].as_torch_op(f"{namespace}::norm", backward=plans["layernorm_backward"])
    compiled = torch.compile(lambda *inputs: operator(*inputs)[0] * 2, fullgraph=True, backend="aot_eager")
    inputs = norm_inputs()
    exact = [each.detach().double().requires_grad_() for each in inputs]
    wanted = torch.nn.functional.layer_norm(exact[0], [24], *exact[1:], eps=1e-5) * 2
    wanted.sum().backward()
    for call in (lambda *inputs: operator(*inputs)[0] * 2, compiled):
        for each in inputs:
            each.grad = None
        made = call(*inputs)
        torch.testing.assert_close(made.double(), wanted, rtol=2e-2, atol=2e-2)
        made.sum().backward()  # the gradient that arrives is expanded from one element
        for each, own in zip(inputs, exact, strict=True):
            torch.testing.assert_close(each.grad.double(), own.grad, rtol=2e-2, atol=4e-2)


def test_outputs_without_a_gradient_are_constants(plans: dict[str, Any], namespace: str) -> None:
    operator = plans["layernorm"].as_torch_op(f"{namespace}::norm", backward=plans["layernorm_backward"])
    y, mean, rstd = operator(*norm_inputs())
    assert (y.requires_grad, mean.requires_grad, rstd.requires_grad) == (True, False, False)


def test_without_a_backward_plan_only_the_backward_pass_fails(plans: dict[str, Any], namespace: str) -> None:
    operator = plans["layernorm"].as_torch_op(f"{namespace}::norm")
    inputs = norm_inputs()
    y, *_ = operator(*inputs)
    assert torch.equal(y, plans["layernorm"](*(each.detach() for each in inputs))[0])
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()


def test_overwritten_inputs_are_declared_as_mutated(plans: dict[str, Any], namespace: str) -> None:
    operator = plans["running"].as_torch_op(f"{namespace}::running")
    assert str(getattr(torch.ops, namespace).running.default._schema) == (
        f"{namespace}::running(Tensor x, Tensor(a0!) state) -> Tensor"
    )
    model = torch.compile(lambda x, state: operator(x, state)[1] + state, fullgraph=True, backend="aot_eager")
    x, state = torch.randn(8), torch.randn(8)
    new_state = state * 0.5 + x
    torch.testing.assert_close(model(x, state), 3 * new_state)
    torch.testing.assert_close(state, new_state)
    again, used = operator(x, state)
    assert again is state
    torch.testing.assert_close(used, 2 * (new_state * 0.5 + x))


def test_they_are_found_by_name_too(plans: dict[str, Any], namespace: str) -> None:
    operator = plans["running"].as_torch_op(f"{namespace}::running")
    x, state = torch.ones(8), torch.zeros(8)
    assert operator(x, state=state)[0] is state
    assert operator(state=state, x=x)[0] is state
    assert state.tolist() == [1.5] * 8
    with pytest.raises(RuntimeError, match="missing value for argument 'x'"):
        operator(state=state)


@pytest.mark.parametrize("has_backward", [False, True])
def test_torch_compile_lets_whole_numbers_change(plans: dict[str, Any], namespace: str, has_backward: bool) -> None:
    backward = plans["noisy_backward"] if has_backward else None
    operator = plans["noisy"].as_torch_op(f"{namespace}::noisy", backward=backward)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda x, offset: operator(x, offset) * 2, fullgraph=True, backend=counter)
    for offset in range(3, 23):
        x = torch.randn(8).requires_grad_(has_backward)
        made = compiled(x, offset)
        torch.testing.assert_close(made, 2 * (x + offset))
        if has_backward:
            made.sum().backward()
            assert x.grad.tolist() == [2.0 * offset] * 8
    assert counter.frame_count <= 2


def test_an_operator_may_return_nothing_new(plans: dict[str, Any], namespace: str) -> None:
    operator = plans["counted"].as_torch_op(f"{namespace}::counted")
    x = torch.zeros(8)
    assert operator(x) is x
    assert x.tolist() == [1.0] * 8


def test_what_shares_memory_is_copied(plans: dict[str, Any], namespace: str) -> None:
    operator = plans["scaled"].as_torch_op(f"{namespace}::scaled")
    results = operator(*scaled_inputs())
    assert len({each.untyped_storage().data_ptr() for each in results}) == 3


def test_wrong_inputs_say_what_the_plan_says(plans: dict[str, Any], namespace: str) -> None:
    operator = plans["scaled"].as_torch_op(f"{namespace}::scaled")
    x, mask, *numbers = scaled_inputs()
    with pytest.raises(TypeError, match=r"scaled: argument 0 'x': expected float\[M=?.*got double\[6, 8\]"):
        operator(x.double(), mask, *numbers)


def test_so_do_those_without_elements(plans: dict[str, Any], namespace: str) -> None:
    operator = plans["scaled"].as_torch_op(f"{namespace}::scaled")
    x, mask, *numbers = (each.to("meta") if isinstance(each, torch.Tensor) else each for each in scaled_inputs())
    for wrong, error, got in ((x.double(), TypeError, "double[6, 8]"), (x[0], ValueError, "float[8]")):
        with pytest.raises(error) as caught:
            operator(wrong, mask, *numbers)
        assert str(caught.value) == f"scaled: argument 0 'x': expected float[M, N], got {got}"
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match=r"argument 0 'x': expected float\[M, N\], got"):
        torch.compile(operator, fullgraph=True, backend="eager")(torch.randn(8), *scaled_inputs()[1:])


def test_sizes_that_do_not_fit_are_refused_without_a_call(plans: dict[str, Any], namespace: str) -> None:
    operator = plans["layernorm"].as_torch_op(f"{namespace}::norm")
    x, weight, bias = (torch.randn(*shape).bfloat16() for shape in ((4, 8), (8,), (8,)))

    class Norm(torch.nn.Module):
        def forward(self, x: Any, weight: Any, bias: Any) -> Any:
            return operator(x, weight, bias)

    sizes = {
        "x": {0: torch.export.Dim("M"), 1: torch.export.Dim("N")},
        "weight": None,
        "bias": {0: torch.export.Dim("K")},
    }
    with pytest.raises(RuntimeError, match=r"layernorm: argument 1 'weight': dim 0 has to be N"):
        torch.export.export(Norm(), (x, weight[1:], bias))
    with pytest.raises(torch._dynamo.exc.UserError, match="K"):
        torch.export.export(Norm(), (x, weight, bias), dynamic_shapes=sizes)
    columns = torch.export.Dim("N")
    sizes = {"x": {1: columns}, "weight": {0: columns}, "bias": {0: columns}}
    torch.export.export(Norm(), (x, weight, bias), dynamic_shapes=sizes)


def test_a_name_is_of_one_plan(plans: dict[str, Any], namespace: str) -> None:
    norm, backward, name = plans["layernorm"], plans["layernorm_backward"], f"{namespace}::norm"
    operator = norm.as_torch_op(name, backward=backward)
    assert norm.as_torch_op(name, backward=backward) is operator
    for plan, gradients, taken in ((plans["scaled"], None, name), (norm, None, name), (backward, None, name)):
        with pytest.raises(UsageError) as caught:
            plan.as_torch_op(taken, backward=gradients)
        assert str(caught.value) == f"'{taken}' is an operator of another plan already: choose another name"
    with pytest.raises(UsageError, match="_backward' is an operator of another plan already"):
        plans["scaled"].as_torch_op(f"{name}_backward")


def test_a_backward_is_a_plan(plans: dict[str, Any], namespace: str) -> None:
    with pytest.raises(UsageError, match=r"^backward: expected a loaded plan, got function$"):
        plans["scaled"].as_torch_op(f"{namespace}::scaled", backward=lambda x: x)


@pytest.mark.parametrize("name", ["scaled", "::scaled", "a::", "a::b::c", "a b::c", "a::b-c", "a::class", "a::é", None])
def test_a_name_has_a_namespace(name: Any, plans: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        plans["scaled"].as_torch_op(name)
    assert str(caught.value) == f"'{name}' is no name of an operator: expected namespace::operator"


def test_a_backward_plan_has_to_fit(plans: dict[str, Any], namespace: str) -> None:
    messages = {
        ("scaled", "layernorm"): "layernorm: its input 'weight' is no input or output of scaled, nor 'grad_' and the "
        "name of an output",
        ("layernorm", "layernorm"): "layernorm: its output 'y' is not 'grad_' and the name of an input of layernorm",
        ("noisy", "wide_backward"): "wide_backward: its 'grad_x' is a tensor of double with 1 dim, but has to be a "
        "tensor of float with 1 dim",
        ("running", "scaled"): "running: gradients need inputs that scaled finds as they were",
    }
    for (forward, backward), message in messages.items():
        with pytest.raises(UsageError) as caught:
            plans[forward].as_torch_op(f"{namespace}::{forward}", backward=plans[backward])
        assert str(caught.value) == message
        assert not hasattr(getattr(torch.ops, namespace), forward)
