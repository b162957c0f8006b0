# nvFuser's older style: a class records the definition, and an instance is called with tensors.
import torch
from nvfuser import DataType, FusionDefinition


class SoftmaxRows(FusionDefinition):
    def definition(self):
        self.t0 = self.from_pytorch(self.example)
        largest = self.ops.max(self.t0, dims=[-1], keep_dim=True)
        exps = self.ops.exp(self.ops.sub(self.t0, largest))
        total = self.ops.sum(exps, dims=[-1], keep_dim=True)
        self.add_output(self.ops.div(exps, total))

    def schedule(self):
        pass


class Scaled(FusionDefinition):
    def definition(self):
        x = self.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Half)
        scale = self.define_scalar(None, dtype=DataType.Double)
        self.add_output(self.ops.cast(self.ops.mul(x, scale), dtype=DataType.Half))


if __name__ == "__main__":
    softmax = SoftmaxRows(max_length=64)
    softmax.example = torch.randn(4, 8, device="cuda")
    inputs = [torch.randn(4, 8, device="cuda")]
    (out,) = softmax.execute(inputs)
    torch.testing.assert_close(out, torch.softmax(inputs[0], -1))
    print("largest difference", (out - torch.softmax(inputs[0], -1)).abs().max().item())
    for _ in range(3):
        half = torch.randn(3, 5, device="cuda").half()
        out = Scaled().execute([half, 2.0])[0]
        assert torch.allclose(out, half * 2.0)
