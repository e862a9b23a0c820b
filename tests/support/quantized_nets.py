#!/usr/bin/env python3
"""Quantized networks as QONNX and Brevitas export them: a CNN and a transformer block.

    quantized_nets.py cnn OUT.onnx [--width 16] [--depth 3] [--size 16]
    quantized_nets.py transformer OUT.onnx [--width 32] [--depth 1] [--size 8]

Weights, inputs and activations go through Quant (bits, scale and zero point are inputs, sign, range and rounding are
attributes): weights with a scale for each output channel, activations unsigned behind a Relu and signed elsewhere, one
scale for all. The CNN: Conv, BatchNormalization, Relu, Quant, a MaxPool after the first two, then the mean over the image and a
Gemm. The block: projections to queries, keys and values, attention over `size` tokens with quantized scores, a projection back,
and two MatMuls with a Relu between them; residuals are added, and affine layers (Mul, Add by channel) stand for the norms.
All shapes are fixed, the opset is 19, and so is the seed: a model is the same for the same numbers.
"""

import argparse

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 19
QONNX, BREVITAS = "qonnx.custom_op.general", "onnx.brevitas"


class Net:
    """A graph that grows by one operator a call."""

    def __init__(self, domain, seed=1):
        self.domain = domain
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.count = [], [], 0

    def constant(self, value, dtype=np.float32):
        self.count += 1
        name = f"c{self.count}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def op(self, kind, *inputs, domain="", **attributes):
        self.count += 1
        out = f"{kind.lower()}_{self.count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], f"n_{out}", domain=domain, **attributes))
        return out

    def quant(self, x, scale, bits, signed=1, narrow=0):
        operands = [self.constant(scale), self.constant(0.0), self.constant(float(bits))]
        more = {"signed": signed, "narrow": narrow, "rounding_mode": "ROUND"}
        return self.op("Quant", x, *operands, domain=self.domain, **more)

    def weight(self, *shape, bits=4, axis=0):
        """A quantized weight with a scale, a power of two, for each channel of an axis."""
        dims = [shape[axis] if i == axis else 1 for i in range(len(shape))]
        scale = 2.0 ** self.rng.integers(-5, -2, dims)
        held = self.rng.integers(1 - 2 ** (bits - 1), 2 ** (bits - 1), shape) * scale
        return self.quant(self.constant(held), scale, bits, narrow=1)

    def affine(self, x, channels):
        """x · a + b by channel of the last axis: what is left of a norm when a network is trained."""
        scale, bias = self.rng.uniform(0.5, 1.5, channels), self.rng.uniform(-0.5, 0.5, channels)
        return self.op("Add", self.op("Mul", x, self.constant(scale)), self.constant(bias))

    def model(self, name, x, dims, y):
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, dims)],
            [helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, None)],
            self.constants,
        )
        imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(self.domain, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=9, producer_name="quantized_nets")


def cnn(width=16, depth=3, size=16):
    net = Net(QONNX)
    channels = 3
    x = net.quant("image", 1 / 64, 8)
    for layer in range(depth):
        x = net.op("Conv", x, net.weight(width, channels, 3, 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
        parts = [net.rng.uniform(low, high, width) for low, high in ((0.5, 1.5), (-0.5, 0.5), (-0.5, 0.5), (0.5, 2))]
        x = net.op("BatchNormalization", x, *(net.constant(part) for part in parts), epsilon=1e-5)
        x = net.quant(net.op("Relu", x), 0.25, 4, signed=0)
        if layer < 2:
            x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        channels = width
    x = net.op("ReduceMean", x, net.constant([2, 3], np.int64), keepdims=0)
    y = net.op("Gemm", x, net.weight(10, width), net.constant(net.rng.uniform(-1, 1, 10)), transB=1)
    return net.model("cnn", "image", [1, 3, size, size], y)


def transformer(width=32, depth=1, size=8, heads=2):
    net = Net(BREVITAS)
    x = "tokens"

    def linear(x, rows, columns):
        y = net.op("MatMul", x, net.weight(rows, columns, axis=1))
        return net.op("Add", y, net.constant(net.rng.uniform(-0.25, 0.25, columns)))

    def split(x, perm):
        shape = net.constant([1, size, heads, width // heads], np.int64)
        return net.op("Transpose", net.op("Reshape", x, shape), perm=perm)

    for _ in range(depth):
        inner = net.quant(net.affine(x, width), 0.125, 6)
        queries = net.quant(split(linear(inner, width, width), [0, 2, 1, 3]), 0.25, 4)
        keys = net.quant(split(linear(inner, width, width), [0, 2, 3, 1]), 0.25, 4)
        values = net.quant(split(linear(inner, width, width), [0, 2, 1, 3]), 0.25, 4)
        scores = net.op("Div", net.op("MatMul", queries, keys), net.constant((width // heads) ** 0.5))
        chances = net.quant(net.op("Softmax", scores, axis=-1), 1 / 15, 4, signed=0)
        mixed = net.op("Transpose", net.op("MatMul", chances, values), perm=[0, 2, 1, 3])
        mixed = net.quant(net.op("Reshape", mixed, net.constant([1, size, width], np.int64)), 0.125, 6)
        x = net.op("Add", x, linear(mixed, width, width))
        inner = net.quant(net.affine(x, width), 0.125, 6)
        inner = net.quant(net.op("Relu", linear(inner, width, 4 * width)), 0.25, 4, signed=0)
        x = net.op("Add", x, linear(inner, 4 * width, width))
    return net.model("transformer", "tokens", [1, size, width], net.op("Identity", x))


NETS = {"cnn": cnn, "transformer": transformer}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", choices=NETS)
    parser.add_argument("out")
    for name in ("width", "depth", "size"):
        parser.add_argument(f"--{name}", type=int)
    asked = vars(parser.parse_args())
    net, out = asked.pop("net"), asked.pop("out")
    onnx.save(NETS[net](**{k: v for k, v in asked.items() if v is not None}), out)


if __name__ == "__main__":
    main()
