"""One operator among others, quantized to int8, and how far the result is from the float model.

    site = Site([node("Conv", ["x", "w"], ["h"]), node("Softmax", ["h"], ["y"])], {"x": (1, 4, 3, 3)}, {"w": array}, opset=12)
    site.quantized(weir, folder, "static", "--format", "qoperator")     path of the result
    site.levels(path)                                                   {"plain": dB, "optimized": dB}: the lowest of the outputs

Ranges are those of the float model's own values, as one run of it gives them; nothing is calibrated.
"""

import json

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

IR = {9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12}
LEVEL = onnxruntime.GraphOptimizationLevel


def node(op, inputs, outputs, name=None, domain="", **attributes):
    return helper.make_node(op, inputs, outputs, name=name or f"n_{outputs[0]}", domain=domain, **attributes)


def session(path, optimized):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = LEVEL.ORT_ENABLE_ALL if optimized else LEVEL.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(path, feeds, optimized=False):
    return session(path, optimized).run(None, feeds)


def decibels(right, seen):
    """Of two outputs: infinite where they are equal, -99 for other dims or types; integers must be equal."""
    if right.shape != seen.shape or right.dtype != seen.dtype:
        return -99.0
    if right.dtype.kind not in "f":
        return np.inf if (right == seen).all() else 0.0
    right, seen = right.astype(np.float64), seen.astype(np.float64)
    if not np.isfinite(seen).all():
        return -99.0
    error = ((right - seen) ** 2).sum()
    return np.inf if error == 0 else 10 * np.log10(((right**2).sum() or 1e-300) / error)


class Site:
    def __init__(self, nodes, inputs, constants=None, opset=17, outputs=("y",), dtype=np.float32, seed=1, feeds=None, domains=()):
        rng = np.random.default_rng(seed)
        kinds = {name: feeds[name].dtype if feeds and name in feeds else np.dtype(dtype) for name in inputs}
        declared = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(kinds[n]), dims) for n, dims in inputs.items()]
        tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
        graph = helper.make_graph(nodes, "g", declared, [helper.make_empty_tensor_value_info(o) for o in outputs], tensors)
        imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
        self.model = helper.make_model(graph, opset_imports=imports, ir_version=IR[opset])
        self.feeds = {n: rng.normal(0, 1, dims).astype(dtype) for n, dims in inputs.items()} | (feeds or {})
        self.outputs = outputs
        known = onnx.shape_inference.infer_shapes(self.model)
        types = {v.name: v for v in [*known.graph.output, *known.graph.value_info]}
        for o in self.model.graph.output:
            if types[o.name].type.HasField("tensor_type"):
                o.CopyFrom(types[o.name])
            else:  # what onnx does not know
                o.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def _values(self):
        """All values that one run gives, by name."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        names = [o for n in model.graph.node for o in n.output if o and o not in self.outputs]
        model.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names)
        found = run_bytes(model, self.feeds)
        return dict(zip([o.name for o in model.graph.output], found, strict=True)) | self.feeds

    def write(self, folder):
        """The model and its ranges in that folder: their paths."""
        values = self._values()
        self.right = [values[o] for o in self.outputs]
        ranges = {n: [float(v.min()), float(v.max())] for n, v in values.items() if v.dtype.kind == "f" and v.size}
        onnx.save(self.model, folder / "site.onnx")
        (folder / "ranges.json").write_text(json.dumps(ranges))
        return folder / "site.onnx", folder / "ranges.json"

    def quantized(self, weir, folder, command, *words):
        """What the command makes of it; `static` gets the ranges. What it says is in `self.said`."""
        source, ranges = self.write(folder)
        given = ["--ranges", ranges] if command == "static" else []
        self.said = weir(command, source, folder / "out.onnx", "--force", *given, *words)
        return folder / "out.onnx"

    def levels(self, path):
        found = {}
        for way in ("plain", "optimized"):
            seen = run(path, self.feeds, way == "optimized")
            found[way] = min(decibels(a, b) for a, b in zip(self.right, seen, strict=True))
        return found


def run_bytes(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = LEVEL.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def operators(path):
    return [n.op_type for n in onnx.load(path).graph.node]
