"""Random graphs around pointwise Convs: what nobody would think of writing down as a case.

A chain with branches of Conv (pointwise, strided, padded, depthwise), Relu, Add, Identity and pairs of Transposes.
Weights are initializers, Constants, or behind Identity, now and then shared; shapes are static or unknown, values
declared or not, some of them outputs. Every graph is a function of its seed.
"""

import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Graph:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.noise = np.random.RandomState(seed)
        self.rank = self.random.choice([1, 2, 3])
        self.nodes, self.initializers, self.weights = [], [], {}
        self.values = [("x", [2, self.random.choice([1, 3, 6]), *self.random.choices([5, 7, 8], k=self.rank)])]

    def constant(self, dims):
        """A tensor in one of three guises; gives the name that its user reads."""
        name = f"w{len(self.nodes)}_{len(self.initializers)}"
        tensor = numpy_helper.from_array((self.noise.standard_normal(dims) / 2).astype(np.float32), name)
        guise = self.random.choice(["initializer", "initializer", "constant", "identity"])
        if guise == "constant":
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
            return name
        self.initializers.append(tensor)
        if guise == "identity":
            self.nodes.append(helper.make_node("Identity", [name], [name + "_again"]))
            return name + "_again"
        return name

    def weight(self, dims):
        if dims not in self.weights or self.random.random() < 0.5:
            self.weights[dims] = self.constant(dims)
        return self.weights[dims]

    def add(self, op_type, inputs, name, dims, **attributes):
        label = self.random.choice(["", f"/{name}/{op_type}"])
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=label, **attributes))
        self.values.append((name, dims))

    def conv(self, x, dims, name):
        channels, attributes = self.random.choice([1, 4, 6]), {}
        strides, pads = [1] * self.rank, [0] * 2 * self.rank
        if self.random.random() < 0.3:
            strides = attributes["strides"] = self.random.choices([1, 2], k=self.rank)
        if self.random.random() < 0.2:
            pads = attributes["pads"] = self.random.choices([0, 1], k=2 * self.rank)
        inputs = [x, self.weight((channels, dims[1], *[1] * self.rank))]
        if self.random.random() < 0.6:
            inputs.append(self.constant((channels,)))
        out = [dims[0], channels]
        for axis, stride in enumerate(strides):
            out.append((dims[2 + axis] + pads[axis] + pads[self.rank + axis] - 1) // stride + 1)
        self.add("Conv", inputs, name, out, **attributes)

    def depthwise(self, x, dims, name):
        self.add("Conv", [x, self.constant((dims[1], 1, *[1] * self.rank))], name, dims, group=dims[1])

    def same_shape(self, x, dims, name):
        kind = self.random.choice(["Relu", "Identity", "Add"])
        others = [value for value, other in self.values if other == dims]
        self.add(kind, [x, self.random.choice(others)] if kind == "Add" else [x], name, dims)

    def transposes(self, x, dims, name):
        """There and back again, with a Relu in between or nothing."""
        last = [0, *range(2, self.rank + 2), 1]
        self.nodes.append(helper.make_node("Transpose", [x], [name + "_t"], perm=last))
        inner = name + "_t"
        if self.random.random() < 0.3:
            self.nodes.append(helper.make_node("Relu", [inner], [name + "_r"]))
            inner = name + "_r"
        self.add("Transpose", [inner], name, dims, perm=[0, self.rank + 1, *range(1, self.rank + 1)])

    def grow(self, count):
        ways = [self.conv, self.conv, self.conv, self.depthwise, self.same_shape, self.transposes]
        for number in range(count):
            x, dims = self.random.choice(self.values[-3:])
            self.random.choice(ways)(x, list(dims), f"v{number}")

    def model(self):
        static = self.random.random() < 0.5
        outputs = [self.values[-1], *(value for value in self.values[1:-1] if self.random.random() < 0.2)]
        inner = [value for value in self.values[1:-1] if value not in outputs and self.random.random() < 0.5]

        def declared(value):
            return helper.make_tensor_value_info(
                value[0], TensorProto.FLOAT, value[1] if static else [None] * len(value[1])
            )

        graph = helper.make_graph(
            self.nodes,
            "random",
            [declared(self.values[0])],
            [declared(value) for value in outputs],
            initializer=self.initializers,
            value_info=[declared(value) for value in inner],
        )
        opset = self.random.choice([11, 13, 17, 21])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def random_model(seed):
    """(model, dims of its one input `x`)"""
    graph = Graph(seed)
    graph.grow(graph.random.randint(2, 9))
    return graph.model(), graph.values[0][1]
