#!/usr/bin/env python3
"""Random small graphs with what makes optimizing graphs dangerous, and a judge of what came out of it.

    random_graphs.py --program 'build/plain/weir ... IN OUT' --exactness T COUNT [PIECE ...]     which graphs a program harms
    random_graphs.py --from SEED --save FILE 1 [PIECE ...]                                       one of them

`random_graph(seed)` gives a Case: a model of one to four pieces, one behind the other or side by side, three sets of inputs
for it, and the names of the hazards in it. A piece is a pattern of nodes that some rewrite looks for, sometimes as the rewrite
wants it and sometimes with that changed which it must ask for: another axis, a second consumer, an attribute, an initializer
that a caller may override. Constants are never all 0 or 1 by accident, inputs have negative numbers, 0 and -0, dims are 1, 2
and odd.

`compare(before, after, exactness, feeds)` runs both, without optimizations, and gives what is wrong, a line each:

  E   equal bits, but any NaN for any NaN
  Z   equal numbers: -0 for +0 too
  T   float32, float64: |difference| <= 1e-5 * largest + 1e-6 for each output; float16: 2e-3 of both; the rest equal
  M   a whole model: 1e-4 * largest + 1e-6, and cosine >= 1 - 1e-6

An output that differs when `before` runs twice is noise: it is not compared, but it must differ in `after` too.

A value that may differ under T is "soft": what jumps (Floor, casts to integers, comparisons) does not take it, since a
difference of one rounding could be a difference of one there.
"""

import argparse
import collections
import dataclasses
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

FLOAT = np.dtype(np.float32)
OPSETS = range(11, 24)


# ---- the judge


def session(model):
    """A session that changes nothing; `model` is a ModelProto or a path."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.disable_prepacking", "1")  # packed constants are multiplied in another order
    model = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _bits(array):
    return np.ascontiguousarray(array).reshape(-1).view(np.dtype(f"V{array.dtype.itemsize}"))


def _different(expected, got, exactness):
    """"" or how far two arrays of one dtype and shape are apart."""
    if expected.dtype.kind != "f":
        wrong = expected != got
    elif exactness in ("E", "Z"):
        equal = (_bits(expected) == _bits(got)).reshape(expected.shape) if exactness == "E" else expected == got
        wrong = ~(equal | (np.isnan(expected) & np.isnan(got)))
    else:
        return _too_far(expected.astype(np.float64), got.astype(np.float64), exactness, expected.dtype)
    if not np.any(wrong):
        return ""
    place = tuple(int(each) for each in np.argwhere(wrong)[0]) if expected.ndim else ()
    first = f"first at {place}: {expected[place]!r}, now {got[place]!r}"
    return f"{np.count_nonzero(wrong)} of {expected.size} elements differ, {first}"


def _too_far(expected, got, exactness, dtype):
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], got[~finite], equal_nan=True) or not np.all(np.isfinite(got[finite])):
        return "other infinities or NaNs"
    x, y = expected[finite], got[finite]
    if not x.size:
        return ""
    largest, off = float(np.abs(x).max()), float(np.abs(x - y).max())
    part = {"T": 1e-5, "M": 1e-4}[exactness]
    limit = 2e-3 * (largest + 1) if dtype == np.float16 else part * largest + 1e-6
    if off > limit:
        return f"off by {off:.3g} at a largest of {largest:.3g}"
    if exactness == "M" and (length := float(np.linalg.norm(x) * np.linalg.norm(y))):
        cosine = float(np.dot(x, y)) / length
        return "" if cosine >= 1 - 1e-6 else f"cosine {cosine}"
    return ""


def _differs_as_it_may(expected, got, exactness):
    if expected.dtype != got.dtype:
        return f"{expected.dtype} became {got.dtype}"
    if expected.shape != got.shape:
        return f"{expected.shape} became {got.shape}"
    return _different(expected, got, exactness)


def _noisy(first, second):
    return first.shape == second.shape and bool(_different(first, second, "E"))


def compare(before, after, exactness, feeds):
    """What is wrong with `after` in place of `before` (each a ModelProto or a path), a line each."""
    old = session(before)
    names = [each.name for each in old.get_outputs()]
    try:
        new = session(after)
    except Exception as error:  # whatever the runtime says of a model that it does not take
        return [f"it does not load: {str(error).splitlines()[0]}"]
    if [each.name for each in new.get_outputs()] != names:
        return [f"outputs {names} became {[each.name for each in new.get_outputs()]}"]
    wrong, noise = [], [False] * len(names)
    for number, feed in enumerate(feeds):
        expected = old.run(names, feed)
        try:
            got = new.run(names, feed)
            if number == 0:
                noise = [_noisy(*pair) for pair in zip(expected, old.run(names, feed))]
                again = new.run(names, feed) if any(noise) else got
        except Exception as error:
            return [*wrong, f"inputs {number}: it does not run: {str(error).splitlines()[0]}"]
        for place, name in enumerate(names):
            if noise[place]:
                text = "" if number or _noisy(got[place], again[place]) else "noise became a constant"
            else:
                text = _differs_as_it_may(expected[place], got[place], exactness)
            if text:
                wrong.append(f"inputs {number}: {name}: {text}")
    return wrong


# ---- graphs


@dataclasses.dataclass(frozen=True)
class Value:
    name: str
    dims: tuple
    dtype: np.dtype = FLOAT
    soft: bool = False


@dataclasses.dataclass
class Case:
    model: onnx.ModelProto
    feeds: list  # of {input: array}: ordinary numbers; zeros of both signs; initializers overridden
    hazards: collections.Counter
    pieces: list


def taken(nodes):
    """Names of the values that nodes and their bodies take."""
    rest = list(nodes)
    while rest:
        node = rest.pop()
        yield from node.input
        for attribute in node.attribute:
            rest += attribute.g.node


class Graph:
    """A graph that grows. Methods named after operators take what the operator's version of this opset takes."""

    def __init__(self, seed, opset=None):
        self.random, self.noise = random.Random(seed), np.random.Generator(np.random.PCG64(seed))
        self.opset = opset or self.random.choice(OPSETS)
        self.nodes, self.initializers, self.inputs, self.overrides = [], [], {}, {}
        self.values, self.inner, self.ends, self.kept = [], [], [], []
        self.hazards, self.count = collections.Counter(), 0
        self.functions = []
        self.calm = self.chance(0.5)  # constants are constants and nothing else

    # -- choices

    def chance(self, part):
        return self.random.random() < part

    def pick(self, *options):
        return self.random.choice(options)

    def hazard(self, name):
        self.hazards[name] += 1

    def size(self):
        return self.pick(1, 2, 3, 3, 5, 7)

    def dims(self, rank):
        return tuple(self.size() for _ in range(rank))

    # -- values

    def name(self, stem):
        self.count += 1
        return f"{stem.lower()}_{self.count}"

    def input(self, dims, dtype=FLOAT, declared=None, names=None):
        """An input, whose dims are sometimes symbols; `names`: what some sizes are called, {} for numbers alone."""
        name = self.name("x")
        if names is not None:
            declared = [names.get(size, size) for size in dims]
        declared = declared or [self.pick(size, f"{name}_{axis}") for axis, size in enumerate(dims)]
        value = Value(name, tuple(dims), np.dtype(dtype))
        self.inputs[name] = (value, declared)
        self.values.append(value)
        return value

    def shared_names(self, *sizes):
        """What inputs may call dims that they share; or numbers; or nobody says that they are equal."""
        way = self.pick("names", "names", "numbers", "numbers", "unsaid")
        return {"unsaid": None, "numbers": {}, "names": {size: self.name("n") for size in sizes if size > 1}}[way]

    def take(self, rank=None, soft=True, least=1):
        """A float value of that rank made before, or an input; not soft for what jumps."""
        fit = [
            value
            for value in self.values[-4:]
            if value.dtype == FLOAT
            and rank in (None, len(value.dims))
            and (soft or not value.soft)
            and all(size >= least for size in value.dims)
            and np.prod(value.dims) <= 3000
        ]
        if fit and self.chance(0.8):
            return self.random.choice(fit)
        rank = self.random.randint(1, 4) if rank is None else rank
        return self.input(tuple(max(least, size) for size in self.dims(rank)))

    def numbers(self, dims, low=None):
        """Random numbers, none 0 or 1; from `low` on if there is a bound."""
        found = self.noise.standard_normal(dims) * 0.7 + 0.05
        return (found if low is None else low + np.abs(found)).astype(np.float32)

    def constant(self, array, fixed=False, plain=False):
        """A constant in one of its guises. `fixed`: what it says must stay; `plain`: no caller may give another."""
        array = np.asarray(array)
        name = self.name("c")
        tensor = numpy_helper.from_array(array, name)
        guise = self.pick("initializer", "initializer", "constant")
        if not self.calm and self.chance(0.15):
            guise = self.pick("identity", "override")
        value = Value(name, array.shape, array.dtype)
        if guise == "override" and not plain:
            self.hazard("overridable initializer")
            self.initializers.append(tensor)
            self.overrides[name] = array
            if not fixed and array.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    self.overrides[name] = np.asarray(array * 1.25 + 0.125, array.dtype)
            return value
        if guise == "constant":
            self.nodes.append(helper.make_node("Constant", [], [name], **self.constant_form(array, tensor)))
            return value
        self.initializers.append(tensor)
        if guise == "identity":
            self.hazard("Identity of an initializer")
            return self.node("Identity", [value], array.shape, array.dtype)
        return value

    def constant_form(self, array, tensor):
        forms = {("i", 0): "value_int", ("i", 1): "value_ints", ("f", 0): "value_float", ("f", 1): "value_floats"}
        form = forms.get((array.dtype.kind, array.ndim)) if array.dtype in (np.int64, np.float32) else None
        if form and array.size and self.opset >= 12 and self.chance(0.4):
            self.hazard("Constant without a tensor")
            return {form: array.tolist()}
        return {"value": tensor}

    def ints(self, *numbers, dims=None):
        return self.constant(np.array(numbers, np.int64).reshape((len(numbers),) if dims is None else dims), fixed=True)

    def weight(self, *dims, low=None):
        return self.constant(self.numbers(dims, low))

    def node(self, op_type, inputs, dims, dtype=None, outputs=1, soft=None, domain="", **attributes):
        """Append a node; gives its first output, with these dims."""
        first = next((each for each in inputs if each is not None), None)
        name = self.name(op_type)
        names = [name, *(f"{name}_{more}" for more in range(1, outputs))]
        spelled = ["" if each is None else each.name for each in inputs]
        label = self.pick("", f"/{name}")
        self.nodes.append(helper.make_node(op_type, spelled, names, name=label, domain=domain, **attributes))
        if soft is None:
            soft = any(each.soft for each in inputs if each is not None)
        value = Value(name, tuple(dims), np.dtype(dtype or (first.dtype if first else FLOAT)), soft)
        self.inner.append(value)
        return value

    def soften(self, value):
        return dataclasses.replace(value, soft=True)

    def give(self, *values):
        """The piece's results: others may go on with them."""
        for value in values:
            self.values.append(value)
            self.ends.append(value)

    def also(self, value, hazard="second consumer"):
        """Sometimes an inner value has another use, which a fusion must see."""
        if not self.chance(0.2):
            return
        self.hazard(hazard)
        if self.chance(0.5):
            self.kept.append(value)
        else:
            self.give(self.node("Neg", [value], value.dims))

    # -- operators whose form depends on the version

    def unary(self, op_type, x, dtype=None, **attributes):
        return self.node(op_type, [x], x.dims, dtype, **attributes)

    def binary(self, op_type, x, y, dtype=None):
        pair = [x, y]
        if op_type in ("Add", "Mul", "And", "Or", "Equal") and self.chance(0.4):
            pair.reverse()
        return self.node(op_type, pair, np.broadcast_shapes(x.dims, y.dims), dtype or x.dtype)

    def by(self, op_type, x, number):
        """x with a scalar, in one of the dims that a scalar is written in."""
        rank = self.pick(0, 0, 1, len(x.dims))
        return self.binary(op_type, x, self.constant(np.full((1,) * min(rank, len(x.dims)), number, x.dtype)))

    def axes(self, op_type, x, axes, dims, **attributes):
        """Squeeze, Unsqueeze, reductions: axes are an attribute or an input."""
        if self.chance(0.4):
            rank = len(dims) if op_type == "Unsqueeze" else len(x.dims)
            axes = [axis - rank for axis in axes]
        since = 13 if op_type in ("Squeeze", "Unsqueeze", "ReduceSum") else 18
        if self.opset >= since:
            return self.node(op_type, [x, self.ints(*axes)], dims, **attributes)
        return self.node(op_type, [x], dims, axes=list(axes), **attributes)

    def unsqueeze(self, x, axis):
        return self.axes("Unsqueeze", x, [axis], (*x.dims[:axis], 1, *x.dims[axis:]))

    def reduce(self, op_type, x, axis, keepdims=True):
        dims = [*x.dims]
        dims[axis : axis + 1] = [1] if keepdims else []
        return self.axes(op_type, x, [axis], dims, keepdims=int(keepdims))

    def transpose(self, x, perm):
        return self.node("Transpose", [x], [x.dims[axis] for axis in perm], perm=list(perm))

    def reshape(self, x, dims, target=None):
        return self.node("Reshape", [x, self.ints(*(target or dims))], dims)

    def cast(self, x, dtype):
        return self.node("Cast", [x], x.dims, dtype, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def slice(self, x, axis, start, end, step=1):
        length = len(range(*slice(start, end, step).indices(x.dims[axis])))
        dims = (*x.dims[:axis], length, *x.dims[axis + 1 :])
        axis = self.pick(axis, axis - len(x.dims))
        inputs = [x, self.ints(start), self.ints(end), self.ints(axis)]
        return self.node("Slice", inputs + ([self.ints(step)] if step != 1 or self.chance(0.3) else []), dims)

    def concat(self, values, axis):
        dims = list(values[0].dims)
        dims[axis] = sum(value.dims[axis] for value in values)
        soft = any(value.soft for value in values)
        return self.node("Concat", values, dims, soft=soft, axis=self.pick(axis, axis - len(dims)))

    def clip(self, x, low, high):
        bounds = [None if each is None else self.constant(np.array(each, x.dtype)) for each in (low, high)]
        return self.node("Clip", [x, *bounds], x.dims)

    def norm(self, x, channels, **attributes):
        """A BatchNormalization with statistics that no fold may take for granted."""
        gain = self.constant(self.numbers((channels,)))
        bias, mean = self.weight(channels), self.weight(channels)
        var = self.weight(channels, low=0.3)
        if self.chance(0.7):
            attributes["epsilon"] = self.pick(1e-5, 1e-3, 0.1)
        return self.node("BatchNormalization", [x, gain, bias, mean, var], x.dims, soft=True, **attributes)

    # -- convolutions

    def conv(self, x, transposed=False):
        """A Conv or ConvTranspose of x [n, c, spatial...], with all that it may have."""
        rank, channels = len(x.dims) - 2, x.dims[1]
        group = self.pick(*(each for each in (1, 1, channels, 3) if channels % each == 0))
        out = group * self.pick(1, 2, 3)
        kernel = [self.pick(1, min(3, size), min(2, size)) for size in x.dims[2:]]
        strides = [self.pick(1, 1, 2) for _ in kernel]
        pads = [self.pick(0, 0, 1) if size > 1 else 0 for size in kernel] * 2
        attributes = {"kernel_shape": kernel} if self.chance(0.5) else {}
        attributes |= {"strides": strides} if strides != [1] * rank else {}
        attributes |= {"pads": pads} if any(pads) else {}
        attributes |= {"group": group} if group > 1 else {}
        if transposed:
            sizes = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(x.dims[2:], strides, kernel, pads)]
            dims = (channels, out // group, *kernel)
        else:
            sizes = [(n + 2 * p - k) // s + 1 for n, s, k, p in zip(x.dims[2:], strides, kernel, pads)]
            dims = (out, channels // group, *kernel)
        if min(sizes) < 1:
            attributes.pop("pads", None)
            return self.conv_plain(x, transposed)
        if group > 1:
            self.hazard("ConvTranspose with groups" if transposed else "Conv with groups")
        inputs = [x, self.weight(*dims)]
        if self.chance(0.5):
            inputs.append(self.weight(out))
        op_type = "ConvTranspose" if transposed else "Conv"
        return self.node(op_type, inputs, (x.dims[0], out, *sizes), soft=True, **attributes)

    def conv_plain(self, x, transposed):
        out = self.pick(1, 3)
        dims = (x.dims[1], out) if transposed else (out, x.dims[1])
        weight = self.weight(*dims, *[1] * (len(x.dims) - 2))
        return self.node("ConvTranspose" if transposed else "Conv", [x, weight], (x.dims[0], out, *x.dims[2:]), soft=True)

    # -- the model

    def finish(self):
        outputs = list(self.ends if self.chance(0.6) else self.ends[-2:])
        outputs += self.kept
        if self.inner and self.chance(0.15):
            self.hazard("inner value is an output")
            outputs.append(self.random.choice(self.inner))
        outputs = list({value.name: value for value in outputs}.values())
        if self.chance(0.1):
            self.hazard("dead node")
            x = self.random.choice(self.values)
            self.nodes.append(helper.make_node("Identity", [x.name], [self.name("dead")]))
        if set(self.inputs) - set(taken(self.nodes)):
            self.hazard("input that nothing takes")
        given = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), declared)
            for name, (value, declared) in self.inputs.items()
        ]
        by_name = {tensor.name: tensor for tensor in self.initializers}
        given += [
            helper.make_tensor_value_info(name, by_name[name].data_type, list(by_name[name].dims)) for name in self.overrides
        ]
        results = [
            helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(value.dtype), [None] * len(value.dims))
            for value in outputs
        ]
        graph = helper.make_graph(self.nodes, "random", given, results, self.initializers)
        opsets = [helper.make_opsetid("", self.opset)]
        if self.functions:
            opsets.append(helper.make_opsetid("local", 1))
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=self.functions)
        if self.chance(0.3):
            model = onnx.shape_inference.infer_shapes(model)
        return model

    def feeds(self):
        ordinary, special = {}, {}
        for name, (value, _) in self.inputs.items():
            ordinary[name] = special[name] = np.asarray(self.noise.integers(0, 2, value.dims), value.dtype)
            if value.dtype.kind == "f":
                ordinary[name] = np.asarray(self.noise.standard_normal(value.dims), value.dtype)
                special[name] = np.asarray(-np.abs(self.noise.standard_normal(value.dims)), value.dtype)
                zeros = self.noise.integers(0, 4, value.dims)
                special[name][zeros == 0] = -0.0
                special[name][zeros == 1] = 0.0
        return [ordinary, special, *([{**ordinary, **self.overrides}] if self.overrides else [])]


# ---- pieces: a function each, of the graph


PIECES = {}


def piece(since=11, weight=1):
    def keep(function):
        PIECES[function.__name__] = (function, since, weight)
        return function

    return keep


@piece(weight=2)
def conv_norm(g):
    """Conv or ConvTranspose, BatchNormalization."""
    x = g.take(rank=g.pick(3, 4))
    y = g.conv(x, transposed=g.chance(0.35))
    g.also(y)
    y = g.norm(y, y.dims[1])
    g.hazard("BatchNormalization behind Conv")
    g.give(g.unary("Relu", y) if g.chance(0.4) else y)


@piece()
def conv_norm_shared(g):
    """Two Convs with one weight, one of which is normalized."""
    x = g.take(rank=4)
    out = g.pick(1, 3)
    w, b = g.weight(out, x.dims[1], 1, 1), g.weight(out)
    dims = (x.dims[0], out, *x.dims[2:])
    first, second = (g.node("Conv", [x, w, b], dims, soft=True) for _ in range(2))
    g.hazard("shared weight")
    g.give(g.norm(first, out), second)


@piece()
def norm_first(g):
    """BatchNormalization before Conv: nothing to fold into what comes before it."""
    x = g.take(rank=4)
    g.give(g.conv(g.norm(x, x.dims[1])))


@piece(since=14)
def norm_of_training(g):
    """BatchNormalization by the statistics of what comes in."""
    x = g.input((g.pick(2, 3), g.pick(1, 3), 5))
    y = g.conv_plain(x, False)
    g.hazard("BatchNormalization in training")
    channels = y.dims[1]
    inputs = [y, *(g.weight(channels) for _ in range(3)), g.weight(channels, low=0.3)]
    y = g.node("BatchNormalization", inputs, y.dims, outputs=3, soft=True, training_mode=1)
    g.give(y)
    g.kept += [Value(f"{y.name}_{number}", (channels,)) for number in (1, 2)]


@piece(weight=2)
def gemm_norm(g):
    x = g.take(rank=2)
    n = g.size()
    flipped = g.chance(0.5)
    w = g.weight(n, x.dims[1]) if flipped else g.weight(x.dims[1], n)
    attributes = {"transB": 1} if flipped else {}
    if g.chance(0.3):
        g.hazard("Gemm with alpha, beta")
        attributes |= {"alpha": 0.5, "beta": 2.0}
    bias = g.pick(None, (n,), (1, n), (1,), (x.dims[0], n), (x.dims[0], 1))
    y = g.node("Gemm", [x, w] + ([] if bias is None else [g.weight(*bias)]), (x.dims[0], n), soft=True, **attributes)
    g.also(y)
    g.hazard("BatchNormalization behind Gemm")
    g.give(g.norm(y, n))


@piece(weight=2)
def matmul_norm(g):
    """MatMul, BatchNormalization over N, or over another axis of the same size."""
    kind = g.pick("rank 2", "rows are channels", "transposed", "reshaped")
    n = g.pick(2, 3, 5)
    if kind == "rank 2":
        x = g.take(rank=2)
        y = g.node("MatMul", [x, g.weight(x.dims[1], n)], (x.dims[0], n), soft=True)
        g.also(y)
        return g.give(g.norm(y, n))
    x = g.input((g.pick(1, 2), n, g.pick(n, n, 3)))
    y = g.node("MatMul", [x, g.weight(x.dims[2], n)], (x.dims[0], n, n), soft=True)
    g.hazard(f"channel axis is not N: {kind}")
    if kind == "transposed":
        y = g.transpose(y, [0, 2, 1])
    if kind == "reshaped":
        y = g.reshape(y, (x.dims[0] * n, n, 1), target=(-1, n, 1))
    y = g.norm(y, y.dims[1])
    if kind == "reshaped" or g.chance(0.5):
        return g.give(y)
    g.give(g.node("MatMul", [y, g.weight(y.dims[2], 3)], (*y.dims[:2], 3), soft=True))


@piece(weight=2)
def conv_affine(g):
    """Conv, then Mul, Add, Sub, Div by a constant: a channel's, a scalar, or one along another axis."""
    x = g.take(rank=4)
    y = g.conv(x)
    g.also(y)
    n, channels, height, width = y.dims
    options = {
        "channel": (1, channels, 1, 1), "channel without batch": (channels, 1, 1), "scalar": (), "one": (1,),
        "not by channel: width": (width,), "not by channel: plane": (1, 1, height, width),
        "not by channel: batch": (n, 1, 1, 1), "larger rank": (1, 1, channels, 1, 1),
    }  # fmt: skip
    for _ in range(g.pick(1, 2)):
        if len(y.dims) > 4:
            break
        kind = g.random.choice(list(options))
        dims = options[kind]
        if kind.startswith(("not", "larger")):
            g.hazard(f"affine {kind}")
        constant = g.weight(*dims, low=0.4)
        y = g.binary(g.pick("Mul", "Add", "Sub", "Div"), y, constant)
    g.give(y)


@piece(weight=3)
def pad_window(g):
    """Pad before Conv, MaxPool, AveragePool."""
    x = g.input((g.pick(1, 2), 3, g.pick(3, 5, 7), g.pick(5, 7))) if g.chance(0.5) else g.take(rank=4, least=3)
    mode, value = g.pick(*[("constant", 0)] * 6, ("constant", 0.5), ("reflect", 0), ("edge", 0))
    pads = [0, 0, g.pick(0, 1), g.pick(0, 1, 1, 2), 0, 0, g.pick(0, 1), 1]
    if mode == "constant" and g.chance(0.1):
        g.hazard("Pad of channels")
        pads[1] = 1
    if mode == "constant" and g.chance(0.1):
        g.hazard("Pad that cuts")
        pads[7] = -1
    if (mode, value) != ("constant", 0):
        g.hazard("Pad without zeros")
    dims = [size + pads[axis] + pads[4 + axis] for axis, size in enumerate(x.dims)]
    if g.opset >= 18 and g.chance(0.4):
        axes = [axis for axis in range(4) if pads[axis] or pads[4 + axis]]
        inputs = [x, g.ints(*(pads[axis] for axis in axes), *(pads[4 + axis] for axis in axes)), None, g.ints(*axes)]
        if value:
            inputs[2] = g.constant(np.array(value, np.float32))
    else:
        inputs = [x, g.ints(*pads)]
        if mode == "constant" and (value or g.chance(0.5)):
            inputs.append(g.constant(np.array(value, np.float32)))
    attributes = {"mode": mode} if mode != "constant" or g.chance(0.3) else {}
    y = g.node("Pad", inputs, dims, **attributes)
    g.also(y)
    kind = g.pick("Conv", "Conv", "MaxPool", "MaxPool", "AveragePool", "AveragePool")
    if kind == "Conv":
        g.hazard("Pad before Conv")
        auto = g.pick("NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER")
        if auto != "NOTSET":
            weight = g.weight(2, dims[1], 3, 2)
            sizes = dims[2:] if auto == "SAME_UPPER" else [dims[2] - 2, dims[3] - 1]
            return g.give(g.node("Conv", [y, weight], (dims[0], 2, *sizes), soft=True, auto_pad=auto))
        return g.give(g.conv(y))
    g.hazard(f"Pad before {kind}")
    attributes = {"kernel_shape": [3, g.pick(2, min(3, dims[3]))], "strides": [g.pick(1, 2), g.pick(1, 2)], "ceil_mode": g.pick(0, 1)}
    more = [g.pick(0, 1), 0, g.pick(0, 1), 0]
    if any(more):
        attributes["pads"] = more
    if kind == "AveragePool":
        attributes["count_include_pad"] = g.pick(0, 1)
    sizes = []
    for axis in range(2):
        room = dims[2 + axis] + more[axis] + more[2 + axis] - attributes["kernel_shape"][axis]
        stride = attributes["strides"][axis]
        size = (-(-room // stride) if attributes["ceil_mode"] else room // stride) + 1
        if attributes["ceil_mode"] and (size - 1) * stride >= dims[2 + axis] + more[axis]:
            size -= 1
        sizes.append(size)
    g.give(g.node(kind, [y], (*dims[:2], *sizes), soft=True if kind == "AveragePool" else None, **attributes))


@piece(weight=2)
def transposes(g):
    x = g.take(rank=g.pick(2, 3, 4))
    y = x
    for _ in range(g.pick(2, 2, 3)):
        perm = list(range(len(x.dims)))
        g.random.shuffle(perm)
        y = g.transpose(y, perm)
        g.also(y)
        way = g.pick("", "", "unary", "bias", "softmax", "reduce")
        if way == "unary":
            y = g.unary(g.pick("Relu", "Neg", "Abs"), y)
        elif way == "bias":
            g.hazard("constant by axis between Transposes")
            y = g.binary("Add", y, g.weight(y.dims[-1]))
        elif way == "softmax":
            g.hazard("axis between Transposes")
            y = g.unary("Softmax", y, soft=True, axis=-1)
        elif way == "reduce" and len(y.dims) > 1:
            g.hazard("axis between Transposes")
            y = g.reduce("ReduceMax", y, g.random.randrange(len(y.dims)))
    if g.chance(0.4):
        y = g.node("Transpose", [y], y.dims[::-1])
    g.give(y)


def _behind(perm):
    """What undoes a Transpose."""
    return [perm.index(axis) for axis in range(len(perm))]


@piece(weight=3)
def sinks(g):
    """A Transpose, what it may go through, and what undoes it, or not quite."""
    x = g.take(rank=g.pick(2, 3, 4))
    perm = list(range(len(x.dims)))
    g.random.shuffle(perm)
    y = g.transpose(x, perm)
    g.also(y)
    axis, back = g.random.randrange(len(y.dims)), list(perm)
    way = g.pick("concat", "concat", "concat", "pad", "pad", "slice", "softmax", "squeeze", "unsqueeze", "reduce", "reduce", "arg", "gather", "clip", "where")
    if way == "clip":
        y = g.clip(y, -0.5, g.pick(0.5, 0.5, None))
    elif way == "where":
        g.hazard("constant by axis between Transposes")
        dims = g.pick(y.dims, y.dims[-1:], (y.dims[0], *(1 for _ in y.dims[1:])))
        condition = g.constant(g.numbers(dims) > 0)
        y = g.node("Where", [condition, y, g.weight(*g.pick((), y.dims[-1:]))], y.dims, FLOAT, soft=y.soft)
    elif way == "concat":
        parts = [y]
        for _ in range(g.pick(1, 1, 2)):
            part = g.pick("alike", "alike", "constant", "other")
            if part == "alike":
                parts.append(g.transpose(g.input(x.dims), perm))
                g.values.pop()
            elif part == "constant":
                parts.append(g.weight(*y.dims))
            else:
                g.hazard("not transposed alike")
                parts.append(g.input(y.dims))
                g.values.pop()
        if g.chance(0.2):
            parts.append(y)
        g.random.shuffle(parts)
        y = g.concat(parts, axis)
    elif way == "pad":
        begin, end = [g.pick(0, 1, 2) for _ in y.dims], [g.pick(0, 0, 1) for _ in y.dims]
        mode = g.pick("constant", "constant", "edge")
        value = [g.constant(np.array(g.pick(-1.5, 0), np.float32))] if mode == "constant" and g.chance(0.5) else []
        if g.opset >= 18 and g.chance(0.5):
            g.hazard("Pad with axes")
            axes = g.random.sample(range(len(y.dims)), g.random.randint(1, len(y.dims)))
            pads = [begin[each] for each in axes] + [end[each] for each in axes]
            dims = [size + (begin[each] + end[each] if each in axes else 0) for each, size in enumerate(y.dims)]
            y = g.node("Pad", [y, g.ints(*pads), *(value or [None]), g.ints(*(each - g.pick(0, len(dims)) for each in axes))], dims, mode=mode)
        else:
            y = g.node("Pad", [y, g.ints(*begin, *end), *value], [sum(each) for each in zip(y.dims, begin, end)], mode=mode)
    elif way == "slice":
        y = g.slice(y, axis, g.pick(0, -1), 1 << 31)
    elif way == "softmax":
        if g.opset < 13:
            axis = len(y.dims) - 1  # earlier versions take all axes from that one on for one
        y = g.unary(g.pick("Softmax", "LogSoftmax"), y, soft=True, axis=axis - (len(y.dims) if g.opset >= 13 and g.chance(0.5) else 0))
    elif way == "squeeze" and 1 in y.dims:
        axis = y.dims.index(1)
        y = g.axes("Squeeze", y, [axis], (*y.dims[:axis], *y.dims[axis + 1 :]))
        back = [each - (each > perm[axis]) for place, each in enumerate(perm) if place != axis]
    elif way == "unsqueeze":
        y = g.unsqueeze(y, axis)
        back = [each + (each >= axis) for each in perm]
        back.insert(axis, axis)
    elif way == "reduce":
        kept = int(g.chance(0.6))
        y = g.reduce(g.pick("ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum"), y, axis, keepdims=kept)
        if not kept:
            back = [each - (each > perm[axis]) for place, each in enumerate(perm) if place != axis]
    elif way == "arg" and not x.soft:
        dims = (*y.dims[:axis], 1, *y.dims[axis + 1 :])
        y = g.cast(g.node(g.pick("ArgMax", "ArgMin"), [y], dims, np.int64, axis=axis, keepdims=1), np.float32)
    elif way == "gather":
        y = g.node("Gather", [y, g.constant(np.array(-1), fixed=True)], (*y.dims[:axis], *y.dims[axis + 1 :]), axis=axis)
        back = [each - (each > perm[axis]) for place, each in enumerate(perm) if place != axis]
    g.also(y)
    if len(y.dims) > 1 and g.chance(0.8):
        y = g.transpose(y, _behind(back) if g.chance(0.7) else g.random.sample(range(len(back)), len(back)))
    g.give(y)


@piece(weight=2)
def reshapes(g):
    x = g.take(rank=g.pick(2, 3, 4))
    y = x
    for _ in range(g.pick(2, 3)):
        way = g.pick("flat", "zeros", "split", "flatten", "unsqueeze", "squeeze")
        size = int(np.prod(y.dims))
        if way == "flat":
            y = g.reshape(y, (size,), target=(-1,))
        elif way == "zeros" and len(y.dims) >= 2:
            g.hazard("Reshape with 0")
            dims = (y.dims[0], size // y.dims[0])
            y = g.reshape(y, dims, target=g.pick((0, -1), (0, dims[1])))
        elif way == "split":
            y = g.reshape(y, (1, y.dims[0], size // y.dims[0], 1), target=(1, y.dims[0], -1, 1))
        elif way == "flatten":
            axis = g.random.randint(0, len(y.dims))
            first = int(np.prod(y.dims[:axis]))
            y = g.node("Flatten", [y], (first, size // first), axis=axis)
        elif way == "unsqueeze":
            y = g.unsqueeze(y, g.random.randint(0, len(y.dims)))
        elif way == "squeeze" and 1 in y.dims:
            axis = y.dims.index(1)
            y = g.axes("Squeeze", y, [axis], (*y.dims[:axis], *y.dims[axis + 1 :]))
        g.also(y)
    if g.opset >= 14 and g.chance(0.3):
        g.hazard("Reshape with allowzero")
        y = g.node("Reshape", [y, g.ints(*y.dims)], y.dims, allowzero=1)
    if y is not x:
        g.give(y)


@piece(weight=2)
def slices(g):
    x = g.take(rank=g.pick(1, 2, 3), least=2)
    y = x
    for _ in range(g.pick(1, 2, 3)):
        axis = g.random.randrange(len(y.dims))
        size = y.dims[axis]
        way = g.pick("all", "beginning", "end", "short axis", "backwards", "steps")
        if way == "all":
            y = g.slice(y, axis, 0, g.pick(size, 1 << 31, (1 << 63) - 1, 100))
        elif way == "beginning":
            y = g.slice(y, axis, 0, max(1, size - 1))
        elif way == "end":
            y = g.slice(y, axis, g.pick(-1, -size), (1 << 63) - 1)
        elif way == "short axis":
            g.hazard("Slice beyond a short axis")
            y = g.slice(y, axis, -size - 3, size + 3)
        elif way == "backwards":
            g.hazard("Slice backwards")
            y = g.slice(y, axis, -1, -size - 1, -1)
        else:
            y = g.slice(y, axis, 0, 1 << 31, 2)
    g.give(y if y is not x else g.slice(x, 0, 0, 1))


@piece(weight=2)
def concats(g):
    """Concat of Concat, of slices that are neighbours or not, of one; Split and Concat."""
    x = g.take(rank=g.pick(2, 3))
    other = g.input(x.dims)
    axis = g.random.randrange(len(x.dims))
    way = g.pick("nested", "nested", "slices", "one", "split")
    if way == "nested":
        inner = axis if g.chance(0.6) else (axis + 1) % len(x.dims)
        first = g.concat([x, other], inner)
        g.also(first)
        if inner != axis:
            g.hazard("Concat of Concat, other axis")
        return g.give(g.concat([first, first if g.chance(0.5) or inner != axis else x], axis))
    if way == "one":
        return g.give(g.concat([x], axis))
    size = x.dims[axis]
    if way == "slices" or size < 2 or g.opset < 13:
        cut = max(1, size // 2)
        parts = [g.slice(x, axis, 0, cut), g.slice(x, axis, cut, size)] if size > 1 else [g.slice(x, axis, 0, 1)]
        if g.chance(0.4):
            g.hazard("slices in another order")
            parts.reverse()
        return g.give(g.concat(parts, axis))
    lengths = (1, size - 1)
    first = g.node("Split", [x, g.ints(*lengths)], (*x.dims[:axis], 1, *x.dims[axis + 1 :]), outputs=2, axis=axis)
    second = Value(f"{first.name}_1", (*x.dims[:axis], size - 1, *x.dims[axis + 1 :]), FLOAT, x.soft)
    g.give(g.concat([first, second] if g.chance(0.6) else [second, first], axis))


@piece(weight=2)
def casts(g):
    x = g.take(soft=False)
    y = x
    for dtype in g.pick(
        (np.float64, np.float32), (np.float32,), (np.float16, np.float32), (np.float64, np.float16, np.float32),
        (np.int32, np.float32), (np.int64, np.int32, np.float32), (np.bool_, np.float32), (np.int32, np.int8, np.float32),
        (np.float64, np.int64, np.float64, np.float32),
    ):  # fmt: skip
        if np.dtype(dtype).kind != y.dtype.kind or np.dtype(dtype).itemsize < y.dtype.itemsize:
            g.hazard("Cast that loses")
        y = g.cast(y, dtype)
        if y.dtype.kind != "b" and y.dtype != np.float16:
            g.also(y)
    g.give(y)


@piece(weight=2)
def twice(g):
    """What is the same if done twice, and what is not."""
    x = g.take(soft=False)
    op_type = g.pick("Relu", "Floor", "Ceil", "Round", "Sign", "Abs", "Neg", "Reciprocal", "Sqrt", "Not")
    if op_type == "Not":
        y = g.node("Greater", [x, g.weight(1)], x.dims, np.bool_)
        for _ in range(g.pick(1, 2, 3)):
            y = g.unary("Not", y)
        if g.chance(0.5):
            g.hazard("Where of Not")
            return g.give(g.node("Where", [y, x, g.weight(1)], x.dims, FLOAT))
        return g.give(g.cast(y, np.float32))
    y = g.unary(op_type, x)
    g.also(y)
    if op_type in ("Reciprocal", "Sqrt"):
        g.hazard("not the same twice")
    g.give(g.unary(op_type, y))


@piece(weight=2)
def clips(g):
    x = g.take()
    y = x
    for _ in range(g.pick(2, 3)):
        way = g.pick("Relu", "Clip", "Min", "Max", "empty")
        if way == "Relu":
            y = g.unary("Relu", y)
        elif way == "Clip":
            low, high = g.pick((0.0, 6.0), (-0.5, 0.25), (None, 1.0), (0.1, None), (-0.3, 0.3))
            y = g.clip(y, low, high)
        elif way == "empty":
            g.hazard("Clip with min above max")
            y = g.clip(y, 0.5, -0.5)
        else:
            number = g.pick(0.0, 0.5, -0.25)
            y = g.node(way, [y, g.constant(np.array(number, np.float32))], y.dims)
        g.also(y)
    g.give(y)


@piece(weight=3)
def nothings(g):
    """What does nothing, and what only seems to."""
    x = g.take()
    way = g.pick("Mul", "Div", "Sub", "Add", "Add", "Pow", "enlarged", "zero", "reversed", "Expand", "Pad", "Identity",
                 "Dropout")  # fmt: skip
    if way in ("Mul", "Div", "Sub", "Add", "Pow"):
        g.hazard("x + 0" if way == "Add" else "arithmetic without effect")
        return g.give(g.by(way, x, {"Mul": 1, "Div": 1, "Sub": 0, "Add": g.pick(0.0, -0.0), "Pow": 1}[way]))
    if way == "enlarged":
        g.hazard("1 or 0 that enlarges the result")
        op_type, number = g.pick(("Mul", 1), ("Add", 0), ("Sub", 0), ("Div", 1))
        dims = (1,) * (len(x.dims) + 1) if g.chance(0.5) or len(x.dims) == 4 else (2, *x.dims)
        return g.give(g.binary(op_type, x, g.constant(np.full(dims, number, np.float32))))
    if way == "zero":
        g.hazard("x * 0")
        return g.give(g.by("Mul", x, 0))
    if way == "reversed":
        g.hazard("0 - x, 1 / x, 1 ^ x")
        op_type, number = g.pick(("Sub", 0), ("Pow", 1))
        constant = g.constant(np.array(number, np.float32))
        return g.give(g.node(op_type, [constant, x], x.dims, soft=x.soft))
    if way == "Expand":
        target = g.pick(x.dims, (1,), (1,) * len(x.dims), (1, *x.dims))
        if len(target) > len(x.dims):
            g.hazard("Expand that only adds a dim")
        return g.give(g.node("Expand", [x, g.ints(*target)], np.broadcast_shapes(x.dims, target)))
    if way == "Pad":
        return g.give(g.node("Pad", [x, g.ints(*[0] * 2 * len(x.dims))], x.dims))
    if way == "Dropout":
        inputs = [x]
        if g.opset >= 12 and g.chance(0.5):
            inputs += [g.constant(np.array(0.5, np.float32)), g.constant(np.array(False))]
        return g.give(g.node("Dropout", inputs, x.dims))
    y = x
    for _ in range(g.pick(1, 2)):
        y = g.unary("Identity", y)
    g.hazard("Identity of an input")
    g.give(y)


def shape_part(g, x, axis):
    """One dim of x as a vector: by Gather, Slice or, from 15 on, by Shape itself."""
    way = g.pick("Gather", "Gather", "Slice", "Shape")
    if way == "Shape" and g.opset >= 15:
        return g.node("Shape", [x], (1,), np.int64, soft=False, start=axis, end=axis + 1)
    shape = g.node("Shape", [g.cast(x, np.int32) if g.chance(0.2) else x], (len(x.dims),), np.int64, soft=False)
    if way == "Slice":
        return g.slice(shape, 0, axis, axis + 1)
    one = g.node("Gather", [shape, g.ints(g.pick(axis, axis - len(x.dims)), dims=())], (), np.int64, axis=0)
    if g.chance(0.2):
        one = g.cast(g.cast(one, np.float32), np.int64)
    return g.unsqueeze(one, 0)


@piece(weight=3)
def exporter_shapes(g):
    """Reshape and Expand to computed shapes as exporters write them."""
    x = g.take(rank=g.pick(2, 3))
    g.hazard("shape arithmetic")
    way = g.pick("reshape", "expand", "range", "halves", "all")
    first = shape_part(g, x, 0)
    if way == "reshape":
        target = g.concat([first, g.ints(-1)], 0)
        g.also(target)
        return g.give(g.node("Reshape", [x, target], (x.dims[0], int(np.prod(x.dims[1:])))))
    if way == "all":
        parts = [shape_part(g, x, axis) for axis in range(len(x.dims))]
        if g.chance(0.4):
            g.hazard("dims in another order")
            parts.reverse()
            return g.give(g.node("Reshape", [x, g.concat(parts, 0)], x.dims[::-1]))
        return g.give(g.node("Reshape", [x, g.concat(parts, 0)], x.dims))
    if way == "expand":
        g.hazard("Expand idiom")
        target = (2, *x.dims) if g.chance(0.5) else (-1, *x.dims)
        wanted = g.concat([g.ints(target[0]), *(shape_part(g, x, axis) for axis in range(len(x.dims)))], 0)
        shape = g.node("Shape", [wanted], (1,), np.int64)
        one = helper.make_tensor("v", TensorProto.INT64, [1], [1])
        ones = g.node("ConstantOfShape", [shape], wanted.dims, np.int64, value=one)
        minus = g.binary("Mul", ones, g.ints(-1, dims=()))
        final = g.node("Where", [g.binary("Equal", wanted, minus, np.bool_), ones, wanted], wanted.dims, np.int64)
        return g.give(g.node("Expand", [x, final], (max(target[0], 1), *x.dims)))
    if way == "range":
        limit = g.axes("Squeeze", first, [0], ())
        count = g.node("Range", [g.ints(0, dims=()), limit, g.ints(1, dims=())], (x.dims[0],), np.int64)
        other = g.take(rank=1)
        return g.give(g.cast(count, np.float32), g.unary("Neg", other))
    shifted = g.binary(g.pick("Sub", "Add"), first, g.ints(g.pick(2, 5)))
    g.hazard("integer Div of what may be negative")
    halves = g.node("Div", [shifted, g.ints(2)], (1,), np.int64)
    if g.opset >= 13 and g.chance(0.5):
        halves = g.node("Mod", [halves, g.ints(3)], (1,), np.int64)
    g.give(g.cast(halves, np.float32))


@piece(weight=2)
def ifs(g):
    """An If whose condition is decided, or is not although it looks like it."""
    x = g.take()
    way = g.pick("constant", "rank", "override", "input", "dim")
    if way == "constant":
        condition = g.constant(np.array(g.chance(0.5)), plain=True)
    elif way == "rank":
        g.hazard("If of a rank")
        shape = g.node("Shape", [x], (len(x.dims),), np.int64, soft=False)
        rank = g.node("Size", [shape], (), np.int64)
        condition = g.binary("Equal", rank, g.ints(g.pick(len(x.dims), 2), dims=()), np.bool_)
    elif way == "override":
        g.hazard("If of an overridable initializer")
        name = g.name("c")
        g.initializers.append(numpy_helper.from_array(np.array(True), name))
        g.overrides[name] = np.array(False)
        condition = Value(name, (), np.dtype(np.bool_))
    elif way == "input":
        g.hazard("If of an input")
        condition = g.input((), np.bool_)
        g.values.pop()
    else:
        g.hazard("If of a dim")
        one = g.axes("Squeeze", shape_part(g, x, 0), [0], ())
        condition = g.binary("Equal", one, g.ints(1, dims=()), np.bool_)
    bodies = {}
    for branch in ("then_branch", "else_branch"):
        nodes = [helper.make_node("Constant", [], [f"{g.name('k')}"], value=numpy_helper.from_array(g.numbers((1,))))]
        last, outer = g.name("b"), x.name
        if g.chance(0.3):
            g.hazard("If in an If")
            nested = [
                helper.make_graph(
                    [helper.make_node(op_type, [x.name], [name])], "nested", [],
                    [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)],
                )
                for op_type, name in (("Neg", g.name("n")), ("Abs", g.name("n")))
            ]  # fmt: skip
            outer = g.name("i")
            nodes.append(helper.make_node("If", [condition.name], [outer], then_branch=nested[0], else_branch=nested[1]))
        nodes.append(helper.make_node(g.pick("Add", "Mul"), [outer, nodes[0].output[0]], [last]))
        output = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
        bodies[branch] = helper.make_graph(nodes, branch, [], [output])
    g.give(g.node("If", [condition], x.dims, FLOAT, soft=x.soft, **bodies))


@piece()
def loops(g):
    """A Loop of 0, 1 or 2 trips."""
    x = g.take(rank=2)
    trips = g.pick(0, 1, 1, 2)
    g.hazard(f"Loop of {trips} trips")
    n, c, v, w, d = (g.name("l") for _ in range(5))
    body = helper.make_graph(
        [helper.make_node("Add", [v, x.name], [w]), helper.make_node("Identity", [c], [d])], "body",
        [helper.make_tensor_value_info(n, TensorProto.INT64, []), helper.make_tensor_value_info(c, TensorProto.BOOL, []),
         helper.make_tensor_value_info(v, TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info(d, TensorProto.BOOL, []), helper.make_tensor_value_info(w, TensorProto.FLOAT, None)],
    )  # fmt: skip
    keep = g.constant(np.array(True), plain=True)
    g.give(g.node("Loop", [g.ints(trips, dims=()), keep, x], x.dims, FLOAT, soft=x.soft, body=body))


@piece(weight=2)
def equal_nodes(g):
    """Nodes that are equal, and nodes that are nearly."""
    x = g.take()
    way = g.pick("equal", "attribute", "initializer", "chain")
    if way == "equal":
        a, b = g.unary("Sigmoid", x, soft=True), g.unary("Sigmoid", x, soft=True)
    elif way == "attribute":
        g.hazard("nodes that differ in an attribute")
        a, b = g.unary("LeakyRelu", x, alpha=0.01), g.unary("LeakyRelu", x, alpha=g.pick(0.01, 0.02))
    elif way == "initializer":
        array = g.numbers((1,))
        other = array.copy()
        if g.chance(0.5):
            g.hazard("initializers that differ in a bit")
            other[0] = np.nextafter(other[0], np.float32(2))
        a, b = g.binary("Add", x, g.constant(array)), g.binary("Add", x, g.constant(other))
    else:
        a, b = (g.unary("Abs", g.unary("Neg", x)) for _ in range(2))
    g.give(g.node("Sub", [a, b], x.dims), a)


@piece(weight=2)
def random_pairs(g):
    """Two nodes that are equal but give different noise."""
    x = g.input((3, g.pick(25, 33)))  # so many that two draws are never equal by chance
    # ONNX Runtime has no kernels for those of opset 22.
    kinds = ["RandomNormalLike", "RandomUniformLike", "RandomNormal", "Multinomial"] if g.opset < 22 else []
    kinds += ["Dropout"] * 2 if g.opset >= 12 else []
    kinds += ["Bernoulli"] if 15 <= g.opset < 22 else []
    kind = g.random.choice(kinds)
    g.hazard(f"two equal {kind}")
    attributes = {"seed": 3.0} if kind != "Dropout" and g.chance(0.1) else {}
    if attributes:
        g.hazard("noise with a seed")
    values = []
    for _ in range(2):
        if kind == "Dropout":
            ratio, training = (g.constant(array, plain=True) for array in (np.array(0.5, np.float32), np.array(True)))
            y = g.node(kind, [x, ratio, training], x.dims)
        elif kind == "RandomNormal":
            y = g.node(kind, [], (17,), FLOAT, shape=[17], **attributes)
        elif kind == "Multinomial":
            y = g.node(kind, [x], (x.dims[0], 64), np.int32, sample_size=64, **attributes)
        elif kind == "Bernoulli":
            y = g.node(kind, [g.unary("Sigmoid", x)], x.dims, FLOAT, **attributes)
        else:
            y = g.node(kind, [x], x.dims, FLOAT, **attributes)
        values.append(g.cast(y, np.float32) if y.dtype != FLOAT else y)
    g.ends += values
    g.kept += [g.node("Sub", values, values[0].dims)]


@piece(weight=2)
def projections(g):
    """Q, K, V: MatMuls of one value, with biases or without; one of them may be of another value."""
    x = g.take(rank=g.pick(2, 3))
    g.hazard("MatMuls of one value")
    results, same = [], g.chance(0.8)
    if not same:
        g.hazard("one MatMul of another value")
    for number in range(3):
        n = g.pick(2, 3, 5)
        source = x if same or number < 2 else g.unary("Neg", x)
        y = g.node("MatMul", [source, g.weight(x.dims[-1], n)], (*x.dims[:-1], n), soft=True)
        results.append(g.binary("Add", y, g.weight(n)) if g.chance(0.6) else y)
    g.give(*results)


@piece(weight=2)
def matmul_add(g):
    x = g.take(rank=g.pick(2, 2, 3))
    n = g.pick(1, 3, 5)
    y = g.node("MatMul", [x, g.weight(x.dims[-1], n)], (*x.dims[:-1], n), soft=True)
    g.also(y)
    kind = g.pick((n,), (1, n), (1,), (x.dims[-2], 1), (x.dims[-2], n), (2, *y.dims))
    if kind not in ((n,), (1, n)):
        g.hazard("Add that is no bias")
    y = g.binary("Add", y, g.weight(*kind))
    g.give(g.binary("Mul", y, g.weight(n)) if g.chance(0.4) else y)


@piece()
def transposed_weights(g):
    x = g.take(rank=2)
    n = g.size()
    w = g.transpose(g.weight(n, x.dims[1]), [1, 0])
    g.also(w)
    op_type = g.pick("MatMul", "Gemm", "Gemm of a Transpose")
    if op_type == "Gemm of a Transpose":
        g.hazard("Transpose into Gemm")
        flipped = g.transpose(x, [1, 0])
        return g.give(g.node("Gemm", [flipped, g.weight(x.dims[0], n)], (x.dims[1], n), soft=True))
    g.give(g.node(op_type, [x, w], (x.dims[0], n), soft=True))


@piece(weight=2)
def gelu(g):
    """GELU in the spellings of exporters, and with a number that makes it another function."""
    x = g.take()
    odd = g.chance(0.25)
    if odd:
        g.hazard("nearly GELU")
    way = g.pick("half last", "half first", "tanh", "jax", "sigmoid")
    g.hazard(f"GELU: {way}")
    if way in ("half last", "half first"):
        root = g.pick(1.4142135, 1.41421)
        y = g.unary("Erf", g.by("Div", x, root * (1.3 if odd else 1)), soft=True)
        y = g.by("Add", y, 1)
        if way == "half first":
            return g.give(g.binary("Mul", g.by("Mul", y, 0.5), x))
        y = g.binary("Mul", x, y)
        g.also(y)
        return g.give(g.by("Mul", y, 0.5))
    if way == "sigmoid":
        return g.give(g.binary("Mul", x, g.unary("Sigmoid", g.by("Mul", x, 1.702), soft=True)))
    half = g.by("Mul", x, 0.5) if way == "tanh" else x
    if way == "tanh":
        cube = g.by("Mul", g.by("Pow", x, 3), 0.044715)
    else:
        cube = g.binary("Mul", g.binary("Mul", g.by("Mul", x, 0.044715), x), x)
    y = g.unary("Tanh", g.by("Mul", g.binary("Add", x, cube), 0.9 if odd else 0.79788458), soft=True)
    y = g.by("Add", y, 1)
    g.give(g.binary("Mul", half, y) if way == "tanh" else g.binary("Mul", g.by("Mul", y, 0.5), x))


@piece(weight=2)
def layer_norm(g):
    """LayerNormalization from its parts, or native."""
    x = g.input((*g.dims(g.pick(1, 2)), g.pick(3, 5, 7)))
    n, last = x.dims[-1], len(x.dims) - 1
    if g.opset >= 17 and g.chance(0.3):
        inputs = [x, g.weight(n), *([g.weight(n)] if g.chance(0.7) else [])]
        return g.give(g.node("LayerNormalization", inputs, x.dims, soft=True, axis=-1))
    axis = last
    if len(x.dims) > 2 and x.dims[1] >= 3 and g.chance(0.3):
        g.hazard("norm over another axis")
        axis = 1
    mean = g.reduce("ReduceMean", x, axis)
    middle = g.node("Sub", [x, mean], x.dims, soft=True)
    other = middle
    if g.chance(0.3):
        g.hazard("LayerNorm with two Subs")
        other = g.node("Sub", [x, mean], x.dims, soft=True)
    square = g.by("Pow", other, 2) if g.chance(0.7) else g.node("Mul", [other, other], x.dims)
    variance = g.reduce("ReduceMean", square, axis)
    deviation = g.unary("Sqrt", g.by("Add", variance, g.pick(1e-5, 1e-12, 1e-3)))
    if g.chance(0.2):
        g.hazard("nearly LayerNorm")
        deviation = g.by("Add", g.unary("Sqrt", variance), 1e-2)
    y = g.node("Div", [middle, deviation], x.dims)
    g.also(y)
    y = g.binary("Mul", y, g.weight(n))
    g.give(g.binary("Add", y, g.weight(n)) if g.chance(0.8) else y)


@piece(weight=2)
def rms_norm(g):
    x = g.input((*g.dims(g.pick(1, 2)), g.pick(3, 5, 7)))
    n, last = x.dims[-1], len(x.dims) - 1
    y = x
    if g.chance(0.3):
        y = g.cast(y, np.float32)
    root = g.unary("Sqrt", g.by("Add", g.reduce("ReduceMean", g.by("Pow", y, 2), last), g.pick(1e-6, 1e-5)), soft=True)
    if g.chance(0.5):
        g.hazard("RMSNorm: Reciprocal")
        inverse = g.unary("Reciprocal", root)
    else:
        g.hazard("RMSNorm: Div")
        inverse = g.node("Div", [g.constant(np.array(1, np.float32)), root], root.dims, soft=True)
    y = g.binary("Mul", y, inverse)
    g.also(y)
    g.give(g.binary("Mul", y, g.weight(n)))


@piece()
def silu(g):
    x = g.take()
    other = x
    if g.chance(0.3):
        g.hazard("nearly SiLU")
        other = g.unary("Abs", x)
    g.give(g.binary("Mul", g.unary("Sigmoid", x, soft=True), other))


@piece(weight=2)
def attention(g):
    """Eager attention over heads, two of them sometimes over one (GQA), rotary sometimes."""
    batch, heads, length, width = g.pick(1, 2), 2, g.pick(1, 3, 5), 4
    names = g.shared_names(length)
    q = g.input((batch, heads, length, width), names=names)
    shared = g.chance(0.3)
    k, v = (g.input((batch, 1 if shared else heads, length, width), names=names) for _ in range(2))
    del g.values[-3:]
    if g.chance(0.5):
        g.hazard("rotary embedding")
        q, k = rotary(g, q), rotary(g, k)
    if shared:
        g.hazard("GQA")
        grown = []
        for value in (k, v):
            wide = g.unsqueeze(value, 2)
            wide = g.node("Expand", [wide, g.ints(batch, 1, heads, length, width)], (batch, 1, heads, length, width))
            grown.append(g.reshape(wide, (batch, heads, length, width)))
        k, v = grown
    scores = g.node("MatMul", [q, g.transpose(k, [0, 1, 3, 2])], (batch, heads, length, length), soft=True)
    scores = g.by("Mul", scores, 0.5) if g.chance(0.6) else g.by("Div", scores, 2)
    if g.chance(0.6):
        g.hazard("attention with a mask")
        mask = g.input(g.pick((length, length), (batch, 1, 1, length), (batch, 1, length, length)), names=names)
        g.values.pop()
        scores = g.binary("Add", scores, mask)
    if g.chance(0.3):
        g.hazard("Softmax in its parts")
        lower = g.node("Sub", [scores, g.reduce("ReduceMax", scores, 3)], scores.dims)
        power = g.unary("Exp", lower)
        weights = g.node("Div", [power, g.reduce("ReduceSum", power, 3)], scores.dims)
    else:
        weights = g.unary("Softmax", scores, axis=3 if g.chance(0.3) else -1)
    g.also(weights)
    y = g.node("MatMul", [weights, v], (batch, heads, length, width), soft=True)
    y = g.transpose(y, [0, 2, 1, 3])
    g.give(g.reshape(y, (batch, length, heads * width), target=(0, 0, heads * width)))


def rotary(g, x):
    length, width = x.dims[2:]
    low, high = g.slice(x, 3, 0, width // 2), g.slice(x, 3, width // 2, (1 << 63) - 1)
    turned = g.concat([g.unary("Neg", high), low], 3)
    cos, sin = (g.numbers((1, 1, length, width // 2)) for _ in range(2))
    if g.chance(0.3):
        g.hazard("caches whose halves differ")
        cos, sin = (np.concatenate([each, each * np.float32(1.5)], 3) for each in (cos, sin))
    else:
        cos, sin = (np.concatenate([each, each], 3) for each in (cos, sin))
    cos, sin = g.constant(cos), g.constant(sin)
    return g.soften(g.binary("Add", g.binary("Mul", x, cos), g.binary("Mul", turned, sin)))


@piece()
def attention_by_where(g):
    """What PyTorch's sdpa becomes: half of the scale on either side, a mask by Where, rows without any key made zero."""
    batch, heads, length, width = g.pick(1, 2), 2, g.pick(1, 3, 5), 4
    names = g.shared_names(length)
    q, k, v = (g.input((batch, length, heads * width), names=names) for _ in range(3))
    allowed = g.input((batch, 1, 1, length), np.bool_, names=names)
    del g.values[-4:]
    q, k, v = (g.reshape(each, (batch, length, heads, width), target=(0, 0, -1, width)) for each in (q, k, v))
    q, v = g.transpose(q, [0, 2, 1, 3]), g.transpose(v, [0, 2, 1, 3])
    k = g.transpose(k, [0, 2, 3, 1])
    q, k = g.by("Mul", q, 0.70710677), g.by("Mul", k, 0.70710677)
    zero, least = (g.constant(np.array(number, np.float32)) for number in (0, g.pick(-np.inf, -3.4e38)))
    mask = g.node("Where", [allowed, zero, least], allowed.dims, FLOAT)
    scores = g.node("MatMul", [q, k], (batch, heads, length, length), soft=True)
    weights = g.unary("Softmax", g.binary("Add", scores, mask), axis=-1)
    if g.chance(0.8):
        g.hazard("Softmax of nothing but -inf")
        weights = g.node("Where", [g.unary("IsNaN", weights, np.bool_), zero, weights], weights.dims, FLOAT, soft=True)
    y = g.transpose(g.node("MatMul", [weights, v], (batch, heads, length, width)), [0, 2, 1, 3])
    g.give(g.reshape(y, (batch, length, heads * width), target=(batch, length, -1)))


def _own_input(g, dims, symbols, dtype=FLOAT):
    """An input for one piece alone. Dims are (length, symbol of it) or a length; `symbols` says which symbols are declared."""
    pairs = [each if isinstance(each, tuple) else (each, None) for each in dims]
    declared = [symbol if symbol in symbols else length for length, symbol in pairs]
    value = g.input([length for length, _ in pairs], dtype, declared)
    g.values.pop()
    return value


def _allowed(g, batch, heads, rows, columns, symbols):
    """A condition over rows and columns."""
    way = g.pick("given", "given", "counted", "tril", "constant")
    if way == "given":
        leading = g.pick((), (batch, 1), (1, heads), (heads,), (1, 1))
        return _own_input(g, (*leading, g.pick(1, rows) if leading else rows, columns), symbols, np.bool_)
    (rows, _), (columns, _) = rows, columns
    if way == "counted":
        g.hazard("rows that count columns")
        zero, one = (g.constant(np.array(number, np.int64), fixed=True) for number in (0, 1))
        counts = []
        for length, axis in ((columns, 0), (rows, 1)):
            limit = g.constant(np.array(length, np.int64), fixed=True)
            start = g.constant(np.array(g.pick(0, 0, 0, 1), np.int64), fixed=True) if g.chance(0.3) else zero
            if start is not zero:
                limit = g.node("Add", [start, limit], (), np.int64)
            counts.append(g.unsqueeze(g.node("Range", [start, limit, one], (length,), np.int64, soft=False), axis))
        op, swap = g.pick(("LessOrEqual", False), ("GreaterOrEqual", True), ("LessOrEqual", True), ("Less", False))
        compared = counts[::-1] if swap else counts
        return g.node(op, compared, (rows, columns), np.bool_)
    if way == "tril":
        g.hazard("Trilu of ones")
        ones = g.constant(np.ones((rows, columns), np.float32), fixed=True)
        triangle = g.node("Trilu", [ones], (rows, columns), upper=g.pick(0, 0, 1))
        return g.cast(triangle, np.bool_)
    g.hazard("a mask that is a constant")
    return g.constant(np.tril(np.ones((rows, columns), bool), g.pick(0, 0, 1, -1, 9)), fixed=True)


@piece(since=23, weight=3)
def attention_forms(g):
    """Attention in the forms that one operator takes, each sometimes with what it must not have."""
    prefix = g.name("d")
    batch, heads, size = (g.pick(1, 2, 3), f"{prefix}_b"), g.pick(2, 4, 4, 1), g.pick(1, 2, 4, 6)
    length, other = g.pick((3, 3), (5, 5), (1, 1), (2, 5), (5, 2), (1, 4), (4, 1))
    rows, columns = (length, f"{prefix}_s"), (other, f"{prefix}_s" if length == other and g.chance(0.6) else f"{prefix}_t")
    symbols = {symbol for _, symbol in (batch, rows, columns) if g.chance(0.5)}
    own, packed = heads // g.pick(1, 2) or 1, g.chance(0.6)
    value_size = g.pick(size, size, size + 1)

    def projected(count, length, width):
        if not packed:
            return _own_input(g, (batch, count, length, width), symbols), None
        x = _own_input(g, (batch, length, count * width), symbols)
        return None, g.reshape(x, (*x.dims[:2], count, width), target=(0, 0, count, width))

    def turned(plain, parted, perm, dims):
        return plain if parted is None else g.transpose(parted, perm)

    q = turned(*projected(heads, rows, size), [0, 2, 1, 3], None)
    plain, parted = projected(own, columns, size)
    early = parted is not None and own == heads and g.chance(0.5)
    k = g.transpose(parted, [0, 2, 3, 1]) if early else turned(plain, parted, [0, 2, 1, 3], None)
    v = turned(*projected(own, columns, value_size), [0, 2, 1, 3], None)
    forms, (batch, _), (rows, _), (columns, _) = (batch, heads, rows, columns, symbols), batch, rows, columns
    if own != heads:
        g.hazard("heads of keys that are shared")
        share, grown = heads // own, []
        for value, width in ((k, size), (v, value_size)):
            inner = g.chance(0.2)  # [b, g, h]: the heads in another order
            wide = g.unsqueeze(value, 1 if inner else 2)
            dims = (batch, share, own, columns, width) if inner else (batch, own, share, columns, width)
            wide = g.node("Expand", [wide, g.ints(*((1, share, 1, 1, 1) if inner else (1, 1, share, 1, 1)))], dims)
            grown.append(g.reshape(wide, (batch, heads, columns, width), target=(0, heads, -1, width)))
        k, v = grown
    if not early:
        perm = [0, 1, 3, 2]
        if f"{prefix}_t" not in symbols and f"{prefix}_s" not in symbols and g.chance(0.4):
            g.hazard("keys through three dims")
            flat = g.reshape(k, (batch * heads, columns, size), target=(-1, columns, size))
            back = g.transpose(flat, [0, 2, 1])
            k = g.reshape(back, (batch, heads, size, columns), target=(-1, heads, size, columns))
        else:
            k = g.transpose(k, perm)
    places = g.pick((), ("q", "k"), ("q",), ("k",), ("scores",), ("scores",), ("q", "scores"))
    numbers = {place: g.pick(0.5, 0.25, 0.8, 2.0, -0.5 if g.chance(0.2) else 0.7) for place in places}

    def scaled(value, place):
        if place not in numbers:
            return value
        if g.chance(0.1):
            g.hazard("a scale for each head")
            return g.binary("Mul", value, g.weight(heads, 1, 1, low=0.1))
        return g.by(g.pick("Mul", "Div"), value, numbers[place])

    scores = g.node("MatMul", [scaled(q, "q"), scaled(k, "k")], (batch, heads, rows, columns), soft=True)
    scores = scaled(scores, "scores")
    if g.chance(0.3):
        g.also(scores)
    guarded = False
    kind = g.pick("none", "added", "where", "where", "where")
    if kind == "added":
        b, _, r, c, _ = forms
        mask = _own_input(g, g.pick((r, c), (b, 1, 1, c), (1, heads, r, c), (c,), (b, 1, r, 1)), symbols)
        scores = g.binary("Add", *g.pick((scores, mask), (mask, scores)))
    elif kind == "where":
        g.hazard("a condition as a mask")
        allowed = _allowed(g, *forms)
        least = g.pick(-np.inf, -np.inf, float(np.finfo(np.float32).min), -1e4, -1.0)
        zero, number = (g.constant(np.array(each, np.float32), fixed=True) for each in (0, least))
        order = [zero, number] if g.chance(0.8) else [number, zero]
        mask = g.node("Where", [allowed, *order], allowed.dims, FLOAT)
        scores = g.binary("Add", scores, mask)
        guarded = least == -np.inf and g.chance(0.7)
    weights = g.unary("Softmax", scores, axis=2 if g.chance(0.1) else g.pick(-1, 3))
    if g.chance(0.3):
        g.also(weights)
    if guarded:
        zero = g.constant(np.array(0, np.float32), fixed=True)
        weights = g.node("Where", [g.unary("IsNaN", weights, np.bool_), zero, weights], weights.dims, FLOAT, soft=True)
    y = g.node("MatMul", [weights, v], (batch, heads, rows, value_size), soft=True)
    if packed:
        y = g.transpose(y, [0, 2, 1, 3])
        target, dims = g.pick(
            ((0, 0, heads * value_size), (batch, rows, heads * value_size)),
            ((-1, heads * value_size), (batch * rows, heads * value_size)),
            ((0, -1), (batch, rows * heads * value_size)),
        )
        y = g.reshape(y, dims, target=target)
    g.give(y)


@piece(since=23, weight=3)
def rotary_forms(g):
    """Halves that are turned, and what only looks so."""
    prefix = g.name("d")
    batch, length, heads, size = (g.pick(1, 2), f"{prefix}_b"), (g.pick(1, 2, 5), f"{prefix}_s"), g.pick(1, 3), g.pick(2, 4, 6)
    rest, half = g.pick(0, 0, 2, 3), size // 2
    symbols = {symbol for _, symbol in (batch, length) if g.chance(0.5)}
    x = _own_input(g, (batch, heads, length, size + rest), symbols)
    part = g.slice(x, 3, 0, size) if rest else x
    end = g.pick(size, (1 << 63) - 1)
    swapped = g.chance(0.1)
    low, high = g.slice(part, 3, 0, half), g.slice(part, 3, half, end)
    if swapped:
        g.hazard("halves that change places")
        low, high = high, low
    g.also(low)
    own = g.pick(1, batch)
    caches, spelled = [], g.chance(0.3)
    for op in ("Cos", "Sin"):
        angles = _own_input(g, (own, length, half), symbols)
        if spelled:
            cache = g.unary(op, angles)
        elif g.chance(0.5):
            cache = g.unary(op, g.concat([angles, angles], 2))
        else:
            cache = g.unary(op, angles)
            other = cache
            if g.chance(0.15):
                g.hazard("halves that are no equal ones")
                other = g.by("Mul", cache, 1.5)
            cache = g.concat([cache, other], 2)
        if g.chance(0.3):
            cache = g.by("Mul", cache, 1.25)
        caches.append(g.unsqueeze(cache, 1))
    cos, sin = caches
    if spelled:
        g.hazard("both halves spelled out")
        real = g.binary("Sub", g.binary("Mul", low, cos), g.binary("Mul", sin, high))
        imaginary = g.binary("Add", g.binary("Mul", low, sin), g.binary("Mul", high, cos))
        y = g.concat([real, imaginary], 3)
    else:
        turned = g.concat([g.unary("Neg", high), low], 3)
        g.also(turned)
        y = g.binary("Add", *g.random.sample([g.binary("Mul", part, cos), g.binary("Mul", sin, turned)], 2))
    y = g.soften(y)
    if rest:
        g.hazard("a part that is not turned")
        y = g.concat([y, g.slice(x, 3, size, (1 << 63) - 1)], 3)
    g.give(g.soften(y))


@piece()
def spelled_out(g):
    """JAX's softmax and its variance as a difference of means; a mean that is written as a sum."""
    x = g.take(rank=2, least=2)
    if g.chance(0.5):
        g.hazard("Softmax of parts")
        least = g.constant(np.array(-np.inf, np.float32))
        most = g.node("Max", [least, g.reduce("ReduceMax", x, 1)], (x.dims[0], 1), soft=True)
        exp = g.unary("Exp", g.node("Sub", [x, most], x.dims, soft=True))
        return g.give(g.node("Div", [exp, g.reduce("ReduceSum", exp, 1)], x.dims))
    g.hazard("variance as a difference")
    mean, square = g.reduce("ReduceMean", x, 1), g.reduce("ReduceMean", g.node("Mul", [x, x], x.dims), 1)
    variance = g.node("Sub", [square, g.node("Mul", [mean, mean], mean.dims)], mean.dims, soft=True)
    root = g.unary("Sqrt", g.by("Add", g.node("Abs", [variance], mean.dims), 0.1))
    g.give(g.node("Div", [g.node("Sub", [x, mean], x.dims), root], x.dims))


@piece(weight=2)
def softmax_parts(g):
    """Softmax as JAX writes it, or with another axis, without the maximum, with parts that others use."""
    x = g.take(rank=g.pick(2, 3))
    axis = g.random.choice([len(x.dims) - 1, len(x.dims) - 1, g.random.randrange(len(x.dims))])
    other = axis
    if g.chance(0.2):
        g.hazard("Softmax over two axes")
        other = g.random.randrange(len(x.dims))
    kept = g.chance(0.6)

    def reduced(op_type, value, axis):
        out = g.reduce(op_type, value, axis, keepdims=int(kept))
        return out if kept else g.unsqueeze(out, axis) if g.chance(0.5) else g.reshape(out, (*x.dims[:axis], 1, *x.dims[axis + 1 :]))

    if g.chance(0.85):
        most = reduced("ReduceMax", x, axis)
        if g.chance(0.5):
            least = g.constant(np.full((1,) * g.pick(0, 1), g.pick(-np.inf, -np.inf, 0.25), np.float32))
            most = g.node("Max", g.pick([most, least], [least, most]), most.dims)
        g.also(most)
        lower = g.node("Sub", [x, most], x.dims)
    else:
        g.hazard("Exp of what is not lowered")
        lower = x
    g.also(lower)
    power = g.unary("Exp", lower, soft=True)
    g.also(power)
    total = reduced("ReduceSum", power, other)
    g.also(total)
    if g.chance(0.3):
        return g.give(g.node("Sub", [lower, g.unary("Log", total, soft=True)], x.dims, soft=True))
    g.give(g.node("Div", [power, total], x.dims, soft=True))


@piece()
def softmax_argmax(g):
    x = g.take(rank=2, soft=False, least=2)
    g.hazard("ArgMax of Softmax")
    if g.chance(0.5):
        g.hazard("Log of negative numbers")
        y = g.unary("Log", x)
    else:
        y = g.unary("Softmax", x, axis=1)
    best = g.node("ArgMax", [y], (x.dims[0], 1), np.int64, soft=False, axis=1)
    g.give(g.cast(best, np.float32))


@piece()
def reciprocals(g):
    x = g.take()
    bounded = g.by("Add", g.unary("Abs", x), 0.5)
    inverse = g.node("Div", [g.constant(np.array(g.pick(1, 1, 2), np.float32)), bounded], x.dims, soft=True)
    g.also(inverse)
    g.hazard("1 / x * z")
    g.give(g.binary("Mul", inverse, g.input(x.dims)))


@piece(weight=2)
def constants(g):
    """Arithmetic of constants only, small and large."""
    x = g.take()
    dims = g.dims(g.pick(1, 2))
    y = g.weight(*dims, low=0.2)
    for _ in range(g.pick(1, 2, 3)):
        way = g.pick("Add", "Mul", "Sqrt", "Neg", "Transpose", "Cast", "Reshape", "Slice", "Concat", "Gather", "Max")
        if not y.dims:
            break
        if way in ("Add", "Mul"):
            y = g.binary(way, y, g.weight(1, low=0.2))
        elif way in ("Sqrt", "Neg"):
            y = g.unary(way, g.unary("Abs", y) if way == "Sqrt" else y, soft=True)
        elif way == "Transpose":
            y = g.node("Transpose", [y], y.dims[::-1])
        elif way == "Cast":
            y = g.cast(g.cast(y, np.float64), np.float32)
        elif way == "Reshape":
            y = g.reshape(y, (int(np.prod(y.dims)),), target=(-1,))
        elif way == "Slice":
            y = g.slice(y, 0, -1, -y.dims[0] - 1, -1)
        elif way == "Concat":
            y = g.concat([y, y], 0)
        elif way == "Gather":
            y = g.node("Gather", [y, g.ints(-1, 0)], (2, *y.dims[1:]), axis=0)
        else:
            y = g.reduce("ReduceMax", y, 0, keepdims=g.chance(0.5))
    if g.chance(0.15):
        g.hazard("large constant from a small one")
        big = g.node("ConstantOfShape", [g.ints(300, 200)], (300, 200), FLOAT,
                     value=helper.make_tensor("v", TensorProto.FLOAT, [1], [0.25]))  # fmt: skip
        y = g.binary("Add", g.reduce("ReduceMax", g.reduce("ReduceMax", big, 1), 0), y)
    total = g.node("ReduceMax", [y], (), keepdims=0)
    g.give(g.binary("Mul", x, g.soften(total)), y)


@piece(since=13)
def dequantized(g):
    """A weight behind DequantizeLinear: by tensor or axis, with or without zero points."""
    x = g.take(rank=2)
    k, n = x.dims[1], g.pick(1, 3, 5)
    dtype = g.pick(np.int8, np.uint8)
    codes = g.noise.integers(*((-128, 128) if dtype == np.int8 else (0, 256)), (k, n)).astype(dtype)
    axis = g.pick(None, 0, 1)
    dims = () if axis is None else ((k, n)[axis],)
    scale = g.constant((np.abs(g.numbers(dims)) * 0.02 + 0.001).astype(np.float32))
    inputs = [g.constant(codes), scale]
    if g.chance(0.7):
        inputs.append(g.constant(g.noise.integers(3, 100, dims).astype(dtype)))
    g.hazard("DequantizeLinear of a weight")
    w = g.node("DequantizeLinear", inputs, (k, n), FLOAT, soft=True, **({} if axis is None else {"axis": axis}))
    g.give(g.node("MatMul", [x, w], (x.dims[0], n), soft=True))


@piece(since=15)
def functions(g):
    """A function of the model's own, called twice."""
    x = g.take()
    if not any(each.name == "Minus" for each in g.functions):
        nodes = [helper.make_node("Neg", ["a"], ["t"]), helper.make_node("Add", ["t", "b"], ["y"])]
        opsets = [helper.make_opsetid("", g.opset)]
        g.functions.append(helper.make_function("local", "Minus", ["a", "b"], ["y"], nodes, opsets))
    g.hazard("function of the model")
    y = g.node("Minus", [x, g.weight(1)], x.dims, domain="local")
    g.give(g.node("Minus", [y, x], x.dims, domain="local"))


@piece()
def odd_outputs(g):
    """Outputs that are initializers' or inputs' values, or twice the same."""
    x = g.take()
    g.hazard("output that is a constant or an input")
    constant = g.constant(g.numbers((2,)))
    g.kept += [g.unary("Identity", constant), g.unary("Identity", x)]
    y = g.unary("Neg", x)
    g.give(y)
    g.kept.append(g.unary("Identity", y))


@piece(weight=2)
def activated(g):
    """Conv or Gemm, and an activation behind it with parameters of its own, or computed ones."""
    if g.chance(0.6):
        x = g.input((g.pick(1, 2), g.pick(1, 2, 3), *(g.pick(3, 5) for _ in range(g.pick(1, 2)))))
        y = g.conv(x)
    else:
        k, n = g.pick(1, 3, 5), g.pick(1, 3)
        x = g.take(rank=2)
        k = x.dims[1]
        y = g.node("Gemm", [x, g.weight(k, n), g.weight(n)], (x.dims[0], n), soft=True, alpha=g.pick(1.0, 0.5))
    g.also(y)
    way = g.pick("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip", "Elu", "Selu", "Softplus", "ThresholdedRelu")
    g.hazard(f"activation: {way}")
    if way == "Clip":
        low, high = g.pick((None, 0.5), (-0.5, None), (-0.25, 0.75))
        if low is not None and g.chance(0.3):
            g.hazard("Clip by a computed bound")
            bound = g.node("ReduceMax", [g.take(soft=False)], (), keepdims=0)
            return g.give(g.node("Clip", [y, bound], y.dims, soft=True))
        return g.give(g.clip(y, low, high))
    given = {"LeakyRelu": ["alpha"], "HardSigmoid": ["alpha", "beta"], "Elu": ["alpha"], "Selu": ["alpha", "gamma"]}
    if way == "ThresholdedRelu":  # it jumps
        return g.give(g.node("Neg", [y], y.dims))
    return g.give(g.unary(way, y, **{key: g.pick(0.3, 0.7) for key in given.get(way, []) if g.chance(0.7)}))


@piece(weight=2)
def residual(g):
    """A norm of a sum that others may go on with, native or spelled out."""
    n = g.pick(3, 5, 7)
    x = g.input((*g.dims(2), n) if g.chance(0.8) else (g.size(), n))
    other = g.input((1,) * (len(x.dims) - 1) + (n,)) if g.chance(0.2) else g.unary("Sigmoid", x, soft=True)
    if other.dims != x.dims:
        g.hazard("sum that broadcasts")
    if g.chance(0.5):
        other = g.binary("Add", other, g.weight(n))
    total = g.binary("Add", x, other)
    if g.chance(0.5):
        g.hazard("sum that others use")
        g.give(total)
    last = len(x.dims) - 1
    gain = g.weight(n)
    if g.chance(0.2):
        g.hazard("gain that is computed")
        gain = g.unary("Tanh", g.input((n,)), soft=True)
    epsilon = g.pick(1e-5, 1e-3)
    if g.opset >= 17 and g.chance(0.4):
        inputs = [total, gain, *([g.weight(n)] if g.chance(0.7) else [])]
        return g.give(g.node("LayerNormalization", inputs, x.dims, soft=True, axis=g.pick(-1, last), epsilon=epsilon))
    if g.opset >= 23 and g.chance(0.5):
        return g.give(g.node("RMSNormalization", [total, gain], x.dims, soft=True, axis=-1, epsilon=epsilon))
    simple = g.chance(0.6)
    value = total if simple else g.node("Sub", [total, g.reduce("ReduceMean", total, last)], x.dims, soft=True)
    square = g.by("Pow", value, 2) if g.chance(0.7) else g.node("Mul", [value, value], x.dims)
    root = g.unary("Sqrt", g.by("Add", g.reduce("ReduceMean", square, last), epsilon), soft=True)
    g.also(root)
    if g.chance(0.4):
        y = g.binary("Mul", value, g.unary("Reciprocal", root))
    else:
        y = g.node("Div", [value, root], x.dims)
    y = g.binary("Mul", y, gain)
    g.give(y if simple else g.binary("Add", y, g.weight(n)))


@piece(weight=2)
def packed_attention(g):
    """Attention with its projections, as exporters write it; sometimes with what fusions must see."""
    batch, rows, width, heads, size = g.pick(1, 2), g.pick(1, 3, 5), g.pick(2, 3), 2, g.pick(2, 4)
    x = g.input((batch, rows, width))
    memory, columns = x, rows
    if g.chance(0.3):
        g.hazard("attention to another value")
        columns = g.pick(1, 3, 7)
        memory = g.input((batch, columns, width))
    biased = g.pick("all", "none", "some")
    sides = []
    for place, (of, length) in enumerate(((x, rows), (memory, columns), (memory, columns))):
        depth = size + (2 if place == 2 and g.chance(0.2) else 0)
        y = g.node("MatMul", [of, g.weight(width, heads * depth)], (batch, length, heads * depth), soft=True)
        if biased == "all" or (biased == "some" and g.chance(0.5)):
            y = g.binary("Add", y, g.weight(heads * depth))
        if g.chance(0.1):
            g.also(y, "projection that others use")
        y = g.reshape(y, (batch, length, heads, depth), (0, 0, heads, depth))
        sides.append((y, depth))
    (q, _), (k, _), (v, depth) = sides
    q, v = g.transpose(q, (0, 2, 1, 3)), g.transpose(v, (0, 2, 1, 3))
    if g.chance(0.5):
        k = g.transpose(k, (0, 2, 3, 1))
    else:
        k = g.transpose(g.transpose(k, (0, 2, 1, 3)), (0, 1, 3, 2))
    where = g.pick("scores", "q", "both")
    if where != "scores":
        q = g.by("Mul", q, 0.7)
    if where == "both":
        k = g.by("Mul", k, 0.7)
    scores = g.node("MatMul", [q, k], (batch, heads, rows, columns), soft=True)
    if where == "scores":
        scores = g.by("Div", scores, 2)
    if g.chance(0.1):
        g.also(scores, "scores that others use")
    way = g.pick("none", "any", "columns", "lowest", "infinite", "rows and columns")
    g.hazard(f"mask: {way}")
    if way != "none":
        dims = {"columns": (batch, 1, 1, columns), "any": (batch, heads, rows, columns), "rows and columns": (rows, columns)}
        mask = g.input(dims.get(way, (batch, 1, rows, columns)))
        if way in ("lowest", "infinite"):
            low = np.array(-np.inf if way == "infinite" else np.finfo(np.float32).min, np.float32)
            seen = g.node("Greater", [mask, g.constant(np.array(0, np.float32))], mask.dims, bool)
            zero = g.constant(np.array(0, np.float32), fixed=True)
            mask = g.node("Where", [seen, zero, g.constant(low, fixed=True)], mask.dims, FLOAT, soft=False)
        scores = g.node("Add", [mask, scores] if g.chance(0.5) else [scores, mask], scores.dims, soft=True)
    p = g.node("Softmax", [scores], scores.dims, soft=True, axis=g.pick(-1, 3))
    if way == "infinite" or g.chance(0.2):
        nan = g.node("IsNaN", [p], p.dims, bool)
        p = g.node("Where", [nan, g.constant(np.array(0, np.float32), fixed=True), p], p.dims, FLOAT, soft=True)
    y = g.node("MatMul", [p, v], (batch, heads, rows, depth), soft=True)
    y = g.transpose(y, (0, 2, 1, 3))
    if g.chance(0.1):
        g.also(y, "heads that others use")
    target = g.pick((0, 0, heads * depth), (batch, rows, heads * depth), (0, 0, -1))
    g.give(g.soften(g.reshape(y, (batch, rows, heads * depth), target)))


@piece(weight=2)
def integers(g):
    """Arithmetic of integers: what does nothing, what is the same twice, what wraps."""
    dtype = np.dtype(g.pick(np.int64, np.int64, np.int32, np.int32, np.uint8, np.int8))
    y = x = g.input(g.dims(g.pick(1, 2, 3)), dtype)
    wide = dtype.itemsize >= 4
    g.hazard(f"integers: {dtype}")
    for _ in range(g.pick(1, 2, 3, 4)):
        way = g.pick("nothing", "twice", "bounds", "cast", "move", "wrap", "divide", "compare")
        if way == "nothing" and wide:
            op_type, number = g.pick(("Mul", 1), ("Add", 0), ("Sub", 0), ("Div", 1), ("Mul", 0), ("Mul", 2))
            y = g.by(op_type, y, number)
        elif way == "twice" and wide:
            op_type = g.pick("Neg", "Abs")
            y = g.unary(op_type, g.unary(op_type, y))
        elif way == "bounds" and wide and g.opset >= 12:
            low, high = g.pick((0, 3), (-2, None), (None, 1), (2, -1))
            y = g.clip(g.clip(y, low, high), *g.pick((-1, 2), (0, None))) if g.chance(0.5) else g.clip(y, low, high)
        elif way == "cast":
            through = g.pick((np.int64,), (np.float64,), (np.float32,), (np.int32, np.int64), (np.float64, np.int64), (np.int8,))
            for each in (*through, dtype):
                y = g.cast(y, each)
        elif way == "move":
            y = g.transpose(g.transpose(y, [*range(len(y.dims))][::-1]), [*range(len(y.dims))][::-1])
            y = g.reshape(y, (int(np.prod(y.dims)),), target=(-1,)) if g.chance(0.3) else y
        elif way == "wrap" and wide:
            g.hazard("integers at the end of their range")
            y = g.binary("Add", y, g.constant(np.array([np.iinfo(dtype).max - 1], dtype)))
        elif way == "divide" and wide:
            y = g.binary("Div", y, g.constant(np.array(g.pick(2, -3), dtype)))
        elif way == "compare" and wide:
            y = g.cast(g.binary("Greater", y, g.constant(np.array(g.pick(0, 2), dtype)), np.bool_), dtype)
        g.hazards["integers: " + way] += 1
    g.kept.append(y if y is not x else g.cast(x, np.int64 if dtype != np.int64 else np.int32))


@piece()
def sequences(g):
    """Lists of tensors: made, split, taken from, put together."""
    x = g.take(rank=g.pick(1, 2), least=2)
    axis = g.random.randrange(len(x.dims))
    one = (*x.dims[:axis], 1, *x.dims[axis + 1 :])
    listed, name = g.name("sequence"), g.name("sequence")
    way = g.pick("split", "construct", "insert")
    g.hazard(f"sequence: {way}")
    if way == "split":
        g.nodes.append(helper.make_node("SplitToSequence", [x.name], [listed], axis=axis))
        count, dims = x.dims[axis], one
    else:
        other = g.unary("Neg", x)
        g.nodes.append(helper.make_node("SequenceConstruct", [x.name, other.name], [listed]))
        count, dims = 2, x.dims
        if way == "insert":
            g.nodes.append(helper.make_node("SequenceInsert", [listed, g.unary("Abs", x).name, g.ints(0, dims=()).name], [name]))
            count, listed = 3, name
    held = Value(listed, dims, FLOAT, x.soft)
    place = g.pick(0, -1, count - 1)
    first = g.node("SequenceAt", [held, g.ints(place, dims=())], dims, FLOAT)
    dims = (*dims[:axis], count * dims[axis], *dims[axis + 1 :])
    together = g.node("ConcatFromSequence", [held], dims, FLOAT, axis=g.pick(axis, axis - len(dims)))
    length = g.node("SequenceLength", [held], (), np.int64, soft=False)
    g.give(g.binary("Add", together, g.cast(length, np.float32)), g.unary("Abs", first))


@piece()
def scans(g):
    """A Scan that adds up rows, with what lies outside."""
    x = g.take(rank=2)
    s, row, t, out = (g.name("s") for _ in range(4))
    weight = g.weight(x.dims[1])
    inner = [helper.make_node("Add", [s, row], [t]), helper.make_node("Mul", [t, weight.name], [out])]
    declared = helper.make_tensor_value_info
    body = helper.make_graph(
        inner, "row", [declared(s, TensorProto.FLOAT, [x.dims[1]]), declared(row, TensorProto.FLOAT, [x.dims[1]])],
        [declared(t, TensorProto.FLOAT, [x.dims[1]]), declared(out, TensorProto.FLOAT, [x.dims[1]])],
    )  # fmt: skip
    g.hazard("Scan")
    first = g.constant(np.zeros(x.dims[1], np.float32), plain=True)
    total = g.node("Scan", [first, x], (x.dims[1],), FLOAT, outputs=2, soft=True, body=body, num_scan_inputs=1)
    g.give(total, Value(f"{total.name}_1", x.dims, FLOAT, True))


@piece(since=13)
def growing_loops(g):
    """A Loop whose carried value grows, that may stop by itself, with what it gives each time; its trips are a dim, or few."""
    x = g.take(rank=2)
    trips = g.pick("dim", "none", "one", "never")
    g.hazard(f"growing Loop: {trips}")
    n, c, v, w, d, out = (g.name("l") for _ in range(6))
    declared = helper.make_tensor_value_info
    nodes = [helper.make_node("Concat", [v, x.name], [w], axis=0), helper.make_node("ReduceMax", [v], [out], keepdims=0)]
    limit = g.constant(np.array(1, np.int64), plain=True)
    nodes.append(helper.make_node("Less", [n, limit.name], [d]))
    body = helper.make_graph(
        nodes, "body",
        [declared(n, TensorProto.INT64, []), declared(c, TensorProto.BOOL, []), declared(v, TensorProto.FLOAT, [None, None])],
        [declared(d, TensorProto.BOOL, []), declared(w, TensorProto.FLOAT, [None, None]), declared(out, TensorProto.FLOAT, [])],
    )  # fmt: skip
    count = {
        "dim": lambda: g.axes("Squeeze", shape_part(g, x, 0), [0], ()), "none": lambda: None,
        "one": lambda: g.ints(1, dims=()), "never": lambda: g.ints(0, dims=()),
    }[trips]()  # fmt: skip
    times = {"dim": min(x.dims[0], 2), "none": 2, "one": 1, "never": 0}[trips]
    keep = g.constant(np.array(True), plain=True)
    dims = ((times + 1) * x.dims[0], x.dims[1])
    y = g.node("Loop", [count, keep, x], dims, FLOAT, outputs=2, soft=x.soft, body=body)
    g.give(y)
    g.kept.append(Value(f"{y.name}_1", (times,), FLOAT, x.soft))


@piece(since=15)
def function_bodies(g):
    """Functions that call each other, with an attribute that the caller sets, constants and an If inside."""
    x = g.take()
    if not any(each.name == "Outer" for each in g.functions):
        opsets = [helper.make_opsetid("", g.opset), helper.make_opsetid("local", 1)]
        scale = helper.make_node("LeakyRelu", ["a"], ["r"])
        scale.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
        g.functions.append(helper.make_function("local", "Inner", ["a"], ["r"], [scale], opsets, ["slope"]))
        branches = [
            helper.make_graph([helper.make_node(op_type, ["b"], [name])], name, [], [helper.make_tensor_value_info(name, 1, None)])
            for op_type, name in (("Neg", "n"), ("Identity", "i"))
        ]
        nodes = [
            helper.make_node("Inner", ["a"], ["b"], domain="local", slope=0.3),
            helper.make_node("Shape", ["a"], ["s"]),
            helper.make_node("Size", ["s"], ["k"]),
            helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.array(2, np.int64))),
            helper.make_node("Equal", ["k", "two"], ["is"]),
            helper.make_node("If", ["is"], ["y"], then_branch=branches[0], else_branch=branches[1]),
        ]
        g.functions.append(helper.make_function("local", "Outer", ["a"], ["y"], nodes, opsets))
    g.hazard("function with an attribute and an If")
    y = g.node("Outer", [x], x.dims, domain="local")
    g.also(y)
    g.give(g.node("Inner", [y], x.dims, domain="local", slope=0.5))


@piece()
def unsqueezes(g):
    """Unsqueeze and Squeeze, of the same axes or of others."""
    x = g.take(rank=g.pick(1, 2, 3))
    axis = g.random.randint(0, len(x.dims))
    y = g.unsqueeze(x, axis)
    g.also(y)
    again = axis if g.chance(0.7) or 1 not in x.dims else y.dims.index(1)
    if again != axis:
        g.hazard("Squeeze of another axis")
    y = g.axes("Squeeze", y, [again], (*y.dims[:again], *y.dims[again + 1 :]))
    if 1 in y.dims and g.chance(0.5):
        axis = y.dims.index(1)
        y = g.axes("Squeeze", y, [axis], (*y.dims[:axis], *y.dims[axis + 1 :]))
        y = g.unsqueeze(y, axis)
    g.give(y)


@piece(weight=3)
def behind_adds(g):
    """GELU, SiLU or LayerNormalization of a sum: a bias, another value, one that is used again."""
    dims = (*g.dims(2), g.pick(3, 5))
    names = g.shared_names(*dims[:2])
    x = g.input(dims, names=names)
    bias = g.pick("bias", "bias", "value", "row")
    if bias != "bias":
        g.hazard("sum that is no bias")
    other = {"bias": lambda: g.weight(x.dims[2]), "value": lambda: g.input(x.dims, names=names), "row": lambda: g.weight(x.dims[1], 1)}[bias]()
    y = g.binary("Add", x, other)
    g.also(y)
    way = g.pick("erf", "erf", "tanh", "sigmoid", "norm", "norm")
    g.hazard(f"sum before {way}")
    if way == "norm" and g.opset >= 17:
        attributes = {"axis": g.pick(-1, 2)} | ({"epsilon": 1e-3} if g.chance(0.5) else {})
        inputs = [y, g.weight(x.dims[2]), *([g.weight(x.dims[2])] if g.chance(0.7) else [])]
        return g.give(g.node("LayerNormalization", inputs, x.dims, soft=True, **attributes))
    if way == "sigmoid":
        return g.give(g.binary("Mul", y, g.unary("Sigmoid", g.by("Mul", y, 1.702) if g.chance(0.6) else y, soft=True)))
    if way == "tanh":
        cube = g.by("Mul", g.by("Pow", y, 3), 0.044715)
        z = g.unary("Tanh", g.by("Mul", g.binary("Add", y, cube), 0.79788458), soft=True)
    else:
        z = g.unary("Erf", g.by("Div", y, 1.4142135), soft=True)
    g.give(g.by("Mul", g.binary("Mul", y, g.by("Add", z, 1)), 0.5))


@piece()
def twisted_products(g):
    """MatMul of a Transpose, of the last two axes or others, with a factor behind."""
    batch, m, k, n = g.pick(1, 2), g.size(), g.size(), g.size()
    left, right = g.input((batch, m, k)), g.input((batch, n, k))
    del g.values[-2:]
    y = g.node("MatMul", [left, g.transpose(right, [0, 2, 1])], (batch, m, n), soft=True)
    if g.chance(0.5):
        square = g.input((2, 2, 2))
        g.values.pop()
        g.hazard("Transpose of other axes before MatMul")
        turned = g.transpose(square, g.pick([1, 0, 2], [2, 1, 0], [0, 2, 1]))
        g.give(g.node("MatMul", [turned, g.unary("Neg", square)], (2, 2, 2), soft=True))
    g.give(g.by("Mul", y, g.pick(0.5, 0.3)))


@piece()
def large_weights(g):
    """Constants above 1 MiB, sometimes: a weight that is turned, scaled, added to, shared under two names."""
    k, n = g.pick((520, 540), (12, 20), (20, 3))
    x = g.input((g.pick(1, 2), k))
    g.values.pop()
    if k > 500:
        g.hazard("weight above 1 MiB")
    array = g.numbers((n, k))
    w = g.constant(array)
    way = g.pick("turned", "scaled", "twice", "norm", "added")
    w = g.transpose(w, [1, 0])
    if way == "scaled":
        w = g.by("Mul", w, 0.37)
    if way == "added":
        w = g.binary("Add", w, g.weight(n))
    y = g.node("MatMul", [x, w], (x.dims[0], n), soft=True)
    if way == "twice":
        g.hazard("equal initializers under two names")
        other = g.transpose(g.constant(array), [1, 0])
        y = g.binary("Add", y, g.node("MatMul", [g.by("Mul", x, 0.5), other], (x.dims[0], n), soft=True))
    g.give(g.norm(y, n) if way == "norm" else y)


@piece()
def folded_gemm(g):
    """A Gemm between Reshapes, with a factor, a row for a bias or another Reshape behind it sometimes."""
    x = g.input(g.dims(3))
    a, b, k = x.dims
    n = g.pick(1, 3, 5)
    rows = g.reshape(x, (a * b, k), (-1, k))
    dims = g.pick((n,), (n,), (1, n), (a * b, n), None)
    inputs = [rows, g.weight(k, n), *([] if dims is None else [g.weight(*dims)])]
    attributes = {"alpha": 0.5} if g.chance(0.15) else {"beta": 2.0} if g.chance(0.1) else {}
    y = g.node("Gemm", inputs, (a * b, n), soft=True, **attributes)
    g.also(y)
    after = g.pick((a, b, n), (a, b, n), (b, a, n), (a, 1, b, n))
    g.give(g.reshape(y, after))


@piece(weight=0)  # only in the arm `factors`, so that graphs of all other seeds stay as they were
def scaled_operands(g):
    """A factor before a Conv, ConvTranspose, MatMul or Gemm, which its weights can take: or may not, as another asks for it too."""
    kind = g.pick("conv", "conv", "MatMul", "Gemm")
    x = g.take(rank={"conv": g.pick(3, 4), "Gemm": 2}.get(kind, g.pick(2, 3)))
    factor = g.pick(0.5, 0.5, 1.5, 0.3, -0.7, 2.0)
    op_type = g.pick("Mul", "Mul", "Div")
    many = g.chance(0.1)
    dims = (x.dims[1], *[1] * (len(x.dims) - 2)) if kind == "conv" else x.dims[-1:]
    if many:
        g.hazard("factors that are not one")
        scaled = g.binary(op_type, x, g.weight(*dims, low=0.5))
    elif g.chance(0.1):
        g.hazard("a factor that is divided")
        scaled = g.binary("Div", g.constant(np.array(factor, x.dtype)), x)
    else:
        scaled = g.by(op_type, x, factor)
    g.also(scaled)
    if kind == "conv":
        return g.give(g.conv(scaled, transposed=g.chance(0.35)))
    n = g.pick(1, 3, 5)
    w = g.weight(x.dims[-1], n)
    bias = [g.weight(n)] if kind == "Gemm" and g.chance(0.5) else []
    if g.chance(0.1):
        g.hazard("a weight that another product has")
        g.give(g.node("MatMul", [x, w], (*x.dims[:-1], n), soft=True))
    g.give(g.node(kind, [scaled, w, *bias], (*x.dims[:-1], n), soft=True))


@piece(since=14, weight=0)  # this and the next three: only in the arm `simplified`
def hard_activations(g):
    """HardSigmoid and HardSwish from their parts, in the orders of exporters; or with another number, or another use of an inner value."""
    x = g.take()
    offset, slope = (g.pick(2.0, 2.5), 6.0) if g.chance(0.15) else (3.0, 6.0)
    way = g.pick("clip", "clip", "slope", "keras", "swish")
    if way == "keras":
        y = g.clip(g.by("Add", g.by("Mul", x, g.pick(0.2, 0.25)), 0.5), 0.0, 1.0)
    elif way == "slope":
        y = g.clip(g.by(*g.pick(("Mul", g.by("Add", x, offset), 1 / 6), ("Div", g.by("Add", x, offset), slope), ("Add", g.by("Div", x, slope), 0.5))), 0.0, 1.0)
    else:
        inner = g.clip(g.by("Add", x, offset), 0.0, 6.0)
        g.also(inner)
        if way == "swish":
            order = g.pick("early", "late")
            y = g.binary("Mul", x, inner) if order == "late" else inner
            y = g.by(*g.pick(("Div", y, slope), ("Mul", y, 1 / 6)))
            return g.give(y if order == "late" else g.binary("Mul", x, y))
        y = g.by(*g.pick(("Div", inner, slope), ("Mul", inner, 1 / 6)))
    g.also(y)
    g.give(g.binary("Mul", x, y) if g.chance(0.5) else y)


@piece(weight=0)
def kept_axes(g):
    """A reduction whose axes come back, or others, or at another place."""
    op_type = g.pick("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ArgMax")
    x = g.take(soft=op_type != "ArgMax")
    axis = g.random.randrange(len(x.dims))
    dims = (*x.dims[:axis], *x.dims[axis + 1 :])
    if op_type == "ArgMax":
        y = g.node("ArgMax", [x], dims, np.int64, axis=g.pick(axis, axis - len(x.dims)), keepdims=0)
    else:
        y = g.reduce(op_type, x, axis, keepdims=False)
    g.also(y) if y.dtype == FLOAT else None
    y = g.unsqueeze(y, axis if g.chance(0.8) else g.random.randrange(len(x.dims)))
    g.give(y if y.dtype == FLOAT else g.cast(y, FLOAT))


@piece(weight=0)
def constant_parts(g):
    """Split and Resize of a constant, and an Expand of one that is reduced."""
    way = g.pick("split", "resize", "resize", "expand")
    if way == "split":
        sizes = [g.pick(1, 2, 3) for _ in range(g.pick(2, 3))]
        even = g.chance(0.4)
        sizes = [sizes[0]] * len(sizes) if even else sizes
        w, attributes = g.weight(2, sum(sizes)), {"axis": g.pick(1, -1)}
        inputs = [w]
        if not even and g.opset >= 13:
            inputs.append(g.ints(*sizes))
        elif not even:
            attributes["split"] = sizes
        elif g.opset >= 18:
            attributes["num_outputs"] = len(sizes)
        first = g.node("Split", inputs, (2, sizes[0]), outputs=len(sizes), **attributes)
        parts = [first, *(Value(f"{first.name}_{more}", (2, size), first.dtype) for more, size in enumerate(sizes) if more)]
        return g.give(*(g.binary("Mul", g.input((2, 1)), part) for part in parts if g.chance(0.8)))
    if way == "expand":
        w = g.weight(*g.pick((1,), (), (3, 1), (1, 1)))
        length = g.pick(4, 40)
        y = g.node("Expand", [w, g.ints(2, 3, length)], (2, 3, length))
        y = g.reduce(g.pick("ReduceMin", "ReduceMax"), y, 2)
        return g.give(g.binary("Mul", g.input((2, 3, 1)), y))
    sizes = (g.pick(1, 2, 5), g.pick(2, 3, 4))
    scales = [g.pick(1.0, 2.0, 0.5, 1.5, 3.0) for _ in sizes]
    out = [max(1, int(size * scale)) for size, scale in zip(sizes, scales)]
    w = g.weight(1, 2, *sizes)
    mode = g.pick("nearest", "linear", "cubic")
    how = {"mode": mode, "coordinate_transformation_mode": g.pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")}
    if mode == "nearest":
        how["nearest_mode"] = g.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    empty = g.constant(np.zeros(0, np.float32), fixed=True)
    y = g.node("Resize", [w, empty, empty, g.ints(1, 2, *out)], (1, 2, *out), soft=mode != "nearest", **how)
    g.give(g.binary("Mul", g.input((1, 2, 1, 1)), y))


@piece(weight=0)
def filled_values(g):
    """Arithmetic on what ConstantOfShape or Expand fills with one number."""
    x = g.take()
    shape = g.node("Shape", [x], (len(x.dims),), np.int64)
    number = g.pick(0.0, 1.0, 2.5)
    if g.chance(0.5):
        kind = g.pick(np.float32, np.int64)
        value = numpy_helper.from_array(np.array([number], kind))
        y = g.node("ConstantOfShape", [shape], x.dims, kind, **({} if number == 0 and kind == np.float32 else {"value": value}))
    else:
        y = g.node("Expand", [g.constant(np.full(g.pick((), (1,)), number, np.float32)), shape], x.dims)
    for _ in range(g.pick(1, 2)):
        if y.dtype != FLOAT:
            y = g.cast(y, FLOAT)
        else:
            y = g.pick(lambda: g.unary("Exp", y), lambda: g.by("Mul", y, 3.0), lambda: g.by("Add", y, 0.5), lambda: g.unary("Neg", y))()
    g.also(y) if y.dtype == FLOAT else None
    g.give(g.binary("Add", x, y if y.dtype == FLOAT else g.cast(y, FLOAT)))


# Pieces whose operators the runtime has in double and in float16 too, and that know of no other floats.
IN_DOUBLE = {
    "gemm_norm", "matmul_norm", "transposes", "reshapes", "slices", "concats", "nothings", "matmul_add", "projections",
    "transposed_weights", "silu", "layer_norm", "rms_norm", "reciprocals", "spelled_out", "sinks", "softmax_parts",
}  # fmt: skip
IN_HALF = IN_DOUBLE | {"conv_norm", "conv_norm_shared", "norm_first", "conv_affine", "pad_window", "attention_forms", "rotary_forms"}


def _tensor_as(tensor, dtype):
    if tensor.data_type == TensorProto.FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(dtype), tensor.name))


def in_another_float(case, dtype):
    """The same graph with float16 or double for float32."""
    graph, wanted = case.model.graph, helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = wanted
    for tensor in graph.initializer:
        _tensor_as(tensor, dtype)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("value_float", "value_floats"):
                array = np.array(helper.get_attribute_value(attribute), dtype)
                attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(array, node.output[0])))
            elif attribute.type == onnx.AttributeProto.TENSOR:
                _tensor_as(attribute.t, dtype)
            elif node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = wanted
    feeds = [
        {name: array.astype(dtype) if array.dtype == FLOAT else array for name, array in feed.items()} for feed in case.feeds
    ]
    return Case(case.model, feeds, case.hazards, case.pieces)


def random_graph(seed, only=None, opset=None, dtype=np.float32, without=()):
    """A Case from a seed. `only`: names of pieces to choose from, and then just one; `without`: what not to choose;
    `dtype`: float16 or double instead."""
    g = Graph(seed, opset)
    if dtype != np.float32:
        known = IN_HALF if dtype == np.float16 else IN_DOUBLE
        only = known & set(only) if only else known
    fit = []
    for name, (_, since, weight) in PIECES.items():
        if since <= g.opset and (not only or name in only) and name not in without:
            fit += [name] * (weight or bool(only))
    names = [g.random.choice(fit) for _ in range(1 if only else g.random.randint(1, 4))] if fit else []
    for name in names:
        PIECES[name][0](g)
    if not g.ends and not g.kept:
        g.give(g.unary("Neg", g.take()))
    case = Case(g.finish(), g.feeds(), g.hazards, names)
    return case if dtype == np.float32 else in_another_float(case, dtype)


def check(program, seeds, exactness, only=None, dtype=np.float32, opset=None):
    """What a command line with the words IN and OUT does to graphs: {seed: complaints}, only of those that it harms."""
    harmed = {}
    with tempfile.TemporaryDirectory() as folder:
        source, out = os.path.join(folder, "in.onnx"), os.path.join(folder, "out.onnx")
        words = [{"IN": source, "OUT": out}.get(word, word) for word in shlex.split(program)]
        for seed in seeds:
            case = random_graph(seed, only, opset, dtype)
            onnx.save(case.model, source)
            if os.path.exists(out):
                os.remove(out)
            done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if done.returncode or not os.path.exists(out):
                complaints = [f"exit code {done.returncode}: {(done.stderr.strip() or 'nothing said').splitlines()[0]}"]
            else:
                complaints = compare(case.model, out, exactness, case.feeds)
            if complaints:
                harmed[seed] = complaints
    return harmed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", help="a command with the words IN and OUT (none: compare graphs with themselves)")
    parser.add_argument("--exactness", choices="EZTM", default="T")
    parser.add_argument("--dtype", choices=("float32", "float16", "float64"), default="float32")
    parser.add_argument("--from", dest="seed", type=int, default=0)
    parser.add_argument("--save", metavar="FILE", help="write the graph of the first seed, run nothing")
    parser.add_argument("count", type=int)
    parser.add_argument("pieces", nargs="*", choices=[[], *PIECES])
    words = parser.parse_args()
    dtype, seeds = np.dtype(words.dtype).type, range(words.seed, words.seed + words.count)
    cases = (random_graph(seed, words.pieces, dtype=dtype) for seed in seeds)
    if words.save:
        onnx.save(next(cases).model, words.save)
        return 0
    begin = time.perf_counter()
    if words.program:
        harmed = check(words.program, seeds, words.exactness, words.pieces, dtype)
    else:
        found = {seed: compare(case.model, case.model, "E", case.feeds) for seed, case in zip(seeds, cases)}
        harmed = {seed: complaints for seed, complaints in found.items() if complaints}
    print(f"{words.count} graphs in {time.perf_counter() - begin:.1f} s, {len(harmed)} harmed")
    for seed, complaints in harmed.items():
        case = random_graph(seed, words.pieces, dtype=dtype)
        print(f"{seed}: {' '.join(case.pieces)} ({', '.join(case.hazards)})", *complaints, sep="\n  ")
    return 1 if harmed else 0


if __name__ == "__main__":
    sys.exit(main())
