"""A wrong rewrite is found: in the output of each pass, or in a line of its log, one thing is wrong (tests/support/mutants.py).

Whatever is altered must be found by the site net, which has to name a group of edits (that of the altered line), except for what
is listed in UNSEEN with the reason; what is altered behind the run, by the audit too. The table of docs/tested/mutations.md says
what was found by what. Ordinarily a few mutants of each pass; with WEIR_TEST_ALL all of them, and the table.
"""

import json
import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mutants
from conftest import ALL, DATA, ended
from test_preprocess import EXPORTS

pytestmark = pytest.mark.in_memory

FEW = 2  # mutants of a pass, in the ordinary run
PAGE = Path(__file__).resolve().parents[2] / "docs" / "tested" / "mutations.md"

BERT = EXPORTS / "bert-eager-torchscript-17.onnx"
LLAMA = EXPORTS / "llama-sdpa-torchscript-14.onnx"
CNN = EXPORTS / "cnn-kept-torchscript-17.onnx"
ENCODER = DATA / "parakeet-dynamo" / "encoder-model.onnx"
TRAINED = DATA / "qat" / "fake_quant.onnx"
RANGES = object()  # of the model, as weir calibrate finds them on inputs that it draws
SMALL = ["--min-elements", "256"]
BLOCKS = ["--block-size", "16"]

# By what the table calls it: the model, or the row that makes it, and the command with its options.
LOWER = ["--pass", r"infer:set-dim=height\=32+width\=32", "--pass", "lower-conv", "--pass", "lower-pooling"]
PASSES = {
    "conv2matmul": (ENCODER, ["conv2matmul"]),
    "conv2matmul --form flat": (ENCODER, ["conv2matmul", "--form", "flat"]),
    "quantize --bits 2": (BERT, ["quantize", "--bits", "2", *BLOCKS]),
    "quantize --bits 4": (BERT, ["quantize", *BLOCKS]),
    "quantize --bits 8": (BERT, ["quantize", "--bits", "8", *BLOCKS]),
    "quantize --symmetric": (BERT, ["quantize", "--symmetric", *BLOCKS]),
    "quantize --format qdq": (BERT, ["quantize", "--format", "qdq", "--opset", "auto", *BLOCKS]),
    "quantize --op-types Gather": (BERT, ["quantize", "--op-types", "Gather", *BLOCKS]),
    "shrink": (BERT, ["shrink", *SMALL]),
    "shrink --per-channel": (BERT, ["shrink", *SMALL, "--per-channel"]),
    "shrink --form dequantize": (BERT, ["shrink", *SMALL, "--form", "dequantize"]),
    "shrink --method float_weights": (BERT, ["shrink", *SMALL, "--method", "float_weights"]),
    "dynamic": (BERT, ["dynamic"]),
    "dynamic --form integer": (BERT, ["dynamic", "--form", "integer"]),
    "static": (CNN, ["static", "--ranges", RANGES]),
    "static --op-types all": (BERT, ["static", "--ranges", RANGES, "--op-types", "all"]),
    "static --format qoperator": (CNN, ["static", "--ranges", RANGES, "--format", "qoperator"]),
    "static --format int32-bias": (BERT, ["static", "--ranges", RANGES, "--format", "int32-bias"]),
    "smooth": (BERT, ["smooth", "--ranges", RANGES]),
    "requantize": (TRAINED, ["requantize"]),
    "requantize --to qoperator": (TRAINED, ["requantize", "--to", "qoperator"]),
    "requantize --format int32-bias": ("static --op-types all", ["requantize", "--format", "int32-bias"]),
    "cast --to float16": (BERT, ["cast", "--to", "float16"]),
    "cast --to bfloat16": (BERT, ["cast", "--to", "bfloat16"]),
    "cast --graph": (BERT, ["cast", "--to", "float16", "--graph"]),
    "fuse": (CNN, ["run", "--pass", "fuse"]),
    "lower": (CNN, ["run", *LOWER]),
    "tidy": (LLAMA, ["run", "--pass", "tidy"]),
    "opset": (LLAMA, ["run", "--pass", "opset:version=24"]),
    "preprocess": (CNN, ["preprocess"]),
    "optimize": (BERT, ["optimize"]),
    "optimize --opset 23": (BERT, ["optimize", "--opset", "23"]),
    "optimize, of a CNN": (CNN, ["optimize"]),
    "optimize --opset 24": (LLAMA, ["optimize", "--opset", "24"]),
    "optimize --goal onnxruntime": (BERT, ["optimize", "--goal", "onnxruntime"]),
    "… of a CNN": (CNN, ["optimize", "--goal", "onnxruntime"]),
    "… of Llama": (LLAMA, ["optimize", "--goal", "onnxruntime"]),
}  # fmt: skip
COLUMNS = ["sign", "exponent", "bias", "codes", "scale", "zero point", "constant", "attribute", "permutation", "rule"]

# What sites do not show: (pass, place), and why.
UNSEEN = {
    ("lower", r"Im2Col.*\.(dilations|kernel_shape|strides)"): "they are for those who read the model: the index says what is computed",
    ("lower", "Conv_index"): "the first window begins in the pads, whose elements are all zero",
    ("static", r"(image|_output_0)_(zero_point|scale)\["): "another range of an activation: numbers are drawn for the range that the model says",
    ("static", r"\.(epsilon|alpha|beta)$|LayerNormalization\.axis"): "where activations are quantized, numbers are held to a cosine and 1 dB",
    ("int32-bias", "Add -> Sub|recipe op"): "the same: a bias that is small beside what it is added to",
    ("requantize", r"DequantizeLinear.*\.axis"): "the node is the source's, what it reads has another name: that it does not run, the model shows",
    ("fuse|preprocess|of a CNN", "recipe op"): "the epsilon of a norm, taken away instead of added, is less than rounding",
}


# Codes go from node to node there, so that groups cannot be told apart by leaving one out.
JOINED = {"static --format qoperator"}
# Whose sites are of several groups, of a weight and of what is beside it.
SEVERAL = {"static", "static --format int32-bias"}


def unseen(name, place):
    return any(re.search(a, name) and re.search(b, place) for a, b in UNSEEN)


@pytest.fixture(scope="module")
def made(weir, module_folder):
    """Runs a pass: the source, and the folder with out.onnx and log.jsonl."""
    done = {}

    def make(name):
        if name not in done:
            source, [command, *words] = PASSES[name]
            if isinstance(source, str):
                source = make(source)[1] / "out.onnx"
            folder = module_folder / str(len(done))
            folder.mkdir()
            if RANGES in words:
                weir("calibrate", source, "-o", folder / "ranges.jsonl", "--generate", "2", "--statistics", "channel")
                words = [folder / "ranges.jsonl" if w is RANGES else w for w in words]
            out = ["--output", folder / "out.onnx"] if command == "shrink" else [folder / "out.onnx"]
            weir(command, source, *out, *words, "--edit-log", folder / "log.jsonl")
            done[name] = source, folder
        return done[name]

    return make


def all_mutants(source, folder):
    result = onnx.load(folder / "out.onnx")
    return [*mutants.of_output(onnx.load(source), result), *mutants.of_log((folder / "log.jsonl").read_text())]


def sample(list_of_all, n):
    """A few, of different columns as far as there are."""
    by_kind = {}
    for mutant in list_of_all:
        by_kind.setdefault(mutant.kind, []).append(mutant)
    picked = [kind[len(kind) // 2] for kind in by_kind.values()]
    return picked[:: max(1, -(-len(picked) // n))]


@pytest.mark.parametrize("name", PASSES)
def test_what_is_wrong_is_found(weir, made, pool, tmp_path, name):
    source, folder = made(name)
    failed, not_verified = mutants.sites(weir, source, folder / "out.onnx", folder / "log.jsonl")
    assert failed == [] and not_verified <= 1  # the control: nothing is wrong
    list_of_all = all_mutants(source, folder)
    some = list_of_all if ALL else sample(list_of_all, FEW)
    found = pool.map(lambda each: mutants.judge(weir, source, folder, each[1], tmp_path / str(each[0]), by_sites_alone=True), enumerate(some))
    seen = 0
    for mutant, said in zip(some, found):
        if said is None or unseen(name, mutant.place):
            continue
        seen += 1
        told = f"{mutant.kind} of {mutant.place}"
        assert said.get("structure") or said.get("sites"), f"nothing finds the {told}: {said}"
        rows = said.get("sites")
        if isinstance(rows, list) and rows:
            # Of an altered line it is the group of that line; what became of another type alone has none, but its passes. Of a weight
            # in a site of several groups, the weight is named.
            faults = [row["fault"] for row in rows if row["fault"]]
            if not faults and name in SEVERAL and all(row["why"].startswith("the weight '") for row in rows):
                continue
            assert faults or name in JOINED or (not mutant.group and all(row["of"] for row in rows)), f"no group is named for the {told}"
            # The body of a function is seen where it is called.
            called = mutant.place.startswith("inject-ops") or name in JOINED
            assert called or not mutant.group or any(f"group {mutant.group} " in fault for fault in faults), (told, mutant.group, faults)
    assert seen > 0


def cell(kind, judged):
    """How many mutants of a column there were, and which nets found every one of them."""
    of = [said for mutant, said in judged if mutant.kind == kind and said is not None]
    nets = [net for net in mutants.NETS if of and all(said.get(net) for said in of)]
    some = [net for net in mutants.NETS if any(said.get(net) for said in of)]
    return f"{len(of)}: {', '.join(nets) or ' or '.join(some)}" if of else ""


def without_model(text):
    return re.sub(r"(, | or )model", "", text)


def table(weir, made, pool, folder):
    """The table of docs/tested/mutations.md."""
    yield "| pass | " + " | ".join(COLUMNS) + " |"
    yield "|---|" + "---|" * len(COLUMNS)
    for name in PASSES:
        source, run = made(name)
        some = all_mutants(source, run)
        found = list(pool.map(lambda each: mutants.judge(weir, source, run, each[1], folder / str(each[0])), enumerate(some)))
        judged = [(mutant, said) for mutant, said in zip(some, found) if not unseen(name, mutant.place)]
        yield f"| `{name}` | " + " | ".join(cell(kind, judged) for kind in COLUMNS) + " |"


@pytest.mark.skipif(not ALL, reason="a minute and a half: tools/test --all")
def test_the_table_of_the_page(weir, made, pool, tmp_path):
    """What whole models show beside sites depends on the runtime and is left out of the comparison."""
    lines = list(table(weir, made, pool, tmp_path))
    if os.environ.get("WEIR_WRITE_TABLE"):
        Path(os.environ["WEIR_WRITE_TABLE"]).write_text("\n".join(lines) + "\n")
    page = without_model(PAGE.read_text())
    for line in lines:
        assert without_model(line) in page, line


def test_the_audit_finds_any_byte(weir, made, tmp_path):
    """Of a re-pack (equality) and of what was computed: one bit, anywhere in the file."""
    for name in ("conv2matmul", "quantize --bits 4"):
        source, folder = made(name)
        size = (folder / "out.onnx").stat().st_size
        for part in (0.2, 0.5, 0.99):
            bad = tmp_path / f"{name[:4]}-{part}"
            bad.mkdir()
            for path in folder.glob("out.onnx*"):
                (bad / path.name).write_bytes(path.read_bytes())
            content = bytearray((bad / "out.onnx").read_bytes())
            content[int(size * part)] ^= 1
            (bad / "out.onnx").write_bytes(content)
            assert weir("audit", bad / "out.onnx", code=None).code != 0


# ---- wrong rewrites that agree nearly everywhere ---------------------------------------------------------------------


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name, array, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(array, dtype), name)


def normal(*dims):
    return np.random.default_rng(3).normal(size=dims).astype(np.float32)


NODE = helper.make_node
# Nodes, constants, the type of x; and the edit that a wrong rule makes of the first or second node.
FOOLED = {
    "a Transpose of a square matrix": ([NODE("Transpose", ["x"], ["y"], perm=[1, 0])], [], [5, 5], {"edit": "node.set_attr", "node": "g0/n0", "attr": "perm", "value": {"ints": [0, 1]}}),
    "two equal dims swapped": ([NODE("Transpose", ["x"], ["y"], perm=[0, 2, 1, 3])], [], [1, 4, 4, 3], {"edit": "node.set_attr", "node": "g0/n0", "attr": "perm", "value": {"ints": [0, 1, 2, 3]}}),
    "the axis of a Softmax over equal dims": ([NODE("Softmax", ["x"], ["y"], axis=2)], [], [1, 6, 6], {"edit": "node.set_attr", "node": "g0/n0", "attr": "axis", "value": {"int": 1}}),
    "a batch taken for the axis behind it": ([NODE("Softmax", ["x"], ["y"], axis=0)], [], ["batch", 1, 3], {"edit": "node.set_attr", "node": "g0/n0", "attr": "axis", "value": {"int": 1}}),
    "batch and time swapped": ([NODE("Transpose", ["x"], ["t"], perm=[1, 0, 2]), NODE("Reshape", ["t", "s"], ["y"])], [constant("s", [-1, 4], np.int64)], ["batch", "time", 4], {"edit": "node.set_attr", "node": "g0/n0", "attr": "perm", "value": {"ints": [0, 1, 2]}}),
    "the slope of a LeakyRelu": ([NODE("LeakyRelu", ["x"], ["y"], alpha=0.01)], [], [3, 4], {"edit": "node.set_attr", "node": "g0/n0", "attr": "alpha", "value": {"float": 0.0101}}),
    "the approximation of a Gelu": ([NODE("Gelu", ["x"], ["y"])], [], [3, 40], {"edit": "node.set_attr", "node": "g0/n0", "attr": "approximate", "value": {"string": "tanh"}}),
    "an epsilon ten times as large": ([NODE("LayerNormalization", ["x", "g"], ["y"], epsilon=1e-3)], [constant("g", normal(8))], [3, 8], {"edit": "node.set_attr", "node": "g0/n0", "attr": "epsilon", "value": {"float": 0.01}}),
    "alpha of a Gemm": ([NODE("Gemm", ["x", "g"], ["y"], alpha=1.0)], [constant("g", normal(4, 4))], [3, 4], {"edit": "node.set_attr", "node": "g0/n0", "attr": "alpha", "value": {"float": 1.001}}),
    "a ceiling of a pool": ([NODE("MaxPool", ["x"], ["y"], kernel_shape=[3], strides=[2])], [], [1, 2, 8], {"edit": "node.set_attr", "node": "g0/n0", "attr": "ceil_mode", "value": {"int": 1}}),
    "what a pool counts": ([NODE("AveragePool", ["x"], ["y"], kernel_shape=[3], pads=[1, 1])], [], [1, 2, 8], {"edit": "node.set_attr", "node": "g0/n0", "attr": "count_include_pad", "value": {"int": 1}}),
    "the last of equal maxima": ([NODE("ArgMax", ["x"], ["y"], axis=1)], [], [3, 64], {"edit": "node.set_attr", "node": "g0/n0", "attr": "keepdims", "value": {"int": 0}}),
}  # fmt: skip
# What cannot be seen, and why: docs/verify.md.
NOT_SEEN = {
    "an epsilon that rounding hides": ([NODE("LayerNormalization", ["x", "g"], ["y"], epsilon=1e-12)], [constant("g", normal(8))], [3, 8], {"edit": "node.set_attr", "node": "g0/n0", "attr": "epsilon", "value": {"float": 1e-10}}),
    "which of equal maxima": ([NODE("ArgMax", ["x"], ["y"], axis=1)], [], [3, 64], {"edit": "node.set_attr", "node": "g0/n0", "attr": "select_last_index", "value": {"int": 1}}),
}  # fmt: skip


def fooled(weir, folder, case):
    """How many sites fail of a log whose one edit is wrong."""
    nodes, constants, shape, edit = case
    model = helper.make_model(helper.make_graph(nodes, "g", [value("x", shape)], [helper.make_empty_tensor_value_info("y")], constants), opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
    model.graph.output[0].CopyFrom(value("y", None, TensorProto.INT64 if nodes[-1].op_type == "ArgMax" else TensorProto.FLOAT))
    onnx.save(model, folder / "m.onnx")
    weir("run", folder / "m.onnx", folder / "same.onnx", "--pass", "tidy/identity", "--edit-log", folder / "log.jsonl")
    head = (folder / "log.jsonl").read_text().splitlines()[0]
    group = {"edit": "group", "group": 1, "pass": "tidy/identity", "site": "g0/n0", "reason": "wrong"}
    (folder / "wrong.jsonl").write_text(ended("".join(line + "\n" for line in (head, json.dumps(group), json.dumps(edit)))))
    failed, more = mutants.sites(weir, folder / "m.onnx", None, folder / "wrong.jsonl")
    assert failed is not None and more == 0, more
    return failed


@pytest.mark.parametrize("name", FOOLED)
def test_wrong_rules_do_not_fool_sites(weir, tmp_path, name):
    [row] = fooled(weir, tmp_path, FOOLED[name])
    assert row["fault"] == "group 1 (tidy/identity)"


@pytest.mark.parametrize("name", NOT_SEEN)
def test_what_is_not_seen(weir, tmp_path, name):
    """The control of the page: what it says cannot be found is not."""
    assert fooled(weir, tmp_path, NOT_SEEN[name]) == []
