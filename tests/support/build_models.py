"""The models on which compare_builds.py runs two programs: all that the tests have, by name.

`MODELS[name](folder)` writes a model into an empty folder and gives the path of its .onnx file. What it writes is a
function of the name alone. Four sources:

  files       tests/data, the corpus of the fuzzer of models, the models inside installed packages
  encoders    make_encoder.py in narrow shapes: each layout, opset and float type
  weights     made here: for each float type a model with a weight of every shape, use and kind of numbers that the passes
              tell apart (weights_model), and small ones around one situation each
  situations  conv_matrix.py, random_convs.py, sampler.py, chain.py, wide.py, bad_models.py
"""

import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import bad_models
import chain
import conv_matrix
import installed
import make_encoder
import random_convs
import sampler
import wide

TESTS = Path(__file__).resolve().parent.parent
MODELS = {}
FLOATS = {
    "float": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "double": np.dtype(np.float64),
}
RANDOM_GRAPHS = 40


# ---- files


def copied(source, whole_folder=True):
    """A model file, with what lies beside it if that belongs to it."""

    def make(folder):
        for path in sorted(source.parent.iterdir()) if whole_folder else [source]:
            shutil.copyfile(path, folder / path.name)
        return folder / source.name

    return make


def add_files():
    for name in "parakeet-dynamo", "parakeet-torchscript":
        MODELS[name] = copied(TESTS / "data" / name / "encoder-model.onnx")
    MODELS["tied"] = copied(TESTS / "data" / "tied" / "model.onnx")
    for path in sorted((TESTS / "fuzz" / "corpus" / "fuzz_model").glob("*.onnx")):
        MODELS[f"corpus-{path.stem}"] = copied(path, whole_folder=False)


def add_packages():
    """What is installed of tests/requirements-models.txt; gives the names of packages that are not."""
    missing = []
    for package in installed.PACKAGE_MODELS:
        try:
            for path in installed.package_models(package):
                MODELS[f"{package}-{path.stem}"] = copied(path, whole_folder=False)
        except AssertionError:
            missing.append(package)
    return missing


# ---- encoders


def encoder(**how):
    def make(folder):
        make_encoder.make_encoder(folder / "encoder.onnx", **how)
        return folder / "encoder.onnx"

    return make


def retyped_tensor(tensor, kind):
    numbers = numpy_helper.to_array(tensor)
    return numpy_helper.from_array(numbers.astype(FLOATS[kind]), tensor.name)


def retyped_encoder(kind, external):
    """The small encoder with another float type everywhere: weights, constants, Casts, inputs and outputs."""

    def make(folder):
        number = helper.np_dtype_to_tensor_dtype(FLOATS[kind])
        path = Path(folder, "encoder.onnx")
        make_encoder.make_encoder(path, size=2_000_000, sidecar="inline", opset=22)
        model = onnx.load(path)
        for tensor in model.graph.initializer:
            if tensor.data_type == TensorProto.FLOAT:
                tensor.CopyFrom(retyped_tensor(tensor, kind))
        for node in model.graph.node:
            for attribute in node.attribute:
                if attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                    attribute.i = number
                if attribute.HasField("t") and attribute.t.data_type == TensorProto.FLOAT:
                    attribute.t.CopyFrom(retyped_tensor(attribute.t, kind))
        for value in [*model.graph.input, *model.graph.output]:
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = number
        save(model, path, external)
        return path

    return make


def add_encoders():
    small = {"size": 2_000_000}
    MODELS["encoder"] = encoder(**small)
    MODELS["encoder-inline"] = encoder(**small, sidecar="inline", seed=1)
    MODELS["encoder-files"] = encoder(**small, sidecar="per-tensor", seed=2)
    MODELS["encoder-opset13"] = encoder(**small, opset=13, data_name="encoder.onnx_data")
    MODELS["encoder-opset21"] = encoder(**small, opset=21, frames=96)
    MODELS["encoder-wide"] = encoder(shape=make_encoder.Shape(layers=1, d_model=256, ff=1024, channels=64), opset=21)
    MODELS["encoder-layer"] = encoder(shape=make_encoder.Shape(layers=1))  # three units of output
    MODELS["encoder-full"] = encoder()
    for kind in "float16", "bfloat16":
        MODELS[f"encoder-{kind}"] = retyped_encoder(kind, external=True)
        MODELS[f"encoder-{kind}-inline"] = retyped_encoder(kind, external=False)


# ---- weights


def save(model, path, external=False):
    """Write a model, its large tensors in one data file beside it if `external`."""
    path = Path(path)
    if external:
        onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=1024)
    else:
        onnx.save(model, path)
    return path


class Weights:
    """A graph in which every weight is used once or more, each by an input of its own."""

    def __init__(self, kind, seed=7):
        self.dtype, self.numbers = FLOATS[kind], np.random.default_rng(seed)
        self.elem = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.nodes, self.inputs, self.outputs, self.tensors, self.functions = [], [], [], [], []

    def normal(self, *dims):
        return self.numbers.standard_normal(dims).astype(np.float32)

    def tensor(self, name, values):
        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(values).astype(self.dtype), name))
        return name

    def input(self, name, dims, elem=None):
        self.inputs.append(helper.make_tensor_value_info(name, elem or self.elem, dims))
        return name

    def output(self, name, elem=None):
        self.outputs.append(helper.make_tensor_value_info(name, elem or self.elem, None))
        return name

    def node(self, op_type, inputs, name, **attributes):
        self.nodes.append(helper.make_node(op_type, inputs, [f"y_{name}"], name=name, **attributes))
        return self.output(f"y_{name}")

    def matmul(self, name, values):
        x = self.input(f"x_{name}", ["n", values.shape[-2]])
        self.node("MatMul", [x, self.tensor(name, values)], f"mm_{name}")

    def model(self, opset=21, imports=()):
        graph = helper.make_graph(self.nodes, "weights", self.inputs, self.outputs, self.tensors)
        opsets = [helper.make_opsetid("", opset), *imports]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=self.functions)


def add_numbers(w):
    """MatMuls: every kind of numbers, odd and even sizes, more than one rank."""
    w.matmul("normal", w.normal(300, 70))
    w.matmul("thin", w.normal(33, 5))
    w.matmul("positive", np.abs(w.normal(256, 40)) + np.float32(0.5))
    w.matmul("negative", -np.abs(w.normal(100, 24)) - np.float32(0.5))
    w.matmul("spiky", w.normal(512, 64) ** 5)
    w.matmul("zeros", np.zeros((64, 32), np.float32))
    w.matmul("equal", np.full((140, 130), 0.37, np.float32))
    w.matmul("halves", w.numbers.integers(-8, 8, (160, 128)).astype(np.float32) / 2)
    w.matmul("tiny", w.normal(128, 160) * np.float32(1e-6))
    w.matmul("column", w.normal(700, 1))
    w.matmul("row", w.normal(1, 90))
    w.matmul("leading", w.normal(1, 1, 96, 48))
    w.matmul("stack", w.normal(3, 40, 48))
    w.matmul("tall", w.normal(3000, 7))
    w.matmul("flat", w.normal(17, 1100))


def add_uses(w):
    """Gemm, Gather, Conv and sharing: the ways by which a weight can be met."""
    w.node("Gemm", [w.input("x_gemm", ["n", 96]), w.tensor("gemm", w.normal(40, 96)), w.tensor("gemm_c", w.normal(40))], "gemm_b", transB=1)
    w.node("Gemm", [w.input("x_gemm2", ["n", 150]), w.tensor("gemm2", w.normal(150, 120))], "gemm_plain")
    w.node("Gemm", [w.input("x_gemm3", [64, 3]), w.tensor("gemm3", w.normal(64, 48))], "gemm_a", transA=1, alpha=0.5)
    w.input("ids", ["n"], TensorProto.INT64)
    w.node("Gather", [w.tensor("table", w.normal(64, 512)), "ids"], "rows")
    w.node("Gather", [w.tensor("table100", w.normal(50, 100)), "ids"], "rows100")
    w.node("Gather", ["table", "ids"], "columns", axis=1)
    w.tensor("tied", w.normal(400, 48))
    w.node("Gather", ["tied", "ids"], "embed")
    w.nodes.append(helper.make_node("Transpose", ["tied"], ["tied_t"], perm=[1, 0]))
    w.node("MatMul", [w.input("x_tied", ["n", 48]), "tied_t"], "project")
    for name in "first", "second":
        w.node("MatMul", [w.input(f"x_{name}", ["n", 300]), "normal"], f"again_{name}")
    w.node("Conv", [w.input("x_conv", [1, 48, 33]), w.tensor("conv", w.normal(64, 48, 1)), w.tensor("conv_b", w.normal(64))], "pointwise")
    w.node("Conv", [w.input("x_conv2", [1, 130, 5, 9]), w.tensor("conv2", w.normal(140, 130, 1, 1))], "pointwise2", strides=[2, 1])
    w.node("Conv", [w.input("x_conv3", [1, 32, 40]), w.tensor("conv3", w.normal(200, 32, 3))], "kernel3")
    values = numpy_helper.from_array(w.normal(192, 100).astype(w.dtype), "")
    w.nodes.append(helper.make_node("Constant", [], ["held"], value=values))
    w.node("MatMul", [w.input("x_held", ["n", 192]), "held"], "mm_held")
    w.nodes.append(helper.make_node("Identity", ["spiky"], ["spiky_same"]))
    w.node("MatMul", [w.input("x_same", ["n", 512]), "spiky_same"], "mm_same")


def branch(w, name, dims):
    """A body of If with a weight of its own and one from outside."""
    nodes = [
        helper.make_node("MatMul", ["x_body", f"w_{name}"], [f"m_{name}"], name=f"/{name}/mm"),
        helper.make_node("MatMul", [f"m_{name}", "outer"], [f"o_{name}"], name=f"/{name}/outer"),
    ]
    result = helper.make_tensor_value_info(f"o_{name}", w.elem, None)
    values = numpy_helper.from_array(w.normal(*dims).astype(w.dtype), f"w_{name}")
    return helper.make_graph(nodes, name, [], [result], [values])


def add_bodies(w):
    """Weights in subgraphs and in a function."""
    w.input("x_body", ["n", 130])
    w.input("yes", [], TensorProto.BOOL)
    w.tensor("outer", w.normal(136, 64))
    then, other = branch(w, "then", (130, 136)), branch(w, "else", (130, 136))
    w.node("If", ["yes"], "choice", then_branch=then, else_branch=other)
    held = numpy_helper.from_array(w.normal(64, 260).astype(w.dtype), "")
    body = [
        helper.make_node("Constant", [], ["w"], value=held),
        helper.make_node("MatMul", ["a", "w"], ["b"], name="inner"),
    ]
    w.functions.append(helper.make_function("local", "Block", ["a"], ["b"], body, [helper.make_opsetid("", 21)]))
    w.node("Block", [w.input("x_block", ["n", 64])], "block", domain="local")


def weights_model(kind, external=False, opset=21):
    def make(folder):
        w = Weights(kind)
        add_numbers(w)
        add_uses(w)
        add_bodies(w)
        return save(w.model(opset, [helper.make_opsetid("local", 1)]), Path(folder, "weights.onnx"), external)

    return make


def spoiled_model(kind, value):
    """Two good weights around one with a number that cannot be quantized or cast."""

    def make(folder):
        w = Weights(kind)
        w.matmul("good", w.normal(160, 128))
        bad = w.normal(160, 130)
        bad[77, 5] = value
        w.matmul("bad", bad)
        w.matmul("other", w.normal(96, 200))
        return save(w.model(), Path(folder, "spoiled.onnx"))

    return make


def shape_model(rows, columns):
    def make(folder):
        wide.write_model(folder / "wide.onnx", rows, columns)
        return folder / "wide.onnx"

    return make


def add_weights():
    for kind in FLOATS:
        MODELS[f"weights-{kind}"] = weights_model(kind)
        MODELS[f"weights-{kind}-external"] = weights_model(kind, external=True)
    MODELS["weights-opset17"] = weights_model("float", opset=17)
    MODELS["weights-opset25"] = weights_model("float", external=True, opset=25)
    for name, value in {"nan": np.nan, "inf": np.inf, "large": 1e30, "above-half": 70000.0}.items():
        MODELS[f"spoiled-{name}"] = spoiled_model("float", value)
    MODELS["spoiled-half-nan"] = spoiled_model("float16", np.nan)
    for rows, columns in (64, 40000), (40000, 64), (1500, 1500), (3, 200001), (100003, 5):
        MODELS[f"wide-{rows}x{columns}"] = shape_model(rows, columns)


# ---- situations


def saved(model):
    return lambda folder: save(model() if callable(model) else model, Path(folder, "model.onnx"))


def written(content):
    def make(folder):
        Path(folder, "model.onnx").write_bytes(content())
        return Path(folder, "model.onnx")

    return make


def chained(count):
    def make(folder):
        chain.make_chain(folder / "chain.onnx", count)
        return folder / "chain.onnx"

    return make


def small_bad_cases():
    """Without those whose outputs, or inputs, are gigabytes; and without those that only ordinary users meet."""
    return [case for case in bad_models.cases() if not (case.large or case.needs_user or case.name == "file-sparse")]


def add_situations():
    for case in conv_matrix.special():
        MODELS[f"special-{case.name}"] = saved(case.model)
    for case in conv_matrix.matrix():
        MODELS[f"matrix-{case.name}"] = saved(case.model)
    for seed in range(RANDOM_GRAPHS):
        MODELS[f"random-{seed}"] = saved(lambda seed=seed: random_convs.random_model(seed)[0])
    MODELS["sampler"] = written(sampler.everything)
    MODELS["sampler-known"] = written(lambda: sampler.everything(False))
    MODELS["payloads"] = written(sampler.every_payload)
    MODELS["chain"] = chained(3000)
    for case in small_bad_cases():
        MODELS[f"bad-{case.name}"] = case.make


def add_all():
    """Fill MODELS; gives the names of packages whose models are missing."""
    add_files()
    add_encoders()
    add_weights()
    add_situations()
    return add_packages()
