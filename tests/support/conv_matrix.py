#!/usr/bin/env python3
"""Small models around pointwise Convs: every way to write one, and what conv2matmul should say to each.

Two sources of cases:

  matrix()    spatial rank × dtype × stride × padding × opset in full; where weight and bias come from, whether shapes
              are known, how a payload is encoded, and the channel counts go round beside them. About 570 cases.
  special()   one case a situation: subgraphs, functions, sharing, chains, names, and Convs that must stay.

A case has one Site per Conv, in the order of the file (a node before what follows it, a body where its node stands,
functions last). A site says what should become of the Conv when everything is allowed, and which permissions that
needs; `case.expected(extended, dilation)` gives the words of the report.

`reference(case.model, feeds)` is the oracle: ONNX Runtime for float32 and float16, ONNX's own evaluator for double and
bfloat16, for which ONNX Runtime's CPU has no Conv. `tolerance` scales with the dtype's epsilon and the square root of
the number of products summed.

Run as a program, it checks itself: every model passes onnx.checker, every oracle agrees with Conv written in numpy.
"""

import itertools
import sys
from dataclasses import dataclass, field
from typing import Callable

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DTYPES = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "double": np.dtype(np.float64),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
OPSETS = {"float32": (7, 9, 11, 13, 18, 22), "float16": (7, 9, 11, 13, 18, 22), "double": (7, 9, 11, 13, 18, 22)}
OPSETS["bfloat16"] = (22,)
STRIDES = ("unit", "strided")
PADDINGS = ("none", "pads", "VALID", "SAME_UPPER", "SAME_LOWER")
WEIGHTS = ("initializer", "constant", "identity", "typed", "identity_constant")
BIASES = ("none", "initializer", "identity", "constant")
CHANNELS = ((6, 5), (17, 12), (1, 7), (33, 1), (64, 48))  # (in, out)

SPATIAL = {1: (11,), 2: (7, 9), 3: (4, 5, 6)}
STEPS = {1: (3,), 2: (2, 3), 3: (2, 1, 3)}
PADS = {1: (1, 2), 2: (1, 0, 2, 1), 3: (0, 1, 2, 1, 0, 1)}

STRICT = "strict_mode_requires_unit_stride_and_zero_pad"
DILATED = "non_unit_dilation_requires_opt_in"


@dataclass
class Site:
    """One Conv. `reason` None: it converts, if what it needs is allowed."""

    reason: str | None = None
    extended: bool = False  # has strides or padding
    dilated: bool = False

    def expected(self, extended, dilation):
        """What the report says: a reason word, or `converted` for any converted_… word."""
        if self.reason:
            return self.reason
        if self.extended and not extended:
            return STRICT
        return DILATED if self.dilated and not dilation else "converted"


@dataclass
class Case:
    name: str
    model: onnx.ModelProto
    sites: list
    feeds: Callable = field(repr=False)  # seed -> list of dicts, one per run
    dtype: np.dtype = DTYPES["float32"]
    channels: int = 6  # products summed, for the tolerance
    runnable: bool = True  # False: legal by the checker, refused by runtimes

    def expected(self, extended=True, dilation=True):
        return [site.expected(extended, dilation) for site in self.sites]


# ---- oracle


def input_dtype(model):
    return helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)


def reference(model, feeds):
    """The outputs of a model (a ModelProto or a path) on one feed."""
    if not isinstance(model, onnx.ModelProto):
        model = onnx.load(model)
    if input_dtype(model) in (DTYPES["double"], DTYPES["bfloat16"]):
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(model).run(None, feeds)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def tolerance(dtype, channels, largest=1.0):
    """How far two sums of `channels` products may lie apart: 4 ε √C × max(1, largest value)."""
    return 4 * float(ml_dtypes.finfo(dtype).eps) * channels**0.5 * max(1.0, largest)


def differences(case, changed, seed=0):
    """Run a changed model (ModelProto or path) beside the case's; gives a list of complaints, empty if all is well."""
    complaints = []
    for feeds in case.feeds(seed):
        for place, (want, got) in enumerate(zip(reference(case.model, feeds), reference(changed, feeds), strict=True)):
            if want.shape != got.shape or want.dtype != got.dtype:
                complaints.append(f"output {place}: {want.dtype}{want.shape} became {got.dtype}{got.shape}")
            elif want.size:
                want, got = want.astype(np.float64), got.astype(np.float64)
                worst, bound = (np.abs(want - got).max(), tolerance(case.dtype, case.channels, np.abs(want).max()))
                if not worst <= bound:
                    complaints.append(f"output {place}: off by {worst:.3g}, {bound:.3g} allowed")
    return complaints


# ---- building blocks


def noise(seed, dims, dtype):
    return (np.random.RandomState(seed).standard_normal(dims) / 2).astype(dtype)


def proto(name, values, typed=False):
    """TensorProto with raw_data, or with the field that belongs to its dtype."""
    if not typed:
        return numpy_helper.from_array(values, name)
    data_type = helper.np_dtype_to_tensor_dtype(values.dtype)
    flat = values.ravel()
    if values.dtype.itemsize == 2:  # 16-bit floats lie in int32_data as bits
        out = TensorProto(name=name, data_type=data_type, dims=values.shape)
        out.int32_data.extend(int(bits) for bits in flat.view(np.uint16))
        return out
    return helper.make_tensor(name, data_type, values.shape, flat)


class Model:
    """A graph in the making. `x` is the first input; `tensor` offers a constant in any of its guises."""

    def __init__(self, dtype=DTYPES["float32"], opset=17):
        self.dtype = np.dtype(dtype)
        self.elem = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.opset = opset
        self.nodes, self.initializers, self.inputs, self.outputs, self.values = [], [], [], [], []
        self.functions, self.domains = [], {}
        self.seed = 0

    def input(self, name, dims, elem=None):
        self.inputs.append(helper.make_tensor_value_info(name, elem or self.elem, dims))
        return name

    def output(self, name, dims, elem=None):
        self.outputs.append(helper.make_tensor_value_info(name, elem or self.elem, dims))

    def node(self, op_type, inputs, outputs, name=None, **attributes):
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=name or f"/{outputs[0]}", **attributes))
        return outputs[0]

    def draw(self, dims):
        self.seed += 1
        return noise(1000 + self.seed, dims, self.dtype)

    def tensor(self, name, dims, guise="initializer"):
        """A constant called `name` at its user, made as WEIGHTS and BIASES say."""
        values = self.draw(dims)
        inner = name if guise in ("initializer", "typed", "constant") else name + "_origin"
        if "constant" in guise:
            self.node("Constant", [], [inner], value=proto(inner, values))
        else:
            self.initializers.append(proto(inner, values, guise == "typed"))
        if inner != name:
            self.node("Identity", [inner], [name])
        return name

    def conv(
        self, x, y, channels, rank=1, *, kernel=1, group=1, weight="initializer", bias="initializer", **attributes
    ):
        """A Conv x → y with constants of its own, named y.weight and y.bias."""
        c_in, c_out = channels
        inputs = [x, self.tensor(f"{y}.weight", (c_out, c_in // group) + (kernel,) * rank, weight)]
        if bias != "none":
            inputs.append(self.tensor(f"{y}.bias", (c_out,), bias))
        if group != 1:
            attributes["group"] = group
        return self.node("Conv", inputs, [y], f"/{y}/Conv", **attributes)

    def graph(self, name="main_graph"):
        return helper.make_graph(
            self.nodes, name, self.inputs, self.outputs, initializer=self.initializers, value_info=self.values
        )

    def build(self, ir_version=None):
        domains = {"": self.opset, **self.domains}
        ir_version = ir_version or (4 if self.opset < 11 else 7 if self.opset < 15 else 8 if self.opset < 21 else 10)
        return helper.make_model(
            self.graph(),
            ir_version=ir_version,
            opset_imports=[helper.make_opsetid(*pair) for pair in domains.items()],
            functions=self.functions,
            producer_name="conv_matrix",
        )


def drawn(dtype, *runs):
    """A feed generator: every run is a dict from input names to dims."""
    return lambda seed: [
        {name: noise(seed + place, dims, dtype) for place, (name, dims) in enumerate(run.items())} for run in runs
    ]


def one_feed(dtype, dims):
    return drawn(dtype, {"x": dims})


def output_size(size, stride, pads):
    return (size + pads - 1) // stride + 1


# ---- the matrix


def matrix_case(rank, dtype_name, stride, padding, opset, weight, bias, static, channels):
    dtype = DTYPES[dtype_name]
    c_in, c_out = channels
    spatial, strides = SPATIAL[rank], STEPS[rank] if stride == "strided" else (1,) * rank
    pads = PADS[rank] if padding == "pads" else (0,) * 2 * rank
    attributes = {}
    if static:
        attributes["kernel_shape"] = [1] * rank
    if stride == "strided":
        attributes["strides"] = list(strides)
    if padding == "pads":
        attributes["pads"] = list(pads)
    elif padding != "none":
        attributes["auto_pad"] = padding
    m = Model(dtype, opset)
    m.input("x", [2, c_in, *spatial] if static else ["batch", c_in, *(f"s{axis}" for axis in range(rank))])
    m.conv("x", "y", channels, rank, weight=weight, bias=bias, **attributes)
    out = [output_size(n, s, a + b) for n, s, a, b in zip(spatial, strides, pads[:rank], pads[rank:])]
    m.output("y", [2, c_out, *out] if static else ["batch", c_out, *[None] * rank])
    sizes = [(2, c_in, *spatial)] if static else [(2, c_in, *spatial), (1, c_in, *(n + 3 for n in spatial))]
    shapes = "static" if static else "dynamic"
    name = f"{rank}d-{dtype_name}-{stride}-{padding}-opset{opset}-w_{weight}-b_{bias}-{shapes}-{c_in}to{c_out}"
    return Case(
        name=name,
        model=m.build(),
        sites=[Site(extended=stride == "strided" or padding == "pads")],
        feeds=drawn(dtype, *({"x": dims} for dims in sizes)),
        dtype=dtype,
        channels=c_in,
    )


def matrix():
    """Yield the cases of the matrix. The lists that go round have lengths prime to each other: all pairs occur."""
    rounds = zip(
        itertools.cycle(WEIGHTS),
        itertools.cycle(BIASES * 3 + BIASES[:1]),
        itertools.cycle((True, False, False, True, False, True, True)),
        itertools.cycle(CHANNELS * 2 + CHANNELS[:1]),
    )
    for rank, dtype_name, stride, padding in itertools.product(SPATIAL, DTYPES, STRIDES, PADDINGS):
        for opset in OPSETS[dtype_name]:
            yield matrix_case(rank, dtype_name, stride, padding, opset, *next(rounds))


# ---- special situations; each function gives a Case named after it


def two_convs(m, first, second, dims, channels=6):
    return Case("", m.build(), [first, second], one_feed(m.dtype, dims), m.dtype, channels)


def shared_weight():
    m = Model()
    m.input("x", [2, 6, "t"])
    m.tensor("w", (6, 6, 1))
    for y, x in (("a", "x"), ("b", "a")):
        m.node("Conv", [x, "w", m.tensor(f"{y}.bias", (6,))], [y])
    m.output("b", [2, 6, "t"])
    return two_convs(m, Site(), Site(), (2, 6, 11))


def shared_weight_with_identity():
    """Both see the same initializer, one of them through an Identity; biases likewise, as merging exporters write it."""
    m = Model()
    m.input("x", [2, 6, "t"])
    m.tensor("w", (6, 6, 1))
    m.tensor("bias", (6,))
    m.node("Identity", ["w"], ["w_again"])
    m.node("Identity", ["bias"], ["bias_again"])
    m.node("Conv", ["x", "w", "bias"], ["a"])
    m.node("Conv", ["a", "w_again", "bias_again"], ["b"])
    m.output("b", [2, 6, "t"])
    return two_convs(m, Site(), Site(), (2, 6, 11))


def weight_used_elsewhere():
    m = Model()
    m.input("x", [2, 6, "t"])
    m.conv("x", "y", (6, 5))
    m.node("Flatten", ["y.weight"], ["flat"], axis=1)
    m.node("Exp", ["y.bias"], ["grown"])
    m.output("y", [2, 5, "t"])
    m.output("flat", [5, 6])
    m.output("grown", [5])
    return Case("", m.build(), [Site()], one_feed(m.dtype, (2, 6, 11)))


def weight_used_by_other_conv():
    """The weight of a pointwise Conv is also the weight of a grouped one, which stays."""
    m = Model()
    m.input("x", [1, 6, "t"])
    m.conv("x", "y", (6, 6))
    m.node("Concat", ["y", "y"], ["wide"], axis=1)
    m.node("Conv", ["wide", "y.weight"], ["z"], group=2)
    m.output("z", [1, 6, "t"])
    return two_convs(m, Site(), Site("group_not_1"), (1, 6, 11))


def weight_is_graph_output():
    m = Model()
    m.input("x", [2, 6, "t"])
    m.conv("x", "y", (6, 5))
    m.output("y", [2, 5, "t"])
    m.output("y.weight", [5, 6, 1])
    return Case("", m.build(), [Site()], one_feed(m.dtype, (2, 6, 11)))


def consecutive_1d():
    m = Model()
    m.input("x", [2, 6, "t"])
    m.conv("x", "a", (6, 17))
    m.conv("a", "b", (17, 5))
    m.output("b", [2, 5, "t"])
    return two_convs(m, Site(), Site(), (2, 6, 11), 17)


def consecutive_2d_static():
    m = Model()
    m.input("x", [2, 6, 7, 9])
    m.conv("x", "a", (6, 17), 2)
    m.conv("a", "b", (17, 5), 2, bias="none")
    m.output("b", [2, 5, 7, 9])
    return two_convs(m, Site(), Site(), (2, 6, 7, 9), 17)


def consecutive_3d_strided():
    """The padding and striding of the second Conv stand between the two."""
    m = Model()
    m.input("x", ["batch", 6, "d", "h", "w"])
    m.conv("x", "a", (6, 17), 3)
    m.conv("a", "b", (17, 5), 3, strides=[2, 1, 2], pads=[1, 0, 0, 0, 1, 1])
    m.output("b", ["batch", 5, None, None, None])
    return two_convs(m, Site(), Site(extended=True), (2, 6, 4, 5, 6), 17)


def consecutive_with_activation():
    m = Model()
    m.input("x", [2, 6, "t"])
    m.conv("x", "a", (6, 17))
    m.node("Relu", ["a"], ["r"])
    m.conv("r", "b", (17, 5))
    m.output("b", [2, 5, "t"])
    return two_convs(m, Site(), Site(), (2, 6, 11), 17)


def consecutive_middle_seen():
    """The value between the two is also an output of the graph, so its layout must come back."""
    m = Model()
    m.input("x", [2, 6, "t"])
    m.conv("x", "a", (6, 17))
    m.conv("a", "b", (17, 5))
    m.output("b", [2, 5, "t"])
    m.output("a", [2, 17, "t"])
    return two_convs(m, Site(), Site(), (2, 6, 11), 17)


def fork():
    """One value feeds two pointwise Convs, whose outputs are added."""
    m = Model()
    m.input("x", [2, 6, "h", "w"])
    m.conv("x", "a", (6, 5), 2)
    m.conv("x", "b", (6, 5), 2, bias="none")
    m.node("Add", ["a", "b"], ["y"])
    m.output("y", [2, 5, "h", "w"])
    return two_convs(m, Site(), Site(), (2, 6, 7, 9))


def encoder_like():
    """Pointwise, gate, depthwise, pointwise between Transposes: the convolution module of a Conformer."""
    m = Model()
    m.input("x", [1, "t", 6])
    m.node("Transpose", ["x"], ["xt"], perm=[0, 2, 1])
    m.conv("xt", "a", (6, 12))
    m.node("Split", ["a"], ["kept", "gate"], axis=1)
    m.node("Sigmoid", ["gate"], ["open"])
    m.node("Mul", ["kept", "open"], ["g"])
    m.conv("g", "d", (6, 6), kernel=3, group=6, pads=[1, 1])
    m.conv("d", "p", (6, 6))
    m.node("Transpose", ["p"], ["y"], perm=[0, 2, 1])
    m.output("y", [1, "t", 6])
    return Case("", m.build(), [Site(), Site("kernel_not_1x1"), Site()], one_feed(m.dtype, (1, 11, 6)))


def group_not_1():
    m = Model()
    m.input("x", [2, 6, "t"])
    m.conv("x", "y", (6, 4), group=2)
    m.output("y", [2, 4, "t"])
    return Case("", m.build(), [Site("group_not_1")], one_feed(m.dtype, (2, 6, 11)))


def kernel_3x3():
    m = Model()
    m.input("x", [2, 6, "h", "w"])
    m.conv("x", "y", (6, 4), 2, kernel=3, pads=[1, 1, 1, 1])
    m.output("y", [2, 4, "h", "w"])
    return Case("", m.build(), [Site("kernel_not_1x1")], one_feed(m.dtype, (2, 6, 7, 9)), channels=54)


def kernel_1x3():
    m = Model()
    m.input("x", [2, 6, "h", "w"])
    m.node("Conv", ["x", m.tensor("w", (4, 6, 1, 3))], ["y"])
    m.output("y", [2, 4, "h", None])
    return Case("", m.build(), [Site("kernel_not_1x1")], one_feed(m.dtype, (2, 6, 7, 9)), channels=18)


def dilation_2():
    m = Model()
    m.input("x", [2, 6, "h", "w"])
    m.conv("x", "y", (6, 4), 2, dilations=[2, 3])
    m.output("y", [2, 4, "h", "w"])
    return Case("", m.build(), [Site(dilated=True)], one_feed(m.dtype, (2, 6, 7, 9)))


def dilation_2_strided_valid():
    """One tap reaches nowhere, whatever the dilation (ONNX Runtime refuses dilation with SAME_…)."""
    m = Model()
    m.input("x", [2, 6, "h", "w"])
    m.conv("x", "y", (6, 4), 2, dilations=[2, 2], strides=[2, 2], auto_pad="VALID")
    m.output("y", [2, 4, None, None])
    return Case("", m.build(), [Site(extended=True, dilated=True)], one_feed(m.dtype, (2, 6, 7, 9)))


def dynamic_weight():
    m = Model()
    m.input("x", [2, 6, "t"])
    m.input("w", [4, 6, 1])
    m.node("Conv", ["x", "w"], ["y"])
    m.output("y", [2, 4, "t"])
    return Case("", m.build(), [Site("non_constant_weight")], drawn(m.dtype, {"x": (2, 6, 11), "w": (4, 6, 1)}))


def computed_weight():
    """A weight that could be folded to a constant but is not one yet."""
    m = Model()
    m.input("x", [2, 6, "t"])
    m.tensor("half", (4, 6, 1))
    m.node("Neg", ["half"], ["w"])
    m.node("Conv", ["x", "w"], ["y"])
    m.output("y", [2, 4, "t"])
    return Case("", m.build(), [Site("non_constant_weight")], one_feed(m.dtype, (2, 6, 11)))


def dynamic_bias():
    """An Add takes any value, so the bias need not be known."""
    m = Model()
    m.input("x", [2, 6, "t"])
    m.input("b", [4])
    m.node("Conv", ["x", m.tensor("w", (4, 6, 1)), "b"], ["y"])
    m.output("y", [2, 4, "t"])
    return Case("", m.build(), [Site()], drawn(m.dtype, {"x": (2, 6, 11), "b": (4,)}))


def overridable_weight():
    """An initializer that is also an input is only a default since IR 4: callers may feed another weight."""
    m = Model()
    m.input("x", [2, 6, "t"])
    m.input("y.weight", [4, 6, 1])
    m.conv("x", "y", (6, 4))
    m.output("y", [2, 4, "t"])
    feeds = drawn(m.dtype, {"x": (2, 6, 11)}, {"x": (2, 6, 11), "y.weight": (4, 6, 1)})
    return Case("", m.build(), [Site("overridable_weight")], feeds)


def ir3_weight():
    """Before IR 4 every initializer had to be an input, and was a constant all the same."""
    m = Model(opset=7)
    m.input("x", [2, 6, "t"])
    m.input("y.weight", [4, 6, 1])
    m.input("y.bias", [4])
    m.conv("x", "y", (6, 4))
    m.output("y", [2, 4, "t"])
    return Case("", m.build(ir_version=3), [Site()], one_feed(m.dtype, (2, 6, 11)))


def empty_bias_name():
    m = Model()
    m.input("x", [2, 6, "t"])
    m.node("Conv", ["x", m.tensor("w", (4, 6, 1)), ""], ["y"])
    m.output("y", [2, 4, "t"])
    return Case("", m.build(), [Site()], one_feed(m.dtype, (2, 6, 11)))


def bias_value_floats():
    """A bias as Constant(value_floats): the values lie in the attribute itself."""
    m = Model()
    m.input("x", [2, 6, "t"])
    m.node("Constant", [], ["b"], value_floats=[0.25, -1.5, 3.0, 0.1])
    m.node("Conv", ["x", m.tensor("w", (4, 6, 1)), "b"], ["y"])
    m.output("y", [2, 4, "t"])
    return Case("", m.build(), [Site()], one_feed(m.dtype, (2, 6, 11)))


def identity_chain():
    m = Model()
    m.input("x", [2, 6, "t"])
    m.tensor("w0", (4, 6, 1), "constant")
    for place in range(3):
        m.node("Identity", [f"w{place}"], [f"w{place + 1}"])
    m.node("Conv", ["x", "w3"], ["y"])
    m.output("y", [2, 4, "t"])
    return Case("", m.build(), [Site()], one_feed(m.dtype, (2, 6, 11)))


def unnamed_nodes():
    m = Model()
    m.input("x", [2, 6, "t"])
    m.conv("x", "a", (6, 6))
    m.conv("a", "b", (6, 4))
    m.output("b", [2, 4, "t"])
    for node in m.nodes:
        node.name = ""
    return two_convs(m, Site(), Site(), (2, 6, 11))


def name_clash():
    """Every name the rewrite would like to give is taken already, some by node names."""
    m = Model()
    m.input("x", [2, 6, "t"])
    m.tensor("p_w_t", (4, 6, 1))
    m.tensor("p_flat_shape", (4,))
    m.node("Conv", ["x", "p_w_t", "p_flat_shape"], ["p_mm"], "p")
    m.node("Relu", ["p_mm"], ["p_x_flat"], "p_x_nwc")
    m.output("p_x_flat", [2, 4, "t"])
    return Case("", m.build(), [Site()], one_feed(m.dtype, (2, 6, 11)))


def odd_names():
    m = Model()
    m.input("x", [2, 6, "t"])
    weight = m.tensor('w "quoted"\n\u202egnp\x1b[31m', (4, 6, 1))
    m.node("Conv", ["x", weight], ["y \\ / : é"], 'conv\t"1"')
    m.output("y \\ / : é", [2, 4, "t"])
    return Case("", m.build(), [Site()], one_feed(m.dtype, (2, 6, 11)))


def no_input_shape():
    """Nothing is known of the value before the Conv but what inference can tell: no dim is given anywhere."""
    m = Model()
    m.input("x", [None] * 4)
    m.conv("x", "y", (6, 4), 2)
    m.output("y", [None] * 4)
    return Case("", m.build(), [Site()], one_feed(m.dtype, (2, 6, 7, 9)))


def empty_batch():
    """A batch of none is legal, and a Reshape to [-1, C] has to live with it."""
    m = Model()
    m.input("x", ["batch", 6, "t"])
    m.conv("x", "y", (6, 4))
    m.output("y", ["batch", 4, "t"])
    return Case("", m.build(), [Site()], drawn(m.dtype, {"x": (0, 6, 11)}, {"x": (3, 6, 11)}))


def with_value_info():
    m = Model()
    m.input("x", [2, 6, 7, 9])
    m.conv("x", "a", (6, 17), 2, strides=[2, 2])
    m.node("Relu", ["a"], ["r"])
    m.conv("r", "y", (17, 4), 2)
    m.output("y", [2, 4, 4, 5])
    model = onnx.shape_inference.infer_shapes(m.build())
    return Case("", model, [Site(extended=True), Site()], one_feed(m.dtype, (2, 6, 7, 9)), channels=17)


def large_channels():
    m = Model()
    m.input("x", [1, 300, "t"])
    m.conv("x", "y", (300, 257))
    m.output("y", [1, 257, "t"])
    return Case("", m.build(), [Site()], one_feed(m.dtype, (1, 300, 65)), channels=300)


def explicit_domain():
    """The default domain imported by its other name."""
    m = Model()
    m.input("x", [2, 6, "t"])
    m.conv("x", "y", (6, 4))
    m.output("y", [2, 4, "t"])
    model = m.build()
    model.opset_import[0].domain = "ai.onnx"
    return Case("", model, [Site()], one_feed(m.dtype, (2, 6, 11)))


def foreign_conv():
    """An operator called Conv from another domain (here a function that only negates) is none of our business."""
    m = Model()
    m.domains["test"] = 1
    m.functions.append(
        helper.make_function(
            "test", "Conv", ["x", "w"], ["y"], [helper.make_node("Neg", ["x"], ["y"])], [helper.make_opsetid("", 17)]
        )
    )
    m.input("x", [2, 6, "t"])
    m.node("Conv", ["x", m.tensor("w", (4, 6, 1))], ["y"], domain="test")
    m.output("y", [2, 6, "t"])
    return Case("", m.build(), [], one_feed(m.dtype, (2, 6, 11)))


def bad_attribute(reason, dims=(4, 6, 1, 1), **attributes):
    def make():
        m = Model()
        m.input("x", [2, 6, 7, 9])
        m.node("Conv", ["x", m.tensor("w", dims)], ["y"], **attributes)
        m.output("y", [None] * 4)
        return Case("", m.build(), [Site(reason)], one_feed(m.dtype, (2, 6, 7, 9)), runnable=False)

    make.__name__ = reason
    return make


# ---- bodies and functions


def body_graph(name, build, inputs=(), outputs=("y",), opset=17):
    """A subgraph: `build(model)` adds to a Model whose inputs and outputs are given as (name, dims, elem)."""
    body = Model(opset=opset)
    body.seed = sum(name.encode())
    for each in inputs:
        body.input(*each)
    build(body)
    for each in outputs:
        body.output(*((each, None) if isinstance(each, str) else each))
    return body.graph(name)


def yes_and_no(dims):
    return lambda seed: [{"x": noise(seed, dims, np.float32), "yes": np.array(yes)} for yes in (True, False)]


def conv_in_if():
    """One branch uses a weight of the outer graph, the other its own Constant and initializer."""
    m = Model()
    m.input("x", [2, 6, "t"])
    m.input("yes", [], TensorProto.BOOL)
    m.tensor("w", (5, 6, 1))
    m.tensor("b", (5,))
    then = body_graph("then", lambda g: g.node("Conv", ["x", "w", "b"], ["then.y"]), outputs=["then.y"])
    other = body_graph("else", lambda g: g.conv("x", "else.y", (6, 5), weight="constant"), outputs=["else.y"])
    m.node("If", ["yes"], ["y"], then_branch=then, else_branch=other)
    m.output("y", [2, 5, "t"])
    return Case("", m.build(), [Site(), Site()], yes_and_no((2, 6, 11)))


def conv_in_nested_if():
    """If in If; the inner bodies see weights two graphs further out, one through an Identity in between."""
    m = Model()
    m.input("x", [2, 6, "t"])
    m.input("yes", [], TensorProto.BOOL)
    m.tensor("w", (5, 6, 1))
    m.conv("x", "first", (6, 6))

    def outer(g):
        g.node("Identity", ["w"], ["w_inside"])
        inner = body_graph("inner", lambda h: h.node("Conv", ["first", "w_inside"], ["deep.y"]), outputs=["deep.y"])
        spare = body_graph("spare", lambda h: h.conv("first", "spare.y", (6, 5), bias="constant"), outputs=["spare.y"])
        g.node("If", ["yes"], ["then.y"], then_branch=inner, else_branch=spare)

    then = body_graph("then", outer, outputs=["then.y"])
    other = body_graph("else", lambda g: g.conv("first", "else.y", (6, 5), weight="identity"), outputs=["else.y"])
    m.node("If", ["yes"], ["y"], then_branch=then, else_branch=other)
    m.output("y", [2, 5, "t"])
    return Case("", m.build(), [Site(), Site(), Site(), Site()], yes_and_no((2, 6, 11)))


def weight_shared_with_body():
    m = Model()
    m.input("x", [2, 6, "t"])
    m.input("yes", [], TensorProto.BOOL)
    m.conv("x", "first", (6, 6))
    then = body_graph("then", lambda g: g.node("Conv", ["first", "first.weight"], ["then.y"]), outputs=["then.y"])
    other = body_graph("else", lambda g: g.node("Neg", ["first"], ["else.y"]), outputs=["else.y"])
    m.node("If", ["yes"], ["y"], then_branch=then, else_branch=other)
    m.output("y", [2, 6, "t"])
    return Case("", m.build(), [Site(), Site()], yes_and_no((2, 6, 11)))


def conv_in_loop():
    """A Conv applied three times to the carried value; its weight lies in the body."""
    m = Model()
    m.input("x", [2, 6, "t"])
    m.initializers.append(numpy_helper.from_array(np.array(3, np.int64), "trips"))
    m.initializers.append(numpy_helper.from_array(np.array(True), "go"))
    m.tensor("outer.weight", (6, 6, 1))

    def body(g):
        g.conv("state", "half", (6, 6))
        g.node("Conv", ["half", "outer.weight"], ["next"])
        g.node("Identity", ["cond"], ["cond_out"])

    inputs = [("trip", [], TensorProto.INT64), ("cond", [], TensorProto.BOOL), ("state", [2, 6, "t"])]
    outputs = [("cond_out", [], TensorProto.BOOL), ("next", [2, 6, "t"])]
    m.node("Loop", ["trips", "go", "x"], ["y"], body=body_graph("body", body, inputs, outputs))
    m.output("y", [2, 6, "t"])
    return Case("", m.build(), [Site(), Site()], one_feed(m.dtype, (2, 6, 11)), channels=6 * 36)


def conv_in_scan():
    m = Model()
    m.input("x", [4, 2, 6, "t"])
    body = body_graph(
        "body", lambda g: g.conv("slice", "row", (6, 5), strides=[2]), [("slice", [2, 6, "t"])], [("row", [2, 5, None])]
    )
    m.node("Scan", ["x"], ["y"], body=body, num_scan_inputs=1)
    m.output("y", [4, 2, 5, None])
    return Case("", m.build(), [Site(extended=True)], one_feed(m.dtype, (4, 2, 6, 11)))


def name_hidden_in_body():
    """The Loop's carried value has the name of what the Conv's input was transposed from: the Conv cannot read that."""
    m = Model()
    m.input("x", [2, 11, 6])
    m.initializers.append(numpy_helper.from_array(np.array(3, np.int64), "trips"))
    m.initializers.append(numpy_helper.from_array(np.ones((2, 6, 11), np.float32), "start"))
    m.node("Transpose", ["x"], ["x_t"], perm=[0, 2, 1])

    def body(g):
        g.conv("x_t", "half", (6, 6))
        g.node("Add", ["half", "x"], ["next"])
        g.node("Identity", ["cond"], ["cond_out"])

    inputs = [("trip", [], TensorProto.INT64), ("cond", [], TensorProto.BOOL), ("x", [2, 6, 11])]
    outputs = [("cond_out", [], TensorProto.BOOL), ("next", [2, 6, 11])]
    m.node("Loop", ["trips", "", "start"], ["y"], body=body_graph("body", body, inputs, outputs))
    m.output("y", [2, 6, 11])
    return Case("", m.build(), [Site()], one_feed(m.dtype, (2, 11, 6)))


def function_case(nodes, inputs, sites, call):
    m = Model()
    m.domains["test"] = 1
    imports = [helper.make_opsetid("", 17)]
    m.functions.append(helper.make_function("test", "Block", inputs, ["y"], nodes, imports))
    m.input("x", [2, 6, "t"])
    call(m)
    m.output("z", [2, 6, "t"])
    return Case("", m.build(), sites, one_feed(m.dtype, (2, 6, 11)), channels=36)


def conv_in_function():
    """The function holds its weight in a Constant node, and is called twice."""
    weight = noise(7, (6, 6, 1), np.float32)
    nodes = [
        helper.make_node("Constant", [], ["w"], value=proto("w", weight)),
        helper.make_node("Conv", ["x", "w"], ["h"], name="inside"),
        helper.make_node("Relu", ["h"], ["y"]),
    ]

    def call(m):
        m.node("Block", ["x"], ["a"], domain="test")
        m.node("Block", ["a"], ["z"], domain="test")

    return function_case(nodes, ["x"], [Site()], call)


def conv_in_old_function():
    """Constants of opset 8 hold no integers, and a function has no initializers."""
    nodes = [
        helper.make_node("Constant", [], ["w"], value=proto("w", noise(7, (6, 6, 1), np.float32))),
        helper.make_node("Conv", ["x", "w"], ["y"], name="inside", strides=[2], pads=[0, 1]),
    ]
    m = Model(opset=8)
    m.domains["test"] = 1
    m.functions.append(helper.make_function("test", "Block", ["x"], ["y"], nodes, [helper.make_opsetid("", 8)]))
    m.input("x", [2, 6, "t"])
    m.node("Block", ["x"], ["z"], domain="test")
    m.output("z", [2, 6, None])
    return Case("", m.build(ir_version=8), [Site(extended=True)], one_feed(m.dtype, (2, 6, 11)))


def function_with_weight_input():
    """The weight comes in as an argument: inside, it is no constant."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="inside")]

    def call(m):
        m.node("Block", ["x", m.tensor("w1", (6, 6, 1))], ["z"], domain="test")

    return function_case(nodes, ["x", "w"], [Site("non_constant_weight")], call)


def function_same_names():
    """A name inside a function is another value than the same name outside: here an initializer is called w, too."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="inside")]

    def call(m):
        m.node("Conv", ["x", m.tensor("w", (6, 6, 1))], ["a"])
        m.node("Block", ["a", m.tensor("other", (6, 6, 1))], ["z"], domain="test")

    return function_case(nodes, ["x", "w"], [Site(), Site("non_constant_weight")], call)


SPECIAL = [
    shared_weight,
    shared_weight_with_identity,
    weight_used_elsewhere,
    weight_used_by_other_conv,
    weight_is_graph_output,
    consecutive_1d,
    consecutive_2d_static,
    consecutive_3d_strided,
    consecutive_with_activation,
    consecutive_middle_seen,
    fork,
    encoder_like,
    group_not_1,
    kernel_3x3,
    kernel_1x3,
    dilation_2,
    dilation_2_strided_valid,
    dynamic_weight,
    computed_weight,
    dynamic_bias,
    overridable_weight,
    ir3_weight,
    empty_bias_name,
    bias_value_floats,
    identity_chain,
    unnamed_nodes,
    name_clash,
    odd_names,
    no_input_shape,
    empty_batch,
    with_value_info,
    large_channels,
    explicit_domain,
    foreign_conv,
    bad_attribute("invalid_strides", strides=[1, 1, 1]),
    bad_attribute("invalid_dilations", dilations=[1, 0]),
    bad_attribute("invalid_pads", pads=[0, 0, -1, 0]),
    bad_attribute("weight_not_4d", dims=(4, 6)),
    conv_in_if,
    conv_in_nested_if,
    weight_shared_with_body,
    conv_in_loop,
    name_hidden_in_body,
    conv_in_scan,
    conv_in_function,
    conv_in_old_function,
    function_with_weight_input,
    function_same_names,
]


def special():
    for make in SPECIAL:
        case = make()
        case.name = make.__name__
        yield case


def cases():
    """Every case of this file."""
    yield from matrix()
    yield from special()


# ---- the check of ourselves


def plain_conv(case, feeds):
    """A matrix case by hand: pad, step, multiply, in double."""
    node = next(node for node in case.model.graph.node if node.op_type == "Conv")
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    constants = {each.name: numpy_helper.to_array(each) for each in case.model.graph.initializer}
    for each in case.model.graph.node:
        if each.op_type == "Constant":
            constants[each.output[0]] = numpy_helper.to_array(each.attribute[0].t)
        elif each.op_type == "Identity":
            constants[each.output[0]] = constants[each.input[0]]
    x = feeds["x"].astype(np.float64)
    rank = x.ndim - 2
    pads = attributes.get("pads", [0] * 2 * rank)
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])])
    x = x[(..., *(slice(None, None, step) for step in attributes.get("strides", [1] * rank)))]
    weight = constants[node.input[1]].astype(np.float64)
    y = np.moveaxis(np.tensordot(weight.reshape(weight.shape[:2]), x, (1, 1)), 0, 1)
    if len(node.input) > 2:
        y += constants[node.input[2]].astype(np.float64).reshape(-1, *[1] * rank)
    return y


def check_case(case, by_hand):
    onnx.checker.check_model(case.model)
    if not case.runnable:
        return 0
    runs = 0
    for feeds in case.feeds(0):
        runs += 1
        outputs = reference(case.model, feeds)
        if by_hand:
            want = plain_conv(case, feeds)
            assert outputs[0].shape == want.shape, case.name
            worst = np.abs(outputs[0].astype(np.float64) - want).max()
            assert worst <= tolerance(case.dtype, case.channels, np.abs(want).max()), (case.name, worst)
    return runs


def main():
    matrix_cases, special_cases = list(matrix()), list(special())
    assert len({case.name for case in matrix_cases + special_cases}) == len(matrix_cases + special_cases)
    runs = sum(check_case(case, True) for case in matrix_cases) + sum(check_case(case, False) for case in special_cases)
    convs = sum(len(case.sites) for case in matrix_cases + special_cases)
    print(f"{len(matrix_cases)} + {len(special_cases)} cases with {convs} Convs, {runs} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
