"""Generated transformer stacks: as many exprs as asked for, to see how planning grows with them.

A layer is norm, linear, activation, linear, residual, all in bfloat16 storage and float arithmetic; the backward half
walks the layers again from the last. The layers are alike but for their weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Value
from fusebuild.ops.builder import FusionBuilder

SIZES = {"T": 8192, "D": 1024, "H": 4096}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """The values of one layer's forward half that its backward half reads."""

    x: Value
    mean: Value
    rstd: Value
    hidden: Value
    gamma: Value
    up: Value
    down: Value


class _Stack(FusionBuilder):
    def op(self, name: str, *operands: Value | float, **named: object) -> Value:
        values = [each if isinstance(each, Value) else self.constant(float(each)) for each in operands]
        return self.call(name, values, named)[0]  # type: ignore[arg-type]

    def to_float(self, x: Value) -> Value:
        return self.op("cast", x, dtype=DType.FLOAT)

    def to_storage(self, x: Value) -> Value:
        return self.op("cast", x, dtype=DType.BFLOAT16)

    def norm(self, x: Value, gamma: Value) -> tuple[Value, Value, Value]:
        """``(normalized, mean, rstd)``."""
        wide = self.to_float(x)
        mean = self.op("mean", wide, dims=(1,), keepdim=True)
        centered = self.op("sub", wide, mean)
        variance = self.op("mean", self.op("mul", centered, centered), dims=(1,), keepdim=True)
        rstd = self.op("rsqrt", self.op("add", variance, 1e-5))
        scaled = self.op("mul", self.op("mul", centered, rstd), self.to_float(gamma))
        return self.to_storage(scaled), mean, rstd

    def forward(self, x: Value) -> tuple[Value, _Layer]:
        gamma = self.tensor(DType.BFLOAT16, ("D",))
        up, down = self.tensor(DType.BFLOAT16, ("H", "D")), self.tensor(DType.BFLOAT16, ("D", "H"))
        normed, mean, rstd = self.norm(x, gamma)
        hidden = self.op("linear", normed, up)
        active = self.to_storage(self.op("silu", self.to_float(hidden)))
        out = self.op("linear", active, down)
        result = self.to_storage(self.op("add", self.to_float(x), self.to_float(out)))
        return result, _Layer(x=x, mean=mean, rstd=rstd, hidden=hidden, gamma=gamma, up=up, down=down)

    def backward(self, grad: Value, layer: _Layer) -> Value:
        """The gradient of the layer's input; its weight gradients become outputs."""
        grad_active = self.to_float(self.op("matmul", grad, layer.down))
        hidden = self.to_float(layer.hidden)
        gate = self.op("sigmoid", hidden)
        slope = self.op("mul", gate, self.op("add", self.op("mul", hidden, self.op("sub", 1.0, gate)), 1.0))
        grad_hidden = self.to_storage(self.op("mul", grad_active, slope))
        grad_normed = self.to_float(self.op("matmul", grad_hidden, layer.up))
        centered = self.op("sub", self.to_float(layer.x), layer.mean)
        normed = self.op("mul", centered, layer.rstd)
        self.output(self.to_storage(self.op("sum", self.op("mul", grad_normed, normed), dims=(0,))))
        scaled = self.op("mul", grad_normed, self.to_float(layer.gamma))
        along = self.op("mean", scaled, dims=(1,), keepdim=True)
        across = self.op("mean", self.op("mul", scaled, normed), dims=(1,), keepdim=True)
        inner = self.op("sub", self.op("sub", scaled, along), self.op("mul", normed, across))
        grad_x = self.op("add", self.op("mul", inner, layer.rstd), self.to_float(grad))
        return self.to_storage(grad_x)


def transformer_stack(exprs: int) -> Fusion:
    """A forward and backward stack with at least ``exprs`` exprs and as few layers as that takes."""
    builder = _Stack("transformer_stack")
    x = builder.tensor(DType.BFLOAT16, ("T", "D"))
    grad = builder.tensor(DType.BFLOAT16, ("T", "D"))
    per_layer = 50
    layers = []
    for _ in range(-(-exprs // per_layer)):
        x, layer = builder.forward(x)
        layers.append(layer)
    builder.output(x, name="y")
    for layer in reversed(layers):
        grad = builder.backward(grad, layer)
    builder.output(grad, name="grad_x")
    return builder.finish(cases=[SIZES])
