#!/usr/bin/env python3
"""Weights for hqq and how near codes come to them; run by hand, what onnxruntime's own quantizer reaches.

  hqq.py > tests/data/hqq.json      needs torch beside onnxruntime, which the tests do without

A weight is a function of its row in CASES; the file holds its digest (generators of random numbers change) and the error.
"""

import hashlib
import json
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

CASES = [
    {"bits": bits, "block": block, "kind": kind, "dims": dims}
    for bits in (2, 4)
    for block, dims in ((16, [96, 40]), (64, [512, 96]), (128, [768, 64]))
    for kind in ("normal", "heavy", "shifted")
]


def name_of(case):
    return "{bits}:{block}:{kind}".format(**case)


def weight(case):
    numbers = np.random.Generator(np.random.PCG64(7))
    if case["kind"] == "heavy":  # a few far outliers, as trained weights have
        return (numbers.standard_t(3, size=case["dims"]) * 0.02).astype(np.float32)
    values = numbers.normal(size=case["dims"]) * 0.02
    return (values + 0.05 * (case["kind"] == "shifted")).astype(np.float32)


def digest(case):
    return hashlib.sha256(weight(case).tobytes()).hexdigest()


def model(case):
    k, n = case["dims"]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", size]) for name, size in (("x", k), ("y", n)))
    node = helper.make_node("MatMul", ["x", "W"], ["y"], name="fc")
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(weight(case), "W")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def error(case, graph):
    """Mean of |w - what its code stands for| ^ 0.7, the norm that hqq makes small. Scales and zero points are flat."""
    k, n = case["dims"]
    bits, block = case["bits"], case["block"]
    codes, scales, zeros = (numpy_helper.to_array(each) for each in graph.initializer[:3])
    blocks = -(-k // block)
    fields = codes.reshape(n, blocks, -1, 1) >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1
    fields = fields.reshape(n, blocks, block).astype(np.float64)
    stood = (fields - zeros.reshape(n, blocks, 1)) * scales.reshape(n, blocks, 1).astype(np.float64)
    off = weight(case) - stood.reshape(n, blocks * block)[:, :k].T
    return float(np.mean(np.abs(off) ** 0.7))


if __name__ == "__main__":
    import wheel

    found = {}
    for case in CASES:
        theirs = wheel.by_algorithm(model(case), "hqq", case["bits"], case["block"])
        found[name_of(case)] = {"weight": digest(case), "error": error(case, theirs.graph)}
    json.dump(found, sys.stdout, indent=1)
    print()
