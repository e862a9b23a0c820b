"""Small models on which onnxruntime's quantizers of two versions differ, or might, and settings for those: what test_quantizer_versions.py
compares weir with.

`MODELS` makes a model by its name, with its feeds; `SETTINGS` has what the tools are asked for: "dynamic ..." with the options of
quantize_dynamic and the same words for weir, others a Setup (static_pair.py).
"""

import functools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType

from static_pair import Setup

F32, F16 = np.float32, np.float16
CODES = QuantFormat.QOperator


def numbers(seed, *dims, scale=1.0, dtype=F32):
    return (np.random.default_rng([seed, *dims]).standard_normal(dims) * scale).astype(dtype)


node = functools.partial(helper.make_node)


def info(name, dims, dtype=F32):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), dims)


class Case:
    """A model, and arrays that it takes, three of each input."""

    def __init__(self, nodes, inputs, outputs, tensors, dtype=F32, opset=None, listed=(), domains=()):
        opset = opset or (19 if dtype == F16 else 17)
        made = [numpy_helper.from_array(np.asarray(a), n) for n, a in tensors.items()]
        given = [info(n, x[0].shape, x[0].dtype) for n, x in inputs.items()]
        given += [info(n, tensors[n].shape, tensors[n].dtype) for n in listed]
        graph = helper.make_graph(nodes, "g", given, [info(n, d, dtype) for n, d in outputs.items()], made)
        imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
        self.model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        onnx.checker.check_model(self.model)
        self.feeds = [{n: x[i] for n, x in inputs.items()} for i in range(3)]


def samples(*dims, dtype=F32):
    return [numbers(50 + i, *dims, dtype=dtype) for i in range(3)]


# ---- products


def gemm(w=None, b=None, dtype=F32, turned=False, opset=None, name="fc", **attributes):
    """x [3, 8] by W, 6 columns."""
    dims = (6, 8) if turned else (8, 6)
    tensors = {"W": numbers(1, *dims, dtype=dtype) if w is None else w.reshape(dims).astype(dtype)}
    if b is not False:
        tensors["b"] = numbers(2, 6, dtype=dtype) if b is None else b.astype(dtype)
    if turned:
        attributes["transB"] = 1
    x = samples(8, 3, dtype=dtype) if attributes.get("transA") else samples(3, 8, dtype=dtype)
    return Case([node("Gemm", ["x", *tensors], ["y"], name, **attributes)], {"x": x}, {"y": [3, 6]}, tensors, dtype, opset)


def matmul(w=None, dtype=F32, opset=None, dims=(8, 6), b=None):
    """x [3, 8] by W, with an Add behind where there is a bias."""
    nodes = [node("MatMul", ["x", "W"], ["h" if b is not None else "y"], "mm")]
    tensors = {"W": numbers(1, *dims, dtype=dtype) if w is None else w.astype(dtype)}
    if b is not None:
        nodes.append(node("Add", ["h", "b"], ["y"], "sum"))
        tensors["b"] = b.astype(dtype)
    out = [3, dims[-1]] if len(dims) == 2 else [dims[0], 3, dims[-1]]
    return Case(nodes, {"x": samples(3, 8, dtype=dtype)}, {"y": out}, tensors, dtype, opset)


def conv(w=None, b=None, dtype=F32, group=1, relu=False, opset=None):
    tensors = {"W": (numbers(1, 4, 4 // group, 3, 3, dtype=dtype) if w is None else w.astype(dtype))}
    if b is not False:
        tensors["b"] = numbers(2, 4, dtype=dtype) if b is None else b.astype(dtype)
    nodes = [node("Conv", ["x", *tensors], ["h" if relu else "y"], "conv", group=group, pads=[1] * 4)]
    nodes += [node("Relu", ["h"], ["y"], "relu")] if relu else []
    return Case(nodes, {"x": samples(1, 4, 5, 5, dtype=dtype)}, {"y": [1, 4, 5, 5]}, tensors, dtype, opset)


def net(dtype):
    """A Conv, a Relu, the mean, two Gemms, the second one turned."""
    nodes = [node("Conv", ["x", "k", "c"], ["h"], "conv", pads=[1] * 4), node("Relu", ["h"], ["r"], "relu"),
             node("GlobalAveragePool", ["r"], ["p"], "mean"), node("Flatten", ["p"], ["f"], "flat"),
             node("Gemm", ["f", "W", "b"], ["g"], "one"), node("Gemm", ["g", "V", "d"], ["y"], "two", transB=1)]  # fmt: skip
    tensors = {"k": numbers(3, 4, 4, 3, 3, dtype=dtype), "c": numbers(4, 4, dtype=dtype), "W": numbers(1, 4, 8, dtype=dtype),
               "b": numbers(2, 8, dtype=dtype), "V": numbers(5, 6, 8, dtype=dtype), "d": numbers(6, 6, dtype=dtype)}  # fmt: skip
    return Case(nodes, {"x": samples(1, 4, 5, 5, dtype=dtype)}, {"y": [1, 6]}, tensors, dtype)


def norm(dtype):
    nodes = [node("LayerNormalization", ["x", "s", "b"], ["h"], "ln"), node("MatMul", ["h", "W"], ["y"], "mm")]
    tensors = {"s": numbers(3, 8, dtype=dtype), "b": numbers(2, 8, scale=30, dtype=dtype), "W": numbers(1, 8, 6, dtype=dtype)}
    return Case(nodes, {"x": samples(3, 8, dtype=dtype)}, {"y": [3, 6]}, tensors, dtype)


def zero_channel(*dims, axis, scale=1.0):
    w = numbers(1, *dims, scale=scale)
    w[(slice(None),) * axis + (1,)] = 0
    return w


# ---- shared, taken, inside of bodies


def two_gemms(other=None):
    nodes = [node("Gemm", ["x", "W"], ["y"], "f1", transB=1), node("Gemm", ["x", other or "W"], ["z"], "f2", transB=1)]
    tensors = {"W": numbers(1, 6, 8), **({other: numbers(3, 6, 8)} if other else {})}
    return Case(nodes, {"x": samples(3, 8)}, {"y": [3, 6], "z": [3, 6]}, tensors)


def tied(last):
    nodes = [node("Gather", ["W", "i"], ["e"], "ga"), last]
    return Case(nodes, {"i": [np.array([i, 8, 3]) for i in range(3)]}, {"y": [3, 9]}, {"W": numbers(1, 9, 8)})


def taken(name):
    """A value has a name that the transposed weight, or what it becomes, might have."""
    nodes = [node("Gemm", ["x", "W"], ["y"], "fc", transB=1), node("Identity", ["x"], [name], "id")]
    return Case(nodes, {"x": samples(3, 8)}, {"y": [3, 6], name: [3, 8]}, {"W": numbers(1, 6, 8)})


def branches(where):
    """Gemms of one weight in both branches of an If; the weight is the model's or the branch's."""
    def branch(name, more):
        made = [numpy_helper.from_array(numbers(1, 6, 8), "V")] if where == "inside" else []
        own = {"V": "V" + name} if where == "inside" else {}
        for each in made:
            each.name = own["V"]
        nodes = [node("Gemm", ["x", own.get("V", "W")], [name if not more else f"{name}_h"], f"fc_{name}", transB=1)]
        nodes += [node("Neg", [f"{name}_h"], [name], f"neg_{name}")] if more else []
        return helper.make_graph(nodes, name, [], [info(name, [3, 6])], made)

    nodes = [node("If", ["flag"], ["h"], "if", then_branch=branch("a", False), else_branch=branch("c", True)),
             node("Gemm", ["x", "W"], ["g"], "fc", transB=1), node("Add", ["g", "h"], ["y"], "sum")]  # fmt: skip
    inputs = {"x": samples(3, 8), "flag": [np.array(i == 1) for i in range(3)]}
    return Case(nodes, inputs, {"y": [3, 6]}, {"W": numbers(1, 6, 8)})


def lstm():
    nodes = [node("LSTM", ["x", "W", "R", "b"], ["y"], "lstm", hidden_size=6)]
    tensors = {"W": numbers(1, 1, 24, 8), "R": numbers(2, 1, 24, 6), "b": numbers(3, 1, 48)}
    return Case(nodes, {"x": samples(3, 1, 8)}, {"y": [3, 1, 1, 6]}, tensors)


def attention():
    nodes = [node("Attention", ["x", "W", "b"], ["y"], "att", domain="com.microsoft", num_heads=2)]
    return Case(nodes, {"x": samples(1, 3, 8)}, {"y": [1, 3, 8]}, {"W": numbers(1, 8, 24), "b": numbers(2, 24)}, domains=["com.microsoft"])


def computed():
    """The turned weight is made by a node."""
    nodes = [node("Neg", ["V"], ["W"], "neg"), node("Gemm", ["x", "W", "b"], ["y"], "fc", transB=1)]
    return Case(nodes, {"x": samples(3, 8), "V": samples(6, 8)}, {"y": [3, 6]}, {"b": numbers(2, 6)})


def gathered(dtype):
    nodes = [node("Gather", ["E", "i"], ["e"], "ga"), node("MatMul", ["e", "W"], ["y"], "mm")]
    tensors = {"E": numbers(3, 9, 8, dtype=dtype), "W": numbers(1, 8, 6, dtype=dtype)}
    return Case(nodes, {"i": [np.array([i, 8, 3]) for i in range(3)]}, {"y": [3, 6]}, tensors, dtype)


def gemm_or_matmul():
    """One weight, turned for the Gemm and as it is for the MatMul."""
    nodes = [node("MatMul", ["x", "W"], ["h"], "mm"), node("Gemm", ["h", "W", "b"], ["y"], "fc", transB=1)]
    return Case(nodes, {"x": samples(3, 8)}, {"y": [3, 8]}, {"W": numbers(1, 8, 8), "b": numbers(2, 8)})


MODELS = {
    "gemm": lambda: gemm(),
    "gemm, turned": lambda: gemm(turned=True),
    "gemm, turned, no bias": lambda: gemm(turned=True, b=False),
    "gemm, alpha 2": lambda: gemm(alpha=2.0),
    "gemm, beta 0.5": lambda: gemm(beta=0.5),
    "gemm, beta 0": lambda: gemm(beta=0.0),
    "gemm, turned, beta 0": lambda: gemm(turned=True, beta=0.0),
    "gemm, alpha 2, beta 0": lambda: gemm(alpha=2.0, beta=0.0),
    "gemm, transA": lambda: gemm(transA=1),
    "gemm, small": lambda: gemm(numbers(1, 8, 6, scale=1e-6)),
    "gemm, large bias": lambda: gemm(numbers(1, 8, 6, scale=1e-6), numbers(2, 6, scale=5000)),
    "gemm, large bias, beta 0": lambda: gemm(numbers(1, 8, 6, scale=1e-6), numbers(2, 6, scale=5000), beta=0.0),
    "gemm, large bias, beta 0.5": lambda: gemm(numbers(1, 8, 6, scale=1e-6), numbers(2, 6, scale=5000), beta=0.5),
    "gemm, large bias, alpha 2, beta 0": lambda: gemm(numbers(1, 8, 6, scale=1e-6), numbers(2, 6, scale=5000), alpha=2.0, beta=0.0),
    "gemm, subnormal": lambda: gemm(numbers(1, 8, 6, scale=1e-40), turned=True),
    "gemm, zero": lambda: gemm(np.zeros((8, 6))),
    "gemm, a channel of 0": lambda: gemm(zero_channel(8, 6, axis=1)),
    "gemm, opset 21": lambda: gemm(turned=True, opset=21),
    "gemm, listed": lambda: Case([node("Gemm", ["x", "W"], ["y"], "fc", transB=1)], {"x": samples(3, 8)}, {"y": [3, 6]}, {"W": numbers(1, 6, 8)},
                                 listed=["W"]),
    "gemm, computed": computed,
    "gemm f16": lambda: gemm(dtype=F16),
    "gemm f16, turned": lambda: gemm(dtype=F16, turned=True),
    "gemm f16, beta 0": lambda: gemm(dtype=F16, beta=0.0),
    "gemm f16, large bias, beta 0": lambda: gemm(numbers(1, 8, 6, scale=1e-3), numbers(2, 6, scale=50), F16, beta=0.0),
    "gemm f16, beta 0.5": lambda: gemm(dtype=F16, beta=0.5),
    "gemm f16, small": lambda: gemm(numbers(1, 8, 6, scale=1e-3), dtype=F16),
    "gemm f16, small, beta 0.5": lambda: gemm(numbers(1, 8, 6, scale=1e-3), dtype=F16, beta=0.5),
    "gemm f16, large bias": lambda: gemm(numbers(1, 8, 6, scale=1e-3), numbers(2, 6, scale=50), F16),
    "gemm f16, larger bias": lambda: gemm(numbers(1, 8, 6, scale=1e-2), numbers(2, 6, scale=5000), F16),
    "gemm f16, zero": lambda: gemm(np.zeros((8, 6)), dtype=F16),
    "gemm f16, a channel of 0": lambda: gemm(zero_channel(8, 6, axis=1, scale=1e-3), dtype=F16),
    "gemm f16, opset 21": lambda: gemm(numbers(1, 8, 6, scale=1e-3), dtype=F16, opset=21),
    "matmul": lambda: matmul(),
    "matmul, small": lambda: matmul(numbers(1, 8, 6, scale=1e-6)),
    "matmul and add": lambda: matmul(b=numbers(2, 6)),
    "matmul, batch": lambda: matmul(dims=(2, 8, 6)),
    "matmul f16": lambda: matmul(dtype=F16),
    "matmul f16, subnormal": lambda: matmul(numbers(1, 8, 6, scale=2e-6), F16),
    "matmul f16, small, opset 21": lambda: matmul(numbers(1, 8, 6, scale=1e-4), F16, 21),
    "conv": lambda: conv(),
    "conv and relu": lambda: conv(relu=True),
    "conv, depthwise": lambda: conv(group=4, w=numbers(1, 4, 1, 3, 3)),
    "conv, large bias": lambda: conv(numbers(1, 4, 4, 3, 3, scale=1e-6), numbers(2, 4, scale=5000)),
    "conv f16": lambda: conv(dtype=F16),
    "conv f16, small": lambda: conv(numbers(1, 4, 4, 3, 3, scale=1e-3), dtype=F16),
    "conv f16, large bias": lambda: conv(numbers(1, 4, 4, 3, 3, scale=1e-3), numbers(2, 4, scale=50), F16),
    "conv f16, a channel of 0": lambda: conv(zero_channel(4, 4, 3, 3, axis=0, scale=1e-3), dtype=F16),
    "net": lambda: net(F32),
    "net f16": lambda: net(F16),
    "norm": lambda: norm(F32),
    "norm f16": lambda: norm(F16),
    "lstm": lstm,
    "attention": attention,
    "gather": lambda: gathered(F32),
    "gather f16": lambda: gathered(F16),
    "gather and gemm": lambda: tied(node("Gemm", ["e", "W"], ["y"], "fc", transB=1)),
    "two gemms, one weight": two_gemms,
    "two gemms, two weights": lambda: two_gemms("W_Transposed"),
    "matmul and gemm, one weight": gemm_or_matmul,
    "name taken": lambda: taken("W_Transposed"),
    "name taken, scale": lambda: taken("W_Transposed_scale"),
    "if, weight outside": lambda: branches("outside"),
    "if, weight inside": lambda: branches("inside"),
}  # fmt: skip


# ---- settings

FLOAT = TensorProto.FLOAT
UINT8 = QuantType.QUInt8
SETTINGS = {
    "dynamic": ({}, ()),
    "dynamic, by channel": ({"per_channel": True}, ("--per-channel",)),
    "dynamic, reduced": ({"reduce_range": True}, ("--reduce-range",)),
    "dynamic, uint8": ({"weight_type": UINT8}, ("--weight-type", "uint8")),
    "dynamic, uint8, by channel": ({"per_channel": True, "weight_type": UINT8}, ("--per-channel", "--weight-type", "uint8")),
    "dynamic, weights not symmetric": ({"extra_options": {"WeightSymmetric": False}}, ("--weight-symmetric", "false")),
    "dynamic, bodies": ({"extra_options": {"EnableSubgraph": True}}, ("--enable-subgraph",)),
    "dynamic, of two values": ({"extra_options": {"MatMulConstBOnly": False}}, ("--matmul-const-b-only", "false")),
    "dynamic, forced": ({"extra_options": {"ForceQuantizeNoInputCheck": True}}, ("--force-quantize-no-input-check",)),
    "dynamic, typed": ({"extra_options": {"DefaultTensorType": FLOAT}}, ("--default-tensor-type", "float")),
    "dynamic, excluded": ({"nodes_to_exclude": ["fc_MatMul", "f2_MatMul", "mm"]}, ("--nodes-to-exclude", "fc_MatMul", "--nodes-to-exclude", "f2_MatMul",
                                                                                    "--nodes-to-exclude", "mm")),
    "dynamic, MatMul": ({"op_types_to_quantize": ["MatMul"]}, ("--op-types", "MatMul")),
    "qdq": Setup(),
    "qdq, uint8": Setup("uint8"),
    "qdq, uint8, both": Setup("uint8", "uint8"),
    "qdq, by channel": Setup(per_channel=True),
    "qdq, uint8, by channel": Setup("uint8", per_channel=True),
    "qdq, reduced": Setup("uint8", per_channel=True, reduce_range=True),
    "qdq, int16": Setup("int16", "int16"),
    "qdq, uint16": Setup("uint16", "int8"),
    "qdq, int16, by channel": Setup("int16", "int8", per_channel=True),
    "qdq, int4": Setup("uint8", "int4"),
    "qdq, uint4, by channel": Setup("uint8", "uint4", per_channel=True),
    "qdq, blocks": Setup("uint8", extra={"BlockSize": 4, "QuantizeBias": False}),
    "qdq, blocks, int4": Setup("uint16", "int4", extra={"BlockSize": 4, "QuantizeBias": False}),
    "qdq, blocks, uint8": Setup("uint16", "uint8", extra={"BlockSize": 4, "QuantizeBias": False}),
    "qdq, biases as they are": Setup("uint8", extra={"QuantizeBias": False}),
    "qdq, no room": Setup("uint8", extra={"QDQDisableWeightAdjustForInt32Bias": True}),
    "qdq, no room, by channel": Setup("int16", "int8", per_channel=True, extra={"QDQDisableWeightAdjustForInt32Bias": True}),
    "qdq, least range": Setup("uint8", extra={"MinimumRealRange": 0.5}),
    "qdq, small least range": Setup(per_channel=True, extra={"MinimumRealRange": 1e-4}),
    "qdq, weights not symmetric": Setup("uint8", extra={"WeightSymmetric": False}),
    "qdq, weights symmetric": Setup("uint8", "uint8", per_channel=True, extra={"WeightSymmetric": True}),
    "qdq, activations symmetric": Setup("int8", extra={"ActivationSymmetric": True}),
    "qdq, pairs of weights": Setup("uint8", extra={"AddQDQPairToWeight": True}),
    "qdq, dedicated": Setup("uint8", extra={"DedicatedQDQPair": True}),
    "qdq, contrib": Setup("uint16", "int16", extra={"UseQDQContribOps": True}),
    "qdq, axis": Setup("uint8", per_channel=True, extra={"QDQOpTypePerChannelSupportToAxis": {"MatMul": 0}}),
    "qdq, overrides": Setup("uint8", overrides={"W": [{"quant_type": "int16", "symmetric": True}], "y": [{"rmin": -30.0, "rmax": 40.0}]}),
    "qdq, given": Setup("uint8", overrides={"W": [{"scale": 0.03, "zero_point": 3}], "x": [{"scale": 0.03, "zero_point": 120}]}),
    "qdq, float8": Setup("float8e4m3fn", "float8e4m3fn"),
    "qdq, products": Setup("uint8", ops=("Conv", "MatMul", "Gemm"), per_channel=True),
    "qoperator": Setup("uint8", form=CODES),
    "qoperator, int8": Setup(form=CODES),
    "qoperator, by channel": Setup("uint8", per_channel=True, form=CODES),
    "qoperator, uint8": Setup("uint8", "uint8", form=CODES),
    "qoperator, reduced": Setup("uint8", reduce_range=True, form=CODES),
    "qoperator, least range": Setup("uint8", form=CODES, extra={"MinimumRealRange": 0.5}),
    "qoperator, not symmetric": Setup("uint8", form=CODES, extra={"WeightSymmetric": False}),
}  # fmt: skip
