"""Rules of inference against ONNX Runtime: models of one node with dims that are symbols, run at several sizes. What is
inferred must be what comes out, for each size."""

import itertools
import json
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import microsoft_nodes
import runtimes
from conftest import built_tool

pytestmark = pytest.mark.in_memory

TOOL = built_tool("infer_tool")
SUPPORT = Path(__file__).resolve().parents[1] / "support"
onnxruntime.set_default_logger_severity(4)
DTYPES = {"float": TensorProto.FLOAT, "int64": TensorProto.INT64, "int32": TensorProto.INT32, "uint8": TensorProto.UINT8,
          "bool": TensorProto.BOOL}  # fmt: skip
ARRAYS = {"float": np.float32, "int64": np.int64, "int32": np.int32, "uint8": np.uint8, "bool": np.bool_}


class Case:
    """A node: inputs are "float[N,3]" texts or arrays, which become initializers; `sizes` are bindings of the symbols."""

    def __init__(self, op, inputs, sizes, outputs=1, opset=20, domain="", unknown=False, **attributes):
        self.op, self.inputs, self.sizes, self.outputs, self.opset, self.domain = op, inputs, sizes, outputs, opset, domain
        self.attributes, self.unknown = attributes, unknown  # some dim cannot be said
        self.name = f"{op}_{opset}_{'_'.join(map(str, attributes.values()))}"

    def model(self):
        names, declared, initializers = [], [], []
        for i, given in enumerate(self.inputs):
            names.append("" if given is None else f"x{i}")
            if isinstance(given, np.ndarray):
                initializers.append(onnx.numpy_helper.from_array(given, f"x{i}"))
            elif given is not None:
                dtype, dims = given[:-1].split("[")
                dims = [int(d) if d.isdigit() else d for d in dims.split(",")] if dims else []
                declared.append(helper.make_tensor_value_info(f"x{i}", DTYPES[dtype], dims))
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, domain=self.domain, **self.attributes)
        made = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph([node], "g", declared, made, initializers)
        opsets = [helper.make_opsetid("", self.opset)]
        if self.domain:
            opsets.append(helper.make_opsetid(self.domain, 3 if self.domain == "ai.onnx.ml" else 1))
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def feeds(self, sizes):
        random = np.random.default_rng(7)
        for i, given in enumerate(self.inputs):
            if not isinstance(given, str):
                continue
            dtype, dims = given[:-1].split("[")
            shape = [int(d) if d.isdigit() else sizes[d] for d in dims.split(",")] if dims else []
            yield f"x{i}", np.asarray(random.random(shape) * 3).astype(ARRAYS[dtype])


def evaluate(text, sizes):
    def exact(a, b):
        assert a % b == 0
        return a // b

    if isinstance(text, int):
        return text
    def trunc(a, b):
        return -(-a // b) if a < 0 else a // b

    return eval(text, {"Max": max, "Min": min, "exact": exact, "trunc": trunc, **sizes})  # noqa: S307


def lengths(symbol, numbers, **others):
    return [{symbol: n, **others} for n in numbers]


T = lengths("t", range(7, 20))


def windows():
    w = np.ones((4, 3, 3), np.float32)
    for strides in (1, 2, 3):
        for pads in ([0, 0], [1, 1], [2, 0], [0, 1]):
            for dilation in (1, 2):
                plain = {"strides": [strides], "pads": pads, "dilations": [dilation]}
                yield Case("Conv", ["float[1,3,t]", w], T, **plain)
                for ceil in (0, 1):
                    pooled = {**plain, "kernel_shape": [3], "ceil_mode": ceil}
                    yield Case("MaxPool", ["float[1,3,t]"], T, outputs=2, **pooled)
                    yield Case("AveragePool", ["float[1,3,t]"], T, **pooled)
                    yield Case("LpPool", ["float[1,3,t]"], T, **pooled)
        for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            for kernel in (2, 3):
                said = {"strides": [strides], "auto_pad": auto, "kernel_shape": [kernel]}
                yield Case("Conv", ["float[1,3,t]", np.ones((4, 3, kernel), np.float32)], T, **said)
                yield Case("MaxPool", ["float[1,3,t]"], T, **said)
                yield Case("AveragePool", ["float[1,3,t]"], T, ceil_mode=1, **said)
                yield Case("MaxPool", ["float[1,3,t]"], T, unknown=auto != "VALID", dilations=[2], **said)
                yield Case("ConvTranspose", ["float[1,3,t]", np.ones((3, 2, kernel), np.float32)], T, **said)
        for more in (0, 1):
            if more < strides:
                yield Case("ConvTranspose", ["float[N,4,t]", np.ones((4, 2, 3), np.float32)], lengths("t", (2, 5), N=2),
                           group=2, strides=[strides], pads=[1, 0], output_padding=[more])  # fmt: skip
    yield Case("Conv", ["float[N,4,h,w]", np.ones((6, 2, 3, 2), np.float32)], [{"N": 2, "h": 7, "w": 8}, {"N": 1, "h": 3, "w": 2}],
               group=2, strides=[2, 1], pads=[1, 0, 1, 1])  # fmt: skip
    yield Case("ConvTranspose", ["float[N,4,t]", np.ones((4, 2, 3), np.float32)], lengths("t", (3, 5), N=2), output_shape=[11], strides=[2])
    small = lengths("t", range(1, 8))  # less than the window: convolutions do not run, pooling divides toward zero
    for kernel, strides, pads in itertools.product((2, 3, 5), (2, 3), ([0, 0], [1, 0])):
        plain = {"strides": [strides], "pads": pads}
        yield Case("Conv", ["float[1,3,t]", np.ones((4, 3, kernel), np.float32)], small, **plain)
        for op, ceil in itertools.product(("MaxPool", "AveragePool"), (0, 1)):
            yield Case(op, ["float[1,3,t]"], small, kernel_shape=[kernel], ceil_mode=ceil, **plain)
    for t in range(1, 6):
        yield Case("MaxPool", [f"float[1,3,{t}]"], [{}], kernel_shape=[5], strides=[3])
        yield Case("MaxPool", [f"float[1,3,{t}]"], [{}], kernel_shape=[5], strides=[3], ceil_mode=1)
    yield Case("ConvInteger", ["uint8[1,3,t]", np.ones((2, 3, 3), np.uint8)], T, strides=[2])
    for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield Case(name, ["float[N,3,h,w]"], [{"N": 2, "h": 3, "w": 5}, {"N": 1, "h": 1, "w": 1}])
    yield Case("MaxUnpool", ["float[1,1,h,w]", np.zeros((1, 1, 2, 2), np.int64)], [{"h": 2, "w": 2}], kernel_shape=[2, 2], strides=[2, 2])
    yield Case("RoiAlign", ["float[1,3,h,w]", "float[r,4]", np.zeros(2, np.int64)], [{"h": 5, "w": 4, "r": 2}], output_height=3, output_width=2)
    yield Case("MaxRoiPool", ["float[1,3,h,w]", np.zeros((2, 5), np.float32)], [{"h": 5, "w": 4}], pooled_shape=[3, 2])
    yield Case("Col2Im", ["float[n,12,6]", np.array([3, 4]), np.array([2, 2])], [{"n": 1}, {"n": 2}])


def reductions():
    sizes = [{"a": 2, "b": 3}, {"a": 1, "b": 1}]
    for keep in (0, 1):
        for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceProd", "ReduceL2", "ReduceLogSumExp"):
            yield Case(op, ["float[a,b,4]", np.array([1, -1])], sizes, keepdims=keep)
            yield Case(op, ["float[a,b,4]"], sizes, keepdims=keep)
            yield Case(op, ["float[a,b,4]", np.array([], np.int64)], sizes, keepdims=keep, noop_with_empty_axes=1)
            yield Case(op, ["float[a,b,4]"], sizes, keepdims=keep, opset=11, axes=[0, -2])
        yield Case("ArgMax", ["float[a,b,4]"], sizes, keepdims=keep, axis=-2)
        yield Case("ArgMin", ["float[a,b,4]"], sizes, keepdims=keep)


def products():
    for a, b, sizes in (("a,b,3", "3,c", [{"a": 2, "b": 3, "c": 1}]), ("3", "b,3,c", [{"b": 2, "c": 4}]), ("b,3", "3", [{"b": 2}]),
                        ("3", "3", [{}]), ("n,1,b,3", "m,3,2", [{"n": 2, "b": 3, "m": 4}]),
                        ("n,b,3", "m,3,2", [{"n": 2, "m": 1, "b": 5}, {"n": 1, "m": 3, "b": 5}])):  # fmt: skip
        yield Case("MatMul", [f"float[{a}]", f"float[{b}]"], sizes)
        yield Case("MatMulInteger", [f"uint8[{a}]", f"uint8[{b}]"], sizes)
        yield Case("FusedMatMul", [f"float[{a}]", f"float[{b}]"], sizes, domain="com.microsoft")
    for ta in (0, 1):
        for tb in (0, 1):
            x, w = "float[3,m]" if ta else "float[m,3]", "float[n,3]" if tb else "float[3,n]"
            yield Case("Gemm", [x, w], [{"m": 2, "n": 5}], transA=ta, transB=tb)
            for ba in (0, 1):
                x = {(0, 0): "b,m,3", (1, 0): "b,3,m", (0, 1): "m,b,3", (1, 1): "3,b,m"}[ta, ba]
                w = "b,n,3" if tb else "b,3,n"
                yield Case("FusedMatMul", [f"float[{x}]", f"float[{w}]"], [{"b": 2, "m": 4, "n": 5}], domain="com.microsoft",
                           transA=ta, transB=tb, transBatchA=ba)  # fmt: skip
    blocks = [np.zeros((5, 2, 16), np.uint8), np.ones(10, np.float32)]
    yield Case("MatMulNBits", ["float[a,b,64]", *blocks], [{"a": 2, "b": 3}], domain="com.microsoft", K=64, N=5, bits=4, block_size=32)
    for equation, inputs, sizes in (
        ("bij,bjk->bik", ["b,i,3", "b,3,k"], [{"b": 2, "i": 3, "k": 4}]),
        ("...ij,...jk->...ik", ["a,b,2,3", "a,b,3,k"], [{"a": 2, "b": 3, "k": 4}]),
        ("ij,jk", ["i,3", "3,k"], [{"i": 2, "k": 4}]),
        ("ba,cb", ["2,a", "c,2"], [{"a": 3, "c": 4}]),
        ("ii->i", ["3,3"], [{}]),
        ("i...->...", ["i,b,2"], [{"i": 2, "b": 3}]),
        (" i j , j k -> k i ", ["i,3", "3,k"], [{"i": 2, "k": 4}]),
    ):
        yield Case("Einsum", [f"float[{dims}]" for dims in inputs], sizes, equation=equation)


def resizes():
    sizes = lengths("t", range(1, 12))
    for scale in (2.0, 0.5, 1.5, 0.25, 3.0, 0.3, 1.1):
        scales, odd = np.array([1, 1, scale], np.float32), scale in (0.3, 1.1)  # floats round there
        yield Case("Resize", ["float[1,2,t]", None, scales], sizes, unknown=odd, mode="nearest")
        yield Case("Resize", ["float[1,2,t]", scales], sizes, unknown=odd, mode="nearest", opset=10)
        yield Case("Resize", ["float[1,2,t]", None, scales[2:]], sizes, unknown=odd, mode="nearest", axes=[-1])
        yield Case("Resize", ["float[1,2,7]", None, scales], [{}], mode="nearest")
        if scale >= 1:
            yield Case("Upsample", ["float[1,2,t]", scales], sizes, unknown=odd, opset=9)
            yield Case("Upsample", ["float[1,2,t]"], sizes, unknown=odd, opset=7, scales=[1.0, 1.0, scale])
    wanted = np.array([1, 2, 7, 5])
    for policy in ("stretch", "not_larger", "not_smaller"):
        yield Case("Resize", ["float[1,2,4,6]", None, None, wanted[2:]], [{}], mode="linear", axes=[2, 3], keep_aspect_ratio_policy=policy)
        yield Case("Resize", ["float[1,2,h,w]", None, None, wanted[2:]], [{"h": 3, "w": 8}], mode="linear", axes=[2, 3],
                   unknown=policy != "stretch", keep_aspect_ratio_policy=policy)  # fmt: skip
    roi = np.array([0, 0, 0.25, 0.25, 1, 1, 0.75, 0.75], np.float32)
    for scales, target in ((np.array([1, 1, 2, 2], np.float32), None), (None, wanted)):
        yield Case("Resize", ["float[1,2,h,w]", roi, scales, target], [{"h": 4, "w": 8}], mode="linear",
                   coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    yield Case("GridSample", ["float[n,2,h,w]", "float[n,a,b,2]"], [{"n": 2, "h": 3, "w": 4, "a": 5, "b": 6}])
    yield Case("AffineGrid", ["float[n,2,3]", np.array([2, 3, 4, 5])], [{"n": 2}])


def recurrences():
    sizes = [{"t": 3, "b": 2}, {"t": 1, "b": 1}]
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for direction, d in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            w, r = np.ones((d, 5 * gates, 3), np.float32), np.ones((d, 5 * gates, 5), np.float32)
            more = {"activations": ["Tanh"] * d} if op == "RNN" else {}
            yield Case(op, ["float[t,b,3]", w, r], sizes, outputs=3 if op == "LSTM" else 2, hidden_size=5, direction=direction, **more)


def norms():
    sizes = [{"n": 2, "t": 3}, {"n": 1, "t": 1}]
    scale = np.ones(4, np.float32)
    yield Case("LayerNormalization", ["float[n,t,4]", scale, scale], sizes, outputs=3)
    yield Case("LayerNormalization", ["float[n,3,4]", np.ones((3, 4), np.float32)], sizes, outputs=3, axis=1)
    yield Case("Dropout", ["float[n,t]"], sizes, outputs=2, opset=13)
    yield Case("Dropout", ["float[n,t]"], sizes, outputs=2, opset=10)
    yield Case("BatchNormalization", ["float[n,4,t]", scale, scale, scale, scale], sizes, opset=15)
    yield Case("BatchNormalization", ["float[n,4,t]", scale, scale, scale, scale], [{"n": 2, "t": 3}], outputs=3, opset=15, training_mode=1)
    yield Case("GroupNormalization", ["float[n,4,t]", scale, scale], sizes, opset=21, num_groups=2)
    for op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        yield Case(op, ["float[n,t,4]", "float[n,t,4]", scale], sizes, domain="com.microsoft")


def attentions():
    sizes = [{"b": 2, "q": 3, "k": 5, "p": 4}, {"b": 1, "q": 1, "k": 1, "p": 1}]
    packed = ["float[b,q,8]", "float[b,k,8]", "float[b,k,12]"]
    yield Case("Attention", packed, sizes, opset=23, q_num_heads=2, kv_num_heads=2)
    past = [None, "float[b,2,p,4]", "float[b,2,p,6]"]
    yield Case("Attention", packed + past, sizes, outputs=3, opset=23, q_num_heads=2, kv_num_heads=2)
    yield Case("Attention", ["float[b,4,q,4]", "float[b,2,k,4]", "float[b,2,k,6]"], sizes, opset=23)
    ms = {"domain": "com.microsoft"}
    yield Case("MultiHeadAttention", packed, sizes, num_heads=2, **ms)
    yield Case("MultiHeadAttention", ["float[b,q,8]"] * 3 + [None] * 3 + ["float[b,2,p,4]"] * 2, sizes, outputs=3, num_heads=2, **ms)
    yield Case("MultiHeadAttention", ["float[b,q,2,3,4]"], sizes, num_heads=2, **ms)
    yield Case("MultiHeadAttention", ["float[b,q,8]", "float[b,k,2,2,4]"], sizes, num_heads=2, **ms)
    yield Case("MultiHeadAttention", ["float[b,q,8]", "float[b,2,k,4]", "float[b,2,k,4]"], sizes, num_heads=2, **ms)
    cache = ["float[b,2,p,8]"] * 2
    lasts, total = np.array([6], np.int32), np.array(7, np.int32)
    for p in (4, 9):
        one = [{"b": 1, "q": 3, "p": p}]
        yield Case("GroupQueryAttention", ["float[b,q,32]", "float[b,q,16]", "float[b,q,16]", *cache, lasts, total], one, outputs=3,
                   num_heads=4, kv_num_heads=2, **ms)  # fmt: skip
        yield Case("GroupQueryAttention", ["float[b,q,64]", None, None, *cache, lasts, total], one, outputs=3, num_heads=4,
                   kv_num_heads=2, **ms)  # fmt: skip
    weights, bias = np.ones((8, 24), np.float32), np.ones(24, np.float32)
    yield Case("Attention", ["float[b,q,8]", weights, bias], sizes, outputs=2, num_heads=2, **ms)
    yield Case("Attention", ["float[b,q,8]", weights, bias, None, "float[2,b,2,p,4]"], sizes, outputs=2, num_heads=2, **ms)
    words, places, gamma = np.ones((9, 8), np.float32), np.ones((9, 8), np.float32), np.ones(8, np.float32)
    yield Case("EmbedLayerNormalization", ["int32[b,q]", None, words, places, None, gamma, gamma], sizes, outputs=2, **ms)


def signals():
    yield Case("DFT", ["float[b,t,1]"], lengths("t", (3, 4), b=2), opset=17)
    yield Case("DFT", ["float[b,t,1]"], lengths("t", (3, 4), b=2), opset=20, onesided=1)
    yield Case("DFT", ["float[b,t,1]", np.array(6)], lengths("t", (3, 8), b=2), opset=20)
    yield Case("STFT", ["float[b,t,1]", np.array(2), None, np.array(4)], lengths("t", (9, 12), b=2))
    yield Case("STFT", ["float[b,t,1]", np.array(3), np.ones(4, np.float32)], lengths("t", (9, 12), b=2), onesided=0)
    yield Case("MelWeightMatrix", [np.array(8), np.array(16), np.array(8192), np.array(0.0, np.float32), np.array(4000.0, np.float32)], [{}])
    yield Case("HannWindow", [np.array(10)], [{}])
    yield Case("BlackmanWindow", [np.array(10)], [{}], output_datatype=11)


def features():
    ml = {"domain": "ai.onnx.ml"}
    sizes = [{"n": 3}, {"n": 1}]
    yield Case("Scaler", ["int64[n,2]"], sizes, offset=[1.0, 2.0], scale=[1.0, 2.0], **ml)
    yield Case("Normalizer", ["int64[n,2]"], sizes, norm="L2", **ml)
    yield Case("LinearRegressor", ["float[n,2]"], sizes, coefficients=[1.0] * 6, intercepts=[0.0] * 3, targets=3, **ml)
    yield Case("LinearClassifier", ["float[n,2]"], sizes, outputs=2, coefficients=[1.0] * 6, intercepts=[0.0] * 3,
               classlabels_ints=[1, 2, 3], **ml)  # fmt: skip
    yield Case("LinearClassifier", ["float[n,2]"], sizes, outputs=2, coefficients=[1.0] * 2, intercepts=[0.0],
               classlabels_strings=["a", "b"], **ml)  # fmt: skip
    yield Case("OneHotEncoder", ["int64[n,2]"], sizes, cats_int64s=[0, 1, 2], **ml)
    yield Case("ArrayFeatureExtractor", ["float[n,4]", np.array([0, 2])], sizes, **ml)
    yield Case("ArrayFeatureExtractor", ["float[4]", np.array([0, 2])], [{}], **ml)
    yield Case("FeatureVectorizer", ["float[n,2]", "float[n,3]"], sizes, inputdimensions=[2, 3], **ml)
    yield Case("LabelEncoder", ["int64[n,2]"], sizes, keys_int64s=[0, 1], values_floats=[0.5, 1.5], **ml)


def quantized():
    ms = {"domain": "com.microsoft"}
    scale, zero = np.array(0.5, np.float32), np.array(1, np.uint8)
    q = [scale, zero]
    x, w = "uint8[n,3,t]", np.ones((4, 3, 3), np.uint8)
    sizes = [{"n": 2, "t": 7}, {"n": 1, "t": 4}]
    yield Case("QLinearConv", [x, *q, w, *q, *q], sizes, strides=[2])
    yield Case("QLinearConv", ["uint8[n,t,5,3]", *q, np.ones((4, 3, 3, 3), np.uint8), *q, *q], sizes, channels_last=1, **ms)
    yield Case("QLinearMatMul", ["uint8[n,t,3]", *q, np.ones((3, 5), np.uint8), *q, *q], sizes)
    yield Case("QGemm", ["uint8[n,3]", *q, np.ones((3, 5), np.uint8), *q, None, *q], sizes, **ms)
    yield Case("QGemm", ["uint8[n,3]", *q, np.ones((3, 5), np.uint8), *q], sizes, **ms)
    yield Case("QLinearAdd", ["uint8[n,t]", *q, "uint8[n,1]", *q, *q], sizes, **ms)
    yield Case("QLinearMul", ["uint8[t]", *q, "uint8[n,1]", *q, *q], sizes, **ms)
    yield Case("QLinearWhere", ["bool[n,1]", "uint8[t]", *q, "uint8[n,t]", *q, *q], sizes, **ms)
    yield Case("QLinearAveragePool", ["uint8[n,3,t,4]", *q, *q], sizes, kernel_shape=[2, 2], strides=[2, 1], ceil_mode=1, **ms)
    yield Case("QLinearAveragePool", ["uint8[n,t,4,3]", *q, *q], sizes, kernel_shape=[2, 2], channels_last=1, **ms)
    yield Case("QLinearGlobalAveragePool", ["uint8[n,t,4,3]", *q, *q], sizes, channels_last=1, **ms)
    yield Case("NhwcMaxPool", ["uint8[n,t,4,3]"], sizes, kernel_shape=[2, 2], strides=[2, 2], **ms)
    yield Case("DynamicQuantizeMatMul", ["float[n,t,3]", np.ones((3, 5), np.uint8), scale], sizes, **ms)
    yield Case("MatMulIntegerToFloat", ["uint8[n,t,3]", np.ones((3, 5), np.uint8), scale, scale], sizes, **ms)
    weights, bias = np.ones((8, 24), np.uint8), np.ones(24, np.float32)
    yield Case("QAttention", ["uint8[n,t,8]", weights, bias, scale, scale, None, zero, zero, "float[2,n,2,p,4]"],
               [{"n": 2, "t": 3, "p": 4}], outputs=2, num_heads=2, **ms)  # fmt: skip
    w, r, scales, zeros = np.ones((2, 3, 20), np.uint8), np.ones((2, 5, 20), np.uint8), np.ones(2, np.float32), np.ones(2, np.uint8)
    yield Case("DynamicQuantizeLSTM", ["float[t,n,3]", w, r, *[None] * 5, scales, zeros, scales, zeros], sizes, outputs=3, hidden_size=5,
               direction="bidirectional", **ms)  # fmt: skip
    yield Case("CDist", ["float[n,4]", "float[t,4]"], sizes, **ms)
    yield Case("FusedConv", ["float[n,3,t]", np.ones((4, 3, 3), np.float32)], sizes, activation="Relu", **ms)


def picked():
    """What com.microsoft has beside that, as far as the runtime has it on a CPU."""
    ms = {"domain": "com.microsoft"}
    sizes = [{"b": 2, "t": 6}, {"b": 1, "t": 4}]
    one = np.ones(4, np.float32)
    yield Case("BranchwiseRMSNorm", ["float[b,t,2,4]", one], sizes, **ms)
    yield Case("GatedRMSNorm", ["float[b,t,8]", one, "float[b,t,8]"], sizes, **ms)
    yield Case("SampleOp", ["float[b,t]"], sizes, **ms)
    yield Case("MRotaryEmbedding", ["float[b,t,16]", np.zeros((3, 1, 4), np.int64), np.ones((9, 4), np.float32), np.ones((9, 4), np.float32)],
               [{"b": 1, "t": 4}], num_heads=2, mrope_section=[1, 1, 2], **ms)  # fmt: skip
    yield Case("EngramGate", ["float[b,t,2,4]", "float[b,t,2,4]", "float[b,t,4]", *[np.ones((2, 4), np.float32)] * 3], sizes, outputs=2, **ms)
    yield Case("LinearAttentionGate", ["float[b,t,4]", one, one, "float[b,t,4]"], sizes, outputs=2, **ms)
    for branches, x in ((0, "float[b,t,2,4]"), (2, "float[b,t,8]")):
        yield Case("HyperConnectionPreMix", [x, "float[b,t,2]"], sizes, num_branches=branches, **ms)
        yield Case("HyperConnectionPostMix", [x, "float[b,t,4]", "float[b,t,2]"], sizes, num_branches=branches, **ms)
    hashed = ["int64[b,t]", np.array([3, 5, 7]), np.array([11, 13, 17, 19])]
    yield Case("NGramHashMapping", hashed, sizes, outputs=2, max_ngram_size=3, n_head_per_ngram=2, pad_id=0, **ms)
    yield Case("NGramRepeatBlock", ["int64[b,t]", "float[b,9]"], sizes, ngram_size=2, **ms)
    yield Case("MurmurHash3", ["int32[b,t]"], sizes, positive=1, **ms)
    yield Case("MurmurHash3", ["int64[b,t]"], sizes, positive=0, **ms)
    for dim, step in ((-1, 1), (1, 2), (0, 1)):
        yield Case("UnfoldTensor", ["float[b,t,5]"], sizes, dim=dim, size=1, step=step, **ms)
    yield Case("UnfoldTensor", ["float[b,t]"], [*sizes, {"b": 1, "t": 5}], dim=1, size=3, step=2, **ms)
    yield Case("DynamicTimeWarping", ["float[b,t]"], sizes, unknown=True, **ms)
    w = np.ones((3, 2, 3), np.float32)
    for pads in (np.array([1, 0]), np.array([0, 0])):
        given = ["float[b,3,t]", w, pads]
        yield Case("ConvTransposeWithDynamicPads", given, sizes, strides=[2], dilations=[1], kernel_shape=[3], output_padding=[0], **ms)
    yield Case("WordConvEmbedding", ["int32[b,t]", np.ones((4, 1, 2, 3), np.float32), one, np.ones((9, 3), np.float32)], sizes,
               embedding_size=4, conv_window_size=2, char_embedding_size=3, **ms)  # fmt: skip


def differences(case, where, values, sizes, results):
    """Of what is inferred and what comes out, at one size."""
    wrong = []
    for i, result in enumerate(results):
        value = values[f"y{i}"]
        try:
            dims = [None if "?" in str(dim) else evaluate(dim, sizes) for dim in value["dims"]]
        except (TypeError, NameError, AssertionError) as failed:
            wrong.append(f"{where} {sizes}: {value}: {failed}")
            continue
        if len(dims) != result.ndim or any(d is not None and d != real for d, real in zip(dims, result.shape)):
            wrong.append(f"{where} {sizes} y{i}: {value['dims']} is {result.shape}")
        if (None in dims) != case.unknown:
            wrong.append(f"{where} y{i}: {value['dims']} is {'' if case.unknown else 'not '}known")
        if result.dtype != object and value["dtype"] != {"float32": "float", "float64": "double"}.get(str(result.dtype), str(result.dtype)):
            wrong.append(f"{where} y{i}: {value['dtype']} is {result.dtype}")
    return wrong


FAMILIES = (windows, reductions, products, resizes, recurrences, norms, attentions, signals, features, quantized, picked)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_what_comes_out(tmp_path, family):
    cases, paths = list(family()), []
    for i, case in enumerate(cases):
        paths.append(tmp_path / f"{i}.onnx")
        onnx.save(case.model(), paths[-1])
    done = subprocess.run([TOOL, *paths], capture_output=True, text=True, check=True)
    wrong, ran = [], 0
    for case, path, line in zip(cases, paths, done.stdout.splitlines()):
        said = json.loads(line)
        values = {value["name"]: value for value in said["values"]}
        where = f"{case.name} {case.inputs!r:.80}"
        wrong += [f"{where}: {said['said']}"] if said["said"] else []
        try:
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        except Exception as refused:
            wrong.append(f"{where}: no session: {refused}")
            continue
        for sizes in case.sizes:
            try:
                results = session.run(None, dict(case.feeds(sizes)))
            except Exception:
                continue  # such sizes do not run
            ran += 1
            wrong += differences(case, where, values, sizes, results)
    assert not wrong, "\n".join(wrong)
    assert ran >= len(cases) - 2


# ---- what only the newest runtime has ----------------------------------------------------------------------------------


NEWEST = list(runtimes.ONNXRUNTIME.values())[-1]


def in_newest(program, *words):
    """Runs a file of tests/support by the Python of an environment with the newest ONNX Runtime."""
    try:
        python = runtimes.python_of("onnxruntime", NEWEST)
    except runtimes.Missing as why:
        pytest.skip(str(why))
    done = subprocess.run([python, SUPPORT / program, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def newest():
    """What it has kernels for since then, or for more."""
    ms = {"domain": "com.microsoft"}
    sizes = [{"b": 2, "t": 6}, {"b": 1, "t": 4}]
    table, index = np.ones((9, 68), np.uint8), "int64[b,t]"
    for dtype in (1, 10):
        yield Case("GatherPacked", [table, index], sizes, packed_type=8, K=64, output_dtype=dtype, **ms)
        yield Case("GatherPacked", [table, "int32[]"], [{}], packed_type=8, K=64, output_dtype=dtype, **ms)
    bias = np.ones(8, np.float32)
    yield Case("MoEGroupRouter", ["float[b,t,8]", bias], sizes, top_k=2, **ms)
    yield Case("MoEGroupRouter", ["float[t,8]", bias], sizes, top_k=2, n_group=2, **ms)
    sums, heads = np.array([0, 2, 4], np.int32), ["float[4,2,5]", "float[4,2,5]", "float[4,4,6]"]
    gates, state = ["float[4,4]", "float[4,4]"], "float[2,4,6,5]"
    count = np.array([1, 2], np.int32)
    yield Case("GatedDeltaNet", [*heads, sums, *gates], [{}], outputs=2, **ms)
    yield Case("GatedDeltaNet", ["float[t,2,5]", "float[t,2,5]", "float[t,4,6]", None, "float[t,4]", "float[t,4]", state], [{"t": 4}, {"t": 8}], outputs=2, **ms)
    yield Case("GatedDeltaNet", [*heads, sums, *gates, state, None, None, count], [{}], outputs=3, state_update_capacity=3, **ms)
    yield Case("GatedDeltaNet", [*heads, sums, "float[4,4,5]", gates[1], state, None, None, count], [{}], outputs=3, state_update_capacity=3, **ms)
    yield Case("GatedDeltaNet", ["float[t,44]", None, None, None, "float[t,4]", "float[t,4]", state], [{"t": 4}, {"t": 8}], outputs=2, **ms)
    yield Case("GatedDeltaNet", ["float[4,44]", None, None, None, *gates, state, None, None, count], [{}], outputs=3, state_update_capacity=2, **ms)
    split = ["float[b,t,2,5]", "float[b,t,2,5]", "float[b,t,4,6]", None, "float[b,t,4]", "float[b,t,4]", "float[b,4,6,5]"]
    yield Case("GatedDeltaNet", split, sizes, outputs=2, **ms)
    yield Case("VarlenCausalConvWithState", ["float[4,8]", "float[8,1,3]", sums, None, "float[2,8,4]"], [{}], outputs=2, dilation=2, **ms)
    yield Case("VarlenCausalConvWithState", ["float[4,8]", "float[8,1,3]", sums, None, "float[2,8,2]", count], [{}], outputs=3,
               state_update_capacity=3, **ms)  # fmt: skip
    yield Case("CausalConvWithState", ["float[b,8,t]", np.ones((8, 1, 3), np.float32)], sizes, outputs=2, dilation=2, **ms)
    yield Case("CausalConvWithState", ["float[b,t,8]", np.ones((8, 1, 3), np.float32)], sizes, outputs=2, channels_last=1, **ms)
    yield Case("CausalConvWithState", ["float[b,t,4,2]", np.ones((8, 1, 3), np.float32)], sizes, outputs=2, channels_last=1, **ms)
    grouped = ["float[1,3,32]", *["float[1,3,16]"] * 2, *["float[1,2,p,8]"] * 2, np.array([6], np.int32), np.array(7, np.int32)]
    yield Case("GroupQueryAttention", [*grouped, *[None] * 9, np.array([3], np.int32)], lengths("p", (4, 9)), outputs=3, num_heads=4,
               kv_num_heads=2, q_norm_epsilon=1e-5, **ms)  # fmt: skip


def newest_opsets():
    """New versions of 27 and 28 for which it has a kernel, or runs a body."""
    sizes = [{"a": 2, "b": 3}, {"a": 1, "b": 1}]
    number = lambda x: np.array(x, np.float32)  # noqa: E731
    yield Case("Range", [number(1), number(8), number(2)], [{}], opset=27)
    yield Case("CausalConvWithState", ["float[a,8,b]", np.ones((8, 1, 3), np.float32)], sizes, outputs=2, opset=27)
    yield Case("CausalConvWithState", ["float[a,8,b]", np.ones((8, 1, 3), np.float32), None, "float[a,8,2]"], sizes, outputs=2, opset=27)
    yield Case("BitShift", ["uint8[a,b]", "uint8[b]"], sizes, opset=28, direction="LEFT")
    yield Case("Cast", ["float[a,b]"], sizes, opset=28, to=TensorProto.INT64)
    yield Case("CastLike", ["float[a,b]", "int64[1]"], sizes, opset=28)
    yield Case("Celu", ["float[a,b]"], sizes, opset=28)
    yield Case("Compress", ["float[a,b]", np.array([True])], sizes, opset=28, axis=0)
    yield Case("DepthToSpace", ["float[a,8,b,3]"], sizes, opset=28, blocksize=2)
    yield Case("SpaceToDepth", ["float[a,2,4,6]"], sizes, opset=28, blocksize=2)
    yield Case("Einsum", ["float[a,b]", "float[b,4]"], sizes, opset=28, equation="ij,jk->ki")
    yield Case("Mod", ["float[a,b]", "float[b]"], sizes, opset=28, fmod=1)
    yield Case("OneHot", ["int64[a,b]", np.array(4), np.array([0, 1], np.float32)], sizes, opset=28)
    yield Case("ReverseSequence", ["float[b,a,4]", "int64[a]"], [{"a": 2, "b": 3}], opset=28)
    yield Case("Unique", ["float[a,b]"], sizes, outputs=2, opset=28, unknown=True)
    for op in ("ReduceLogSum", "ReduceLogSumExp"):
        yield Case(op, ["float[a,b,4]", np.array([1, -1])], sizes, opset=28, keepdims=0)
        yield Case(op, ["float[a,b,4]"], sizes, opset=28)
    yield Case("Attention", ["float[a,b,8]", "float[a,5,8]", "float[a,5,12]"], sizes, opset=25, q_num_heads=2, kv_num_heads=2)


@pytest.mark.parametrize("family", (newest, newest_opsets), ids=lambda family: family.__name__)
def test_what_comes_out_of_the_newest_runtime(tmp_path, family):
    cases, paths, jobs = list(family()), [], {}
    for i, case in enumerate(cases):
        paths.append(tmp_path / f"{i}.onnx")
        onnx.save(case.model(), paths[-1])
        for k, sizes in enumerate(case.sizes):
            jobs[f"{i}/{k}"] = paths[-1], tmp_path / f"{i}-{k}.npz", tmp_path / f"{i}-{k}-out.npz"
            np.savez(jobs[f"{i}/{k}"][1], **dict(case.feeds(sizes)))
    try:
        failed = runtimes.run("onnxruntime", NEWEST, jobs, tmp_path)
    except runtimes.Missing as why:
        pytest.skip(str(why))
    assert set(failed.values()) == {None}, failed
    wrong = []
    for i, (case, values) in enumerate(zip(cases, inferred_by_weir(paths))):
        for k, sizes in enumerate(case.sizes):
            wrong += differences(case, f"{case.name} {case.inputs!r:.80}", values, sizes, list(np.load(jobs[f"{i}/{k}"][2]).values()))
    assert not wrong, "\n".join(wrong)


def inferred_by_weir(paths):
    done = subprocess.run([TOOL, *paths], capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["said"] for row in rows] == [[]] * len(paths), rows
    return [{value["name"]: value for value in row["values"]} for row in rows]


def inferred_by_runtime(folder, nodes, dtypes):
    """[{"dims": …, "error": …}]: outputs are declared to be of these dtypes."""
    paths = []
    for i, (node, of) in enumerate(zip(nodes, dtypes)):
        paths.append(str(folder / f"declared{i}.onnx"))
        wrong_dims = [microsoft_nodes.tensor(name, f"{dtype}[{','.join(['97'] * 7)}]") for name, dtype in of.items()]
        onnx.save(node.model(wrong_dims), paths[-1])
    (folder / "models.json").write_text(json.dumps(paths))
    in_newest("runtime_inference.py", folder / "models.json", folder / "results.json")
    results = json.loads((folder / "results.json").read_text())
    return [results[path] for path in paths]


@pytest.mark.parametrize("nodes", (microsoft_nodes.NEW, microsoft_nodes.CHANGED), ids=("new", "changed"))
def test_what_the_newest_runtime_infers(tmp_path, nodes):
    """Of operators without a kernel too. A dim that the runtime does not know may be any."""
    paths = []
    for i, node in enumerate(nodes):
        paths.append(tmp_path / f"{i}.onnx")
        onnx.save(node.model(), paths[-1])
    ours = [{name: value for name, value in values.items() if name[0] == "y"} for values in inferred_by_weir(paths)]
    theirs = inferred_by_runtime(tmp_path, nodes, [{name: value["dtype"] for name, value in values.items()} for values in ours])
    compared = 0
    for node, we, they in zip(nodes, ours, theirs):
        assert not they["error"], (node, we, they)
        assert set(we) == {name for name in node.names("y", node.outputs) if name} and len(they["dims"]) >= 1, node
        assert [we[f"y{i}"]["dtype"] for i, dtype in enumerate(node.outputs.split()) if dtype != "-"] == node.outputs.replace("- ", "").split(), node
        for name, dims in they["dims"].items():
            assert len(dims) == len(we[name]["dims"]), (node, name, we, they)
            assert all(b in (-1, a) for a, b in zip(we[name]["dims"], dims)), (node, name, we, they)
            compared += 1
    assert compared >= 1.5 * len(nodes)


def test_a_type_that_the_newest_runtime_does_not_infer_is_seen(tmp_path):
    """The control: an output that is declared to be of another type."""
    node = next(node for node in microsoft_nodes.NEW if node.op == "GatherPacked")
    [right, wrong] = inferred_by_runtime(tmp_path, [node, node], [{"y0": "bfloat16"}, {"y0": "float"}])
    assert right["dims"] == {"y0": [-1, -1, 64]} and not right["error"] and wrong["error"]
