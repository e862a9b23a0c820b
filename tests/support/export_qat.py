"""Writes tests/data/qat: a small CNN after training with simulated quantization, as PyTorch's TorchScript exporter writes it.

    python export_qat.py FOLDER         needs torch, and its exporter's onnx

fake_quant.onnx    QuantizeLinear and DequantizeLinear around float weights; zero points are int32 behind Casts, activations have a Clip
                   to 127 (PyTorch's default for x86), zero points that are equal are one behind Identity
converted.onnx     modules of int8: weights and biases are Constants, a Cast to uint8 stands before each DequantizeLinear
"""

import pathlib
import sys
import warnings

import torch
from torch import nn
from torch.ao import quantization


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.relu = nn.ReLU()
        self.depthwise = nn.Conv2d(8, 8, 3, groups=8)
        self.linear = nn.Linear(8 * 6 * 6, 5)

    def forward(self, x):
        x = self.relu(self.conv(self.quant(x)))
        x = self.depthwise(x)
        return self.dequant(self.linear(x.reshape(x.shape[0], -1)))


def main(folder):
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    torch.backends.quantized.engine = "fbgemm"
    net = Net().train()
    net.qconfig = quantization.get_default_qat_qconfig("fbgemm", version=0)
    net = quantization.prepare_qat(net)
    for _ in range(5):
        net(torch.randn(4, 3, 8, 8))
    net.apply(quantization.disable_observer)
    net.eval()
    x = torch.randn(2, 3, 8, 8)
    words = {"opset_version": 13, "dynamo": False, "input_names": ["x"], "output_names": ["y"]}
    torch.onnx.export(net, (x,), str(folder / "fake_quant.onnx"), do_constant_folding=False, **words)
    torch.onnx.export(quantization.convert(net), (x,), str(folder / "converted.onnx"), **words)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
