"""Models of one node, of an operator as each opset has it: what weir says of kernels is held against runtimes by them."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

I64 = TensorProto.INT64


def floats(*dims):
    return np.linspace(0.1, 0.9, int(np.prod(dims, dtype=int)), dtype=np.float32).reshape(dims)


def ints(*list):
    return np.array(list, np.int64)


def unary(op, shape=(2, 3), **attributes):
    return lambda opset: (op, [floats(*shape)], {}, attributes)


def binary(op, dtype=np.float32):
    return lambda opset: (op, [floats(2, 3).astype(dtype), floats(2, 3).astype(dtype)], {}, {})


def reduce(op):
    """Axes became an input, of ReduceSum with opset 13, of others with 18."""

    def of(opset):
        as_input = opset >= (13 if op == "ReduceSum" else 18)
        return (op, [floats(2, 3)], {1: ints(1)} if as_input else {}, {} if as_input else {"axes": [1]})

    return of


def axes(op, shape):
    return lambda opset: (op, [floats(*shape)], {1: ints(0)} if opset >= 13 else {}, {} if opset >= 13 else {"axes": [0]})


def quantized(opset):
    return ("QuantizeLinear", [floats(2, 3)], {1: np.float32(0.1), 2: np.uint8(3)}, {})


def dequantized(opset):
    return ("DequantizeLinear", [np.ones((2, 3), np.uint8)], {1: np.float32(0.1), 2: np.uint8(3)}, {})


def clip(opset):
    return ("Clip", [floats(2, 3)], {1: np.float32(0), 2: np.float32(1)} if opset >= 11 else {}, {} if opset >= 11 else {"min": 0.0, "max": 1.0})


def pad(opset):
    return ("Pad", [floats(2, 3)], {1: ints(0, 1, 0, 1)} if opset >= 11 else {}, {} if opset >= 11 else {"pads": [0, 1, 0, 1]})


def sliced(opset):
    return ("Slice", [floats(4, 3)], {1: ints(1), 2: ints(3)} if opset >= 10 else {}, {} if opset >= 10 else {"starts": [1], "ends": [3]})


def split(opset):
    return ("Split", [floats(4, 3)], {1: ints(1, 3)} if opset >= 13 else {}, {} if opset >= 13 else {"split": [1, 3]})


def top_k(opset):
    return ("TopK", [floats(2, 3)], {1: ints(2)} if opset >= 10 else {}, {} if opset >= 10 else {"k": 2})


UNARY = "Abs Neg Relu Sigmoid Tanh Exp Log Sqrt Ceil Floor Erf Sign Round Elu Selu Softplus Softsign LeakyRelu HardSigmoid Celu Gelu Mish HardSwish Identity Softmax LogSoftmax Hardmax Reciprocal Sin Cosh ThresholdedRelu Swish Size Shape NonZero IsNaN"
BINARY = "Add Sub Mul Div Pow Min Max MatMul Greater Less Mean"
REDUCE = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare"
OPERATORS = {
    **{op: unary(op, (3, 3) if op == "MatMul" else (2, 3)) for op in UNARY.split()},
    **{op: binary(op) for op in BINARY.split() if op != "MatMul"},
    **{op: reduce(op) for op in REDUCE.split()},
    "MatMul": lambda opset: ("MatMul", [floats(2, 3), floats(3, 2)], {}, {}),
    "Gemm": lambda opset: ("Gemm", [floats(2, 3), floats(3, 2), floats(2)], {}, {}),
    "Conv": lambda opset: ("Conv", [floats(1, 2, 5, 5), floats(3, 2, 3, 3)], {}, {}),
    "MaxPool": unary("MaxPool", (1, 2, 5, 5), kernel_shape=[2, 2]),
    "AveragePool": unary("AveragePool", (1, 2, 5, 5), kernel_shape=[2, 2]),
    "LpPool": unary("LpPool", (1, 2, 5, 5), kernel_shape=[2, 2]),
    "GlobalLpPool": unary("GlobalLpPool", (1, 2, 5, 5)),
    "GlobalAveragePool": unary("GlobalAveragePool", (1, 2, 5, 5)),
    "InstanceNormalization": lambda opset: ("InstanceNormalization", [floats(1, 2, 5), floats(2), floats(2)], {}, {}),
    "LayerNormalization": lambda opset: ("LayerNormalization", [floats(2, 3), floats(3)], {}, {}),
    "RMSNormalization": lambda opset: ("RMSNormalization", [floats(2, 3), floats(3)], {}, {}),
    "Attention": lambda opset: ("Attention", [floats(1, 2, 4, 8)] * 3, {}, {}),
    "Transpose": unary("Transpose"),
    "Flatten": unary("Flatten"),
    "Reshape": lambda opset: ("Reshape", [floats(2, 3)], {1: ints(3, 2)}, {}),
    "Expand": lambda opset: ("Expand", [floats(1, 3)], {1: ints(2, 3)}, {}),
    "Squeeze": axes("Squeeze", (1, 3)),
    "Unsqueeze": axes("Unsqueeze", (3,)),
    "Concat": lambda opset: ("Concat", [floats(2, 3), floats(2, 3)], {}, {"axis": 0}),
    "Split": split,
    "Slice": sliced,
    "Gather": lambda opset: ("Gather", [floats(4, 3)], {1: ints(1, 2)}, {}),
    "Cast": unary("Cast", to=I64),
    "Pad": pad,
    "Clip": clip,
    "Where": lambda opset: ("Where", [np.ones((2, 3), bool), floats(2, 3), floats(2, 3)], {}, {}),
    "Equal": lambda opset: ("Equal", [ints(1, 2), ints(1, 3)], {}, {}),
    "And": lambda opset: ("And", [np.ones(2, bool), np.ones(2, bool)], {}, {}),
    "TopK": top_k,
    "ArgMax": unary("ArgMax"),
    "CumSum": lambda opset: ("CumSum", [floats(2, 3)], {1: np.int64(1)}, {}),
    "QuantizeLinear": quantized,
    "DequantizeLinear": dequantized,
    "DynamicQuantizeLinear": unary("DynamicQuantizeLinear"),
    "Range": lambda opset: ("Range", [np.float32(0), np.float32(3), np.float32(1)], {}, {}),
    "OneHot": lambda opset: ("OneHot", [ints(0, 1)], {1: ints(3), 2: floats(2)}, {}),
    "DepthToSpace": unary("DepthToSpace", (1, 4, 2, 2), blocksize=2),
    "SpaceToDepth": unary("SpaceToDepth", (1, 1, 2, 2), blocksize=2),
    "Compress": lambda opset: ("Compress", [floats(4)], {1: np.array([1, 0, 1, 1], bool)}, {}),
    "Einsum": unary("Einsum", equation="ij->ji"),
    "Unique": unary("Unique"),
    "ReverseSequence": lambda opset: ("ReverseSequence", [floats(3, 2)], {1: ints(1, 3)}, {}),
    "BitShift": lambda opset: ("BitShift", [np.ones(3, np.uint8), np.ones(3, np.uint8)], {}, {"direction": "LEFT"}),
    "Mod": lambda opset: ("Mod", [ints(5, 7), ints(3, 4)], {}, {}),
    "BitwiseAnd": lambda opset: ("BitwiseAnd", [ints(5, 7), ints(3, 4)], {}, {}),
    "Trilu": unary("Trilu", (3, 3)),
    "GridSample": lambda opset: ("GridSample", [floats(1, 1, 3, 3), floats(1, 2, 2, 2)], {}, {}),
    "CastLike": lambda opset: ("CastLike", [floats(2, 3), ints(1)], {}, {}),
    "Optional": unary("Optional"),
    "BitCast": unary("BitCast", to=TensorProto.INT32),
    "CumProd": lambda opset: ("CumProd", [floats(2, 3)], {1: np.int64(1)}, {}),
    "TensorScatter": lambda opset: ("TensorScatter", [floats(1, 4, 2), floats(1, 2, 2)], {}, {"axis": 1}),
    "SwiGLU": lambda opset: ("SwiGLU", [floats(2, 4), floats(2, 4)], {}, {}),
    "LinearAttention": lambda opset: ("LinearAttention", [floats(1, 2, 8)] * 3, {}, {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}),
    "CausalConvWithState": lambda opset: ("CausalConvWithState", [floats(1, 3, 5), floats(3, 1, 2)], {}, {}),
}


def model(op, opset, ir):
    op_type, inputs, constants, attributes = OPERATORS[op](opset)
    schema = onnx.defs.get_schema(op_type, opset, "")
    names = [f"x{i}" for i in range(len(inputs))]
    declared = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), np.shape(x)) for name, x in zip(names, inputs)]
    tensors = [numpy_helper.from_array(np.asarray(x), f"c{i}") for i, x in constants.items()]
    n_outputs = 2 if op == "Split" else max(1, schema.min_output)
    node = helper.make_node(op_type, names + [f"c{i}" for i in constants], [f"y{i}" for i in range(n_outputs)], name="n", **attributes)
    outputs = [onnx.ValueInfoProto(name=f"y{i}") for i in range(n_outputs)]
    made = helper.make_model(helper.make_graph([node], "g", declared, outputs, tensors), opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    return made.SerializeToString()


def exists(op, opset):
    """Has that opset the operator?"""
    try:
        schema = onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError:
        return False
    return not schema.deprecated
