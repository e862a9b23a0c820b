#!/usr/bin/env python3
"""Models, edit logs and digests that pin what an old version made: tests/data/logs-0.1.0.

    old_logs.py WEIR FOLDER     record them anew, with the program of that version

FOLDER then has, for each case, NAME.edits.jsonl; the models; a manifest with its digests of tensors; the pipelines; and
digests.json: {case: {"model", "output", "files": {name: sha256}}}.

Large weights are in no file of FOLDER. They lie in data files that `lay_out` writes when they are wanted, from a formula
in whole numbers: the same on every machine, and no model is larger than a few kilobytes.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16}
MODELS = ("convolutions", "weights", "halves", "bodies")
PIPELINE = """# every form that options may have
passes:
  - conv2matmul
  - conv2matmul:
      extended-conv1x1: true
      form: "flat"
  - matmulnbits:
      bits: 8
      block_size: 32
      op_types: [MatMul, Gemm]
      exclude:
        - 're:^other'
        - '*table*'
      tensor: 'weight=bits4:g16:sym'
  - cast: {to: float16, min_elements: 64}
"""
ALL_OPS = ["--op-types", "MatMul,Gemm,Gather"]
CASES = {
    "conv2matmul": ("convolutions", ["conv2matmul"]),
    "conv2matmul-flat": ("convolutions", ["conv2matmul", "--extended-conv1x1", "--form", "flat"]),
    "conv2matmul-bodies": ("bodies", ["conv2matmul", "--extended-conv1x1", "--allow-non-unit-dilation"]),
    "quantize": ("weights", ["quantize", "--block-size", "32", *ALL_OPS]),
    "quantize-sym8": ("weights", ["quantize", "--bits", "8", "--symmetric", "--block-size", "64", "--accuracy-level", "4"]),
    "quantize-qdq": ("weights", ["quantize", "--format", "qdq", "--block-size", "16", *ALL_OPS]),
    "quantize-channel": ("halves", ["quantize", "--format", "qdq", "--bits", "8", "--block-size", "channel"]),
    "quantize-rtn": ("weights", ["quantize", "--algorithm", "rtn", "--block-size", "32"]),
    "quantize-k_quant": ("weights", ["quantize", "--algorithm", "k_quant", "--block-size", "32"]),
    "quantize-hqq": ("weights", ["quantize", "--algorithm", "hqq", "--block-size", "64"]),
    "quantize-tensor": ("weights", ["quantize", "--tensor", "weight=bits2:g32:sym", "--exclude", "other", *ALL_OPS]),
    "quantize-gate": ("weights", ["quantize", "--gate", "sqnr=21dB", "--gate", "cosine=0.9", "--block-size", "128"]),
    "quantize-gate-skip": ("weights", ["quantize", "--format", "qdq", "--gate", "sqnr=21dB", "--gate-action", "skip"]),
    "quantize-budget": ("weights", ["quantize", "--budget", "194K", "--candidates", "2:32,4:128,4:32:sym,8:128,4:32:rtn"]),
    "quantize-bodies": ("bodies", ["quantize", "--block-size", "16", *ALL_OPS]),
    "shrink": ("weights", ["run", "--pass", "shrink"]),
    "shrink-dequantize": ("weights", ["run", "--pass", "shrink:form=dequantize"]),
    "shrink-channel": ("weights", ["run", "--pass", "shrink:per_channel=true"]),
    "shrink-half": ("halves", ["run", "--pass", "shrink:per_channel=true,form=dequantize"]),
    "shrink-levels": ("weights", ["run", "--pass", "shrink:method=float_weights,levels=100"]),
    "shrink-f16": ("halves", ["run", "--pass", "shrink:method=f16_to_f32"]),
    "cast": ("weights", ["cast", "--to", "float16"]),
    "cast-clip": ("convolutions", ["cast", "--to", "bfloat16", "--on-overflow", "clip", "--min-elements", "1"]),
    "cast-bodies": ("bodies", ["cast", "--to", "float16", "--min-elements", "1"]),
    "convert": ("weights", ["convert", "--align", "512", "--data-file", "packed.bin"]),
    "convert-inline": ("halves", ["convert", "--inline"]),
    "chain": ("convolutions", ["run", "--pass", "conv2matmul:extended_conv1x1", "--pass", "matmulnbits:block_size=16", "--pass",
                               "cast:to=float16,min_elements=8"]),
    "chain-shrink": ("weights", ["run", "--pass", "conv2matmul", "--pass", "matmulnbits:include=other,format=qdq,block_size=32",
                                 "--pass", "shrink:per_channel", "--pass", "cast:to=bfloat16"]),
    "chain-bodies": ("bodies", ["run", "--pass", "conv2matmul:extended_conv1x1", "--pass", "matmulnbits:block_size=16,format=qdq"]),
    "pipeline": ("weights", ["run", "--config", "pipeline.yaml"]),
}  # fmt: skip
AUDITED = "quantize-qdq"


# ---- weights


def numbers(seed, dims, dtype):
    """Multiples of 1/1024 below 1, and some of four times that; exact in every type."""
    place = np.arange(np.prod(dims, dtype=np.int64), dtype=np.uint64) + np.uint64(1 + (seed << 32))
    with np.errstate(over="ignore"):
        place *= np.uint64(0x9E3779B97F4A7C15)
        place = (place ^ (place >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        place ^= place >> np.uint64(27)
    whole = (place % np.uint64(2001)).astype(np.int64) - 1000
    whole[place % np.uint64(97) == 0] *= 4
    return (whole.astype(np.float64) / 1024).astype(dtype).reshape(dims)


def lay_out(source, folder):
    """Copy a model of MODELS into a folder, and write the data file that it names."""
    path = Path(shutil.copy(source, folder))
    model = onnx.load(path, load_external_data=False)
    for seed, tensor in enumerate(model.graph.initializer):
        place = {entry.key: entry.value for entry in tensor.external_data}
        if place:
            with open(folder / place["location"], "ab") as file:
                assert file.tell() == int(place["offset"])
                file.write(numbers(seed, list(tensor.dims), TYPES[tensor.data_type]).tobytes())
    return path


# ---- models


class Graph:
    """Weights are inline, or in a data file that `lay_out` fills."""

    def __init__(self, data_file=None, kind=TensorProto.FLOAT):
        self.data_file, self.kind, self.end = data_file, kind, 0
        self.nodes, self.inputs, self.outputs, self.tensors, self.functions = [], [], [], [], []

    def tensor(self, name, dims):
        values = numbers(len(self.tensors), dims, TYPES[self.kind])
        held = numpy_helper.from_array(values, name)
        if self.data_file:
            held = TensorProto(name=name, data_type=self.kind, dims=dims, data_location=TensorProto.EXTERNAL)
            for key, value in ("location", self.data_file), ("offset", self.end), ("length", values.nbytes):
                held.external_data.add(key=key, value=str(value))
            self.end += values.nbytes
        self.tensors.append(held)
        return name

    def input(self, name, dims, kind=None):
        self.inputs.append(helper.make_tensor_value_info(name, kind or self.kind, dims))
        return name

    def node(self, op_type, inputs, out, domain="", seen=True, **attributes):
        self.nodes.append(helper.make_node(op_type, inputs, [out], name=f"/{out}", domain=domain, **attributes))
        if seen:
            self.outputs.append(helper.make_tensor_value_info(out, self.kind, None))
        return out

    def model(self, name, opset=17):
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.tensors)
        opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid("local", 1)] * bool(self.functions)
        return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=self.functions)


def convolutions():
    """Pointwise Convs of one to three dimensions, plain and with strides and pads; a shared and a held weight."""
    g = Graph()
    x = g.input("x", ["n", 12, "t"])
    shared = g.tensor("shared", [12, 12, 1])
    x = g.node("Conv", [x, shared, g.tensor("bias", [12])], "first", seen=False)
    x = g.node("Conv", [g.node("Relu", [x], "relu", seen=False), shared], "second")
    held = numpy_helper.from_array(numbers(50, [20, 12, 1], np.float32), "")
    g.nodes.append(helper.make_node("Constant", [], ["held"], value=held))
    g.node("Conv", [x, "held"], "third", strides=[2], pads=[1, 1])
    y = g.input("image", [1, 8, 9, 7])
    g.node("Conv", [y, g.tensor("square", [33, 8, 1, 1])], "fourth", strides=[2, 1])
    g.node("Conv", [y, g.tensor("grouped", [8, 4, 1, 1])], "fifth", group=2)
    g.node("Conv", [y, g.tensor("kernel", [4, 8, 3, 3])], "sixth")
    g.node("Conv", [g.input("cube", ["n", 5, 3, 4, 6]), g.tensor("volume", [7, 5, 1, 1, 1])], "seventh")
    return g.model("convolutions")


def weights():
    """What is quantized, shrunk and cast: MatMul, Gemm, Gather, a tied table, a Conv; some of 16384 elements or more."""
    g = Graph("weights.bin")
    g.node("MatMul", [g.input("x", ["n", 160]), g.tensor("weight", [160, 104])], "product")
    g.node("MatMul", [g.input("x2", ["n", 70]), g.tensor("other", [70, 33])], "product2")
    g.node("Gemm", [g.input("x3", ["n", 96]), g.tensor("gemm", [176, 96]), g.tensor("gemm_bias", [176])], "gemm_out", transB=1)
    ids = g.input("ids", ["n"], TensorProto.INT64)
    g.node("Gather", [g.tensor("table", [40, 128]), ids], "rows")
    g.node("Gather", [g.tensor("tied", [64, 48]), ids], "embedded")
    g.node("Transpose", ["tied"], "turned", seen=False, perm=[1, 0])
    g.node("MatMul", [g.input("x4", ["n", 48]), "turned"], "projected")
    g.node("Conv", [g.input("x5", ["n", 130, "t"]), g.tensor("pointwise", [130, 130, 1]), g.tensor("bias", [130])], "convolved")
    return g.model("weights")


def halves():
    """The same in float16, fewer."""
    g = Graph("halves.data", TensorProto.FLOAT16)
    g.node("MatMul", [g.input("x", ["n", 128]), g.tensor("weight", [128, 136])], "product")
    g.node("MatMul", [g.input("x2", ["n", 70]), g.tensor("other", [70, 33])], "product2")
    g.node("Conv", [g.input("x3", ["n", 32, "t"]), g.tensor("pointwise", [48, 32, 1])], "convolved")
    return g.model("halves", opset=21)


def bodies():
    """Weights in a subgraph, from outside of it, and in a function."""
    g = Graph()
    x, yes = g.input("x", ["n", 12, "t"]), g.input("yes", [], TensorProto.BOOL)
    g.tensor("outer", [14, 12, 1])
    branches = {}
    for seed, name in (60, "then"), (61, "else"):
        nodes = [
            helper.make_node("Conv", [x, "outer"], [f"{name}.a"], name=f"/{name}/outer"),
            helper.make_node("Conv", [f"{name}.a", f"{name}.w"], [f"{name}.b"], name=f"/{name}/own", dilations=[2]),
        ]
        own = numpy_helper.from_array(numbers(seed, [12, 14, 1], np.float32), f"{name}.w")
        result = helper.make_tensor_value_info(f"{name}.b", g.kind, None)
        branches[f"{name}_branch"] = helper.make_graph(nodes, name, [], [result], [own])
    g.node("If", [yes], "chosen", **branches)
    held = numpy_helper.from_array(numbers(62, [32, 40], np.float32), "")
    inner = [helper.make_node("Constant", [], ["w"], value=held), helper.make_node("MatMul", ["a", "w"], ["b"], name="inner")]
    opset = [helper.make_opsetid("", 17)]
    g.functions.append(helper.make_function("local", "Block", ["a"], ["b"], inner, opset))
    g.node("Block", [g.input("z", ["n", 32])], "block", domain="local")
    return g.model("bodies")


# ---- recording


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def outputs(folder):
    """{name: sha256} of the model and data files of a folder that holds nothing else but records."""
    records = (".manifest.json", ".tensors.jsonl", ".edits.jsonl")
    return {path.name: sha256(path) for path in sorted(folder.iterdir()) if not path.name.endswith(records)}


def record(weir, home, case, work):
    """Run one case, put its log into `home`, and give its entry of digests.json."""
    model, (command, *options) = CASES[case]
    source, out = work / "in", work / "out"
    source.mkdir()
    out.mkdir()
    path = lay_out(home / f"{model}.onnx", source)
    options = [home / word if word.endswith(".yaml") else word for word in options]
    log = home / f"{case}.edits.jsonl"
    subprocess.run([weir, command, path, out / "out.onnx", *options, "--edit-log", log, "--tensor-digests", "--quiet"],
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    if case == AUDITED:
        for end in "manifest.json", "tensors.jsonl":
            shutil.copy(out / f"out.onnx.{end}", home / f"out.onnx.{end}")
    return {"model": f"{model}.onnx", "files": outputs(out)}


def main():
    weir, home = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    for name in MODELS:
        onnx.save(globals()[name](), home / f"{name}.onnx")
    (home / "pipeline.yaml").write_text(PIPELINE)
    entries = {}
    for case in CASES:
        with tempfile.TemporaryDirectory() as work:
            entries[case] = record(weir, home, case, Path(work))
    (home / "digests.json").write_text(json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    main()
