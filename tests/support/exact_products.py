"""Sessions of ONNX Runtime whose products of 8 bits are exact, on every processor.

On x86 processors without VNNI the runtime adds pairs of products of uint8 and int8 in 16 bits, where they are cut off: a model that is
right computes other numbers there. Products of uint8 and uint8 are exact. So on such processors a session is that of a model whose int8
weights beside uint8 are uint8 with zero points that are 128 more: the same numbers. (The runtime has an option for that,
session.x64quantprecision: it makes models that do not load.) Beside int8, tests ask weir for `NARROW` weights, of 7 bits, or for other
activations.
"""

import functools
import os

import numpy as np
import onnx
import onnx.inliner
import onnxruntime
from google.protobuf.message import DecodeError
from onnx import TensorProto, numpy_helper

# Places of a product's codes, their scales and zero points, and of the zero point of what they are multiplied by (None: uint8 always).
PRODUCTS = {"QLinearConv": [(3, 4, 5, 2)], "QLinearMatMul": [(3, 4, 5, 2)], "QGemm": [(3, 4, 5, 2)],
            "MatMulInteger": [(1, None, 3, 2)], "MatMulIntegerToFloat": [(1, 3, 5, 4)], "DynamicQuantizeMatMul": [(1, 2, 3, None)],
            "QAttention": [(1, 4, 7, 6)], "DynamicQuantizeLSTM": [(1, 8, 9, None), (2, 10, 11, None)]}  # fmt: skip
FLOAT_PRODUCTS = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
PASSED_ON = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}


@functools.cache
def has_vnni():
    try:
        with open("/proc/cpuinfo") as file:
            text = file.read()
    except OSError:
        return True
    return "vnni" in text or "GenuineIntel" not in text and "AuthenticAMD" not in text


NARROW = [] if has_vnni() else ["--reduce-range"]


class Graph:
    """Of a model that is changed: constants and producers, of the graphs around it too."""

    def __init__(self, graph, outer=None):
        self.graph, self.outer = graph, outer
        self.tensors = {t.name: t for t in graph.initializer}
        self.types = {v.name: v.type.tensor_type.elem_type for v in graph.input}
        self.makers = {name: node for node in graph.node for name in node.output if name}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                self.tensors[node.output[0]] = node.attribute[0].t
        self.readers = {}
        for node in graph.node:
            for i, name in enumerate(node.input):
                self.readers.setdefault(name, []).append((node, i))
        self.made = 0

    def find(self, name, of):
        at = self
        while at is not None and name not in getattr(at, of):
            at = at.outer
        return getattr(at, of)[name] if at is not None else None

    def add(self, array):
        self.made += 1
        name = f"exact_products_{id(self)}_{self.made}"
        self.graph.initializer.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def codes_type(self, name):
        tensor, maker = self.find(name, "tensors"), self.find(name, "makers")
        if tensor is not None:
            return tensor.data_type
        if maker is None:
            return self.find(name, "types")
        if maker.op_type in PASSED_ON:
            return self.codes_type(maker.input[0])
        if maker.op_type == "QuantizeLinear" and len(maker.input) > 2 and maker.input[2]:
            return self.codes_type(maker.input[2])
        if maker.op_type in ("QLinearConv", "QLinearMatMul"):
            return self.codes_type(maker.input[7])
        return TensorProto.UINT8 if maker.op_type in ("QuantizeLinear", "DynamicQuantizeLinear") else None

    def zero_of(self, node, place, scale):
        """The zero point as an array of int8, None where it is computed."""
        name = node.input[place] if place < len(node.input) else ""
        if not name:
            tensor = self.find(node.input[scale], "tensors") if scale is not None else None
            if scale is not None and tensor is None:
                return None
            return np.zeros(tuple(tensor.dims) if tensor is not None else (), np.int8)
        tensor = self.find(name, "tensors")
        return None if tensor is None or tensor.data_type != TensorProto.INT8 else numpy_helper.to_array(tensor)

    def widen(self, node, codes, scale, zero):
        tensor, offsets = self.find(node.input[codes], "tensors"), self.zero_of(node, zero, scale)
        if tensor is None or tensor.data_type != TensorProto.INT8 or offsets is None:
            return
        while len(node.input) <= zero:
            node.input.append("")
        node.input[codes] = self.add((numpy_helper.to_array(tensor).view(np.uint8)) ^ 128)
        node.input[zero] = self.add(offsets.view(np.uint8) ^ 128)

    def beside_uint8(self, value):
        """Is a dequantized weight read by products with dequantized uint8 alone?"""
        readers = self.readers.get(value, [])
        for node, place in readers:
            if node.op_type in PASSED_ON:
                if not self.beside_uint8(node.output[0]):
                    return False
                continue
            maker = self.find(node.input[0], "makers") if node.op_type in FLOAT_PRODUCTS and place == 1 else None
            while maker is not None and maker.op_type in PASSED_ON:
                maker = self.find(maker.input[0], "makers")
            if maker is None or maker.op_type != "DequantizeLinear" or self.codes_type(maker.input[0]) != TensorProto.UINT8:
                return False
        return bool(readers)

    def widen_pair(self, node):
        if any(a.name == "block_size" and a.i for a in node.attribute) or not self.beside_uint8(node.output[0]):
            return
        first = self.find(node.input[0], "makers")
        if first is None or first.op_type != "QuantizeLinear":
            self.widen(node, 0, 1, 2)
        elif len(first.input) > 2 and first.input[2] and len(node.input) > 2:  # codes that are made as the model runs, or as it is loaded
            offsets = self.zero_of(node, 2, 1)
            if offsets is not None and len(self.readers.get(node.input[0], [])) == 1:
                first.input[2] = node.input[2] = self.add(offsets.view(np.uint8) ^ 128)

    def change(self):
        """How many constants it made."""
        inside = 0
        for node in list(self.graph.node):
            for codes, scale, zero, beside in PRODUCTS.get(node.op_type, ()):
                other = node.input[beside] if beside is not None and beside < len(node.input) else ""
                if beside is None or self.codes_type(other or node.input[0]) == TensorProto.UINT8:
                    self.widen(node, codes, scale, zero)
            if node.op_type == "DequantizeLinear":
                self.widen_pair(node)
            for attribute in node.attribute:
                for body in (attribute.g, *attribute.graphs):
                    if body.node:
                        inside += Graph(body, self).change()
        return self.made + inside


def products_of(nodes):
    names = {*PRODUCTS, "DequantizeLinear"}
    return any(n.op_type in names or any(products_of(g.node) for a in n.attribute for g in (a.g, *a.graphs)) for n in nodes)


def names_read(graph):
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from names_read(body)
    yield from (output.name for output in graph.output)


def drop_unread(graph, before):
    """Of the first constants, those that only changed nodes read: the runtime would warn of each."""
    read = {*names_read(graph), *(value.name for value in graph.input)}
    kept = [t for i, t in enumerate(graph.initializer) if i >= before or t.name in read]
    graph.ClearField("initializer")
    graph.initializer.extend(kept)


def exact(model):
    """The path or bytes of a model, or the bytes of one that computes the same with exact products."""
    try:
        loaded = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model, load_external_data=False)
        if not any(products_of(part.node) for part in (loaded.graph, *loaded.functions)):
            return model
        if loaded.functions:
            loaded = onnx.inliner.inline_local_functions(loaded)
        if not isinstance(model, bytes):
            onnx.load_external_data_for_model(loaded, os.path.dirname(os.path.abspath(model)))
    except (DecodeError, OSError, ValueError, onnx.checker.ValidationError):
        return model  # the runtime says what is wrong with it
    if loaded.ir_version < 4:
        return model  # its initializers are inputs
    before = len(loaded.graph.initializer)
    if Graph(loaded.graph).change() == 0:
        return model
    drop_unread(loaded.graph, before)
    return loaded.SerializeToString()


def exact_file(path, beside):
    """`path`, or `beside`, where the model with exact products is written."""
    changed = path if has_vnni() else exact(path)
    if changed is not path:
        with open(beside, "wb") as file:
            file.write(changed)
    return beside if changed is not path else path


class Session(onnxruntime.InferenceSession):
    def __init__(self, model, *args, **named):
        if not has_vnni():
            model = exact(model)
            named.setdefault("disabled_optimizers", []).append("WeightBiasQuantization")  # which makes int8 of float weights between pairs
        super().__init__(model, *args, **named)


def install():
    """Every `onnxruntime.InferenceSession` of this process from now on."""
    onnxruntime.InferenceSession = Session
