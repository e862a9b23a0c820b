#!/usr/bin/env python3
"""Random models of every operator that static, dynamic and requantize write or wrap, quantized in each form, and a judge of what comes out.

    quantized_graphs.py --weir build/plain/weir 2000                       so many models a form
    quantized_graphs.py --weir build/plain/weir --form qdq --seed 4711 1   one of them again, and what is wrong with it
    quantized_graphs.py … --save FOLDER                                    … shrunk, in files

The models are those of int8_graphs.py. A form (`FORMS`) is what weir is asked for. The judge:

  loads        the quantized model passes onnx.checker, and runs without and with the optimizations of ONNX Runtime
  one step     with and without them its outputs are within one step of each other, or 30 dB apart at least, or as near as the float
               model and its simulation (below)
  apart        operators on codes give what float operators between Q and DQ give that a function here writes for them (`apart`):
               the same bounds
  ten decibels its outputs are 10 dB from the float model at least: or as far as a plain simulation is, in which each value and
               constant is rounded to 256 numbers of its own range (`rounded`): some models cannot be computed in 8 bits

Integer outputs are compared only where the elements that they choose are further apart than the error that was seen.
A model with something wrong is shrunk before it is told.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import exact_products
import optimized_graphs
from int8_graphs import PIECES, random_model, session

exact_products.install()

LEAST_DB, SAME_DB = 10, 30
PART = 25  # models that a process takes at a time
REFUSED = ("changed between opset",)  # said where a node has no form in the opset that codes need
WIDER = (1, 1.01, 1.03, 1.05, 1.08, 1.11)  # ranges of the simulation: what is rounded well by chance is not rounded well in all
BELOW_SIMULATION = 6  # dB that a quantized model may be below the simulation, where that is below LEAST_DB


# ---- running


def decibels(want, got):
    want, got = np.asarray(want, np.float64), np.asarray(got, np.float64)
    noise, signal = float(((want - got) ** 2).sum()), float((want**2).sum())
    if not np.isfinite(noise):
        return -200.0
    return 200.0 if noise == 0 else -200.0 if signal == 0 else float(10 * np.log10(signal / noise))


# ---- what weir is asked for


ODD = (["--activation-restricted-asymmetric"], ["--minimum-real-range", "0.001"], ["--dedicated-qdq-pair"], ["--add-qdq-pair-to-weight"],
       ["--qdq-keep-removable-activations"], ["--quantize-bias", "false"])  # fmt: skip


def static_words(form, seed):
    r = random.Random(f"static {seed}")
    activation, weight = r.choice((("uint8", "int8"), ("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")))
    if activation == "int8" and not exact_products.has_vnni():
        activation = "uint8"  # int8 beside int8 is cut off there, too
    if form == "qdq" and r.random() < 0.1:
        activation = "uint16"
    words = ["--format", form, "--activation-type", activation, "--weight-type", weight]
    words += ["--op-types", "all"] if r.random() < 0.7 else []
    words += ["--per-tensor"] if r.random() < 0.3 else []
    words += ["--force-quantize-no-input-check"] if r.random() < 0.15 else []
    words += ["--activation-symmetric"] if activation == "int8" and r.random() < 0.2 else []
    for odd in ODD if form == "qdq" else ODD[:2]:
        words += odd if r.random() < 0.06 else []
    words += ["--exclude", f"*{r.randrange(10)}"] if r.random() < 0.15 else []  # nodes, and those that read such constants
    return ["static", "--ranges", "RANGES", *words]


def dynamic_words(form, seed):
    r = random.Random(f"dynamic {seed}")
    words = ["--copy", "--form", r.choice(("fused", "integer"))]
    if r.random() < 0.15:
        return ["dynamic", "--compat", "onnxruntime"]
    if r.random() < 0.7:
        words += ["--op-types", "MatMul,Gemm,LSTM,Gather,Attention,Conv,EmbedLayerNormalization"]
    words += ["--weight-type", "uint8"] if r.random() < 0.3 else []
    words += ["--per-tensor"] if r.random() < 0.3 else []
    return ["dynamic", *words]


FORMS = {"qdq": static_words, "qoperator": static_words, "dynamic": dynamic_words}
OTHER = {"qdq": "qoperator", "qoperator": "qdq"}
RECIPES = [("--format", form, "--execution", how) for form in ("int32-bias", "fp32-bias", "fp32-bias-qdq") for how in ("qdq", "qlinear")]


# ---- references


def ranges_of(values):
    """What onnxruntime's calibration keeps of these values, as JSON."""
    array = lambda x: {"data": [float(x)], "dtype": str(x.dtype), "CLS": "numpy.array"}  # noqa: E731
    data = {n: {"lowest": array(x.min()), "highest": array(x.max()), "CLS": "TensorData"} for n, x in values.items() if x.dtype.kind == "f"}
    method = {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"}
    return json.dumps({"CLS": "TensorsData", "data": data, "smooth_quant": False, "calibration_method": method})


def copied(model):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def import_microsoft(model):
    if not any(o.domain == "com.microsoft" for o in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


def least_range(words):
    """The range that the words ask for at least."""
    return float(words[words.index("--minimum-real-range") + 1]) if "--minimum-real-range" in words else 0.0


def rounded(model, values, wider=1.0, least=0.0):
    """A simulation: each value and matrix has 256 numbers of its own range, or of a wider one, or of one that is so wide at least. Also
    each output's names: before it is rounded, and behind."""
    copy = copied(model)
    import_microsoft(copy)
    graph, nodes, renamed = copy.graph, [], {}
    sizes = {n for node in graph.node if node.op_type == "Resize" for n in node.input[1:]}

    def round_behind(name):
        x = values[name]
        low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
        scale = max(max(high - low, least) * wider / 255, 1e-30)
        renamed[name] = f"{name}/rounded"
        held = {"s": np.array(scale, np.float32), "z": np.array(round(-low / scale), np.uint8)}
        graph.initializer.extend(numpy_helper.from_array(a, f"{name}/{n}") for n, a in held.items())
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        steps = (("Cast", "", {"to": TensorProto.FLOAT}), ("QuantizeLinear", "com.microsoft", {}),
                 ("DequantizeLinear", "com.microsoft", {}), ("Cast", "", {"to": kind}))  # fmt: skip
        at = name
        for i, (op, domain, said) in enumerate(steps):
            to = renamed[name] if i == 3 else f"{name}/{i}"
            more = [f"{name}/s", f"{name}/z"] if domain else []
            nodes.append(helper.make_node(op, [at, *more], [to], domain=domain, **said))
            at = to

    for tensor in graph.initializer:
        a = numpy_helper.to_array(tensor)
        if a.dtype.kind == "f" and a.ndim > 1 and tensor.name not in sizes:
            low, high = min(float(a.min()), 0.0), max(float(a.max()), 0.0)
            step = max(max(-low, high, low + least) * wider / 127, 1e-30)
            ends, codes = np.finfo(a.dtype), np.round(a.astype(np.float64) / step)
            tensor.CopyFrom(numpy_helper.from_array(np.clip(codes * step, ends.min, ends.max).astype(a.dtype), tensor.name))
    for i in graph.input:
        if values[i.name].dtype.kind == "f":
            round_behind(i.name)
    for node in list(graph.node):
        twin = onnx.NodeProto()
        twin.CopyFrom(node)
        twin.input[:] = [renamed.get(n, n) for n in node.input]
        nodes.append(twin)
        for n in node.output:
            if n and values[n].dtype.kind == "f":
                round_behind(n)
    del graph.node[:]
    graph.node.extend(nodes)
    names = [o.name for o in graph.output]
    del graph.output[:]
    graph.output.extend(onnx.ValueInfoProto(name=n) for n in dict.fromkeys([*names, *(renamed.get(n, n) for n in names)]))
    return copy, [[n, renamed.get(n, n)] for n in names]


class Apart:
    """Operators on codes as float operators between DequantizeLinear and QuantizeLinear of com.microsoft, which any opset has."""

    def __init__(self, model):
        self.model = copied(model)
        import_microsoft(self.model)
        self.tensors = {t.name: t for t in self.model.graph.initializer}
        self.opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        self.nodes, self.n, self.done = [], 0, 0
        for node in self.model.graph.node:
            how = getattr(self, node.op_type, None)
            before = len(self.nodes)
            if how is None or how({a.name: helper.get_attribute_value(a) for a in node.attribute}, list(node.input), list(node.output)) is False:
                del self.nodes[before:]
                self.nodes.append(node)
            else:
                self.done += 1
        del self.model.graph.node[:]
        self.model.graph.node.extend(self.nodes)

    def node(self, op, inputs, out=None, domain="", **said):
        self.n += 1
        out = out or f"apart/{self.n}"
        self.nodes.append(helper.make_node(op, inputs, [out], domain=domain, **said))
        return out

    def per_channel(self, scale):
        return scale in self.tensors and len(self.tensors[scale].dims) > 0 and self.tensors[scale].dims[0] > 1

    def rank(self, name):
        return len(self.tensors[name].dims) if name in self.tensors else None

    def floats(self, codes, scale, zero, axis=None):
        said = {} if axis is None or not self.per_channel(scale) else {"axis": axis}
        zero = self.spread(zero, scale) if said else zero
        return self.node("DequantizeLinear", [codes, scale, *([zero] if zero else [])], domain="com.microsoft", **said)

    def spread(self, zero, scale):
        """A zero point for each scale."""
        if not zero or self.tensors[zero].dims == self.tensors[scale].dims:
            return zero
        a = numpy_helper.to_array(self.tensors[zero])
        made = numpy_helper.from_array(np.full(tuple(self.tensors[scale].dims), a.ravel()[0], a.dtype), f"{zero}/{scale}/spread")
        self.model.graph.initializer.append(made)
        return made.name

    def codes(self, x, scale, zero, out):
        self.node("QuantizeLinear", [x, scale, *([zero] if zero else [])], out, domain="com.microsoft")

    def bias_floats(self, b, x_scale, w_scale, factor=1.0):
        wide = self.node("Cast", [b], to=TensorProto.FLOAT)
        by = self.node("Mul", [x_scale, w_scale])
        f = numpy_helper.from_array(np.float32(factor), f"apart/factor{self.n}")
        self.model.graph.initializer.append(f)
        return self.node("Mul", [self.node("Mul", [wide, by]), f.name])

    def QLinearConv(self, said, i, o):
        inputs = [self.floats(*i[0:3]), self.floats(*i[3:6], axis=0)]
        if len(i) > 8 and i[8]:
            inputs.append(self.bias_floats(i[8], i[1], i[4]))
        self.codes(self.node("Conv", inputs, **said), i[6], i[7], o[0])

    def QLinearMatMul(self, said, i, o):
        rank = self.rank(i[3])
        self.codes(self.node("MatMul", [self.floats(*i[0:3]), self.floats(*i[3:6], axis=rank and rank - 1)]), i[6], i[7], o[0])

    def QGemm(self, said, i, o):
        i += [""] * (9 - len(i))
        inputs = [self.floats(*i[0:3]), self.floats(*i[3:6], axis=0 if said.get("transB") else 1)]
        y = self.node("Gemm", [*inputs, "apart/zero"], **said) if self.opset < 11 else self.node("Gemm", inputs, **said)
        if self.opset < 11 and "apart/zero" not in self.tensors:
            self.tensors["apart/zero"] = numpy_helper.from_array(np.zeros(1, np.float32), "apart/zero")
            self.model.graph.initializer.append(self.tensors["apart/zero"])
        if i[6]:
            y = self.node("Add", [y, self.bias_floats(i[6], i[1], i[4], said.get("alpha", 1.0))])
        if i[7]:
            self.codes(y, i[7], i[8], o[0])
        else:
            self.node("Identity", [y], o[0])

    def binary(self, op, i, o):
        i += [""] * (8 - len(i))
        self.codes(self.node(op, [self.floats(*i[0:3]), self.floats(*i[3:6])]), i[6], i[7], o[0])

    def QLinearAdd(self, said, i, o):
        self.binary("Add", i, o)

    def QLinearMul(self, said, i, o):
        self.binary("Mul", i, o)

    def QLinearConcat(self, said, i, o):
        parts = [self.floats(*i[k : k + 3]) for k in range(2, len(i), 3)]
        self.codes(self.node("Concat", parts, axis=said["axis"]), i[0], i[1], o[0])

    def QLinearWhere(self, said, i, o):
        self.codes(self.node("Where", [i[0], self.floats(*i[1:4]), self.floats(*i[4:7])]), i[7], i[8], o[0])

    def unary(self, op, said, i, o):
        if said.pop("channels_last", 0):
            return False
        i += [""] * (5 - len(i))
        self.codes(self.node(op, [self.floats(*i[0:3])], **said), i[3], i[4], o[0])
        return True

    def QLinearLeakyRelu(self, said, i, o):
        return self.unary("LeakyRelu", said, i, o)

    def QLinearSigmoid(self, said, i, o):
        return self.unary("Sigmoid", said, i, o)

    def QLinearAveragePool(self, said, i, o):
        return self.unary("AveragePool", said, i, o)

    def QLinearGlobalAveragePool(self, said, i, o):
        return self.unary("GlobalAveragePool", said, i, o)

    def QLinearSoftmax(self, said, i, o):
        version = said.pop("opset")
        if (version < 13) != (self.opset < 13):
            return False
        return self.unary("Softmax", {"axis": said.get("axis", -1)}, i, o)

    def MatMulIntegerToFloat(self, said, i, o):
        i += [""] * (7 - len(i))
        rank = self.rank(i[1])
        y = self.node("MatMul", [self.floats(i[0], i[2], i[4]), self.floats(i[1], i[3], i[5], axis=rank and rank - 1)])
        self.node("Add", [y, i[6]], o[0]) if i[6] else self.node("Identity", [y], o[0])

    def DynamicQuantizeMatMul(self, said, i, o):
        i += [""] * (5 - len(i))
        rank = self.rank(i[1])
        parts = [f"{o[0]}/{n}" for n in ("codes", "scale", "zero")]
        if self.opset < 11:  # no DynamicQuantizeLinear
            return False
        self.nodes.append(helper.make_node("DynamicQuantizeLinear", [i[0]], parts))
        x = self.floats(*parts)
        y = self.node("MatMul", [x, self.floats(i[1], i[2], i[3], axis=rank and rank - 1)])
        self.node("Add", [y, i[4]], o[0]) if i[4] else self.node("Identity", [y], o[0])
        return True

    def QAttention(self, said, i, o):
        i += [""] * (9 - len(i))
        parts = [self.floats(i[0], i[3], i[6]), self.floats(i[1], i[4], i[7], axis=1), i[2], i[5], i[8]]
        while not parts[-1]:
            parts.pop()
        self.nodes.append(helper.make_node("Attention", parts, o, domain="com.microsoft", **said))


# ---- the judge


# Of ONNX Runtime 1.31.1 itself, whoever wrote the model (docs/int8.md): what it says then.
FAULTS = ("_bias_div_round", "'Cubic' mode only supports")
DIMS = ("shape", "imension")  # words of messages about them


def loses_a_bias(model, values):
    """Is there a float16 bias that ONNX Runtime quantizes itself by a product of scales that float16 does not hold, or to codes that it
    does not? (docs/int8.md)"""
    held = {t.name: t for t in model.graph.initializer}
    scales = {n.output[0]: held[n.input[1]] for n in model.graph.node if n.op_type == "DequantizeLinear" and n.input[1] in held}
    for node in model.graph.node:
        pair = [scales.get(n) for n in node.input[:2]]
        if node.op_type not in ("Conv", "ConvTranspose", "Gemm") or len(node.input) < 3 or node.input[2] in scales or None in pair:
            continue
        product = np.prod([float(numpy_helper.to_array(t).min()) for t in pair])
        bias = held.get(node.input[2])
        bias = values.get(node.input[2]) if bias is None else numpy_helper.to_array(bias)
        codes = np.inf if bias is None or not product else np.abs(bias.astype(np.float64)).max(initial=0) / product
        if (product < 2.0**-24 or codes > np.finfo(np.float16).max) and pair[0].data_type == TensorProto.FLOAT16:
            return True
    return False


def infers_other_dims(model, values):
    """Is there a pool of which ONNX Runtime infers other dims than it computes? (docs/int8.md)"""
    bare = copied(model)
    del bare.graph.value_info[:]
    for o in bare.graph.output:
        o.type.tensor_type.ClearField("shape")
    known = onnx.shape_inference.infer_shapes(bare).graph
    dims = {v.name: v.type.tensor_type.shape.dim for v in [*known.value_info, *known.output]}
    pools = [node.output[0] for node in model.graph.node if node.op_type in ("AveragePool", "MaxPool")]
    return any(d.HasField("dim_value") and d.dim_value != n for name in pools if name in dims for d, n in zip(dims[name], values[name].shape))


def is_moved_before(model, name):
    """Are these the Indices of a MaxPool of floats, before which ONNX Runtime may put the Q of what comes of it, and its narrower range?"""
    node = chooser_of(model, name)
    maker = chooser_of(model, node.input[0]) if node is not None else None
    return node is not None and node.op_type == "MaxPool" and (maker is None or maker.op_type != "DequantizeLinear")


CANCEL = ("Add", "AveragePool", "GlobalAveragePool", "Sub")  # what they give may be nothing of what they take
WITHIN = ("AveragePool", "GlobalAveragePool", "MaxPool", "Relu")  # what they give is as far off as what they take, at most
MOVES = ("Concat", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")


def whole_of(model, name, moves=MOVES):
    """The values that an output is a part of, by operators that only move elements, or those that are named."""
    found, at = [], [name]
    while at:
        node = chooser_of(model, at.pop())
        if node is not None and node.op_type in moves:
            at += [n for n in node.input if n]
            found += [n for n in node.input if n]
    return found


def largest(model, names):
    held = {t.name: t for t in model.graph.initializer}
    return max((float(numpy_helper.to_array(held[n]).max()) for n in names if n in held), default=0.0)


def scale_of_codes(model, name):
    """The scale of the codes that the value is made of; 0: of none."""
    return largest(model, [node.input[1] for node in model.graph.node if node.op_type == "DequantizeLinear" and name in node.output])


def scale_behind(model, name):
    """The scale that the value is quantized by; 0: it is not."""
    names = (name, f"{name}_float")
    return largest(model, [node.input[1] for node in model.graph.node if node.op_type == "QuantizeLinear" and node.input[0] in names])


def step_of(model, name, want):
    """How far apart two neighbouring numbers are that the output may have."""
    return max(scale_of_codes(model, name), float(want.max() - want.min()) / 255)


def chooser_of(model, name):
    """The node whose integer output that is, and whether it says where what it takes is largest."""
    return next((node for node in model.graph.node if name in node.output), None)


def chosen(node, x, index):
    """The elements that an ArgMax, TopK or MaxPool points at; None: not to be said."""
    said = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "MaxPool":
        return None if said.get("storage_order") else x.ravel()[index]
    axis = said.get("axis", -1 if node.op_type == "TopK" else 0)
    if node.op_type == "ArgMax" and said.get("keepdims", 1) == 0:
        index = np.expand_dims(index, axis)
    if node.op_type == "TopK" and len(node.output) < 2 or index.ndim != x.ndim:
        return None
    return np.take_along_axis(x, index, axis)


class Judge:
    def __init__(self, model, feeds, values, words=()):
        self.model, self.feeds, self.values = model, feeds, values
        self.least = least_range(words)
        self.names = [o.name for o in model.graph.output]
        self.want = [values[n] for n in self.names]
        self.simulated = None

    def simulation(self, i):
        """What a plain simulation gives for that output: the worst of several, in wider ranges, and rounded itself or not."""
        if self.simulated is None:
            tries = [[] for _ in self.want]
            for wider in WIDER:
                model, names = rounded(self.model, self.values, wider, self.least)
                ran = session(model)
                found = dict(zip([o.name for o in ran.get_outputs()], ran.run(None, self.feeds)))
                for pair, each in zip(names, tries):
                    each.extend(found[n] for n in pair)
            self.simulated = [min(each, key=lambda x, w=w: decibels(w, x)) for each, w in zip(tries, self.want)]
        return self.simulated[i]

    def simulated_db(self, i):
        return decibels(self.want[i], self.simulation(i))

    def indices(self, i, got, want, steps):
        """Do they point at elements that are further apart than so many steps?"""
        node = chooser_of(self.model, self.names[i])
        x = self.values[node.input[0]]
        a, b = chosen(node, x, want), chosen(node, x, got)
        if a is None:
            return ""
        apart, step = float(np.abs(a - b).max()), max(float(x.max()), -float(x.min()), float(x.max() - x.min())) / 255
        return f"elements {apart / max(step, 1e-30):.1f} steps apart" if apart > steps * step else ""

    def same(self, quantized, one, two):
        """Two ways to compute one quantized model."""
        wrong = []
        for i, (a, b) in enumerate(zip(one, two)):
            if a.shape != b.shape or a.dtype != b.dtype:
                wrong.append(f"{self.names[i]}: {a.dtype}{a.shape} and {b.dtype}{b.shape}")
            elif a.dtype.kind == "f":
                step, far = step_of(quantized, self.names[i], self.want[i]), np.abs(a.astype(np.float64) - b).max()
                if far > 1.05 * step and decibels(a, b) < SAME_DB and decibels(a, b) < self.simulated_db(i) - BELOW_SIMULATION:
                    wrong.append(f"{self.names[i]}: {decibels(a, b):.1f} dB, {far / max(step, 1e-30):.1f} steps")
            elif a.dtype.kind == "i" and not is_moved_before(quantized, self.names[i]) and (said := self.indices(i, b, a, 3)):
                wrong.append(f"{self.names[i]}: {said}")
        return wrong

    def near(self, quantized, got):
        """Beside the float model."""
        wrong = []
        for i, (a, b) in enumerate(zip(self.want, got)):
            if a.shape != b.shape or a.dtype != b.dtype:
                wrong.append(f"{self.names[i]}: {b.dtype}{b.shape} in place of {a.dtype}{a.shape}")
            elif a.dtype.kind == "f":
                least = LEAST_DB
                if decibels(a, b) < least:
                    least = min(least, self.simulated_db(i) - BELOW_SIMULATION)
                # Numbers that are all within a step of what they should be have nothing wrong with them.
                if decibels(a, b) < least and np.abs(a.astype(np.float64) - b).max() > self.least_step(quantized, i):
                    wrong.append(f"{self.names[i]}: {decibels(a, b):.1f} dB, where a simulation has {self.simulated_db(i):.1f}")
            elif a.dtype.kind == "i" and (said := self.indices(i, b, a, 40)) and self.indices(i, self.simulation(i), a, 20) == "":
                wrong.append(f"{self.names[i]}: {said}")
        return wrong

    def least_step(self, quantized, i):
        """Of the output; of what it is the difference of, which may leave nothing; of what it is a small part of, whose elements may
        each be some steps off where it is a product."""
        moved = whole_of(self.model, self.names[i])
        makers = [chooser_of(self.model, n) for n in (self.names[i], *whole_of(self.model, self.names[i], (*MOVES, *WITHIN)))]
        terms = [n for node in makers if node is not None and node.op_type in CANCEL for n in node.input if n in self.values]
        xs = [self.want[i], *(self.values[n] for n in terms)]
        step = lambda x: max(float(x.max()), 0.0) / 255 - min(float(x.min()), 0.0) / 255  # noqa: E731
        wholes = [self.values[n] for n in moved if n in self.values and self.values[n].dtype.kind == "f"]
        own = scale_of_codes(quantized, self.names[i])  # half of which comes on top where both terms are off as far as they can be
        scales = [max(scale_of_codes(quantized, n), scale_behind(quantized, n)) + own / 2 for n in terms]
        return max(step_of(quantized, self.names[i], xs[0]), *scales, *(step(x) for x in xs), *(3 * step(x) for x in wholes), 0.0)


# ---- one model


class Runner:
    """Calls weir, or a function of (words, source, out) in its place, in a folder of its own."""

    def __init__(self, weir, folder):
        self.weir, self.folder = weir, folder
        self.ranges = os.path.join(folder, "ranges.json")

    def call(self, words, source, out):
        """What it says when it fails."""
        words = [self.ranges if w == "RANGES" else w for w in words]
        if os.path.exists(out):
            os.remove(out)
        if callable(self.weir):
            return self.weir(words, source, out)
        done = subprocess.run([self.weir, words[0], source, out, *words[1:], "--quiet"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode or not os.path.exists(out):
            return f"exit code {done.returncode}: {(done.stderr.strip() or 'nothing said').splitlines()[0]}"
        return ""

    def judged(self, judge, path, kind, beside=None):
        """(complaints about the quantized model in that file, its outputs)"""
        quantized = onnx.load(path)
        try:
            onnx.checker.check_model(quantized)
            plain = session(quantized).run(None, judge.feeds)
            fast = session(quantized, optimized=True).run(None, judge.feeds)
        except Exception as e:  # the runtime raises what it likes
            of_dims = any(word in str(e) for word in DIMS) and infers_other_dims(judge.model, judge.values)
            if of_dims or any(fault in str(e) for fault in FAULTS):
                return [], None
            return [f"{kind} loads: {str(e).strip().splitlines()[0][:300]}"], None
        wrong = [f"{kind} ten decibels: {w}" for w in judge.near(quantized, plain)]
        if not loses_a_bias(quantized, judge.values):
            wrong += [f"{kind} optimized: {w}" for w in judge.same(quantized, plain, fast)]
        if beside is not None:
            wrong += [f"{kind} other form: {w}" for w in judge.same(quantized, beside, plain)]
        try:
            apart = Apart(quantized)
            if apart.done:
                wrong += [f"{kind} apart: {w}" for w in judge.same(quantized, session(apart.model).run(None, judge.feeds), plain)]
        except Exception as e:
            wrong.append(f"{kind} apart loads: {str(e)[:300]}")
        return wrong, plain

    def recipes(self, judge, seed, source, out):
        """What the recipes for biases make of a model in QDQ form: they round less, so that they are beside the float model alone."""
        recipe = RECIPES[seed // 2 % len(RECIPES)]
        failed = self.call(["requantize", *recipe], source, out)
        return [failed] if failed else self.judged(judge, out, "requantize " + " ".join(recipe))[0]

    def complaints(self, form, seed, model, feeds, found=None):
        values = optimized_graphs.with_all_values(model, [feeds])
        if not values:
            return None
        values = {**values[0], **{n: a for n, a in feeds.items()}}
        values.update({o.name: x for o, x in zip(model.graph.output, session(model).run(None, feeds))})
        if not all(np.isfinite(x).all() for x in values.values() if x.dtype.kind == "f"):
            return None
        with open(self.ranges, "w") as file:
            file.write(ranges_of(values))
        source, out, other = (os.path.join(self.folder, n) for n in ("in.onnx", "out.onnx", "other.onnx"))
        onnx.save(model, source)
        words = FORMS[form](form, seed)
        failed = self.call(words, source, out)
        if failed:
            return None if any(text in failed for text in REFUSED) else [failed]
        judge = Judge(model, feeds, values, words)
        wrong, plain = self.judged(judge, out, form)
        if found is not None:
            found.made.update({(form, node.op_type) for node in onnx.load(out).graph.node})
        if not wrong and form == "qdq" and seed % 2:
            return self.recipes(judge, seed, out, other)
        if wrong or form not in OTHER or seed % 2:
            return wrong
        failed = self.call(["requantize", "--to", OTHER[form]], out, other)
        if failed:
            return [] if "nothing" in failed else [failed]
        return self.judged(judge, other, f"requantize to {OTHER[form]}", plain)[0]


@dataclasses.dataclass
class Found:
    models: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # of a form
    unjudged: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    operators: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # in float models
    made: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # (form, operator) in quantized ones
    wrong: list = dataclasses.field(default_factory=list)  # (form, seed, complaints, the shrunk model as text)

    def add(self, other):
        for mine, theirs in ((self.models, other.models), (self.unjudged, other.unjudged), (self.operators, other.operators), (self.made, other.made)):
            mine.update(theirs)
        self.wrong += other.wrong


def kind_of(complaint):
    return complaint.split(":")[0]


def run_one(runner, form, seed, found, folder=None, only=None):
    case = random_model(seed, only)
    found.models[form] += 1
    wrong = runner.complaints(form, seed, case.model, case.feeds, found)
    if wrong is None:
        found.unjudged[form] += 1
        return
    found.operators.update(node.op_type for node in case.model.graph.node)
    if not wrong:
        return
    kinds = {kind_of(w) for w in wrong}

    def harmed(model, feeds):
        said = runner.complaints(form, seed, model, feeds[0])
        return bool(said) and bool(kinds & {kind_of(w) for w in said})

    model, feeds = optimized_graphs.shrink(case.model, [case.feeds], harmed)
    wrong = runner.complaints(form, seed, model, feeds[0]) or wrong
    if folder:
        os.makedirs(folder, exist_ok=True)
        onnx.save(model, os.path.join(folder, f"{form}-{seed}.onnx"))
        np.savez(os.path.join(folder, f"{form}-{seed}.npz"), **feeds[0])
        for name in ("ranges.json", "out.onnx", "other.onnx"):
            if os.path.exists(os.path.join(runner.folder, name)):
                shutil.copy(os.path.join(runner.folder, name), os.path.join(folder, f"{form}-{seed}-{name}"))
    found.wrong.append((form, seed, wrong, onnx.printer.to_text(model)))


def run_many(weir, form, seeds, folder=None, only=None):
    found = Found()
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="weir-quantized-", dir=base) as place:
        runner = Runner(weir, place)
        for seed in seeds:
            run_one(runner, form, seed, found, folder, only)
    return found


def run_forms(weir, count, forms=None, first=0, jobs=1, folder=None):
    """So many models a form."""
    found = Found()
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        parts = [pool.submit(run_many, weir, form, range(at, min(at + PART, first + count)), folder)
                 for form in forms or FORMS for at in range(first, first + count, PART)]  # fmt: skip
        for part in concurrent.futures.as_completed(parts):
            found.add(part.result())
    found.wrong.sort(key=lambda each: each[:2])
    return found


def again(form, seed):
    return f"tests/support/quantized_graphs.py --weir build/plain/weir --form {form} --seed {seed} 1"


def told(found):
    lines = [f"{found.models.total()} models: " + ", ".join(f"{form} {n}" for form, n in sorted(found.models.items()))]
    lines.append("of which not judged: " + ", ".join(f"{form} {n}" for form, n in sorted(found.unjudged.items())))
    for form, seed, wrong, text in found.wrong:
        lines += [f"{form} {seed}: {again(form, seed)}", *(f"  {each}" for each in wrong[:6]), text]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--weir", required=True, help="the program")
    parser.add_argument("--form", action="append", choices=FORMS)
    parser.add_argument("--first", type=int, default=0, help="other models: the first seed")
    parser.add_argument("--seed", type=int, help="the model with this seed, and COUNT - 1 behind it (with one --form)")
    parser.add_argument("--piece", action="append", choices=PIECES)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--save", metavar="FOLDER", help="keep what is wrong there, shrunk")
    parser.add_argument("count", type=int)
    words = parser.parse_args()
    begin, weir = time.perf_counter(), os.path.abspath(words.weir)
    if words.seed is not None:
        found = run_many(weir, words.form[0], range(words.seed, words.seed + words.count), words.save, words.piece)
    else:
        found = run_forms(weir, words.count, words.form, words.first, words.jobs, words.save)
    print(*told(found), f"{time.perf_counter() - begin:.0f} s, {len(found.wrong)} wrong", sep="\n")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
