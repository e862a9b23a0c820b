"""Random small float models of every operator that static, dynamic and requantize write or wrap.

`random_model(seed)` gives a Case: a model, and inputs for it. Each node is run while the model is made, so that dims and values are
known, and what the runtime refuses is drawn again. Opsets are 9 to 24, floats float32 and float16, values have 1 to 5 dims;
attributes are left out, written as their default, or other; weights are initializers, Constant nodes, behind Identity or Cast,
computed, or inputs of the model; biases are absent, zeros, usual, large, shared, computed. quantized_graphs.py quantizes them.
"""

import dataclasses
import random

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from random_graphs import taken

OPSETS = range(9, 25)


# ---- running


def session(model, optimized=False):
    options = ort.SessionOptions()
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


SMALL = 1e-4  # what a weight is multiplied by now and then: codes of its bias do not fit int32 then
NOTHING = (-1e4, -1e9, None)  # numbers of masks; None: the lowest there is


# ---- a model in the making


class Refused(Exception):
    """What was drawn does not go here."""


@dataclasses.dataclass
class Case:
    model: onnx.ModelProto
    feeds: dict
    seed: int
    pieces: list


class Graph:
    def __init__(self, seed, opset, dtype):
        self.r = random.Random(seed)
        self.numbers = np.random.Generator(np.random.PCG64(seed))
        self.opset, self.dtype = opset, np.dtype(dtype)
        self.nodes, self.tensors, self.inputs = [], {}, {}
        self.values = {}  # by name: what they are for these inputs
        self.weights = []  # (name, dims) of weights and biases, for sharing
        self.microsoft = False
        self.count = 0

    # drawing

    def chance(self, p):
        return self.r.random() < p

    def normal(self, *dims, scale=1.0):
        return (self.numbers.normal(0, 1, dims) * scale).astype(self.dtype)

    def some(self, **attributes):
        """Each attribute left out in a third of the cases."""
        return {name: x for name, x in attributes.items() if x is not None and not self.chance(0.33)}

    def axis(self, rank, since=11):
        """An axis, from behind too where that may be."""
        axis = self.r.randrange(rank)
        return axis - rank if self.opset >= since and self.chance(0.4) else axis

    # values

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def dims(self, x):
        return self.values[x].shape

    def initializer(self, array, stem="c"):
        name = self.name(stem)
        self.tensors[name] = self.values[name] = np.ascontiguousarray(array)
        return name

    def given(self, array, stem="in"):
        """An input of the model."""
        name = self.name(stem)
        self.inputs[name] = self.values[name] = np.ascontiguousarray(array)
        return name

    def constant(self, array):
        """A constant in one of the ways that models have them."""
        array = np.ascontiguousarray(array)
        how = self.r.randrange(8)
        if how == 0:
            return self.node("Constant", [], value=numpy_helper.from_array(array))
        if how == 1:
            return self.node("Identity", [self.initializer(array)])
        if how == 2 and array.dtype.kind == "f":
            other = np.float16 if array.dtype == np.float32 else np.float32
            return self.node("Cast", [self.initializer(array.astype(other))], to=helper.np_dtype_to_tensor_dtype(array.dtype))
        return self.initializer(array)

    def weight(self, *dims, scale=1.0, axis=0):
        """A weight: channels of different ranges along an axis; constant mostly."""
        w = self.numbers.normal(0, 1, dims)
        shape = [1] * len(dims)
        shape[axis] = dims[axis]
        w = w * np.exp(self.numbers.normal(0, 0.5, shape)) * scale * self.r.choice((*[1] * 9, SMALL, 5))
        if self.chance(0.1):
            w = np.abs(w)
        w = w.astype(self.dtype)
        how = self.r.randrange(12)
        if how == 0:
            return self.given(w, "w")
        if how == 1:
            return self.node("Mul", [self.initializer(w), self.given(self.dtype.type(self.r.choice((0.5, 1.5))), "by")])
        same = [name for name, d in self.weights if d == dims]
        if how == 2 and same:
            return self.r.choice(same)
        made = self.constant(w)
        self.weights.append((made, dims))
        return made

    def bias(self, *dims, scale=0.3):
        how = self.r.randrange(10)
        same = [name for name, d in self.weights if d == dims]
        if how == 0 and same:
            return self.r.choice(same)
        if how == 1:
            return self.given(self.normal(*dims, scale=scale), "b")
        if how == 2:
            return self.node("Abs", [self.given(self.normal(*dims, scale=scale), "b")])
        b = np.zeros(dims, self.dtype) if how == 3 else self.normal(*dims, scale=scale * (20 if how == 4 else 1))
        made = self.constant(b)
        self.weights.append((made, dims))
        return made

    def ints(self, *values, dtype=np.int64):
        return self.initializer(np.array(values, dtype), "i")

    # nodes

    def run(self, node, names):
        inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(self.values[n].dtype), self.dims(n))
                  for n in names if n not in self.tensors]  # fmt: skip
        held = [numpy_helper.from_array(self.tensors[n], n) for n in names if n in self.tensors]
        outputs = [onnx.ValueInfoProto(name=n) for n in node.output if n]
        graph = helper.make_graph([node], "g", inputs, outputs, held)
        model = self.wrap(graph)
        try:
            found = session(model).run(None, {i.name: self.values[i.name] for i in inputs})
        except Exception as e:  # whatever it is that the runtime does not take
            raise Refused(str(e)) from e
        for array in found:
            if array.size == 0 or array.size > 20_000 or array.ndim > 5 or (array.dtype.kind == "f" and not np.isfinite(array).all()):
                raise Refused("elements")
            if array.dtype.kind == "f" and array.max() > 3e4 and node.op_type != "Constant":
                raise Refused("large")
        return found

    def node(self, op, inputs, outputs=1, domain="", **attributes):
        """Its first output; `outputs`: a number, or a list of truths: those that are there."""
        wanted = [True] * outputs if isinstance(outputs, int) else outputs
        made = [self.name("v") if there else "" for there in wanted]
        name = "" if self.chance(0.1) else self.name("n")
        attributes = {k: v for k, v in attributes.items() if v is not None}
        node = helper.make_node(op, list(inputs), made, name=name, domain=domain, **attributes)
        self.microsoft = self.microsoft or domain != ""
        found = self.run(node, sorted({n for n in inputs if n}))
        self.nodes.append(node)
        made = [n for n in made if n]
        self.values.update(zip(made, found))
        return made[0] if len(made) == 1 else made

    def wrap(self, graph):
        opsets = [helper.make_opsetid("", self.opset)] + ([helper.make_opsetid("com.microsoft", 1)] if self.microsoft else [])
        return helper.make_model(graph, opset_imports=opsets, ir_version=8 if self.opset < 19 else 9 if self.opset < 21 else 10)

    def kept(self):
        return len(self.nodes), dict(self.tensors), dict(self.inputs), dict(self.values), list(self.weights), self.microsoft

    def back(self, kept):
        del self.nodes[kept[0] :]
        self.tensors, self.inputs, self.values, self.weights, self.microsoft = kept[1:]


# ---- pieces: each takes the value at hand and gives the next; Refused: it does not go here


PIECES = {}


def piece(*operators, weight=1):
    """`operators`: which it makes."""

    def add(f):
        PIECES[f.__name__] = (f, operators, weight)
        return f

    return add


def need(x):
    if not x:
        raise Refused("not here")


def beside(g, x):
    """Dims that broadcast to those of x."""
    dims = g.dims(x)
    kept = [d if g.chance(0.6) else 1 for d in dims]
    return tuple(kept[g.r.randrange(len(dims) + 1) :])


def another(g, x):
    """A value of the same dims: from before, or made of x."""
    same = [n for n, a in g.values.items() if n != x and a.dtype == g.dtype and a.shape == g.dims(x) and n not in g.tensors]
    return g.r.choice(same) if same and g.chance(0.6) else g.node(g.r.choice(("Sigmoid", "Tanh", "Neg")), [x])


@piece("Add", "Mul", weight=2)
def binary(g, x):
    op = g.r.choice(("Add", "Mul"))
    other = another(g, x) if g.chance(0.4) else g.constant(g.normal(*beside(g, x)) + g.dtype.type(g.r.choice((0, 1))))
    return g.node(op, [x, other] if g.chance(0.7) else [other, x])


@piece("LeakyRelu", "Sigmoid", "Relu", weight=2)
def activation(g, x):
    op = g.r.choice(("Relu", "Relu", "Sigmoid", "LeakyRelu", "Tanh"))
    return g.node(op, [x], **(g.some(alpha=g.r.choice((0.01, 0.3, -0.5, 1.5))) if op == "LeakyRelu" else {}))


@piece("Clip")
def clip(g, x):
    low, high = g.r.choice(((0, 6), (-0.5, 0.5), (None, 1), (0, None), (0.2, 1.5), (None, None), (-1, 6)))
    if g.opset < 11:
        return g.node("Clip", [x], min=None if low is None else float(low), max=None if high is None else float(high))
    bounds = ["" if b is None else g.initializer(g.dtype.type(b)) for b in (low, high)]
    if g.chance(0.2) and low is not None:
        bounds[0] = g.given(g.dtype.type(low), "low")
    while bounds and bounds[-1] == "":
        bounds.pop()
    return g.node("Clip", [x, *bounds])


@piece("Softmax", weight=2)
def softmax(g, x):
    return g.node("Softmax", [x], **g.some(axis=g.axis(len(g.dims(x)))))


@piece("Where")
def where(g, x):
    dims = beside(g, x)
    mask = g.numbers.random(dims) < 0.6
    mask = g.given(mask, "mask") if g.chance(0.5) else g.initializer(mask)
    other = another(g, x) if g.chance(0.6) else g.constant(g.normal(*beside(g, x)))
    return g.node("Where", [mask, x, other] if g.chance(0.6) else [mask, other, x])


def nothing(g):
    number = g.r.choice(NOTHING)
    low = float(np.finfo(g.dtype).min)
    return g.dtype.type(low if number is None else max(number, low))


@piece("Add", "Where", "Softmax")
def masked(g, x):
    """Before a Softmax: what a number takes part in is 0."""
    dims = list(g.dims(x))
    need(dims[-1] > 1)
    mask = g.numbers.random(dims[g.r.randrange(len(dims)) :]) < 0.4
    mask[..., 0] = False
    number = nothing(g)
    if g.chance(0.5):
        y = g.node("Add", [x, g.initializer(np.where(mask, number, g.dtype.type(0)))])
    else:
        mask = g.given(mask, "mask") if g.chance(0.5) else g.initializer(mask)
        y = g.node("Where", [mask, g.initializer(number), x])
    return g.node("Softmax", [y], axis=len(dims) - 1)


@piece("Pad", "MaxPool")
def padded_pool(g, x):
    """A frame that MaxPool never takes."""
    dims = g.dims(x)
    need(len(dims) == 4 and min(dims[2:]) > 1 and g.opset >= 11)
    y = g.node("Pad", [x, g.ints(0, 0, 1, 1, 0, 0, 1, 1), g.initializer(nothing(g))])
    return g.node("MaxPool", [y], kernel_shape=[2, 2], **g.some(strides=[2, 2]))


# moves


@piece("Reshape")
def reshape(g, x):
    dims = list(g.dims(x))
    new = g.r.choice(([-1], [0, -1], [*dims[:-1], -1], [1, *dims], [-1, dims[-1]], [0] * len(dims)))
    return g.node("Reshape", [x, g.ints(*new)], **(g.some(allowzero=0) if g.opset >= 14 else {}))


@piece("Transpose")
def transpose(g, x):
    perm = list(range(len(g.dims(x))))
    g.r.shuffle(perm)
    return g.node("Transpose", [x], **g.some(perm=perm))


@piece("Squeeze", "Unsqueeze", weight=2)
def squeeze(g, x):
    rank = len(g.dims(x))
    if g.chance(0.5):
        axes = [g.axis(rank + 1)]
        return g.node("Unsqueeze", [x], axes=axes) if g.opset < 13 else g.node("Unsqueeze", [x, g.ints(*axes)])
    ones = [i for i, d in enumerate(g.dims(x)) if d == 1]
    need(ones and rank > 1)
    axes = g.r.sample(ones, g.r.randint(1, len(ones)))
    if g.opset >= 11:
        axes = [i - rank if g.chance(0.3) else i for i in axes]
    if g.chance(0.3):
        return g.node("Squeeze", [x])
    return g.node("Squeeze", [x], axes=axes) if g.opset < 13 else g.node("Squeeze", [x, g.ints(*axes)])


@piece("Flatten")
def flatten(g, x):
    rank = len(g.dims(x))
    return g.node("Flatten", [x], **g.some(axis=g.r.choice((1, 0, g.axis(rank)))))


@piece("Slice")
def slices(g, x):
    dims = g.dims(x)
    axis = g.r.randrange(len(dims))
    need(dims[axis] > 1)
    start, end = g.r.choice(((0, dims[axis] - 1), (1, dims[axis]), (-dims[axis], -1), (1, 2**31 - 1)))
    if g.opset < 10:
        return g.node("Slice", [x], starts=[start], ends=[end], **g.some(axes=[axis]))
    axes = axis - len(dims) if g.chance(0.3) else axis
    more = g.r.choice(([], [g.ints(axes)], [g.ints(axes), g.ints(2)]))
    if g.chance(0.2):
        start, end, more = -1, -(2**31), [g.ints(axes), g.ints(-1)]
    return g.node("Slice", [x, g.ints(start), g.ints(end), *more])


@piece("Split", "Concat", weight=2)
def split(g, x):
    dims = g.dims(x)
    axis = g.axis(len(dims))
    size = dims[axis]
    need(size > 1 and (axis == 0 or size > 1))
    first = g.r.randint(1, size - 1)
    said = {} if axis == 0 and g.chance(0.5) else {"axis": axis}
    even = size % 2 == 0 and g.chance(0.4)
    if g.opset < 13:
        parts = g.node("Split", [x], 2, **said, **({} if even else {"split": [first, size - first]}))
    elif even:
        parts = g.node("Split", [x], 2, **said, **({"num_outputs": 2} if g.opset >= 18 else {}))
    else:
        parts = g.node("Split", [x, g.ints(first, size - first)], 2, **said)
    how = g.r.randrange(3)
    if how == 0:
        return parts[g.r.randrange(2)]
    if how == 1:
        parts[0] = g.node("Relu", [parts[0]])
    return g.node("Concat", parts[::-1] if g.chance(0.5) else parts, axis=g.axis(len(dims), since=11))


@piece("Concat")
def concat(g, x):
    axis = g.axis(len(g.dims(x)))
    dims = list(g.dims(x))
    dims[axis] = g.r.choice((1, dims[axis]))
    others = [g.constant(g.normal(*dims))] if g.chance(0.4) else [another(g, x)]
    if g.chance(0.2):
        others.append(g.r.choice((x, others[0])))
    parts = [x, *others]
    g.r.shuffle(parts)
    return g.node("Concat", parts, axis=axis)


@piece("Gather", "GatherElements", weight=2)
def gather(g, x):
    dims = g.dims(x)
    axis = g.axis(len(dims))
    if g.chance(0.3) and g.opset >= 11:
        shape = [g.r.randint(1, d) for d in dims]
        index = g.numbers.integers(-dims[axis], dims[axis], shape)
        return g.node("GatherElements", [x, g.initializer(index)], **({} if axis == 0 else {"axis": axis}))
    low = -dims[axis] if g.opset >= 11 else 0
    index = g.numbers.integers(low, dims[axis], g.r.choice(((), (2,), (3,), (1, 2)))).astype(g.r.choice((np.int64, np.int32)))
    index = g.given(index, "ids") if g.chance(0.3) else g.initializer(index)
    return g.node("Gather", [x, index], **({} if axis == 0 and g.chance(0.5) else {"axis": axis}))


@piece("Gather")
def table(g, x):
    """Rows of a table, added to what is there."""
    n = g.dims(x)[-1]
    rows = g.node("Gather", [g.weight(7, n, axis=1), g.given(g.numbers.integers(0, 7, g.r.choice(((), (1,)))), "ids")], **g.some(axis=0))
    return g.node("Add", [x, rows])


@piece("Pad", weight=2)
def pad(g, x):
    dims = g.dims(x)
    mode = g.r.choice(("constant", "constant", "reflect", "edge", *(["wrap"] if g.opset >= 19 else [])))
    most = [min(2, d - 1) if mode in ("reflect", "wrap") else 2 for d in dims]
    starts, ends = ([g.r.randint(0, m) if g.chance(0.5) else 0 for m in most] for _ in range(2))
    inside = g.values[x]
    number = g.r.choice((0, 0, None, float(inside.min()), float(inside.max()), float(np.median(inside)), *OUTSIDE))
    said = {} if mode == "constant" and g.chance(0.5) else {"mode": mode}
    if g.opset < 11:
        return g.node("Pad", [x], pads=[*starts, *ends], value=None if number is None else float(number), **said)
    more = [] if number is None else [g.initializer(g.dtype.type(number))]
    if mode == "constant" and number is not None and g.chance(0.15):
        more = [g.given(g.dtype.type(number), "pad")]
    if g.opset >= 18 and g.chance(0.3):
        axes = g.r.sample(range(len(dims)), g.r.randint(1, len(dims)))
        pads = [*(starts[i] for i in axes), *(ends[i] for i in axes)]
        return g.node("Pad", [x, g.ints(*pads), *(more or [""]), g.ints(*(i - len(dims) if g.chance(0.3) else i for i in axes))], **said)
    return g.node("Pad", [x, g.ints(*starts, *ends), *more], **said)


OUTSIDE = (-3.0, 7.0)  # numbers that a Pad puts around what has no such elements


@piece("Resize", weight=2)
def resize(g, x):
    dims = g.dims(x)
    need(g.opset >= 10 and 2 < len(dims) < 5)
    mode = g.r.choice(("nearest", "linear", "nearest", *(["cubic"] if g.opset >= 11 and len(dims) == 4 else [])))
    scales = [1, 1, *(g.r.choice((1, 2, 0.5, 1.5)) for _ in dims[2:])]
    if g.opset < 11:
        return g.node("Resize", [x, g.initializer(np.array(scales, np.float32))], **({} if mode == "nearest" else {"mode": mode}))
    said = {} if mode == "nearest" and g.chance(0.5) else {"mode": mode}
    way = g.r.choice(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", *(["half_pixel_symmetric"] if g.opset >= 19 else [])))
    said |= g.some(coordinate_transformation_mode=way)
    if mode == "nearest":
        said |= g.some(nearest_mode=g.r.choice(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")))
    if mode == "cubic":
        said |= g.some(cubic_coeff_a=-0.5, exclude_outside=g.r.randrange(2))
    if g.opset >= 18 and mode == "linear" and g.chance(0.3):
        said["antialias"] = 1
    roi = "" if g.opset >= 13 or g.chance(0.5) else g.initializer(np.zeros(0, np.float32))
    if g.opset < 13 and roi == "":
        roi = g.initializer(np.zeros(0, np.float32))
    if g.chance(0.3):
        sizes = [max(1, int(d * s)) for d, s in zip(dims, scales)]
        return g.node("Resize", [x, roi, "" if g.opset >= 13 else g.initializer(np.zeros(0, np.float32)), g.ints(*sizes)], **said)
    return g.node("Resize", [x, roi, g.initializer(np.array(scales, np.float32))], **said)


@piece("TopK")
def top_k(g, x):
    axis = g.axis(len(g.dims(x)))
    n = g.r.randint(1, g.dims(x)[axis])
    said = {} if axis in (-1, len(g.dims(x)) - 1) and g.chance(0.5) else {"axis": axis}
    if g.opset < 10:
        return g.node("TopK", [x], [True, True], k=n, **said)[0]
    if g.opset >= 11:
        said |= g.some(largest=g.r.randrange(2), sorted=1)
    return g.node("TopK", [x, g.ints(n)], 2, **said)[0]


@piece("ArgMax")
def argmax(g, x):
    said = g.some(axis=g.axis(len(g.dims(x))), keepdims=g.r.randrange(2), select_last_index=g.r.randrange(2) if g.opset >= 12 else None)
    g.node("ArgMax", [x], **said)
    return x


@piece("CumSum")
def cumsum(g, x):
    need(g.opset >= 11 and g.dtype == np.float32)
    axis = g.initializer(np.array(g.axis(len(g.dims(x))), g.r.choice((np.int64, np.int32))))
    return g.node("CumSum", [x, axis], **g.some(exclusive=g.r.randrange(2), reverse=g.r.randrange(2)))


# windows


def windows(g, dims, dilations=True):
    """Attributes of a pool or a convolution over these spatial dims."""
    kernel = [g.r.randint(1, min(3, d)) for d in dims]
    said = {"strides": [g.r.randint(1, 2) for _ in dims] if g.chance(0.5) else None}
    if g.chance(0.25):
        said["auto_pad"] = g.r.choice(("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"))
    if said.get("auto_pad", "NOTSET") == "NOTSET" and g.chance(0.6):
        said["pads"] = [g.r.randint(0, k - 1) for k in kernel] + [g.r.randint(0, k - 1) for k in kernel]
    if dilations and g.chance(0.3):
        said["dilations"] = [g.r.randint(1, 2) for _ in dims]
    return kernel, said


@piece("AveragePool", "MaxPool", "GlobalAveragePool", weight=3)
def pool(g, x):
    dims = g.dims(x)
    need(len(dims) > 2)
    op = g.r.choice(("AveragePool", "MaxPool", "GlobalAveragePool"))
    if op == "GlobalAveragePool":
        return g.node(op, [x])
    kernel, said = windows(g, dims[2:], dilations=g.opset >= (19 if op == "AveragePool" else 10))
    if g.opset >= 10:
        said |= g.some(ceil_mode=g.r.randrange(2))
    if op == "AveragePool":
        return g.node(op, [x], kernel_shape=kernel, **said, **g.some(count_include_pad=g.r.randrange(2)))
    if g.chance(0.15):
        return g.node(op, [x], 2, kernel_shape=kernel, **said, **g.some(storage_order=g.r.randrange(2)))[0]
    return g.node(op, [x], kernel_shape=kernel, **said)


@piece("Conv", weight=4)
def conv(g, x):
    dims = g.dims(x)
    need(len(dims) > 2)
    c = dims[1]
    groups = g.r.choice([d for d in (1, 1, 2, 3, c) if c % d == 0])
    m = groups * g.r.choice((1, 2, 3))
    kernel, said = windows(g, dims[2:])
    inner = c // groups * int(np.prod(kernel))
    inputs = [x, g.weight(m, c // groups, *kernel, scale=inner**-0.5)]
    if g.chance(0.6):
        inputs.append(g.bias(m))
    said |= {"group": groups} if groups > 1 else g.some(group=1)
    return g.node("Conv", inputs, **said, **g.some(kernel_shape=kernel))


@piece("ConvTranspose", weight=2)
def conv_transpose(g, x):
    dims = g.dims(x)
    need(2 < len(dims) < 5)
    c = dims[1]
    groups = g.r.choice([d for d in (1, 1, 2, 3) if c % d == 0])
    kernel = [g.r.randint(1, 3) for _ in dims[2:]]
    m = g.r.choice((1, 2, 3))
    inputs = [x, g.weight(c, m, *kernel, scale=(c / groups) ** -0.5, axis=1)]
    if g.chance(0.6):
        inputs.append(g.bias(m * groups))
    said = {"group": groups} if groups > 1 else {}
    said |= g.some(strides=[g.r.randint(1, 2) for _ in kernel], dilations=[g.r.randint(1, 2) for _ in kernel])
    if g.chance(0.3):
        said["pads"] = [0] * len(kernel) + [k - 1 for k in kernel]
    return g.node("ConvTranspose", inputs, **said, **g.some(kernel_shape=kernel))


@piece("BatchNormalization", "InstanceNormalization", "LayerNormalization", weight=3)
def norm(g, x):
    dims = g.dims(x)
    op = g.r.choice(("BatchNormalization", "InstanceNormalization", "LayerNormalization"))
    if op == "LayerNormalization":
        need(g.opset >= 17)
        axis = g.r.choice((len(dims) - 1, g.r.randrange(len(dims))))
        need(np.prod(dims[axis:]) > 2)
        inputs = [x, g.node("Abs", [g.weight(*dims[axis:])]) if g.chance(0.2) else g.constant(1 + np.abs(g.normal(*dims[axis:])))]
        if g.chance(0.6):
            inputs.append(g.bias(*dims[axis:]))
        axis = axis - len(dims) if g.chance(0.4) else axis
        return g.node(op, inputs, **({} if axis == -1 and g.chance(0.5) else {"axis": axis}), **g.some(epsilon=1e-3, stash_type=1))
    need(len(dims) > 2 if op == "InstanceNormalization" else len(dims) > 1)
    c = dims[1]
    inputs = [x, g.constant(1 + np.abs(g.normal(c))), g.bias(c)]
    if op == "InstanceNormalization":
        need(np.prod(dims[2:]) > 2)
        return g.node(op, inputs, **g.some(epsilon=1e-3))
    inputs += [g.constant(g.normal(c)), g.constant(0.5 + np.abs(g.normal(c)))]
    return g.node(op, inputs, **g.some(epsilon=1e-3, momentum=0.8))


# products


@piece("MatMul", weight=4)
def matmul(g, x):
    dims = g.dims(x)
    d = dims[-1]
    how, n = g.r.randrange(8), g.r.choice((1, 3, 8))
    if how == 0:
        return g.node("MatMul", [x, g.weight(d, scale=d**-0.5)])
    if how == 1 and len(dims) > 1:
        return g.node("MatMul", [g.weight(n, dims[-2], scale=dims[-2] ** -0.5, axis=1), x])
    if how == 2 and len(dims) > 2:
        return g.node("MatMul", [x, g.weight(*dims[:-2], d, n, scale=d**-0.5)])
    if how == 3 and len(dims) > 1:
        perm = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
        return g.node("MatMul", [x, g.node("Transpose", [x], perm=perm)])
    if how == 4 and len(dims) > 1:
        w = g.node("Transpose", [g.weight(n, d, scale=d**-0.5)], perm=[1, 0])
        return g.node("MatMul", [x, w])
    y = g.node("MatMul", [x, g.weight(d, n, scale=d**-0.5, axis=1)])
    if g.chance(0.4):
        pair = [y, g.bias(n)]
        return g.node("Add", pair if g.chance(0.7) else pair[::-1])
    return y


@piece("Gemm", weight=3)
def gemm(g, x):
    if len(g.dims(x)) != 2:
        x = g.node("Flatten", [x])
    trans_a, trans_b, n = g.chance(0.15), g.chance(0.5), g.r.choice((1, 4, 7))
    m, d = g.dims(x)[::-1] if trans_a else g.dims(x)
    w = g.weight(n, d, scale=d**-0.5) if trans_b else g.weight(d, n, scale=d**-0.5, axis=1)
    said = ({"transA": 1} if trans_a else g.some(transA=0)) | ({"transB": 1} if trans_b else g.some(transB=0))
    said |= g.some(alpha=g.r.choice((1.0, 1.0, 0.5, 2.0, -1.0)), beta=g.r.choice((1.0, 1.0, 0.5, 2.0)))
    shape = g.r.choice((None, (n,), (n,), (1, n), (m, n), (m, 1), (), (1,)))
    if shape is None and g.opset < 11:
        shape = (n,)
    return g.node("Gemm", [x, w, *([] if shape is None else [g.bias(*shape)])], **said)


# what dynamic alone knows


@piece("LSTM", weight=2)
def lstm(g, x):
    need(g.dtype == np.float32)
    n = g.dims(x)[-1]
    x = g.node("Reshape", [x, g.ints(-1, g.r.choice((1, 2)), n)])
    h = g.r.choice((2, 3))
    direction = g.r.choice(("forward", "reverse", "bidirectional"))
    d = 2 if direction == "bidirectional" else 1
    batch = g.dims(x)[1]
    w, r = g.weight(d, 4 * h, n, scale=n**-0.5, axis=1), g.weight(d, 4 * h, h, scale=h**-0.5, axis=1)
    inputs = [x, w, r, g.bias(d, 8 * h) if g.chance(0.6) else ""]
    if g.chance(0.4):
        inputs += ["", g.given(g.normal(d, batch, h), "h"), g.given(g.normal(d, batch, h), "c")]
        if g.chance(0.5):
            inputs.append(g.weight(d, 3 * h, scale=0.3, axis=1))
    while inputs[-1] == "":
        inputs.pop()
    said = {} if direction == "forward" and g.chance(0.5) else {"direction": direction}
    said |= g.some(input_forget=g.r.randrange(2), clip=g.r.choice((None, 3.0)))
    if g.chance(0.2):
        said["activations"] = ["Sigmoid", "Tanh", "Relu"] * d
    wanted = g.r.choice(([True], [True, True, True], [False, True], [True, False, True]))
    y = g.node("LSTM", inputs, wanted, hidden_size=h, **said)
    return y if isinstance(y, str) else y[0]


@piece("Attention", weight=2)
def attention(g, x):
    """com.microsoft's."""
    need(g.dtype == np.float32)
    n = g.dims(x)[-1]
    heads, size = g.r.choice((1, 2)), 4
    x = g.node("Reshape", [x, g.ints(1, -1, n)])
    rows = g.dims(x)[1]
    need(rows < 30)
    w = g.weight(n, 3 * heads * size, scale=n**-0.5, axis=1)
    mask = g.r.choice(("", g.ints(rows - rows // 3, dtype=np.int32)))
    said = g.some(unidirectional=g.r.randrange(2), scale=g.r.choice((None, 0.3)), mask_filter_value=g.r.choice((None, -50.0)))
    inputs = [x, w, g.bias(3 * heads * size), *([mask] if mask else [])]
    return g.node("Attention", inputs, domain="com.microsoft", num_heads=heads, **said)


@piece("EmbedLayerNormalization", weight=2)
def embed(g, x):
    """com.microsoft's, whose rows are added to what is there."""
    need(g.dtype == np.float32)
    hidden, rows = g.dims(x)[-1], g.r.randint(1, 4)
    need(hidden > 2)
    ids = g.given(g.numbers.integers(0, 9, (1, rows)).astype(np.int32), "ids")
    segments = g.given(g.numbers.integers(0, 2, (1, rows)).astype(np.int32), "ids") if g.chance(0.5) else ""
    inputs = [ids, segments, g.weight(9, hidden, axis=1), g.weight(rows + 1, hidden, axis=1), g.weight(2, hidden, axis=1) if segments else "",
              g.constant(1 + np.abs(g.normal(hidden))), g.bias(hidden)]  # fmt: skip
    if g.chance(0.4):
        inputs.append(g.initializer(np.ones((1, rows), np.int32)))
    wanted = g.r.choice((2, 2, 3))
    y = g.node("EmbedLayerNormalization", inputs, wanted, domain="com.microsoft", **g.some(epsilon=1e-3))[0]
    return g.node("MatMul", [y, g.weight(hidden, 5, scale=hidden**-0.5, axis=1)]) if g.chance(0.5) else y


def random_model(seed, only=None, opset=None, dtype=None, n=None, leave=()):
    """`only`: names of pieces; `n`: how many."""
    r = random.Random(seed)
    opset = opset or r.choice(OPSETS)
    dtype = dtype or r.choice((np.float32, np.float32, np.float32, np.float16))
    g = Graph(seed, opset, dtype)
    rank = r.choice((1, 2, 2, 3, 3, 4, 4, 4, 5))
    dims = {1: (r.choice((4, 9)),), 2: (r.choice((1, 3)), r.choice((4, 6)))}.get(rank) or (
        r.choice((1, 1, 2)), r.choice((1, 2, 3, 4, 6)), *(r.randint(2, 6) for _ in range(rank - 2)))  # fmt: skip
    x = g.given(g.normal(*dims, scale=r.choice((1, 1, 3))) + g.dtype.type(r.choice((0, 0, 1))), "x")
    names = [name for name in (only or PIECES) if name not in leave]
    weights = [PIECES[name][2] for name in names]
    taken, wanted = [], n or r.randint(1, 5)
    for _ in range(12 * wanted):
        name, kept = r.choices(names, weights)[0], g.kept()
        try:
            x = PIECES[name][0](g, x)
        except (Refused, ValueError, IndexError, ZeroDivisionError):
            g.back(kept)
            continue
        taken.append(name)
        if len(taken) == wanted:
            break
    return Case(finished(g, x), dict(g.inputs), seed, taken)


def finished(g, x):
    """All that nobody reads is an output, and now and then more."""
    if x in g.inputs or x in g.tensors:
        x = g.node("Relu", [x])
    read = {n for node in g.nodes for n in node.input}
    made = [n for node in g.nodes for n in node.output if n]
    outputs = [n for n in made if n not in read or n == x or g.chance(0.1)]
    used = set(taken(g.nodes))
    g.inputs = {n: a for n, a in g.inputs.items() if n in used}
    info = lambda n: helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(g.values[n].dtype), g.dims(n))  # noqa: E731
    held = [numpy_helper.from_array(a, n) for n, a in g.tensors.items() if n in used]
    graph = helper.make_graph(g.nodes, "quantized", [info(n) for n in g.inputs], [info(n) for n in outputs], held)
    model = g.wrap(graph)
    onnx.checker.check_model(model)
    return model
