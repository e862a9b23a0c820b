#!/usr/bin/env python3
"""Small models with thresholds: nodes of MultiThreshold by random, and quantized networks that streamlining takes to them.

    threshold_models.py network OUT.onnx [LAYERS]      the network; others: stairs(), reference()

The network is what a quantizer leaves before thresholds: matrices of whole numbers with scales, biases, activations and
`Round(Clip(x / s))` between them, as exporters of quantized training write it.
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DOMAIN = "onnx_passes.ops"
KINDS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16, np.dtype(np.float64): TensorProto.DOUBLE}
BODY = """<domain: "onnx_passes.ops", opset_import: ["" : 19]>
MultiThreshold (x, thresholds, weights) => (y) {
  last = Constant <value_ints: ints = [-1]> ()
  wide = Unsqueeze (x, last)
  reached = GreaterOrEqual (wide, thresholds)
  steps = Cast <to = 1> (reached)
  weighted = Mul (weights, steps)
  y = ReduceSum <keepdims = 0> (weighted, last)
}"""


def value(name, dims, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def model_of(nodes, inputs, outputs, constants, opset=19, functions=()):
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "thresholds", inputs, outputs, tensors)
    domains = {node.domain for node in nodes} - {""}
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in sorted(domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    model.functions.extend(functions)
    return model


def many_stairs(rows, dtype=np.float32):
    """Nodes of MultiThreshold, with their body, beside one another: `rows` are dims of x, thresholds, weights. Node i has the
    input x<i> and the output y<i>."""
    nodes, inputs, outputs, constants = [], [], [], {}
    for i, (x, t, w) in enumerate(rows):
        nodes.append(helper.make_node("MultiThreshold", [f"x{i}", f"t{i}", f"w{i}"], [f"y{i}"], f"stairs{i}", domain=DOMAIN))
        constants[f"t{i}"], constants[f"w{i}"] = np.asarray(t, dtype), np.asarray(w, np.float32)
        y = np.broadcast_shapes((*x, 1), np.shape(t), np.shape(w))[:-1]
        inputs.append(value(f"x{i}", x, KINDS[np.dtype(dtype)]))
        outputs.append(value(f"y{i}", y))
    return model_of(nodes, inputs, outputs, constants, functions=[onnx.parser.parse_function(BODY)])


def stairs(x, thresholds, weights, dtype=np.float32):
    return many_stairs([(x, thresholds, weights)], dtype)


def reference(x, thresholds, weights):
    """What it means."""
    with np.errstate(invalid="ignore"):
        steps = (x[..., None] >= np.asarray(thresholds, x.dtype)).astype(np.float32)
    return (np.asarray(weights, np.float32) * steps).sum(-1, dtype=np.float32)


def random_stairs(rng, x):
    """Thresholds and weights for an input of these dims: for all, for each channel, for each element; some that nothing
    reaches, some that everything does, equal ones, weights of both signs and 0."""
    lead = [[], [1] * len(x), x[-1:], [*x[:-1], 1], x][rng.integers(5)]
    steps = int(rng.integers(1, 6))
    t = rng.choice([-2, -1.5, -1, -0.5, 0, 0.5, 1, 2, 3], [*lead, steps]).astype(np.float32)
    t[rng.random(t.shape) < 0.1] = rng.choice([np.inf, -np.inf, np.nan])
    w = rng.choice([-2, -1, 0, 1, 1, 1, 2, 3], [*(lead if rng.random() < 0.5 else []), steps if rng.random() < 0.8 else 1])
    return t, w.astype(np.float32)


def numbers(rng, x, dtype=np.float32, near=0.3):
    """Inputs: on thresholds, that share of them beside one, and far off; no NaN, no infinity."""
    made = rng.choice([-3, -2, -1.5, -1, -0.5, -0.0, 0, 0.25, 0.5, 1, 2, 3], x).astype(dtype)
    beside = rng.random(x) < near
    made[beside] = np.nextafter(made[beside], dtype(rng.choice([-10, 10])))
    return made


# ---- a network -----------------------------------------------------------------------------------


def network(layers=3, batch=4, width=8, seed=1):
    """MatMul, bias, activation, Div, Clip and a rounding, Mul: layer after layer. Relu and Silu come to lie before
    thresholds; Ceil and Floor take turns with Round."""
    rng = np.random.default_rng(seed)
    nodes, constants, at = [], {}, "x"

    def put(op, *ins, **attributes):
        out = f"v{len(nodes)}"
        nodes.append(helper.make_node(op, list(ins), [out], f"n{len(nodes)}", **attributes))
        return out

    def constant(array):
        name = f"c{len(constants)}"
        constants[name] = np.asarray(array, np.float32)
        return name

    for layer in range(layers):
        at = put("MatMul", at, constant(rng.integers(-3, 4, (width, width)) * 0.125))
        at = put("Add", at, constant(rng.integers(-8, 9, width) * 0.0625))
        if layer % 3 == 0:
            at = put("Relu", at)
        elif layer % 3 == 1:
            at = put("Mul", at, put("Sigmoid", at))
        at = put("Div", at, constant([0.25]))
        at = put("Clip", at, constant(-4 if layer % 3 else 0), constant(3 if layer % 3 else 7))
        at = put(["Round", "Floor", "Ceil"][layer % 3], at)
        at = put("Mul", at, constant([0.25]))
    return model_of(nodes, [value("x", [batch, width])], [value(at, [batch, width])], constants)


if __name__ == "__main__":
    onnx.save(network(int((sys.argv[3:] or [3])[0])), sys.argv[2])
